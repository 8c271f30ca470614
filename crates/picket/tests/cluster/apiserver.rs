//! Everything here starts an API server.

mod answers;
mod refusals;
mod words;
