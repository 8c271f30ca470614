//! What a node looks at besides policies: who sends with whose address, and pods that came while nobody looked.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use picket_lab::Place;
use picket_linux::Netlink;
use picket_net::Family;
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::apiserver::agent::{Live, expect_schema, metric};
use crate::apiserver::never_open::{POLICIES, allow};
use crate::objects::network_policy;
use crate::pods::once_free;
use crate::prober::{Prober, address, namespace};

/// What counts packets that came from elsewhere than they say, and those of pods that nobody knows yet.
const SPOOFED: &str = "picket_dropped_spoofed_packets_total";
const UNKNOWN: &str = "picket_dropped_unknown_packets_total";

/// How long what must arrive may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for what is dropped.
const DROPPED: Duration = Duration::from_millis(400);

/// An address of each version that is nowhere, and that a policy allows.
const OUTSIDE: [&str; 2] = ["192.0.2.7", "2001:db8::7"];

/// A pod of namespace y that is on the node, or elsewhere.
fn pod_of_y(live: &Live, is_here: bool) -> String {
    let topology = live.lab.topology();
    let node = Place::Node("lab-1".into());
    let mut pods = topology.snapshot.pods.values();
    let found = pods.find(|pod| {
        let place = Place::Pod(pod.object.clone());
        pod.object.namespace == "y" && (topology.router_of(&place).as_ref() == Some(&node)) == is_here
    });
    format!("y/{}", found.unwrap().object.name)
}

/// Whether a packet that one pod sends with any address arrives at pod a of namespace x. `expected` says how long to wait for it.
fn arrives(live: &Live, from: &str, source: IpAddr, expected: bool) -> bool {
    let to = SocketAddr::new(address(&live.lab, "x/a", Family::of(source)), 9000);
    let inside = namespace(&live.lab, "x/a");
    let receiver = once_free(|| inside.run(|| UdpSocket::bind(to)).unwrap());
    let patience = if expected { PATIENCE } else { DROPPED };
    receiver.set_read_timeout(Some(patience)).unwrap();
    let inside = namespace(&live.lab, from);
    let mut netlink = Netlink::open(inside).unwrap();
    let length = if source.is_ipv4() { 32 } else { 128 };
    // It may have it.
    let _ = netlink.add_address("eth0", source, length);
    let sender = inside.run(|| UdpSocket::bind((source, 0)).unwrap()).unwrap();
    sender.send_to(b"x", to).unwrap();
    receiver.recv(&mut [0]).is_ok()
}

/// Lets some addresses and the pods of namespace y that are elsewhere send to pod a of namespace x.
fn allow_outside(live: &Live, elsewhere: &str) {
    let blocks = OUTSIDE.map(|address| json!({"ipBlock": {"cidr": format!("{address}/{}", if address.contains(':') { 128 } else { 32 })}}));
    let (_, name) = elsewhere.split_once('/').unwrap();
    let pods = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "y"}},
        "podSelector": {"matchLabels": {"pod": name}},
    });
    let from = blocks.into_iter().chain([pods]).collect::<Vec<_>>();
    let spec = json!({
        "podSelector": {"matchLabels": {"pod": "a"}},
        "ingress": [{"from": from, "ports": [{"port": 9000, "protocol": "UDP"}]}],
    });
    live.api.create(POLICIES, &network_policy("x", "allow", &spec));
}

fn until_allowed(agent: &Agent) {
    agent.until("the policy that allows", |status| {
        status.host.policies.contains(&"NetworkPolicy x/allow".to_owned())
    });
}

#[test]
fn a_pod_sends_with_its_own_addresses_alone() {
    let live = Live::new(None);
    let (here, elsewhere) = (pod_of_y(&live, true), pod_of_y(&live, false));
    allow_outside(&live, &elsewhere);
    let of_elsewhere = Family::BOTH.map(|family| address(&live.lab, &elsewhere, family));
    let outside = OUTSIDE.map(|text| text.parse().unwrap());
    for (mode, is_dropped) in [("off", false), ("strict", true)] {
        let agent = live.agent(&["--anti-spoof", mode]);
        until_allowed(&agent);
        agent.until("a proof", |status| {
            status.host.proof.as_ref().is_some_and(|proof| proof.proved)
        });
        for source in of_elsewhere.into_iter().chain(outside) {
            let arrived = arrives(&live, &here, source, !is_dropped);
            assert_eq!(arrived, !is_dropped, "{mode}: {source}");
        }
        for source in of_elsewhere {
            assert!(
                arrives(&live, &elsewhere, source, true),
                "{mode}: {source} from where it is"
            );
        }
        for family in Family::BOTH {
            assert!(
                !arrives(&live, &here, address(&live.lab, &here, family), false),
                "{mode}"
            );
        }
        if is_dropped {
            assert_eq!(metric(&agent, SPOOFED), 4);
        }
    }
}

#[test]
fn interfaces_that_lead_away_are_followed() {
    let live = Live::new(None);
    let agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    let ip = |arguments: &str| {
        let mut command = Command::new("ip");
        command.args(arguments.split(' '));
        assert!(
            live.node().run(|| command.status().unwrap()).unwrap().success(),
            "{arguments}"
        );
    };
    ip("link add away type veth peer name home");
    ip("link set home up");
    ip("link set away up");
    ip("address add 198.51.100.1/24 dev away");
    for (change, is_uplink) in [
        ("route add 203.0.113.0/24 via 198.51.100.2", true),
        ("route del 203.0.113.0/24", false),
        ("-6 route add default dev away table 77", true),
        ("link del away", false),
    ] {
        ip(change);
        agent.until(change, |_| {
            let set = live.nft(&["list", "set", "inet", "picket", "uplinks"]);
            set.contains("\"away\"") == is_uplink
        });
    }
    assert_eq!(metric(&agent, "picket_drift_repaired_total"), 0);
}

/// Removes a pod from the cluster, and gives what puts it back.
fn removed(live: &Live, id: &str) -> impl Fn() {
    let (namespace, name) = id.split_once('/').unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let items = live.api.list(&path);
    let found = items.into_iter().find(|item| item["metadata"]["name"] == name);
    let found = found.unwrap();
    live.api.delete(&path, name);
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": found["metadata"]["labels"]},
        "spec": {
            "nodeName": found["spec"]["nodeName"],
            "containers": [{"name": "main", "image": "main"}],
        },
    });
    let status: Value = found["status"].clone();
    let name = name.to_owned();
    move || {
        live.api.create(&path, &pod);
        live.api.set_status(&path, &name, &status);
    }
}

/// An agent in whose cluster a pod of the node is not, and what puts that there.
fn without(live: &Live, new: &str) -> (Agent, impl Fn()) {
    let put_back = removed(live, new);
    let agent = live.agent(&[]);
    until_allowed(&agent);
    let v4 = address(&live.lab, new, Family::Ipv4).to_string();
    agent.until("a cluster without the pod", |_| {
        !live
            .nft(&["list", "set", "inet", "picket", "pods4"])
            .contains(&v4)
    });
    (agent, put_back)
}

/// A node on which a pod has come while no agent ran, and the API server has been stopped since.
struct Unheard {
    live: Live,
    new: String,
    /// Connections of others that policies allow.
    undisturbed: Vec<Prober>,
}

impl Unheard {
    fn new() -> Self {
        let live = Live::new(None);
        allow(&live, "UDP");
        let new = pod_of_y(&live, true);
        let (mut agent, put_back) = without(&live, &new);
        let undisturbed = [start(&live, "z/a", "x/a", 9000), start(&live, "z/b", "z/a", 9001)];
        agent.kill();
        put_back();
        drop(put_back);
        live.server.signal("STOP");
        let undisturbed = undisturbed.into_iter().flatten().collect();
        Self {
            live,
            new,
            undisturbed,
        }
    }

    /// Has the API server go on.
    fn go_on(&self) {
        self.live.server.signal("CONT");
    }
}

/// Sends from one pod to another, in both families.
fn start(live: &Live, from: &str, to: &str, port: u16) -> [Prober; 2] {
    Family::BOTH.map(|family| Prober::start(&live.lab, family, from, to, port))
}

/// All that was sent has arrived.
fn assert_undisturbed(probers: impl IntoIterator<Item = Prober>) {
    for prober in probers {
        let (sent, received) = prober.end_after(300);
        assert!(received == sent, "{received} of {sent}");
    }
}

/// Nothing of it has.
fn assert_denied(probers: impl IntoIterator<Item = Prober>) {
    for prober in probers {
        let (sent, received) = prober.end_after(100);
        assert!(received == 0, "{received} of {sent}");
    }
}

#[test]
fn a_pod_that_came_while_no_agent_ran_is_free_where_that_is_asked_for_and_others_are_as_before() {
    let node = Unheard::new();
    let Unheard { live, new, .. } = &node;
    let listed = live.nft(&["-s", "list", "table", "inet", "picket"]);
    let agent = live.agent(&["--until-synced", "allow", "--table-owner", "everybody"]);
    // What it does before it hears of the cluster it has done by then.
    agent.until("uplinks", |_| {
        agent.log().contains("interfaces that lead to others")
    });
    let free = [start(live, new, "z/a", 9002), start(live, "z/a", new, 9003)];
    let denied = [start(live, new, "x/a", 9004), start(live, "z/a", "x/c", 9005)];
    for prober in free.iter().flatten() {
        agent.until("a packet that passes", |_| prober.has_received());
    }
    assert_denied(denied.into_iter().flatten());
    let status = agent.status().unwrap();
    assert!(
        !status.ready && !status.host.closed && !status.host.shuts_out_unknown,
        "{status:?}"
    );
    let now = live.nft(&["-s", "list", "table", "inet", "picket"]);
    assert!(!now.contains("drop-unknown"), "{now}");
    assert_eq!(without_owner(&now), without_owner(&listed));
    node.go_on();
    agent.until_enforced(&live.versions);
    assert_undisturbed(free.into_iter().flatten().chain(node.undisturbed));
}

/// What nft lists of a table, but for who may change it.
fn without_owner(listed: &str) -> String {
    let lines = listed.lines().filter(|line| !line.starts_with("\tflags"));
    let lines = lines.map(|line| line.split(" # ").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_pod_that_came_while_no_agent_ran_begins_nothing_until_the_cluster_is_known() {
    let node = Unheard::new();
    let Unheard { live, new, .. } = &node;
    let agent = live.agent(&[]);
    agent.until("the beginning", |_| {
        live.nft(&["list", "table", "inet", "picket"])
            .contains("drop-unknown")
    });
    let denied = [start(live, new, "z/a", 9002), start(live, "z/a", new, 9003)];
    for family in Family::BOTH {
        assert!(passes_from_node(live, new, family), "{family:?}");
    }
    agent.until("packets", |_| metric(&agent, UNKNOWN) > 1000);
    let status = agent.asked_by(&["status", "-o", "json"]).json();
    expect_schema(&status);
    assert_eq!(status["host"]["shutsOutUnknown"], true);
    let text = agent.asked_by(&["status"]).stdout;
    assert!(
        text.contains("pods that it does not know begin nothing\n"),
        "{text}"
    );
    assert_denied(denied.into_iter().flatten());
    node.go_on();
    let counted = metric(&agent, UNKNOWN);
    let status = agent.until_enforced(&live.versions);
    assert!(!status.host.shuts_out_unknown);
    assert!(metric(&agent, UNKNOWN) >= counted, "a counter does not go back");
    let [to_others, from_others] = [start(live, new, "z/a", 9002), start(live, "z/a", new, 9003)];
    for prober in to_others.iter().chain(&from_others) {
        agent.until("a packet that passes", |_| prober.has_received());
    }
    assert!(
        !live
            .nft(&["list", "table", "inet", "picket"])
            .contains("drop-unknown")
    );
    assert_undisturbed(node.undisturbed);
}

/// Whether what the node sends arrives at a pod.
fn passes_from_node(live: &Live, to: &str, family: Family) -> bool {
    let target = SocketAddr::new(address(&live.lab, to, family), 9004);
    let inside = namespace(&live.lab, to);
    let receiver = once_free(|| inside.run(|| UdpSocket::bind(target)).unwrap());
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let any = crate::prober::any(family);
    let sender = live.node().run(|| UdpSocket::bind((any, 0)).unwrap()).unwrap();
    sender.send_to(b"x", target).unwrap();
    receiver.recv(&mut [0]).is_ok()
}
