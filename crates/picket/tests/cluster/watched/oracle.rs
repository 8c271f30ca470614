//! What may pass in which epoch: what the specification says of every state of the cluster that the rules may be those of.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeBounds;
use std::sync::Arc;

use picket_cluster::{Addresses, Endpoint, Flow, Namespace, Node, Pod, Semantics, Snapshot};
use picket_net::{Family, Protocol};
use picket_nftables::custom;
use picket_policy::{Labels, NetworkName, ObjectRef, Policy};
use picket_reference::judge;

use super::flows::{Passage, Spoken, Way, address_of};
use crate::prober::object;

/// Who judges packets.
#[derive(Clone, Debug)]
pub(crate) enum Judge {
    /// A node, both ends at once of those that are its pods. Whose these are their addresses say, and which are nodes.
    Node(String),
    /// Every pod its own end on a secondary network, each as of another time. Who is at the other its address says. Others take the
    /// rules of one of them away.
    Pods { network: NetworkName, flushed: String },
}

/// Whether packets may leave one end of a way, and whether they may enter the other.
type Ends = [bool; 2];

/// What becomes another.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Namespace(Namespace),
    Node(Node),
    Pod(Arc<Pod>),
    Policy(Arc<Policy>),
    NoPolicy(ObjectRef),
}

/// The kinds of objects. An agent hears of changes of one in their order, and of changes of two in any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Namespaces,
    Nodes,
    Pods,
    Policies,
    Tiers,
    /// A file of custom rules.
    File(ObjectRef),
}

impl Kind {
    /// That of a policy.
    fn of(policy: &ObjectRef) -> Self {
        match policy.namespace.is_empty() {
            true if policy.kind == custom::KIND => Self::File(policy.clone()),
            true => Self::Tiers,
            false => Self::Policies,
        }
    }
}

impl Change {
    fn kind(&self) -> Kind {
        match self {
            Self::Namespace(_) => Kind::Namespaces,
            Self::Node(_) => Kind::Nodes,
            Self::Pod(_) => Kind::Pods,
            Self::Policy(policy) => Kind::of(&policy.object),
            Self::NoPolicy(policy) => Kind::of(policy),
        }
    }

    fn apply(&self, snapshot: &mut Snapshot) {
        match self {
            Self::Namespace(namespace) => {
                snapshot
                    .namespaces
                    .insert(namespace.name.clone(), namespace.clone());
            }
            Self::Node(node) => {
                snapshot.nodes.insert(node.name.clone(), node.clone());
            }
            Self::Pod(pod) => {
                snapshot.pods.insert(pod.object.clone(), Arc::clone(pod));
            }
            Self::Policy(policy) => {
                snapshot
                    .policies
                    .insert(policy.object.clone(), Arc::clone(policy));
            }
            Self::NoPolicy(policy) => {
                snapshot.policies.remove(policy);
            }
        }
    }
}

/// What is known of an epoch.
struct Epoch {
    /// Which ways some state that the rules may be those of allows.
    may: Vec<Ends>,
    /// Which ways every such state allows.
    must: Vec<Ends>,
    /// The epoch that began when what is denied was cut the last time.
    cut: usize,
    /// Whether others have taken the rules away, and nobody has had the time to put them back.
    is_window: bool,
    /// Connections that were asked for before this epoch, when there were no rules, may be there still.
    left: Option<usize>,
    /// Whether what was allowed may be lost, since an agent found no rules, or another program makes some.
    is_closed: bool,
}

/// What the oracle says about a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// Some state that may have been in force allows it.
    Allowed,
    /// None does, but there may have been no rules.
    Window,
    /// None does, but there were no rules when the connection may have begun, and it is not known to be gone yet.
    Left,
    /// None does.
    Denied,
}

/// Knows in which states the cluster may be for an agent.
pub(crate) struct Oracle {
    judge: Judge,
    /// Every way over each family.
    flows: Vec<WayOver>,
    /// What was said of states.
    said: BTreeMap<Facts, Vec<Ends>>,
    /// All policies that have been, so that no two are at one place in memory.
    policies: Vec<Arc<Policy>>,
    /// What is in force for certain, but for what is pending.
    certain: Snapshot,
    /// What is or will be asked for, and may be in force, in order.
    pending: BTreeMap<Kind, Vec<Change>>,
    may: Vec<Ends>,
    must: Vec<Ends>,
    epochs: Vec<Epoch>,
    cut: usize,
    is_window: bool,
    left: Option<usize>,
    is_closed: bool,
    /// Whether any part of what is pending may be in force.
    is_in_parts: bool,
}

impl Oracle {
    /// Begins epoch 0, in which this is in force.
    pub(crate) fn new(judge: Judge, snapshot: &Snapshot, ways: &[Way]) -> Self {
        let mut oracle = Self {
            flows: ways
                .iter()
                .flat_map(|way| judge.over_both(way, snapshot))
                .collect(),
            judge,
            said: BTreeMap::new(),
            policies: snapshot.policies.values().cloned().collect(),
            certain: snapshot.clone(),
            pending: BTreeMap::new(),
            may: Vec::new(),
            must: Vec::new(),
            epochs: Vec::new(),
            cut: 0,
            is_window: false,
            left: None,
            is_closed: false,
            is_in_parts: false,
        };
        oracle.may = oracle.verdicts(snapshot);
        oracle.must = oracle.may.clone();
        oracle.begin();
        oracle
    }

    /// Begins the next epoch.
    fn begin(&mut self) {
        self.epochs.push(Epoch {
            may: self.may.clone(),
            must: self.must.clone(),
            cut: self.cut,
            is_window: self.is_window,
            left: self.left,
            is_closed: self.is_closed,
        });
    }

    /// The cluster as it is when everything has happened that is asked for.
    pub(crate) fn now(&self) -> Snapshot {
        let mut now = self.certain.clone();
        for change in self.pending.values().flatten() {
            change.apply(&mut now);
        }
        now
    }

    /// How many changes may or may not be in force.
    pub(crate) fn pending(&self) -> usize {
        self.pending.values().map(Vec::len).sum()
    }

    /// From the next epoch on, which begins, this may be in force.
    pub(crate) fn change(&mut self, change: Change) {
        let kind = change.kind();
        if let Change::Policy(policy) = &change {
            self.policies.push(Arc::clone(policy));
        }
        self.pending.entry(kind.clone()).or_default().push(change);
        for state in self.states_with(&kind) {
            let said = self.verdicts(&state);
            self.add(&said);
        }
        self.begin();
    }

    /// A state that says this may be in force too.
    fn add(&mut self, said: &[Ends]) {
        let ways = self.may.iter_mut().zip(&mut self.must);
        for ((may, must), [leaves, enters]) in ways.zip(said) {
            *may = [may[0] || *leaves, may[1] || *enters];
            *must = [must[0] && *leaves, must[1] && *enters];
        }
    }

    /// Every state with all that is pending of one kind: with none of another, with the first, with the first two.
    fn states_with(&self, kind: &Kind) -> Vec<Snapshot> {
        let mut states = vec![self.certain.clone()];
        if self.is_in_parts {
            for change in self.pending.values().flatten() {
                let with = states.iter().cloned().map(|mut state| {
                    change.apply(&mut state);
                    state
                });
                let with: Vec<_> = with.collect();
                states.extend(with);
            }
            return states;
        }
        for (other, changes) in &self.pending {
            states = states
                .into_iter()
                .flat_map(|state| {
                    let mut prefixes = vec![state];
                    for change in changes {
                        let mut next = prefixes[prefixes.len() - 1].clone();
                        change.apply(&mut next);
                        prefixes.push(next);
                    }
                    let first = if other == kind { changes.len() } else { 0 };
                    prefixes.split_off(first)
                })
                .collect();
        }
        states
    }

    /// Until everything is in force any part of what is asked for from now on may be: agents hold policies back because of
    /// which they believe the kernel to refuse a table.
    pub(crate) fn divide(&mut self) {
        self.is_in_parts = true;
    }

    /// From the next epoch on, which begins, everything is in force that was asked for. Connections go on until they are cut.
    pub(crate) fn settle(&mut self) {
        let now = self.now();
        self.may = self.verdicts(&now);
        self.must = self.may.clone();
        self.certain = now;
        self.pending.clear();
        (self.is_closed, self.is_in_parts) = (false, false);
        self.begin();
    }

    /// From the next epoch on, which begins, what is in force is so for connections too.
    pub(crate) fn cut(&mut self) {
        self.cut = self.epochs.len();
        self.begin();
    }

    /// From the next epoch on, which begins, there may be no rules.
    pub(crate) fn open(&mut self, by_nobody: bool) {
        self.is_window = true;
        self.is_closed |= by_nobody;
        self.begin();
    }

    /// From the next epoch on, which begins, what is allowed may be lost until everything is in force.
    pub(crate) fn lose(&mut self) {
        self.is_closed = true;
        self.begin();
    }

    /// From the next epoch on, which begins, there are rules again.
    pub(crate) fn close(&mut self) {
        self.is_window = false;
        self.left = Some(self.epochs.len());
        self.begin();
    }

    /// From the next epoch on, which begins, connections are gone that there may have been without rules.
    pub(crate) fn leave(&mut self) {
        self.left = None;
        self.begin();
    }

    /// The ways, by their place and with the family, that are allowed by what may be in force now.
    pub(crate) fn allowed(&self) -> impl Iterator<Item = (usize, Family)> {
        let flows = self.may.iter().zip(&self.flows).enumerate();
        let allowed = flows.filter(|(_, (ends, _))| **ends == [true; 2]);
        allowed.map(|(at, (_, flow))| (at / Family::BOTH.len(), flow.family))
    }

    /// Whether everything that may be in force now lets a way leave the one end, and enter the other.
    pub(crate) fn allows(&self, way: usize, family: Family) -> [bool; 2] {
        self.must[place(way, family)]
    }

    /// Whether a way has been allowed in some epochs by everything that may have been in force, and nothing of it may have been lost.
    pub(crate) fn has_allowed(&self, way: usize, family: Family, epochs: impl RangeBounds<usize>) -> bool {
        let mut epochs = self.epochs[(epochs.start_bound().cloned(), epochs.end_bound().cloned())].iter();
        epochs
            .all(|epoch| epoch.must[place(way, family)] == [true; 2] && !epoch.is_window && !epoch.is_closed)
    }

    /// Whether packets of this epoch that are allowed may be lost.
    pub(crate) fn may_lose(&self, epoch: usize) -> bool {
        self.epochs[epoch].is_closed
    }

    pub(crate) fn rule(&self, passage: Passage) -> Ruling {
        let Passage { sent, came, of, .. } = passage;
        let epochs = &self.epochs[sent..=came];
        let flow = place(passage.way, passage.family);
        // What a connection may goes by what has been in force since it was asked for, until what is denied is cut.
        let since = of.map_or(sent, |of| of.asked.max(self.epochs[sent].cut));
        let judged = &self.epochs[since..=came];
        let may = |end: usize| judged.iter().any(|epoch| epoch.may[flow][end]);
        let is_unknown = self.flows[flow].leads_to_own_node && judged.iter().any(|epoch| epoch.is_closed);
        let is_open = |end: usize| self.flows[flow].is_flushed[end] || may(end);
        let is_left = |of: Spoken| self.epochs[sent].left.is_some_and(|closed| of.asked < closed);
        if may(0) && may(1) || is_unknown {
            Ruling::Allowed
        } else if epochs.iter().any(|epoch| epoch.is_window) && is_open(0) && is_open(1) {
            Ruling::Window
        } else if of.is_some_and(is_left) {
            Ruling::Left
        } else {
            Ruling::Denied
        }
    }

    /// The ways, by their place and with the family, on which packets have been allowed in all epochs, or denied in all.
    pub(crate) fn steady(&self) -> impl Iterator<Item = (usize, Family)> {
        let passes = |epoch: &Epoch, flow: usize| epoch.may[flow] == [true; 2];
        let is_steady = move |flow: usize| {
            let mut epochs = self.epochs.iter().map(move |epoch| passes(epoch, flow));
            let first = epochs.next();
            epochs.all(|passes| Some(passes) == first)
        };
        let flows = self.flows.iter().enumerate();
        let steady = flows.filter(move |(at, _)| is_steady(*at));
        steady.map(|(at, flow)| (at / Family::BOTH.len(), flow.family))
    }

    fn verdicts(&mut self, state: &Snapshot) -> Vec<Ends> {
        let said = self.said.entry(facts(state));
        said.or_insert_with(|| self.judge.verdicts(&self.flows, state))
            .clone()
    }
}

/// The place of a way over one family among all.
fn place(way: usize, family: Family) -> usize {
    let families = Family::BOTH.iter();
    way * Family::BOTH.len() + families.take_while(|other| **other != family).count()
}

/// By what states differ: labels, whose addresses are whose, and the policies that there are, by their places in memory.
type Facts = (Vec<Labels>, Vec<(Labels, Vec<Addresses>)>, Vec<usize>);

fn facts(state: &Snapshot) -> Facts {
    let nodes = state.nodes.values().map(|node| node.labels.clone());
    let namespaces = state.namespaces.values();
    let pods = state.pods.values();
    let policies = state.policies.values();
    (
        nodes
            .chain(namespaces.map(|namespace| namespace.labels.clone()))
            .collect(),
        pods.map(|pod| {
            let attached = pod.attachments.iter().map(|own| own.addresses);
            (
                pod.labels.clone(),
                [pod.addresses].into_iter().chain(attached).collect(),
            )
        })
        .collect(),
        policies.map(|policy| Arc::as_ptr(policy).addr()).collect(),
    )
}

/// A way over one family.
struct WayOver {
    ends: [End; 2],
    /// Whether it leads to the node that judges. What pods send there an agent that has found no rules does not forbid before it knows
    /// the cluster.
    leads_to_own_node: bool,
    /// Whose rules others take away now and then.
    is_flushed: Ends,
    family: Family,
    protocol: Protocol,
    port: u16,
}

/// What stays the same of an end of a way.
enum End {
    /// A pod that judges, and the address of its packets.
    Pod(ObjectRef, IpAddr),
    /// Whoever has it.
    Address(IpAddr),
}

impl Judge {
    fn over_both(&self, way: &Way, snapshot: &Snapshot) -> [WayOver; 2] {
        let end = |id: &str, family| match (self, snapshot.nodes.get(id)) {
            (Self::Node(_), Some(node)) => End::Address(address_of(&node.addresses, family)),
            (Self::Node(_), None) => End::Address(snapshot.pods[&object(id)].addresses.of(family).unwrap()),
            (Self::Pods { network, .. }, _) => {
                let pod = object(id);
                let mut attached = snapshot.pods[&pod].attachments.iter();
                let own = attached.find(|own| own.network == *network).unwrap();
                End::Pod(pod, own.addresses.of(family).unwrap())
            }
        };
        Family::BOTH.map(|family| WayOver {
            ends: [&way.from, &way.to].map(|id| end(id, family)),
            is_flushed: [&way.from, &way.to].map(|id| match self {
                Self::Node(_) => true,
                Self::Pods { flushed, .. } => flushed == id,
            }),
            leads_to_own_node: matches!(self, Self::Node(node) if *node == way.to),
            family,
            protocol: way.protocol,
            port: way.port,
        })
    }

    /// What becomes of flows in a state of the cluster.
    fn verdicts(&self, flows: &[WayOver], state: &Snapshot) -> Vec<Ends> {
        match self {
            Self::Node(node) => {
                let owners = owners(state);
                let flows = flows.iter().map(|flow| flow.seen_by(None, &owners));
                flows.map(|flow| [passes(node, state, &flow); 2]).collect()
            }
            Self::Pods { network, .. } => {
                let state = state.on(network);
                let owners = owners(&state);
                let said = |flow: &WayOver, end| ends(&state, &flow.seen_by(Some(end), &owners))[end];
                let flows = flows.iter();
                flows.map(|flow| [0, 1].map(|end| said(flow, end))).collect()
            }
        }
    }
}

impl WayOver {
    /// Where addresses are those of these; the pod at one end, if it judges for itself, knows that it is there.
    fn seen_by(&self, end: Option<usize>, owners: &BTreeMap<IpAddr, Endpoint>) -> Flow {
        let endpoint = |at| match &self.ends[at] {
            End::Pod(pod, _) if end == Some(at) => Endpoint::Pod(pod.clone()),
            End::Pod(_, address) | End::Address(address) => {
                let owner = owners.get(address).cloned();
                owner.unwrap_or(Endpoint::External(*address))
            }
        };
        Flow {
            source: endpoint(0),
            destination: endpoint(1),
            family: self.family,
            protocol: self.protocol,
            port: self.port,
        }
    }
}

/// Whose each address is.
fn owners(state: &Snapshot) -> BTreeMap<IpAddr, Endpoint> {
    let of_pods = state.pods.values().flat_map(|pod| {
        let endpoint = |address| (address, Endpoint::Pod(pod.object.clone()));
        pod.addresses.iter().map(endpoint)
    });
    let of_nodes = state.nodes.values().flat_map(|node| {
        let endpoint = |address: &IpAddr| {
            let (name, address) = (node.name.clone(), *address);
            (address, Endpoint::Node { name, address })
        };
        node.addresses.iter().map(endpoint)
    });
    of_pods.chain(of_nodes).collect()
}

fn ends(state: &Snapshot, flow: &Flow) -> Ends {
    let judgement = judge(state, &Semantics::default(), flow);
    [judgement.egress, judgement.ingress].map(|end| end.verdict.is_allow())
}

/// Whether a flow passes a node, as far as that node judges.
fn passes(node: &str, state: &Snapshot, flow: &Flow) -> bool {
    let is_here = |end: &Endpoint| {
        let Endpoint::Pod(pod) = end else {
            return false;
        };
        state.pods[pod].node.as_deref() == Some(node)
    };
    if !is_here(&flow.source) && !is_here(&flow.destination) {
        return true;
    }
    let [leaves, enters] = ends(state, flow);
    (leaves || !is_here(&flow.source)) && (enters || !is_here(&flow.destination))
}
