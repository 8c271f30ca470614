use std::collections::BTreeMap;

use picket_cluster::{Endpoint, Flow, Reason, Semantics};
use picket_engine::Engine;
use picket_net::{Family, Protocol, parse_address};
use picket_policy::ObjectRef;
use picket_testing::build::{accept, block, node, pod, pods_in, policy};
use picket_testing::generate::{Shape, mixture, snapshot as random};
use picket_testing::{flows, snapshot};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn as_json(snapshot: &Snapshot, by: By) -> Value {
    let engine = Engine::compile(snapshot, Semantics::default());
    let mut out = Vec::new();
    write::json(&Map::new(snapshot, engine.program(), by), &[], &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn connections(map: &Value) -> Vec<String> {
    let connections = map["connections"].as_array().unwrap().iter();
    connections
        .map(|one| {
            let text = |key| one[key].as_str().unwrap().to_owned();
            format!(
                "{} → {} {} {}",
                text("from"),
                text("to"),
                text("family"),
                one["allow"]
            )
        })
        .collect()
}

fn ids(map: &Value) -> Vec<String> {
    let endpoints = map["endpoints"].as_array().unwrap().iter();
    endpoints
        .map(|one| {
            format!(
                "{} {}",
                one["kind"].as_str().unwrap(),
                one["id"].as_str().unwrap()
            )
        })
        .collect()
}

#[test]
fn every_pair_with_something_allowed_is_listed_in_order() {
    let cluster = snapshot![
        pod("x/a").ip("10.0.0.1"),
        pod("x/b").label("app", "b").ip("10.0.0.2"),
        pod("x/gone").ip("10.0.0.9").finished(),
        policy("x/p").selects("app=b").ingress(
            accept()
                .peer(block("10.0.0.0/8", &["10.0.0.1/32"]))
                .port(Protocol::TCP, 80)
                .port(Protocol::TCP, 81)
        ),
    ];
    let map = as_json(&cluster, By::Pod);
    assert_eq!(
        map["endpoints"],
        json!([
            {"id": "0.0.0.0-9.255.255.255", "kind": "external",
             "addresses": ["0.0.0.0-9.255.255.255", "11.0.0.0-255.255.255.255"]},
            {"id": "10.0.0.0-10.0.0.0", "kind": "external", "addresses": ["10.0.0.0-10.0.0.0", "10.0.0.3-10.255.255.255"]},
            {"id": "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "kind": "external",
             "addresses": ["::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]},
            {"id": "x/a", "kind": "pod", "addresses": ["10.0.0.1"]},
            {"id": "x/b", "kind": "pod", "addresses": ["10.0.0.2"]},
        ])
    );
    assert_eq!(
        connections(&map),
        [
            "0.0.0.0-9.255.255.255 → x/a any \"all\"",
            "10.0.0.0-10.0.0.0 → x/a any \"all\"",
            "10.0.0.0-10.0.0.0 → x/b any {\"TCP\":[[80,81]]}",
            "x/a → 0.0.0.0-9.255.255.255 any \"all\"",
            "x/a → 10.0.0.0-10.0.0.0 any \"all\"",
            "x/b → 0.0.0.0-9.255.255.255 any \"all\"",
            "x/b → 10.0.0.0-10.0.0.0 any \"all\"",
            "x/b → x/a any \"all\"",
        ]
    );
}

#[test]
fn external_addresses_are_cut_only_where_it_makes_a_difference() {
    let cluster = snapshot![
        pod("x/a").ip("10.0.0.1"),
        policy("x/p").ingress(
            accept()
                .peer(block("192.0.2.0/25", &[]))
                .peer(block("192.0.2.128/25", &[]))
        ),
        policy("x/q")
            .selects("app=nobody")
            .ingress(accept().peer(block("203.0.113.0/24", &[]))),
    ];
    let map = as_json(&cluster, By::Pod);
    let externals = ["external 0.0.0.0-10.0.0.0", "external 192.0.2.0-192.0.2.255"];
    assert_eq!(ids(&map)[..2], externals);
    assert_eq!(ids(&map).len(), 4);
}

#[test]
fn families_that_differ_are_two_connections() {
    let cluster = snapshot![
        pod("x/a").ip("10.0.0.1").ip("fd00::1"),
        pod("x/b").label("app", "b").ip("10.0.0.2").ip("fd00::2"),
        policy("x/p")
            .selects("app=b")
            .ingress(accept().peer(block("10.0.0.0/8", &[])))
            .ingress(accept().peer(block("fd00::/8", &[])).port(Protocol::UDP, 53)),
    ];
    let map = as_json(&cluster, By::Pod);
    let to_b: Vec<_> = connections(&map)
        .into_iter()
        .filter(|one| one.starts_with("x/a → x/b"))
        .collect();
    assert_eq!(
        to_b,
        ["x/a → x/b ipv4 \"all\"", "x/a → x/b ipv6 {\"UDP\":[[53,53]]}"]
    );
}

#[test]
fn own_nodes_and_their_pods_reach_each_other() {
    let cluster = snapshot![
        pod("x/a").ip("10.0.0.1").on("n1"),
        pod("x/host").ip("10.9.0.1").on("n1").host_network(),
        node("n1").ip("10.9.0.1"),
        node("n2").ip("10.9.0.2"),
        policy("x/p")
            .isolates(picket_policy::Direction::Ingress)
            .isolates(picket_policy::Direction::Egress),
    ];
    let map = connections(&as_json(&cluster, By::Pod));
    let with_a: Vec<_> = map.iter().filter(|one| one.contains("x/a")).collect();
    assert_eq!(
        with_a,
        [
            "n1 → x/a any \"all\"",
            "x/a → n1 any \"all\"",
            "x/a → x/host any \"all\"",
            "x/host → x/a any \"all\""
        ]
    );
    assert!(map.contains(&"n1 → n2 any \"all\"".to_owned()));
}

#[test]
fn exceptions_hold_for_a_made_up_address_of_a_host_network_pod() {
    for (prefix, except, reaches) in [
        ("0.0.0.0/0", vec![], true),
        ("0.0.0.0/0", vec!["198.18.0.0/15"], false),
        ("0.0.0.0/0", vec!["198.18.0.9/32", "10.0.0.0/8"], false),
        ("0.0.0.0/0", vec!["10.0.0.0/8"], true),
        ("198.18.0.0/15", vec![], false),
    ] {
        let rule = || accept().peer(block(prefix, &except));
        let cluster = snapshot![
            pod("x/a").label("app", "a").ip("10.0.0.1"),
            pod("x/host").ip("198.18.0.9").synthetic().host_network(),
            policy("x/p").selects("app=a").ingress(rule()).egress(rule()),
            // Another block at the same place must not count.
            policy("x/q")
                .selects("app=a")
                .ingress(accept().peer(block("198.18.0.0/24", &[])).port(Protocol::TCP, 1)),
        ];
        let map = connections(&as_json(&cluster, By::Pod));
        let judged = |from: &str, to: &str| {
            let end = |name| Endpoint::Pod(ObjectRef::new("Pod", "x", name));
            let flow = Flow {
                source: end(from),
                destination: end(to),
                family: Family::Ipv4,
                protocol: Protocol::TCP,
                port: 1,
            };
            picket_reference::judge(&cluster, &Semantics::default(), &flow)
                .verdict()
                .is_allow()
        };
        for (from, to) in [("host", "a"), ("a", "host")] {
            let line = format!("x/{from} → x/{to} any \"all\"");
            assert_eq!(map.contains(&line), reaches, "{prefix} {except:?}: {map:#?}");
            assert_eq!(judged(from, to), reaches, "{prefix} {except:?}");
        }
    }
}

#[test]
fn workloads_whose_pods_behave_alike_are_shown_as_one() {
    let cluster = snapshot![
        pod("x/web-1")
            .label("app", "web")
            .ip("10.0.0.1")
            .on("n1")
            .owned_by("Deployment", "web"),
        pod("x/web-2")
            .label("app", "web")
            .label("pod", "2")
            .ip("10.0.0.2")
            .on("n2")
            .owned_by("Deployment", "web"),
        pod("x/db-0")
            .label("app", "db")
            .label("odd", "yes")
            .ip("10.0.0.3")
            .owned_by("StatefulSet", "db"),
        pod("x/db-1")
            .label("app", "db")
            .ip("10.0.0.4")
            .owned_by("StatefulSet", "db"),
        pod("x/Job/batch").ip("198.18.0.9").synthetic(),
        node("n1").ip("10.9.0.1"),
        policy("x/web")
            .selects("app=web")
            .ingress(accept().peer(pods_in("x", "app=web"))),
        policy("x/odd")
            .selects("odd=yes")
            .ingress(accept().peer(pods_in("x", "app=web"))),
    ];
    let map = as_json(&cluster, By::Workload);
    let named: Vec<_> = ids(&map)
        .into_iter()
        .filter(|id| !id.starts_with("external"))
        .collect();
    assert_eq!(
        named,
        [
            "node n1",
            "pod x/db-0",
            "pod x/db-1",
            "workload x/Deployment/web",
            "workload x/Job/batch"
        ]
    );
    let connections = connections(&map);
    let own = |id: &str| connections.contains(&format!("{id} → {id} any \"all\""));
    assert!(own("x/Deployment/web") && own("x/Job/batch") && !own("x/db-1"));
    // One of its pods is on n1, the other is not.
    assert!(
        !connections
            .iter()
            .any(|one| one.starts_with("n1 → x/Deployment/web"))
    );
}

#[test]
fn presentations_hold_every_endpoint_and_no_markup_of_theirs() {
    let cluster = snapshot![
        pod("x/a").ip("10.0.0.1"),
        pod("x/b").ip("10.0.0.2"),
        pod("x/c<b>|\"").label("app", "c").ip("10.0.0.3"),
        policy("x/p")
            .selects("app=c")
            .ingress(accept().port(Protocol::TCP, 80).port(Protocol::TCP, 443)),
    ];
    let engine = Engine::compile(&cluster, Semantics::default());
    let map = Map::new(&cluster, engine.program(), By::Pod);
    let text = |write: fn(&Map<'_>, &mut Vec<u8>) -> std::io::Result<()>| {
        let mut out = Vec::new();
        write(&map, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let svg = text(write::svg);
    assert!(svg.contains(">c&lt;b&gt;|&quot;</text>") && !svg.contains("<b>"));
    assert!(text(write::csv).contains("x/a,\"x/c<b>|\"\"\",any,\"TCP 80,443\"\r\n"));
    assert!(text(write::markdown).contains("| x/a | x/c\\<b>\\|\" | any | TCP 80,443 |\n"));
    assert!(text(write::dot).contains("\"x/a\" -> \"x/c<b>|\\\"\" [label=\"TCP 80,443\"];\n"));
    assert_eq!(
        text(write::table),
        "1  x/a, x/b (pod)\n2  x/c<b>|\" (pod)\n3  0.0.0.0-10.0.0.0 and 1 more range (external)\n\
         4  ::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff (external)\n\nfrom\\to  1 2 3 4\n      1  # a #\n      \
         2  #   #\n      3  # a\n      4\n\n#  everything   .  nothing\na  TCP 80,443\n"
    );
}

#[test]
fn many_groups_are_listed_instead_of_drawn() {
    let mut cluster = snapshot![pod("x/a").ip("10.0.0.1")];
    for number in 1..=70u16 {
        let name = format!("x/p{number:02}");
        let label = format!("{number}");
        let more = snapshot![
            pod(&name).label("app", &label).ip(&format!("10.0.1.{number}")),
            policy(&name)
                .selects(&format!("app={label}"))
                .ingress(accept().port(Protocol::TCP, number)),
        ];
        cluster.pods.extend(more.pods);
        cluster.policies.extend(more.policies);
    }
    let engine = Engine::compile(&cluster, Semantics::default());
    let map = Map::new(&cluster, engine.program(), By::Pod);
    let mut table = Vec::new();
    write::table(&map, &mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    assert!(table.starts_with("1  x/a (pod)\n      to 2: TCP 1\n"), "{table}");
    assert!(
        table.contains("\n      to 72: everything\n") && !table.contains("from\\to"),
        "{table}"
    );
}

/// What a map says about one flow.
fn allowed(map: &Allowed, from: &str, to: &str, flow: &Flow) -> bool {
    let found = map.get(&(from.to_owned(), to.to_owned())).into_iter().flatten();
    found
        .filter(|(family, _)| match family {
            ConnectionFamily::Any => true,
            ConnectionFamily::Ipv4 => flow.family == Family::Ipv4,
            ConnectionFamily::Ipv6 => flow.family == Family::Ipv6,
        })
        .any(|(_, allow)| allow.contains(flow.protocol, flow.port))
}

type Allowed = BTreeMap<(String, String), Vec<(ConnectionFamily, TrafficSet)>>;

/// The endpoint of a map that an end of a flow is.
fn id_of(map: &Map<'_>, snapshot: &Snapshot, endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Pod(object) => snapshot.pods[object].id(),
        Endpoint::Node { name, .. } => name.to_string(),
        Endpoint::External(address) => {
            let holds = |range: &String| {
                let (first, last) = range.split_once('-').unwrap();
                let [first, last] = [first, last].map(|text| parse_address(text).unwrap());
                first.is_ipv4() == address.is_ipv4() && (first..=last).contains(address)
            };
            let external = map
                .endpoints()
                .iter()
                .filter(|one| one.kind == EndpointKind::External);
            let mut holding = external.filter(|one| one.addresses.iter().any(holds));
            let id = holding.next().unwrap().id.clone();
            assert!(holding.next().is_none());
            id
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_map_says_what_the_reference_says(
        snapshot in prop_oneof![random(Shape::Custom, 4), mixture(6)],
        pods_match in any::<bool>(),
    ) {
        let semantics = Semantics { ipblock_matches_pods: pods_match, ..Semantics::default() };
        let engine = Engine::compile(&snapshot, semantics.clone());
        let map = Map::new(&snapshot, engine.program(), By::Pod);
        let mut listed = Allowed::new();
        map.try_for_each(|one| {
            assert!(!one.allow.is_empty());
            listed.entry((one.from.id.clone(), one.to.id.clone())).or_default().push((one.family, one.allow));
            Ok::<_, ()>(())
        }).unwrap();
        // A node is allowed what each of its addresses is.
        let mut expected: BTreeMap<_, bool> = BTreeMap::new();
        for flow in flows::representative_flows(&snapshot) {
            if flow.source == flow.destination {
                continue;
            }
            let [from, to] = [&flow.source, &flow.destination].map(|end| id_of(&map, &snapshot, end));
            if from == to {
                continue;
            }
            let judgement = picket_reference::judge(&snapshot, &semantics, &flow);
            // Interfaces of one pod are no pair; of a workload two pods are meant.
            if judgement.egress.reason == Reason::SamePod {
                continue;
            }
            let verdict = judgement.verdict().is_allow();
            let key = (from, to, flow.family, flow.protocol, flow.port);
            *expected.entry(key).or_insert(true) &= verdict;
        }
        for ((from, to, family, protocol, port), verdict) in expected {
            let source = Endpoint::External("0.0.0.0".parse().unwrap());
            let flow = Flow { destination: source.clone(), source, family, protocol, port };
            prop_assert_eq!(allowed(&listed, &from, &to, &flow), verdict, "{} → {} {} {} {}", from, to, family, protocol, port);
        }
    }

    #[test]
    fn external_endpoints_are_the_fewest(snapshot in prop_oneof![random(Shape::V1, 4), mixture(6)]) {
        let engine = Engine::compile(&snapshot, Semantics::default());
        let map = Map::new(&snapshot, engine.program(), By::Pod);
        let mut seen = BTreeMap::new();
        for external in map.endpoints().iter().filter(|one| one.kind == EndpointKind::External) {
            let mut effect = Vec::new();
            map.try_for_each(|one| {
                if one.from.id == external.id {
                    effect.push((true, one.to.id.clone(), one.family, one.allow));
                } else if one.to.id == external.id {
                    effect.push((false, one.from.id.clone(), one.family, one.allow));
                }
                Ok::<_, ()>(())
            }).unwrap();
            let key = (external.id.contains(':'), effect);
            prop_assert!(seen.insert(key, ()).is_none(), "{} could be merged", external.id);
        }
    }
}
