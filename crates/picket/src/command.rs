//! The subcommands: for each its arguments and `run`.

pub(crate) mod agent;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod controller;
pub(crate) mod diff;
pub(crate) mod eval;
pub(crate) mod explain;
pub(crate) mod lab;
pub(crate) mod man;
pub(crate) mod matrix;
pub(crate) mod reflect;
pub(crate) mod render;
pub(crate) mod status;
pub(crate) mod test;
pub(crate) mod trace;
pub(crate) mod verify;
