//! Everything here starts an API server.

mod agent;
mod alone;
mod answers;
mod audited;
mod beside;
mod changes;
mod chart;
mod cut;
mod denied;
mod deploy;
mod enforce;
mod events;
mod follow;
mod guard;
mod hostile;
mod never_open;
mod outages;
mod refusals;
mod refused;
mod secondary;
mod trace;
mod words;
