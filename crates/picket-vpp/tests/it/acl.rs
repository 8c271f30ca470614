//! Lists of the ACL plugin mean what the reference says.

use std::collections::BTreeMap;

use picket_cluster::{Flow, Object, Semantics, Service, Snapshot};
use picket_engine::{Engine, PodRef};
use picket_net::{Prefix, Protocol};
use picket_policy::{Labels, ObjectRef};
use picket_testing::build::{accept, block, pod, policy};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, semantics, snapshot};
use picket_vpp::acl::meaning::Packet;
use picket_vpp::acl::verify::verify;
use picket_vpp::acl::{Acl, AclAction, Acls, Options, render, render_lists, text};
use picket_vpp::lists::of_rules;
use picket_vpp::value::Values;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;

use crate::cases::rules;
use crate::journey::{Cluster, Hop};

pub(crate) const SERVICE: [&str; 2] = ["10.96.0.10", "fd00:96::a"];

/// Pods of these names in the namespace `x`, with a label that says it, and addresses from 10.0.0.1 on.
pub(crate) fn pods_called(names: &[&str]) -> impl Iterator<Item = Object> {
    names.iter().zip(1..).map(|(name, last)| {
        let pod = pod(&format!("x/{name}")).label("name", name);
        Object::from(pod.ip(&format!("10.0.0.{last}")).build())
    })
}

/// Two pods, `x/one` and `x/two`, of which everybody may reach these ports.
pub(crate) fn open_at(ports: [u16; 2]) -> Snapshot {
    let names = ["one", "two"];
    let lets_in = |(name, port): (&str, u16)| {
        let policy = policy(&format!("x/{name}")).selects(&format!("name={name}"));
        Object::Policy(policy.ingress(accept().port(Protocol::TCP, port)).build())
    };
    pods_called(&names)
        .chain(names.into_iter().zip(ports).map(lets_in))
        .collect()
}

/// What a flow passes; nothing where a pod speaks to itself, which it does within itself.
fn hops(cluster: &Cluster<'_>, flow: &Flow) -> Option<Vec<Hop>> {
    cluster.hops(flow).filter(|_| flow.source != flow.destination)
}

/// Holds every representative flow against the lists of a cluster: the first that is not as the specification says.
fn differs_from_the_specification(snapshot: &Snapshot, cluster: &Cluster<'_>) -> Option<Flow> {
    let semantics = Semantics::default();
    let mut flows = representative_flows(snapshot).into_iter();
    flows.find(|flow| {
        let Some(hops) = hops(cluster, flow) else {
            return false;
        };
        let allowed = picket_reference::judge(snapshot, &semantics, flow)
            .verdict()
            .is_allow();
        let ends = [&flow.source, &flow.destination].map(|end| cluster.address(end, flow));
        let packet = Packet::opening(ends[0], ends[1], flow.protocol, flow.port);
        let mut running = cluster.start();
        let passes = running.passes(&hops, &packet);
        passes != allowed || passes && !running.answers(&hops, &packet, &packet)
    })
}

/// The same lists with one rule of one of them changed.
fn mutated(acls: &Acls, list: Index, rule: Index, mutation: u8) -> Acls {
    let mut acls = acls.clone();
    let tags: Vec<_> = acls.acls.keys().cloned().collect();
    let tag = list.get(&tags);
    let mut rules = acls.acls[tag].rules.clone();
    let at = rule.index(rules.len());
    match mutation {
        0 => drop(rules.remove(at)),
        1 => {
            rules[at].action = match rules[at].action {
                AclAction::Deny => AclAction::PermitReflect,
                AclAction::Permit | AclAction::PermitReflect => AclAction::Deny,
            };
        }
        2 => rules[at].action = AclAction::Permit,
        3 => rules[at].source = Prefix::all(rules[at].family()),
        4 => rules[at].destination = Prefix::all(rules[at].family()),
        5 => rules[at].action = AclAction::PermitReflect,
        _ => rules[at].second.1 = rules[at].second.0,
    }
    let changed = Acl {
        tag: tag.clone(),
        rules,
    };
    acls.acls.insert(tag.clone(), changed.into());
    acls
}

/// Holds every representative flow against the specification: its first packet, directly and to an address of a service that
/// is translated to its destination, and the answer to that.
pub(crate) fn check(snapshot: &Snapshot, semantics: &Semantics) -> Result<(), TestCaseError> {
    let cluster = Cluster::new(snapshot, semantics);
    for flow in representative_flows(snapshot) {
        let Some(hops) = hops(&cluster, &flow) else {
            continue;
        };
        let allowed = picket_reference::judge(snapshot, semantics, &flow)
            .verdict()
            .is_allow();
        let (source, destination) = (
            cluster.address(&flow.source, &flow),
            cluster.address(&flow.destination, &flow),
        );
        let packet = Packet::opening(source, destination, flow.protocol, flow.port);
        let shown = || {
            let lists = cluster.acls.values().map(text).collect::<Vec<_>>().join("\n");
            format!("{flow:?}\n{packet:?}\n{lists}")
        };
        let mut running = cluster.start();
        prop_assert_eq!(running.passes(&hops, &packet), allowed, "{}", shown());
        let answered = running.answers(&hops, &packet, &packet);
        prop_assert!(answered || !allowed, "no answer: {}", shown());
        let by_service = has_service(snapshot) && hops.len() > 1;
        if by_service && is_pod(&flow.source) && flow.protocol.has_ports() {
            let service = SERVICE.map(|address| address.parse().expect("an address"));
            let [v4, v6] = service;
            let service = if source.is_ipv4() { v4 } else { v6 };
            let before = Packet::opening(source, service, flow.protocol, flow.port);
            let mut running = cluster.start();
            prop_assert_eq!(
                running.translated(&hops, &before, &packet),
                allowed,
                "by a service: {}",
                shown()
            );
            let answered = running.answers(&hops, &before, &packet);
            prop_assert!(answered || !allowed, "no answer of a service: {}", shown());
        }
    }
    Ok(())
}

fn is_pod(end: &picket_cluster::Endpoint) -> bool {
    matches!(end, picket_cluster::Endpoint::Pod(_))
}

fn has_service(snapshot: &Snapshot) -> bool {
    !snapshot.services.is_empty()
}

pub(crate) fn with_service(mut snapshot: Snapshot) -> Snapshot {
    let object = ObjectRef::new("Service", "x", "web");
    let service = Service {
        object: object.clone(),
        addresses: SERVICE
            .iter()
            .map(|address| address.parse().expect("an address"))
            .collect(),
        selector: Labels::default(),
        ports: Vec::new(),
    };
    snapshot.services.insert(object, service);
    snapshot
}

#[test]
fn adjacent_blocks_are_one_rule_and_both_halves_of_everything_are_none() {
    for (blocks, expected) in [
        (["10.1.0.0/25", "10.1.0.128/25"], Some("10.1.0.0/24")),
        (["0.0.0.0/1", "128.0.0.0/1"], None),
    ] {
        // All of IPv6, where the pod has an address too: otherwise nobody could say what is allowed there.
        let accept = blocks
            .iter()
            .fold(accept().peer(block("::/0", &[])), |accept, cidr| {
                accept.peer(block(cidr, &[]))
            });
        let policy = policy("x/blocks").ingress(accept).build();
        let web = pod("x/web").ip("10.0.0.1").ip("fd00::1").build();
        let snapshot: Snapshot = [Object::from(web), Object::Policy(policy)].into_iter().collect();
        let cluster = Cluster::new(&snapshot, &Semantics::default());
        let acls = &cluster.acls[&None];
        let permitted = acls.acls.values().flat_map(|acl| &acl.rules);
        let permitted = permitted.filter(|rule| rule.action != AclAction::Deny);
        let permitted: Vec<_> = permitted.map(|rule| rule.source.to_string()).collect();
        match expected {
            Some(whole) => {
                let within = permitted.iter().filter(|source| source.starts_with("10.1."));
                assert_eq!(within.collect::<Vec<_>>(), [whole]);
            }
            None => assert!(acls.acls.is_empty(), "{}", text(acls)),
        }
    }
}

/// The rules of a pod's list that let something in from 10.1.0.0/16, by protocol and destination ports.
fn let_in(acls: &Acls) -> Vec<(u8, (u16, u16))> {
    let interface = acls.interfaces.get("x/web").expect("an interface");
    let rules = acls.rules(&interface.output);
    let rules =
        rules.filter(|rule| rule.action != AclAction::Deny && rule.source.to_string() == "10.1.0.0/16");
    rules.map(|rule| (rule.protocol, rule.second)).collect()
}

#[test]
fn adjacent_ports_of_a_protocol_are_one_rule() {
    let (tcp, udp) = (Protocol::TCP, Protocol::UDP);
    let expected_of = |ports: &[(Protocol, u16, u16)]| {
        // A rule for each port, as generators write them.
        let rules = ports.iter().map(|&(protocol, first, last)| {
            let peer = accept().peer(block("10.1.0.0/16", &[]));
            peer.ports(protocol, first, last)
        });
        let policy = rules.fold(policy("x/web"), |policy, rule| policy.ingress(rule));
        let objects = pods_called(&["web"]).chain([Object::Policy(policy.build())]);
        let snapshot: Snapshot = objects.collect();
        let cluster = Cluster::new(&snapshot, &Semantics::default());
        let mut found = let_in(&cluster.acls[&None]);
        found.sort_unstable();
        found
    };
    for (ports, expected) in [
        (&[(tcp, 80, 80), (tcp, 81, 81)][..], &[(6, (80, 81))][..]),
        (&[(tcp, 81, 81), (tcp, 80, 80)], &[(6, (80, 81))]),
        (&[(tcp, 80, 90), (tcp, 91, 91), (tcp, 70, 79)], &[(6, (70, 91))]),
        (&[(tcp, 80, 85), (tcp, 83, 90)], &[(6, (80, 90))]),
        (&[(tcp, 80, 80), (tcp, 82, 82)], &[(6, (80, 80)), (6, (82, 82))]),
        (&[(tcp, 80, 80), (udp, 81, 81)], &[(6, (80, 80)), (17, (81, 81))]),
    ] {
        assert_eq!(expected_of(ports), expected, "{ports:?}");
    }
}

#[test]
fn a_port_that_is_denied_parts_those_beside_it() {
    let texts = [
        "permit tcp 80 10.1.0.0/16 -> any",
        "deny tcp 81 10.1.0.0/16 -> any",
        "permit tcp 82 10.1.0.0/16 -> any",
        "permit tcp 83 10.1.0.0/16 -> any",
        "deny any any any -> any",
    ];
    let mut values = Values::default();
    let own = "10.0.0.1".parse().expect("an address");
    let lists = of_rules([own], &rules(&texts), &[], &mut values);
    let pods = BTreeMap::from([(ObjectRef::new("Pod", "x", "web"), lists)]);
    let acls = render_lists(&pods, &[], &Options::default(), &mut values);
    assert_eq!(let_in(&acls), [(6, (80, 80)), (6, (82, 83))], "{}", text(&acls));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn lists_mean_what_the_specification_says(snapshot in snapshot(Shape::Dialects, 5), semantics in semantics()) {
        check(&with_service(snapshot), &semantics)?;
    }

    #[test]
    fn lists_are_proved(snapshot in snapshot(Shape::Dialects, 5), semantics in semantics()) {
        let engine = Engine::compile(&with_service(snapshot.clone()), semantics);
        for node in snapshot.nodes.keys() {
            let acls = render(engine.program(), Some(node), &Options::default());
            let report = verify(&acls, engine.program(), Some(node), |pod| vec![pod.pod().id().into()], 3);
            prop_assert!(report.is_proof(), "{node}: {:?}\n{}", report.counterexamples, text(&acls));
        }
    }

    #[test]
    fn a_changed_list_is_refuted_or_means_the_same(
        snapshot in snapshot(Shape::Dialects, 5),
        list: Index,
        rule: Index,
        mutation in 0..7u8,
    ) {
        let engine = Engine::compile(&snapshot, Semantics::default());
        let mut cluster = Cluster::new(&snapshot, &Semantics::default());
        for (node, acls) in &mut cluster.acls {
            if acls.acls.is_empty() {
                continue;
            }
            *acls = mutated(acls, list, rule, mutation);
            let name = |pod: PodRef<'_>| vec![pod.pod().id().into()];
            if !verify(acls, engine.program(), node.as_deref(), name, 1).is_proof() {
                return Ok(());
            }
        }
        let found = differs_from_the_specification(&snapshot, &cluster);
        let lists = || cluster.acls.values().map(text).collect::<Vec<_>>().join("\n");
        prop_assert!(found.is_none(), "{found:?}\n{}", lists());
    }

    #[test]
    fn a_rule_stands_behind_all_that_are_part_of_it(snapshot in snapshot(Shape::Dialects, 5)) {
        let engine = Engine::compile(&snapshot, Semantics::default());
        for node in snapshot.nodes.keys() {
            let acls = render(engine.program(), Some(node), &Options::default());
            prop_assert_eq!(&acls, &render(engine.program(), Some(node), &Options::default()));
            for acl in acls.acls.values() {
                prop_assert!(acl.tag.as_str().len() <= 63);
                for (number, outer) in acl.rules.iter().enumerate() {
                    for inner in &acl.rules[number + 1..] {
                        let hidden = outer.source.contains_prefix(&inner.source)
                            && outer.destination.contains_prefix(&inner.destination)
                            && outer.selected().contains_all(&inner.selected());
                        prop_assert!(!hidden, "{inner} behind {outer}\n{}", text(&acls));
                    }
                }
            }
        }
    }
}
