//! What passes while steps are carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::{Family, Protocol};
use picket_neutron::Objects;
use picket_neutron::meaning::Meaning;
use picket_neutron::plan::{Id, Plan};
use picket_policy::{Direction, ObjectRef};

use super::fake::Fake;

/// Some packets: whom they are between, and what they are.
pub(crate) struct Packets {
    ends: Vec<(IpAddr, Option<Id>)>,
    traffic: Vec<(Protocol, u16)>,
}

/// Which of them pass: by their ends, a bit for each traffic.
type Passing = BTreeMap<(usize, usize), u32>;

impl Packets {
    /// Between all ports, and each of them and some addresses outside. Traffic is at the edges of ranges of rules.
    pub(crate) fn of(states: &[&Objects], outside: &[IpAddr]) -> Self {
        let mut ends: BTreeSet<(IpAddr, Option<Id>)> = BTreeSet::new();
        let mut edges: BTreeSet<(Protocol, u16)> = BTreeSet::new();
        for objects in states {
            for (port, of) in &objects.ports {
                ends.extend(of.fixed_ips.iter().map(|&ip| (ip, Some(port.name.clone()))));
            }
            for rule in objects.security_groups.values().flat_map(|group| &group.rules) {
                if let (Some(protocol), Some(ports)) = (rule.protocol, rule.ports) {
                    edges.extend([(protocol, ports.first()), (protocol, ports.last())]);
                }
            }
        }
        ends.extend(outside.iter().map(|&ip| (ip, None)));
        let mut traffic = vec![
            (Protocol::TCP, 1),
            (Protocol::UDP, 53),
            (Protocol::ICMP, 0),
            (Protocol::ICMPV6, 0),
        ];
        let few = edges.len().div_ceil(10).max(1);
        traffic.extend(edges.into_iter().step_by(few));
        Self {
            ends: ends.into_iter().collect(),
            traffic,
        }
    }

    /// Which pass. A packet between addresses of one port, or of none, is not looked at.
    pub(crate) fn passing(&self, objects: &Objects) -> Passing {
        self.passing_unless(objects, &|_, _| false)
    }

    /// The same, where an end lets everything pass to and from another if it is `free` towards that one.
    fn passing_unless(&self, objects: &Objects, free: &dyn Fn(&Id, Option<&Id>) -> bool) -> Passing {
        let meaning = Meaning::of(objects);
        let mut lets: BTreeMap<(usize, Direction), Vec<u32>> = BTreeMap::new();
        for (at, (address, port)) in self.ends.iter().enumerate() {
            let Some(port) = port else { continue };
            let port = objects.ports.get(&ObjectRef::new("Port", "", port));
            for direction in Direction::BOTH {
                let rules = port.map(|port| meaning.rules(port, direction, Family::of(*address)));
                let allowed = |peer: IpAddr| {
                    let Some(rules) = &rules else { return u32::MAX };
                    let holding = rules.iter().filter(|(addresses, _)| addresses.contains(peer));
                    let bits = |(_, passing): &(_, picket_net::TrafficSet)| {
                        let each = self.traffic.iter().enumerate();
                        let each = each.filter(|(_, (protocol, port))| passing.contains(*protocol, *port));
                        each.fold(0, |bits, (bit, _)| bits | 1 << bit)
                    };
                    holding.fold(0, |all, rule| all | bits(rule))
                };
                let peers = self.ends.iter().map(|(peer, _)| allowed(*peer));
                lets.insert((at, direction), peers.collect());
            }
        }
        let mut passing = Passing::new();
        for (from, (source, source_port)) in self.ends.iter().enumerate() {
            for (to, (destination, destination_port)) in self.ends.iter().enumerate() {
                if source_port == destination_port || source.is_ipv4() != destination.is_ipv4() {
                    continue;
                }
                let at = |end: usize, direction, peer: usize| {
                    let (port, other) = (self.ends[end].1.as_ref(), self.ends[peer].1.as_ref());
                    let lets = lets.get(&(end, direction)).map(|lets| lets[peer]);
                    lets.filter(|_| !port.is_some_and(|port| free(port, other)))
                };
                let sent = at(from, Direction::Egress, to).unwrap_or(u32::MAX);
                let received = at(to, Direction::Ingress, from).unwrap_or(u32::MAX);
                passing.insert((from, to), sent & received);
            }
        }
        passing
    }
}

/// What was seen while steps were carried out.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Steps or moments at which something passed that passes neither before nor after.
    pub(crate) opened: Vec<String>,
    /// How many kinds of packets did not pass at a moment, and pass before and after.
    pub(crate) cut: usize,
}

/// Carries out a plan, and looks after each step, and at some other choices of the steps of each stage. `seed` chooses these.
pub(crate) fn watch(fake: &mut Fake, plan: &Plan, outside: &[IpAddr], seed: u64) -> Seen {
    let mut end = fake.clone();
    end.carry_out_all(plan);
    watch_to(fake, plan, &end.objects(), &BTreeSet::new(), outside, seed)
}

/// The same where the plan does not lead to `after`, as what the policies say, since some ports are `stuck`.
///
/// Of a port without groups nothing says before what it may exchange with those: that is theirs to say.
pub(crate) fn watch_to(
    fake: &mut Fake,
    plan: &Plan,
    after: &Objects,
    stuck: &BTreeSet<Id>,
    outside: &[IpAddr],
    mut seed: u64,
) -> Seen {
    let mut end = fake.clone();
    end.carry_out_all(plan);
    let before = fake.objects();
    let packets = Packets::of(&[&before, after, &end.objects()], outside);
    let is_new = |port: &Id| fake.installed.ports[port].security_groups.is_empty() && !stuck.contains(port);
    let free = |port: &Id, other: Option<&Id>| is_new(port) && other.is_some_and(|port| stuck.contains(port));
    let (before, after) = (packets.passing_unless(&before, &free), packets.passing(after));
    let mut seen = Seen::default();
    let mut look = |state: &Fake, at: &dyn Fn() -> String| {
        for (pair, now) in packets.passing(&state.objects()) {
            let (old, new) = (before[&pair], after[&pair]);
            let opened = now & !(old | new);
            if opened != 0 {
                let [from, to] = [pair.0, pair.1].map(|end| &packets.ends[end]);
                let traffic = &packets.traffic[opened.trailing_zeros() as usize];
                seen.opened
                    .push(format!("{}: {from:?} to {to:?}: {traffic:?}", at()));
            }
            seen.cut += ((old & new) & !now).count_ones() as usize;
        }
    };
    for (number, stage) in plan.stages.iter().enumerate() {
        for _ in 0..2 {
            let mut some = fake.clone();
            let mut done = Vec::new();
            for step in stage.iter().rev() {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                if seed >> 63 == 1 {
                    some.carry_out(plan, step);
                    done.push(step);
                }
            }
            look(&some, &|| format!("stage {number} with {done:?}"));
        }
        for step in stage {
            fake.carry_out(plan, step);
            look(fake, &|| format!("stage {number} after {step:?}"));
        }
    }
    seen
}
