//! The nftables target: a ruleset as typed values ([`model`]), its text and JSON forms ([`mod@print`]) and the way
//! back from a listing ([`parse`]), the layouts ([`render`]), the way from one ruleset to another ([`diff`]), and what a ruleset does with packets ([`meaning`]).

pub mod diff;
pub mod meaning;
pub mod model;
pub mod parse;
pub mod print;
pub mod render;
