//! Where packets are judged: on a node, or within a pod.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_engine::{PodRef, Program, SubjectId};
use picket_net::{Protocol, TrafficSet, next_address};
use picket_policy::{Action, Direction, List, ObjectRef, Peer, Policy, PortMatch, Rule, Tier};
use smol_str::SmolStr;

use super::side::{Role, Sides};
use super::{Demand, Traffic, Why};
use crate::{Crossing, State};

/// What the policies of a compiled program demand at one place.
#[derive(Debug)]
pub struct Demands<'a> {
    program: &'a Program,
    pub(super) place: Place,
    /// Of a node, where it is known that it looks at the way back to sources.
    pub(super) uplinks: Option<BTreeSet<SmolStr>>,
    pub(super) sides: Sides,
    /// The pods that are judged here, by address.
    own: BTreeMap<IpAddr, Own>,
    /// The addresses of nodes and of the pods that share their network.
    nodes: BTreeMap<IpAddr, BTreeSet<SmolStr>>,
    /// What flags of the semantics and custom rules let a spoofed packet do.
    spoofed: u32,
    everything: TrafficSet,
    custom: Custom,
}

/// What custom rules make of a demand within a pod.
#[derive(Debug, Default)]
struct Custom {
    /// The directions, ingress first, in which rules look at the address of the pod itself.
    own_addresses: [bool; 2],
    /// Whether rules deny ports: then they let packets without a port go on.
    denies: bool,
}

#[derive(Debug)]
pub(super) enum Place {
    Node,
    Pod {
        interface: SmolStr,
        /// The pod's other interfaces that policies are about.
        others: BTreeSet<SmolStr>,
        /// The directions, ingress first, in which less than the policies allow is enough.
        narrower: [bool; 2],
        /// Whether TCP of no known connection is refused that may be part of one in the other direction.
        refuses_mid_stream: bool,
    },
}

/// The first addresses of ranges; there may be two for each pod of a cluster.
#[derive(Default)]
struct Firsts {
    v4: Vec<u32>,
    v6: Vec<u128>,
}

impl Firsts {
    /// What is from one address to another is a range of its own.
    fn cut(&mut self, first: IpAddr, last: IpAddr) {
        for address in [Some(first), next_address(last)].into_iter().flatten() {
            match address {
                IpAddr::V4(address) => self.v4.push(address.to_bits()),
                IpAddr::V6(address) => self.v6.push(address.to_bits()),
            }
        }
    }

    fn ascending(self) -> impl Iterator<Item = IpAddr> {
        let Self { mut v4, mut v6 } = self;
        v4.sort_unstable();
        v4.dedup();
        v6.sort_unstable();
        v6.dedup();
        let v4 = v4.into_iter().map(Ipv4Addr::from_bits).map(IpAddr::V4);
        v4.chain(v6.into_iter().map(Ipv6Addr::from_bits).map(IpAddr::V6))
    }
}

/// An address that is judged here.
#[derive(Debug, Default)]
struct Own {
    number: u32,
    subjects: [BTreeSet<SubjectId>; 2],
    /// The directions, ingress first, in which there is a policy that can deny something.
    denied: [bool; 2],
    nodes: BTreeSet<SmolStr>,
    egress: Option<u32>,
    ingress: Option<u32>,
    to_own_node: Option<u32>,
    from_own_node: Option<u32>,
}

/// What the policies see of an address. Addresses with equal ends are alike for them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    pub(super) profile: u32,
    /// The number of the pod that is judged here, by address.
    pub(super) own: Option<u32>,
    pub(super) own_nodes: Vec<SmolStr>,
    pub(super) is_node: Vec<SmolStr>,
    pub(super) egress: Option<u32>,
    pub(super) ingress: Option<u32>,
    pub(super) to_own_node: Option<u32>,
    pub(super) from_own_node: Option<u32>,
}

impl End {
    /// Whether something restricts it.
    #[inline]
    pub(super) fn is_restricted(&self) -> bool {
        let sides = [self.egress, self.ingress, self.to_own_node, self.from_own_node];
        sides.iter().any(Option::is_some)
    }

    #[inline]
    fn is_node_of(&self, pod: &Self) -> bool {
        self.is_node.iter().any(|node| pod.own_nodes.contains(node))
    }
}

impl<'a> Demands<'a> {
    /// What is demanded on a node; with `None`, on one node that runs every pod.
    pub fn on_node(program: &'a Program, node: Option<&str>) -> Self {
        let pods = program.pods().filter(PodRef::is_managed);
        let here = pods.filter(|pod| node.is_none() || pod.pod().node.as_deref() == node);
        Self::at(program, Place::Node, here.collect())
    }

    /// What is demanded within a pod, of packets that pass its `interface` on the network that `program` is of. Nothing is
    /// demanded of packets over its `others`, of which other programs know. In the directions that are `narrower`
    /// (ingress first) a target may drop more than the policies do. `None` when there is no such pod.
    pub fn in_pod(
        program: &'a Program,
        pod: &ObjectRef,
        interface: &str,
        others: BTreeSet<SmolStr>,
        narrower: [bool; 2],
    ) -> Option<Self> {
        let found = program.pod(pod)?;
        let place = Place::Pod {
            interface: interface.into(),
            others,
            narrower,
            refuses_mid_stream: false,
        };
        Some(Self::at(
            program,
            place,
            Some(found).filter(PodRef::is_managed).into_iter().collect(),
        ))
    }

    fn at(program: &'a Program, place: Place, pods: Vec<PodRef<'_>>) -> Self {
        let mut own: BTreeMap<IpAddr, Own> = BTreeMap::new();
        for (number, pod) in (0..).zip(pods) {
            for address in pod.pod().addresses.iter() {
                let entry = own.entry(address).or_insert_with(|| Own {
                    number,
                    ..Own::default()
                });
                entry.nodes.extend(pod.pod().node.clone());
                for (direction, subjects) in Direction::BOTH.into_iter().zip(&mut entry.subjects) {
                    subjects.extend(pod.subject(direction));
                }
            }
        }
        let mut sides = Sides::new();
        for own in own.values_mut() {
            let directions = Direction::BOTH.into_iter().zip(&own.subjects);
            for ((direction, subjects), denied) in directions.zip(&mut own.denied) {
                let mut policies = subjects
                    .iter()
                    .flat_map(|&subject| program.denying_policies(subject));
                *denied = policies.next().is_some();
                let subjects: Vec<_> = subjects.iter().copied().collect();
                let [peers, own_node] =
                    [Role::Peers, Role::OwnNode].map(|role| sides.of(program, role, &subjects));
                match direction {
                    Direction::Ingress => (own.ingress, own.from_own_node) = (peers, own_node),
                    Direction::Egress => (own.egress, own.to_own_node) = (peers, own_node),
                }
            }
        }
        let identities = program.identities().map(|identity| identity.number());
        sides.classify(&identities.collect());
        let spoofed = spoofed(program, own.keys());
        let number = u32::try_from(sides.traffic.len()).unwrap_or(u32::MAX);
        sides.traffic.push(spoofed);
        Self {
            program,
            place,
            uplinks: None,
            sides,
            own,
            nodes: nodes(program),
            spoofed: number,
            everything: TrafficSet::all(),
            custom: Custom {
                denies: program.policies().any(|policy| denies_by_custom_rules(policy)),
                ..Custom::default()
            },
        }
    }

    /// The same demands within a pod whose rules refuse TCP in the middle of a connection which nobody knows, where policies
    /// restrict the other direction.
    #[must_use]
    pub fn without_mid_stream(mut self) -> Self {
        if let Place::Pod {
            refuses_mid_stream, ..
        } = &mut self.place
        {
            *refuses_mid_stream = true;
        }
        self
    }

    /// The same demands where custom rules look at the address of the pod itself (ingress first): nothing is demanded
    /// there of packets from or to addresses at this end that the pod does not have.
    #[must_use]
    pub fn about_own_addresses(mut self, directions: [bool; 2]) -> Self {
        self.custom.own_addresses = directions;
        self
    }

    /// Whether packets to port 0, or too short to have one, may go where a protocol is not allowed as a whole.
    pub(super) fn tolerates_missing_ports(&self) -> bool {
        self.custom.denies
    }

    /// The first addresses of ranges such that all addresses of a range have equal ends, each with what the policies see of
    /// it; ascending, each family from its lowest address on.
    pub fn ends(&self) -> impl Iterator<Item = (IpAddr, End)> + '_ {
        let mut firsts = Firsts::default();
        for (prefix, _) in self.program.prefixes() {
            firsts.cut(prefix.first(), prefix.last());
        }
        let own = self.own.keys().chain(self.nodes.keys()).copied();
        let nodes = self
            .program
            .nodes()
            .flat_map(|node| node.addresses.iter().copied());
        for address in own.chain(nodes) {
            firsts.cut(address, address);
        }
        for pod in self.program.pods().filter(|pod| !pod.pod().finished) {
            for address in pod.pod().addresses.iter() {
                firsts.cut(address, address);
            }
        }
        let mut own = self.own.iter().peekable();
        let mut nodes = self.nodes.iter().peekable();
        firsts.ascending().map(move |address| {
            while own.next_if(|(before, _)| **before < address).is_some() {}
            while nodes.next_if(|(before, _)| **before < address).is_some() {}
            let own = own.next_if(|(here, _)| **here == address).map(|(_, own)| own);
            let nodes = nodes
                .next_if(|(here, _)| **here == address)
                .map(|(_, nodes)| nodes);
            (address, self.end_of(address, own, nodes))
        })
    }

    /// What the policies see of an address.
    pub fn end(&self, address: IpAddr) -> End {
        self.end_of(address, self.own.get(&address), self.nodes.get(&address))
    }

    fn end_of(&self, address: IpAddr, own: Option<&Own>, nodes: Option<&BTreeSet<SmolStr>>) -> End {
        End {
            profile: self.sides.profile(self.program.identity_of(address)),
            own: own.map(|own| own.number),
            own_nodes: own
                .into_iter()
                .flat_map(|own| own.nodes.iter().cloned())
                .collect(),
            is_node: nodes.into_iter().flatten().cloned().collect(),
            egress: own.and_then(|own| own.egress),
            ingress: own.and_then(|own| own.ingress),
            to_own_node: own.and_then(|own| own.to_own_node),
            from_own_node: own.and_then(|own| own.from_own_node),
        }
    }

    /// What is demanded of the packets from one end to another, in one state.
    pub fn demand(&self, crossing: &Crossing, source: &End, destination: &End, state: State) -> Demand {
        self.of_new(crossing, source, destination).in_state(state)
    }

    /// What passes of new connections where this is demanded; `None` where nothing is.
    pub fn passing(&self, demand: Demand) -> Option<TrafficSet> {
        match demand {
            Demand::Anything => None,
            Demand::Accept => Some(TrafficSet::all()),
            Demand::Traffic(traffic) => Some(self.allowed(traffic).into_owned()),
        }
    }

    /// What is demanded of new connections.
    pub(super) fn of_new(&self, crossing: &Crossing, source: &End, destination: &End) -> Demand {
        match &self.place {
            Place::Node => self.on_the_node(crossing, source, destination),
            Place::Pod { others, .. }
                if [crossing.input(), crossing.output()]
                    .into_iter()
                    .flatten()
                    .any(|name| others.contains(name)) =>
            {
                Demand::Anything
            }
            Place::Pod {
                interface,
                narrower,
                refuses_mid_stream,
                ..
            } => {
                let demand = self.within_the_pod(crossing, interface, *narrower, source, destination);
                demand
                    .refusing_mid_stream(*refuses_mid_stream && self.is_restricted_back(crossing, interface))
            }
        }
    }

    fn on_the_node(&self, crossing: &Crossing, source: &End, destination: &End) -> Demand {
        match crossing {
            // From the node itself: policies are not about nodes, but for what the cluster default denies.
            Crossing::Send { .. } => {
                let demand = match destination.from_own_node {
                    None => Demand::Accept,
                    Some(_) if !source.is_node_of(destination) => Demand::Anything,
                    Some(side) => ruled(None, Some(self.sides.row(side, source.profile)), false),
                };
                demand.refusing_mid_stream(destination.to_own_node.is_some())
            }
            Crossing::Receive { .. } => {
                let demand = match source.to_own_node {
                    None => Demand::Accept,
                    Some(_) if !destination.is_node_of(source) => Demand::Anything,
                    Some(side) => ruled(Some(self.sides.row(side, destination.profile)), None, false),
                };
                demand.refusing_mid_stream(source.from_own_node.is_some())
            }
            Crossing::Forward { .. } | Crossing::Relay { .. } => self.forwarded(source, destination),
        }
    }

    pub(super) fn forwarded(&self, source: &End, destination: &End) -> Demand {
        if source.own.is_some() && source.own == destination.own {
            return Demand::Accept;
        }
        // What a node and its own pods exchange is not forwarded.
        if source.is_node_of(destination) || destination.is_node_of(source) {
            return Demand::Anything;
        }
        ruled(
            source
                .egress
                .map(|side| self.sides.row(side, destination.profile)),
            destination
                .ingress
                .map(|side| self.sides.row(side, source.profile)),
            source.is_restricted() || destination.is_restricted(),
        )
    }

    /// Whether TCP between these ends that is in the middle of a connection which nobody knows is refused.
    pub(super) fn is_refused_mid_stream(&self, crossing: &Crossing, source: &End, destination: &End) -> bool {
        let demand = self.of_new(crossing, source, destination);
        matches!(demand, Demand::Traffic(traffic) if traffic.from_its_beginning)
    }

    fn within_the_pod(
        &self,
        crossing: &Crossing,
        interface: &str,
        [ingress_narrower, egress_narrower]: [bool; 2],
        source: &End,
        destination: &End,
    ) -> Demand {
        // Every address of the one pod here has the same sides and nodes.
        let none = Own::default();
        let own = self.own.values().next().unwrap_or(&none);
        let of_own_node = |end: &End| end.is_node.iter().any(|node| own.nodes.contains(node));
        let [ingress_only_own, egress_only_own] = self.custom.own_addresses;
        match crossing {
            // In a pod nobody sends for others.
            Crossing::Forward { .. } | Crossing::Relay { .. } => Demand::Anything,
            Crossing::Receive { .. } if ingress_only_own && destination.own.is_none() => Demand::Anything,
            Crossing::Send { .. } if egress_only_own && source.own.is_none() => Demand::Anything,
            Crossing::Receive { input } if input == interface => {
                if source.own.is_some() {
                    // What a pod sends to itself goes over `lo`.
                    return match own.ingress {
                        None => Demand::Anything,
                        Some(_) => narrowed(ruled(None, Some(self.spoofed), false), true),
                    };
                }
                let side = if of_own_node(source) {
                    own.from_own_node
                } else {
                    own.ingress
                };
                let row = side.map(|side| self.sides.row(side, source.profile));
                narrowed(ruled(None, row, false), ingress_narrower)
            }
            Crossing::Send { output } if output == interface => {
                if destination.own.is_some() {
                    return Demand::Anything;
                }
                let side = if of_own_node(destination) {
                    own.to_own_node
                } else {
                    own.egress
                };
                let row = side.map(|side| self.sides.row(side, destination.profile));
                narrowed(ruled(row, None, false), egress_narrower)
            }
            Crossing::Receive { .. } | Crossing::Send { .. } => Demand::Accept,
        }
    }

    /// Whether policies restrict what goes over the interface of a pod in the direction that this does not.
    fn is_restricted_back(&self, crossing: &Crossing, interface: &str) -> bool {
        let own = self.own.values().next();
        let [ingress, egress] = own.map(|own| own.denied).unwrap_or_default();
        match crossing {
            Crossing::Receive { input } => input == interface && egress,
            Crossing::Send { output } => output == interface && ingress,
            Crossing::Forward { .. } | Crossing::Relay { .. } => false,
        }
    }

    pub(super) fn why_at_place(&self, crossing: &Crossing, source: &End, destination: &End) -> Why {
        let here = self.own.values().next();
        let is_own_node =
            |end: &End| here.is_some_and(|own| end.is_node.iter().any(|node| own.nodes.contains(node)));
        match (&self.place, crossing) {
            (Place::Node, Crossing::Send { .. }) if destination.from_own_node.is_none() => Why::NotJudged,
            (Place::Node, Crossing::Receive { .. }) if source.to_own_node.is_none() => Why::NotJudged,
            (Place::Node, Crossing::Send { .. } | Crossing::Receive { .. }) => Why::Policies,
            (Place::Node, Crossing::Forward { .. } | Crossing::Relay { .. }) => {
                match (source.own, destination.own) {
                    (None, None) => Why::NotJudged,
                    (one, other) if one == other => Why::SamePod,
                    _ => Why::Policies,
                }
            }
            (Place::Pod { interface, .. }, Crossing::Receive { input: name })
            | (Place::Pod { interface, .. }, Crossing::Send { output: name })
                if name != interface =>
            {
                Why::NotJudged
            }
            (Place::Pod { .. }, Crossing::Receive { .. }) if source.own.is_some() => Why::Spoofed,
            (Place::Pod { .. }, Crossing::Receive { .. })
                if is_own_node(source) && here.is_some_and(|own| own.from_own_node.is_none()) =>
            {
                Why::OwnNode
            }
            (Place::Pod { .. }, _) => Why::Policies,
        }
    }

    /// What both ends allow.
    pub(super) fn allowed(&self, traffic: Traffic) -> Cow<'_, TrafficSet> {
        let of = |number: Option<u32>| number.and_then(|number| self.sides.traffic.get(number as usize));
        match (of(traffic.egress), of(traffic.ingress)) {
            (Some(one), Some(other)) => Cow::Owned(one.intersection(other)),
            (Some(one), None) | (None, Some(one)) => Cow::Borrowed(one),
            (None, None) => Cow::Borrowed(&self.everything),
        }
    }
}

#[inline]
pub(super) fn ruled(egress: Option<u32>, ingress: Option<u32>, from_its_beginning: bool) -> Demand {
    Demand::traffic(Traffic {
        egress,
        ingress,
        at_most: false,
        from_its_beginning,
    })
}

fn narrowed(demand: Demand, narrower: bool) -> Demand {
    match demand {
        Demand::Accept if narrower => Demand::Anything,
        Demand::Traffic(traffic) => Demand::Traffic(Traffic {
            at_most: traffic.at_most || narrower,
            ..traffic
        }),
        demand => demand,
    }
}

/// What may arrive with a pod's own address all the same: what flags and custom rules accept is accepted first.
fn spoofed<'a>(program: &Program, own: impl Iterator<Item = &'a IpAddr> + Clone) -> TrafficSet {
    let semantics = program.semantics();
    let icmp = semantics.accept_icmp.then_some(Protocol::ICMP);
    let icmpv6 = semantics.accept_icmpv6.then_some(Protocol::ICMPV6);
    let flags = TrafficSet {
        portless: icmp.into_iter().chain(icmpv6).collect(),
        ..TrafficSet::empty()
    };
    let custom = program.policies().filter(|policy| policy.tier == Tier::Custom);
    let rules = custom.flat_map(|policy| &policy.ingress.rules);
    let accepts =
        rules.filter(|rule| rule.action == Action::Accept && own.clone().any(|&own| includes(rule, own)));
    accepts.fold(flags, |all, rule| all.union(&traffic_of(rule)))
}

/// Whether a custom rule is about an address.
fn includes(rule: &Rule, address: IpAddr) -> bool {
    match &rule.peers {
        List::Absent => true,
        List::Items(peers) => peers.iter().any(|peer| match peer {
            Peer::Block(block) => {
                block.prefix.contains(address) && !block.except.iter().any(|except| except.contains(address))
            }
            Peer::Pods(_) | Peer::Nodes(_) | Peer::Domain(_) => false,
        }),
    }
}

fn traffic_of(rule: &Rule) -> TrafficSet {
    let List::Items(items) = &rule.ports else {
        return TrafficSet::all();
    };
    let each = items.iter().map(|item| match item {
        PortMatch::Protocol(protocol) => TrafficSet::from(*protocol),
        PortMatch::Range(protocol, range) => TrafficSet::of(*protocol, (*range).into()),
        PortMatch::Named { .. } => TrafficSet::empty(),
    });
    each.fold(TrafficSet::empty(), |all, one| all.union(&one))
}

fn denies_by_custom_rules(policy: &Policy) -> bool {
    let mut rules = policy.ingress.rules.iter().chain(&policy.egress.rules);
    policy.tier == Tier::Custom && rules.any(|rule| rule.action == Action::Deny)
}

/// The names of the nodes that have each address: their own, and those of hostNetwork pods there.
fn nodes(program: &Program) -> BTreeMap<IpAddr, BTreeSet<SmolStr>> {
    let mut found: BTreeMap<IpAddr, BTreeSet<SmolStr>> = BTreeMap::new();
    for node in program.nodes() {
        for &address in &node.addresses {
            found.entry(address).or_default().insert(node.name.clone());
        }
    }
    let pods = program.pods().map(|pod| pod.pod());
    for pod in pods.filter(|pod| pod.host_network && !pod.finished) {
        for address in pod.addresses.iter() {
            found.entry(address).or_default().extend(pod.node.clone());
        }
    }
    found
}
