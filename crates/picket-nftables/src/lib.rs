//! The nftables target: a ruleset as typed values ([`model`]), its text and JSON forms ([`print`]), and what it does
//! with packets ([`meaning`]).

pub mod meaning;
pub mod model;
pub mod print;
