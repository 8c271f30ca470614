use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{CLUSTER, Manifests, POLICIES, schema::assert_valid, shop};

fn rendered(manifests: &Manifests, more: &[&str]) -> Value {
    let ran = manifests.picket("render", &[&["--target", "neutron", "-o", "json"], more].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The field of each of some objects.
fn each<'a>(objects: &'a Value, field: &str) -> Vec<&'a str> {
    let objects = objects.as_array().unwrap().iter();
    objects.filter_map(|object| object[field].as_str()).collect()
}

#[test]
fn every_pod_with_a_port_has_all_its_groups() {
    let objects = rendered(&shop(), &[]);
    assert_valid("render-neutron", std::slice::from_ref(&objects));
    let pods = each(&objects["ports"], "pod");
    assert!(
        pods.contains(&"shop/db") && pods.contains(&"shop/web"),
        "{pods:?}"
    );
    assert!(!pods.contains(&"shop/done"), "{pods:?}");
    let groups: BTreeSet<_> = each(&objects["security_groups"], "name").into_iter().collect();
    for port in objects["ports"].as_array().unwrap() {
        let own = port["security_groups"].as_array().unwrap();
        assert!(
            own.iter().all(|group| groups.contains(group.as_str().unwrap())),
            "{port}"
        );
    }
    let db = &objects["ports"][pods.iter().position(|pod| *pod == "shop/db").unwrap()];
    let own: Vec<_> = db["security_groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        own.contains(&"picket/open/egress") && !own.contains(&"picket/open/ingress"),
        "{own:?}"
    );
}

#[test]
fn without_address_groups_and_with_another_name_it_means_the_same() {
    let exceptions = POLICIES.replace("203.0.113.128/25", "203.0.113.64/26");
    let manifests = Manifests::new(&[("c.yaml", CLUSTER), ("p.yaml", &exceptions)]);
    let with = rendered(&manifests, &[]);
    assert_eq!(with["address_groups"].as_array().unwrap().len(), 1);
    let more = ["--no-address-groups", "--neutron-cluster", "blue"];
    let without = rendered(&manifests, &more);
    assert_valid("render-neutron", &[with, without.clone()]);
    assert_eq!(without["address_groups"].as_array().unwrap().len(), 0);
    assert!(
        each(&without["security_groups"], "name")
            .iter()
            .all(|name| name.starts_with("blue/"))
    );
    for more in [&[][..], &more] {
        let ran = manifests.picket("verify", &[&["--target", "neutron", "-o", "json"], more].concat());
        assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
        assert_valid("verify-vpp", &[ran.json()]);
    }
}

#[test]
fn what_passes_whatever_groups_say_is_named() {
    let ran = shop().picket("verify", &["--target", "neutron"]);
    assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
    for what in [
        "what IPv6 does not work without",
        "(DHCP)",
        "what a pod sends to itself",
    ] {
        let named = ran
            .stdout
            .lines()
            .filter(|line| line.starts_with("exception: ") && line.contains(what));
        assert_eq!(named.count(), 1, "{what}: {}", ran.stdout);
    }
}

/// A pod that may neither send nor receive anything, of which policies are all that is known.
const ISOLATED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: default}
spec: {containers: [{name: c}]}
status: {podIP: 10.0.0.231}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: nothing}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
";

#[test]
fn networks_of_nodes_and_services_are_open_to_isolated_pods_where_options_say_so() {
    let manifests = Manifests::new(&[("p.yaml", ISOLATED)]);
    let options = [
        "--node-subnets",
        "192.168.0.0/24,fd01::/64",
        "--node-subnet=192.168.2.0/24",
        "--service-subnet",
        "10.96.0.0/12",
    ];
    let open = |options: &[&str], direction: &str| -> BTreeSet<String> {
        let objects = rendered(&manifests, options);
        assert_valid("render-neutron", std::slice::from_ref(&objects));
        let name = format!("picket/subnets/{direction}");
        let groups = objects["security_groups"].as_array().unwrap().iter();
        let rules = groups.filter(|group| group["name"] == name.as_str());
        let rules = rules.flat_map(|group| group["security_group_rules"].as_array().unwrap());
        let prefixes = rules.map(|rule| {
            assert_eq!(rule["protocol"], Value::Null, "{rule}");
            rule["remote_ip_prefix"].as_str().unwrap().to_owned()
        });
        prefixes.collect()
    };
    let nodes = ["192.168.0.0/24", "192.168.2.0/24", "fd01::/64"].map(str::to_owned);
    assert_eq!(open(&options, "ingress"), nodes.clone().into());
    let services = ["10.96.0.0/12".to_owned()];
    assert_eq!(
        open(&options, "egress"),
        nodes.into_iter().chain(services).collect()
    );
    let everywhere = open(&[], "ingress").len() + open(&[], "egress").len();
    assert_eq!(everywhere, 0);

    let exceptions = |options: &[&str]| {
        let ran = manifests.picket("verify", &[&["--target", "neutron"], options].concat());
        assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
        let lines = ran.stdout.lines().filter(|line| line.starts_with("exception: "));
        let of = |option: &str| lines.clone().filter(|line| line.contains(option)).count();
        [of("--node-subnet"), of("--service-subnet")]
    };
    assert_eq!(exceptions(&options), [1, 1]);
    assert_eq!(exceptions(&options[..3]), [1, 0]);
    assert_eq!(exceptions(&[]), [0, 0]);
}

#[test]
fn yaml_says_what_json_says() {
    let json = rendered(&shop(), &[]);
    let ran = shop().picket("render", &["--target", "neutron", "-o", "yaml"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let yaml: Value = serde_saphyr::from_str(&ran.stdout).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn policies_are_shown_as_the_document_writes_them() {
    const POLICY: &str = "
apiVersion: v1
kind: Pod
metadata: {name: server, namespace: default, labels: {pod-name: server}}
spec: {containers: [{name: c, ports: [{name: serve-80, containerPort: 80}]}]}
status: {podIP: 10.0.0.231}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: named, namespace: default, uid: 65d54bbb-70d5-11e9-9986-fa163e6aa097}
spec:
  podSelector: {matchLabels: {pod-name: server}}
  policyTypes: [Ingress]
  ingress: [{ports: [{protocol: TCP, port: serve-80}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: nobody}
spec: {podSelector: {matchLabels: {a: b}}, policyTypes: [Ingress, Egress], egress: [{}]}
";
    let ran = Manifests::new(&[("p.yaml", POLICY)])
        .picket("render", &["--target", "neutron", "-o", "kuryrnetpolicy"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let (named, nobody) = ran.stdout.split_once("---\n").unwrap();
    let named: Value = serde_saphyr::from_str(named).unwrap();
    let group = named["spec"]["securityGroupId"].as_str().unwrap();
    assert!(
        group.starts_with("picket/policy/default/named/ingress/"),
        "{group}"
    );
    let rule = |number: usize, family: &str, prefixes: Value| {
        json!({
            "remote_ip_prefixes": prefixes,
            "security_group_rule": {
                "description": "",
                "direction": "ingress",
                "ethertype": family,
                "id": format!("{group}#{number}"),
                "port_range_max": 80,
                "port_range_min": 80,
                "protocol": "tcp",
                "security_group_id": group,
            },
        })
    };
    let selector = json!({"matchLabels": {"pod-name": "server"}});
    let expected = json!({
        "apiVersion": "openstack.org/v1",
        "kind": "KuryrNetPolicy",
        "metadata": {
            "annotations": {
                "networkpolicy_name": "named",
                "networkpolicy_namespace": "default",
                "networkpolicy_uid": "65d54bbb-70d5-11e9-9986-fa163e6aa097",
            },
            "name": "np-named",
            "namespace": "default",
        },
        "spec": {
            "egressSgRules": [],
            "ingressSgRules": [
                rule(0, "IPv4", json!({"10.0.0.231:": "default"})),
                rule(1, "IPv6", json!({})),
            ],
            "networkpolicy_spec": {
                "podSelector": selector,
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"protocol": "TCP", "port": "serve-80"}]}],
            },
            "podSelector": selector,
            "securityGroupId": group,
            "securityGroupName": group,
        },
    });
    assert_eq!(named, expected);
    // No pod has it yet, and it has its groups.
    assert!(nobody.contains("  ingressSgRules: []"), "{nobody}");
    assert!(
        nobody.contains("picket.dev/security-groups: \"picket/policy/default/nobody/egress\""),
        "{nobody}"
    );
}

/// Of a group, of an address group, and of one prefix.
#[test]
fn of_what_is_sent_to_ports_by_name_the_document_shows_who_has_them() {
    let has = |name: &str, labels: Value, ip: &str, port: u16| {
        let ports = json!([{"name": "web", "containerPort": port}]);
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"containers": [{"name": "c", "ports": ports}]},
            "status": {"podIP": ip},
        })
    };
    let egress = json!([{
        "to": [{"podSelector": {"matchLabels": {"app": "server"}}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "ports": [{"protocol": "TCP", "port": "web"}],
    }]);
    let selector = json!({"matchLabels": {"app": "client"}});
    let items = json!([
        has("one", json!({"app": "server"}), "10.0.0.1", 80),
        has("other", json!({}), "10.0.0.2", 80),
        has("third", json!({}), "10.0.0.8", 80),
        has("far", json!({}), "10.1.0.1", 81),
        has("client", json!({"app": "client"}), "10.2.0.1", 82),
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "out", "namespace": "default"},
            "spec": {"podSelector": selector, "policyTypes": ["Egress"], "egress": egress},
        },
    ]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let ran = Manifests::new(&[("list.json", &list)])
        .picket("render", &["--target", "neutron", "-o", "kuryrnetpolicy"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let view: Value = serde_saphyr::from_str(&ran.stdout).unwrap();
    let rules = view["spec"]["egressSgRules"].as_array().unwrap().iter();
    let of_ipv4 = rules.filter(|one| one["security_group_rule"]["ethertype"] == "IPv4");
    let told: BTreeSet<_> = of_ipv4
        .map(|one| {
            let rule = one["security_group_rule"].as_object().unwrap();
            let remote = rule.keys().find(|key| key.starts_with("remote_")).unwrap();
            let holders = one["remote_ip_prefixes"].as_object().unwrap();
            let holders: BTreeSet<_> = holders.keys().map(String::as_str).collect();
            (remote.as_str(), rule["port_range_min"].as_u64().unwrap(), holders)
        })
        .collect();
    // The client may send to itself whatever policies say; its own port is told of like that of others.
    let expected: [(&str, u64, &[&str]); 4] = [
        ("remote_address_group_id", 80, &["10.0.0.2:", "10.0.0.8:"]),
        ("remote_group_id", 80, &["10.0.0.1:"]),
        ("remote_ip_prefix", 81, &["10.1.0.1:"]),
        ("remote_ip_prefix", 82, &["10.2.0.1:"]),
    ];
    let expected = expected.map(|(remote, port, holders)| (remote, port, holders.iter().copied().collect()));
    assert_eq!(told, expected.into(), "{}", ran.stdout);
}

#[test]
fn what_cannot_be_said_in_groups_is_warned_of() {
    const DENIAL: &str = "
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: no-telnet}
spec:
  priority: 5
  subject: {namespaces: {}}
  ingress:
  - {action: Deny, from: [{namespaces: {}}], ports: [{portNumber: {protocol: TCP, port: 23}}]}
";
    let manifests = Manifests::new(&[("c.yaml", CLUSTER), ("p.yaml", DENIAL)]);
    for command in ["render", "verify"] {
        let ran = manifests.picket(command, &["--target", "neutron"]);
        assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.contains("a rule of a security group is about one protocol"),
            "{said}"
        );
    }
}

#[test]
fn what_is_for_other_targets_is_refused() {
    let manifests = shop();
    for (more, said) in [
        (&["--node", "n1"][..], "Neutron has groups for the whole cluster"),
        (&["--neutron-cluster", "a/b"], "write at most 60 of"),
        (
            &["--custom-v4-ingress-rule-file", "rules"],
            "custom rules belong to",
        ),
    ] {
        for command in ["render", "verify"] {
            let ran = manifests.picket(command, &[&["--target", "neutron"], more].concat());
            assert_eq!(ran.status, 2, "{more:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(said), "{more:?}: {}", ran.stderr);
        }
    }
    let ran = manifests.picket("render", &["--target", "vpp-acl", "--node", "n1", "-o", "yaml"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let ran = manifests.picket("verify", &["--target", "neutron", "--live"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
}
