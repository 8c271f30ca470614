//! The same of UDP and SCTP, which have no beginning that rules could ask for: who sends first begins.

use std::net::SocketAddr;

use picket_net::Family;
use serde_json::{Value, json};

use super::{create, deny};
use crate::agents::Agent;
use crate::apiserver::agent::{Live, metric};
use crate::apiserver::never_open::allow;
use crate::datagrams::{Flow, Kind};
use crate::prober::{address, namespace};

/// A flow of each family between two pods.
fn flows(live: &Live, kind: Kind, from: &str, to: &str, port: u16) -> [Flow; 2] {
    Family::BOTH.map(|family| {
        let [client, server] = [from, to].map(|pod| address(&live.lab, pod, family));
        let places = [from, to].map(|pod| namespace(&live.lab, pod));
        Flow::open(
            kind,
            (places[0], client),
            (places[1], SocketAddr::new(server, port)),
        )
    })
}

/// The same with the servers of others.
fn beside(live: &Live, flows: &[Flow; 2], from: &str) -> [Flow; 2] {
    let [v4, v6] = Family::BOTH.map(|family| (namespace(&live.lab, from), address(&live.lab, from, family)));
    [flows[0].beside(v4), flows[1].beside(v6)]
}

/// Pods of namespace z with some labels may send to all of namespace x at a port.
fn from_z(labels: &Value, kind: Kind, port: u16) -> Value {
    let z = json!({"matchLabels": {"kubernetes.io/metadata.name": "z"}});
    let from = json!([{"namespaceSelector": z, "podSelector": {"matchLabels": labels}}]);
    let ports = json!([{"port": port, "protocol": kind.protocol()}]);
    json!({"podSelector": {}, "ingress": [{"from": from, "ports": ports}]})
}

/// The agent of a cluster where a policy allows it that `z` begins something with `x/a`.
fn allowed(live: &Live, kind: Kind) -> Agent {
    allow(live, kind.protocol());
    let agent = live.agent(&[]);
    agent.until("the policy that allows", |status| {
        status.host.policies.contains(&"NetworkPolicy x/allow".to_owned())
    });
    agent
}

fn until_cut(agent: &Agent) {
    agent.until("two cuts", |_| metric(agent, "picket_connections_cut_total") > 1);
}

fn flows_that_a_change_denies_are_cut_and_no_others(kind: Kind) {
    let live = Live::new(None);
    create(&live, "other", &from_z(&json!({}), kind, 9001));
    create(&live, "from-b", &from_z(&json!({"pod": "b"}), kind, 9000));
    // What the pods send is part of what others have begun, or is denied.
    create(
        &live,
        "nothing",
        &json!({"podSelector": {}, "policyTypes": ["Egress"]}),
    );
    let agent = allowed(&live, kind);
    let denied = flows(&live, kind, "z/a", "x/a", 9000);
    let others = [
        flows(&live, kind, "z/a", "x/a", 9001),
        beside(&live, &denied, "z/b"),
        flows(&live, kind, "z/a", "x/b", 9001),
    ];
    assert!(denied.iter().all(|flow| flow.is_tracked(live.node())));
    deny(&live, &agent);
    until_cut(&agent);
    for _ in 0..2 {
        for flow in &denied {
            assert!(!flow.is_tracked(live.node()));
            flow.expect(false, false);
        }
        for flow in others.iter().flatten() {
            assert!(flow.is_tracked(live.node()));
            flow.expect(true, true);
        }
    }
    assert_eq!(metric(&agent, "picket_connections_cut_total"), 2);
}

#[test]
fn udp_flows_that_a_change_denies_are_cut_and_no_others() {
    flows_that_a_change_denies_are_cut_and_no_others(Kind::Udp);
}

#[test]
fn sctp_associations_that_a_change_denies_are_cut_and_no_others() {
    flows_that_a_change_denies_are_cut_and_no_others(Kind::Sctp);
}

#[test]
fn a_server_that_may_begin_something_begins_anew_what_was_cut() {
    let live = Live::new(None);
    let agent = allowed(&live, Kind::Udp);
    let flows = flows(&live, Kind::Udp, "z/a", "x/a", 9000);
    deny(&live, &agent);
    until_cut(&agent);
    for flow in &flows {
        flow.expect(false, true);
        // From now on the client answers.
        flow.expect(true, true);
        assert!(!flow.is_tracked(live.node()));
    }
    assert_eq!(metric(&agent, "picket_connections_cut_total"), 2);
}
