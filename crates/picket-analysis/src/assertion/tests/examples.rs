//! Assertions on small clusters, and what is printed of them.

use picket_net::Protocol;
use picket_policy::Direction;
use picket_testing::build::{accept, block, node, pod, pods_in, policy};
use picket_testing::snapshot;

use super::super::record;
use super::*;

fn shop() -> Snapshot {
    snapshot![
        pod("x/web")
            .label("app", "web")
            .ip("10.0.0.1")
            .on("n1")
            .declares(Protocol::TCP, 80),
        pod("x/api-1")
            .label("app", "api")
            .ip("10.0.0.2")
            .on("n1")
            .owned_by("Deployment", "api"),
        pod("x/api-2")
            .label("app", "api")
            .ip("10.0.0.3")
            .on("n2")
            .owned_by("Deployment", "api"),
        pod("x/db")
            .label("app", "db")
            .ip("10.0.0.4")
            .on("n2")
            .port("sql", Protocol::TCP, 5432),
        node("n1").ip("10.9.0.1"),
        node("n2").ip("10.9.0.2"),
        policy("x/db")
            .selects("app=db")
            .ingress(accept().peer(pods_in("x", "app=api")).named("sql", Protocol::TCP)),
        policy("x/api")
            .selects("app=api")
            .ingress(accept().peer(pods_in("x", "app=web")).port(Protocol::TCP, 8080)),
        policy("x/web")
            .selects("app=web")
            .ingress(accept().peer(block("203.0.113.0/24", &[]))),
    ]
}

#[test]
fn each_claim_holds_or_not() {
    for (test, holds) in [
        ("allow: every, from: x/Deployment/api, to: x/db, ports: sql", true),
        (
            "allow: every, from: x/Deployment/api, to: x/db, ports: 5432/tcp",
            true,
        ),
        (
            "allow: every, from: x/Deployment/api, to: x/db, ports: [5432, 53/udp]",
            false,
        ),
        ("allow: every, from: x/*, to: x/db, ports: sql", false),
        ("deny: none, from: x/Deployment/api, to: x/db, ports: sql", true),
        ("allow: no, from: x/web, to: x/db", true),
        ("deny: every, from: x/web, to: x/db", true),
        ("deny: every, from: x/api-1, to: x/db, ports: udp", true),
        ("deny: every, from: any, to: x/db, ports: sql", false),
        (
            "deny: every, from: any, notFrom: x/Deployment/api, to: x/db",
            true,
        ),
        (
            "allow: exactly, from: {podSelector: {matchLabels: {app: api}}}, to: x/db, ports: sql",
            true,
        ),
        ("allow: exactly, from: x/api-1, to: x/db, ports: sql", false),
        (
            "allow: exactly, exact: [from, ports], from: x/Deployment/api, to: x/db, ports: sql",
            true,
        ),
        (
            "allow: exactly, exact: ports, from: x/Deployment/api, to: x/db, ports: 5000-5999",
            false,
        ),
        ("allow: only, from: [x/Deployment/api, x/web], to: x/db", true),
        ("allow: only, from: x/web, to: x/db", false),
        (
            "allow: only, exact: to, from: 203.0.113.9, to: [x/web, n1, n2]",
            true,
        ),
        ("allow: only, exact: to, from: 203.0.113.9, to: x/db", false),
        (
            "allow: every, from: {external: [203.0.112.0/23], except: [203.0.112.0/24]}, to: x/web",
            true,
        ),
        (
            "allow: every, from: {external: [203.0.112.0/23]}, to: x/web",
            false,
        ),
        ("deny: every, from: x/web, to: x/db", true),
        ("reach: never, from: x/web, to: x/db", false),
        ("reach: never, from: x/web, to: x/db, ports: udp", true),
        ("reach: never, from: x/web, to: x/db, through: x/web", true),
        ("reach: never, from: 198.51.100.1, to: x/db", true),
        ("reach: never, from: 203.0.113.1, to: x/db", false),
        // One of the destinations is a source itself: others must not reach it.
        ("reach: never, from: [x/Deployment/api, x/db], to: x/db", false),
    ] {
        let found = outcomes(&shop(), &format!("tests:\n- {{{test}}}"));
        assert_eq!(found.unwrap()[0].holds(), holds, "{test}");
    }
}

#[test]
fn a_failure_shows_a_connection_and_what_decides_it() {
    let tests = "tests:\n- {name: closed, deny: every, from: x/Deployment/api, to: x/db}\n- {name: open, allow: every, from: x/web, to: x/db, ports: sql}";
    assert_eq!(
        shown(&shop(), tests),
        "FAILED  closed (tests.yaml:4)
  x/api-1 → x/db, TCP 5432, IPv4: should be denied, and is allowed
    egress  allow  not-isolated
    ingress allow  allowed-by-rule
      NetworkPolicy x/db, ingress rule 0 (:0)
  x/api-2 → x/db, TCP 5432, IPv4: should be denied, and is allowed
    egress  allow  not-isolated
    ingress allow  allowed-by-rule
      NetworkPolicy x/db, ingress rule 0 (:0)
FAILED  open (tests.yaml:5)
  x/web → x/db, TCP 5432, IPv4: should be allowed, and is denied
    egress  allow  not-isolated
    ingress deny  no-rule-matches
      NetworkPolicy x/db, isolates (:0)
2 tests, 2 failed
"
    );
}

#[test]
fn a_way_of_several_steps_is_shown_step_by_step() {
    let found = outcomes(&shop(), "tests:\n- {reach: never, from: 203.0.113.1, to: x/db}").unwrap();
    let steps = found[0].failures[0]
        .steps
        .iter()
        .map(|step| format!("{} {} {:?}", step.from, step.to, step.port));
    let expected = [
        "203.0.113.1 x/web Some(80)",
        "x/web x/api-1 Some(8080)",
        "x/api-1 x/db Some(5432)",
    ];
    assert_eq!(steps.collect::<Vec<_>>(), expected);
}

#[test]
fn only_the_first_failures_are_shown_and_all_are_counted() {
    let pods = (1..=9).map(|number| {
        pod(&format!("x/p{number}"))
            .ip(&format!("10.0.0.{number}"))
            .build()
    });
    let cluster: Snapshot = pods.map(picket_cluster::Object::from).collect();
    let shown = shown(
        &cluster,
        "tests:\n- {name: closed, deny: every, from: x/*, to: x/*}",
    );
    assert!(shown.contains("\n  and 67 more\n1 test, 1 failed\n"), "{shown}");
    assert_eq!(shown.matches("should be denied").count(), 5);
}

#[test]
fn a_family_and_a_block_are_about_no_more_than_they_say() {
    let cluster = snapshot![
        pod("x/a").ip("10.0.0.1").ip("fd00::1"),
        pod("x/b").label("app", "b").ip("10.0.0.2").ip("fd00::2"),
        policy("x/b")
            .selects("app=b")
            .ingress(accept().peer(block("fd00::/64", &[]))),
    ];
    for (test, holds) in [
        ("allow: every, from: x/a, to: x/b", false),
        ("allow: every, from: x/a, to: x/b, family: ipv6", true),
        ("deny: every, from: x/a, to: x/b, family: ipv4", true),
        ("allow: every, from: x/a, to: 'fd00::2'", true),
        ("deny: every, from: 10.0.0.0/8, to: x/b", true),
        ("deny: every, from: [10.0.0.0/8, 'fd00::1'], to: x/b", false),
        ("allow: only, from: 'fd00::/64', to: x/b", true),
    ] {
        let found = outcomes(&cluster, &format!("tests:\n- {{{test}}}"));
        assert_eq!(found.unwrap()[0].holds(), holds, "{test}");
    }
}

#[test]
fn results_hold_no_markup_of_names() {
    let tests = "tests:\n- {name: \"a <b> & \\\"c\\\" # d \\\\ \\e\", deny: every, from: x/web, to: x/Deployment/api}";
    let assertions = sound(tests);
    let fared = outcomes(&shop(), tests).unwrap();
    let judged: Vec<_> = assertions.iter().zip(&fared).collect();
    let mut out = Vec::new();
    write::junit(&judged, &mut out).unwrap();
    let junit = String::from_utf8(out).unwrap();
    assert!(
        junit.contains("name=\"a &lt;b&gt; &amp; &quot;c&quot; # d \\ \u{fffd}\""),
        "{junit}"
    );
    assert!(
        junit.contains("failures=\"1\"") && junit.contains("<failure message=\"x/web → x/api-1, TCP"),
        "{junit}"
    );
    let mut out = Vec::new();
    write::tap(&judged, &mut out).unwrap();
    let tap = String::from_utf8(out).unwrap();
    assert!(
        tap.starts_with(
            "TAP version 14\n1..1\nnot ok 1 - a <b> & \"c\" \\# d \\\\ \u{fffd}\n# tests.yaml:4\n# x/web"
        ),
        "{tap}"
    );
}

#[test]
fn a_record_names_workloads_and_says_everything() {
    assert_eq!(
        record(&shop(), &Semantics::default(), None),
        r#"apiVersion: picket.dev/v1
kind: ConnectivityTest
tests:
- name: "8080 to x/Deployment/api"
  allow: exactly
  exact: ports
  from: x/web
  to: x/Deployment/api
  ports: 8080
- name: "nothing else to x/Deployment/api"
  allow: only
  from: x/web
  to: x/Deployment/api
- name: "5432 to x/db"
  allow: exactly
  exact: ports
  from: x/Deployment/api
  to: x/db
  ports: 5432
- name: "nothing else to x/db"
  allow: only
  from: x/Deployment/api
  to: x/db
- name: "everything to x/web"
  allow: every
  from: {external: [203.0.113.0/24]}
  to: x/web
- name: "nothing else to x/web"
  allow: only
  from: {external: [203.0.113.0/24]}
  to: x/web
- name: "everything to node/n1 and node/n2"
  allow: every
  from: any
  to: [node/n1, node/n2]
- name: "everything to external addresses of 0.0.0.0/0"
  allow: every
  from: any
  to: {external: [0.0.0.0/0]}
"#
    );
}

#[test]
fn a_pod_that_may_do_nothing_is_recorded_so() {
    let cluster = snapshot![
        pod("x/a").ip("10.0.0.1"),
        policy("x/a")
            .isolates(Direction::Ingress)
            .isolates(Direction::Egress),
    ];
    let text = record(&cluster, &Semantics::default(), None);
    let denied = "\n  deny: every\n  from: any\n  to: [x/*, {external: [0.0.0.0/0]}]\n";
    assert!(
        text.ends_with(denied) && text.matches("- name").count() == 1,
        "{text}"
    );
}

#[test]
fn a_way_may_lead_through_pods_that_are_alike() {
    // What is entered by port 80 is reached by port 90 from its like alone.
    let cluster = snapshot![
        pod("x/a").label("app", "a").ip("10.0.0.1"),
        pod("x/b").label("app", "a").ip("10.0.0.2"),
        pod("x/s").label("app", "s").ip("10.0.0.3"),
        policy("x/a")
            .selects("app=a")
            .ingress(accept().peer(pods_in("x", "app=s")).port(Protocol::TCP, 80))
            .ingress(accept().peer(pods_in("x", "app=a")).port(Protocol::TCP, 90)),
    ];
    for (to, ports, holds) in [
        ("x/a", 90, false),
        ("x/b", 90, false),
        ("x/*", 90, false),
        ("x/a", 91, true),
        ("x/b", 91, true),
    ] {
        let test = format!("tests:\n- {{reach: never, from: x/s, to: {to}, ports: {ports}}}");
        let found = outcomes(&cluster, &test).unwrap();
        assert_eq!(found[0].holds(), holds, "{to} {ports} {found:?}");
    }
}
