//! What is denied in pods is said, by name and for each pod of its own.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;

use picket_linux::{NetworkNamespace, PacketLog, run_with_input};
use serde_json::{Value, json};

use super::{named, simple};
use crate::agents::denied;
use crate::pods::{Node, Pod, Pods, expect, ip, table};

/// Sends packets from one port of a pod to a port of another, at its first address; a pod that may not send hears so.
fn send(from: &Pod, to: &Pod, port: u16, packets: usize) {
    send_as(
        &from.inside,
        from.addresses[0],
        (to.addresses[0], port).into(),
        packets,
    );
}

fn send_as(inside: &NetworkNamespace, source: IpAddr, target: SocketAddr, packets: usize) {
    let send = || {
        let socket = UdpSocket::bind((source, 0)).unwrap();
        for _ in 0..packets {
            let _ = socket.send_to(b"denied", target);
        }
    };
    inside.run(send).unwrap();
}

/// What was logged about denied packets to a port.
fn lines(node: &Node, port: u16) -> Vec<Value> {
    let mut lines = denied(&node.log());
    lines.retain(|fields| fields["port"] == port);
    lines
}

/// Waits for lines about a port.
fn until_logged(node: &Node, port: u16, count: usize) -> Vec<Value> {
    node.until(&format!("{count} lines about {port}"), |_| {
        lines(node, port).len() >= count
    });
    lines(node, port)
}

/// The line about one packet that a pod may not receive from another.
fn line(from: &Pod, to: &Pod, port: u16) -> Value {
    json!({
        "message": "denied",
        "from": format!("default/{}", from.name),
        "source": from.addresses[0].to_string(),
        "to": format!("default/{}", to.name),
        "destination": to.addresses[0].to_string(),
        "protocol": "UDP",
        "port": port,
        "direction": "ingress",
        "pod": format!("default/{}", to.name),
        "interface": "net1",
        "network": "default/net",
        "policies": "MultiNetworkPolicy default/few",
        "packets": 1,
    })
}

/// Five pods, of which all but `a` may receive from `a` alone, and `d` sends nothing.
fn node_with(arguments: &[&str]) -> (Node, Pods) {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&[&["--log-format", "json"], arguments].concat());
    let few = json!({"podSelector": {"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["a"]}]},
        "policyTypes": ["Ingress"], "ingress": [{"from": named(&["a"])}]});
    node.policy("default", "few", "default/net", &few);
    let silent = json!({"podSelector": {"matchLabels": {"name": "d"}}, "policyTypes": ["Egress"]});
    node.policy("default", "silent", "default/net", &silent);
    node.until_enforced();
    (node, pods)
}

#[test]
fn a_denied_connection_is_logged_by_the_pod_that_denies_it() {
    let (node, mut pods) = node_with(&[]);
    let rule = "iifname \"net1\" limit rate 10/second burst 100 packets log prefix \"picket ingress net1\" group 9480";
    let listed = table(&pods["server"]);
    assert!(listed.contains(rule), "{listed}");
    // What is allowed leaves no line.
    expect(
        &pods,
        &["a->server:udp/81", "a->b:udp/81", "b->a:udp/81"],
        true,
        "at first",
    );
    // Two pods at once, each with a line of its own.
    send(&pods["b"], &pods["server"], 80, 1);
    send(&pods["b"], &pods["c"], 80, 1);
    let expected = [
        line(&pods["b"], &pods["c"], 80),
        line(&pods["b"], &pods["server"], 80),
    ];
    let logged = until_logged(&node, 80, 2);
    assert!(expected.iter().all(|line| logged.contains(line)), "{logged:#?}");
    // Who may not send is named as well.
    send(&pods["d"], &pods["a"], 82, 1);
    let mut expected = line(&pods["d"], &pods["a"], 82);
    expected["direction"] = "egress".into();
    expected["pod"] = "default/d".into();
    expected["policies"] = "MultiNetworkPolicy default/silent".into();
    assert_eq!(until_logged(&node, 82, 1), [expected]);
    // A pod goes, and the others are heard as before.
    let gone = pods.remove("c").unwrap();
    node.stop(&gone);
    node.until("a sandbox less", |status| {
        status
            .sandboxes
            .iter()
            .all(|sandbox| sandbox.sandbox != gone.sandbox)
    });
    send(&pods["b"], &pods["server"], 83, 1);
    assert_eq!(
        until_logged(&node, 83, 1),
        [line(&pods["b"], &pods["server"], 83)]
    );
    assert_eq!(lines(&node, 80).len(), 2);
    assert_eq!(lines(&node, 81), [] as [Value; 0]);
    assert_eq!(node.metric("picket_denied_unlogged_total"), 0);
    let shown = node.status(&[]).stdout;
    for counted in ["few, ingress", "silent, egress"] {
        let line = format!("  MultiNetworkPolicy default/{counted}\n");
        assert!(shown.contains(&line), "{shown}");
    }
}

#[test]
fn a_pod_that_logs_what_it_likes_says_nothing_of_others_and_takes_nothing_from_them() {
    let (node, pods) = node_with(&[]);
    let forged = b"table inet forged { chain sent { type filter hook output priority -300;\n\
        udp dport 90 log prefix \"picket ingress net1\" group 9480\n\
        udp dport 91 log prefix \"picket egress net9\" group 9480\n\
        udp dport 1000-65535 log prefix \"picket egress net1\" group 9480\n}\n}";
    let b = &pods["b"];
    run_with_input(
        &b.inside,
        Command::new("nft").args(["-f", "-"]),
        forged,
        "nftables",
    )
    .unwrap();
    // As if `a` were denied something, over an interface that there is not, and much more than there is room for.
    send(b, &pods["a"], 91, 1);
    send(b, &pods["a"], 90, 1);
    for port in 1000..5000 {
        send(b, &pods["a"], port, 1);
    }
    send(b, &pods["server"], 84, 1);
    assert_eq!(until_logged(&node, 84, 1), [line(b, &pods["server"], 84)]);
    let mut expected = line(b, &pods["a"], 90);
    expected.as_object_mut().unwrap().remove("to");
    expected["pod"] = "default/b".into();
    assert_eq!(until_logged(&node, 90, 1), [expected]);
    assert_eq!(lines(&node, 91), [] as [Value; 0]);
    node.until("a count of what is missing", |_| {
        node.metric("picket_denied_unlogged_total") > 0
    });
}

#[test]
fn who_hears_the_group_of_a_pod_first_is_named_and_followed() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    let taken = PacketLog::open(&pods["server"].inside, 7).unwrap();
    node.start(&["--log-format", "json", "--log-denied-group", "7"]);
    let none = json!({"podSelector": {}, "policyTypes": ["Ingress"]});
    node.policy("default", "few", "default/net", &none);
    node.until_enforced();
    let unlogged = |status: &picket_node::PodsStatus| {
        let sandboxes = status.sandboxes.iter();
        let unlogged = sandboxes.filter(|sandbox| sandbox.unlogged.is_some());
        unlogged.map(|sandbox| sandbox.pod.clone()).collect::<Vec<_>>()
    };
    node.until("a pod whose log another hears", |status| {
        unlogged(status) == ["default/server"]
    });
    let shown = node.status(&[]);
    assert_eq!(shown.status, 0, "{}", shown.stdout);
    assert!(
        shown.stdout.contains("denied connections are not logged: "),
        "{}",
        shown.stdout
    );
    expect(&pods, &["a->server:udp/80", "a->b:udp/80"], false, "all the same");
    drop(taken);
    node.until("a log that is heard", |status| unlogged(status).is_empty());
    send(&pods["a"], &pods["server"], 81, 1);
    assert_eq!(
        until_logged(&node, 81, 1),
        [line(&pods["a"], &pods["server"], 81)]
    );
}

#[test]
fn without_the_log_no_rule_logs() {
    let (node, pods) = node_with(&["--log-denied", "off"]);
    send(&pods["b"], &pods["server"], 80, 1);
    let listed = table(&pods["server"]);
    assert!(
        listed.contains("Drop rule") && !listed.contains("log"),
        "{listed}"
    );
    assert_eq!(lines(&node, 80), [] as [Value; 0]);
}

/// Lets one pod send over the network to an address of another from that same address.
fn lend(to: &Pod, owner: &Pod, own: IpAddr) {
    let (version, length) = match own {
        IpAddr::V4(_) => ("-4", "32"),
        IpAddr::V6(_) => ("-6", "128"),
    };
    let flags = if own.is_ipv6() { "nodad noprefixroute" } else { "" };
    let link = "02:00:00:00:00:63";
    ip(&owner.inside, &format!("link set net1 address {link}"));
    // The way to the owner goes over the network all the same, and nobody has to ask for it.
    for change in [
        "rule add pref 40000 lookup local".to_owned(),
        "rule delete pref 0".to_owned(),
        format!("address add {own}/{length} dev lo {flags}"),
        format!("neighbour replace {own} lladdr {link} dev net1 nud permanent"),
    ] {
        ip(&to.inside, &format!("{version} {change}"));
    }
}

#[test]
fn what_comes_from_the_address_of_the_pod_itself_is_counted() {
    let (node, pods) = node_with(&[]);
    let (a, server) = (&pods["a"], &pods["server"]);
    // Of IPv4 the kernel drops such packets before any rule unless it is told not to.
    let lax = [
        ("ipv4/conf/net1/accept_local", "1"),
        ("ipv4/conf/net1/rp_filter", "0"),
        ("ipv4/conf/all/rp_filter", "0"),
    ];
    server.inside.set(&lax).unwrap();
    let spoofed = "picket_dropped_spoofed_packets_total";
    assert_eq!(node.metric(spoofed), 0);
    for (&own, counted) in server.addresses.iter().zip([3, 6]) {
        lend(a, server, own);
        send_as(&a.inside, own, (own, 80).into(), 3);
        node.until(&format!("{counted} spoofed packets"), |_| {
            node.metric(spoofed) == counted
        });
    }
    let shown = node.status(&[]).stdout;
    let line = "\n6 packets whose source cannot be where they came from were dropped\n";
    assert!(shown.contains(line), "{shown}");
    assert_eq!(lines(&node, 80), [] as [Value; 0]);
}
