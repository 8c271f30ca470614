//! What is denied is said, by name.

use std::net::{SocketAddr, UdpSocket};

use picket_net::Family;
use picket_node::Drop;
use serde_json::{Value, json};

use crate::agents::{Agent, denied};
use crate::apiserver::agent::{Live, metric};
use crate::apiserver::audited::counter;
use crate::apiserver::never_open::POLICIES;
use crate::objects::network_policy;
use crate::prober::{address, any, namespace};

/// Sends packets from a pod to a port of another, from one port.
fn send(live: &Live, from: &str, to: &str, port: u16, packets: usize) {
    send_over(live, Family::Ipv4, from, to, port, packets);
}

/// The same over a family.
pub(super) fn send_over(live: &Live, family: Family, from: &str, to: &str, port: u16, packets: usize) {
    let target = SocketAddr::from((address(&live.lab, to, family), port));
    let send = || {
        let socket = UdpSocket::bind((any(family), 0)).unwrap();
        for _ in 0..packets {
            socket.send_to(b"denied", target).unwrap();
        }
    };
    namespace(&live.lab, from).run(send).unwrap();
}

/// What was logged about packets to a port that were denied, or would be.
pub(super) fn lines(agent: &Agent, port: u16) -> Vec<Value> {
    let mut lines = denied(&agent.log());
    lines.retain(|fields| fields["port"] == port);
    lines
}

#[test]
fn a_denied_connection_is_logged_with_its_ends_and_the_policies() {
    let live = Live::new(None);
    let agent = live.agent(&["--log-format", "json"]);
    agent.until_enforced(&live.versions);
    let listed = live.nft(&["list", "ruleset"]);
    let rule = "limit rate 10/second burst 100 packets log prefix \"picket ingress\" group 9480";
    assert!(listed.contains(rule), "{listed}");
    // What is allowed leaves no line.
    send(&live, "x/a", "y/a", 81, 1);
    send(&live, "y/a", "x/a", 80, 5);
    agent.until("a line", |_| !lines(&agent, 80).is_empty());
    let logged = &lines(&agent, 80)[0];
    for (field, expected) in [
        ("message", "denied".to_owned()),
        ("from", "y/a".to_owned()),
        ("source", address(&live.lab, "y/a", Family::Ipv4).to_string()),
        ("to", "x/a".to_owned()),
        ("destination", address(&live.lab, "x/a", Family::Ipv4).to_string()),
        ("protocol", "UDP".to_owned()),
        ("direction", "ingress".to_owned()),
        ("policies", "NetworkPolicy x/deny-ingress".to_owned()),
    ] {
        assert_eq!(logged[field], expected, "{logged}");
    }
    // Another port is another line, and what is the same is not told again so soon.
    send(&live, "y/a", "x/a", 80, 5);
    send(&live, "y/a", "x/a", 82, 1);
    agent.until("another line", |_| !lines(&agent, 82).is_empty());
    assert_eq!(lines(&agent, 82)[0]["packets"], 1);
    assert_eq!(lines(&agent, 80).len(), 1);
    assert_eq!(lines(&agent, 81).len(), 0);
}

#[test]
fn what_a_pod_may_not_send_is_logged_with_the_policy_that_keeps_it_in() {
    let live = Live::new(None);
    let spec = json!({"podSelector": {"matchLabels": {"pod": "c"}}, "policyTypes": ["Egress"]});
    live.api.create(POLICIES, &network_policy("x", "stay", &spec));
    let agent = live.agent(&["--log-format", "json"]);
    agent.until("the policy", |status| {
        status.host.policies.contains(&"NetworkPolicy x/stay".to_owned())
    });
    for (family, port) in [(Family::Ipv4, 90), (Family::Ipv6, 91)] {
        send_over(&live, family, "x/c", "y/a", port, 1);
        agent.until("a line", |_| !lines(&agent, port).is_empty());
        let logged = &lines(&agent, port)[0];
        for (field, expected) in [
            ("from", "x/c".to_owned()),
            ("source", address(&live.lab, "x/c", family).to_string()),
            ("to", "y/a".to_owned()),
            ("destination", address(&live.lab, "y/a", family).to_string()),
            ("direction", "egress".to_owned()),
            ("policies", "NetworkPolicy x/stay".to_owned()),
        ] {
            assert_eq!(logged[field], expected, "{logged}");
        }
    }
}

#[test]
fn drops_are_counted_by_policy_and_outlive_the_agent() {
    let live = Live::new(None);
    let mut agent = live.agent(&["--log-denied", "off"]);
    agent.until_enforced(&live.versions);
    let counter = |direction| counter("dropped", direction);
    assert_eq!(metric(&agent, &counter("ingress")), 0);
    assert!(agent.status().unwrap().host.dropped.drops.is_empty());
    send(&live, "y/a", "x/a", 80, 7);
    agent.until("drops", |_| metric(&agent, &counter("ingress")) == 7);
    // The policy is about ingress alone, and the other direction has no counter.
    assert!(!agent.get("/metrics").1.contains(&counter("egress")));
    assert_eq!(metric(&agent, "picket_dropped_mid_stream_packets_total"), 0);
    let expected = Drop {
        policy: "NetworkPolicy x/deny-ingress".to_owned(),
        direction: "ingress".to_owned(),
        packets: 7,
    };
    assert_eq!(agent.status().unwrap().host.dropped.drops, [expected]);
    let shown = agent.asked_by(&["status"]);
    let line = "           7  NetworkPolicy x/deny-ingress, ingress\n";
    assert!(shown.stdout.contains(line), "{}", shown.stdout);
    agent.kill();
    let again = live.agent(&["--log-denied", "off"]);
    again.until_enforced(&live.versions);
    assert_eq!(metric(&again, &counter("ingress")), 7);
}

#[test]
fn a_flood_of_denied_packets_is_counted_and_nothing_waits_for_it() {
    let live = Live::new(None);
    let agent = live.agent(&["--log-format", "json"]);
    agent.until_enforced(&live.versions);
    for port in 1000..3000 {
        send(&live, "y/a", "x/a", port, 1);
    }
    // The rule lets a hundred and ten a second or so into the log.
    let count = |agent: &Agent| (1000..3000).map(|port| lines(agent, port).len()).sum::<usize>();
    agent.until("many lines", |_| count(&agent) >= 100);
    send(&live, "y/a", "x/a", 80, 7);
    let dropped = counter("dropped", "ingress");
    agent.until("all of them", |_| metric(&agent, &dropped) == 2007);
    assert!(count(&agent) < 1000, "{}", count(&agent));
    assert_eq!(metric(&agent, "picket_denied_unlogged_total"), 0);
    assert_eq!(agent.get("/healthz").0, 200);
}

#[test]
fn without_the_log_no_rule_logs_and_a_group_of_others_is_left_to_them() {
    let live = Live::new(None);
    let mut agent = live.agent(&["--log-denied", "off"]);
    agent.until_enforced(&live.versions);
    assert!(!live.nft(&["list", "ruleset"]).contains("log"));
    agent.stop();
    let taken = picket_linux::PacketLog::open(live.node(), 7).unwrap();
    let agent = live.agent(&["--log-denied-group", "7"]);
    agent.until_enforced(&live.versions);
    assert!(
        agent.log().contains("denied connections are not logged"),
        "{}",
        agent.log()
    );
    assert!(!live.nft(&["list", "ruleset"]).contains("log"));
    drop(taken);
}
