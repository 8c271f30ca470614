//! What `picket trace` says is what the policies say, and what the kernel does.

use std::net::{TcpListener, TcpStream};

use picket_net::Family;
use picket_testing::ran::Ran;
use serde_json::Value;

use crate::agents::Agent;
use crate::apiserver::agent::{Live, expect_schema_of};
use crate::apiserver::never_open::allow;
use crate::prober::{address, namespace};

fn trace(agent: &Agent, ends: &[&str]) -> Ran {
    agent.asked_by(&[&["trace"], ends].concat())
}

/// The answer in JSON, and the status.
fn traced(agent: &Agent, from: &str, to: &str) -> (Value, i32) {
    let ran = trace(agent, &[from, to, "9000", "-o", "json"]);
    assert_eq!(ran.stderr, "");
    let json = ran.json();
    expect_schema_of("trace", &json);
    (json, ran.status)
}

#[test]
fn a_connection_is_traced_through_policies_kernel_and_connection_tracking() {
    let live = Live::new(None);
    let agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    let (denied, status) = traced(&agent, "z/a", "x/a");
    assert_eq!(status, 0, "{denied}");
    let packet = &denied["packets"][0];
    for (field, expected) in [
        ("source", address(&live.lab, "z/a", Family::Ipv4).to_string()),
        ("destination", address(&live.lab, "x/a", Family::Ipv4).to_string()),
        ("path", "forward".to_owned()),
        ("policies", "drop".to_owned()),
        ("kernel", "drop".to_owned()),
    ] {
        assert_eq!(packet[field], expected, "{denied}");
    }
    assert_eq!(packet["counters"][0]["policy"], "NetworkPolicy x/deny-ingress");
    assert_eq!(packet["counters"].as_array().unwrap().len(), 1);
    assert_eq!(denied["explanation"]["verdict"], "deny");
    assert_eq!(denied["connections"], Value::Array(Vec::new()));
    // The same becomes of it on the wire after a change, and there are connections then.
    allow(&live, "TCP");
    agent.until("the policy that allows", |status| {
        status.host.policies.contains(&"NetworkPolicy x/allow".to_owned())
    });
    let targets = Family::BOTH.map(|family| (address(&live.lab, "x/a", family), 9000));
    let listen = |target| namespace(&live.lab, "x/a").run(|| TcpListener::bind(target).unwrap());
    let listeners = targets.map(listen);
    let connect = |client| {
        let client = namespace(&live.lab, client);
        targets.map(|target| client.run(|| TcpStream::connect(target).unwrap()))
    };
    let clients = ["z/a", "z/b"].map(connect);
    let (allowed, status) = traced(&agent, "z/a", "x/a");
    assert_eq!(status, 0, "{allowed}");
    assert_eq!(allowed["packets"][0]["kernel"], "accept", "{allowed}");
    let connections = allowed["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 2, "{allowed}");
    for (connection, family) in connections.iter().zip(Family::BOTH) {
        assert_eq!(connection["answered"], true);
        let client = address(&live.lab, "z/a", family).to_string();
        assert!(
            connection["connection"].as_str().unwrap().starts_with(&client),
            "{allowed}"
        );
    }
    let text = trace(&agent, &["z/a", "x/a", "9000"]).stdout;
    for part in [
        "NetworkPolicy x/allow",
        "node lab-1:",
        "the kernel does accept, as they say",
        "port 9000",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop((listeners, clients));
}

#[test]
fn what_cannot_be_traced_is_said() {
    let live = Live::new(None);
    let agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    let unknown = trace(&agent, &["z/nobody", "x/a", "9000"]);
    assert_eq!(unknown.status, 2);
    assert!(unknown.stderr.contains("z/nobody"), "{}", unknown.stderr);
    let network = trace(&agent, &["z/a", "x/a", "9000", "--network", "x/net"]);
    assert!(
        network.stderr.contains("policies of the cluster network"),
        "{}",
        network.stderr
    );
    let port = trace(&agent, &["z/a", "x/a", "70000"]);
    assert!(port.stderr.contains("70000"), "{}", port.stderr);
    let (outside, status) = traced(&agent, "203.0.113.9", "203.0.113.10");
    assert_eq!((status, &outside["packets"]), (0, &Value::Array(Vec::new())));
    // Only the socket answers such questions, and only those.
    assert_eq!(agent.get("/trace").0, 404);
}
