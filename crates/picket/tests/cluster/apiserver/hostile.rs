//! Objects that a user of the cluster makes to get at others: each is enforced or named, and all others are enforced.

pub(super) mod annotations;
pub(super) mod names;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use picket_net::Family;
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::apiserver::agent::Live;
use crate::apiserver::never_open::POLICIES;
use crate::client::Answer;
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
        json!({"ipBlock": {"cidr": "fd78::/96", "except": ["fd78::c0a8:0/113", "fd78::c0a8:20a/128"]}}),
        json!({"ipBlock": {"cidr": "fd78::c0a8:20b/128"}}),
    ];
    from.extend((0..4996u32).map(|number| {
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

/// Whether a TCP connection between two pods comes about.
fn connects(live: &Live, family: Family, from: &str, to: &str, port: u16, expected: bool) -> bool {
    let target = SocketAddr::from((address(&live.lab, to, family), port));
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
    for ((from, to, port), family) in paths
        .iter()
        .flat_map(|path| Family::BOTH.map(|family| (path, family)))
    {
        let connected = connects(live, family, from, to, *port, expected);
        assert_eq!(connected, expected, "{from} -> {to}:{port} {family:?}");
    }
}

/// Waits until all that is there is enforced, and that has been proved.
fn until_proved(live: &Live, agent: &Agent) {
    let kinds = [
        ("networkpolicies.networking.k8s.io", POLICIES),
        ("clusternetworkpolicies.policy.networking.k8s.io", KINDS[14].2),
        ("adminnetworkpolicies.policy.networking.k8s.io", KINDS[15].2),
        (
            "baselineadminnetworkpolicies.policy.networking.k8s.io",
            KINDS[16].2,
        ),
    ];
    let versions = kinds.map(|(kind, path)| (kind.to_owned(), newest(&live.api, path)));
    let status = agent.until_enforced(&Versions::from(versions));
    let enforced = status.host.current.unwrap();
    agent.until("a proof of all", |status| {
        let proof = status.host.proof.as_ref();
        proof.is_some_and(|proof| proof.proved && proof.when > enforced)
    });
}

/// Nothing that the agent says moves a cursor or begins a line.
fn expect_readable(live: &Live, agent: &Agent) {
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

/// Creates a policy of administrators: of a kind by its place in [`KINDS`].
fn try_admin(live: &Live, kind: usize, name: &str, spec: &Value) -> Answer {
    let (api_version, kind, path) = KINDS[kind];
    let note = QUOTES.replace('\0', "");
    let metadata = json!({"name": name, "annotations": {"note": note}});
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
    live.api.try_create(path, &object)
}

/// Whoever is in a namespace.
fn of_namespace(name: &str) -> Value {
    json!({"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": name}}})
}

/// Of each kind as many rules as its schema lets a policy of administrators have, with what counts last: pods of namespace x may be
/// reached from z at a thousand odd ports, and may not reach y/a at port 7010, nor anybody in z at 7020.
fn longest_of_administrators(live: &Live, name: &str) -> [(usize, String, Value); 3] {
    let allow = |rule: usize| {
        let port = |index: usize| json!({"portNumber": {"port": 40_001 + 2 * (10 * rule + index), "protocol": "TCP"}});
        let ports: Vec<_> = (0..10).map(port).collect();
        json!({"name": QUOTES, "action": "Allow", "from": [of_namespace("z")], "ports": ports})
    };
    let rules: Vec<_> = (0..100).map(allow).collect();
    let of_admin = json!({"priority": 1000, "subject": of_namespace("x"), "ingress": rules});
    let network = |index: u32| format!("2001:db8:{index:x}::/{}", 48 + index % 80);
    let peers = (0..24).map(
        |peer| json!({"networks": (0..25).map(|index| network(25 * peer + index + 1)).collect::<Vec<_>>()}),
    );
    let own = Family::BOTH.map(|family| match family {
        Family::Ipv4 => format!("{}/32", address(&live.lab, "y/a", family)),
        Family::Ipv6 => format!("{}/128", address(&live.lab, "y/a", family)),
    });
    let peers: Vec<_> = peers.chain([json!({ "networks": own })]).collect();
    let deny = |rule: usize| {
        let port = |index: usize| json!({"tcp": {"destinationPort": {"number": 7010 - 25 * (24 - rule) - (24 - index)}}});
        let ports: Vec<_> = (0..25).map(port).collect();
        let to = if rule == 24 { &peers[..] } else { &peers[..1] };
        json!({"name": QUOTES, "action": "Deny", "to": to, "protocols": ports})
    };
    let rules: Vec<_> = (0..25).map(deny).collect();
    let of_cluster = json!({"tier": "Admin", "priority": 0, "subject": of_namespace("x"), "egress": rules});
    let deny = |rule: usize| {
        let range = json!({"portRange": {"start": 7020, "end": 7021}});
        let to = of_namespace(if rule == 99 { "z" } else { "nobody" });
        json!({"name": QUOTES, "action": "Deny", "to": [to], "ports": [range]})
    };
    let rules: Vec<_> = (0..100).map(deny).collect();
    let of_baseline = json!({"subject": of_namespace("x"), "egress": rules});
    [
        (15, name.to_owned(), of_admin),
        (14, name.to_owned(), of_cluster),
        (16, "default".to_owned(), of_baseline),
    ]
}

/// What the schemas of policies of administrators refuse, each with what that is said to be about.
fn expect_refusals(live: &Live, longest: &[(usize, String, Value)]) {
    for (index, (field, value)) in [
        ("priority", json!(1001)),
        ("priority", json!(-1)),
        (
            "ingress",
            json!([{"name": "n".repeat(101), "action": "Allow", "from": [of_namespace("z")]}]),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (kind, _, mut spec) = longest[index % 2].clone();
        spec[field] = value;
        let refused = try_admin(live, kind, "more", &spec).unwrap_err();
        assert!(
            refused.message.contains(&format!("spec.{field}")),
            "{}",
            refused.message
        );
    }
    let (kind, _, spec) = &longest[2];
    let refused = try_admin(live, *kind, "other", spec).unwrap_err();
    assert!(refused.message.contains("default"), "{}", refused.message);
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
    let of_administrators = longest_of_administrators(&live, &longest);
    for (kind, name, spec) in &of_administrators {
        try_admin(&live, *kind, name, spec).unwrap();
    }
    expect_refusals(&live, &of_administrators);
    until_proved(&live, &agent);
    let allowed = [
        ("z/a", "x/c", 40_001),
        ("z/a", "x/c", 41_999),
        ("x/a", "y/b", 7010),
        ("x/a", "y/a", 7011),
        ("x/a", "y/a", 7020),
        ("z/a", "x/a", 20_000),
        ("z/b", "x/a", 39_998),
        ("y/b", "x/c", 7002),
        ("z/a", "x/a", 7001),
        ("z/a", "x/a", 7003),
    ];
    expect(&live, &allowed, true);
    let denied = [
        ("y/a", "x/c", 40_001),
        ("z/a", "x/c", 40_002),
        ("x/a", "y/a", 7010),
        ("x/a", "z/a", 7020),
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
    assert_eq!(status.host.policies.len(), 8, "{:?}", status.host.policies);
    expect_readable(&live, &agent);
}

/// Those of [`of_older_kinds`] that are to be named.
const WRONG: [&str; 4] = ["early", "late", "number", "whose"];

/// Policies of the older kinds that a schema would refuse, but for one of each, which do what they say: pods of namespace x may be
/// reached from z at port 7005, and may not reach it at 7010.
fn of_older_kinds(live: &Live) {
    let allow = |port: Value| {
        let port = json!({"portNumber": {"port": port, "protocol": "TCP"}});
        json!([{"name": QUOTES, "action": "Allow", "from": [of_namespace("z")], "ports": [port]}])
    };
    let of_admin = |name: &str, priority: Value, subject: Value, ingress: Value| {
        let spec = json!({"priority": priority, "subject": subject, "ingress": ingress});
        try_admin(live, 15, name, &spec).unwrap();
    };
    let x = of_namespace("x");
    of_admin("quoted", json!(20), x.clone(), allow(json!(7005)));
    of_admin("early", json!(-1), x.clone(), allow(json!(7006)));
    of_admin("late", json!(u64::MAX), x.clone(), allow(json!(7007)));
    of_admin("number", json!(21), x.clone(), allow(json!("7008")));
    of_admin("whose", json!(22), json!([QUOTES]), allow(json!(7009)));
    let range = json!({"portRange": {"protocol": "TCP", "start": 7010, "end": 7011}});
    let rule = json!({"name": QUOTES, "action": "Deny", "to": [of_namespace("z")], "ports": [range]});
    let spec = json!({"subject": x, "egress": [rule]});
    try_admin(live, 16, "default", &spec).unwrap();
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
    let create = |name: &str, spec: &Value| try_admin(&live, 14, name, spec).unwrap();
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
    let mut tier = spec("tier", 30, &tcp(7011));
    tier["tier"] = json!(QUOTES);
    create("tier", &tier);
    let mut action = spec("action", 31, &tcp(7012));
    action["ingress"][0]["action"] = json!(QUOTES);
    create("action", &action);
    create(
        "port-name",
        &spec("port-name", 32, &json!([{"destinationNamedPort": QUOTES}])),
    );
    let to = json!([{"domainNames": [QUOTES, "*"]}]);
    let rule = json!({"name": "domains", "action": "Accept", "to": to});
    let domains = json!({"tier": "Admin", "priority": 33, "subject": subject, "egress": [rule]});
    create("domains", &domains);
    of_older_kinds(&live);
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
    expect(
        &live,
        &[("z/a", "x/a", 7001), ("z/a", "x/a", 7005), ("x/a", "y/a", 7010)],
        true,
    );
    let denied = [
        ("x/a", "z/a", 7010),
        ("z/a", "x/a", 7006),
        ("z/a", "x/a", 7007),
        ("z/a", "x/a", 7008),
        ("z/a", "x/a", 7009),
        ("z/a", "x/a", 7003),
        ("z/a", "x/a", 7004),
        ("z/a", "x/a", 7011),
        ("z/a", "x/a", 7012),
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
    // A port may be called anything; no pod has one of that name.
    let policies = [
        "action", "domains", "endless", "labels", "networks", "ports", "tier",
    ];
    let policies = policies.map(|name| format!("ClusterNetworkPolicy {name}"));
    let older = WRONG.map(|name| format!("AdminNetworkPolicy {name}"));
    let expected = policies.iter().chain(&older).map(String::as_str);
    let expected: BTreeSet<_> = expected.chain(["Node liar"]).collect();
    assert_eq!(named, expected, "{:#?}", status.findings);
    // Nor does what is said of it move a cursor or begin a line.
    expect_readable(&live, &agent);
}
