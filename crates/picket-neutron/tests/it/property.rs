//! For random clusters.

use std::collections::BTreeMap;
use std::net::IpAddr;

use picket_cluster::{Endpoint, Flow, Semantics, Snapshot};
use picket_engine::Engine;
use picket_neutron::meaning::Meaning;
use picket_neutron::verify::verify;
use picket_neutron::{Objects, Options, Remote, render, table};
use picket_policy::ObjectRef;
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, semantics, snapshot};
use proptest::prelude::*;
use proptest::sample::Index;

/// Without and with address groups.
fn options() -> impl Strategy<Value = Options> {
    any::<bool>().prop_map(|address_groups| Options {
        address_groups,
        ..Options::default()
    })
}

/// An end as Neutron meets it: an address, and the port that has it.
fn end<'a>(snapshot: &'a Snapshot, end: &'a Endpoint, flow: &Flow) -> (IpAddr, Option<&'a ObjectRef>) {
    match end {
        Endpoint::Node { address, .. } | Endpoint::External(address) => (*address, None),
        Endpoint::Pod(object) => {
            let pod = &snapshot.pods[object];
            let address = pod.addresses.of(flow.family).expect("an address of the family");
            (address, (!pod.host_network).then_some(object))
        }
    }
}

fn passes(snapshot: &Snapshot, objects: &Objects, flow: &Flow) -> bool {
    let [source, destination] = [&flow.source, &flow.destination].map(|at| end(snapshot, at, flow));
    Meaning::of(objects).passes(source, destination, (flow.protocol, flow.port))
}

/// The addresses that several pods or nodes have.
fn shared(snapshot: &Snapshot) -> Vec<IpAddr> {
    let mut holders: BTreeMap<IpAddr, u32> = BTreeMap::new();
    let pods = snapshot.pods.values().filter(|pod| !pod.finished);
    let pods = pods.flat_map(|pod| pod.addresses.iter().collect::<Vec<_>>());
    let nodes = snapshot
        .nodes
        .values()
        .flat_map(|node| node.addresses.iter().copied());
    for address in pods.chain(nodes) {
        *holders.entry(address).or_default() += 1;
    }
    let shared = holders.into_iter().filter(|(_, count)| *count > 1);
    shared.map(|(address, _)| address).collect()
}

/// Holds every representative flow against the specification: the first that is not the same.
fn differs(snapshot: &Snapshot, semantics: &Semantics, objects: &Objects) -> Option<(Flow, bool)> {
    let shared = shared(snapshot);
    let flows = representative_flows(snapshot).into_iter();
    let judged = flows.map(|flow| {
        let allowed = picket_reference::judge(snapshot, semantics, &flow)
            .verdict()
            .is_allow();
        (flow, allowed)
    });
    let mut wrong = judged.filter(|(flow, allowed)| {
        let ends = [&flow.source, &flow.destination].map(|at| end(snapshot, at, flow).0);
        let may_be_less = ends.iter().any(|end| shared.contains(end));
        let passes = passes(snapshot, objects, flow);
        // Of every protocol but some ports of one, rules say TCP, UDP, SCTP and ICMP.
        let is_said = flow.protocol.has_ports() || ["ICMP", "ICMPv6"].contains(&&*flow.protocol.to_string());
        if passes {
            !allowed
        } else {
            *allowed && !may_be_less && is_said
        }
    });
    wrong.next()
}

/// The same groups with one rule of one of them changed.
fn mutated(objects: &Objects, group: Index, rule: Index, mutation: u8) -> Option<Objects> {
    let mut objects = objects.clone();
    let with_rules: Vec<_> = objects
        .security_groups
        .iter()
        .filter(|(_, group)| !group.rules.is_empty())
        .map(|(name, _)| name.clone())
        .collect();
    if with_rules.is_empty() {
        return None;
    }
    let group = objects.security_groups.get_mut(group.get(&with_rules))?;
    let at = rule.index(group.rules.len());
    let mut changed = group.rules.iter().nth(at)?.clone();
    group.rules.remove(&changed);
    match mutation {
        0 => return Some(objects),
        1 => changed.remote = Remote::Anyone,
        2 => changed.protocol = None,
        3 => changed.ports = None,
        _ => changed.direction = changed.direction.opposite(),
    }
    if changed.protocol.is_none() {
        changed.ports = None;
    }
    group.rules.insert(changed);
    Some(objects)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn groups_mean_what_the_specification_says(
        snapshot in snapshot(Shape::Dialects, 5),
        semantics in semantics(),
        options in options(),
    ) {
        let engine = Engine::compile(&snapshot, semantics.clone());
        let objects = render(engine.program(), &options).objects;
        let found = differs(&snapshot, &semantics, &objects);
        prop_assert!(found.is_none(), "{:?}\n{}", found, table(&objects));
    }

    #[test]
    fn groups_are_proved(
        snapshot in snapshot(Shape::Dialects, 5),
        semantics in semantics(),
        options in options(),
    ) {
        let engine = Engine::compile(&snapshot, semantics);
        let objects = render(engine.program(), &options).objects;
        let report = verify(&objects, engine.program(), &options, 3);
        prop_assert!(report.is_proof(), "{:?}\n{}", report.counterexamples, table(&objects));
    }

    #[test]
    fn a_changed_group_is_refuted_or_means_the_same(
        snapshot in snapshot(Shape::Dialects, 5),
        group: Index,
        rule: Index,
        mutation in 0..5u8,
    ) {
        let engine = Engine::compile(&snapshot, Semantics::default());
        let objects = render(engine.program(), &Options::default()).objects;
        let Some(objects) = mutated(&objects, group, rule, mutation) else {
            return Ok(());
        };
        if verify(&objects, engine.program(), &Options::default(), 1).is_proof() {
            let found = differs(&snapshot, &Semantics::default(), &objects);
            prop_assert!(found.is_none(), "{:?}\n{}", found, table(&objects));
        }
    }

    #[test]
    fn every_group_of_a_port_or_rule_is_there(snapshot in snapshot(Shape::Dialects, 5)) {
        let engine = Engine::compile(&snapshot, Semantics::default());
        let objects = render(engine.program(), &Options::default()).objects;
        prop_assert_eq!(&objects, &render(engine.program(), &Options::default()).objects);
        let managed = engine.program().pods().filter(picket_engine::PodRef::is_managed);
        prop_assert_eq!(objects.ports.len(), managed.count());
        for port in objects.ports.values() {
            prop_assert!(!port.security_groups.is_empty());
            for group in &port.security_groups {
                prop_assert!(objects.security_groups.contains_key(group), "{}", group);
            }
        }
        for rule in objects.security_groups.values().flat_map(|group| &group.rules) {
            match &rule.remote {
                Remote::Group(group) => prop_assert!(objects.security_groups.contains_key(group)),
                Remote::AddressGroup(group) => prop_assert!(objects.address_groups.contains_key(group)),
                Remote::Prefix(prefix) => {
                    prop_assert_eq!(prefix.family(), rule.ethertype);
                    prop_assert!(prefix.length() > 0);
                }
                Remote::Anyone => {}
            }
            prop_assert!(rule.protocol.is_some() || rule.ports.is_none());
        }
    }
}
