//! What the policies of secondary networks say of each pod.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_cluster::{Pod, Semantics, Snapshot};
use picket_dataplane::{EstablishedConnections, Shortfall};
use picket_engine::{Engine, PodRef, Program};
use picket_net::AddressSet;
use picket_nftables::custom::{self, CustomRules};
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::render::documented::{self, Options, PodView, PolicyOnPod, ResolvedSide};
use picket_policy::{Direction, NetworkName, ObjectRef, Tier};

use super::plugin::Plugins;
use crate::denied::Denied;

/// What is to be in force in a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Desired {
    /// The rules; none where no policy applies.
    pub(super) table: Option<Arc<Table>>,
    /// The policies that apply.
    pub(super) policies: Vec<ObjectRef>,
    /// What cannot be enforced.
    pub(super) trouble: Option<String>,
    /// Whether the policies cannot be said, and what they are about is closed instead.
    pub(super) is_closed: bool,
    /// The directions, ingress first, in which the rules may let pass less than the policies.
    pub(super) narrower: [bool; 2],
}

impl Desired {
    /// The policies which the rules enforce.
    pub(super) fn enforced(&self) -> &[ObjectRef] {
        if self.is_closed { &[] } else { &self.policies }
    }

    /// Whether there are no rules that could be in force, though policies apply.
    pub(super) fn is_unsayable(&self) -> bool {
        self.table.is_none() && !self.policies.is_empty()
    }
}

/// The networks that pods of the node are on, each as a cluster of its own.
pub(super) struct Networks {
    semantics: Semantics,
    /// Whether TCP in the middle of connections that nobody knows is refused, so that connections can be cut.
    refuse_mid_stream: bool,
    /// The netlink group to which rules log what policies drop, if they do.
    log_denied: Option<u16>,
    compiled: BTreeMap<NetworkName, Compiled>,
    custom: Vec<CustomRules>,
    /// What people may not expect of the networks that policies name.
    notes: Vec<String>,
}

struct Compiled {
    snapshot: Snapshot,
    engine: Engine,
    /// The same where custom rules are policies like others, once somebody asks.
    judged: OnceCell<Box<(Snapshot, Engine)>>,
}

impl Networks {
    /// None yet. TCP in the middle of connections that nobody knows is refused where connections are cut; what policies drop is
    /// logged to a netlink group, if there is one.
    pub(super) fn new(
        semantics: Semantics,
        established: EstablishedConnections,
        log_denied: Option<u16>,
    ) -> Self {
        Self {
            semantics,
            refuse_mid_stream: established == EstablishedConnections::Cut,
            log_denied,
            compiled: BTreeMap::new(),
            custom: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// What people may not expect of the networks of pods that policies name.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Compiles anew what has changed on the networks of `pods` that policies name, if their plugins are policed.
    pub(super) fn update(
        &mut self,
        snapshot: &Snapshot,
        pods: &[&Arc<Pod>],
        plugins: &Plugins,
        custom: Vec<CustomRules>,
    ) {
        if self.custom != custom {
            self.custom = custom;
            let compiled = self.compiled.values_mut();
            compiled.for_each(|compiled| compiled.judged = OnceCell::new());
        }
        let policies = snapshot.policies.values();
        let named: BTreeSet<_> = policies.flat_map(|policy| policy.networks.attached()).collect();
        let attached = pods.iter().flat_map(|pod| &pod.attachments);
        let of_pods: BTreeSet<_> = attached.map(|attachment| &attachment.network).collect();
        let mut before = std::mem::take(&mut self.compiled);
        let used: Vec<_> = of_pods
            .into_iter()
            .filter(|network| named.contains(network))
            .collect();
        let note = |network: &&NetworkName| plugins.note(network, snapshot.networks.contains(*network));
        self.tell(used.iter().filter_map(note).collect());
        for network in used.into_iter().filter(|network| plugins.police(network)) {
            let seen = snapshot.on(network);
            let compiled = match before.remove(network) {
                Some(compiled) if compiled.snapshot == seen => compiled,
                _ => Compiled {
                    engine: Engine::compile(&seen, self.semantics.clone()),
                    snapshot: seen,
                    judged: OnceCell::new(),
                },
            };
            self.compiled.insert(network.clone(), compiled);
        }
    }

    /// Logs notes that are new, once.
    fn tell(&mut self, notes: Vec<String>) {
        for note in notes.iter().filter(|note| !self.notes.contains(note)) {
            tracing::warn!("{note}");
        }
        self.notes = notes;
    }

    /// The networks as clusters of their own, in which custom rules are policies like others.
    pub(super) fn judged(&self) -> impl Iterator<Item = (&Snapshot, &Engine)> {
        self.compiled.values().map(|compiled| {
            if self.custom.is_empty() {
                return (&compiled.snapshot, &compiled.engine);
            }
            let (snapshot, engine) = &**compiled.judged.get_or_init(|| {
                let mut snapshot = compiled.snapshot.clone();
                custom::add(&self.custom, &mut snapshot, "");
                let engine = Engine::compile(&snapshot, self.semantics.clone());
                Box::new((snapshot, engine))
            });
            (snapshot, engine)
        })
    }

    /// The netlink group to which rules log what policies drop, if they do.
    pub(super) fn log_denied(&self) -> Option<u16> {
        self.log_denied
    }

    /// The custom rules, in the order in which they are judged.
    pub(super) fn custom(&self) -> &[CustomRules] {
        &self.custom
    }

    /// Whether TCP in the middle of connections that nobody knows is refused.
    pub(super) fn refuses_mid_stream(&self) -> bool {
        self.refuse_mid_stream
    }

    /// Over which of its interfaces a pod may not do what a rule has logged: the network with its program, where the interface is
    /// an endpoint. `None` where no rule of the pod logs with this prefix.
    pub(super) fn over(
        &self,
        pod: &Pod,
        denied: &Denied,
        prefix: &str,
    ) -> Option<(&NetworkName, &Program, PodRef<'_>)> {
        let logs = |name: &str| {
            let name = InterfaceName::new(name);
            let prefix_over = |name| documented::log_prefix(denied.direction(), &name, denied.is_audited());
            name.is_some_and(|name| prefix_over(name).as_str() == prefix)
        };
        let mut attachments = pod.attachments.iter();
        let attachment = attachments.find(|attachment| logs(&attachment.interface))?;
        let (network, compiled) = self.compiled.get_key_value(&attachment.network)?;
        let program = compiled.engine.program();
        let own = program.pods().find(|endpoint| {
            let interface = endpoint.pod().interface.as_ref();
            interface.is_some_and(|own| own.pod == pod.object && own.name == attachment.interface)
        })?;
        Some((network, program, own))
    }

    /// What is to be in force in a pod of the node.
    pub(super) fn desired(&self, pod: &Pod) -> Desired {
        let mut view = PodView {
            pod: pod.object.clone(),
            interfaces: Vec::new(),
            // No kubelet reaches a pod over a secondary network.
            own_node: AddressSet::empty(),
            policies: Vec::new(),
        };
        let mut troubles = Vec::new();
        for compiled in self.compiled.values() {
            if let Err(name) = view.attach(compiled.engine.program()) {
                let name = name.escape_debug();
                troubles.push(format!(
                    "`{name}` in its annotation `network-status` is no name of an interface"
                ));
            }
        }
        if view.policies.is_empty() {
            return Desired {
                trouble: joined(troubles),
                ..Desired::default()
            };
        }
        let options = Options {
            accept_icmp: self.semantics.accept_icmp,
            accept_icmpv6: self.semantics.accept_icmpv6,
            custom: self.custom.clone(),
            refuse_mid_stream: self.refuse_mid_stream,
            count_drops: true,
            log_denied: self.log_denied,
        };
        let policies = view.policies.iter().map(|policy| policy.object.clone()).collect();
        let (table, is_closed, narrower) = match documented::render(&view, &options) {
            Ok((table, shortfalls)) => {
                let narrower = Direction::BOTH.map(|side| shortfalls.iter().any(|one| one.direction == side));
                troubles.extend(shortfalls.iter().map(|shortfall| {
                    let Shortfall {
                        policy,
                        what,
                        instead,
                        ..
                    } = shortfall;
                    format!("{policy}: {what}; {instead}")
                }));
                (Some(table), false, narrower)
            }
            Err(error) => {
                troubles.push(format!("{error}; it is closed instead"));
                let closed = documented::render(&closed(view), &options);
                (closed.ok().map(|(table, _)| table), true, [true; 2])
            }
        };
        Desired {
            table: table.map(Arc::new),
            policies,
            trouble: joined(troubles),
            is_closed,
            narrower,
        }
    }
}

fn joined(troubles: Vec<String>) -> Option<String> {
    (!troubles.is_empty()).then(|| troubles.join("; "))
}

/// The pod with nothing allowed where policies restrict it: one policy stands for all that cannot be said.
fn closed(mut view: PodView) -> PodView {
    let isolates = |direction: Direction| {
        let mut policies = view.policies.iter();
        ResolvedSide {
            isolates: policies.any(|policy| policy.side(direction).isolates),
            ..ResolvedSide::default()
        }
    };
    let (ingress, egress) = (isolates(Direction::Ingress), isolates(Direction::Egress));
    let interfaces: BTreeSet<_> = view
        .policies
        .iter()
        .filter(|policy| policy.ingress.isolates || policy.egress.isolates)
        .flat_map(|policy| &policy.interfaces)
        .collect();
    let one = view.policies.first().map(|policy| PolicyOnPod {
        object: policy.object.clone(),
        tier: Tier::NetworkPolicy,
        interfaces: interfaces.into_iter().cloned().collect(),
        ingress,
        egress,
    });
    view.policies = one.into_iter().collect();
    view
}
