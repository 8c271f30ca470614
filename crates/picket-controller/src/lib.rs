//! The controller of a cloud: a live cluster, enforced by what enforces for the ports of its pods.
//!
//! ```text
//! API server ──▶ source ──▶ Knowledge ──▶ Program ──▶ render ──▶ Objects ──┐
//!                (a thread)                                                ├──▶ Cloud::plan ──▶ Cloud::apply ──▶ cloud
//!                                                cloud ──▶ Cloud::read ────┘                        ▲
//! API server ◀──▶ Keeper (a thread) ──▶ Lease ──▶ Gate: may a call begin? ──────────────────────────┘
//!                       Controller ──┬──▶ Status, Metrics ──▶ serve (a thread)
//!                                    └──▶ Publisher (a thread) ──▶ annotations and states in the API server
//! ```
//!
//! One thread follows the cluster, one keeps the Lease, one answers those who ask how it goes, one writes what others read in
//! the cluster, and one enforces. What the cloud is, and how it is spoken to, is behind [`Cloud`].

mod answers;
mod backoff;
mod clock;
mod cloud;
mod controller;
mod error;
mod gate;
mod knowledge;
mod lease;
mod metrics;
mod neutron;
mod progress;
mod publish;
mod run;
mod settings;
mod status;
mod stop;
mod sync;
#[cfg(test)]
mod testing;

pub use cloud::{Cloud, Failure, Plan, Reason, Step, Wanted};
pub use error::ControllerError;
pub use gate::Gate;
pub use lease::{Lease, LeaseSettings};
pub use neutron::{
    Done as NeutronDone, InstalledNeutron, Neutron, NeutronSettings, NeutronStep, PortRule, PortRuleError,
    State as NeutronState,
};
pub use picket_node::Extent;
pub use publish::PublishSettings;
pub use run::{Ended, run};
pub use settings::{Settings, Timing};
pub use status::{FailureStatus, LeaseStatus, PolicyState, SharedGroup, Status, UnenforcedPort};
