//! OpenStack Neutron as a [`Cloud`](crate::Cloud).
//!
//! - [`Neutron`]: what reads, plans and does.
//! - [`State`]: what Neutron has, kept as it is after each step.
//! - [`NeutronStep`]: a step of a plan, with the names that it needs.
//! - [`InstalledNeutron`]: what there is, for whoever only looks.
//! - [`PortRule`]: by what the ports of a pod are found.

mod apply;
mod capability;
mod cloud;
mod failure;
mod live;
mod ports;
mod state;
mod step;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use picket_neutron::client::{self, Observer, Operation, Options, Outcome, TlsError};
use picket_neutron::plan::ForeignGroups;
use smol_str::SmolStr;

pub use live::InstalledNeutron;
pub use ports::{PortRule, PortRuleError};
pub use state::{Done, State};
pub use step::NeutronStep;

use crate::gate::Gate;

/// How Neutron is used.
#[derive(Clone, Debug)]
pub struct NeutronSettings {
    /// The tag of all groups of this cluster, with which their names begin.
    pub cluster: SmolStr,
    /// By what the ports of pods are found, in order.
    pub port_by: Vec<PortRule>,
    /// What becomes of groups of others on ports of pods.
    pub foreign_groups: ForeignGroups,
    /// How ports are attached at which groups are known to be enforced.
    pub enforced_vnic_types: BTreeSet<SmolStr>,
    /// How it is called.
    pub options: Options,
}

/// A Neutron that enforces for the ports of pods.
pub struct Neutron {
    client: client::Neutron,
    settings: NeutronSettings,
}

impl Neutron {
    /// The Neutron of a cloud, whose calls ask `gate`. Nothing is asked yet.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub fn new(cloud: client::Cloud, settings: NeutronSettings, gate: Gate) -> Result<Self, TlsError> {
        let client = client::Neutron::new(cloud, settings.options, Arc::new(gate))?;
        Ok(Self { client, settings })
    }
}

impl Observer for Gate {
    fn called(&self, operation: Operation, outcome: Outcome, took: Duration) {
        Gate::called(self, operation.label(), outcome.label(), took);
    }

    fn permits(&self, _: Operation, limit: Duration) -> bool {
        Gate::permits(self, limit)
    }

    fn is_patient(&self) -> bool {
        Gate::is_patient(self)
    }
}
