//! What an audited policy denies passes, and is told of.

use picket_net::Family;
use picket_node::Drop;
use serde_json::{Value, json};

use crate::agents::denied;
use crate::apiserver::agent::{Live, metric};
use crate::apiserver::cut::Connection;
use crate::apiserver::denied::{lines, send_over};
use crate::apiserver::never_open::POLICIES;
use crate::objects::KINDS;

fn set_mode(live: &Live, mode: &str) {
    let fields = json!({"metadata": {"annotations": {"picket.dev/mode": mode}}});
    live.api.patch(POLICIES, "deny-ingress", &fields);
}

/// The metric of packets that `deny-ingress` has dropped or audited in a direction.
pub(super) fn counter(what: &str, direction: &str) -> String {
    format!(
        "picket_{what}_packets_total{{kind=\"NetworkPolicy\",namespace=\"x\",name=\"deny-ingress\",direction=\"{direction}\"}}"
    )
}

/// Holds that each line of the log has these fields.
fn expect_fields<const N: usize>(lines: &[Value], expected: [(&str, Value); N]) {
    for fields in lines {
        for (field, value) in &expected {
            assert_eq!(&fields[field], value, "{fields}");
        }
    }
}

#[test]
fn what_an_administrator_only_audits_of_what_is_sent_passes_and_is_told_of() {
    let live = Live::new(None);
    let (api_version, kind, path) = KINDS[14];
    let deny = json!({"action": "Deny", "to": [{"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": "z"}}}]});
    let spec = json!({
        "tier": "Admin",
        "priority": 5,
        "subject": {"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}},
        "egress": [deny],
    });
    let metadata = json!({"name": "watch", "annotations": {"picket.dev/mode": "audit"}});
    let policy = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
    live.api.create(path, &policy);
    let agent = live.agent(&["--log-format", "json"]);
    let nothing = Drop {
        policy: "ClusterNetworkPolicy watch".to_owned(),
        direction: "egress".to_owned(),
        packets: 0,
    };
    agent.until("an audited policy", |status| {
        status.ready && status.host.dropped.audited.contains(&nothing)
    });
    let connect = |family| Connection::between(&live, "x/a", "z/a", 9000, family);
    let mut connections = Family::BOTH.map(connect);
    for connection in &mut connections {
        connection.expect(true);
    }
    let counted = "picket_audited_packets_total{kind=\"ClusterNetworkPolicy\",namespace=\"\",name=\"watch\",direction=\"egress\"}";
    assert_eq!(metric(&agent, counted), 2);
    agent.until("two lines", |_| denied(&agent.log()).len() == 2);
    expect_fields(
        &denied(&agent.log()),
        [
            ("message", json!("audited, else denied")),
            ("from", json!("x/a")),
            ("to", json!("z/a")),
            ("direction", json!("egress")),
            ("policies", json!("ClusterNetworkPolicy watch")),
        ],
    );
    live.api.patch(
        path,
        "watch",
        &json!({"metadata": {"annotations": {"picket.dev/mode": "enforce"}}}),
    );
    agent.until("two cuts", |_| metric(&agent, "picket_connections_cut_total") > 1);
    for connection in &mut connections {
        connection.expect(false);
    }
    let dropped = counted.replace("audited", "dropped");
    let before = metric(&agent, &dropped);
    for family in Family::BOTH {
        send_over(&live, family, "x/a", "z/a", 9001, 5);
    }
    agent.until("drops of a tier", |_| metric(&agent, &dropped) >= before + 10);
    agent.until("a line for each family", |_| lines(&agent, 9001).len() == 2);
    expect_fields(
        &lines(&agent, 9001),
        [
            ("message", json!("denied")),
            ("from", json!("x/a")),
            ("to", json!("z/a")),
            ("direction", json!("egress")),
            ("policies", json!("ClusterNetworkPolicy watch")),
        ],
    );
}

#[test]
fn an_audited_policy_denies_nothing_until_it_is_enforced() {
    let live = Live::new(None);
    set_mode(&live, "audit");
    let agent = live.agent(&["--log-format", "json"]);
    let nothing = Drop {
        policy: "NetworkPolicy x/deny-ingress".to_owned(),
        direction: "ingress".to_owned(),
        packets: 0,
    };
    agent.until("an audited policy", |status| {
        status.ready && status.host.dropped.audited == [nothing.clone()]
    });
    let mut connections = Family::BOTH.map(|family| Connection::open(&live, family));
    for _ in 0..2 {
        connections
            .iter_mut()
            .for_each(|connection| connection.expect(true));
    }
    // What belongs to a connection that has begun is not counted again.
    assert_eq!(metric(&agent, &counter("audited", "ingress")), 2);
    assert!(!agent.get("/metrics").1.contains(&counter("dropped", "ingress")));
    let shown = agent.asked_by(&["status"]).stdout;
    assert!(
        shown.contains("           2  NetworkPolicy x/deny-ingress, ingress\n"),
        "{shown}"
    );
    agent.until("two lines", |_| denied(&agent.log()).len() == 2);
    expect_fields(
        &denied(&agent.log()),
        [
            ("message", json!("audited, else denied")),
            ("from", json!("z/a")),
            ("to", json!("x/a")),
            ("port", json!(9000)),
            ("policies", json!("NetworkPolicy x/deny-ingress")),
        ],
    );
    let explained = agent.asked_by(&["trace", "z/a", "x/a", "9000"]).stdout;
    let told = "audited, else denied: NetworkPolicy x/deny-ingress, isolates";
    assert!(explained.contains(told), "{explained}");

    set_mode(&live, "enforce");
    agent.until("two cuts", |_| metric(&agent, "picket_connections_cut_total") > 1);
    connections
        .iter_mut()
        .for_each(|connection| connection.expect(false));
    assert!(!agent.get("/metrics").1.contains(&counter("audited", "ingress")));
    assert_eq!(metric(&agent, &counter("dropped", "ingress")), 0);
    assert!(agent.status().unwrap().host.dropped.audited.is_empty());
}
