//! Rulesets with one change are refuted by a real packet, or no packet of a finer sample shows the change.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_cluster::{Semantics, Snapshot};
use picket_dataplane::demand::Demands;
use picket_dataplane::{Crossing, Packet, State};
use picket_engine::Engine;
use picket_net::{Family, Interval, Protocol};
use picket_nftables::custom::{CustomRules, add};
use picket_nftables::meaning::Interpreter;
use picket_nftables::model::*;
use picket_nftables::print;
use picket_nftables::render::indexed;
use picket_testing::generate::{Shape, semantics, snapshot};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::{nodes, pod_on_networks, pod_tables, proof_over, uplinks};
use crate::custom::custom_rules;
use crate::indexed::table_with;
use crate::networks::networks;

/// A small deterministic generator (xorshift64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound.max(1)).expect("small")).expect("small")
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() {
            None
        } else {
            of.get(self.below(of.len()))
        }
    }
}

/// Changes one thing at random; `None` when there was nothing of that kind, or nft would refuse the result.
fn mutated(table: &Table, dice: &mut Dice) -> Option<Table> {
    let mut draft = table.clone().into_draft();
    let kind = dice.below(10);
    match kind {
        0..=4 => {
            let full: Vec<usize> = (0..draft.chains.len())
                .filter(|&at| !draft.chains[at].rules.is_empty())
                .collect();
            let rules = &mut draft.chains[*dice.pick(&full)?].rules;
            let at = dice.below(rules.len());
            match kind {
                0 => drop(rules.remove(at)),
                1 => {
                    let other = dice.below(rules.len());
                    rules.swap(at, other);
                }
                2 => {
                    let verdicts = [Verdict::Accept, Verdict::Drop, Verdict::Return];
                    rules[at].end = End::Verdict(dice.pick(&verdicts)?.clone());
                }
                3 => {
                    let statements = &mut rules[at].statements;
                    if statements.is_empty() {
                        return None;
                    }
                    let gone = dice.below(statements.len());
                    statements.remove(gone);
                }
                _ => {
                    let statement = rules[at].statements.iter_mut().find_map(|one| match one {
                        Statement::Match(
                            Match::Compare { relation, .. }
                            | Match::Lookup { relation, .. }
                            | Match::TcpFlags { relation, .. },
                        ) => Some(relation),
                        _ => None,
                    })?;
                    *statement = match *statement {
                        Relation::Is => Relation::IsNot,
                        Relation::IsNot => Relation::Is,
                    };
                }
            }
        }
        5 => {
            let at = dice.below(draft.sets.len());
            let set = draft.sets.get(at)?;
            let mut elements: Vec<Key> = set.elements().iter().cloned().collect();
            changed(&mut elements, dice)?;
            draft.sets[at] =
                Set::new(set.name().clone(), set.key().to_vec(), set.interval(), elements).ok()?;
        }
        6..=8 => {
            let at = dice.below(draft.maps.len());
            let map = draft.maps.get(at)?;
            let mut pairs: Vec<(Key, Datum)> = map
                .elements()
                .iter()
                .map(|(key, datum)| (key.clone(), datum.clone()))
                .collect();
            if pairs.is_empty() {
                return None;
            }
            let one = dice.below(pairs.len());
            match kind {
                6 => drop(pairs.remove(one)),
                7 => {
                    let other = dice.below(pairs.len());
                    pairs[one].1 = pairs[other].1.clone();
                }
                _ => {
                    let mut keys = vec![pairs[one].0.clone()];
                    widened(&mut keys, dice)?;
                    pairs[one].0 = keys.remove(0);
                }
            }
            let key = map.key().to_vec();
            draft.maps[at] = Map::new(map.name().clone(), key, map.gives(), map.interval(), pairs).ok()?;
        }
        _ => {
            let bases: Vec<usize> = (0..draft.chains.len())
                .filter(|&at| draft.chains[at].base.is_some())
                .collect();
            let base = draft.chains[*dice.pick(&bases)?].base.as_mut()?;
            match dice.below(2) {
                0 => base.policy = Policy::Drop,
                _ => base.priority = -300,
            }
        }
    }
    draft.check().ok()
}

/// Removes or widens an element.
fn changed(elements: &mut Vec<Key>, dice: &mut Dice) -> Option<()> {
    if elements.is_empty() {
        return None;
    }
    if dice.below(2) == 0 {
        let gone = dice.below(elements.len());
        elements.remove(gone);
        return Some(());
    }
    let at = dice.below(elements.len());
    let mut one = vec![elements[at].clone()];
    widened(&mut one, dice)?;
    elements[at] = one.remove(0);
    Some(())
}

/// Moves the end of one value of a key by one.
fn widened(keys: &mut [Key], dice: &mut Dice) -> Option<()> {
    let mut values = keys[0].values().to_vec();
    let at = dice.below(values.len());
    values[at] = match &values[at] {
        Value::Ipv4(one) => Value::Ipv4(Interval::new(one.first(), one.last().checked_add(1)?)?),
        Value::Ipv6(one) => Value::Ipv6(Interval::new(one.first(), one.last().checked_add(1)?)?),
        Value::Port(one) => Value::Port(Interval::new(one.first(), one.last().checked_add(1)?)?),
        Value::Protocol(one) => Value::Protocol(Interval::single(one.first().checked_add(11)?)),
        Value::Icmpv6Type(one) => Value::Icmpv6Type(Interval::single(one.first().checked_add(1)?)),
        Value::Priority(one) => Value::priority(one.first() ^ 1),
        _ => return None,
    };
    keys[0] = Key::of(values);
    Some(())
}

/// What packets are made of: everything near a value that the table or the cluster names.
struct Pools {
    addresses: [Vec<IpAddr>; 2],
    ports: Vec<Option<u16>>,
    priorities: Vec<u32>,
    interfaces: Vec<String>,
}

impl Pools {
    fn of(table: &Table, snapshot: &Snapshot) -> Self {
        let mut numbers: [BTreeSet<u128>; 2] = [BTreeSet::from([0, 1]), BTreeSet::from([0, 1])];
        let mut ports = BTreeSet::from([0, 1, 80, 65535]);
        let mut priorities = BTreeSet::from([0, 1, 3, 7, 8, 0x8000_0001]);
        let mut near = |value: &Value| {
            let Some((first, last)) = value.ends() else { return };
            for number in [first.wrapping_sub(1), first, last, last.wrapping_add(1)] {
                match value {
                    Value::Ipv4(_) => drop(u32::try_from(number).map(|_| numbers[0].insert(number))),
                    Value::Ipv6(_) => drop(numbers[1].insert(number)),
                    Value::Port(_) => drop(u16::try_from(number).map(|port| ports.insert(port))),
                    Value::Priority(_) => drop(u32::try_from(number).map(|one| priorities.insert(one))),
                    _ => {}
                }
            }
        };
        let keys = table.sets().iter().flat_map(|set| set.elements());
        keys.chain(table.maps().iter().flat_map(|map| map.elements().keys()))
            .flat_map(Key::values)
            .for_each(&mut near);
        for rule in table.chains().iter().flat_map(|chain| &chain.rules) {
            for statement in &rule.statements {
                match statement {
                    Statement::Match(Match::Compare { value, .. }) => near(value),
                    Statement::Match(Match::AnyOf { values, .. }) => values.iter().for_each(&mut near),
                    _ => {}
                }
            }
        }
        let v4 = |number: &u128| Ipv4Addr::from_bits(u32::try_from(*number).expect("32 bits")).into();
        let mut addresses: [Vec<IpAddr>; 2] = [
            numbers[0].iter().map(v4).collect(),
            numbers[1]
                .iter()
                .map(|number| Ipv6Addr::from_bits(*number).into())
                .collect(),
        ];
        let nodes = snapshot
            .nodes
            .values()
            .flat_map(|node| node.addresses.iter().copied());
        for address in snapshot
            .pods
            .values()
            .flat_map(|pod| pod.addresses.iter())
            .chain(nodes)
        {
            // More often than the rest: most of what matters is about these.
            addresses[usize::from(Family::of(address) == Family::Ipv6)].extend([address; 3]);
        }
        Self {
            addresses,
            ports: ports.into_iter().map(Some).chain([None]).collect(),
            priorities: priorities.into_iter().collect(),
            interfaces: ["eth0", "net1", "lo", "other"].map(str::to_owned).to_vec(),
        }
    }

    fn packet(&self, dice: &mut Dice) -> Packet {
        let addresses = &self.addresses[dice.below(2)];
        let interface = |dice: &mut Dice| dice.pick(&self.interfaces).expect("some").as_str().into();
        let crossing = match dice.below(4) {
            0 => Crossing::Receive {
                input: interface(dice),
            },
            1 => Crossing::Send {
                output: interface(dice),
            },
            2 => Crossing::Relay {
                output: interface(dice),
            },
            _ => Crossing::Forward {
                input: interface(dice),
                output: interface(dice),
            },
        };
        let protocols = [6, 6, 17, 132, 1, 58, 47, 255].map(Protocol::from_number);
        let protocol = *dice.pick(&protocols).expect("some");
        let states = [
            State::New,
            State::New,
            State::Established,
            State::Related,
            State::Invalid,
            State::Untracked,
        ];
        let types = [0, 1, 2, 3, 8, 128, 132, 133, 135, 137, 138].map(Some);
        let flags = [0x02, 0x0a, 0x10, 0x12, 0x11, 0x04, 0x00, 0x3f].map(Some);
        let flags = flags.into_iter().chain([None]).collect::<Vec<_>>();
        let is_icmp = matches!(protocol, Protocol::ICMP | Protocol::ICMPV6);
        Packet {
            port: *dice.pick(&self.ports).expect("some"),
            icmp_type: if is_icmp {
                *dice.pick(&types).expect("some")
            } else {
                None
            },
            tcp_flags: if protocol == Protocol::TCP {
                *dice.pick(&flags).expect("some")
            } else {
                None
            },
            state: *dice.pick(&states).expect("some"),
            priority: if dice.below(2) == 0 {
                0
            } else {
                *dice.pick(&self.priorities).expect("some")
            },
            reverse_path: dice.below(2) == 0,
            ..Packet::opening(
                crossing,
                *dice.pick(addresses).expect("some"),
                *dice.pick(addresses).expect("some"),
                protocol,
                0,
            )
        }
    }
}

/// Whether the table is refuted on an interface; when it is not, no packet of a random sample may be treated wrongly.
fn refuted(
    interface: &str,
    table: &Table,
    demands: &Demands<'_>,
    snapshot: &Snapshot,
    dice: &mut Dice,
) -> bool {
    if !proof_over(interface, table, demands).is_proof() {
        return true;
    }
    let (pools, interpreter) = (Pools::of(table, snapshot), Interpreter::new(table));
    for _ in 0..1500 {
        let packet = pools.packet(dice);
        let passage = interpreter.pass(&packet);
        let required = demands.required(&packet);
        assert!(
            required.is_met_by(&passage.outcome),
            "proved, and yet {packet:?} must be {required:?} and is {passage:?}\n{}",
            print::block(table)
        );
    }
    false
}

/// Mutates random rulesets; gives how many were refuted, and how many there were.
fn rounds(documented: bool, rounds: usize) -> (usize, usize) {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let clusters = (
        prop_oneof![
            snapshot(Shape::V1, 5),
            snapshot(Shape::Tiered, 4),
            snapshot(Shape::Dialects, 5)
        ],
        semantics(),
        custom_rules(),
    );
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut wrong, mut all) = (0, 0);
    let mut check = |snapshot: &Snapshot, table: &Table, demands: &Demands<'_>| {
        for _ in 0..12 {
            if let Some(table) = mutated(table, &mut dice) {
                all += 1;
                wrong += usize::from(refuted("eth0", &table, demands, snapshot, &mut dice));
            }
        }
    };
    for round in 0..rounds {
        let (mut snapshot, mut semantics, custom): (Snapshot, Semantics, Vec<CustomRules>) =
            clusters.new_tree(&mut runner).expect("a cluster").current();
        if documented {
            semantics.ipblock_matches_pods = true;
            add(&custom, &mut snapshot, "eth0");
        }
        let engine = Engine::compile(&snapshot, semantics.clone());
        if documented {
            for (_, table, demands) in pod_tables(&snapshot, &engine, &custom, true) {
                check(&snapshot, &table, &demands);
            }
            continue;
        }
        for node in nodes(&snapshot) {
            let (program, node) = (engine.program(), node.as_deref());
            let demands = Demands::on_node(program, node);
            if round % 2 == 0 {
                let table = indexed::render(program, node).expect("a table");
                check(&snapshot, &table, &demands);
            } else {
                let table = table_with(&snapshot, &semantics, node);
                check(&snapshot, &table, &demands.against_spoofing(uplinks()));
            }
        }
    }
    (wrong, all)
}

#[test]
fn a_changed_node_is_refuted_or_means_the_same() {
    let (wrong, all) = rounds(false, 48);
    assert!(all > 300 && wrong * 3 > all, "{wrong} of {all}");
}

#[test]
fn a_changed_pod_is_refuted_or_means_the_same() {
    let (wrong, all) = rounds(true, 40);
    assert!(all > 300 && wrong * 5 > all, "{wrong} of {all}");
}

#[test]
fn a_changed_pod_on_several_networks_is_refuted_or_means_the_same_on_each() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let clusters = (snapshot(Shape::Dialects, 8), semantics());
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut wrong, mut all) = (0, 0);
    for _ in 0..12 {
        let (cluster, semantics) = clusters.new_tree(&mut runner).expect("a cluster").current();
        let networks = networks(&cluster);
        let compile = |network: &Snapshot| Engine::compile(network, semantics.clone());
        let engines: Vec<_> = networks.iter().map(|(_, network)| compile(network)).collect();
        for pod in cluster.live_pods().filter(|pod| pod.is_managed()) {
            pod_on_networks(
                &networks,
                &engines,
                pod,
                &[],
                |interface, network, table, demands| {
                    if interface == "eth0" {
                        return;
                    }
                    for _ in 0..12 {
                        if let Some(table) = mutated(table, &mut dice) {
                            all += 1;
                            wrong += usize::from(refuted(interface, &table, demands, network, &mut dice));
                        }
                    }
                },
            );
        }
    }
    assert!(all > 200 && wrong * 8 > all, "{wrong} of {all}");
}
