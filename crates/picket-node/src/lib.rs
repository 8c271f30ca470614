//! The agent of a node: a live cluster, enforced.
//!
//! ```text
//! API server ──▶ source ──▶ Knowledge ──▶ Program ──▶ Host ──▶ table in the kernel
//!                (a thread)      └────── Enforcer ──┬───┘  ▲
//!                                          │        │    └── others that change it, and the node's routes
//!                                          │        └──▶ vpp::Targets (a thread each) ──▶ VPP
//!                                            ├──▶ Status, Metrics ──▶ serve (a thread)
//!                                            └──▶ Events (a thread) ──▶ API server
//! ```
//!
//! One thread follows the cluster, one enforces, one answers those who ask how it goes, one writes Events on objects. The one that
//! enforces never waits for the others: whatever happens, it makes the kernel's table what the policies say, in one transaction, and when it cannot,
//! the rules that were there stay and [`Status`] says why.

mod agent;
mod blame;
mod bridges;
mod cut;
mod denied;
mod drift;
mod drops;
mod enforcer;
mod error;
mod events;
mod grace;
mod host;
mod inbox;
mod kernel;
mod kinds;
mod knowledge;
mod ledger;
mod live;
mod metrics;
mod objects;
mod overview;
pub mod pods;
mod queue;
mod reflect;
mod remarks;
mod retry;
mod serve;
mod settings;
mod source;
mod status;
#[cfg(test)]
mod testing;
mod trace;
mod uplinks;
mod versions;
mod vpp;

pub use agent::{Ended, Extent, run};
pub use error::{AgentError, HostError};
pub use host::{CleanUp, clean_up};
pub use live::{LiveError, installed_table};
pub use pods::{PodSettings, PodsStatus, SandboxStatus};
pub use queue::{Inbox, Outbox, channel};
pub use reflect::{reflect, reflect_difference, reflect_once};
pub use serve::{
    Answer, Door, Listen, Pulse, Respond, answer_at, ask, fetch_status, json, not_listed, plain, serve,
    trace, typed,
};
pub use settings::{Settings, Source, UntilSynced};
pub use source::{Following, start as follow};
pub use status::{
    Drop, DropStatus, Finding, HostStatus, KindStatus, Pods, Proof, ReflectionStatus, Status, Trouble,
};
pub use trace::{Trace, TraceQuestion, TracedConnection, TracedPacket};
pub use versions::PolicyVersions;
pub use vpp::{
    Claims, InstalledLists, InstalledRules, NamespaceRule, NatLoopback, Pattern, PendingPod, PodRule,
    RuleError, Template, VppSettings, VppStatus, VppTarget, clean_up_vpp, installed_lists, installed_rules,
};
