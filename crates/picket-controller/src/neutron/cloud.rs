//! Reading, planning and doing, as the controller asks for it.

use std::collections::{BTreeMap, BTreeSet};

use picket_neutron::client::{Error, Filter, Port};
use picket_neutron::plan::{self, Finding, Held, Installed};
use picket_neutron::{Name, Options, Remote, node_addresses};
use picket_policy::ObjectRef;
use smol_str::SmolStr;

use super::Neutron;
use super::capability::{self, QUOTA_DETAILS};
use super::ports::Ports;
use super::state::{Done, State};
use super::step::{NeutronStep, steps};
use crate::cloud::{Cloud, Failure, Plan, Wanted};

/// How many objects are asked for by their ids at once: a longer address is too long for servers.
const IDS: usize = 50;

impl Neutron {
    /// Reads the groups that ports have and the address groups that rules are about, of which nothing is known yet.
    ///
    /// They belong to other projects. What may not be read stays unknown.
    async fn complete(&self, state: &mut State) -> Result<(), Error> {
        let known = &state.installed.security_groups;
        let groups = state.ports.values().flat_map(|port| &port.security_groups);
        let missing: BTreeSet<SmolStr> = groups.filter(|id| !known.contains_key(*id)).cloned().collect();
        for filter in by_ids(&missing) {
            for group in self.client.security_groups(&filter).await? {
                state.add_group(group);
            }
        }
        if !state.has_address_groups {
            return Ok(());
        }
        let rules = state
            .installed
            .security_groups
            .values()
            .flat_map(|group| group.rules.values());
        let meant = rules.filter_map(|rule| match &rule.known()?.remote {
            Remote::AddressGroup(id) => Some(id),
            _ => None,
        });
        let known = &state.installed.address_groups;
        let missing: BTreeSet<SmolStr> = meant.filter(|id| !known.contains_key(*id)).cloned().collect();
        for filter in by_ids(&missing) {
            for group in self.client.address_groups(&filter).await? {
                state.add_address_group(group);
            }
        }
        Ok(())
    }

    async fn of_project(&self) -> Result<Filter, Error> {
        Ok(Filter {
            project: self.client.project().await?,
            ..Filter::default()
        })
    }

    fn take_ports(state: &mut State, ports: Vec<Port>) {
        state.ports.clear();
        state.installed.ports.clear();
        for port in ports {
            state.add_port(port);
        }
        state.name_groups();
    }
}

fn by_ids(ids: &BTreeSet<SmolStr>) -> Vec<Filter> {
    let ids: Vec<_> = ids.iter().cloned().collect();
    let filters = ids.chunks(IDS).map(|ids| Filter {
        ids: ids.to_vec(),
        ..Filter::default()
    });
    filters.collect()
}

impl Cloud for Neutron {
    type State = State;
    type Step = NeutronStep;
    type Done = Done;

    async fn read(&self) -> Result<State, Failure> {
        let extensions = self.client.extensions().await?;
        capability::check(&extensions)?;
        let filter = self.of_project().await?;
        let has_address_groups = capability::has_address_groups(&extensions);
        let quotas = async {
            match &filter.project {
                Some(project) if extensions.contains(QUOTA_DETAILS) => self.client.quotas(project).await,
                _ => Ok(BTreeMap::new()),
            }
        };
        let address_groups = async {
            match has_address_groups {
                true => self.client.address_groups(&filter).await,
                false => Ok(Vec::new()),
            }
        };
        let (groups, address_groups, ports, quotas) = tokio::try_join!(
            self.client.security_groups(&filter),
            address_groups,
            self.client.ports(&filter),
            // It says how much there may be; not to know it is no reason to enforce nothing.
            async { Ok(quotas.await.unwrap_or_default()) },
        )?;
        let mut state = State {
            cluster: self.settings.cluster.clone(),
            installed: Installed::default(),
            ports: BTreeMap::new(),
            groups: BTreeMap::new(),
            created: BTreeMap::new(),
            has_address_groups,
            unseen: capability::unseen(&extensions),
            quotas,
            counted: (0, 0),
        };
        for group in groups {
            state.add_group(group);
        }
        for group in address_groups {
            state.add_address_group(group);
        }
        Self::take_ports(&mut state, ports);
        state.count();
        self.complete(&mut state).await?;
        Ok(state)
    }

    async fn find(&self, state: &mut State, _: &BTreeSet<ObjectRef>) -> Result<(), Failure> {
        let filter = self.of_project().await?;
        let ports = self.client.ports(&filter).await?;
        Self::take_ports(state, ports);
        self.complete(state).await?;
        Ok(())
    }

    fn options(&self, state: &State, options: &Options) -> Options {
        Options {
            address_groups: options.address_groups && state.has_address_groups,
            ..options.clone()
        }
    }

    fn plan(&self, state: &State, wanted: &Wanted<'_>) -> Plan<NeutronStep> {
        let found = Ports::find(
            &self.settings.port_by,
            &state.ports,
            wanted.program,
            wanted.objects.ports.keys(),
        );
        let (owners, ports) = (found.owners(), &found.of);
        let held_ports = wanted.held_pods.iter().filter_map(|pod| ports.get(pod));
        let held_ports = held_ports.flatten().chain(wanted.held_ports);
        let held = Held {
            groups: wanted.held_groups.clone(),
            removals: wanted.held_removals.clone(),
            ports: held_ports.cloned().collect(),
            emptied: wanted.emptied.clone(),
        };
        let installed = self.concerned(state, &owners);
        let planned = plan::plan(
            &installed,
            &plan::Wanted {
                objects: wanted.objects,
                ports,
                cluster: &self.settings.cluster,
                foreign_groups: self.settings.foreign_groups,
                enforced_vnic_types: &self.settings.enforced_vnic_types,
                nodes: &node_addresses(wanted.program).collect(),
                held: &held,
            },
        );
        let mut plan = Plan {
            notes: capability::shortages(state, wanted.objects)
                .into_iter()
                .chain(found.disputes())
                .chain(state.unseen.iter().cloned())
                .collect(),
            waiting: planned.waiting.clone(),
            emptied: planned.emptied.clone(),
            ..Plan::default()
        };
        for finding in &planned.findings {
            let pod = finding.pod().clone();
            match finding {
                Finding::Pending { .. } => _ = plan.pending.insert(pod),
                finding => {
                    if finding.leaves_out() {
                        plan.left_out.insert(pod.clone());
                    }
                    let why: &mut String = plan.unenforced.entry(pod).or_default();
                    if !why.is_empty() {
                        why.push_str("; ");
                    }
                    why.push_str(&finding.to_string());
                }
            }
        }
        plan.stages = steps(planned, &owners);
        plan
    }

    async fn apply(&self, state: &State, step: &NeutronStep) -> Result<Done, Failure> {
        self.carry_out(state, step).await
    }

    fn note(&self, state: &mut State, step: &NeutronStep, done: Done) {
        state.note(step, done);
    }

    fn id_of(&self, state: &State, group: &Name) -> Option<String> {
        state.groups.get(group).map(ToString::to_string)
    }
}

impl Neutron {
    /// What a plan depends on: of ports those that are a pod's, or have a group of ours.
    fn concerned(&self, state: &State, owners: &BTreeMap<SmolStr, ObjectRef>) -> Installed {
        let groups = &state.installed.security_groups;
        let is_ours = |id: &SmolStr| {
            let group = groups.get(id);
            group.is_some_and(|group| group.belongs_to(&self.settings.cluster))
        };
        let mut installed = state.installed.clone();
        installed
            .ports
            .retain(|id, port| owners.contains_key(id) || port.security_groups.iter().any(is_ours));
        installed
    }
}
