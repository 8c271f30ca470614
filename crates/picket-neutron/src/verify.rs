//! Proof that groups mean the policies, or connections with which they do not.
//!
//! Worked out for all connections at once: policies and rules cut the addresses into ranges of which all addresses are alike,
//! and for one address of each, what the groups of a pod let pass with it must be what the policies of the pod do. That is
//! compared at each end by itself, so that a pod is as well guarded from what comes from outside of the cluster.

mod installed;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_engine::{Identity, PodRef, Program, SubjectId};
use picket_net::{AddressSet, Family, Prefix, Protocol, TrafficSet, next_address};
use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use crate::builder::Options;
use crate::meaning::Meaning;
use crate::model::{Name, Objects, Port};
use crate::plan::Id;
use crate::traffic::{expressed, icmp_of, is_expressible};
pub use installed::{InstalledPorts, other_addresses, verify_installed};

/// A connection with which groups do not mean the policies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counterexample {
    /// The pod at whose port it is judged wrongly.
    pub pod: ObjectRef,
    /// What Neutron calls that port, where it is one that there is.
    pub at: Option<Id>,
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
    /// The groups of the port that let it pass: by their ids, where it is one that there is.
    pub groups: BTreeSet<Name>,
}

/// That a port lets more, or less, pass than the policies say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WrongPort {
    /// Its pod.
    pub pod: ObjectRef,
    /// What Neutron calls it, where it is one that there is.
    pub at: Option<Id>,
    /// Towards it, or from it.
    pub direction: Direction,
    /// Whether more passes; less does otherwise.
    pub passes: bool,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// With what the groups do not mean the policies.
    pub counterexamples: Vec<Counterexample>,
    /// Every port with a counter-example, whether that is among those to be shown or not.
    pub wrong: BTreeSet<WrongPort>,
    /// How many pairs of a pod and a range of addresses were compared.
    pub pairs: usize,
    /// Whether there would be more counter-examples than were to be shown.
    pub stopped: bool,
}

impl Report {
    /// Whether the groups mean the policies.
    pub fn is_proof(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// Compares groups with what a program demands. Shows at most `limit` connections.
///
/// A pod without a port is open, and shown as such. Where several have one address, the groups may let less pass than the
/// policies do.
pub fn verify(objects: &Objects, program: &Program, options: &Options, limit: usize) -> Report {
    let mut proof = Proof::new(
        program,
        options,
        limit,
        [Meaning::of(objects)].into(),
        Known::default(),
    );
    for pod in program.pods().filter(PodRef::is_managed) {
        let port = objects.ports.get(&pod.pod().object);
        let own = pod.pod().addresses.iter().collect();
        let place = Place {
            at: None,
            port,
            own: &own,
            others: &own,
        };
        proof.pod(pod, &place);
    }
    proof.report
}

/// The first address of a range that policies do not tell apart.
#[derive(Clone, Copy, Debug)]
struct End {
    address: IpAddr,
    identity: Identity,
    /// Whether less may pass with it than policies say: several have it, or a pod that is not there.
    may_miss: bool,
}

/// What is known of addresses besides what the cluster says.
#[derive(Debug, Default)]
struct Known {
    /// Those that are pods' all the same, and which identities they have by that.
    others: BTreeMap<IpAddr, Identity>,
    /// Those of pods that are not there.
    absent: BTreeSet<IpAddr>,
}

/// Who has an address.
fn identity_of(address: IpAddr, program: &Program, known: &Known) -> Identity {
    let other = known.others.get(&address).copied();
    other.unwrap_or_else(|| program.identity_of(address))
}

/// All of a family, in order.
fn ends(program: &Program, known: &Known, family: Family) -> Vec<End> {
    let mut holders: BTreeMap<IpAddr, u32> = BTreeMap::new();
    let nodes = program
        .nodes()
        .map(|node| node.addresses.iter().copied().collect::<Vec<_>>());
    let pods = program.pods().filter(|pod| !pod.pod().finished);
    let pods = pods.map(|pod| pod.pod().addresses.iter().collect::<Vec<_>>());
    for address in nodes.chain(pods).flatten().chain(known.others.keys().copied()) {
        *holders.entry(address).or_default() += 1;
    }
    let prefixes = program.prefixes().into_iter();
    let regions = prefixes.flat_map(|(prefix, _)| [Some(prefix.first()), next_address(prefix.last())]);
    let beyond = holders.keys().map(|&address| next_address(address));
    let mut addresses: BTreeSet<IpAddr> = regions.chain(beyond).flatten().collect();
    addresses.extend(holders.keys());
    addresses.retain(|address| Family::of(*address) == family);
    let end = |address| End {
        address,
        identity: identity_of(address, program, known),
        may_miss: holders.get(&address).is_some_and(|count| *count > 1) || known.absent.contains(&address),
    };
    addresses.into_iter().map(end).collect()
}

/// What is alike of pods that are judged alike.
type Alike = (
    Direction,
    Option<BTreeSet<Name>>,
    Option<SubjectId>,
    Option<SmolStr>,
);

/// Something wrong with pods that are alike: with an address, in some traffic, and whether more passes.
type Wrong = (IpAddr, TrafficSet, bool);

/// A port of a pod.
struct Place<'p> {
    at: Option<&'p Id>,
    /// `None` where no group counts, or there is none.
    port: Option<&'p Port>,
    /// Its addresses.
    own: &'p BTreeSet<IpAddr>,
    /// Those of all ports of the pod: what it sends to itself is judged nowhere.
    others: &'p BTreeSet<IpAddr>,
}

struct Proof<'a> {
    program: &'a Program,
    options: &'a Options,
    /// What passes; or, where that is not known for sure, the most and the least that may.
    meanings: Vec<Meaning<'a>>,
    addresses: Known,
    ends: [Vec<End>; 2],
    nodes: BTreeMap<SmolStr, BTreeSet<IpAddr>>,
    /// What is wrong with pods that are alike: nothing, mostly.
    known: BTreeMap<Alike, Vec<Wrong>>,
    report: Report,
    limit: usize,
}

impl<'a> Proof<'a> {
    fn new(
        program: &'a Program,
        options: &'a Options,
        limit: usize,
        meanings: Vec<Meaning<'a>>,
        addresses: Known,
    ) -> Self {
        Self {
            program,
            options,
            meanings,
            ends: Family::BOTH.map(|family| ends(program, &addresses, family)),
            addresses,
            nodes: BTreeMap::new(),
            known: BTreeMap::new(),
            report: Report::default(),
            limit,
        }
    }

    /// Compares what a port of a pod lets pass.
    fn pod(&mut self, pod: PodRef<'_>, place: &Place<'_>) {
        for direction in Direction::BOTH {
            let subject = pod.subject(direction);
            let node = pod.pod().node.clone();
            let groups = place.port.map(|port| port.security_groups.clone());
            let key = (direction, groups, subject, node);
            let wrong = match self.known.get(&key) {
                Some(wrong) => wrong.clone(),
                None => {
                    let wrong = self.wrong(place.port, subject, key.3.as_ref(), direction);
                    self.known.insert(key, wrong.clone());
                    wrong
                }
            };
            for one in wrong {
                self.show(pod, place, direction, &one);
            }
        }
    }

    /// Takes in what is wrong, unless nothing of the kind can be met at this port.
    fn show(
        &mut self,
        pod: PodRef<'_>,
        place: &Place<'_>,
        direction: Direction,
        (peer, traffic, passes): &Wrong,
    ) {
        if place.others.contains(peer) || pod.pod().addresses.iter().any(|own| own == *peer) {
            return;
        }
        let Some(own) = place.own.iter().find(|own| own.is_ipv4() == peer.is_ipv4()) else {
            return;
        };
        let Some((protocol, port)) = first_of(traffic) else {
            return;
        };
        let object = || pod.pod().object.clone();
        self.report.wrong.insert(WrongPort {
            pod: object(),
            at: place.at.cloned(),
            direction,
            passes: *passes,
        });
        if self.report.counterexamples.len() == self.limit {
            self.report.stopped = true;
            return;
        }
        let most = self.meanings.first().filter(|_| *passes).zip(place.port);
        let groups = most.map(|(meaning, of)| {
            meaning.groups_that_allow(of, direction, *peer, (protocol, port.unwrap_or_default()))
        });
        self.report.counterexamples.push(Counterexample {
            pod: object(),
            at: place.at.cloned(),
            direction,
            own: *own,
            peer: *peer,
            protocol,
            port,
            passes: *passes,
            groups: groups.unwrap_or_default(),
        });
    }

    /// With which addresses more, or less, passes than should.
    fn wrong(
        &mut self,
        port: Option<&Port>,
        subject: Option<SubjectId>,
        node: Option<&SmolStr>,
        direction: Direction,
    ) -> Vec<Wrong> {
        let own_node = node.map(|node| {
            let program = self.program;
            let known = self.nodes.entry(node.clone());
            known.or_insert_with(|| program.own_addresses(node)).clone()
        });
        let own_node = own_node.unwrap_or_default();
        let last = self.meanings.len().saturating_sub(1);
        let mut found = Vec::new();
        for (number, meaning) in self.meanings.iter().enumerate() {
            // Of the most that may pass only what is too much counts, and of the least only what is missing.
            let (counts_more, counts_missing) = (number == 0, number == last);
            for (family, ends) in Family::BOTH.into_iter().zip(&self.ends) {
                let rules = match port {
                    None => vec![(AddressSet::all().of_family(family), TrafficSet::all())],
                    Some(port) => meaning.rules(port, direction, family),
                };
                let mut differences: FxHashMap<(usize, bool, bool, Identity), Difference> =
                    FxHashMap::default();
                let mut passing = Passing::of(&rules);
                for end in passing.cut(ends, self.program, &self.addresses) {
                    let number = passing.at(end.address);
                    let peer = Peer {
                        identity: end.identity,
                        is_own_node: own_node.contains(&end.address),
                        is_besides: self.is_besides(end.address, direction),
                    };
                    let key = (number, peer.is_own_node, peer.is_besides, peer.identity);
                    let difference = differences.entry(key).or_insert_with(|| {
                        let allowed = self.demanded(peer, subject);
                        Difference::between(passing.traffic(number), &allowed, family)
                    });
                    if counts_more && !difference.more.is_empty() {
                        found.push((end.address, difference.more.clone(), true));
                    }
                    if counts_missing && !difference.missing.is_empty() && !end.may_miss {
                        found.push((end.address, difference.missing.clone(), false));
                    }
                    self.report.pairs += usize::from(counts_more);
                }
            }
        }
        found
    }

    /// What must pass between a pod and one address.
    fn demanded(&self, peer: Peer, subject: Option<SubjectId>) -> TrafficSet {
        let Some(subject) = subject.filter(|_| !peer.is_besides) else {
            return TrafficSet::all();
        };
        let allowed = match peer.is_own_node {
            true => self.program.own_node_allow_set(subject),
            false => self.program.allow_set(subject),
        };
        allowed.traffic(peer.identity).cloned().unwrap_or_default()
    }

    /// Whether everything passes with an address because the options say so.
    fn is_besides(&self, peer: IpAddr, direction: Direction) -> bool {
        let holds = |subnets: &[Prefix]| subnets.iter().any(|subnet| subnet.contains(peer));
        holds(&self.options.node_subnets)
            || direction == Direction::Egress && holds(&self.options.service_subnets)
    }
}

/// What counts of the other end.
#[derive(Clone, Copy)]
struct Peer {
    identity: Identity,
    is_own_node: bool,
    /// Whether everything passes because the options say so.
    is_besides: bool,
}

/// What passes, by the address of the other end, which is asked for in ascending order.
struct Passing<'a> {
    rules: &'a [(AddressSet, TrafficSet)],
    /// From which addresses on a rule holds, or does not hold any more: the last first.
    turns: Vec<(IpAddr, usize)>,
    /// Which rules hold now.
    holding: BTreeSet<usize>,
    /// What passes now, by its number.
    now: usize,
    known: Vec<TrafficSet>,
}

impl<'a> Passing<'a> {
    fn of(rules: &'a [(AddressSet, TrafficSet)]) -> Self {
        let mut turns = Vec::new();
        for (rule, (addresses, _)) in rules.iter().enumerate() {
            for range in addresses.ranges() {
                turns.push((range.first(), rule));
                turns.extend(next_address(range.last()).map(|next| (next, rule)));
            }
        }
        turns.sort_unstable_by(|one, other| other.cmp(one));
        Self {
            rules,
            turns,
            holding: BTreeSet::new(),
            now: 0,
            known: vec![TrafficSet::empty()],
        }
    }

    /// These ends, and the addresses from which on something else passes.
    fn cut(&self, ends: &[End], program: &Program, known: &Known) -> Vec<End> {
        let mut all = Vec::with_capacity(ends.len());
        let mut ends = ends.iter().peekable();
        for &(address, _) in self.turns.iter().rev() {
            while let Some(end) = ends.next_if(|end| end.address <= address) {
                all.push(*end);
            }
            if all.last().is_none_or(|last: &End| last.address != address) {
                all.push(End {
                    address,
                    identity: identity_of(address, program, known),
                    may_miss: false,
                });
            }
        }
        all.extend(ends);
        all
    }

    /// The number of what passes with an address.
    fn at(&mut self, address: IpAddr) -> usize {
        let mut turned = false;
        while let Some((_, rule)) = self.turns.pop_if(|(turn, _)| *turn <= address) {
            turned = true;
            if !self.holding.remove(&rule) {
                self.holding.insert(rule);
            }
        }
        if turned {
            let holding = self.holding.iter().filter_map(|&rule| self.rules.get(rule));
            let traffic = holding.fold(TrafficSet::empty(), |all, (_, traffic)| all.union(traffic));
            let known = self.known.iter().position(|known| *known == traffic);
            self.now = known.unwrap_or_else(|| {
                self.known.push(traffic);
                self.known.len() - 1
            });
        }
        self.now
    }

    /// What has this number.
    fn traffic(&self, number: usize) -> &TrafficSet {
        #[expect(clippy::indexing_slicing, reason = "INVARIANT: numbers are those of `known`")]
        &self.known[number]
    }
}

/// What passes and should not, and the other way around.
struct Difference {
    more: TrafficSet,
    missing: TrafficSet,
}

impl Difference {
    fn between(passing: &TrafficSet, allowed: &TrafficSet, family: Family) -> Self {
        let [passing, expected] = [passing, allowed].map(|traffic| expressed(traffic, family));
        let missing = expected.difference(&passing);
        Self {
            more: passing.difference(&expected),
            // Of `everything but` rules say less: see `traffic::is_expressible`.
            missing: match is_expressible(allowed) {
                true => missing,
                false => missing.intersection(&ported(family)),
            },
        }
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
