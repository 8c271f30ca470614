//! What happens to a cluster, in how many calls and in which order.

use std::collections::BTreeMap;

use picket_cluster::{Object, Snapshot};
use picket_net::Protocol;
use picket_neutron::Remote;
use picket_neutron::plan::{Id, Step, text};
use picket_policy::Direction;
use picket_testing::build::{accept, block, ip, namespace, pod, pods_in, pods_where, policy};
use picket_testing::snapshot;

use super::fake::Fake;
use super::world::{and, calls, everything, only, port, role, some, to, with};

#[test]
fn what_is_there_takes_no_call() {
    assert_eq!(calls(&and([]), &and([])), BTreeMap::new());
}

#[test]
fn one_more_peer_is_one_call() {
    let more = role("web-2", "web", 4).into();
    assert_eq!(calls(&and([]), &and([more])), [("update_port", 1)].into());
}

#[test]
fn ports_without_groups_take_one_call_each() {
    let mut fake = Fake::default();
    let (plan, _) = to(&mut fake, &and([only("q", "web", "web", 81).into()]));
    assert_eq!(plan.calls()["update_port"], 3);
}

#[test]
fn one_more_peer_with_the_group_of_the_project_is_one_call() {
    let mut fake = with(&and([]));
    let default = fake.add_group("default", &[]);
    let ingress = Remote::Group(default.clone());
    fake.add_rule(&default, everything(Direction::Ingress, ingress));
    fake.add_rule(&default, everything(Direction::Egress, Remote::Anyone));
    fake.add_port(&port("web-2"), [ip("10.0.0.4")].into(), &[default]);
    let (plan, _) = to(&mut fake, &and([role("web-2", "web", 4).into()]));
    assert_eq!(plan.calls(), [("update_port", 1)].into());
}

#[test]
fn one_more_isolated_pod_is_one_call() {
    let more = role("db-2", "db", 4).into();
    assert_eq!(calls(&and([]), &and([more])), [("update_port", 1)].into());
}

#[test]
fn a_pod_with_other_labels_is_one_call() {
    for role_after in ["web", "db", "none"] {
        for (name, last) in [("db", 1), ("web", 2), ("other", 3)] {
            let after = role(name, role_after, last);
            let calls = calls(&and([]), &and([after.into()]));
            let updates = calls.get("update_port").copied().unwrap_or(0);
            assert!(
                updates <= 1 && calls.len() <= 1,
                "{name} as {role_after}: {calls:?}"
            );
        }
    }
}

#[test]
fn a_policy_comes_after_its_peers_and_cuts_nothing() {
    let before: Snapshot = some().into_iter().take(4).collect();
    let found = calls(&before, &and([]));
    let expected = [("create_group", 8), ("create_rules", 1), ("update_port", 2)];
    assert_eq!(found, expected.into());
}

#[test]
fn a_policy_goes_before_its_peers_and_cuts_nothing() {
    let after: Snapshot = some().into_iter().take(4).collect();
    let expected = [("delete_group", 2), ("update_port", 2)];
    assert_eq!(calls(&and([]), &after), expected.into());
}

#[test]
fn one_more_policy_for_known_peers_is_one_call_for_each_pod_that_it_selects() {
    let found = calls(&and([]), &and([only("q", "other", "web", 81).into()]));
    let expected = [("create_group", 4), ("create_rules", 1), ("update_port", 1)];
    assert_eq!(found, expected.into());
}

#[test]
fn pods_that_a_policy_both_selects_and_lets_in_are_peers_before_any_is_isolated() {
    let inside = policy("x/inside").ingress(accept().peer(pods_in("x", "")));
    let before: Snapshot = some().into_iter().take(4).collect();
    let after: Snapshot = some().into_iter().take(4).chain([inside.into()]).collect();
    for (before, after) in [(&before, &after), (&after, &before)] {
        assert_eq!(calls(before, after)["update_port"], 6);
    }
}

#[test]
fn a_namespace_with_other_labels_is_one_call_for_each_of_its_pods() {
    let of = |label: &str| -> Snapshot {
        let rule = |team: &str| accept().peer(pods_where(&format!("team={team}"), ""));
        let both = |name: &str, team: &str| {
            let policy = policy(&format!("x/{name}"))
                .selects(&format!("role={name}"))
                .ingress(rule(team));
            policy.egress(rule(team))
        };
        snapshot![
            namespace("x"),
            namespace("y").label("team", label),
            role("db", "db", 1),
            role("web", "web", 2),
            pod("y/one").ip("10.0.1.1"),
            pod("y/two").ip("10.0.1.2"),
            pod("y/three").ip("10.0.1.3"),
            both("db", "a"),
            both("web", "b"),
        ]
    };
    assert_eq!(calls(&of("a"), &of("b")), [("update_port", 3)].into());
}

#[test]
fn other_ports_in_a_rule_cut_nothing_that_stays() {
    let of = |first, last| {
        let rule = accept()
            .peer(pods_in("x", "role=web"))
            .ports(Protocol::TCP, first, last);
        and([policy("x/p").selects("role=db").ingress(rule).into()])
    };
    for (before, after) in [((80, 80), (80, 90)), ((80, 90), (80, 80)), ((80, 90), (85, 95))] {
        let found = calls(&of(before.0, before.1), &of(after.0, after.1));
        assert_eq!(found, [("create_rules", 1), ("delete_rules", 2)].into());
    }
}

/// The first may send no more, and the other may receive from now on.
#[test]
fn who_may_send_no_more_cannot_before_others_may_receive() {
    let silent = policy("x/silent").selects("role=web").isolates(Direction::Egress);
    let deaf = policy("x/deaf")
        .selects("role=other")
        .isolates(Direction::Ingress);
    let (silent, deaf) = (Object::from(silent), Object::from(deaf));
    for (before, after, order) in [
        (and([deaf.clone()]), and([silent.clone()]), ["web", "other"]),
        (and([silent]), and([deaf]), ["other", "web"]),
    ] {
        let (plan, _) = to(&mut with(&before), &after);
        let stage = |name: &str| {
            let updates =
                |step: &Step| matches!(step, Step::UpdatePort { port: of, .. } if *of == port(name));
            plan.stages.iter().position(|steps| steps.iter().any(updates))
        };
        assert!(stage(order[0]) < stage(order[1]), "{}", text(&plan));
        assert_eq!(plan.calls()["update_port"], 2);
    }
}

/// A rule about one group becomes one about another, while a pod leaves the one and another joins the other.
#[test]
fn peers_and_rules_change_together() {
    let of = |peer: &str, one: &str, two: &str| {
        and([
            role("one", one, 5).into(),
            role("two", two, 6).into(),
            only("p", "db", peer, 80).into(),
            only("q", "web", "a", 80).into(),
            only("r", "web", "b", 81).into(),
        ])
    };
    for (before, after) in [
        (of("a", "a", "b"), of("b", "b", "a")),
        (of("a", "a", "b"), of("b", "a", "b")),
        (of("b", "a", "a"), of("a", "b", "b")),
    ] {
        to(&mut with(&before), &after);
    }
}

#[test]
fn addresses_come_and_go_as_carefully_as_rules() {
    let blocks = |out: &str, receiving: &str| {
        let rule = accept().peer(block("10.0.0.0/24", &[out]));
        let open = policy("x/out").selects("role=web").egress(rule);
        let deaf = policy("x/deaf").selects(receiving).isolates(Direction::Ingress);
        and([open.into(), deaf.into()])
    };
    let mut fake = with(&blocks("10.0.0.128/25", "role=none"));
    // Somebody has taken an address that the group is to have, and added one that it is not.
    let of = blocks("10.0.0.8/29", "role=none");
    to(&mut fake, &of);
    let group = fake.installed.address_groups.values_mut().next();
    let group = group.expect("an address group");
    let taken = group.addresses.pop_first().expect("an address");
    group.addresses.insert("10.0.0.8/30".parse().expect("a prefix"));
    let (plan, seen) = to(&mut fake, &blocks("10.0.0.8/29", "role=other"));
    assert_eq!(plan.calls()["add_addresses"], 1);
    assert_eq!(plan.calls()["remove_addresses"], 1);
    assert_eq!(seen.cut, 0);
    let added = plan.steps().find_map(|step| match step {
        Step::AddAddresses { addresses, .. } => Some(addresses.clone()),
        _ => None,
    });
    assert_eq!(added, Some([taken].into()));
}

#[test]
fn the_first_call_for_a_port_names_its_revision() {
    let inside = policy("x/inside").ingress(accept().peer(pods_in("x", "")));
    let mut fake = with(&and([]));
    let (plan, _) = to(&mut fake, &and([inside.into()]));
    let mut revisions: BTreeMap<&Id, Vec<Option<u64>>> = BTreeMap::new();
    for step in plan.steps() {
        if let Step::UpdatePort { port, revision, .. } = step {
            revisions.entry(port).or_default().push(*revision);
        }
    }
    assert_eq!(revisions.len(), 3);
    for revisions in revisions.into_values() {
        assert_eq!(revisions, [Some(2), None]);
    }
}

#[test]
fn many_rules_are_several_calls() {
    let mut rule = accept().peer(pods_in("x", "role=web"));
    for port in 0..75 {
        rule = rule.port(Protocol::TCP, 2 * port + 1);
    }
    let many = policy("x/p").selects("role=other").ingress(rule);
    let (plan, _) = to(&mut with(&and([])), &and([many.into()]));
    let bulks = plan.steps().filter_map(|step| match step {
        Step::CreateRules { rules, .. } => Some(rules.len()),
        _ => None,
    });
    assert_eq!(bulks.collect::<Vec<_>>(), [100, 50]);
}

/// What rules of one group forbid from now on, and those of another allow.
#[test]
fn rules_that_go_do_before_those_at_the_other_end_come() {
    let of = |to: &str, from: &str| {
        let out = accept().peer(block(to, &[]));
        let into = accept().peer(block(from, &[]));
        and([
            policy("x/out").selects("role=web").egress(out).into(),
            policy("x/in").selects("role=other").ingress(into).into(),
        ])
    };
    let (before, after) = (
        of("10.0.0.3/32", "192.0.2.0/24"),
        of("192.0.2.0/24", "10.0.0.2/32"),
    );
    for (before, after) in [(&before, &after), (&after, &before)] {
        let (plan, _) = to(&mut with(before), after);
        assert_eq!(
            plan.calls(),
            [("create_rules", 2), ("delete_rules", 2)].into(),
            "{}",
            text(&plan)
        );
    }
}

/// Each may send from now on, and receive no more.
#[test]
fn pods_that_are_alike_turn_together_without_meeting() {
    let silent = policy("x/silent").selects("role=web").isolates(Direction::Egress);
    let deaf = policy("x/deaf").selects("role=web").isolates(Direction::Ingress);
    let twin = || Object::from(role("twin", "web", 4));
    let (before, after) = (and([twin(), silent.into()]), and([twin(), deaf.into()]));
    for (before, after) in [(&before, &after), (&after, &before)] {
        let (plan, _) = to(&mut with(before), after);
        assert_eq!(plan.calls()["update_port"], 4, "{}", text(&plan));
    }
}

#[test]
fn a_new_rule_waits_for_pods_that_leave_its_group() {
    let of = |leaving: &str, blocks: &[&str]| {
        let blocks = blocks.iter().map(|cidr| block(cidr, &[]));
        let out = blocks.fold(accept(), picket_testing::build::RuleBuilder::peer);
        let mute = policy("x/mute").selects("role=mute");
        and([
            role("twin", leaving, 4).into(),
            policy("x/out").selects("role=web").egress(out).into(),
            mute.isolates(Direction::Egress).into(),
        ])
    };
    let net = "192.0.2.0/24";
    to(&mut with(&of("web", &[net])), &of("mute", &[net, "10.0.0.3/32"]));
    to(&mut with(&of("mute", &[net, "10.0.0.3/32"])), &of("web", &[net]));
}
