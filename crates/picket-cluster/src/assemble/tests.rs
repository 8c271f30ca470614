use std::net::IpAddr;

use picket_net::{Protocol, parse_address};
use picket_policy::{
    Action, Direction, Labels, List, Mode, NamespaceScope, Networks, ObjectRef, PodSelector, Policy,
    PortMatch, Position, Requirement, Rule, Selector, Severity, Side, Span, Tier,
};

use super::*;
use crate::written::{Located, WrittenNamespace, WrittenNode};
use crate::{NAMESPACE_NAME_LABEL, Owner, codes};

fn span(line: u32) -> Span {
    Span {
        file: "cluster.yaml".into(),
        start: 0,
        end: 1,
        line,
        column: 1,
        end_line: line,
        end_column: 2,
    }
}

fn located(addresses: &[&str]) -> Vec<Located<IpAddr>> {
    let address = |text: &&str| Located {
        value: parse_address(text).unwrap(),
        span: span(9),
    };
    addresses.iter().map(address).collect()
}

/// `x/a` is a pod, `x/Kind/a` a workload.
fn pod(id: &str, addresses: &[&str], change: impl FnOnce(&mut WrittenPod)) -> Written {
    let parts: Vec<_> = id.split('/').collect();
    let object = match parts[..] {
        [namespace, kind, name] => ObjectRef::new(kind, namespace, name),
        [namespace, name] => ObjectRef::new("Pod", namespace, name),
        _ => panic!("{id}"),
    };
    let mut written = WrittenPod {
        addresses: located(addresses),
        ..WrittenPod::default()
    };
    change(&mut written);
    Written {
        object,
        span: span(1),
        places: std::collections::BTreeMap::new(),
        spec: Spec::Pod(written),
    }
}

fn plain(id: &str, addresses: &[&str]) -> Written {
    pod(id, addresses, |_| {})
}

fn owned(id: &str, kind: &str, name: &str) -> Written {
    pod(id, &[], |pod| {
        pod.owners = vec![Owner {
            kind: kind.into(),
            name: name.into(),
        }];
    })
}

fn node(name: &str, addresses: &[&str]) -> Written {
    Written {
        object: ObjectRef::new("Node", "", name),
        span: span(1),
        places: std::collections::BTreeMap::new(),
        spec: Spec::Node(WrittenNode {
            labels: Labels::default(),
            addresses: located(addresses),
            pod_cidrs: Vec::new(),
        }),
    }
}

fn on_node(name: &str, hosts: &[&str]) -> impl FnOnce(&mut WrittenPod) {
    let (name, hosts) = (
        name.into(),
        located(hosts).iter().map(|host| host.value).collect(),
    );
    |pod| {
        pod.node = Some(name);
        pod.host_addresses = hosts;
    }
}

/// `id address address…`, with `made up` for made-up addresses.
fn addresses(snapshot: &Snapshot) -> Vec<String> {
    let line = |pod: &Arc<Pod>| {
        let own: Vec<_> = pod.addresses.iter().map(|address| address.to_string()).collect();
        let own = if pod.synthetic {
            "made up".to_owned()
        } else {
            own.join(" ")
        };
        format!("{} {own}", pod.id())
    };
    snapshot.pods.values().map(line).collect()
}

fn found(diagnostics: &[Diagnostic]) -> Vec<(&'static str, Severity)> {
    diagnostics
        .iter()
        .map(|found| (found.code.0, found.severity))
        .collect()
}

#[test]
fn pods_get_the_addresses_that_are_theirs() {
    let taken = (codes::ADDRESS_TAKEN.0, Severity::Error);
    let family = (codes::ADDRESS_FAMILY.0, Severity::Error);
    for (name, objects, expected, diagnostics) in [
        (
            "own addresses of both families in any order",
            vec![
                plain("x/a", &["fd00::1", "10.0.0.1"]),
                plain("x/b", &["10.0.0.2"]),
            ],
            vec!["x/a 10.0.0.1 fd00::1", "x/b 10.0.0.2"],
            vec![],
        ),
        ("no address", vec![plain("x/a", &[])], vec!["x/a made up"], vec![]),
        (
            "two of one family",
            vec![plain("x/a", &["10.0.0.1", "10.0.0.2"])],
            vec!["x/a 10.0.0.1"],
            vec![family],
        ),
        (
            "one address written twice, or once as IPv4-mapped IPv6",
            vec![plain("x/a", &["10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"])],
            vec!["x/a 10.0.0.1"],
            vec![],
        ),
        (
            "the first by name keeps an address, whichever is written first",
            vec![
                plain("x/b", &["10.0.0.1", "fd00::2"]),
                plain("x/a", &["10.0.0.1"]),
            ],
            vec!["x/a 10.0.0.1", "x/b made up"],
            vec![taken],
        ),
        (
            "a finished pod clashes with nothing",
            vec![
                pod("x/a", &["10.0.0.1"], |pod| pod.finished = true),
                plain("x/b", &["10.0.0.1"]),
                pod("x/c", &[], |pod| pod.finished = true),
            ],
            vec!["x/a 10.0.0.1", "x/b 10.0.0.1", "x/c "],
            vec![],
        ),
        (
            "an address of a node is no pod's",
            vec![node("n", &["10.9.0.1"]), plain("x/a", &["10.9.0.1"])],
            vec!["x/a made up"],
            vec![taken],
        ),
        (
            "an address of a pod's host is no pod's",
            vec![
                pod("x/a", &["10.0.0.1"], on_node("n", &["10.9.0.1"])),
                plain("x/b", &["10.9.0.1"]),
            ],
            vec!["x/a 10.0.0.1", "x/b made up"],
            vec![taken],
        ),
        (
            "hostNetwork pods share the addresses of their node",
            vec![
                node("n", &["10.9.0.1", "10.9.0.2", "fd00:9::1"]),
                pod("x/a", &[], |pod| {
                    on_node("n", &[])(pod);
                    pod.host_network = true;
                }),
                pod("x/b", &["10.9.0.2"], |pod| {
                    on_node("n", &[])(pod);
                    pod.host_network = true;
                }),
            ],
            vec!["x/a 10.9.0.1 fd00:9::1", "x/b 10.9.0.2 fd00:9::1"],
            vec![],
        ),
        (
            "a hostNetwork pod of an unknown node",
            vec![
                pod("x/a", &[], |pod| pod.host_network = true),
                pod("x/b", &["10.9.0.1"], |pod| pod.host_network = true),
            ],
            vec!["x/a made up", "x/b 10.9.0.1"],
            vec![],
        ),
    ] {
        let (snapshot, problems) = assemble(objects);
        assert_eq!(addresses(&snapshot), expected, "{name}");
        assert_eq!(found(&problems), diagnostics, "{name}");
    }
}

#[test]
fn the_order_of_files_decides_nothing() {
    let objects = || {
        vec![
            plain("x/a", &["10.0.0.1"]),
            plain("x/b", &["10.0.0.1"]),
            plain("y/c", &[]),
            pod("x/d", &["10.9.0.1"], |pod| {
                on_node("n", &[])(pod);
                pod.host_network = true;
            }),
            owned("x/e", "ReplicaSet", "r"),
            owned("x/ReplicaSet/r", "Deployment", "d"),
            plain("x/Deployment/d", &[]),
            node("n", &[]),
        ]
    };
    let mut reversed = objects();
    reversed.reverse();
    let (one, other) = (assemble(objects()), assemble(reversed));
    assert_eq!(one.0, other.0);
    assert_eq!(one.1.len(), other.1.len());
}

#[test]
fn nodes_have_the_addresses_of_their_status_and_of_their_pods_hosts() {
    let (snapshot, _) = assemble(vec![
        node("n", &["10.9.0.1"]),
        pod("x/a", &["10.0.0.1"], on_node("n", &["10.9.0.2", "fd00:9::2"])),
        pod("x/b", &["10.0.0.2"], on_node("implied", &["10.9.1.1"])),
        pod("x/c", &["10.9.1.2"], |pod| {
            on_node("implied", &[])(pod);
            pod.host_network = true;
        }),
        plain("x/d", &["10.0.0.3"]),
    ]);
    let nodes: Vec<_> = snapshot
        .nodes
        .values()
        .map(|node| {
            let own: Vec<_> = node.addresses.iter().map(|address| address.to_string()).collect();
            format!("{} {}", node.name, own.join(" "))
        })
        .collect();
    assert_eq!(
        nodes,
        ["implied 10.9.1.1 10.9.1.2", "n 10.9.0.1 10.9.0.2 fd00:9::2"]
    );
}

#[test]
fn a_workload_is_an_endpoint_only_when_nothing_else_stands_for_its_pods() {
    for (name, objects, expected) in [
        (
            "alone",
            vec![plain("x/Deployment/d", &[])],
            vec!["x/Deployment/d"],
        ),
        (
            "a pod is owned by it",
            vec![plain("x/StatefulSet/s", &[]), owned("x/s-0", "StatefulSet", "s")],
            vec!["x/s-0"],
        ),
        (
            "a workload is owned by it, which is owned itself",
            vec![
                plain("x/Deployment/d", &[]),
                owned("x/ReplicaSet/d-1", "Deployment", "d"),
            ],
            vec![],
        ),
        (
            "the owner of the owner of a pod",
            vec![
                plain("x/Deployment/d", &[]),
                owned("x/ReplicaSet/d-1", "Deployment", "d"),
                owned("x/d-1-abc", "ReplicaSet", "d-1"),
            ],
            vec!["x/d-1-abc"],
        ),
        (
            "a namesake in another namespace owns a pod",
            vec![plain("x/Job/j", &[]), owned("y/j-1", "Job", "j")],
            vec!["x/Job/j", "y/j-1"],
        ),
        (
            "scaled to zero",
            vec![pod("x/Deployment/d", &[], |pod| pod.scaled_to_zero = true)],
            vec![],
        ),
        (
            "of two kinds and one name",
            vec![
                plain("x/Job/a", &[]),
                plain("x/DaemonSet/a", &[]),
                plain("x/a", &[]),
            ],
            vec!["x/DaemonSet/a", "x/Job/a", "x/a"],
        ),
    ] {
        let (snapshot, diagnostics) = assemble(objects);
        let ids: Vec<_> = snapshot.pods.values().map(|pod| pod.id()).collect();
        assert_eq!(ids, expected, "{name}");
        assert_eq!(found(&diagnostics), [], "{name}");
    }
}

#[test]
fn the_owner_of_a_pod_is_the_topmost_of_the_input() {
    let (snapshot, _) = assemble(vec![
        owned("x/a", "ReplicaSet", "r"),
        owned("x/ReplicaSet/r", "Deployment", "d"),
        owned("x/b", "Job", "unknown"),
        owned("x/c", "Job", "one"),
        owned("x/Job/one", "Job", "two"),
        owned("x/Job/two", "Job", "one"),
        plain("x/d", &[]),
    ]);
    let owners: Vec<_> = snapshot
        .pods
        .values()
        .map(|pod| {
            pod.owner
                .as_ref()
                .map(|owner| format!("{}/{}", owner.kind, owner.name))
        })
        .collect();
    let expected = [Some("Deployment/d"), Some("Job/unknown"), Some("Job/one"), None];
    assert_eq!(owners, expected.map(|owner| owner.map(str::to_owned)));
}

#[test]
fn namespaces_are_implied_and_say_their_own_name() {
    let namespace = |name: &str, label: Option<&str>| Written {
        object: ObjectRef::new("Namespace", "", name),
        span: span(1),
        places: std::collections::BTreeMap::new(),
        spec: Spec::Namespace(WrittenNamespace {
            labels: [("team", "red"), (NAMESPACE_NAME_LABEL, label.unwrap_or(name))]
                .into_iter()
                .collect(),
            name_label: label.map(|value| Located {
                value: value.into(),
                span: span(5),
            }),
        }),
    };
    let (snapshot, diagnostics) = assemble(vec![
        plain("y/a", &[]),
        namespace("x", Some("z")),
        namespace("y", None),
        plain("implied/a", &[]),
    ]);
    let names: Vec<_> = snapshot
        .namespaces
        .values()
        .map(|namespace| {
            (
                namespace.labels.get(NAMESPACE_NAME_LABEL),
                namespace.labels.iter().len(),
            )
        })
        .collect();
    let (implied, x, y) = ("implied".into(), "x".into(), "y".into());
    assert_eq!(names, [(Some(&implied), 1), (Some(&x), 2), (Some(&y), 2)]);
    assert_eq!(found(&diagnostics), [(codes::NAME_LABEL.0, Severity::Warning)]);
    assert_eq!(diagnostics[0].fixes[0].edits[0].replacement, "\"x\"");
}

fn policy(line: u32, pods: &[(&str, &str)], isolates: Option<Direction>, rules: usize) -> Policy {
    let rule = |index: u32| Rule {
        index,
        position: Position {
            file: "cluster.yaml".into(),
            line: line + index,
        },
        action: Action::Accept,
        peers: List::Absent,
        ports: List::Items(vec![PortMatch::Protocol(Protocol::TCP)]),
    };
    let requirement = |&(key, value): &(&str, &str)| Requirement::In(key.into(), vec![value.into()]);
    let side = |direction| Side {
        isolates: isolates == Some(direction),
        rules: (0..)
            .map(rule)
            .take(if isolates == Some(direction) { rules } else { 0 })
            .collect(),
    };
    Policy {
        mode: Mode::Enforce,
        object: ObjectRef::new("NetworkPolicy", "x", "p"),
        position: Position {
            file: "cluster.yaml".into(),
            line,
        },
        tier: Tier::NetworkPolicy,
        priority: 0,
        networks: Networks::Cluster,
        subject: PodSelector {
            namespaces: NamespaceScope::Named("x".into()),
            pods: pods.iter().map(requirement).collect(),
        },
        ingress: side(Direction::Ingress),
        egress: side(Direction::Egress),
    }
}

#[test]
fn two_policies_of_one_name_never_allow_more_than_either() {
    let written = |policy: Policy| Written {
        object: policy.object.clone(),
        span: span(policy.position.line),
        places: std::collections::BTreeMap::new(),
        spec: Spec::Policy(policy),
    };
    use Direction::{Egress, Ingress};
    for (name, one, other, subject, isolates, rules) in [
        (
            "the same in two places",
            policy(1, &[("app", "web")], Some(Ingress), 2),
            policy(50, &[("app", "web")], Some(Ingress), 2),
            "app=web",
            (true, false),
            2,
        ),
        (
            "other rules",
            policy(1, &[("app", "web")], Some(Ingress), 1),
            policy(50, &[("app", "web")], Some(Ingress), 2),
            "app=web",
            (true, false),
            0,
        ),
        (
            "other directions",
            policy(1, &[("app", "web")], Some(Ingress), 1),
            policy(50, &[("app", "web")], Some(Egress), 1),
            "app=web",
            (true, true),
            0,
        ),
        (
            "other pods",
            policy(1, &[("app", "web"), ("tier", "a")], Some(Ingress), 1),
            policy(50, &[("app", "web"), ("tier", "b")], Some(Ingress), 1),
            "app=web",
            (true, false),
            0,
        ),
    ] {
        let (snapshot, diagnostics) = assemble(vec![written(one), written(other)]);
        let merged = snapshot.policies.values().next().unwrap();
        assert_eq!(merged.subject.pods.to_string(), subject, "{name}");
        assert_eq!(
            (merged.ingress.isolates, merged.egress.isolates),
            isolates,
            "{name}"
        );
        assert_eq!(
            merged.ingress.rules.len() + merged.egress.rules.len(),
            rules,
            "{name}"
        );
        assert_eq!(
            found(&diagnostics),
            [(codes::DUPLICATE.0, Severity::Error)],
            "{name}"
        );
        let places: Vec<_> = diagnostics[0]
            .labels
            .iter()
            .map(|label| label.span.line)
            .collect();
        assert_eq!(places, [50, 1], "{name}");
    }
}

#[test]
fn a_tiered_policy_written_twice_keeps_every_denial() {
    let rule = |action, index| Rule {
        index,
        action,
        ..policy(1, &[], Some(Direction::Ingress), 1).ingress.rules[0].clone()
    };
    let admin = |rules: Vec<Rule>, priority| Policy {
        tier: Tier::Admin,
        priority,
        ingress: Side {
            isolates: false,
            rules,
        },
        ..policy(1, &[], None, 0)
    };
    let merged = duplicate::narrower(
        &admin(vec![rule(Action::Accept, 0), rule(Action::Deny, 1)], 7),
        &admin(vec![rule(Action::Pass, 0)], 5),
    );
    let actions: Vec<_> = merged.ingress.rules.iter().map(|rule| rule.action).collect();
    assert_eq!((merged.priority, actions), (5, vec![Action::Deny, Action::Deny]));
    assert_eq!(merged.subject.pods, Selector::everything());
}

#[test]
fn the_first_of_two_pods_counts() {
    let (snapshot, diagnostics) = assemble(vec![plain("x/a", &["10.0.0.1"]), plain("x/a", &["10.0.0.2"])]);
    assert_eq!(addresses(&snapshot), ["x/a 10.0.0.1"]);
    assert_eq!(found(&diagnostics), [(codes::DUPLICATE.0, Severity::Error)]);
}

#[test]
fn uids_of_dumps_tell_no_objects_apart() {
    let with_uid = |uid: &str| {
        let mut written = plain("x/a", &["10.0.0.1"]);
        written.object.uid = uid.into();
        written
    };
    let (snapshot, diagnostics) = assemble(vec![with_uid("1"), with_uid("2")]);
    assert_eq!(found(&diagnostics), [(codes::DUPLICATE.0, Severity::Error)]);
    assert!(snapshot.pods.keys().all(|object| object.uid.is_empty()));
}
