//! Everything here starts an API server.

mod answers;
mod changes;
mod follow;
mod outages;
mod refusals;
mod words;
