//! The nftables target: a ruleset as typed values ([`model`]), its text and JSON forms ([`print`]), the layouts
//! ([`render`]), and what a ruleset does with packets ([`meaning`]).

pub mod meaning;
pub mod model;
pub mod print;
pub mod render;
