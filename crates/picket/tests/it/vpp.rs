use serde_json::Value;

use crate::{CLUSTER, Manifests, POLICIES, schema::assert_valid, shop};

fn rendered(manifests: &Manifests, more: &[&str]) -> Value {
    let ran = manifests.picket("render", &[more, &["-o", "json"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Pods of `n1`: one that policies select, one that none does, one without an address; and three without an interface there.
const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: closed, namespace: shop, labels: {app: db}}
spec: {nodeName: n1}
status: {podIP: 10.0.0.3}
---
apiVersion: v1
kind: Pod
metadata: {name: early, namespace: shop, labels: {app: db}}
spec: {nodeName: n1}
---
apiVersion: v1
kind: Pod
metadata: {name: far, namespace: shop}
spec: {nodeName: n2}
status: {podIP: 10.0.0.5}
---
apiVersion: v1
kind: Pod
metadata: {name: host, namespace: shop}
spec: {nodeName: n1, hostNetwork: true}
status: {podIP: 10.9.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: over, namespace: shop}
spec: {nodeName: n1}
status: {podIP: 10.0.0.6, phase: Failed}
";

#[test]
fn every_pod_of_a_node_has_an_entry_and_so_has_the_way_out() {
    let manifests = Manifests::new(&[("c.yaml", CLUSTER), ("p.yaml", POLICIES), ("more.yaml", PODS)]);
    let lists = rendered(
        &manifests,
        &[
            "--target", "vpp-acl", "--node", "n1", "--uplink", "ge0", "--uplink", "tap0",
        ],
    );
    let interfaces = lists["interfaces"].as_array().expect("interfaces");
    let named = interfaces
        .iter()
        .map(|entry| (&entry["interface"], &entry["pod"]));
    let named: Vec<_> = named
        .map(|(interface, pod)| [interface, pod].map(|name| name.as_str().unwrap_or("none")))
        .collect();
    assert_eq!(
        named,
        [
            ["ge0", "none"],
            ["shop/closed", "shop/closed"],
            ["shop/early", "shop/early"],
            ["shop/web", "shop/web"],
            ["tap0", "none"],
        ]
    );
    for way in ["input", "output"] {
        assert_eq!(interfaces[0][way], interfaces[4][way], "{way}");
        let counts: Vec<_> = interfaces[1..4]
            .iter()
            .map(|entry| entry[way].as_array().map_or(0, Vec::len))
            .collect();
        // A pod that nothing restricts is held to its own addresses where others are closed.
        let of_open = usize::from(way == "input");
        assert_eq!(counts, [1, 1, of_open], "{way}");
    }
    let tags: Vec<_> = lists["acls"]
        .as_array()
        .expect("lists")
        .iter()
        .map(|list| &list["tag"])
        .collect();
    for entry in interfaces {
        let of = |way: &str| entry[way].as_array().expect("tags").clone();
        for tag in [of("input"), of("output")].concat() {
            assert!(tags.contains(&&tag), "{tag}");
        }
    }
}

/// The entries that are no pod's: name, and how many lists for what enters and what leaves.
fn ways_out(lists: &Value) -> Vec<(String, usize, usize)> {
    let interfaces = lists["interfaces"].as_array().unwrap().iter();
    let none = interfaces.filter(|entry| entry["pod"].is_null());
    let count = |entry: &Value, way: &str| entry[way].as_array().unwrap().len();
    let each = none.map(|entry| {
        let name = entry["interface"].as_str().unwrap().to_owned();
        (name, count(entry, "input"), count(entry, "output"))
    });
    each.collect()
}

#[test]
fn a_way_out_that_nobody_names_is_called_uplink_and_carries_the_lists_of_the_node() {
    let lone = "
apiVersion: v1
kind: Node
metadata: {name: n3}
status: {addresses: [{type: InternalIP, address: 10.9.0.3}]}
---
apiVersion: v1
kind: Pod
metadata: {name: over, namespace: shop}
spec: {nodeName: n3}
status: {podIP: 10.0.0.6, phase: Failed}
---
apiVersion: v1
kind: Pod
metadata: {name: host, namespace: shop}
spec: {nodeName: n3, hostNetwork: true}
status: {podIP: 10.9.0.3}
";
    let silent = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: silent, namespace: shop}
spec: {podSelector: {}, policyTypes: [Egress]}
";
    let files = [("c.yaml", CLUSTER), ("p.yaml", POLICIES), ("lone.yaml", lone)];
    let with_silent = [&files[..], &[("silent.yaml", silent)]].concat();
    let of_node = |files: &[(&str, &str)], node: &str| {
        let lists = rendered(&Manifests::new(files), &["--target", "vpp-acl", "--node", node]);
        let interfaces = lists["interfaces"].as_array().map_or(0, Vec::len);
        assert_valid("render-vpp-acl", std::slice::from_ref(&lists));
        (ways_out(&lists), interfaces)
    };
    // A node without pods has nothing but the way out, and nothing to keep from anybody.
    for files in [&[files[0], files[2]][..], &files, &with_silent] {
        assert_eq!(
            of_node(files, "n3"),
            (vec![("uplink".to_owned(), 0, 0)], 1),
            "{files:?}"
        );
    }
    // What a pod may not send is kept from leaving its node there.
    let (uplinks, interfaces) = of_node(&with_silent, "n1");
    let [(name, input, output)] = &uplinks[..] else {
        panic!("{uplinks:?}");
    };
    assert_eq!((name.as_str(), interfaces), ("uplink", 2));
    assert!(*input > 0 && *output > 0, "{uplinks:?}");
}

#[test]
fn a_way_out_is_not_called_like_a_pod() {
    let manifests = Manifests::new(&[("c.yaml", CLUSTER), ("p.yaml", POLICIES)]);
    for command in ["render", "verify"] {
        let arguments = ["--target", "vpp-acl", "--node", "n1", "--uplink", "shop/web"];
        let ran = manifests.picket(command, &arguments);
        assert_eq!(ran.status, 2, "{}", ran.stdout);
        assert!(
            ran.stderr
                .contains("`--uplink shop/web` is what the interface of that pod is called here"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn what_is_rendered_is_proved() {
    for target in ["vpp-acl", "vpp-session"] {
        let ran = shop().picket("verify", &["--target", target, "--node", "n2", "-o", "json"]);
        assert_eq!(ran.status, 0, "{target}: {}{}", ran.stdout, ran.stderr);
        let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_valid("verify-vpp", std::slice::from_ref(&answer));
        assert_eq!(answer["proved"], true, "{target}");
        let exceptions = answer["exceptions"].as_array().expect("exceptions").iter();
        let begin = |text: &Value| {
            text.as_str()
                .map(|text| text.split([',', ':', ';']).next().unwrap_or(text).to_owned())
        };
        let expected: &[&str] = match target {
            "vpp-acl" => &[
                "of fragments that are not the first VPP compares only addresses and protocol",
                "what a pod sends to an address of a service is judged where it arrives",
                "of SCTP VPP reads no ports",
                "what leaves the node with another source than the pod's is judged by what the pod may send only where it was sent \
                 to no service",
                "what a pod sends to another may be answered before it is judged there",
            ],
            _ => &[
                "what a pod opens to a pod of another node is judged there when it arrives",
                "what a pod opens is judged by the address that its application names",
            ],
        };
        assert_eq!(
            exceptions.filter_map(begin).collect::<Vec<_>>(),
            expected,
            "{target}"
        );
    }
}

#[test]
fn changed_lists_are_refuted_with_packets() {
    let place = ["--target", "vpp-acl", "--node", "n2"];
    let ran = shop().picket("render", &[&place[..], &["-o", "json"]].concat());
    let open = ran.stdout.replace("\"is_permit\": 0", "\"is_permit\": 1");
    assert_ne!(open, ran.stdout);
    let manifests = Manifests::new(&[("c.yaml", CLUSTER), ("p.yaml", POLICIES), ("lists.txt", &open)]);
    let file = manifests.path().join("lists.txt");
    let file = file.to_str().expect("a path");
    let verify = |more: &[&str]| manifests.picket("verify", &[&place[..], &["--rules", file], more].concat());
    let ran = verify(&["-o", "json"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_valid("verify-vpp", std::slice::from_ref(&answer));
    assert_eq!(answer["counterexamples"][0]["fault"], "passes");
    let ran = verify(&[]);
    assert!(ran.stdout.contains("passes, and must not"), "{}", ran.stdout);
}

#[test]
fn what_is_for_nftables_is_refused() {
    let manifests = shop();
    for (more, said) in [
        (&["--pod", "default/web"][..], "write `--node`"),
        (&["--node", "nowhere"], "no node is called `nowhere`"),
        (
            &["--node", "n1", "--nat-loopback", "here"],
            "write an IP address or `none`",
        ),
    ] {
        let ran = manifests.picket("render", &[&["--target", "vpp-acl"], more].concat());
        assert_eq!(ran.status, 2, "{more:?}");
        assert!(ran.stderr.contains(said), "{more:?}: {}", ran.stderr);
    }
}

#[test]
fn the_address_of_translation_is_the_nodes() {
    let node = "
apiVersion: v1
kind: Node
metadata: {name: a}
spec: {podCIDRs: [10.1.0.0/24]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {nodeName: a}
status: {podIP: 10.1.0.7}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: none, namespace: default}
spec: {podSelector: {}, policyTypes: [Ingress]}
";
    let manifests = Manifests::new(&[("p.yaml", node)]);
    let permits = |more: &[&str]| {
        let lists = rendered(&manifests, &[&["--target", "vpp-acl"], more].concat());
        lists.to_string().contains("10.1.0.254/32")
    };
    assert!(permits(&["--node", "a"]));
    assert!(!permits(&["--node", "a", "--nat-loopback", "none"]));
    let ran = manifests.picket("render", &["--target", "vpp-acl", "--nat-loopback", "10.1.0.7"]);
    assert!(
        ran.status == 2 && ran.stderr.contains("is the address of pod `default/web`"),
        "{}",
        ran.stderr
    );
}

/// A policy by which pods may be reached from nowhere, and so from their node alone.
const CLOSED: &str = "
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {nodeName: a}
status: {podIPs: [{ip: 10.1.0.7}, {ip: 'fd00::7'}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: none, namespace: default}
spec: {podSelector: {}, policyTypes: [Ingress]}
";

#[test]
fn where_the_block_of_a_node_is_not_known_no_address_is_that_of_its_translation() {
    for (spec, expected) in [
        ("{}", None),
        ("{podCIDR: 10.1.0.0/24}", Some(&["10.1.0.254"][..])),
        ("{podCIDRs: [10.1.0.0/24]}", Some(&["10.1.0.254"])),
    ] {
        let node = format!(
            "
apiVersion: v1
kind: Node
metadata: {{name: a}}
spec: {spec}
status: {{addresses: [{{type: InternalIP, address: 10.9.0.1}}]}}
{CLOSED}"
        );
        let manifests = Manifests::new(&[("p.yaml", &node)]);
        for target in ["vpp-acl", "vpp-session"] {
            let with =
                |more: &[&str]| rendered(&manifests, &[&["--target", target, "--node", "a"], more].concat());
            let (by_itself, none) = (with(&[]), with(&["--nat-loopback", "none"]));
            match expected {
                None => assert_eq!(by_itself, none, "{target}"),
                Some(addresses) => {
                    let named = addresses.iter().flat_map(|address| ["--nat-loopback", address]);
                    assert_eq!(by_itself, with(&named.collect::<Vec<_>>()), "{target} {spec}");
                    assert_ne!(by_itself, none, "{target} {spec}");
                }
            }
            // An address that is given counts, whatever is known of the node.
            assert_ne!(with(&["--nat-loopback", "10.1.0.77"]), none, "{target} {spec}");
        }
    }
}

/// The field names are VPP's own, and a promise.
#[test]
fn what_is_rendered_is_as_its_schema_says() {
    let closed = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: calls, namespace: shop}
spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 80}]}]}
";
    let files = [
        ("c.yaml", CLUSTER),
        ("p.yaml", POLICIES),
        ("q.yaml", closed),
        ("more.yaml", PODS),
    ];
    for (target, parts) in [("vpp-acl", ["acls", "interfaces"]), ("vpp-session", ["rules"; 2])] {
        for node in ["n1", "n2"] {
            let lists = rendered(&Manifests::new(&files), &["--target", target, "--node", node]);
            assert!(
                parts
                    .iter()
                    .all(|part| lists[part].as_array().is_some_and(|all| !all.is_empty()))
            );
            assert_valid(&format!("render-{target}"), &[lists]);
        }
    }
    let files = [("c.yaml", CLUSTER)];
    for target in ["vpp-acl", "vpp-session"] {
        let open = rendered(&Manifests::new(&files), &["--target", target, "--node", "n1"]);
        assert_valid(&format!("render-{target}"), &[open]);
    }
}

#[test]
fn names_of_lists_and_rules_are_their_own() {
    let each = |of: &Value, name: &str| -> Vec<String> {
        let all = of.as_array().expect("a list").iter();
        all.map(|one| format!("{} {} {}", one["appns"], one["transport_proto"], one[name]))
            .collect()
    };
    for (target, part) in [("vpp-acl", "acls"), ("vpp-session", "rules")] {
        let rendered = rendered(&shop(), &["--target", target, "--node", "n2"]);
        let mut tags = each(&rendered[part], "tag");
        let count = tags.len();
        tags.sort();
        tags.dedup();
        assert!(count > 1 && tags.len() == count, "{target}");
    }
}

/// A pod, and a policy with these ports.
fn with_ports(ports: &str) -> Manifests {
    let text = format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: default}}
spec: {{nodeName: a}}
status: {{podIP: 10.1.0.7}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: calls, namespace: default}}
spec: {{podSelector: {{}}, ingress: [{{ports: [{ports}]}}]}}
"
    );
    Manifests::new(&[("p.yaml", &text)])
}

#[test]
fn that_no_ports_of_sctp_are_read_is_said_where_it_matters() {
    for (ports, matters) in [
        ("{port: 9999, protocol: SCTP}", true),
        ("{port: 80}, {port: 9000, endPort: 9999, protocol: SCTP}", true),
        ("{protocol: SCTP}", false),
        ("{port: 1, endPort: 65535, protocol: SCTP}", false),
        ("{port: 80}", false),
        // All of it is allowed anyway.
        ("{port: 9999, protocol: SCTP}, {protocol: SCTP}", false),
    ] {
        let manifests = with_ports(ports);
        let ran = manifests.picket("render", &["--target", "vpp-acl"]);
        assert_eq!(ran.status, 0, "{ports}: {}", ran.stderr);
        let words = "NetworkPolicy default/calls (ingress) has rules about some ports of SCTP";
        let said = ran.stderr.contains("T001") && ran.stderr.contains(words);
        assert_eq!(said, matters, "{ports}: {}", ran.stderr);
        let ran = manifests.picket("verify", &["--target", "vpp-acl", "-o", "json"]);
        let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_valid("verify-vpp", std::slice::from_ref(&answer));
        assert_eq!(answer["proved"], true);
        let notes = answer["notes"].as_array().map_or(0, Vec::len);
        assert_eq!(notes, usize::from(matters), "{ports}: {answer}");
        let ran = manifests.picket("render", &["--target", "vpp-session"]);
        assert!(!ran.stderr.contains("SCTP"), "{ports}: {}", ran.stderr);
    }
}

/// Where a pod may not send everything, answers need a session: too few are no answers, too many are answers to what is denied.
#[test]
fn what_reflects_too_little_or_too_much_is_refuted_in_words_of_its_own() {
    let silent = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: silent, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Egress]}
";
    let files = [("c.yaml", CLUSTER), ("p.yaml", POLICIES), ("silent.yaml", silent)];
    let place = ["--target", "vpp-acl", "--node", "n2"];
    let right = rendered(&Manifests::new(&files), &place);
    for (role, from, to, fault, words) in [
        (
            "picket-to-pod-",
            2,
            1,
            "no-answer",
            "passes, as it must, and what answers it does not\n",
        ),
        (
            "picket-from-outside-",
            1,
            2,
            "answered",
            "is dropped further on, as it must be, and what answers it passes\n",
        ),
    ] {
        let mut lists = right.clone();
        let mut count = 0;
        for list in lists["acls"].as_array_mut().expect("lists") {
            if !list["tag"].as_str().is_some_and(|tag| tag.starts_with(role)) {
                continue;
            }
            for rule in list["r"].as_array_mut().expect("rules") {
                if rule["is_permit"] == from {
                    rule["is_permit"] = to.into();
                    count += 1;
                }
            }
        }
        assert!(count > 0, "{role}");
        let lists = lists.to_string();
        let manifests = Manifests::new(&[&files[..], &[("lists.txt", lists.as_str())]].concat());
        let file = manifests.path().join("lists.txt");
        let rules = ["--rules", file.to_str().expect("a path")];
        let verify = |more: &[&str]| manifests.picket("verify", &[&place[..], &rules, more].concat());
        let ran = verify(&["-o", "json"]);
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_valid("verify-vpp", std::slice::from_ref(&answer));
        let examples = answer["counterexamples"].as_array().expect("examples");
        assert!(!examples.is_empty());
        for example in examples {
            assert_eq!(example["fault"], fault, "{example}");
        }
        let ran = verify(&[]);
        assert_eq!(
            ran.stdout.matches(words).count(),
            examples.len(),
            "{}",
            ran.stdout
        );
    }
}
