//! What must hold for everything that somebody may write into etcd. Shared by the fuzz target and by
//! `crates/picket/tests/fuzz_corpus.rs`, which replays its corpus.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use picket_cluster::{Event, Snapshot, Store, codes};
use picket_policy::{Diagnostic, ObjectRef, Severity};
use picket_source::{Change, Etcd, Health, Intake, Interest};
use serde_json::Value;
use serde_json::value::RawValue;

/// The kinds that have keys: what keys and objects call them, and whether they have namespaces.
const KINDS: [(&str, &str, bool); 10] = [
    ("namespaces", "Namespace", false),
    ("nodes", "Node", false),
    ("pods", "Pod", true),
    ("services", "Service", true),
    ("networkpolicies.networking.k8s.io", "NetworkPolicy", true),
    (
        "multi-networkpolicies.k8s.cni.cncf.io",
        "MultiNetworkPolicy",
        true,
    ),
    (
        "network-attachment-definitions.k8s.cni.cncf.io",
        "NetworkAttachmentDefinition",
        true,
    ),
    (
        "clusternetworkpolicies.policy.networking.k8s.io",
        "ClusterNetworkPolicy",
        false,
    ),
    (
        "adminnetworkpolicies.policy.networking.k8s.io",
        "AdminNetworkPolicy",
        false,
    ),
    (
        "baselineadminnetworkpolicies.policy.networking.k8s.io",
        "BaselineAdminNetworkPolicy",
        false,
    ),
];

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;
type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What one who reads etcd knows.
#[derive(Default)]
struct Known {
    store: Store,
    diagnoses: BTreeMap<ObjectRef, Vec<Diagnostic>>,
    is_complete: bool,
    /// Whether something was wrong once: then what was known before may hold.
    was_wrong: bool,
}

struct Reading {
    intake: Intake<Box<dyn FnMut(Change)>>,
    health: Health,
    known: Rc<RefCell<Known>>,
    /// Why no reflector stands for what is there.
    refused: Option<String>,
}

/// Keys and what becomes of them, one in a line: `KEY VALUE` is a put, `KEY` alone a deletion. An empty line ends what
/// was listed at first, and every later revision. What is read is only what keys and records say, whatever else is there:
/// a record that cannot be read is named, and what was known of its object holds.
pub(crate) fn etcd_records(bytes: &[u8]) {
    let lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    let mut revisions = lines.split(|line| line.is_empty()).map(changes);
    let mut keys = Keys::new();
    apply(&mut keys, &revisions.next().unwrap_or_default());
    let mut reading = Reading::new();
    reading.list(&keys);
    reading.check(&keys, None);
    for changes in revisions {
        let before = reading.refused.is_none().then(|| reading.policies());
        apply(&mut keys, &changes);
        reading.hear(&changes);
        if reading.refused.is_some() {
            reading.list(&keys);
        }
        reading.check(&keys, before.as_ref());
    }
    let mut fresh = Reading::new();
    fresh.list(&keys);
    fresh.check(&keys, None);
    let (known, fresh_known) = (reading.known.borrow(), fresh.known.borrow());
    // Of one key, both believe it or neither does, but who knows what came before may have a later progress.
    if reading.refused.is_none() && !known.was_wrong {
        assert!(fresh.refused.is_none() && fresh_known.is_complete);
        assert_eq!(known.store.snapshot(), fresh_known.store.snapshot());
        assert_eq!(said(&known), said(&fresh_known));
    }
}

fn changes(lines: &[&[u8]]) -> Changes {
    let change = |line: &&[u8]| {
        let mut parts = line.splitn(2, |byte| *byte == b' ');
        let key = [Etcd::PREFIX.as_bytes(), parts.next().unwrap_or_default()].concat();
        (key, parts.next().map(<[u8]>::to_owned))
    };
    lines.iter().map(change).collect()
}

fn apply(keys: &mut Keys, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(keys.insert(key.clone(), value.clone())),
            None => drop(keys.remove(key)),
        }
    }
}

/// What is wrong with which object, but for where.
fn said(known: &Known) -> BTreeSet<(String, String)> {
    let diagnoses = known.diagnoses.iter().flat_map(|(object, found)| {
        let words = |one: &Diagnostic| (object.to_string(), format!("{} {}", one.code, one.message));
        found.iter().map(words)
    });
    diagnoses.collect()
}

/// The object of a key, as `docs/etcd.md` says.
fn object(key: &[u8]) -> Option<ObjectRef> {
    let start = format!("{}objects/", Etcd::PREFIX);
    let parts: Vec<_> = std::str::from_utf8(key)
        .ok()?
        .strip_prefix(&start)?
        .split('/')
        .collect();
    let (resource, namespace, name) = match parts.as_slice() {
        [resource, name] => (resource, "", *name),
        [resource, namespace, name] => (resource, *namespace, *name),
        _ => return None,
    };
    let (_, kind, has_namespace) = KINDS.into_iter().find(|(known, ..)| known == resource)?;
    let acts = |character: char| {
        let turns =
            matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        character.is_control() || turns
    };
    let is_name = |name: &str| name.len() <= 253 && !name.contains(acts);
    let is_whole = !name.is_empty() && has_namespace != namespace.is_empty();
    (is_whole && is_name(name) && is_name(namespace)).then(|| ObjectRef::new(kind, namespace, name))
}

/// Whether a value can be the record of an object, as far as a reader that is not picket's sees.
fn may_be_of(value: &[u8], object: &ObjectRef) -> bool {
    if serde_json::from_slice::<&RawValue>(value).is_err() {
        return false;
    }
    let Ok(value) = serde_json::from_slice::<Value>(value) else {
        // It is too deep, or text of which nobody can tell what it says.
        return true;
    };
    let text = |path| value.pointer(path).and_then(Value::as_str);
    let version = text("/object/apiVersion").map(|version| version.rsplit('/').next());
    value.is_object()
        && value.get("version").and_then(Value::as_u64) == Some(1)
        && value.get("problem").is_none_or(Value::is_null)
        && version.is_some()
        && text("/object/kind") == Some(&object.kind)
        && text("/object/metadata/name") == Some(&object.name)
        && text("/object/metadata/namespace").unwrap_or_default() == object.namespace
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
        let intake = Intake::new(interest, health.clone(), sink).expect("keys that begin as they do");
        Self {
            intake,
            health,
            known,
            refused: None,
        }
    }

    fn list(&mut self, keys: &Keys) {
        self.refused = self.intake.list(keys).err();
    }

    fn hear(&mut self, changes: &Changes) {
        match self.refused {
            Some(_) => {}
            None => self.refused = self.intake.hear(changes).err(),
        }
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.known.borrow().store.snapshot()
    }

    /// What is known of policies, by their names.
    fn policies(&self) -> BTreeMap<ObjectRef, String> {
        let snapshot = self.snapshot();
        let policies = snapshot.policies.iter();
        policies
            .map(|(object, policy)| (named(object), format!("{policy:?}")))
            .collect()
    }

    /// Checks what is known of these keys; `before` is what was known of policies if a reflector stood for it.
    fn check(&self, keys: &Keys, before: Option<&BTreeMap<ObjectRef, String>>) {
        if let Some(why) = &self.refused {
            assert!(
                !why.is_empty() && why.len() < 1000 && !why.contains(char::is_control),
                "{why}"
            );
            return;
        }
        let known = self.known.borrow();
        let trouble = self
            .health
            .kinds()
            .get("etcd")
            .and_then(|etcd| etcd.trouble.clone());
        assert!(
            known.is_complete || trouble.is_some(),
            "what is not complete says why"
        );
        let mut objects = BTreeSet::new();
        let now = self.policies();
        for (key, value) in keys {
            let Some(object) = object(key) else {
                let is_object = key.starts_with(format!("{}objects/", Etcd::PREFIX).as_bytes());
                assert!(
                    !is_object || trouble.is_some(),
                    "{key:?} is passed over and not named"
                );
                continue;
            };
            let found = known.diagnoses.get(&object);
            let unreadable = found.and_then(|found| found.iter().find(|one| one.code == codes::RECORD));
            match unreadable {
                Some(why) => {
                    assert_eq!(why.severity, Severity::Error);
                    assert!(why.message.len() < 1000 && !why.message.contains(char::is_control));
                    let was = before.and_then(|before| before.get(&object));
                    assert!(
                        was.is_none() || was == now.get(&object),
                        "what was known of {object} holds"
                    );
                }
                None => assert!(may_be_of(value, &object), "{object} is not what its key says"),
            }
            objects.insert(object);
        }
        let has_pods = objects.iter().any(|object| object.kind == "Pod");
        for object in all(&known.store.snapshot()) {
            // A pod stands for its node.
            if object.kind == "Node" && has_pods {
                continue;
            }
            assert!(objects.contains(&object), "{object} has no key");
        }
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
            Change::Diagnosis(object, found) => {
                self.was_wrong |= found.iter().any(|one| one.severity == Severity::Error);
                self.diagnoses.insert(named(&object), found);
            }
            Change::Version(..) | Change::Plugin(..) | Change::Reached { .. } => {}
        }
    }
}

fn named(object: &ObjectRef) -> ObjectRef {
    ObjectRef::new(&object.kind, &object.namespace, &object.name)
}

/// Every object that is known, by its name.
fn all(snapshot: &Snapshot) -> Vec<ObjectRef> {
    let of_cluster = |kind, name: &str| ObjectRef::new(kind, "", name);
    let namespaces = snapshot
        .namespaces
        .keys()
        .map(|name| of_cluster("Namespace", name));
    let nodes = snapshot.nodes.keys().map(|name| of_cluster("Node", name));
    let networks = snapshot
        .networks
        .keys()
        .map(|network| ObjectRef::new("NetworkAttachmentDefinition", &network.namespace, &network.name));
    let policies = snapshot.policies.keys().chain(snapshot.services.keys());
    let others = snapshot.pods.keys().chain(policies).map(named);
    namespaces.chain(nodes).chain(networks).chain(others).collect()
}
