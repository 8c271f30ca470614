//! Records say what their objects do; damaged ones are named and change nothing.

mod contiv;
mod too_large;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use picket_cluster::{Event, Object, Snapshot, Store, codes};
use picket_policy::{Diagnostic, ObjectRef, Policy, Position};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::key::{Key, Keys};
use super::message::{Header, WatchResponse};
use super::read::{Reader, Stop, heard};
use super::record::{self, Record};
use super::{Etcd, EtcdError, Intake, Reflection};
use crate::kube::item::Item;
use crate::kube::kind::Resource;
use crate::kube::listener::Kept;
use crate::kube::{Change, Health, Interest};
use crate::live::{Changes, Facts, Found, Life, Live, Name, Step};

/// What one who reads keys knows.
#[derive(Default)]
struct Known {
    store: Store,
    diagnoses: BTreeMap<ObjectRef, Vec<Diagnostic>>,
    is_complete: bool,
}

struct Reading {
    intake: Intake<Box<dyn FnMut(Change)>>,
    health: Health,
    known: Rc<RefCell<Known>>,
}

impl Reading {
    fn new() -> Self {
        let known = Rc::<RefCell<Known>>::default();
        let (shared, health) = (known.clone(), Health::default());
        let interest = Interest {
            services: true,
            ..Interest::default()
        };
        let sink: Box<dyn FnMut(Change)> = Box::new(move |change| shared.borrow_mut().take(change));
        Self {
            intake: Intake::new(interest, health.clone(), sink).unwrap(),
            health,
            known,
        }
    }

    /// Of these records, for which a reflector stands.
    fn of(records: &[(String, Vec<u8>)]) -> Self {
        let mut reading = Self::new();
        reading.intake.list(&listing(records)).unwrap();
        reading
    }

    fn hear(&mut self, key: &str, record: &[u8]) {
        let change = (key.into(), Some(record.to_owned()));
        self.intake.hear(&BTreeMap::from([change])).unwrap();
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.known.borrow().store.snapshot()
    }

    /// What is said of the only object of which a record cannot be read.
    fn unreadable(&self) -> Option<String> {
        let known = self.known.borrow();
        let found = known.diagnoses.values().flatten();
        let mut unreadable = found.filter(|found| found.code == codes::RECORD);
        let said = unreadable.next().map(|found| found.message.clone());
        assert!(unreadable.next().is_none(), "{:?}", known.diagnoses);
        said
    }
}

impl Known {
    fn take(&mut self, change: Change) {
        match change {
            Change::Events(events) => {
                for event in events {
                    self.is_complete |= event == Event::InitDone;
                    self.store.apply(event);
                }
            }
            Change::Diagnosis(mut object, diagnostics) => {
                object.uid = SmolStr::default();
                self.diagnoses.remove(&object);
                if !diagnostics.is_empty() {
                    self.diagnoses.insert(object, diagnostics);
                }
            }
            Change::Version(..) | Change::Plugin(..) | Change::Reached { .. } => {}
        }
    }
}

fn listing(records: &[(String, Vec<u8>)]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let progress = json!({
        "version": 1,
        "epoch": 1,
        "reflector": "one",
        "time": "2026-01-01T00:00:00Z",
        "pass": "2026-01-01T00:00:00Z",
        "kinds": {},
    });
    let progress = ("/picket/v1/progress".into(), progress.to_string().into_bytes());
    let records = records
        .iter()
        .map(|(key, record)| (key.clone().into_bytes(), record.clone()));
    records.chain([progress]).collect()
}

fn keys() -> Keys {
    Keys::new(Etcd::PREFIX).unwrap()
}

/// An object as the API server writes it, with its key.
fn whole(object: &Value) -> (Key, Resource, Box<RawValue>) {
    let part = |path| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let name = Name {
        namespace: part("/metadata/namespace").into(),
        name: part("/metadata/name").into(),
    };
    let key = Key::new(part("/kind"), name).unwrap();
    let kind = key.kind();
    let version = kind.versions[0];
    let resource = Resource { kind, version };
    assert_eq!(resource.api_version(), part("/apiVersion"));
    (key, resource, RawValue::from_string(object.to_string()).unwrap())
}

fn kept<T: Kept>(object: &Value) -> T {
    let (key, resource, raw) = whole(object);
    let item = Item::read(&resource, &raw, T::shape(resource.kind));
    T::read(&resource, key.name, item, &raw).unwrap()
}

/// The key of an object and the record of it.
fn written(object: &Value) -> (String, Vec<u8>) {
    (keys().of(&whole(object).0), kept::<Record>(object).bytes)
}

/// What becomes known of one object alone, wherever it stands in the text that says so.
fn said(kind: &'static str, found: Found) -> (Vec<Event>, Vec<String>, String) {
    let life = match &found.facts {
        Facts::Pod(facts) => facts.life.clone(),
        _ => Life::default(),
    };
    let mut live = Live::new(None);
    let Changes {
        events,
        diagnoses,
        plugins,
        ..
    } = live.step(kind, Step::Apply(found));
    let events = events.into_iter().map(|event| match event {
        Event::Apply(Object::Policy(policy)) => Event::Apply(Object::Policy(without_places(policy))),
        other => other,
    });
    let words = diagnoses.iter().flat_map(|(object, diagnostics)| {
        let words = |one: &Diagnostic| format!("{object} {} {} {}", one.code, one.field, one.message);
        diagnostics.iter().map(words).collect::<Vec<_>>()
    });
    (events.collect(), words.collect(), format!("{life:?} {plugins:?}"))
}

fn without_places(mut policy: Policy) -> Policy {
    policy.position = Position::unknown();
    for side in [&mut policy.ingress, &mut policy.egress] {
        for rule in &mut side.rules {
            rule.position = Position::unknown();
        }
    }
    policy
}

fn name() -> impl Strategy<Value = String> {
    "[a-z]([-a-z0-9]{0,8}[a-z0-9])?"
}

fn labels() -> impl Strategy<Value = Value> {
    btree_map("[a-z]{1,3}", "[a-zA-Z0-9]{0,3}", 0..3).prop_map(|labels| json!(labels))
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<[u8; 2]>().prop_map(|[a, b]| format!("10.0.{a}.{b}")),
        any::<u16>().prop_map(|last| format!("fd00::{last:x}")),
        Just("garbage".to_owned()),
    ]
}

fn ports() -> impl Strategy<Value = Value> {
    let port = prop_oneof![
        (0..70_000_u32).prop_map(|port| json!({"port": port})),
        name().prop_map(|name| json!({"port": name, "protocol": "UDP"})),
        Just(json!({"protocol": "NONE"})),
        Just(json!({"unheardOf": "\u{e4}\u{1f600}\n\"\\"})),
    ];
    vec(port, 0..3).prop_map(Value::Array)
}

fn rules(peers: &'static str) -> impl Strategy<Value = Value> {
    let peer = prop_oneof![
        labels().prop_map(|labels| json!({"podSelector": {"matchLabels": labels}})),
        labels().prop_map(|labels| json!({"namespaceSelector": {"matchLabels": labels}})),
        address().prop_map(|address| json!({"ipBlock": {"cidr": format!("{address}/16")}})),
    ];
    let rule = (vec(peer, 0..3), ports()).prop_map(move |(of, ports)| json!({peers: of, "ports": ports}));
    vec(rule, 0..3).prop_map(Value::Array)
}

fn policy_spec() -> impl Strategy<Value = Value> {
    (labels(), option::of(rules("from")), option::of(rules("to"))).prop_map(|(labels, ingress, egress)| {
        let mut spec = json!({"podSelector": {"matchLabels": labels}});
        for (side, rules) in [("ingress", ingress), ("egress", egress)] {
            if let Some(rules) = rules {
                spec[side] = rules;
            }
        }
        spec
    })
}

/// The kind and version of an object, its `spec` and its `status`.
fn content() -> impl Strategy<Value = (&'static str, &'static str, Value, Value)> {
    let policies = prop_oneof![
        Just(("networking.k8s.io/v1", "NetworkPolicy")),
        Just(("k8s.cni.cncf.io/v1beta2", "MultiNetworkPolicy")),
    ];
    let tiers = prop_oneof![
        Just(("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy")),
        Just(("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy")),
        Just(("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy")),
    ];
    let config = prop_oneof![
        Just(r#"{"type": "macvlan", "master": "eth1", "secret": 1}"#.to_owned()),
        Just(r#"{"plugins": [{"type": "bridge", "bridge": "br0", "vlan": 7}]}"#.to_owned()),
        Just("{".to_owned()),
    ];
    prop_oneof![
        Just(("v1", "Namespace", Value::Null, json!({"phase": "Active"}))),
        (vec(address(), 0..3), address()).prop_map(|(addresses, cidr)| {
            let of_node = |address| json!({"type": "InternalIP", "address": address});
            let addresses: Vec<_> = addresses.iter().map(of_node).collect();
            (
                "v1",
                "Node",
                json!({"podCIDR": format!("{cidr}/24")}),
                json!({"addresses": addresses}),
            )
        }),
        (name(), vec(address(), 0..3), any::<bool>(), ports()).prop_map(|(node, addresses, is_host, _)| {
            let ips: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            let container = json!({"image": "a", "ports": [{"name": "http", "containerPort": 80}]});
            let spec = json!({"nodeName": node, "hostNetwork": is_host, "containers": [container]});
            (
                "v1",
                "Pod",
                spec,
                json!({"phase": "Running", "podIPs": ips, "message": "well"}),
            )
        }),
        vec(address(), 0..3).prop_map(|addresses| {
            let spec =
                json!({"clusterIP": addresses.first(), "clusterIPs": addresses, "ports": [{"port": 80}]});
            ("v1", "Service", spec, json!({"loadBalancer": {}}))
        }),
        config.prop_map(|config| {
            let spec = json!({"config": config});
            (
                "k8s.cni.cncf.io/v1",
                "NetworkAttachmentDefinition",
                spec,
                Value::Null,
            )
        }),
        (policies, policy_spec()).prop_map(|((version, kind), spec)| (version, kind, spec, Value::Null)),
        (tiers, labels(), 0..2000).prop_map(|((version, kind), labels, priority)| {
            let subject = json!({"namespaces": {"matchLabels": labels}});
            let spec = json!({"tier": "Admin", "priority": priority, "subject": subject});
            (version, kind, spec, Value::Null)
        }),
    ]
}

/// An object as an API server might write it.
fn object() -> impl Strategy<Value = Value> {
    (content(), name(), name(), labels(), any::<u32>()).prop_map(
        |((api_version, kind, spec, status), namespace, name, labels, number)| {
            let mut object = json!({
                "apiVersion": api_version,
                "kind": kind,
                "metadata": {
                    "name": name,
                    "uid": format!("uid-{number}"),
                    "resourceVersion": number.to_string(),
                    "generation": number,
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": labels,
                    "deletionTimestamp": number.is_multiple_of(2).then_some("2026-01-02T00:00:00Z"),
                    "annotations": {"k8s.v1.cni.cncf.io/policy-for": "net", "other": "words"},
                    "managedFields": [{"manager": "somebody"}],
                },
            });
            let is_namespaced = match kind {
                "Namespace" | "Node" => false,
                _ => !api_version.starts_with("policy."),
            };
            if is_namespaced {
                object["metadata"]["namespace"] = json!(namespace);
            }
            for (field, value) in [("spec", spec), ("status", status)] {
                if !value.is_null() {
                    object[field] = value;
                }
            }
            object
        },
    )
}

proptest! {
    #[test]
    fn a_record_says_what_its_object_does(object in object()) {
        let (key, ..) = whole(&object);
        let kind = key.kind().name;
        let (text, bytes) = written(&object);
        prop_assert_eq!(keys().read(text.as_bytes()), Some(key.clone()));
        let read = record::read(&key, &bytes).unwrap();
        prop_assert_eq!(&read.name, &key.name);
        prop_assert_eq!(said(kind, read), said(kind, kept::<Found>(&object)));
    }

    #[test]
    fn a_damaged_record_is_named_or_says_something_of_its_object(
        object in object(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let (key, mut bytes) = written(&object);
        let mut reading = Reading::of(&[(key.clone(), bytes.clone())]);
        let before = reading.snapshot();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        reading.hear(&key, &bytes);
        is_named_or_of(&reading, &key, &object, &before)?;
        // The same where nothing is known of the object.
        let fresh = Reading::of(&[(key.clone(), bytes)]);
        is_named_or_of(&fresh, &key, &object, &Reading::new().snapshot())?;
        let is_complete = fresh.known.borrow().is_complete;
        prop_assert_eq!(is_complete, fresh.unreadable().is_none());
        prop_assert_eq!(fresh.health.kinds()["etcd"].trouble.is_some(), !is_complete);
    }

    #[test]
    fn a_record_that_breaks_off_is_named(object in object(), at in any::<prop::sample::Index>()) {
        let (key, bytes) = written(&object);
        let mut reading = Reading::of(&[(key.clone(), bytes.clone())]);
        let before = reading.snapshot();
        reading.hear(&key, &bytes[..at.index(bytes.len())]);
        prop_assert!(reading.unreadable().is_some_and(|said| said.contains(&key)));
        prop_assert_eq!(reading.snapshot(), before);
        reading.hear(&key, &bytes);
        prop_assert_eq!(reading.unreadable(), None);
    }
}

/// Whether a record was either named, and nothing changed, or says something of its own object and of no other.
fn is_named_or_of(
    reading: &Reading,
    key: &str,
    object: &Value,
    before: &Snapshot,
) -> Result<(), TestCaseError> {
    let snapshot = reading.snapshot();
    if let Some(said) = reading.unreadable() {
        prop_assert!(said.contains(key) && !said.contains(char::is_control), "{}", said);
        prop_assert_eq!(&*snapshot, before);
        return Ok(());
    }
    let (Key { name, .. }, Resource { kind, .. }, _) = whole(object);
    let own = ObjectRef::new(kind.name, &name.namespace, &name.name);
    let mut known = of(&snapshot);
    // A pod stands for its node.
    known.retain(|known| (known.kind.as_str(), kind.name) != ("Node", "Pod"));
    prop_assert!(known.iter().all(|known| *known == own), "{:?} {}", known, own);
    Ok(())
}

/// Every object that is known, without its uid.
fn of(snapshot: &Snapshot) -> Vec<ObjectRef> {
    let namespaces = snapshot
        .namespaces
        .keys()
        .map(|name| ObjectRef::new("Namespace", "", name));
    let nodes = snapshot.nodes.keys().map(|name| ObjectRef::new("Node", "", name));
    let networks = snapshot
        .networks
        .keys()
        .map(|network| ObjectRef::new("NetworkAttachmentDefinition", &network.namespace, &network.name));
    let others = snapshot
        .pods
        .keys()
        .chain(snapshot.policies.keys())
        .chain(snapshot.services.keys());
    let others = others.map(|object| ObjectRef::new(&object.kind, &object.namespace, &object.name));
    namespaces.chain(nodes).chain(networks).chain(others).collect()
}

#[test]
fn what_is_wrong_with_an_object_is_said_again_when_its_record_can_be_read_again() {
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"podSelector": {}, "ingress": 7},
    });
    let (key, bytes) = written(&policy);
    let records = [(key.clone(), bytes)];
    let mut reading = Reading::of(&records);
    let before = reading.known.borrow().diagnoses.clone();
    assert_eq!(before.len(), 1);
    reading.hear(&key, b"{");
    assert_ne!(reading.known.borrow().diagnoses, before);
    // All of it is read again, as after a compaction.
    reading.intake.list(&listing(&records)).unwrap();
    assert_eq!(reading.known.borrow().diagnoses, before);
}

#[test]
fn what_becomes_of_others_hides_no_record_that_cannot_be_read() {
    let pod = |name: &str, address: &str| {
        let object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": "here"},
            "status": {"podIP": address},
        });
        written(&object)
    };
    let (key, first) = pod("first", "10.0.0.1");
    let (other, second) = pod("second", "10.0.0.2");
    let mut reading = Reading::of(&[(key.clone(), first.clone()), (other.clone(), second)]);
    reading.hear(&key, b"{");
    let said = reading.unreadable();
    assert!(said.is_some());
    // The other claims the address of the first.
    reading.hear(&other, &pod("second", "10.0.0.1").1);
    assert_eq!(reading.unreadable(), said);
    reading.hear(&key, &first);
    assert_eq!(reading.unreadable(), None);
}

#[test]
fn progress_that_cannot_be_read_is_said_in_one_line_that_ends() {
    let long = "\u{1b}x".repeat(100_000);
    for (progress, start) in [
        (json!(long), "it is no progress: "),
        (json!({"version": long}), "it is no progress: "),
        (
            json!({"version": 1, "epoch": 1, "reflector": "one", "time": long}),
            "it is no progress: ",
        ),
        (
            json!([1, 1, "one", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", {}]),
            "it is no progress: ",
        ),
    ] {
        let said = Reflection::read(progress.to_string().as_bytes()).unwrap_err();
        assert!(said.starts_with(start), "{said}");
        assert!(said.len() < 300 && !said.contains(char::is_control), "{said}");
    }
    let listed = listing(&[]);
    let mut progress: Value = serde_json::from_slice(&listed[b"/picket/v1/progress".as_slice()]).unwrap();
    progress["reflector"] = json!(long);
    progress["kinds"]["pods"] = json!({"resourceVersion": long, "changed": 1});
    let read = Reflection::read(progress.to_string().as_bytes()).unwrap();
    for said in [&read.reflector, &read.kinds["pods"].resource_version] {
        assert!(said.len() < 300 && !said.contains(char::is_control), "{said}");
    }
}

#[test]
fn how_far_one_who_reads_is_behind_is_what_etcd_is_ahead_of_what_must_still_be_said() {
    let health = Health::default();
    let etcd = Etcd::new(Vec::new(), Duration::ZERO);
    let mut reader = Reader::new(&etcd, keys(), Interest::default(), health.clone(), |_| {});
    let mut expected = 0;
    for (known, said, now, heard, behind) in [
        // Other keys may change as they like.
        (5, 5, 9, true, 0),
        (5, 7, 9, true, 4),
        // Etcd did not say what it had ten seconds ago.
        (5, 7, 12, false, 4),
        (7, 7, 12, true, 0),
        (7, 13, 20, true, 13),
        (13, 15, 20, true, 7),
        // All of it was said, whether or not anything changed.
        (20, 15, 20, true, 0),
    ] {
        reader.known.get_or_insert_default().cluster_id = 1;
        reader.keep_up(known);
        let freshness = || health.freshness().unwrap();
        assert_eq!(freshness().revision, known);
        assert_eq!(
            reader.has_heard(said, now, &mut expected),
            heard,
            "{known} {said}"
        );
        assert_eq!(freshness().behind, behind, "{known} {said}");
    }
    // Progress that is late takes nothing back.
    reader.keep_up(19);
    let known = Header {
        cluster_id: 1,
        revision: 20,
    };
    assert_eq!(reader.known, Some(known));
}

/// A member whose history ends while it is listened to, as one does that was too far behind.
#[test]
fn a_watch_that_compaction_ends_begins_anew_with_a_list() {
    let answer = |canceled, compact_revision| {
        let answer = WatchResponse {
            canceled,
            compact_revision,
            cancel_reason: "why".to_owned(),
            ..WatchResponse::default()
        };
        heard(answer, &mut Vec::new(), |why| EtcdError::Prefix(why.to_owned()))
    };
    assert!(answer(false, 0).is_ok());
    assert!(matches!(answer(true, 5), Err(Stop::Forgotten)));
    assert!(matches!(answer(true, 0), Err(Stop::Failed(EtcdError::Prefix(why))) if why == "why"));
}
