//! Who can talk to whom: verdicts, connectivity maps and their presentation.
//!
//! Pure: questions and compiled policies in, values out. What is written goes to any [`std::io::Write`]; nothing here
//! opens, reads or prints anything.
//!
//! - [`directory`]: what people call the endpoints of a cluster, and what they may have meant.
//! - [`eval`]: one question about one connection, and its answer with causes; batches of them.
//! - [`finding`]: diagnostics as JSON.
//! - [`map`]: everything that is allowed between all endpoints at once.

pub mod directory;
pub mod eval;
pub mod finding;
pub mod map;
