//! What is no assertion, or one that nothing can make hold or fail: each has a place and a code.

use picket_cluster::Semantics;
use picket_testing::build::{node, pod, policy};
use picket_testing::snapshot;

use super::super::run;
use super::parsed;
use picket_cluster::Snapshot;

fn cluster() -> Snapshot {
    snapshot![
        pod("x/web")
            .label("app", "web")
            .ip("10.0.0.1")
            .on("n1")
            .port("http", picket_net::Protocol::TCP, 80),
        pod("x/db").label("app", "db").ip("10.0.0.2").on("n2"),
        pod("x/six").label("app", "six").ip("fd00::1"),
        pod("x/done").ip("10.0.0.9").finished(),
        pod("x/agent").ip("10.9.0.1").on("n1").host_network(),
        node("n1").ip("10.9.0.1"),
        node("n2").ip("10.9.0.2"),
        policy("x/p")
            .selects("app=db")
            .isolates(picket_policy::Direction::Ingress),
    ]
}

/// Everything that is wrong with a file, as `code line:column message`.
fn problems(tests: &str) -> Vec<String> {
    let (assertions, mut problems) = parsed(tests);
    if problems.is_empty() {
        problems = run(&cluster(), &Semantics::default(), &assertions)
            .err()
            .unwrap_or_default();
    }
    let shown = problems.iter().map(|problem| {
        let place = &problem.labels[0].span;
        let fixes = problem.fixes.iter().map(|fix| fix.title.clone());
        let next: Vec<_> = problem.notes.iter().cloned().chain(fixes).collect();
        format!(
            "{} {}:{} {} | {}",
            problem.code.0,
            place.line,
            place.column,
            problem.message,
            next.join(" | ")
        )
    });
    shown.collect()
}

#[track_caller]
fn check(cases: &[(&str, &[&str])]) {
    for (tests, expected) in cases {
        let found = problems(tests);
        assert_eq!(found.len(), expected.len(), "{tests}\n{found:#?}");
        for (found, expected) in found.iter().zip(*expected) {
            assert!(found.starts_with(expected), "{tests}\n{found}\n{expected}");
        }
    }
}

#[test]
fn what_is_no_assertion_is_named_with_its_place() {
    check(&[
        ("tests: []\nmore: 1", &["P"]),
        (
            "kests: []",
            &["P", "T001 1:1 Required value: a list of assertions"],
        ),
        ("tests: {}", &["P"]),
        (
            "tests:\n- {from: x/web, to: x/db}",
            &["T001 4:3 an assertion has exactly one of"],
        ),
        (
            "tests:\n- {allow: every, deny: every, from: x/web, to: x/db}",
            &["T001 4:3 an assertion has exactly one"],
        ),
        (
            "tests:\n- {allow: every, to: x/db}",
            &["T001 4:3 Required value: who it is about"],
        ),
        ("tests:\n- {allow: all, from: x/web, to: x/db}", &["P"]),
        ("tests:\n- {allow: evry, from: x/web, to: x/db}", &["P"]),
        ("tests:\n- {allow: true, from: x/web, to: x/db}", &["P"]),
        ("tests:\n- {reach: always, from: x/web, to: x/db}", &["P"]),
        ("tests:\n- {allow: every, form: x/web, to: x/db}", &["P", "T001"]),
        (
            "tests:\n- {allow: every, from: x/web, to: x/db, family: ipv5}",
            &["P"],
        ),
        (
            "tests:\n- {allow: every, from: x/web, to: x/db, exact: to}",
            &["T001 4:48 `exact` says"],
        ),
        (
            "tests:\n- {allow: exactly, from: x/web, to: x/db, exact: []}",
            &["T001 4:50 the list is empty"],
        ),
        (
            "tests:\n- {allow: every, from: x/web, to: x/db, through: any}",
            &["T001 4:3 `through` says"],
        ),
        (
            "tests:\n- {allow: every, from: x/web, to: x/db, network: a/b/c}",
            &["T001 4:50 `a/b/c` is no network"],
        ),
        (
            "apiVersion: picket.dev/v2\nkind: ConnectivityTest\ntests: []",
            &["P"],
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}", &["P"]),
    ]);
}

#[test]
fn what_is_no_end_is_named_with_its_place() {
    check(&[
        (
            "tests:\n- {allow: every, from: [], to: x/db}",
            &["T002 4:24 the list is empty"],
        ),
        (
            "tests:\n- {allow: every, from: a/b/c/d, to: x/db}",
            &["T002 4:24 `a/b/c/d` is no end"],
        ),
        (
            "tests:\n- {allow: every, from: 'x y', to: x/db}",
            &["T002 4:24 `x y` is no end"],
        ),
        ("tests:\n- {allow: every, from: 7, to: x/db}", &["P"]),
        (
            "tests:\n- {allow: every, from: 10.0.0.5/8, to: x/db}",
            &["T002 4:24 `10.0.0.5/8` can be read in two ways: write `10.0.0.0/8`"],
        ),
        (
            "tests:\n- {allow: every, from: {}, to: x/db}",
            &["T002 4:24 an end has"],
        ),
        (
            "tests:\n- {allow: every, from: {podSelector: {matchLabels: {app: 7}}}, to: x/db}",
            &["P"],
        ),
        (
            "tests:\n- {allow: every, from: {podselector: {}}, to: x/db}",
            &["P"],
        ),
        (
            "tests:\n- {allow: every, from: {external: [any]}, to: x/db}",
            &["T002 4:36 `any` is no prefix"],
        ),
        (
            "tests:\n- {allow: every, from: {external: []}, to: x/db}",
            &["T002 4:35 the list is empty"],
        ),
        (
            "tests:\n- {allow: every, from: {set: a}, to: x/db}",
            &["T002 4:30 there is no set `a`: the file has no `sets`"],
        ),
        (
            "sets: {abc: x/web}\ntests:\n- {allow: every, from: {set: abd}, to: x/db}",
            &["T002 5:30 there is no set `abd`: there are `abc`"],
        ),
        (
            "sets: {a: {set: b}, b: {set: a}}\ntests:\n- {allow: every, from: {set: a}, to: x/db}",
            &["T002 3:17", "T002 3:30"],
        ),
    ]);
}

#[test]
fn what_is_no_port_is_named_with_its_place() {
    for (port, expected) in [
        ("0", "`0` is no port: they go from 1 to 65535"),
        ("65536", "`65536` is no port: they go from 1 to 65535"),
        ("-1", "`-1` is no port"),
        (
            "90-80",
            "`90-80` holds no port: the first is above the last; write `80-90`",
        ),
        ("80/icmp", "`80/icmp` is no port"),
        ("80/quic", "`80/quic` is no port"),
        ("'a b'", "`a b` is no port"),
        ("''", "`` is no port"),
        ("[]", "the list is empty: leave `ports` out"),
    ] {
        let found = problems(&format!(
            "tests:\n- {{allow: every, from: x/web, to: x/db, ports: {port}}}"
        ));
        assert!(
            found[0].starts_with(&format!("T003 4:48 {expected}")),
            "{found:#?}"
        );
    }
}

#[test]
fn what_names_nothing_is_never_a_test_that_holds() {
    check(&[
        (
            "tests:\n- {deny: every, from: x/wbe, to: x/db}",
            &["T004 4:23 nothing in the input is called `x/wbe` | did you mean `x/web`?"],
        ),
        (
            "tests:\n- {deny: every, from: x/done, to: x/db}",
            &["T004 4:23 pod `x/done` has finished"],
        ),
        (
            "tests:\n- {deny: every, from: y/*, to: x/db}",
            &["T004 4:23 the namespace `y` has no pods in the input | "],
        ),
        (
            "tests:\n- {deny: every, from: {podSelector: {matchLabels: {app: wbe}}}, to: x/db}",
            &["T004 4:23 no pod has `app=wbe` | did you mean `app=web`"],
        ),
        (
            "tests:\n- {deny: every, from: {namespaceSelector: {matchLabels: {a: b}}}, to: x/db}",
            &["T004 4:23 no namespace that has pods has `a=b`"],
        ),
        (
            "tests:\n- {deny: every, from: x/web, to: x/db, ports: http}",
            &["T004 4:3 `the test at line 4` speaks of ports that no destination has"],
        ),
        (
            "tests:\n- {deny: every, from: x/web, notFrom: x/*, to: x/db}",
            &["T004 4:23 the exceptions leave nothing"],
        ),
        (
            "tests:\n- {deny: every, from: x/web, notFrom: y/*, to: x/db}",
            &["T004 4:39 the namespace `y`"],
        ),
        (
            "tests:\n- {deny: every, from: x/web, to: x/db, network: x/nad}",
            &["T004 4:49 there is no network `x/nad` | nothing in the input is on a secondary network"],
        ),
        // One set that names nothing is wrong once.
        (
            "sets: {a: x/wbe}\ntests:\n- {deny: every, from: {set: a}, to: x/db}\n- {allow: every, from: {set: a}, to: x/db}",
            &["T004 3:11"],
        ),
    ]);
}

#[test]
fn what_no_policy_can_make_a_difference_to_is_impossible() {
    check(&[
        (
            "tests:\n- {deny: every, from: n2, to: x/db}",
            &[
                "T005 4:3 `the test at line 4` can never hold: no policy can keep `n2` from `x/db` | a node, with all pods on its network",
            ],
        ),
        ("tests:\n- {deny: every, from: x/agent, to: x/web}", &["T005 4:3"]),
        (
            "tests:\n- {deny: every, from: external, to: n1}",
            &[
                "T005 4:3 `the test at line 4` can never hold: no policy can keep `0.0.0.0` from `n1` | no policy is about nodes",
            ],
        ),
        (
            "tests:\n- {reach: never, from: 10.9.0.0/16, to: x/db}",
            &["T005 4:3"],
        ),
        (
            "tests:\n- {deny: every, from: x/web, to: x/web}",
            &["T005 4:3 `the test at line 4` can never fail"],
        ),
        (
            "tests:\n- {deny: every, from: x/web, to: x/six}",
            &["T005 4:3 `the test at line 4` can never fail"],
        ),
        (
            "tests:\n- {deny: every, from: external, to: 192.0.2.0/24}",
            &["T005 4:3 `the test at line 4` can never fail"],
        ),
        (
            "tests:\n- {deny: every, from: x/web, to: x/db, ports: icmpv6}",
            &["T005 4:3 `the test at line 4` can never fail"],
        ),
        (
            "tests:\n- {allow: only, from: any, to: x/db}",
            &["T005 4:3 `the test at line 4` can never fail"],
        ),
        // `any` leaves out whom nothing can keep away.
        ("tests:\n- {deny: every, from: any, to: x/db}", &[]),
        (
            "tests:\n- {deny: every, from: 10.9.0.0/16, notFrom: n2, to: x/db}",
            &[],
        ),
    ]);
}

#[test]
fn two_tests_that_cannot_both_hold_are_a_contradiction() {
    let both = "T006 5:3 `two` and `one` can";
    for (one, two, clash) in [
        (
            "allow: every, from: x/web, to: x/db, ports: 80",
            "deny: every, from: x/*, to: x/db",
            true,
        ),
        (
            "allow: every, from: x/web, to: x/db, ports: 80",
            "deny: every, from: x/*, to: x/db, ports: 70-80",
            true,
        ),
        (
            "allow: every, from: x/web, to: x/db, ports: 80",
            "deny: every, from: x/*, to: x/db, ports: 81",
            false,
        ),
        (
            "allow: every, from: x/web, to: x/db",
            "allow: only, from: 10.0.0.7, to: x/db",
            true,
        ),
        (
            "allow: every, from: x/web, to: x/db",
            "allow: only, from: x/*, to: x/db",
            false,
        ),
        (
            "allow: exactly, from: x/web, to: x/db",
            "allow: every, from: external, to: x/db, ports: 80",
            true,
        ),
        (
            "allow: exactly, from: x/web, to: x/db, ports: 80",
            "allow: every, from: external, to: x/db, ports: 81",
            false,
        ),
        (
            "reach: never, from: x/web, to: x/db",
            "allow: every, from: x/web, to: x/db, ports: udp",
            true,
        ),
        (
            "deny: every, from: x/web, to: x/db",
            "deny: every, from: any, to: x/db",
            false,
        ),
        // One end may be many, and a pair of them clashes.
        (
            "allow: every, from: 10.0.0.0/8, notFrom: n2, to: x/db",
            "deny: every, from: external, to: x/db, ports: 9",
            true,
        ),
    ] {
        let found = problems(&format!("tests:\n- {{name: one, {one}}}\n- {{name: two, {two}}}"));
        let expected = both.replace("`two` and `one`", "`one` and `two`");
        assert_eq!(found.len(), usize::from(clash), "{one} {two}\n{found:#?}");
        assert!(
            found.iter().all(|found| found.starts_with(&expected)),
            "{found:#?}"
        );
    }
}
