//! What a Neutron has, read once by whoever changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use picket_engine::{PodRef, Program};
use picket_neutron::plan::{Id, Installed};
use picket_neutron::verify::{InstalledPorts, Report, verify_installed};
use picket_neutron::{Options, Rendered};
use picket_policy::ObjectRef;
use tokio::runtime::Builder;

use super::Neutron;
use super::ports::Ports;
use super::state::State;
use crate::ControllerError;
use crate::clock::Clock;
use crate::cloud::{Cloud, Wanted};
use crate::gate::Gate;
use crate::lease::Lease;
use crate::metrics::Metrics;

/// What a Neutron has, as it was read, and which ports there are whose.
pub struct InstalledNeutron {
    neutron: Neutron,
    state: State,
}

impl InstalledNeutron {
    /// Reads it. `connect` gives the Neutron: its [`Gate`] lets no call begin that changes anything.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(
        connect: impl FnOnce(Gate) -> Result<Neutron, ControllerError>,
    ) -> Result<Self, ControllerError> {
        let gate = Gate::new(Lease::of_nobody(Clock::of_machine()), Metrics::default());
        let neutron = connect(gate)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ControllerError::Start)?;
        let state = runtime.block_on(neutron.read()).map_err(ControllerError::Read)?;
        Ok(Self { neutron, state })
    }

    /// All that was read: names in rules are ids.
    pub fn installed(&self) -> &Installed {
        &self.state.installed
    }

    /// What groups depend on, where this Neutron can do less than was asked for.
    pub fn options(&self, options: &Options) -> Options {
        Cloud::options(&self.neutron, &self.state, options)
    }

    /// The ports of each pod that policies can be about.
    pub fn ports(&self, program: &Program) -> BTreeMap<ObjectRef, BTreeSet<Id>> {
        let pods = program.pods().filter(PodRef::is_managed);
        let pods = pods.map(|pod| &pod.pod().object);
        Ports::find(&self.neutron.settings.port_by, &self.state.ports, program, pods).of
    }

    /// Those ports among everything there is.
    pub fn with<'a>(&'a self, ports: &'a BTreeMap<ObjectRef, BTreeSet<Id>>) -> InstalledPorts<'a> {
        InstalledPorts {
            installed: &self.state.installed,
            ports,
            enforced_vnic_types: &self.neutron.settings.enforced_vnic_types,
        }
    }

    /// Holds what there is against what a program demands. Shows at most `limit` connections.
    pub fn verify(
        &self,
        ports: &BTreeMap<ObjectRef, BTreeSet<Id>>,
        program: &Program,
        options: &Options,
        limit: usize,
    ) -> Report {
        verify_installed(self.with(ports), program, options, limit)
    }

    /// What is to be known about pods besides: what no group can do anything about, as ports at which none counts.
    pub fn remarks(
        &self,
        ports: &BTreeMap<ObjectRef, BTreeSet<Id>>,
        rendered: &Rendered,
        program: &Program,
    ) -> Vec<String> {
        let (held_groups, held_pods, held_ports) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let plan = self.neutron.plan(
            &self.state,
            &Wanted {
                objects: &rendered.objects,
                program,
                held_groups: &held_groups,
                held_removals: &held_groups,
                held_pods: &held_pods,
                held_ports: &held_ports,
                emptied: &held_ports,
            },
        );
        let pending = plan.pending.iter();
        let pending = pending.map(|pod| format!("nothing is proved of {pod}: it has no port (--port-by)"));
        pending
            .chain(plan.unenforced.into_values())
            .chain(self.unread(ports))
            .collect()
    }

    /// What of groups on ports of pods cannot be read.
    fn unread(&self, ports: &BTreeMap<ObjectRef, BTreeSet<Id>>) -> Vec<String> {
        let installed = &self.state.installed;
        let ports = ports.values().flatten();
        let ports = ports.filter_map(|id| installed.ports.get(id));
        let used: BTreeSet<&Id> = ports.flat_map(|port| &port.security_groups).collect();
        let mut found = Vec::new();
        for id in used {
            let Some(group) = installed.security_groups.get(id) else {
                found.push(format!(
                    "group {id} cannot be read: it may let everything pass, or nothing"
                ));
                continue;
            };
            if !group.stateful {
                found.push(format!(
                    "group {id} ({}) keeps no state: what answers its connections may not pass",
                    group.name
                ));
            }
            for (rule, _) in group.rules.iter().filter(|(_, rule)| rule.known().is_none()) {
                found.push(format!("rule {rule} of group {id} ({}) is none that picket writes: it may let everything pass, or nothing", group.name));
            }
        }
        found
    }
}
