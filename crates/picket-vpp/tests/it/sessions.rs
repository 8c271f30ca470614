//! Connections through the session layers of a cluster, one VPP for each of its nodes.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{Endpoint, Flow, Pod, Snapshot};
use picket_engine::Program;
use picket_net::{Family, Protocol};
use picket_policy::ObjectRef;
use picket_vpp::session::meaning::{Connection, Table};
use picket_vpp::session::verify::Except;
use picket_vpp::session::{Action, Options, SessionRule, SessionRules, Transport, render, text};
use smol_str::SmolStr;

use crate::journey::nodes;

/// The tables of one list of rules, each rule added in the order that `shuffle` gives.
pub(crate) struct Tables(BTreeMap<(Transport, Family), Table>);

impl Tables {
    pub(crate) fn new(rules: &[SessionRule], seed: u64) -> Self {
        let mut rules: Vec<_> = rules.iter().collect();
        shuffle(&mut rules, seed);
        let kinds = Transport::BOTH
            .into_iter()
            .flat_map(|transport| Family::BOTH.map(|family| (transport, family)));
        Self(
            kinds
                .map(|(transport, family)| {
                    (
                        (transport, family),
                        Table::new(transport, family, rules.iter().copied()),
                    )
                })
                .collect(),
        )
    }

    pub(crate) fn decide(&self, connection: &Connection) -> bool {
        self.0[&(connection.transport, Family::of(connection.remote))].decide(connection) == Action::Allow
    }
}

/// Another order for every seed; for 0 that in which they are.
fn shuffle<T>(items: &mut [T], mut seed: u64) {
    if seed == 0 {
        return;
    }
    for end in (1..items.len()).rev() {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        items.swap(end, usize::try_from(seed >> 33).expect("31 bits") % (end + 1));
    }
}

/// The session layer of one node.
pub(crate) struct Layer {
    pub(crate) rules: SessionRules,
    /// The pods whose tables had no room.
    pub(crate) narrower: BTreeSet<ObjectRef>,
    local: BTreeMap<ObjectRef, Tables>,
    global: Tables,
}

impl Layer {
    fn new(program: &Program, node: Option<&str>, options: &Options, seed: u64) -> Self {
        let (rules, missing) = render(program, node, options);
        let narrower = missing.into_iter().map(|missing| missing.pod).collect();
        Self::of(rules, narrower, seed)
    }

    /// One with these rules.
    pub(crate) fn of(rules: SessionRules, narrower: BTreeSet<ObjectRef>, seed: u64) -> Self {
        let local = rules.local.iter();
        Self {
            narrower,
            local: local
                .map(|(pod, rules)| (pod.clone(), Tables::new(rules, seed)))
                .collect(),
            global: Tables::new(&rules.global, seed),
            rules,
        }
    }
}

impl Layer {
    /// Of which pods less is proved.
    pub(crate) fn except(&self) -> Except {
        Except {
            narrower: self.narrower.clone(),
            ..Except::default()
        }
    }
}

/// The session layers of a cluster.
pub(crate) struct Sessions<'a> {
    snapshot: &'a Snapshot,
    pub(crate) layers: BTreeMap<Option<SmolStr>, Layer>,
}

/// The port that connections are opened from.
pub(crate) const SOURCE_PORT: u16 = 40_000;

/// The pods at the ends of a flow, and what the first opens.
struct Ends<'a> {
    from: Option<&'a Pod>,
    to: Option<&'a Pod>,
    opened: Connection,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) passes: bool,
    /// Whether a table on its way had no room.
    pub(crate) narrower: bool,
}

impl<'a> Sessions<'a> {
    /// The layers of a program that knows the snapshot, their rules added in the order that `seed` gives.
    pub(crate) fn of(snapshot: &'a Snapshot, program: &Program, options: &Options, seed: u64) -> Self {
        let layer = |node: &Option<SmolStr>| Layer::new(program, node.as_deref(), options, seed);
        Self {
            snapshot,
            layers: nodes(snapshot)
                .into_iter()
                .map(|node| (node.clone(), layer(&node)))
                .collect(),
        }
    }

    /// Every rule, for people.
    pub(crate) fn text(&self) -> String {
        self.layers.values().map(|layer| text(&layer.rules)).collect()
    }

    fn pod(&self, end: &Endpoint) -> Option<&'a Pod> {
        let Endpoint::Pod(object) = end else { return None };
        let pod = self.snapshot.pods.get(object).map(|pod| &**pod);
        pod.filter(|pod| !pod.host_network)
    }

    fn node(&self, pod: &Pod) -> Option<SmolStr> {
        pod.node.clone().filter(|_| !self.snapshot.nodes.is_empty())
    }

    /// The ends of a flow; `None` of one that passes no session layer that is known.
    fn ends(&self, flow: &Flow) -> Option<Ends<'a>> {
        let transport = match flow.protocol {
            Protocol::TCP => Transport::Tcp,
            Protocol::UDP => Transport::Udp,
            _ => return None,
        };
        let (from, to) = (self.pod(&flow.source), self.pod(&flow.destination));
        let runs = |pod: Option<&Pod>| pod.is_none_or(|pod| self.layers.contains_key(&self.node(pod)));
        if (from, to) == (None, None) || !runs(from) || !runs(to) {
            return None;
        }
        let address = |end: &Endpoint| match end {
            Endpoint::Pod(object) => self.snapshot.pods[object].addresses.of(flow.family),
            Endpoint::Node { address, .. } | Endpoint::External(address) => Some(*address),
        };
        let (source, destination) = (address(&flow.source)?, address(&flow.destination)?);
        // The address that nobody has is in no rule about parts of all addresses.
        if source.is_unspecified() || destination.is_unspecified() {
            return None;
        }
        let opened = Connection {
            transport,
            local: source,
            remote: destination,
            local_port: SOURCE_PORT,
            remote_port: flow.port,
        };
        Some(Ends { from, to, opened })
    }

    /// What becomes of a flow; `None` of one that passes no session layer that is known.
    pub(crate) fn judge(&self, flow: &Flow) -> Option<Outcome> {
        let Ends { from, to, opened } = self.ends(flow)?;
        let mut outcome = Outcome {
            passes: true,
            narrower: false,
        };
        if let Some(from) = from {
            let layer = &self.layers[&self.node(from)];
            outcome.narrower |= layer.narrower.contains(&from.object);
            outcome.passes &= layer.local[&from.object].decide(&opened);
        }
        let same_node = from
            .zip(to)
            .is_some_and(|(from, to)| self.node(from) == self.node(to));
        if let Some(to) = to.filter(|_| !same_node) {
            let layer = &self.layers[&self.node(to)];
            outcome.narrower |= layer.narrower.contains(&to.object);
            outcome.passes &= layer.global.decide(&Connection {
                local: opened.remote,
                remote: opened.local,
                local_port: opened.remote_port,
                remote_port: opened.local_port,
                ..opened
            });
        }
        Some(outcome)
    }

    /// Whether what looks like an answer to a flow gets to the pod that began it: it does where that could open the connection,
    /// and is judged as what begins one otherwise. `None` where no pod of a known layer began it.
    pub(crate) fn is_answered(&self, flow: &Flow) -> Option<bool> {
        let Ends { from, opened, .. } = self.ends(flow)?;
        let from = from?;
        let layer = &self.layers[&self.node(from)];
        // VPP looks for the connection before it asks the global table.
        Some(layer.local[&from.object].decide(&opened) || layer.global.decide(&opened))
    }
}
