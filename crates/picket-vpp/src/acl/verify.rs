//! Proof that the lists of a node mean the policies, or packets with which they do not.
//!
//! Worked out for all packets at once: rules and policies cut the addresses into ranges of which all addresses are alike, and
//! between two of them both say which packets pass. What must pass, and what must not, comes from the compiled program
//! alone. Proved of every pod, for each of its addresses:
//!
//! - what may be sent to it is exactly what it may receive from there and what there may be sent to it;
//! - what leaves the node from it is exactly what it may send there;
//! - it sends nothing with addresses of others, and what passes on the way from it is what it may send, but for addresses of
//!   services, which are translated later;
//! - the answer to what passes gets back, and what must not pass at the list that judges it first leaves nothing by which what answers
//!   it would pass;
//! - where a pod of the node may not receive everything, every pod sends only with its own addresses.
//!
//! Five things are not proved, because VPP does not do them: of fragments that are not the first nothing but the protocol
//! counts, nor of those that answer them; what goes to an address of a service lets answers from there in before it is judged; one
//! association of SCTP lets in every other between its ends; what gets another source on its way to a service is no pod's; and what
//! a pod sends lets answers in before another pod has judged it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_dataplane::demand::End;
use picket_engine::{PodRef, Program};
use picket_net::{Family, Prefix, TrafficSet};
use picket_policy::Direction;
use smol_str::SmolStr;

use super::meaning::{Packet, Way};
use super::model::{AclAction, AclRule, Acls, Beginnings, InterfaceLists, Tag};
use crate::layer4::Layer4;
use crate::peers::{Peers, beside, subtract};
use crate::proof::{self, Walk};
use crate::value::{Value, Values};

/// A packet with which lists do not mean the policies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counterexample {
    /// The interface.
    pub interface: SmolStr,
    /// Which way it goes through.
    pub way: Way,
    /// The first packet of a connection.
    pub packet: Packet,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with what lists do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It passes, and must not.
    Passes,
    /// It is dropped, and must not be.
    Dropped,
    /// It passes, as it must, and what answers it does not.
    NoAnswer,
    /// It is dropped further on, as it must be, and what answers it passes all the same.
    Answered,
}

/// What was found.
pub type Report = proof::Report<Counterexample>;

/// Compares the lists of a node with what a program demands there; with `None`, on one node that runs every pod. Gives up
/// after `limit` packets. `interfaces` are those of a pod; nothing is proved of one without any.
pub fn verify(
    acls: &Acls,
    program: &Program,
    node: Option<&str>,
    interfaces: impl Fn(PodRef<'_>) -> Vec<SmolStr>,
    limit: usize,
) -> Report {
    let services = program.services().flat_map(|service| &service.addresses);
    let mut services: BTreeSet<_> = services.copied().collect();
    if !services.is_empty() {
        // An address that somebody has is his, whatever services say.
        for (address, _) in program.endpoints() {
            services.remove(&address);
        }
    }
    let mut proof = Proof {
        acls,
        program,
        walk: Walk::new(program, node),
        services,
        closed: None,
        values: Values::default(),
        report: Report::up_to(limit),
    };
    let pods = proof::pods(program, node);
    let each: Vec<_> = pods.into_iter().map(|pod| (pod, interfaces(pod))).collect();
    for (pod, names) in &each {
        for name in names {
            proof.pod(*pod, name);
        }
    }
    for name in each.iter().flat_map(|(_, names)| names) {
        proof.without_list(name);
    }
    proof.report
}

struct Proof<'a> {
    acls: &'a Acls,
    program: &'a Program,
    walk: Walk<'a>,
    services: BTreeSet<IpAddr>,
    /// An address of a pod that may not receive everything.
    closed: Option<IpAddr>,
    values: Values,
    report: Report,
}

/// What rules of an interface let pass towards one address, by the other end's.
struct Passage {
    /// All that may pass.
    most: Peers,
    /// All that passes for certain.
    least: Peers,
    /// All that passes for certain with its answers.
    reflected: Peers,
    /// All that may pass and leave a session for its answers.
    may_reflect: Peers,
    /// What of TCP drops what answers it and has no session: its ports are those of who answers.
    unanswered: Peers,
    /// Whether there is no list at all.
    is_open: bool,
    /// Whether the pod is the source, and the other end the destination.
    is_source: bool,
}

/// One address of a pod with what is on its way.
struct Ways {
    to_pod: Passage,
    from_pod: Passage,
    /// Of each interface that leads out: what leaves there, and what enters there.
    outside: Vec<(SmolStr, Passage, Passage)>,
}

impl Proof<'_> {
    fn pod(&mut self, pod: PodRef<'_>, name: &SmolStr) {
        let none = InterfaceLists::default();
        let lists = self.acls.interfaces.get(name).unwrap_or(&none);
        let receives = pod.subject(Direction::Ingress);
        if receives.is_some_and(|subject| !self.program.allow_set(subject).is_everything()) {
            self.closed = self.closed.or_else(|| pod.pod().addresses.iter().next());
        }
        for address in pod.pod().addresses.iter() {
            let uplinks = self
                .acls
                .interfaces
                .iter()
                .filter(|(_, lists)| lists.pod.is_none());
            let outside: Vec<_> = uplinks.map(|(name, lists)| (name.clone(), lists)).collect();
            let outside = outside.into_iter().map(|(name, lists)| {
                let leaves = self.passage(&lists.output, address, true);
                (name, leaves, self.passage(&lists.input, address, false))
            });
            let outside: Vec<_> = outside.collect();
            let ways = Ways {
                to_pod: self.passage(&lists.output, address, false),
                from_pod: self.passage(&lists.input, address, true),
                outside,
            };
            self.address(pod, name, address, &ways);
        }
        self.foreign_sources(pod, name, lists);
    }

    /// What lists let pass that is sent from `address`, or else to it.
    fn passage(&mut self, tags: &[Tag], address: IpAddr, is_source: bool) -> Passage {
        let family = Family::of(address);
        let rest = if tags.is_empty() {
            Value::EVERYTHING
        } else {
            Value::NOTHING
        };
        let mut decisions = [const { Vec::new() }; 4];
        let mut answers = Vec::new();
        for rule in self.acls.rules(tags) {
            let (own, peer) = match is_source {
                true => (rule.source, rule.destination),
                false => (rule.destination, rule.source),
            };
            if !own.contains(address) {
                continue;
            }
            let passes = rule.action != AclAction::Deny;
            let reflects = rule.action == AclAction::PermitReflect;
            let [most, least, reflected, may_reflect] = &mut decisions;
            answers.extend(rule.answers().map(|(ports, passes)| (peer, ports, !passes)));
            // What no packet that begins something matches decides none of them; what it lets pass may all the same.
            if rule.beginnings() == Beginnings::None && !passes {
                continue;
            }
            // A rule about some source ports, or flags, holds only some of these packets.
            let is_whole = rule.any_source_port() && rule.beginnings() == Beginnings::All;
            let selected = rule.selected();
            if is_whole || passes {
                most.push((peer, selected.clone(), passes));
            }
            if is_whole || !passes {
                least.push((peer, selected.clone(), passes));
                reflected.push((peer, selected.clone(), reflects));
            }
            if is_whole || reflects {
                may_reflect.push((peer, selected, reflects));
            }
        }
        let [most, least, reflected, may_reflect] = &decisions;
        let mut peers =
            |decisions: &[_], rest| Peers::of_decisions(family, decisions, rest, &mut self.values);
        Passage {
            most: peers(most, rest),
            least: peers(least, rest),
            // Where there is no list, nothing makes a session.
            reflected: peers(reflected, Value::NOTHING),
            may_reflect: peers(may_reflect, Value::NOTHING),
            unanswered: peers(&answers, Value::NOTHING),
            is_open: tags.is_empty(),
            is_source,
        }
    }

    fn address(&mut self, pod: PodRef<'_>, name: &SmolStr, own: IpAddr, ways: &Ways) {
        let own_end = self.walk.end(own);
        for peer in self.peers(own, ways) {
            if self.report.stopped {
                return;
            }
            if pod.pod().addresses.iter().any(|address| address == peer) {
                continue;
            }
            self.report.pairs += 1;
            let peer_end = self.walk.end(peer);
            self.received(name, own, peer, (&own_end, &peer_end), ways);
            self.sent(pod, name, own, peer, (&own_end, &peer_end), ways);
        }
    }

    /// The first addresses of ranges that neither policies nor rules tell apart.
    fn peers(&self, own: IpAddr, ways: &Ways) -> BTreeSet<IpAddr> {
        let outside = ways
            .outside
            .iter()
            .flat_map(|(_, leaves, enters)| [leaves, enters]);
        let passages = outside.chain([&ways.to_pod, &ways.from_pod]);
        let peers = passages.flat_map(|passage| {
            [
                &passage.most,
                &passage.least,
                &passage.reflected,
                &passage.may_reflect,
                &passage.unanswered,
            ]
        });
        let entries = peers.flat_map(|peers| peers.entries());
        let told_apart = entries.map(|entry| (entry.prefix.first(), entry.prefix.last()));
        let services = self.services.iter().map(|&address| (address, address));
        self.walk.peers(Family::of(own), told_apart.chain(services))
    }

    /// What a pod may be sent by a peer.
    fn received(
        &mut self,
        name: &SmolStr,
        own: IpAddr,
        peer: IpAddr,
        (own_end, peer_end): (&End, &End),
        ways: &Ways,
    ) {
        let Some(allowed) = self.walk.received((peer, peer_end), own_end) else {
            return;
        };
        let allowed = Layer4::allowed(&allowed, Family::of(own));
        let ends = (peer, own);
        self.compare(name, Way::Out, ends, &ways.to_pod, &allowed);
        if !self.all_answers(&ways.from_pod, peer, &allowed) {
            self.reflects(name, Way::Out, ends, &ways.to_pod, &allowed);
        }
        if self.walk.local.contains(&peer) {
            return;
        }
        for (uplink, leaves, enters) in &ways.outside {
            self.dropped(uplink, Way::In, ends, enters, &allowed);
            if !self.all_answers(leaves, peer, &allowed) {
                self.reflects(uplink, Way::In, ends, enters, &allowed);
                // Nothing has judged it yet.
                let most = self.values.set(enters.may_reflect.value(peer)).clone();
                self.found(uplink, Way::In, ends, &most.difference(&allowed), Fault::Answered);
            }
        }
    }

    /// What a pod may send to a peer.
    fn sent(
        &mut self,
        pod: PodRef<'_>,
        name: &SmolStr,
        own: IpAddr,
        peer: IpAddr,
        (own_end, peer_end): (&End, &End),
        ways: &Ways,
    ) {
        let Some(allowed) = self.walk.sent(own_end, (peer, peer_end)) else {
            return;
        };
        let allowed = Layer4::allowed(&allowed, Family::of(own));
        let ends = (own, peer);
        self.dropped(name, Way::In, ends, &ways.from_pod, &allowed);
        if !ways.from_pod.is_open && !self.services.contains(&peer) {
            let egress = Layer4::allowed(&self.egress(pod, peer), Family::of(own));
            let most = self.values.set(ways.from_pod.most.value(peer)).clone();
            self.found(name, Way::In, ends, &most.difference(&egress), Fault::Passes);
        }
        if !self.all_answers(&ways.to_pod, peer, &allowed) {
            self.reflects(name, Way::In, ends, &ways.from_pod, &allowed);
        }
        if !self.walk.local.contains(&peer) {
            for (uplink, leaves, enters) in &ways.outside {
                self.compare(uplink, Way::Out, ends, leaves, &allowed);
                if !self.all_answers(enters, peer, &allowed) {
                    self.reflects(uplink, Way::Out, ends, leaves, &allowed);
                }
            }
        }
    }

    /// Whether what answers the allowed passes without a session, as everything does there.
    fn all_answers(&self, passage: &Passage, peer: IpAddr, allowed: &Layer4) -> bool {
        let unanswered = self.values.set(passage.unanswered.value(peer));
        let is_all = self.values.set(passage.least.value(peer)).is_all();
        is_all && unanswered.intersection(allowed).is_empty()
    }

    /// What the policies of a pod alone let it send.
    fn egress(&self, pod: PodRef<'_>, peer: IpAddr) -> TrafficSet {
        let Some(subject) = pod.subject(Direction::Egress) else {
            return TrafficSet::all();
        };
        let allowed = match self.walk.own_node.contains(&peer) {
            true => self.program.own_node_allow_set(subject),
            false => self.program.allow_set(subject),
        };
        let identity = self.program.identity_of(peer);
        allowed.traffic(identity).cloned().unwrap_or_default()
    }

    fn compare(
        &mut self,
        name: &SmolStr,
        way: Way,
        ends: (IpAddr, IpAddr),
        passage: &Passage,
        allowed: &Layer4,
    ) {
        let most = self
            .values
            .set(passage.most.value(peer_of(ends, passage)))
            .clone();
        self.found(name, way, ends, &most.difference(allowed), Fault::Passes);
        self.dropped(name, way, ends, passage, allowed);
    }

    fn dropped(
        &mut self,
        name: &SmolStr,
        way: Way,
        ends: (IpAddr, IpAddr),
        passage: &Passage,
        allowed: &Layer4,
    ) {
        let least = self
            .values
            .set(passage.least.value(peer_of(ends, passage)))
            .clone();
        self.found(name, way, ends, &allowed.difference(&least), Fault::Dropped);
    }

    /// Whether what is allowed leaves a session behind: but for what IPv6 does not work without, which is answered anyway.
    fn reflects(
        &mut self,
        name: &SmolStr,
        way: Way,
        ends: (IpAddr, IpAddr),
        passage: &Passage,
        allowed: &Layer4,
    ) {
        let reflected = self
            .values
            .set(passage.reflected.value(peer_of(ends, passage)))
            .clone();
        let missing = allowed.difference(&reflected);
        self.found(name, way, ends, &missing, Fault::NoAnswer);
    }

    fn found(
        &mut self,
        name: &SmolStr,
        way: Way,
        (source, destination): (IpAddr, IpAddr),
        wrong: &Layer4,
        fault: Fault,
    ) {
        let necessary = Layer4::necessary(Family::of(source));
        let wrong = match fault {
            Fault::NoAnswer => wrong.difference(&necessary),
            Fault::Passes | Fault::Dropped | Fault::Answered => wrong.clone(),
        };
        let Some((protocol, port)) = wrong.preferred() else {
            return;
        };
        self.report.add(Counterexample {
            interface: name.clone(),
            way,
            packet: Packet::holding(source, destination, protocol, port),
            fault,
        });
    }

    /// Where no list holds a pod to its own addresses, it reaches those that may not receive everything by that of their node.
    fn without_list(&mut self, name: &SmolStr) {
        let lists = self.acls.interfaces.get(name);
        let Some(closed) = self
            .closed
            .filter(|_| lists.is_none_or(|lists| lists.input.is_empty()))
        else {
            return;
        };
        let family = Family::of(closed);
        let mut of_node = self.walk.own_node.iter().copied();
        let of_node = of_node.find(|&address| Family::of(address) == family);
        let source = of_node.unwrap_or_else(|| beside(closed));
        self.found(name, Way::In, (source, closed), &Layer4::all(), Fault::Passes);
    }

    /// What lets packets pass from a pod with addresses that are not its own.
    fn foreign_sources(&mut self, pod: PodRef<'_>, name: &SmolStr, lists: &InterfaceLists) {
        let own: BTreeSet<_> = pod.pod().addresses.iter().map(Prefix::host).collect();
        let rules: Vec<AclRule> = self.acls.rules(&lists.input).copied().collect();
        // What nothing has denied yet, whoever sends it.
        let mut open = Family::BOTH.map(Prefix::all).to_vec();
        let without = |from: &[Prefix], prefix: &Prefix| -> Vec<Prefix> {
            from.iter().flat_map(|outer| subtract(outer, prefix)).collect()
        };
        for rule in rules {
            if rule.action == AclAction::Deny {
                if rule.is_about_all_from_its_source() {
                    open = without(&open, &rule.source);
                }
                continue;
            }
            let selected = rule.selected().difference(&Layer4::necessary(rule.family()));
            if selected.is_empty() {
                continue;
            }
            let here = open
                .iter()
                .filter_map(|open| match open.contains_prefix(&rule.source) {
                    true => Some(rule.source),
                    false => rule.source.contains_prefix(open).then_some(*open),
                });
            let here = own
                .iter()
                .fold(here.collect(), |here: Vec<_>, own| without(&here, own));
            let Some(foreign) = here.first().map(Prefix::first) else {
                continue;
            };
            let ends = (foreign, rule.destination.first());
            self.found(name, Way::In, ends, &selected, Fault::Passes);
        }
    }
}

/// The end that a passage tells apart by: the one that is not the pod's.
fn peer_of((source, destination): (IpAddr, IpAddr), passage: &Passage) -> IpAddr {
    if passage.is_source { destination } else { source }
}
