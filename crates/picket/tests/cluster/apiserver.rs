//! Everything here starts an API server, or an etcd that holds what one says.

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
mod etcd;
mod events;
mod follow;
mod guard;
mod hostile;
mod never_open;
mod outages;
mod reflect;
mod refusals;
mod refused;
mod secondary;
mod sources;
mod trace;
mod vpp;
mod words;
