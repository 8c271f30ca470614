//! Rules of the session layer mean what the reference says, in whatever order they are added.

use std::collections::BTreeSet;

use picket_cluster::{Endpoint, Flow, Object, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::{Family, Prefix, Protocol};
use picket_policy::Direction;
use picket_testing::build::{accept, block, pod, pods_in, policy};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, semantics, snapshot};
use picket_vpp::session::verify::verify;
use picket_vpp::session::{Action, Options, SessionRules, Transport, render, shortfalls, text};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;

use crate::acl::pods_called;
use crate::sessions::{Layer, SOURCE_PORT, Sessions};

fn check(
    snapshot: &Snapshot,
    semantics: &Semantics,
    options: &Options,
    seed: u64,
) -> Result<(), TestCaseError> {
    let engine = Engine::compile(snapshot, semantics.clone());
    let sessions = Sessions::of(snapshot, engine.program(), options, seed);
    for (node, layer) in &sessions.layers {
        let report = verify(
            &layer.rules,
            engine.program(),
            node.as_deref(),
            &layer.except(),
            3,
        );
        prop_assert!(
            report.is_proof(),
            "{node:?}: {:?}\n{}",
            report.counterexamples,
            text(&layer.rules)
        );
    }
    for layer in sessions.layers.values() {
        // What lets nothing pass is one rule for each transport, family and address.
        let most = |closed: usize| options.most_rules.max(closed);
        for (pod, rules) in &layer.rules.local {
            prop_assert!(rules.len() <= most(4), "{}: {} rules", pod, rules.len());
        }
        let addresses: BTreeSet<_> = layer.rules.global.iter().map(|rule| rule.local).collect();
        let count = layer.rules.global.len();
        prop_assert!(count <= most(2 * addresses.len()), "{count} rules");
    }
    for flow in representative_flows(snapshot) {
        let Some(outcome) = sessions.judge(&flow) else {
            continue;
        };
        let allowed = picket_reference::judge(snapshot, semantics, &flow)
            .verdict()
            .is_allow();
        prop_assert!(
            outcome.passes == allowed || outcome.narrower && !outcome.passes,
            "{outcome:?}: {flow:?}\n{}",
            sessions.text()
        );
        let Some(answered) = sessions.is_answered(&flow) else {
            continue;
        };
        // Whoever may ask hears the answer.
        prop_assert!(
            answered || !allowed || outcome.narrower,
            "{flow:?}\n{}",
            sessions.text()
        );
        let back = Flow {
            source: flow.destination.clone(),
            destination: flow.source.clone(),
            port: SOURCE_PORT,
            ..flow.clone()
        };
        // What answers a pod that was not allowed to ask is what somebody begins.
        let allowed = allowed
            || picket_reference::judge(snapshot, semantics, &back)
                .verdict()
                .is_allow();
        let is_from_outside = !matches!(flow.destination, Endpoint::Pod(_));
        prop_assert!(
            answered == allowed || !is_from_outside || outcome.narrower && !answered,
            "{answered}: {flow:?}\n{}",
            sessions.text()
        );
    }
    Ok(())
}

/// Where blocks do not mean pods, the block around the one address of a pod says nothing about that pod, whichever of the two
/// rules comes first.
#[test]
fn a_block_of_one_address_is_not_the_pod_there() {
    let pods = pods_called(&["one", "two", "peer"]);
    let rules = |name: &str, of_block, of_pod| {
        let of_block = accept()
            .peer(block("10.0.0.3/32", &[]))
            .port(Protocol::TCP, of_block);
        let of_pod = accept()
            .peer(pods_in("x", "name=peer"))
            .port(Protocol::TCP, of_pod);
        let policy = policy(&format!("x/{name}")).selects(&format!("name={name}"));
        Object::Policy(policy.ingress(of_block).ingress(of_pod).build())
    };
    let snapshot: Snapshot = pods.chain([rules("one", 80, 81), rules("two", 81, 80)]).collect();
    let semantics = Semantics {
        ipblock_matches_pods: false,
        ..Semantics::default()
    };
    check(&snapshot, &semantics, &Options::default(), 0).expect("what the reference says");
}

/// What a pod opens to its own address is opened in its namespace as all else.
#[test]
fn a_pod_reaches_itself_whatever_it_may_send() {
    let both = Object::from(pod("x/own").ip("10.0.0.1").ip("fd00::1").build());
    let closed = policy("x/closed").isolates(Direction::Egress).build();
    let snapshot: Snapshot = [both, Object::Policy(closed)].into_iter().collect();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let sessions = Sessions::of(&snapshot, engine.program(), &Options::default(), 0);
    let own = snapshot.pods.keys().next().expect("a pod").clone();
    let to = |destination, protocol, family| {
        let flow = Flow {
            source: Endpoint::Pod(own.clone()),
            destination,
            family,
            protocol,
            port: 80,
        };
        sessions.judge(&flow).expect("a session layer").passes
    };
    for protocol in [Protocol::TCP, Protocol::UDP] {
        for family in Family::BOTH {
            assert!(
                to(Endpoint::Pod(own.clone()), protocol, family),
                "{protocol} {family}"
            );
        }
        let other = Endpoint::External("10.0.0.2".parse().expect("an address"));
        assert!(!to(other, protocol, Family::Ipv4), "{protocol}");
    }
    check(&snapshot, &Semantics::default(), &Options::default(), 0).expect("what the reference says");
}

/// Where the most pass, every denial is a rule: they were added whether there was room or not.
#[test]
fn a_table_without_room_for_denials_lets_nothing_pass() {
    let denied = (0..200).map(|number| format!("172.16.{number}.0/32"));
    let denied: Vec<_> = denied.collect();
    let denied: Vec<_> = denied.iter().map(String::as_str).collect();
    let all = accept().peer(block("0.0.0.0/0", &denied));
    let own = Object::from(pod("x/own").ip("10.0.0.1").build());
    let policy = policy("x/most").ingress(all.clone()).egress(all).build();
    let snapshot: Snapshot = [own, Object::Policy(policy)].into_iter().collect();
    for most_rules in [0, 1, 50, 199, 201, 399, 400] {
        check(&snapshot, &Semantics::default(), &Options { most_rules }, 0).expect("never more");
    }
    let engine = Engine::compile(&snapshot, Semantics::default());
    // Its own table has two more, which close IPv6.
    let (rules, missing) = render(engine.program(), None, &Options { most_rules: 402 });
    assert_eq!((rules.global.len(), missing.len()), (400, 0));
    let (rules, missing) = render(engine.program(), None, &Options { most_rules: 300 });
    // Those of one transport have room.
    assert_eq!(rules.global.len(), 201);
    let missing: Vec<_> = missing.iter().map(|missing| missing.missing).collect();
    assert_eq!(missing, [199, 199]);
}

/// What it sends there its policies restrict all the same, and nobody can say what they allow.
#[test]
fn a_pod_opens_nothing_in_a_family_of_which_policies_about_what_it_sends_know_no_address() {
    let ipv4 = || accept().peer(block("0.0.0.0/0", &[]));
    let everything = || ipv4().peer(block("::/0", &[]));
    for (addresses, policy, closed) in [
        (
            &["10.0.0.1"][..],
            policy("x/p").egress(ipv4()).build(),
            &[Family::Ipv6][..],
        ),
        (
            &["10.0.0.1"],
            policy("x/p").egress(everything()).build(),
            &[Family::Ipv6],
        ),
        (
            &["fd00::1"],
            policy("x/p").egress(everything()).build(),
            &[Family::Ipv4],
        ),
        (
            &["10.0.0.1", "fd00::1"],
            policy("x/p").egress(everything()).build(),
            &[],
        ),
        (&["10.0.0.1"], policy("x/p").ingress(ipv4()).build(), &[]),
        (&[], policy("x/p").ingress(ipv4()).build(), &Family::BOTH),
    ] {
        let own = addresses
            .iter()
            .fold(pod("x/own"), |pod, address| pod.ip(address));
        let snapshot = [Object::from(own.build()), Object::Policy(policy.clone())];
        let snapshot: Snapshot = snapshot.into_iter().collect();
        let engine = Engine::compile(&snapshot, Semantics::default());
        let (rules, _) = render(engine.program(), None, &Options::default());
        let local: Vec<_> = rules.local.values().flat_map(|rules| rules.iter()).collect();
        for family in Family::BOTH {
            let everybody = Prefix::all(family);
            let about = local
                .iter()
                .filter(|rule| rule.remote == everybody && rule.action == Action::Drop);
            let transports: BTreeSet<_> = about.map(|rule| rule.transport).collect();
            let expected = if closed.contains(&family) { 2 } else { 0 };
            assert_eq!(transports.len(), expected, "{addresses:?} {policy:?}: {local:?}");
        }
    }
}

/// The fewer of its ports and of the others, with the opposite action.
#[test]
fn a_range_takes_a_rule_for_each_of_the_fewer_ports() {
    let own = Object::from(pod("x/own").ip("10.0.0.1").build());
    for (first, last, allowed, dropped) in [
        (1, 60_000, 0, 5_535),
        (60_001, 65_535, 5_535, 1),
        (1, 32_768, 0, 32_767),
        (1, 32_767, 32_767, 1),
        (1, 65_535, 0, 0),
        (80, 80, 1, 1),
    ] {
        let range = accept().ports(Protocol::TCP, first, last);
        let policy = policy("x/range").ingress(range).build();
        let snapshot: Snapshot = [own.clone(), Object::Policy(policy)].into_iter().collect();
        let engine = Engine::compile(&snapshot, Semantics::default());
        let (rules, missing) = render(engine.program(), None, &Options::default());
        assert!(missing.is_empty());
        let tcp = rules
            .global
            .iter()
            .filter(|rule| rule.transport == Transport::Tcp);
        let count = |action| tcp.clone().filter(|rule| rule.action == action).count();
        let counts = (count(Action::Allow), count(Action::Drop));
        assert_eq!(counts, (allowed, dropped), "{first}-{last}");
        // And one that drops all of UDP.
        assert_eq!(rules.global.len(), allowed + dropped + 1, "{first}-{last}");
    }
}

/// Pods of one address are held to the same, so that all of them get less where it has no room.
#[test]
fn every_pod_of_an_address_without_room_is_named() {
    let pods = ["x/one", "x/two"].map(|id| Object::from(pod(id).ip("10.0.0.1").build()));
    let ports = (1..=9).map(|port| accept().port(Protocol::TCP, 2 * port));
    let policy = ports.fold(policy("x/ports"), |policy, rule| policy.ingress(rule));
    let snapshot: Snapshot = pods.into_iter().chain([Object::Policy(policy.build())]).collect();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let (_, missing) = render(engine.program(), None, &Options { most_rules: 5 });
    let global = missing
        .iter()
        .filter(|missing| missing.direction == Direction::Ingress);
    let names: Vec<_> = global.map(|missing| missing.pod.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    let shortfalls = shortfalls(engine.program(), &missing);
    assert!(
        shortfalls.iter().any(|shortfall| shortfall
            .what
            .starts_with("NetworkPolicy x/ports (ingress) needs ")),
        "{shortfalls:?}"
    );
}

/// The table of a pod that may send everything has rules about what others of its node may receive.
#[test]
fn policies_of_the_pods_beside_are_named_where_these_leave_no_room() {
    let pod = |id: &str, address: &str, node: &str| Object::from(pod(id).ip(address).on(node).build());
    let pods = [
        pod("x/server", "10.0.0.1", "n1"),
        pod("y/client", "10.0.0.2", "n1"),
        pod("y/elsewhere", "10.0.0.3", "n2"),
    ];
    let ports = (1..=9).map(|port| accept().port(Protocol::TCP, 2 * port));
    let policy = ports.fold(policy("x/ports"), |policy, rule| policy.ingress(rule));
    let snapshot: Snapshot = pods.into_iter().chain([Object::Policy(policy.build())]).collect();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let (_, missing) = render(engine.program(), Some("n1"), &Options { most_rules: 5 });
    let client: Vec<_> = missing
        .into_iter()
        .filter(|missing| missing.pod.name == "client")
        .collect();
    let directions: Vec<_> = client.iter().map(|missing| missing.direction).collect();
    assert_eq!(directions, [Direction::Egress]);
    let shortfalls = shortfalls(engine.program(), &client);
    let [shortfall] = shortfalls.as_slice() else {
        panic!("{shortfalls:?}");
    };
    assert_eq!(shortfall.policy.to_string(), "NetworkPolicy x/ports");
    assert!(
        shortfall.instead.contains("denied for Pod y/client"),
        "{shortfall:?}"
    );
}

/// The same rules with one of one table changed.
fn mutated(rules: &SessionRules, table: Index, rule: Index, mutation: u8) -> SessionRules {
    let mut rules = rules.clone();
    let local = rules.local.values_mut();
    let tables = local.chain([&mut rules.global]);
    let mut tables: Vec<_> = tables.filter(|rules| !rules.is_empty()).collect();
    if tables.is_empty() {
        return rules;
    }
    let at = table.index(tables.len());
    let table = &mut tables[at];
    let at = rule.index(table.len());
    let changed = &mut table[at];
    match mutation {
        0 => drop(table.remove(at)),
        1 => {
            changed.action = match changed.action {
                Action::Allow => Action::Drop,
                Action::Drop => Action::Allow,
            };
        }
        2 => changed.remote = Prefix::all(changed.family()),
        3 => changed.local = Prefix::all(changed.family()),
        4 => (changed.local_port, changed.remote_port) = (changed.remote_port, changed.local_port),
        5 => (changed.local_port, changed.remote_port) = (0, 0),
        _ => changed.remote_port = changed.remote_port.wrapping_add(1),
    }
    rules
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_changed_rule_is_refuted_or_means_the_same(
        snapshot in snapshot(Shape::Dialects, 5),
        table: Index,
        rule: Index,
        mutation in 0..7u8,
    ) {
        let engine = Engine::compile(&snapshot, Semantics::default());
        let options = Options { most_rules: 20_000 };
        let mut sessions = Sessions::of(&snapshot, engine.program(), &options, 0);
        for (node, layer) in &mut sessions.layers {
            let rules = mutated(&layer.rules, table, rule, mutation);
            *layer = Layer::of(rules, layer.narrower.clone(), 0);
            let report = verify(&layer.rules, engine.program(), node.as_deref(), &layer.except(), 1);
            if !report.is_proof() {
                return Ok(());
            }
        }
        for flow in representative_flows(&snapshot) {
            let Some(outcome) = sessions.judge(&flow) else {
                continue;
            };
            let judged = picket_reference::judge(&snapshot, &Semantics::default(), &flow);
            let allowed = judged.verdict().is_allow();
            prop_assert!(
                outcome.passes == allowed || outcome.narrower && !outcome.passes,
                "{outcome:?}: {flow:?}\n{}",
                sessions.text()
            );
        }
    }

    #[test]
    fn rules_mean_what_the_specification_says(
        snapshot in snapshot(Shape::Dialects, 5),
        semantics in semantics(),
        seed in prop_oneof![Just(0), any::<u64>()],
    ) {
        check(&snapshot, &semantics, &Options { most_rules: 20_000 }, seed)?;
    }

    #[test]
    fn less_is_allowed_where_there_may_be_no_more_rules(
        snapshot in snapshot(Shape::Dialects, 5),
        most_rules in 0..40usize,
        seed: u64,
    ) {
        check(&snapshot, &Semantics::default(), &Options { most_rules }, seed)?;
    }
}
