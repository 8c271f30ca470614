//! The nftables target: a ruleset as typed values ([`model`]), its text and JSON forms ([`print`]).

pub mod model;
pub mod print;
