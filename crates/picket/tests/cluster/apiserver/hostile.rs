//! Objects that a user of the cluster makes to get at others: each is enforced or named, and all others are enforced.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use picket_net::Family;
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::apiserver::agent::Live;
use crate::apiserver::never_open::POLICIES;
use crate::objects::{KINDS, network_policy, newest};
use crate::picket;
use crate::pods::once_free;
use crate::prober::{address, namespace};
use crate::published::Versions;

/// What would end a string, a comment or a command, if anything were written without care.
pub(super) const QUOTES: &str = "\"; }}\nflush ruleset\n# '\\\" $(reboot) \u{0} \u{1b}[2J \u{202e}";

/// How many bytes the annotations of an object may have together.
pub(super) const ANNOTATIONS: usize = 256 << 10;

/// How long to wait for a connection that must not come about, and one that must.
const DENIED: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(20);

/// What everybody from namespace z may do, and more.
fn from_z(ports: &[Value]) -> Value {
    let z = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "z"}}});
    json!({"podSelector": {"matchLabels": {"pod": "a"}}, "ingress": [{"from": [z], "ports": ports}]})
}

fn port(number: usize) -> Value {
    json!({"port": number, "protocol": "TCP"})
}

/// Five thousand blocks of both families that hold each other, with holes, and one of them pod b of namespace y.
fn blocks() -> Value {
    let mut from = vec![
        json!({"ipBlock": {"cidr": "192.168.0.0/16", "except": ["192.168.0.0/17", "192.168.2.10/32"]}}),
        json!({"ipBlock": {"cidr": "192.168.2.11/32"}}),
    ];
    from.extend((0..4998u32).map(|number| {
        let (length, bits) = (8 + number % 23, number.wrapping_mul(0x9e37_79b9));
        let v4 = 0xac00_0000 | bits >> 8;
        let v6 = 0x2001_0db8 << 96 | u128::from(bits) << 64;
        let v4 = Ipv4Addr::from_bits(v4 >> (32 - length) << (32 - length));
        let v6 = Ipv6Addr::from_bits(v6 >> (96 - length) << (96 - length));
        match number % 2 {
            0 => json!({"ipBlock": {"cidr": format!("{v4}/{length}"), "except": [format!("{v4}/{}", length + 2)]}}),
            _ => json!({"ipBlock": {"cidr": format!("{v6}/{}", 32 + length)}}),
        }
    }));
    json!({
        "podSelector": {"matchLabels": {"pod": "c"}},
        "ingress": [{"from": from, "ports": [port(7002)]}],
    })
}

/// Whether a TCP connection between two pods comes about, over IPv4.
fn connects(live: &Live, from: &str, to: &str, port: u16, expected: bool) -> bool {
    let target = SocketAddr::from((address(&live.lab, to, Family::Ipv4), port));
    let _server = once_free(|| {
        namespace(&live.lab, to)
            .run(|| TcpListener::bind(target))
            .unwrap()
    });
    let patience = if expected { PATIENCE } else { DENIED };
    let connected = namespace(&live.lab, from).run(|| TcpStream::connect_timeout(&target, patience));
    connected.unwrap().is_ok()
}

fn expect(live: &Live, paths: &[(&str, &str, u16)], expected: bool) {
    for (from, to, port) in paths {
        let connected = connects(live, from, to, *port, expected);
        assert_eq!(connected, expected, "{from} -> {to}:{port}");
    }
}

/// Waits until all that is there is enforced, and that has been proved.
fn until_proved(live: &Live, agent: &Agent) {
    let kinds = [
        ("networkpolicies.networking.k8s.io", POLICIES),
        ("clusternetworkpolicies.policy.networking.k8s.io", KINDS[14].2),
    ];
    let versions = kinds.map(|(kind, path)| (kind.to_owned(), newest(&live.api, path)));
    let status = agent.until_enforced(&Versions::from(versions));
    let enforced = status.host.current.unwrap();
    agent.until("a proof of all", |status| {
        let proof = status.host.proof.as_ref();
        proof.is_some_and(|proof| proof.proved && proof.when > enforced)
    });
}

/// A policy of administrators with fields that no schema checks.
fn admin(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": KINDS[14].0, "kind": KINDS[14].1, "metadata": {"name": name}, "spec": spec})
}

#[test]
fn what_is_huge_is_enforced() {
    let live = Live::new(None);
    let agent = live.agent(&["--verify-interval", "1"]);
    agent.until_enforced(&live.versions);
    let ports: Vec<_> = (0..10_000).map(|number| port(20_000 + 2 * number)).collect();
    let create = |name: &str, spec: &Value| live.api.create(POLICIES, &network_policy("x", name, spec));
    let longest = ["n".repeat(63), "a".repeat(63), "m".repeat(63), "e".repeat(61)].join(".");
    create("ports", &from_z(&ports));
    create("blocks", &blocks());
    create(&longest, &from_z(&[port(7001)]));
    let noted = |name: &str, size: usize| {
        let mut policy = network_policy("x", name, &from_z(&[port(7003)]));
        let note = QUOTES.replace('\0', "").repeat(size / QUOTES.len());
        policy["metadata"]["annotations"] = json!({"note": note});
        live.api.try_create(POLICIES, &policy)
    };
    let refused = noted("larger", 1 << 20).unwrap_err();
    assert!(
        refused.message.contains("may not be more than"),
        "{}",
        refused.message
    );
    noted("large", ANNOTATIONS - 1000).unwrap();
    until_proved(&live, &agent);
    let allowed = [
        ("z/a", "x/a", 20_000),
        ("z/b", "x/a", 39_998),
        ("y/b", "x/c", 7002),
        ("z/a", "x/a", 7001),
        ("z/a", "x/a", 7003),
    ];
    expect(&live, &allowed, true);
    let denied = [
        ("z/a", "x/a", 20_001),
        ("y/a", "x/a", 20_000),
        ("y/a", "x/c", 7002),
        ("z/a", "x/c", 7002),
        ("y/b", "x/a", 7001),
    ];
    expect(&live, &denied, false);
    let status = agent.status().unwrap();
    assert!(status.findings.is_empty(), "{:?}", status.findings);
    assert!(
        status
            .host
            .policies
            .contains(&format!("NetworkPolicy x/{longest}"))
    );
    assert_eq!(status.host.policies.len(), 5, "{:?}", status.host.policies);
}

#[test]
fn what_is_written_to_be_misread_is_a_name_or_an_error() {
    let live = Live::without_schemas(None);
    let agent = live.agent(&["--verify-interval", "1"]);
    agent.until_enforced(&live.versions);
    let subject = json!({"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}});
    let from = json!([{"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": "z"}}}]);
    let spec = |name: &str, priority: u32, protocols: &Value| {
        let rule = json!({"name": name, "action": "Accept", "from": from, "protocols": protocols});
        json!({"tier": "Admin", "priority": priority, "subject": subject, "ingress": [rule]})
    };
    let tcp = |number: u16| json!([{"tcp": {"destinationPort": {"number": number}}}]);
    let create = |name: &str, spec: &Value| live.api.create(KINDS[14].2, &admin(name, spec));
    // Names of rules are free text: this one does what it says, and the others are refused whole.
    create("quoted", &spec(QUOTES, 10, &tcp(7001)));
    create("endless", &spec(&QUOTES.repeat(20_000), 11, &tcp(7002)));
    create(
        "ports",
        &spec(
            "ports",
            12,
            &json!([{"tcp": {"destinationPort": {"number": QUOTES}}}]),
        ),
    );
    let mut networks = spec("networks", 13, &tcp(7003));
    networks["ingress"][0]["from"] = json!([{"networks": [QUOTES, "0.0.0.0/0; accept"]}]);
    create("networks", &networks);
    let mut labels = spec("labels", 14, &tcp(7004));
    labels["subject"] = json!({"namespaces": {"matchLabels": {QUOTES: QUOTES}}});
    create("labels", &labels);
    // A node may say of itself what it likes.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "liar", "annotations": {"note": QUOTES.replace('\0', "")}}});
    live.api.create("/api/v1/nodes", &node);
    let addresses = json!([
        {"type": "Hostname", "address": QUOTES.replace('\0', "")},
        {"type": "InternalIP", "address": "0.0.0.0/0"},
        {"type": "ExternalIP", "address": "drop; #"},
    ]);
    live.api
        .set_status("/api/v1/nodes", "liar", &json!({"addresses": addresses}));
    until_proved(&live, &agent);
    expect(&live, &[("z/a", "x/a", 7001)], true);
    let denied = [
        ("z/a", "x/a", 7003),
        ("z/a", "x/a", 7004),
        ("z/a", "x/a", 90),
        ("y/a", "x/a", 7001),
    ];
    expect(&live, &denied, false);
    let status = agent.status().unwrap();
    let named: BTreeSet<_> = status
        .findings
        .iter()
        .map(|finding| finding.object.as_str())
        .collect();
    let policies = ["endless", "labels", "networks", "ports"];
    let policies = policies.map(|name| format!("ClusterNetworkPolicy {name}"));
    let expected: BTreeSet<_> = policies.iter().map(String::as_str).chain(["Node liar"]).collect();
    assert_eq!(named, expected, "{:#?}", status.findings);
    // Nor does what is said of it move a cursor or begin a line.
    let socket = agent.socket();
    let ran = picket(
        &live.server.kubeconfig(),
        &["status", "--socket", socket.to_str().unwrap()],
    );
    let (_, metrics) = agent.get("/metrics");
    for text in [ran.stdout, agent.log(), metrics] {
        let lines = text.lines();
        let misread = lines.filter(|line| line.contains(char::is_control) || line.starts_with("flush"));
        assert_eq!(misread.collect::<Vec<_>>(), [""; 0], "{text}");
    }
}
