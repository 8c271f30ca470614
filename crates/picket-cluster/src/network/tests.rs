use picket_policy::{Networks, Options, lower, read};

use super::*;
use crate::{Written, assemble, parse};

/// The snapshot of a manifest, and its diagnostics.
fn snapshot(text: &str) -> (Snapshot, Vec<String>) {
    let (manifests, mut diagnostics) = read(&"a.yaml".into(), text.as_bytes());
    let mut written: Vec<Written> = Vec::new();
    for manifest in &manifests {
        match lower(manifest, Options::default()) {
            Some(lowered) => {
                diagnostics.extend(lowered.diagnostics);
                written.extend(lowered.policy.map(|policy| Written::policy(manifest, policy)));
            }
            None => written.extend(parse(manifest, &mut diagnostics)),
        }
    }
    let (snapshot, more) = assemble(written);
    diagnostics.extend(more);
    let shown = diagnostics
        .iter()
        .map(|found| format!("{} {}: {}", found.code, found.field, found.message));
    (snapshot, shown.collect())
}

/// A running pod `shop/NAME` with an annotation.
fn pod(name: &str, key: &str, value: &str) -> String {
    let value = value.replace('\n', " ");
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: shop\n  annotations:\n    \
         k8s.v1.cni.cncf.io/{key}: '{value}'\nstatus: {{podIPs: [{{ip: 10.0.0.{}}}]}}\n",
        name.len()
    )
}

/// Every interface on every secondary network as `pod interface network addresses`, made-up addresses as `?`.
fn attachments(snapshot: &Snapshot) -> Vec<String> {
    let pods = snapshot.pods.values();
    pods.flat_map(|pod| {
        pod.attachments.iter().map(|own| {
            let addresses: Vec<_> = own.addresses.iter().map(|address| address.to_string()).collect();
            let addresses = if own.synthetic {
                "?".to_owned()
            } else {
                addresses.join(" ")
            };
            format!("{} {} {} {addresses}", pod.id(), own.interface, own.network)
        })
    })
    .collect()
}

fn check(key: &str, value: &str, expected: &[&str], problems: &[&str]) {
    let (snapshot, diagnostics) = snapshot(&pod("web", key, value));
    assert_eq!(attachments(&snapshot), expected, "{value}");
    let field = format!("C013 metadata.annotations.k8s.v1.cni.cncf.io/{key}: ");
    let problems: Vec<_> = problems
        .iter()
        .map(|problem| format!("{field}{problem}"))
        .collect();
    assert_eq!(diagnostics, problems, "{value}");
}

#[test]
fn the_status_says_which_interfaces_a_pod_has() {
    let status = r#"[
        {"name": "cni0", "interface": "eth0", "ips": ["10.0.0.3"], "default": true, "dns": {}},
        {"name": "shop/macvlan", "interface": "net1", "ips": ["10.1.0.3", "fd01::3"], "mac": "02:00:00:00:00:01"},
        {"name": "other", "interface": "net2", "ips": null},
        {"name": "infra/storage", "interface": "net3", "ips": ["10.1.0.3/24"]}
    ]"#;
    let expected = [
        "shop/web net1 shop/macvlan 10.1.0.3 fd01::3",
        "shop/web net2 shop/other ?",
        "shop/web net3 infra/storage 10.1.0.3",
    ];
    check("network-status", status, &expected, &[]);
    check("networks-status", status, &expected, &[]);
}

#[test]
fn before_a_pod_runs_its_interfaces_are_those_it_asks_for() {
    check(
        "networks",
        " macvlan, infra/storage@data0,macvlan",
        &[
            "shop/web net1 shop/macvlan ?",
            "shop/web data0 infra/storage ?",
            "shop/web net3 shop/macvlan ?",
        ],
        &[],
    );
    check(
        "networks",
        r#"[{"name": "macvlan"}, {"name": "storage", "namespace": "infra", "interface": "data0", "ips": ["10.1.0.9/24"]}]"#,
        &[
            "shop/web net1 shop/macvlan ?",
            "shop/web data0 infra/storage 10.1.0.9",
        ],
        &[],
    );
}

#[test]
fn the_status_counts_where_there_is_one() {
    let both = pod(
        "web",
        "network-status",
        r#"[{"name": "shop/a", "interface": "net1", "ips": ["10.1.0.1"]}]"#,
    )
    .replace(
        "  annotations:\n",
        "  annotations:\n    k8s.v1.cni.cncf.io/networks: a, b\n",
    );
    assert_eq!(attachments(&snapshot(&both).0), ["shop/web net1 shop/a 10.1.0.1"]);
}

#[test]
fn what_cannot_be_read_is_left_out_with_an_error() {
    let rest = r#"{"name": "shop/b", "interface": "net2", "ips": ["10.1.0.1"]}"#;
    let left = "shop/web net2 shop/b 10.1.0.1";
    for (entry, expected, problem) in [
        (
            r#"{"name": "a/b/c", "interface": "net1"}"#,
            vec![left],
            r#"Invalid value: "a/b/c": a network is `name` or `namespace/name`"#,
        ),
        (
            r#"{"name": "a", "interface": "a/b"}"#,
            vec![left],
            r#"Invalid value: "a/b": no interface on Linux has such a name"#,
        ),
        (
            r#"{"name": "a"}"#,
            vec![left],
            r#"Invalid value: "": no interface on Linux has such a name"#,
        ),
        (
            r#"{"name": "a", "interface": 7}"#,
            vec![left],
            "Invalid value: item 0 is no network: invalid type: integer `7`, expected a string at line 1 column 28",
        ),
        (
            r#"{"name": "a", "interface": "net1", "ips": ["ten"]}"#,
            vec!["shop/web net1 shop/a ?", left],
            "`ten` is no IP address",
        ),
    ] {
        check(
            "network-status",
            &format!("[{entry}, {rest}]"),
            &expected,
            &[problem],
        );
    }
    check(
        "network-status",
        "[{]",
        &[],
        &["Invalid value: no list of networks as JSON: key must be a string at line 1 column 3"],
    );
    check(
        "network-status",
        &format!("[{rest}, {rest}]"),
        &[left],
        &[r#"Duplicate value: "net2": the pod has this interface already"#],
    );
}

#[test]
fn where_not_all_of_the_status_can_be_read_what_was_asked_for_is_there_too() {
    let read = r#"{"name": "shop/a", "interface": "net1", "ips": ["10.1.0.1"]}"#;
    let done = "shop/web net1 shop/a 10.1.0.1";
    for (status, expected) in [
        (
            "[{]".to_owned(),
            &["shop/web net1 shop/a ?", "shop/web data0 shop/b ?"],
        ),
        (
            format!(r#"[{read}, {{"name": "shop/b", "interface": 7}}]"#),
            &[done, "shop/web data0 shop/b ?"],
        ),
        (
            format!(r#"[{read}, {{"name": "shop/b", "interface": "a b"}}]"#),
            &[done, "shop/web data0 shop/b ?"],
        ),
    ] {
        let both = pod("web", "network-status", &status).replace(
            "  annotations:\n",
            "  annotations:\n    k8s.v1.cni.cncf.io/networks: a, b@data0\n",
        );
        let (snapshot, diagnostics) = snapshot(&both);
        assert_eq!(attachments(&snapshot), expected, "{status}");
        assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    }
}

#[test]
fn two_networks_may_use_the_same_addresses_but_two_interfaces_of_one_may_not() {
    let status =
        |network: &str| format!(r#"[{{"name": "{network}", "interface": "net1", "ips": ["10.1.0.1"]}}]"#);
    let text = pod("a", "network-status", &status("red"))
        + &pod("bb", "network-status", &status("blue"))
        + &pod("ccc", "network-status", &status("red"));
    let (snapshot, diagnostics) = snapshot(&text);
    assert_eq!(
        attachments(&snapshot),
        [
            "shop/a net1 shop/red 10.1.0.1",
            "shop/bb net1 shop/blue 10.1.0.1",
            "shop/ccc net1 shop/red ?",
        ]
    );
    let expected =
        "C003 : Pod shop/ccc has the address `10.1.0.1` on network `shop/red`, which Pod shop/a has";
    assert_eq!(diagnostics, [expected]);
}

const POLICIES: &str = "
---
apiVersion: k8s.cni.cncf.io/v1beta1
kind: MultiNetworkPolicy
metadata: {name: both, namespace: shop, annotations: {k8s.v1.cni.cncf.io/policy-for: 'red, blue'}}
spec: {podSelector: {}}
---
apiVersion: k8s.cni.cncf.io/v1beta1
kind: MultiNetworkPolicy
metadata: {name: red, namespace: shop, annotations: {k8s.v1.cni.cncf.io/policy-for: red}}
spec: {podSelector: {}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: cluster, namespace: shop}
spec: {podSelector: {}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: green, namespace: shop}
spec: {config: '{}'}
";

/// The pods and policies that a network sees.
fn seen(snapshot: &Snapshot, network: &str) -> Vec<String> {
    let network = NetworkName::parse(network, "").unwrap();
    let seen = snapshot.on(&network);
    assert!(seen.nodes.is_empty() && seen.services.is_empty());
    let pods = seen.pods.values().map(|pod| {
        let addresses: Vec<_> = pod.addresses.iter().map(|address| address.to_string()).collect();
        format!("{} {}", pod.id(), addresses.join(" "))
    });
    let policies = seen.policies.values().map(|policy| {
        assert_eq!(policy.networks, Networks::Among(vec![network.clone()]));
        policy.object.to_string()
    });
    pods.chain(policies).collect()
}

#[test]
fn a_network_sees_its_interfaces_and_its_policies_only() {
    let text = pod(
        "a",
        "network-status",
        r#"[{"name": "red", "interface": "net1", "ips": ["10.1.0.1"]}]"#,
    ) + &pod(
        "bb",
        "network-status",
        r#"[{"name": "red", "interface": "net1", "ips": ["10.1.0.2"]},
                {"name": "blue", "interface": "net2", "ips": ["10.2.0.2"]},
                {"name": "red", "interface": "net3", "ips": ["10.1.0.3"]}]"#,
    ) + POLICIES
        + "---\napiVersion: v1\nkind: Node\nmetadata: {name: node}\n";
    let (snapshot, diagnostics) = snapshot(&text);
    assert_eq!(diagnostics, [""; 0]);
    assert_eq!(
        seen(&snapshot, "shop/red"),
        [
            "shop/a 10.1.0.1",
            "shop/bb@net1 10.1.0.2",
            "shop/bb@net3 10.1.0.3",
            "MultiNetworkPolicy shop/both",
            "MultiNetworkPolicy shop/red",
        ]
    );
    assert_eq!(
        seen(&snapshot, "shop/blue"),
        ["shop/bb 10.2.0.2", "MultiNetworkPolicy shop/both"]
    );
    assert_eq!(seen(&snapshot, "shop/green"), [""; 0]);
    let known: Vec<_> = snapshot
        .known_networks()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(known, ["shop/blue", "shop/green", "shop/red"]);
}

#[test]
fn a_finished_pod_and_a_host_network_pod_are_on_no_network() {
    let status = r#"[{"name": "red", "interface": "net1", "ips": ["10.1.0.1"]}]"#;
    for (before, after) in [
        ("status: {", "status: {phase: Succeeded, "),
        (
            "status: {",
            "spec: {hostNetwork: true, nodeName: node}\nstatus: {",
        ),
    ] {
        let text = pod("a", "network-status", status).replace(before, after);
        assert_eq!(seen(&snapshot(&text).0, "shop/red"), [""; 0], "{after}");
    }
}

#[test]
fn interfaces_of_one_pod_are_the_same_pod() {
    let both = r#"[{"name": "red", "interface": "net1"}, {"name": "red", "interface": "net2"}]"#;
    let text = pod("a", "network-status", both) + &pod("bb", "network-status", both);
    let seen = snapshot(&text).0.on(&NetworkName::parse("shop/red", "").unwrap());
    let pods: Vec<_> = seen.pods.values().collect();
    assert!(pods[0].is_same_pod(pods[1]) && !pods[1].is_same_pod(pods[2]));
}

/// The definition of a network `shop/NAME` with a configuration.
fn definition(name: &str, config: &str) -> String {
    format!(
        "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{config: '{config}'}}\n"
    )
}

/// Networks red, blue and green with a macvlan on a link each, and the pods of these: `a` and `bb` on red, `ccc` on blue,
/// `dddd` on green, `eeeee` on all three.
fn on_links(links: [&str; 3]) -> Snapshot {
    let config = |link: &str| format!(r#"{{"type": "macvlan", "master": "{link}"}}"#);
    let definitions = ["red", "blue", "green"].iter().zip(links);
    let definitions = definitions.map(|(name, link)| definition(name, &config(link)));
    let status = |own: &[(&str, &str)]| {
        let items = own.iter().zip(1..).map(|((network, address), number)| {
            format!(r#"{{"name": "{network}", "interface": "net{number}", "ips": ["{address}"]}}"#)
        });
        format!("[{}]", items.collect::<Vec<_>>().join(", "))
    };
    let pods = [
        ("a", &[("red", "10.1.0.1")][..]),
        ("bb", &[("red", "10.1.0.2")]),
        ("ccc", &[("blue", "10.1.0.2")]),
        ("dddd", &[("green", "10.1.0.4")]),
        (
            "eeeee",
            &[("red", "10.1.1.1"), ("blue", "10.1.1.2"), ("green", "10.1.1.3")],
        ),
    ];
    let pods = pods.map(|(name, own)| pod(name, "network-status", &status(own)));
    let (snapshot, diagnostics) = snapshot(&definitions.chain(pods).collect::<String>());
    assert_eq!(diagnostics, [""; 0]);
    snapshot
}

/// The interfaces that a network sees, by the addresses that they have left.
fn interfaces(snapshot: &Snapshot) -> Vec<String> {
    let pods = snapshot.pods.values();
    pods.map(|pod| {
        let own: Vec<_> = pod.addresses.iter().map(|address| address.to_string()).collect();
        format!("{} {}", pod.id(), own.join(" "))
    })
    .collect()
}

#[test]
fn a_network_sees_all_that_is_on_its_wire() {
    let name = |text: &str| NetworkName::parse(text, "shop").unwrap();
    let apart = on_links(["eth1", "eth2", "eth3"]);
    assert_eq!(
        interfaces(&apart.on(&name("red"))),
        ["shop/a 10.1.0.1", "shop/bb 10.1.0.2", "shop/eeeee 10.1.1.1"]
    );
    let snapshot = on_links(["eth1", "eth2", "eth1"]);
    let both = [
        "shop/a 10.1.0.1",
        "shop/bb 10.1.0.2",
        "shop/dddd 10.1.0.4",
        "shop/eeeee@net1 10.1.1.1",
        "shop/eeeee@net3 10.1.1.3",
    ];
    assert_eq!(interfaces(&snapshot.on(&name("red"))), both);
    assert_eq!(snapshot.on(&name("red")), snapshot.on(&name("green")));
    assert_eq!(
        interfaces(&snapshot.on(&name("blue"))),
        ["shop/ccc 10.1.0.2", "shop/eeeee 10.1.1.2"]
    );
    let networks = ["blue", "green", "red"].map(name);
    let seen = snapshot.on_each(&networks);
    let seen: Vec<_> = seen
        .iter()
        .map(|(networks, seen)| {
            (
                networks.len(),
                seen.snapshot(&mut Interfaces::default()).pods.len(),
            )
        })
        .collect();
    assert_eq!(seen, [(1, 2), (2, 5)]);
    let known = |name: NetworkName| snapshot.on_wire_of(&name).len();
    assert_eq!(["red", "blue", "nowhere"].map(name).map(known), [2, 1, 1]);
}

#[test]
fn an_address_that_is_there_twice_is_the_own_networks_or_nobodys() {
    let name = |text: &str| NetworkName::parse(text, "shop").unwrap();
    let snapshot = on_links(["eth1"; 3]);
    for (network, bb, ccc) in [
        ("red", "shop/bb 10.1.0.2", "shop/ccc "),
        ("blue", "shop/bb ", "shop/ccc 10.1.0.2"),
        ("green", "shop/bb ", "shop/ccc "),
    ] {
        let seen = interfaces(&snapshot.on(&name(network)));
        assert_eq!((seen[1].as_str(), seen[2].as_str()), (bb, ccc), "{network}");
        let others = [&seen[..1], &seen[3..]].concat();
        assert!(others.iter().all(|other| other.contains(" 10.1.")), "{others:?}");
    }
    let networks = ["blue", "green", "red"].map(name);
    for (networks, seen) in snapshot.on_each(&networks) {
        let [network] = networks.as_slice() else {
            panic!("{networks:?}")
        };
        assert_eq!(seen.snapshot(&mut Interfaces::default()), snapshot.on(network));
    }
    assert_eq!(snapshot.on_each(&networks).len(), 3);
}

#[test]
fn a_policy_is_about_the_networks_of_a_wire_that_it_names() {
    let named = |text: &str, networks: [&str; 3], on: &str| -> Vec<String> {
        let definitions = ["red", "blue", "green"].iter().zip(networks);
        let definitions = definitions.map(|(name, config)| definition(name, config));
        let (snapshot, _) = snapshot(&definitions.chain([text.to_owned()]).collect::<String>());
        let seen = snapshot.on(&NetworkName::parse(on, "shop").unwrap());
        let networks = seen.policies.values().map(|policy| match &policy.networks {
            Networks::Among(networks) => {
                let names: Vec<_> = networks.iter().map(|network| network.name.as_str()).collect();
                format!("{} {}", policy.object.name, names.join(" "))
            }
            other => panic!("{other:?}"),
        });
        networks.collect()
    };
    let policies = POLICIES.replace("kind: NetworkAttachmentDefinition", "kind: Other");
    let (one, two) = (
        r#"{"type": "bridge", "bridge": "br1"}"#,
        r#"{"type": "bridge", "bridge": "br2"}"#,
    );
    assert_eq!(
        named(&policies, [one, one, one], "green"),
        ["both blue red", "red red"]
    );
    assert_eq!(
        named(&policies, [one, two, one], "green"),
        ["both red", "red red"]
    );
    assert_eq!(named(&policies, [one, two, one], "blue"), ["both blue"]);
    assert_eq!(named(&policies, [two, one, one], "blue"), ["both blue"]);
    assert_eq!(named(&policies, ["", "", ""], "green"), [""; 0]);
}
