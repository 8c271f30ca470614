use std::collections::BTreeMap;
use std::sync::Arc;

use picket_cluster::{Endpoint, Object, Pod, Semantics};
use picket_engine::Engine;
use picket_net::{AddressRange, AddressSet, Family, Protocol, parse_address};
use picket_policy::{ObjectRef, Policy};
use picket_testing::build::{accept, block, node, pod, pods_in, policy};
use picket_testing::generate::{self, Shape};
use picket_testing::{flows, snapshot};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::*;
use crate::map::Map;

/// Two snapshots, compiled.
struct Compiled([(Snapshot, Engine); 2]);

impl Compiled {
    fn new(snapshots: [Snapshot; 2]) -> Self {
        Self(snapshots.map(|snapshot| {
            let engine = Engine::compile(&snapshot, Semantics::default());
            (snapshot, engine)
        }))
    }

    fn versions(&self) -> [Version<'_>; 2] {
        self.0.each_ref().map(|(snapshot, engine)| Version {
            snapshot,
            program: engine.program(),
        })
    }

    fn diff(&self, by: By) -> Diff<'_> {
        let [old, new] = self.versions();
        Diff::new(old, new, by)
    }

    fn json(&self, by: By) -> Value {
        let mut out = Vec::new();
        write::json(&self.diff(by), &[], &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }
}

fn lines(list: &Value) -> Vec<String> {
    let text = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
    let line = |one: &Value| {
        let [from, to, family] = ["from", "to", "family"].map(|key| text(one, key));
        format!("{from} → {to} {family} {}", one["allow"])
    };
    list.as_array().unwrap().iter().map(line).collect()
}

/// What may pass between two endpoints, in one family.
type Passing = BTreeMap<(String, String, Family), TrafficSet>;

fn families(family: ConnectionFamily) -> Vec<Family> {
    match family {
        ConnectionFamily::Any => Family::BOTH.to_vec(),
        ConnectionFamily::Ipv4 => vec![Family::Ipv4],
        ConnectionFamily::Ipv6 => vec![Family::Ipv6],
    }
}

fn range(text: &str) -> AddressRange {
    let (first, last) = text.split_once('-').unwrap();
    AddressRange::new(parse_address(first).unwrap(), parse_address(last).unwrap()).unwrap()
}

fn addresses(endpoint: &MapEndpoint) -> AddressSet {
    endpoint.addresses.iter().map(|text| range(text)).collect()
}

/// The parts of external space that every map and the difference tell apart, as the names of what stands for them.
fn parts(maps: &[Map<'_>; 2], diff: &Diff<'_>) -> Vec<AddressSet> {
    let external = |endpoint: &&MapEndpoint| endpoint.kind == EndpointKind::External;
    let [one, other] = maps
        .each_ref()
        .map(|map| map.endpoints().iter().filter(external).map(addresses));
    let space = |sets: &[AddressSet]| sets.iter().fold(AddressSet::empty(), |all, set| all.union(set));
    let (one, other): (Vec<_>, Vec<_>) = (one.collect(), other.collect());
    let both = space(&one).intersection(&space(&other));
    let said = diff
        .endpoints()
        .map(|(endpoint, _)| endpoint)
        .filter(external)
        .map(addresses);
    let mut parts = vec![both];
    for cut in one.into_iter().chain(other).chain(said) {
        parts = parts
            .iter()
            .flat_map(|part| [part.intersection(&cut), part.difference(&cut)])
            .filter(|part| !part.is_empty())
            .collect();
    }
    parts
}

/// The names of an endpoint in terms of the parts.
fn names(endpoint: &MapEndpoint, parts: &[AddressSet]) -> Vec<String> {
    if endpoint.kind != EndpointKind::External {
        return vec![format!("{} {}", endpoint.kind.as_str(), endpoint.id)];
    }
    let own = addresses(endpoint);
    let inside = |part: &&AddressSet| part.difference(&own).is_empty();
    let name = |part: &AddressSet| part.ranges().next().unwrap().to_string();
    parts.iter().filter(inside).map(name).collect()
}

/// What each endpoint has of each family.
fn has(endpoint: &MapEndpoint, family: Family) -> bool {
    let of = |text: &String| {
        let first = text.split('-').next().unwrap();
        Family::of(parse_address(first).unwrap()) == family
    };
    endpoint.addresses.iter().any(of)
}

fn insert(
    passing: &mut Passing,
    (from, to): (&MapEndpoint, &MapEndpoint),
    families: &[Family],
    allow: &TrafficSet,
    parts: &[AddressSet],
) {
    for &family in families {
        for from in names(from, parts) {
            for to in names(to, parts) {
                passing.insert((from.clone(), to, family), allow.clone());
            }
        }
    }
}

fn passing(map: &Map<'_>, parts: &[AddressSet]) -> Passing {
    let mut passing = Passing::new();
    map.try_for_each(|one| {
        let both = |family: &Family| has(one.from, *family) && has(one.to, *family);
        let families: Vec<_> = families(one.family).into_iter().filter(both).collect();
        insert(&mut passing, (one.from, one.to), &families, &one.allow, parts);
        Ok::<_, ()>(())
    })
    .unwrap();
    passing
}

fn changed(diff: &Diff<'_>, only: Only, parts: &[AddressSet]) -> Passing {
    let mut passing = Passing::new();
    diff.try_for_each(only, |one| {
        assert!(!one.allow.is_empty());
        insert(
            &mut passing,
            (one.from, one.to),
            &families(one.family),
            &one.allow,
            parts,
        );
        Ok::<_, ()>(())
    })
    .unwrap();
    passing
}

#[test]
fn what_a_changed_rule_adds_and_removes_is_listed() {
    let cluster = |peer: &str, port| {
        snapshot![
            pod("x/a").label("app", "a").ip("10.0.0.1"),
            pod("x/b").label("app", "b").ip("10.0.0.2"),
            pod("x/c").label("app", "c").ip("10.0.0.3"),
            policy("x/p").selects("app=c").ingress(
                accept()
                    .peer(pods_in("x", peer))
                    .peer(block("192.0.2.0/24", &[]))
                    .port(Protocol::TCP, 80)
                    .port(Protocol::TCP, port)
            ),
        ]
    };
    let diff = Compiled::new([cluster("app=a", 443), cluster("app=b", 8443)]).json(By::Pod);
    assert_eq!(
        lines(&diff["added"]),
        [
            "192.0.2.0-192.0.2.255 → x/c any {\"TCP\":[[8443,8443]]}",
            "x/b → x/c any {\"TCP\":[[80,80],[8443,8443]]}"
        ]
    );
    assert_eq!(
        lines(&diff["removed"]),
        [
            "192.0.2.0-192.0.2.255 → x/c any {\"TCP\":[[443,443]]}",
            "x/a → x/c any {\"TCP\":[[80,80],[443,443]]}"
        ]
    );
    assert_eq!(diff["endpoints"].as_array().unwrap().len(), 4);
    assert_eq!(diff["policies"][0]["change"], json!("changed"));
}

#[test]
fn what_only_one_side_has_is_said() {
    let old = snapshot![pod("x/a").ip("10.0.0.1"), pod("x/gone").ip("10.0.0.2")];
    let new = snapshot![
        pod("x/a").ip("10.0.0.1"),
        pod("x/new").label("app", "new").ip("10.0.0.3"),
        policy("x/p")
            .selects("app=new")
            .isolates(picket_policy::Direction::Ingress),
    ];
    let diff = Compiled::new([old, new]).json(By::Pod);
    let space = "0.0.0.0-10.0.0.0";
    assert_eq!(
        lines(&diff["added"]),
        [
            format!("x/new → {space} any \"all\""),
            "x/new → x/a any \"all\"".to_owned()
        ]
    );
    assert_eq!(
        lines(&diff["removed"]),
        [
            format!("{space} → x/gone any \"all\""),
            "x/a → x/gone any \"all\"".to_owned(),
            format!("x/gone → {space} any \"all\""),
            "x/gone → x/a any \"all\"".to_owned()
        ]
    );
    let only: Vec<_> = diff["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["only"])
        .collect();
    assert_eq!(only, [&Value::Null, &Value::Null, &json!("old"), &json!("new")]);
}

#[test]
fn a_workload_whose_pods_are_new_ones_did_not_change() {
    let cluster = |suffix: &str, ip| {
        snapshot![
            pod(&format!("x/web-{suffix}"))
                .label("app", "web")
                .ip(ip)
                .owned_by("Deployment", "web"),
            pod("x/db").label("app", "db").ip("10.0.0.9"),
            policy("x/p")
                .selects("app=db")
                .ingress(accept().peer(pods_in("x", "app=web"))),
        ]
    };
    let both = Compiled::new([cluster("one", "10.0.0.1"), cluster("two", "10.0.0.2")]);
    assert!(both.diff(By::Workload).is_empty());
    assert!(!both.diff(By::Pod).is_empty());
}

#[test]
fn a_node_and_its_pods_are_compared_too() {
    let cluster = |on| {
        snapshot![
            pod("x/a").ip("10.0.0.1").on(on),
            node("n1").ip("10.9.0.1"),
            node("n2").ip("10.9.0.2"),
            policy("x/p").isolates(picket_policy::Direction::Ingress),
        ]
    };
    let diff = Compiled::new([cluster("n1"), cluster("n2")]).json(By::Pod);
    assert_eq!(lines(&diff["added"]), ["n2 → x/a any \"all\""]);
    assert_eq!(lines(&diff["removed"]), ["n1 → x/a any \"all\""]);
}

/// Two clusters with policies of every dialect, as one network of both sees them.
fn pair(max_policies: usize) -> impl Strategy<Value = [Snapshot; 2]> {
    let cluster = || generate::snapshot(Shape::Dialects, max_policies);
    ([cluster(), cluster()], any::<Option<Index>>()).prop_map(|(pair, network)| {
        let attached = pair[0].attached_networks();
        let others: Vec<_> = attached.into_keys().cloned().collect();
        match network.filter(|_| !others.is_empty()) {
            Some(index) => pair.map(|snapshot| snapshot.on(index.get(&others))),
            None => pair,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn added_and_removed_make_one_map_the_other(
        [old, new] in prop_oneof![
            [generate::snapshot(Shape::Tiered, 4), generate::snapshot(Shape::Tiered, 4)],
            pair(6),
        ],
        same_cluster in any::<bool>(),
    ) {
        // Half of the time only the policies change.
        let new = if same_cluster { Snapshot { policies: new.policies, ..old.clone() } } else { new };
        let both = Compiled::new([old, new]);
        let diff = both.diff(By::Pod);
        let maps = both.versions().map(|version| Map::new(version.snapshot, version.program, By::Pod));
        let parts = parts(&maps, &diff);
        let [mut before, after] = maps.each_ref().map(|map| passing(map, &parts));
        for (key, allow) in changed(&diff, Only::Old, &parts) {
            let passed = before.entry(key).or_default();
            *passed = passed.difference(&allow);
        }
        for (key, allow) in changed(&diff, Only::New, &parts) {
            let passed = before.entry(key).or_default();
            *passed = passed.union(&allow);
        }
        let there = |map: &Map<'_>, name: &str, family| {
            map.endpoints().iter().any(|one| has(one, family) && names(one, &parts).iter().any(|own| own == name))
        };
        let [_, map] = &maps;
        let kept = |passing: Passing| -> Passing {
            let kept = passing.into_iter().filter(|((from, to, family), allow)| {
                !allow.is_empty() && there(map, from, *family) && there(map, to, *family)
            });
            kept.collect()
        };
        prop_assert_eq!(kept(before), kept(after));
    }

    #[test]
    fn there_is_no_difference_exactly_when_every_packet_is_judged_alike(
        (old, others) in prop_oneof![
            (generate::snapshot(Shape::Tiered, 3), generate::policies(Shape::Tiered, 3)),
            pair(5).prop_map(|[old, new]| {
                let others = new.policies.values().map(|policy| Policy::clone(policy)).collect();
                (old, others)
            }),
        ],
        kept in 0usize..4,
    ) {
        let old = as_pods(&old);
        // Some policies stay; sometimes all do, and sometimes others say the same.
        let kept = old.policies.values().take(kept).map(|policy| Object::Policy(Policy::clone(policy)));
        let bare = Snapshot { policies: BTreeMap::new(), ..old.clone() };
        let new = with(&bare, kept.chain(others.iter().cloned().map(Object::Policy)));
        let renamed = new.policies.values().map(|policy| {
            let object = ObjectRef { name: format!("{}-new", policy.object.name).into(), ..policy.object.clone() };
            Object::Policy(Policy { object, ..Policy::clone(policy) })
        });
        let merged = with(&old, renamed);
        let semantics = Semantics::default();
        // A node is allowed what each of its addresses is.
        let mut verdicts: BTreeMap<_, [bool; 2]> = BTreeMap::new();
        for flow in flows::representative_flows(&merged) {
            if flow.source == flow.destination {
                continue;
            }
            let name = |end: &Endpoint| match end {
                Endpoint::Node { name, .. } => format!("node {name}"),
                other => format!("{other:?}"),
            };
            let [from, to] = [&flow.source, &flow.destination].map(name);
            let key = (from, to, flow.family, flow.protocol, flow.port);
            let all = verdicts.entry(key).or_insert([true; 2]);
            for (all, snapshot) in all.iter_mut().zip([&old, &new]) {
                *all &= picket_reference::judge(snapshot, &semantics, &flow).verdict().is_allow();
            }
        }
        let alike = verdicts.values().all(|[one, other]| one == other);
        let both = Compiled::new([old, new]);
        prop_assert_eq!(both.diff(By::Pod).is_empty(), alike);
    }
}

/// A snapshot with a pod for each workload: no flow of one pod says what two pods of a workload may exchange.
fn as_pods(snapshot: &Snapshot) -> Snapshot {
    let pods = snapshot.pods.values().map(|pod| {
        let mut pod = Pod::clone(pod);
        if pod.is_workload() {
            pod.object.name = format!("{}-{}", pod.object.name, pod.object.kind).into();
            pod.object.kind = "Pod".into();
        }
        (pod.object.clone(), Arc::new(pod))
    });
    Snapshot {
        pods: pods.collect(),
        ..snapshot.clone()
    }
}

/// A snapshot with further objects.
fn with(snapshot: &Snapshot, objects: impl Iterator<Item = Object>) -> Snapshot {
    let more: Snapshot = objects.collect();
    let mut policies = snapshot.policies.clone();
    policies.extend(more.policies);
    Snapshot {
        policies,
        ..snapshot.clone()
    }
}
