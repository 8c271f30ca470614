//! What is shown depends on the objects and not on how they came to be.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_cluster::{Event, Pod, Snapshot, Store};
use picket_policy::{Diagnostic, ObjectRef};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Changes, Facts, Found, Kind, Life, Live, Name, Packed, PolicyText, Step, Uid};
use crate::{ObjectVersion, Text};

/// The kinds that the tests have.
const KINDS: [Kind; 6] = [
    "Namespace",
    "Node",
    "Service",
    "NetworkAttachmentDefinition",
    "NetworkPolicy",
    "Pod",
];

fn name(object: &Value) -> Name {
    let part = |path| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    Name {
        namespace: part("/metadata/namespace").into(),
        name: part("/metadata/name").into(),
    }
}

fn kind(object: &Value) -> Kind {
    KINDS.into_iter().find(|kind| object["kind"] == *kind).unwrap()
}

fn found(object: &Value) -> Found {
    let metadata = &object["metadata"];
    let life = Life {
        created: metadata["creationTimestamp"].as_str().unwrap_or_default().into(),
        deleting: !metadata["deletionTimestamp"].is_null(),
    };
    let facts = if kind(object) == "NetworkPolicy" {
        let text = PolicyText {
            plural: "networkpolicies",
            uid: Uid::new(object["metadata"]["uid"].as_str().unwrap_or_default()),
            version: ObjectVersion {
                generation: object["metadata"]["generation"].as_i64(),
                ..ObjectVersion::default()
            },
            object: Packed::new(&object.to_string()),
        };
        Facts::Policy(text, None)
    } else {
        let text = Text {
            name: format!("{} {:?}", kind(object), name(object)).into(),
            bytes: object.to_string().into_bytes(),
        };
        let facts = Facts::read(&text, life).unwrap();
        facts.of_whole(&object.to_string())
    };
    Found {
        name: name(object),
        facts,
    }
}

/// A pod with one address, written as short as can be.
fn pod(at: &str, node: &str, address: &str, created: &str) -> Value {
    let (namespace, name) = at.split_once('/').unwrap();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{name}-{created}"), "creationTimestamp": created},
        "spec": {"nodeName": node},
        "status": {"podIP": address},
    })
}

fn node(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    })
}

fn service(at: &str, uid: &str, address: &str) -> Value {
    let (namespace, name) = at.split_once('/').unwrap();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "spec": {"clusterIP": address, "selector": {"app": uid}, "ports": [{"port": 80}]},
    })
}

fn policy(at: &str, spec: &Value) -> Value {
    let (namespace, name) = at.split_once('/').unwrap();
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": namespace, "name": name, "uid": "u"},
        "spec": spec,
    })
}

/// Objects that are followed, and what is shown of them.
struct Followed {
    live: Live,
    store: Store,
    /// What was said in the last step.
    last: Changes,
    /// What is wrong with objects, by their names alone.
    wrong: Wrong,
}

impl Followed {
    fn new(node: Option<&str>) -> Self {
        Self {
            live: Live::new(node.map(Into::into)),
            store: Store::new(),
            last: Changes::default(),
            wrong: Wrong::new(),
        }
    }

    fn step(&mut self, kind: Kind, step: Step) {
        self.last = self.live.step(kind, step);
        for event in &self.last.events {
            self.store.apply(event.clone());
        }
        for (object, diagnostics) in &self.last.diagnoses {
            let named = ObjectRef::new(&object.kind, &object.namespace, &object.name);
            if diagnostics.is_empty() {
                self.wrong.remove(&named);
            } else {
                self.wrong.insert(named, diagnostics.clone());
            }
        }
    }

    fn set(&mut self, object: &Value) {
        self.step(kind(object), Step::Apply(found(object)));
    }

    fn delete(&mut self, object: &Value) {
        self.step(kind(object), Step::Delete(name(object)));
    }

    fn pod(&self, at: &str) -> Option<Arc<Pod>> {
        let (namespace, name) = at.split_once('/').unwrap();
        self.store.snapshot().pod("Pod", namespace, name).cloned()
    }

    /// The addresses of a pod on secondary networks.
    fn attached(&self, at: &str) -> Vec<String> {
        let pod = self.pod(at);
        let attachments = pod.iter().flat_map(|pod| &pod.attachments);
        let addresses = attachments.flat_map(|attachment| attachment.addresses.iter().collect::<Vec<_>>());
        addresses.map(|address| address.to_string()).collect()
    }

    /// The pods that have an address, by name.
    fn addressed(&self) -> Vec<String> {
        let snapshot = self.store.snapshot();
        let pods = snapshot.pods.values().filter(|pod| !pod.addresses.is_empty());
        pods.map(|pod| pod.id()).collect()
    }

    fn policies(&self) -> Vec<String> {
        let snapshot = self.store.snapshot();
        snapshot.policies.keys().map(ObjectRef::to_string).collect()
    }
}

#[test]
fn the_definition_of_a_network_is_news_when_its_wire_or_its_plugin_is_another() {
    let network = |config: &str| {
        json!({
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {"namespace": "x", "name": "net"},
            "spec": {"config": config},
        })
    };
    let mut followed = Followed::new(None);
    for (config, wire, events, plugins) in [
        (
            r#"{"type": "macvlan", "master": "eth1"}"#,
            Some("macvlan/eth1"),
            1,
            1,
        ),
        (
            r#"{"type": "macvlan", "master": "eth1", "mtu": 1400}"#,
            Some("macvlan/eth1"),
            0,
            0,
        ),
        (
            r#"{"type": "macvlan", "master": "eth2"}"#,
            Some("macvlan/eth2"),
            1,
            0,
        ),
        (r#"{"type": "macvlan", "master": 2}"#, None, 1, 0),
        (r#"{"type": "sriov"}"#, None, 0, 1),
        ("garbage", None, 0, 1),
        (r#"{"type": "bridge"}"#, Some("bridge/cni0"), 1, 1),
    ] {
        followed.set(&network(config));
        let snapshot = followed.store.snapshot();
        let [known] = snapshot.networks.values().collect::<Vec<_>>()[..] else {
            panic!("{:?}", snapshot.networks);
        };
        assert_eq!(
            known.as_ref().map(ToString::to_string).as_deref(),
            wire,
            "{config}"
        );
        let said = (followed.last.events.len(), followed.last.plugins.len());
        assert_eq!(said, (events, plugins), "{config}");
    }
    followed.delete(&network(""));
    assert!(followed.store.snapshot().networks.is_empty());
    assert_eq!((followed.last.events.len(), followed.last.plugins.len()), (1, 1));
}

#[test]
fn an_address_is_its_nodes_or_the_own_pods_or_the_newest_pods() {
    let mut followed = Followed::new(Some("here"));
    followed.set(&pod("x/old", "there", "10.0.0.1", "2026-01-01T00:00:00Z"));
    assert_eq!(followed.addressed(), ["x/old"]);
    followed.set(&pod("x/new", "there", "10.0.0.1", "2026-01-02T00:00:00Z"));
    assert_eq!(followed.addressed(), ["x/new"]);
    assert_eq!(
        followed.last.diagnoses,
        [],
        "of pods elsewhere nothing is said here"
    );
    followed.set(&pod("x/own", "here", "10.0.0.1", "2025-01-01T00:00:00Z"));
    assert_eq!(followed.addressed(), ["x/own"]);
    followed.set(&node("there", "10.0.0.1"));
    assert_eq!(followed.addressed(), [""; 0]);
    let [(object, diagnostics)] = followed.last.diagnoses.as_slice() else {
        panic!("{:?}", followed.last);
    };
    assert_eq!(object.to_string(), "Pod x/own");
    assert_eq!(
        diagnostics[0].message,
        "Pod x/own has the address `10.0.0.1`, which a node has"
    );
    followed.delete(&node("there", ""));
    assert_eq!(followed.addressed(), ["x/own"]);
    assert!(followed.last.diagnoses[0].1.is_empty(), "{:?}", followed.last);
    followed.delete(&pod("x/own", "", "", ""));
    followed.delete(&pod("x/new", "", "", ""));
    assert_eq!(followed.addressed(), ["x/old"]);
}

/// A pod with these addresses on a secondary network.
fn attached(at: &str, node: &str, addresses: &[&str], created: &str) -> Value {
    let mut pod = pod(at, node, "", created);
    let status = json!([{"name": "net", "interface": "net1", "ips": addresses}]);
    pod["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/network-status": status.to_string()});
    pod
}

#[test]
fn an_address_on_a_network_is_that_of_the_pod_created_first_and_the_others_lose_that_one_alone() {
    let mut followed = Followed::new(Some("here"));
    let addresses = Followed::attached;
    let both = ["10.1.0.1", "fd00::1"];
    followed.set(&attached("x/victim", "there", &both, "2026-01-01T00:00:00Z"));
    let mut forger = attached(
        "x/forger",
        "here",
        &["10.1.0.1", "fd00::2"],
        "2026-01-02T00:00:00Z",
    );
    followed.set(&forger);
    assert_eq!(addresses(&followed, "x/victim"), both);
    assert_eq!(addresses(&followed, "x/forger"), ["fd00::2"]);
    let [(object, diagnostics)] = followed.last.diagnoses.as_slice() else {
        panic!("{:?}", followed.last);
    };
    assert_eq!(object.to_string(), "Pod x/forger");
    assert_eq!(
        (diagnostics[0].field.as_str(), diagnostics[0].message.as_str()),
        (
            "metadata.annotations",
            "Pod x/forger has the address `10.1.0.1` on network `x/net`, which Pod x/victim has"
        )
    );
    // One that is going has given its address back, or will.
    let mut victim = attached("x/victim", "there", &both, "2026-01-01T00:00:00Z");
    victim["metadata"]["deletionTimestamp"] = json!("2026-01-03T00:00:00Z");
    followed.set(&victim);
    assert_eq!(addresses(&followed, "x/victim"), ["fd00::1"]);
    assert_eq!(addresses(&followed, "x/forger"), ["10.1.0.1", "fd00::2"]);
    assert!(followed.last.diagnoses[0].1.is_empty(), "{:?}", followed.last);
    forger["metadata"]["deletionTimestamp"] = json!("2026-01-03T00:00:00Z");
    followed.set(&forger);
    assert_eq!(addresses(&followed, "x/victim"), both);
    // Who does not say how old it is is not older for it.
    followed.set(&attached("x/nameless", "there", &["fd00::1"], ""));
    followed.set(&attached("x/victim", "there", &both, "2026-01-01T00:00:00Z"));
    assert_eq!(addresses(&followed, "x/victim"), both);
    assert_eq!(addresses(&followed, "x/nameless"), [""; 0]);
    // Who was created before others takes what is theirs, whenever it comes to claim it.
    followed.set(&attached(
        "x/first",
        "there",
        &["10.1.0.9"],
        "2025-01-01T00:00:00Z",
    ));
    assert_eq!(addresses(&followed, "x/victim"), both);
    followed.set(&attached("x/first", "there", &both, "2025-01-01T00:00:00Z"));
    assert_eq!(addresses(&followed, "x/first"), both);
    assert_eq!(addresses(&followed, "x/victim"), [""; 0]);
}

#[test]
fn who_has_lost_an_address_is_told_to_whom_when_that_changes() {
    let mut followed = Followed::new(Some("here"));
    let of = |name: &str, node: &str, created: &str| attached(name, node, &["10.1.0.1"], created);
    let told = |followed: &Followed| {
        let messages = followed.wrong.values().flatten().map(|found| &found.message);
        messages
            .map(|message| message.rsplit_once(", ").unwrap().1.to_owned())
            .collect::<Vec<_>>()
    };
    followed.set(&of("x/own", "here", "2026-01-03T00:00:00Z"));
    assert_eq!(told(&followed), [""; 0]);
    followed.set(&of("x/b", "there", "2026-01-02T00:00:00Z"));
    assert_eq!(told(&followed), ["which Pod x/b has"]);
    followed.set(&of("x/a", "there", "2026-01-01T00:00:00Z"));
    assert_eq!(told(&followed), ["which Pod x/a has"]);
    followed.delete(&of("x/a", "", ""));
    assert_eq!(told(&followed), ["which Pod x/b has"]);
    followed.delete(&of("x/b", "", ""));
    assert_eq!(told(&followed), [""; 0]);
    assert_eq!(followed.attached("x/own"), ["10.1.0.1"]);
}

#[test]
fn a_pod_without_a_node_claims_nothing_on_a_network() {
    for node in [None, Some("here")] {
        let mut followed = Followed::new(node);
        let mut squatter = attached("x/squatter", "there", &["10.1.0.1"], "2026-01-01T00:00:00Z");
        squatter["spec"] = json!({});
        followed.set(&squatter);
        followed.set(&attached(
            "x/victim",
            "here",
            &["10.1.0.1"],
            "2026-01-02T00:00:00Z",
        ));
        assert_eq!(followed.attached("x/squatter"), [""; 0]);
        assert_eq!(followed.attached("x/victim"), ["10.1.0.1"]);
        assert!(followed.wrong.is_empty(), "{:?}", followed.wrong);
        squatter["spec"] = json!({"nodeName": "there"});
        followed.set(&squatter);
        assert_eq!(followed.attached("x/squatter"), ["10.1.0.1"]);
        assert_eq!(followed.wrong.len(), 1, "{:?}", followed.wrong);
    }
}

#[test]
fn of_a_pod_that_is_another_nodes_now_nothing_is_told() {
    let mut followed = Followed::new(Some("here"));
    let first = attached("x/first", "there", &["10.1.0.1"], "2026-01-01T00:00:00Z");
    followed.set(&first);
    for node in ["here", "there"] {
        // One that was made anew may be elsewhere.
        followed.set(&attached("x/late", node, &["10.1.0.1"], "2026-01-02T00:00:00Z"));
        let [(object, diagnostics)] = followed.last.diagnoses.as_slice() else {
            panic!("{:?}", followed.last);
        };
        assert_eq!(object.to_string(), "Pod x/late");
        assert_eq!(diagnostics.is_empty(), node == "there");
    }
}

#[test]
fn of_a_crowd_at_one_address_only_those_are_looked_at_for_whom_something_changes() {
    let on_network = |at: &str, created: &str| attached(at, "there", &["10.1.0.1", "fd00::1"], created);
    let on_cluster = |at: &str, created: &str| pod(at, "there", "10.0.0.1", created);
    let either = |is_network| {
        move |at: &str, created: &str| {
            if is_network {
                on_network(at, created)
            } else {
                on_cluster(at, created)
            }
        }
    };
    for of in [true, false].map(either) {
        let mut followed = Followed::new(Some("here"));
        let mut step = |happens: &dyn Fn(&mut Followed), what: &str| {
            let before = followed.live.pods.looked_at;
            happens(&mut followed);
            let looked_at = followed.live.pods.looked_at - before;
            assert!(looked_at <= 3, "{what}: {looked_at}");
            let events = &followed.last.events;
            assert!(events.len() <= 3, "{what}: {events:?}");
            followed.store.snapshot().pods.len()
        };
        // From both ends of the order to the middle, so that some have the address when they come and others never.
        let at = |number: usize| format!("x/{number:04}");
        for number in 0..500 {
            for number in [number, 999 - number] {
                let created = format!("2026-01-01T00:{:02}:{:02}Z", number / 60, number % 60);
                let pod = of(&at(number), &created);
                let shown = step(&|followed| followed.set(&pod), "comes");
                assert_eq!(shown, 1, "one has it");
            }
        }
        for number in [0, 1, 500, 998, 999] {
            let mut pod = of(&at(number), "2026-01-01T01:00:00Z");
            step(&|followed| followed.set(&pod), "is made again");
            pod["metadata"]["labels"] = json!({"app": "a"});
            step(&|followed| followed.set(&pod), "has other labels");
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-03T00:00:00Z");
            step(&|followed| followed.set(&pod), "is being deleted");
            let shown = step(&|followed| followed.delete(&pod), "is gone");
            assert_eq!(shown, 1, "one has it");
        }
    }
}

#[test]
fn an_address_of_a_node_that_cannot_be_read_is_told() {
    let mut followed = Followed::new(Some("here"));
    for (address, mut told) in [("10.0.0.1", 0), ("10.0.0.l", 1), ("10.0.0.I", 1), ("10.0.0.1", 0)] {
        followed.set(&node("there", address));
        for (object, diagnostics) in &followed.last.diagnoses {
            assert_eq!(object.to_string(), "Node there");
            let names = |diagnostic: &Diagnostic| diagnostic.message.contains(address);
            assert!(diagnostics.iter().all(names), "{diagnostics:?}");
            told -= diagnostics.len();
        }
        assert_eq!(told, 0, "{address}");
    }
    followed.set(&node("there", "10.0.0.l"));
    followed.delete(&node("there", ""));
    assert_eq!(
        followed.last.diagnoses,
        [(ObjectRef::new("Node", "", "there"), Vec::new())]
    );
}

#[test]
fn policies_are_read_where_they_may_select_a_pod_of_the_node() {
    let mut followed = Followed::new(Some("here"));
    let broken = json!({"podSelector": {}, "ingress": 7});
    followed.set(&policy("x/a", &json!({"podSelector": {}})));
    followed.set(&policy("x/b", &broken));
    followed.set(&policy("xx/c", &json!({"podSelector": {}})));
    assert_eq!((followed.policies().len(), followed.last.diagnoses.len()), (0, 0));
    let own = pod("x/p", "here", "10.0.0.1", "");
    followed.set(&own);
    assert_eq!(followed.policies(), ["NetworkPolicy x/a", "NetworkPolicy x/b"]);
    let is_pod = |event: &Event| matches!(event, Event::Apply(object) if object.object_ref().kind == "Pod");
    assert_eq!(
        followed.last.events.iter().position(is_pod),
        Some(followed.last.events.len() - 1),
        "the pod comes after its policies: {:?}",
        followed.last.events
    );
    let [(object, _)] = followed.last.diagnoses.as_slice() else {
        panic!("{:?}", followed.last.diagnoses);
    };
    assert_eq!(object.name, "b");
    followed.set(&pod("x/p", "there", "10.0.0.1", ""));
    assert_eq!(followed.policies().len(), 0);
    assert_eq!(followed.last.diagnoses, [(object_ref("b"), Vec::new())]);
}

#[test]
fn of_pods_of_other_nodes_no_more_is_kept_than_policies_see() {
    let mut followed = Followed::new(Some("here"));
    for (node, is_own) in [("there", false), ("here", true), ("there", false)] {
        let mut whole = pod("x/p", node, "10.0.0.1", "");
        whole["metadata"]["uid"] = "u".into();
        whole["metadata"]["annotations"] =
            json!({"kubernetes.io/config.hash": "h", "picket.dev/vpp-interface": "tap1"});
        whole["spec"]["containers"] =
            json!([{"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}]);
        followed.set(&whole);
        let known = followed.pod("x/p").expect("a pod");
        let only_own = |text: &'static str| is_own.then_some(text);
        assert_eq!(known.object.uid, only_own("u").unwrap_or_default(), "{node}");
        assert_eq!(known.static_uid(), only_own("h"), "{node}");
        assert_eq!(known.vpp_interface(), only_own("tap1"), "{node}");
        assert_eq!(known.ports.len(), 1, "{node}");
        assert_eq!(known.addresses.iter().count(), 1, "{node}");
    }
}

#[test]
fn versions_of_policies_are_told_before_they_hold_and_also_of_those_that_cannot_be_read() {
    let mut followed = Followed::new(None);
    let version = |generation| {
        Some(ObjectVersion {
            generation: Some(generation),
            ..ObjectVersion::default()
        })
    };
    let of = |uid: &str, generation: i64, spec: Value| {
        let mut policy = policy("x/a", &spec);
        policy["metadata"]["uid"] = uid.into();
        policy["metadata"]["generation"] = generation.into();
        policy
    };
    let good = || json!({"podSelector": {}});
    for (step, told, holds) in [
        (Some(of("u", 1, good())), vec![("u", version(1))], "u"),
        (Some(of("u", 2, Value::Null)), vec![("u", version(2))], "u"),
        // Another of this name, of which nobody can tell what it says either, leaves what holds.
        (
            Some(of("v", 1, Value::Null)),
            vec![("u", None), ("v", version(1))],
            "u",
        ),
        (Some(of("v", 2, good())), vec![("v", version(2))], "v"),
        (None, vec![("v", None)], ""),
    ] {
        match &step {
            Some(policy) => followed.set(policy),
            None => followed.delete(&of("", 0, Value::Null)),
        }
        let uids = |object: &ObjectRef| object.uid.to_string();
        let versions = followed.last.versions.iter();
        let versions: Vec<_> = versions
            .map(|(object, version)| (uids(object), version.clone()))
            .collect();
        let told: Vec<_> = told
            .iter()
            .map(|(uid, version)| ((*uid).to_owned(), version.clone()))
            .collect();
        assert_eq!(versions, told, "{step:?}");
        let snapshot = followed.store.snapshot();
        let shown: String = snapshot.policies.keys().map(uids).collect();
        assert_eq!(shown, holds, "{step:?}");
    }
}

fn object_ref(name: &str) -> ObjectRef {
    ObjectRef::new("NetworkPolicy", "x", name)
}

#[test]
fn a_policy_that_no_longer_says_what_it_selects_holds_on_as_it_was() {
    let mut followed = Followed::new(None);
    followed.set(&policy("x/a", &json!({"podSelector": {}})));
    let before = followed.store.snapshot();
    followed.set(&policy("x/a", &Value::Null));
    assert_eq!(followed.store.snapshot(), before);
    let with_uid = ObjectRef {
        uid: "u".into(),
        ..object_ref("a")
    };
    assert_eq!(followed.last.diagnoses[0].0, with_uid);
    followed.delete(&policy("x/a", &Value::Null));
    assert_eq!(followed.policies().len(), 0);
    assert_eq!(followed.last.diagnoses, [(object_ref("a"), Vec::new())]);
}

#[test]
fn a_new_list_replaces_the_old_one_at_its_end() {
    let mut followed = Followed::new(None);
    let [one, two, three] = ["x/1", "x/2", "x/3"].map(|at| pod(at, "here", "10.0.0.1", at));
    followed.step("Pod", Step::Begin);
    followed.step("Pod", Step::Listed(found(&one)));
    assert!(
        followed.pod("x/1").is_some(),
        "the first list is taken in as it comes"
    );
    // The server is away for a moment, and a pod has gone meanwhile.
    followed.step("Pod", Step::Begin);
    followed.step("Pod", Step::Listed(found(&two)));
    followed.step("Pod", Step::End);
    assert!(followed.pod("x/1").is_none());
    let before = followed.store.snapshot();
    followed.step("Pod", Step::Begin);
    followed.step("Pod", Step::Listed(found(&three)));
    assert_eq!(followed.store.snapshot(), before);
    followed.step("Pod", Step::Begin);
    assert_eq!(followed.store.snapshot(), before);
    followed.step("Pod", Step::Listed(found(&two)));
    followed.step("Pod", Step::End);
    assert_eq!(followed.last.events, [], "nothing changed");
    followed.step("Pod", Step::Gone);
    assert_eq!(followed.store.snapshot().pods.len(), 0);
}

#[test]
fn a_pod_that_is_made_again_under_its_name_is_another() {
    let mut followed = Followed::new(Some("here"));
    followed.set(&pod("x/1", "here", "10.0.0.1", "1"));
    followed.set(&pod("x/1", "here", "10.0.0.1", "2"));
    let [Event::Delete(before), Event::Apply(after)] = followed.last.events.as_slice() else {
        panic!("{:?}", followed.last.events);
    };
    assert_eq!((&*before.uid, &*after.object_ref().uid), ("1-1", "1-2"));
    assert_eq!(followed.store.snapshot().pods.len(), 1);
}

#[test]
fn of_a_service_its_addresses_are_known() {
    let mut followed = Followed::new(Some("here"));
    let events = |followed: &Followed| followed.last.events.len();
    followed.set(&service("x/a", "1", "10.96.0.1"));
    let known = followed
        .store
        .snapshot()
        .services
        .values()
        .next()
        .cloned()
        .unwrap();
    assert_eq!(known.object.to_string(), "Service x/a");
    assert_eq!(known.addresses, ["10.96.0.1".parse().unwrap()].into());
    assert!(
        known.selector.iter().len() == 0 && known.ports.is_empty(),
        "{known:?}"
    );
    // What no address says is no news.
    let mut other = service("x/a", "1", "10.96.0.1");
    other["spec"]["ports"] = json!([{"port": 81}]);
    followed.set(&other);
    assert_eq!(events(&followed), 0);
    followed.set(&service("x/a", "1", "10.96.0.2"));
    assert_eq!(events(&followed), 1);
    // One of the same name that was made anew is another.
    followed.set(&service("x/a", "2", "10.96.0.2"));
    assert_eq!(
        (events(&followed), followed.store.snapshot().services.len()),
        (2, 1)
    );
    followed.set(&service("x/a", "2", "10.96.0.l"));
    let [(object, diagnostics)] = followed.last.diagnoses.as_slice() else {
        panic!("{:?}", followed.last.diagnoses);
    };
    assert_eq!(object.to_string(), "Service x/a");
    assert!(diagnostics[0].message.contains("10.96.0.l"), "{diagnostics:?}");
    followed.delete(&service("x/a", "", ""));
    assert_eq!(followed.store.snapshot().services.len(), 0);
    assert!(followed.last.diagnoses[0].1.is_empty(), "{:?}", followed.last);
}

/// Several of the few addresses of the few networks are claimed by several of these at any time.
fn any_pod() -> impl Strategy<Value = Value> {
    let place = (
        0..2u8,
        0..4u8,
        option::weighted(0.8, 0..2u8),
        option::of(0..3u8),
        0..3u8,
    );
    let interface = (any::<bool>(), 0..2u8, 0..2u8);
    let interfaces = proptest::collection::vec(interface, 0..3);
    let rest = (any::<bool>(), 0..4u8, 0..3u8, interfaces, 0..4u8);
    (place, rest).prop_map(
        |((namespace, name, node, address, created), (own_network, phase, label, interfaces, deleted))| {
            let address = address.map(|address| format!("10.0.0.{address}"));
            let status = interfaces.iter().enumerate().map(|(at, (everywhere, v4, v6))| {
                let network = if *everywhere { "ns0/net" } else { "net" };
                let addresses = [format!("192.168.0.{v4}"), format!("fd00::{v6}")];
                json!({"name": network, "interface": format!("net{at}"), "ips": addresses})
            });
            let status = json!(status.collect::<Vec<_>>()).to_string();
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "namespace": format!("ns{namespace}"),
                    "name": format!("pod{name}"),
                    "creationTimestamp": created.to_string(),
                    "deletionTimestamp": (deleted == 0).then_some("2026-01-01T00:00:00Z"),
                    "labels": {"label": label.to_string()},
                    "annotations": {
                        "k8s.v1.cni.cncf.io/network-status": status,
                        "picket.dev/vpp-interface": format!("tap{phase}"),
                    },
                },
                "spec": {"nodeName": node.map(|node| format!("node{node}")), "hostNetwork": !own_network && label == 0},
                "status": {
                    "podIP": address,
                    "hostIP": node.map(|node| format!("10.1.0.{node}")),
                    "phase": if phase == 0 { "Succeeded" } else { "Running" },
                },
            })
        },
    )
}

fn any_object() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => any_pod(),
        1 => (0..2u8, 0..4u8).prop_map(|(name, address)| node(&format!("node{name}"), &format!("10.0.0.{address}"))),
        2 => (0..2u8, 0..2u8, 0..4u8).prop_map(|(namespace, name, port)| {
            let spec = json!({"podSelector": {}, "ingress": [{"ports": [{"port": port}]}]});
            policy(&format!("ns{namespace}/{name}"), &spec)
        }),
        1 => (0..2u8, 0..2u8, 0..2u8, 0..3u8).prop_map(|(namespace, name, uid, address)| {
            let at = format!("ns{namespace}/{name}");
            service(&at, &uid.to_string(), &format!("10.96.0.{address}"))
        }),
        1 => (0..2u8, 0..2u8).prop_map(|(name, label)| json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": format!("ns{name}"), "labels": {"label": label.to_string()}},
        })),
    ]
}

#[derive(Clone, Debug)]
enum Happening {
    /// An object is now like this, whether it was before or not.
    Is(Value),
    /// The object of this kind and name goes, if there is one.
    Goes(Value),
    /// All this happens to objects of one kind while nobody looks; then there is a new list.
    Unseen(usize, Vec<(Value, bool)>),
}

fn any_happening() -> impl Strategy<Value = Happening> {
    let unseen = (
        0..KINDS.len(),
        proptest::collection::vec((any_object(), any::<bool>()), 0..6),
    );
    prop_oneof![
        3 => any_object().prop_map(Happening::Is),
        2 => any_object().prop_map(Happening::Goes),
        1 => unseen.prop_map(|(kind, objects)| Happening::Unseen(kind, objects)),
    ]
}

type Objects = BTreeMap<(Kind, Name), Value>;
type Wrong = BTreeMap<ObjectRef, Vec<Diagnostic>>;

/// What is shown, and what is told, of everything that is there, listed at once.
fn from_nothing(
    objects: &Objects,
    node: Option<&str>,
) -> (Arc<Snapshot>, BTreeMap<ObjectRef, Vec<Diagnostic>>) {
    let mut followed = Followed::new(node);
    for kind in KINDS {
        list(&mut followed, kind, objects);
    }
    (followed.store.snapshot(), followed.wrong)
}

fn list(followed: &mut Followed, kind: Kind, objects: &Objects) {
    followed.step(kind, Step::Begin);
    for ((_, _), object) in objects.iter().filter(|((of, _), _)| *of == kind) {
        followed.step(kind, Step::Listed(found(object)));
    }
    followed.step(kind, Step::End);
}

fn happen(happening: Happening, followed: &mut Followed, objects: &mut Objects) {
    match happening {
        Happening::Is(object) => {
            followed.set(&object);
            objects.insert((kind(&object), name(&object)), object);
        }
        Happening::Goes(object) => {
            if objects.remove(&(kind(&object), name(&object))).is_some() {
                followed.delete(&object);
            }
        }
        Happening::Unseen(which, changes) => {
            for (object, is) in changes
                .into_iter()
                .filter(|(object, _)| kind(object) == KINDS[which])
            {
                let key = (kind(&object), name(&object));
                if is {
                    objects.insert(key, object);
                } else {
                    objects.remove(&key);
                }
            }
            list(followed, KINDS[which], objects);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_shown_is_what_is_there(
        on_node in option::of(Just("node0")),
        happenings in proptest::collection::vec(any_happening(), 1..40),
    ) {
        let mut followed = Followed::new(on_node);
        let mut objects = Objects::new();
        for kind in KINDS {
            list(&mut followed, kind, &objects);
        }
        for happening in happenings {
            happen(happening, &mut followed, &mut objects);
            let (shown, wrong) = from_nothing(&objects, on_node);
            prop_assert_eq!(followed.store.snapshot(), shown);
            prop_assert_eq!(&followed.wrong, &wrong);
        }
    }
}
