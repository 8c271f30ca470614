//! Proof that groups mean the policies, or connections with which they do not.
//!
//! Worked out for all connections at once: policies and rules cut the addresses into ranges of which all addresses are alike,
//! and for one address of each, what the groups of a pod let pass with it must be what the policies of the pod do. That is
//! compared at each end by itself, so that a pod is as well guarded from what comes from outside of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_engine::{PodRef, Program, SubjectId};
use picket_net::{Family, Prefix, Protocol, TrafficSet};
use picket_policy::{Direction, ObjectRef};
use smol_str::SmolStr;

use crate::builder::Options;
use crate::meaning::Meaning;
use crate::model::{Name, Objects, Port};
use crate::node;
use crate::traffic::{expressed, icmp_of, is_expressible};

/// A connection with which groups do not mean the policies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counterexample {
    /// The pod at whose port it is judged wrongly.
    pub pod: ObjectRef,
    /// Towards it, or from it.
    pub direction: Direction,
    /// Its own address.
    pub own: IpAddr,
    /// The other end.
    pub peer: IpAddr,
    /// Of which protocol.
    pub protocol: Protocol,
    /// To which port, where the protocol has ports.
    pub port: Option<u16>,
    /// Whether the groups let it pass; the policies say otherwise.
    pub passes: bool,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// With what the groups do not mean the policies.
    pub counterexamples: Vec<Counterexample>,
    /// How many pairs of a pod and a range of addresses were compared.
    pub pairs: usize,
    /// Whether there would be more counter-examples than were to be shown.
    pub stopped: bool,
}

impl Report {
    /// Whether the groups mean the policies.
    pub fn is_proof(&self) -> bool {
        self.counterexamples.is_empty()
    }
}

/// Compares groups with what a program demands. Gives up after `limit` connections.
///
/// A pod without a port is open, and shown as such. Where several have one address, the groups may let less pass than the
/// policies do.
pub fn verify(objects: &Objects, program: &Program, options: &Options, limit: usize) -> Report {
    let mut proof = Proof {
        program,
        options,
        meaning: Meaning::of(objects),
        ends: Family::BOTH.map(|family| ends(program, family)),
        nodes: BTreeMap::new(),
        known: BTreeMap::new(),
        report: Report::default(),
        limit,
    };
    let without = Port::default();
    for pod in program.pods().filter(PodRef::is_managed) {
        let port = objects.ports.get(&pod.pod().object);
        for direction in Direction::BOTH {
            proof.pod(pod, port.unwrap_or(&without), port.is_none(), direction);
        }
    }
    proof.report
}

/// The first address of ranges that policies do not tell apart, with whether several have it.
fn ends(program: &Program, family: Family) -> BTreeMap<IpAddr, bool> {
    let mut holders: BTreeMap<IpAddr, u32> = BTreeMap::new();
    let nodes = program
        .nodes()
        .map(|node| node.addresses.iter().copied().collect::<Vec<_>>());
    let pods = program.pods().filter(|pod| !pod.pod().finished);
    let pods = pods.map(|pod| pod.pod().addresses.iter().collect::<Vec<_>>());
    for address in nodes.chain(pods).flatten() {
        *holders.entry(address).or_default() += 1;
    }
    let mut found = BTreeMap::new();
    for (prefix, _) in program.prefixes() {
        found.insert(prefix.first(), false);
        found.extend(after(prefix.last()).map(|next| (next, false)));
    }
    for (address, count) in holders {
        if let Some(next) = after(address) {
            found.entry(next).or_insert(false);
        }
        found.insert(address, count > 1);
    }
    found.retain(|address, _| Family::of(*address) == family);
    found
}

fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => address
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(address) => address
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V6(bits.into())),
    }
}

/// What is alike of pods that are judged alike.
type Alike = (
    Direction,
    BTreeSet<Name>,
    Option<SubjectId>,
    Option<SmolStr>,
    bool,
);

struct Proof<'a> {
    program: &'a Program,
    options: &'a Options,
    meaning: Meaning<'a>,
    ends: [BTreeMap<IpAddr, bool>; 2],
    nodes: BTreeMap<SmolStr, BTreeSet<IpAddr>>,
    /// What is wrong with pods that are alike: nothing, mostly.
    known: BTreeMap<Alike, Vec<(IpAddr, TrafficSet, bool)>>,
    report: Report,
    limit: usize,
}

impl Proof<'_> {
    fn pod(&mut self, pod: PodRef<'_>, port: &Port, is_open: bool, direction: Direction) {
        let subject = pod.subject(direction);
        let node = pod.pod().node.clone();
        let key = (direction, port.security_groups.clone(), subject, node, is_open);
        let wrong = match self.known.get(&key) {
            Some(wrong) => wrong.clone(),
            None => {
                let wrong = self.wrong(port, is_open, subject, key.3.as_ref(), direction);
                self.known.insert(key, wrong.clone());
                wrong
            }
        };
        let own: Vec<_> = pod.pod().addresses.iter().collect();
        for (peer, traffic, passes) in wrong {
            let Some(own) = own
                .iter()
                .find(|own| own.is_ipv4() == peer.is_ipv4() && **own != peer)
            else {
                continue;
            };
            let Some((protocol, number)) = first_of(&traffic) else {
                continue;
            };
            if self.report.counterexamples.len() == self.limit {
                self.report.stopped = true;
                return;
            }
            self.report.counterexamples.push(Counterexample {
                pod: pod.pod().object.clone(),
                direction,
                own: *own,
                peer,
                protocol,
                port: number,
                passes,
            });
        }
    }

    /// With which addresses more, or less, passes than should.
    fn wrong(
        &mut self,
        port: &Port,
        is_open: bool,
        subject: Option<SubjectId>,
        node: Option<&SmolStr>,
        direction: Direction,
    ) -> Vec<(IpAddr, TrafficSet, bool)> {
        let own_node = node.map(|node| {
            let program = self.program;
            let known = self.nodes.entry(node.clone());
            known
                .or_insert_with(|| node::addresses(program, node).into_iter().collect())
                .clone()
        });
        let own_node = own_node.unwrap_or_default();
        let mut found = Vec::new();
        for (family, ends) in Family::BOTH.into_iter().zip(&self.ends) {
            let rules = match is_open {
                true => vec![(picket_net::AddressSet::all(), TrafficSet::all())],
                false => self.meaning.rules(port, direction, family),
            };
            let mut peers = ends.clone();
            for range in rules.iter().flat_map(|(addresses, _)| addresses.ranges()) {
                peers.entry(range.first()).or_insert(false);
                if let Some(next) = after(range.last()).filter(|next| Family::of(*next) == family) {
                    peers.entry(next).or_insert(false);
                }
            }
            self.report.pairs += peers.len();
            for (peer, is_shared) in peers {
                let holding = rules.iter().filter(|(addresses, _)| addresses.contains(peer));
                let passing = holding.fold(TrafficSet::empty(), |all, (_, traffic)| all.union(traffic));
                let allowed = self.demanded(peer, subject, own_node.contains(&peer), direction);
                let [passing, expected] = [&passing, &allowed].map(|traffic| expressed(traffic, family));
                // Of `everything but` rules say less: see `traffic::is_expressible`.
                let missing = match is_expressible(&allowed) {
                    true => expected.difference(&passing),
                    false => expected.difference(&passing).intersection(&ported(family)),
                };
                let more = passing.difference(&expected);
                if !more.is_empty() {
                    found.push((peer, more, true));
                }
                if !missing.is_empty() && !is_shared {
                    found.push((peer, missing, false));
                }
            }
        }
        found
    }

    /// What must pass between a pod and one address.
    fn demanded(
        &self,
        peer: IpAddr,
        subject: Option<SubjectId>,
        is_own_node: bool,
        direction: Direction,
    ) -> TrafficSet {
        let Some(subject) = subject.filter(|_| !self.is_besides(peer, direction)) else {
            return TrafficSet::all();
        };
        let allowed = match is_own_node {
            true => self.program.own_node_allow_set(subject),
            false => self.program.allow_set(subject),
        };
        allowed
            .traffic(self.program.identity_of(peer))
            .cloned()
            .unwrap_or_default()
    }

    /// Whether everything passes with an address because the options say so.
    fn is_besides(&self, peer: IpAddr, direction: Direction) -> bool {
        let holds = |subnets: &[Prefix]| subnets.iter().any(|subnet| subnet.contains(peer));
        holds(&self.options.node_subnets)
            || direction == Direction::Egress && holds(&self.options.service_subnets)
    }
}

/// What rules of one protocol can be about.
fn ported(family: Family) -> TrafficSet {
    let all = TrafficSet::all();
    TrafficSet {
        portless: icmp_of(family).into(),
        ..all
    }
}

/// One packet of some traffic.
fn first_of(traffic: &TrafficSet) -> Option<(Protocol, Option<u16>)> {
    let with_ports = Protocol::WITH_PORTS.into_iter().find_map(|protocol| {
        let range = traffic.ports(protocol)?.ranges().next()?;
        Some((protocol, Some(range.first())))
    });
    with_ports.or_else(|| traffic.portless.iter().next().map(|protocol| (protocol, None)))
}
