//! What is kept of one object.
//!
//! A record holds what picket reads of an object and nothing that changes while that is the same, so that it is written
//! anew only when it means something else. `docs/etcd.md` describes it.

mod closed;

use std::borrow::Cow;

use picket_cluster::NetworkConfig;
use serde::{Deserialize, Serialize};
use serde_json::Deserializer;
use serde_json::value::RawValue;

use super::key::Key;
use crate::ObjectVersion;
use crate::kube::item::{Item, mapping};
use crate::kube::kind::{Kind, Resource};
use crate::kube::listener::{Kept, shape};
use crate::kube::shape::{NAMESPACE, POLICY, Shape};
use crate::live::{Facts, Found, Life, Name, network_config};

/// The version of records that is written, and the only one that is read.
pub(super) const VERSION: u64 = 1;

/// The most characters of the type of a plugin that are believed.
const LONGEST_PLUGIN: usize = 256;

/// The kind of policies in whose place another stands where there is no record of them: tenants write those, as large as they like.
const STAND_IN: &str = "NetworkPolicy";

/// The most characters of what a record says that an error repeats.
const LONGEST_WORDS: usize = 200;

/// A record as it is written.
#[derive(Serialize, Deserialize)]
struct Written<'a> {
    version: u64,
    /// `metadata.creationTimestamp` of a pod: whose an address is that several claim.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    created: Option<Cow<'a, str>>,
    /// Whether a pod has a `metadata.deletionTimestamp`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deleting: bool,
    /// The type of the plugin of a secondary network.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    plugin: Option<Cow<'a, str>>,
    /// The wire of a secondary network, as [`Wire`](picket_cluster::Wire) writes it.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    wire: Option<Cow<'a, str>>,
    /// Why there is no object, or another stands in its place.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    problem: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Version {
    version: u64,
}

/// What an object says that it is.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

/// An object as it is to be kept.
pub(super) struct Record {
    pub(super) name: Name,
    /// The `resourceVersion` of its last change, if that is a number.
    pub(super) changed: u64,
    pub(super) bytes: Vec<u8>,
}

impl Kept for Record {
    fn shape(kind: &'static Kind) -> Shape {
        match kind.name {
            "Namespace" => NAMESPACE,
            _ if kind.is_policy() => POLICY,
            other => shape(other),
        }
    }

    fn read(resource: &Resource, name: Name, item: Item, raw: &RawValue) -> Option<Self> {
        let kind = resource.kind.name;
        let changed = item.version.as_deref().and_then(|version| version.parse().ok());
        let Life { created, deleting } = if kind == "Pod" {
            item.life.clone()
        } else {
            Life::default()
        };
        let NetworkConfig { plugin, wire } = match kind {
            "NetworkAttachmentDefinition" => network_config(raw.get()),
            _ => NetworkConfig::default(),
        };
        let object = RawValue::from_string(item.without_empty_annotations().compact()).ok()?;
        resource_of(resource.kind, &object).ok()?;
        let written = Written {
            version: VERSION,
            created: (!created.is_empty()).then(|| created.as_str().into()),
            deleting,
            plugin: plugin.map(|plugin| Cow::Owned(plugin.to_string())),
            wire: wire.map(|wire| Cow::Owned(wire.to_string())),
            problem: None,
            object: Some(&object),
        };
        Some(Self {
            name,
            changed: changed.unwrap_or_default(),
            bytes: serde_json::to_vec(&written).ok()?,
        })
    }
}

/// What stands for an object of which a record is too large. In the place of a policy that anybody may write is one that is about
/// the same pods and allows them nothing, as long as that is smaller.
pub(super) fn smaller(record: &[u8], why: &str) -> Option<Vec<u8>> {
    let written = read_mapping::<Written<'_>>(record).ok();
    let object = written.as_ref().and_then(|written| written.object);
    let known = written.as_ref().and_then(|written| written.problem.as_deref());
    let why = known.unwrap_or(why);
    let object = object.filter(|object| {
        let head = read_mapping::<Head<'_>>(object.get().as_bytes());
        head.is_ok_and(|head| head.kind == STAND_IN)
    });
    let closed = closed::LARGEST.into_iter().filter_map(|largest| {
        let closed = closed::policy(object?, largest)?;
        Some(problem(why, Some(&closed)))
    });
    let mut all = closed.chain([problem(why, None)]);
    all.find(|smaller| smaller.len() < record.len())
}

fn problem(why: &str, instead: Option<&RawValue>) -> Vec<u8> {
    let written = Written {
        version: VERSION,
        created: None,
        deleting: false,
        plugin: None,
        wire: None,
        problem: Some(Cow::Borrowed(why)),
        object: instead,
    };
    serde_json::to_vec(&written).unwrap_or_default()
}

/// Whether a record says that there is none.
pub(super) fn is_problem(record: &[u8]) -> bool {
    read_mapping::<Written<'_>>(record).is_ok_and(|written| written.problem.is_some())
}

/// Why nobody can tell what the object of a record is.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// For people.
    pub(super) why: String,
    /// What it is for those who know nothing of it.
    pub(super) instead: Option<Box<Found>>,
}

impl<T: Into<String>> From<T> for Unreadable {
    fn from(why: T) -> Self {
        Self {
            why: why.into(),
            instead: None,
        }
    }
}

/// What the record of a key says of its object.
///
/// # Errors
/// Why nobody can tell: it is as if the record were not there, but for those who know nothing else of the object.
pub(super) fn read(key: &Key, bytes: &[u8]) -> Result<Found, Unreadable> {
    let no_record = |error: serde_json::Error| format!("it is no record: {}", cut(&error.to_string()));
    let Version { version } = read_mapping(bytes).map_err(no_record)?;
    if version != VERSION {
        return Err(format!("it is of version {version}, and picket reads {VERSION}").into());
    }
    let mut written: Written<'_> = read_mapping(bytes).map_err(no_record)?;
    let Some(problem) = written.problem.take() else {
        return Ok(object(key, written)?);
    };
    let instead = (key.kind().name == STAND_IN).then(|| object(key, written));
    Err(Unreadable {
        why: format!("the reflector could not write it: {}", cut(&problem)),
        instead: instead.and_then(Result::ok).map(Box::new),
    })
}

/// The object of a record.
fn object(key: &Key, written: Written<'_>) -> Result<Found, String> {
    let object = written.object.ok_or("it holds no object")?;
    let resource = resource_of(key.kind(), object)?;
    let mut item = Item::read(&resource, object, shape(resource.kind.name));
    let (namespace, name) = (item.namespace.as_deref(), item.name.as_deref());
    if name != Some(key.name.name.as_str()) || namespace.unwrap_or_default() != key.name.namespace {
        let name = format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default());
        return Err(format!(
            "the object is called `{}`, and not as its key says",
            cut(&name)
        ));
    }
    item.life = Life {
        created: written.created.unwrap_or_default().into(),
        deleting: written.deleting,
    };
    let found = Found::of_item(&resource, key.name.clone(), item);
    let mut found = found.ok_or("its object cannot be read")?;
    if let Facts::Network(facts) = &mut found.facts {
        let plugin = written.plugin.filter(|plugin| plugin.len() <= LONGEST_PLUGIN);
        facts.plugin = plugin.map(Into::into);
        // One that cannot be read is nobody else's.
        facts.network.wire = written.wire.and_then(|wire| wire.parse().ok());
    }
    Ok(found)
}

impl Found {
    /// The same, read in a revision of etcd.
    pub(super) fn at_revision(mut self, revision: i64) -> Self {
        if let Facts::Policy(policy, _) = &mut self.facts {
            policy.version = ObjectVersion {
                revision: Some(revision),
                ..ObjectVersion::default()
            };
        }
        self
    }
}

/// The kind in the version that an object says it is of.
fn resource_of(kind: &'static Kind, object: &RawValue) -> Result<Resource, String> {
    let head: Head<'_> = read_mapping(object.get().as_bytes())
        .map_err(|error| format!("nobody can tell what its object is: {}", cut(&error.to_string())))?;
    let mut versions = kind.versions.iter().map(|version| Resource { kind, version });
    let resource =
        versions.find(|resource| head.kind == kind.name && head.api_version == resource.api_version());
    resource.ok_or_else(|| {
        let said = format!("{} {}", head.api_version, head.kind);
        format!("its object is a `{}`, and not a {}", cut(&said), kind.name)
    })
}

/// What JSON says that is one object.
pub(super) fn read_mapping<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    let mut from = Deserializer::from_slice(bytes);
    let read = mapping(&mut from)?;
    from.end()?;
    Ok(read)
}

/// What somebody wrote, in one line that ends.
pub(super) fn cut(text: &str) -> String {
    text.escape_debug().take(LONGEST_WORDS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::live::Facts;

    fn pod() -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "uid": "u",
                "resourceVersion": "12",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app": "web"},
                "managedFields": [{"a": 1}],
            },
            "spec": {"nodeName": "here", "containers": [{"image": "a", "ports": [{"name": "http", "containerPort": 80}]}]},
            "status": {"podIP": "10.0.0.1", "message": "well"},
        })
    }

    fn key(kind: &str) -> Key {
        let name = Name {
            namespace: "shop".into(),
            name: "web".into(),
        };
        Key::new(kind, name).unwrap()
    }

    /// The record of an object as the API server writes it.
    fn written(kind: &str, object: &Value) -> Record {
        let resource = Resource {
            kind: key(kind).kind(),
            version: key(kind).kind().versions[0],
        };
        let raw = RawValue::from_string(object.to_string()).unwrap();
        let item = Item::read(&resource, &raw, Record::shape(resource.kind));
        Record::read(&resource, key(kind).name, item, &raw).unwrap()
    }

    #[test]
    fn a_record_says_what_its_object_does() {
        let record = written("Pod", &pod());
        assert_eq!(record.changed, 12);
        let text = String::from_utf8(record.bytes.clone()).unwrap();
        for left_out in ["resourceVersion", "managedFields", "image", "message"] {
            assert!(!text.contains(left_out), "{text}");
        }
        let Facts::Pod(facts) = read(&key("Pod"), &record.bytes).unwrap().facts else {
            panic!("{text}");
        };
        let (pod, created) = (&facts.pod, &facts.life.created);
        assert_eq!(
            (created.as_str(), pod.labels.iter().count(), pod.ports.len()),
            ("2026-01-01T00:00:00Z", 1, 1)
        );
        assert_eq!(pod.addresses.iter().count(), 1);
    }

    #[test]
    fn what_nobody_sees_makes_no_other_record() {
        let mut other = pod();
        other["metadata"]["resourceVersion"] = json!("13");
        other["metadata"]["annotations"] = json!({"a": "b"});
        other["status"]["message"] = json!("not well");
        assert_eq!(written("Pod", &pod()).bytes, written("Pod", &other).bytes);
        other["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
        let going = written("Pod", &other).bytes;
        let Facts::Pod(facts) = read(&key("Pod"), &going).unwrap().facts else {
            panic!("{going:?}");
        };
        assert!(facts.life.deleting);
        assert_ne!(written("Pod", &pod()).bytes, going);
        other["metadata"]["deletionTimestamp"] = json!(null);
        other["metadata"]["labels"]["app"] = json!("api");
        assert_ne!(written("Pod", &pod()).bytes, written("Pod", &other).bytes);
    }

    #[test]
    fn a_network_has_its_plugin_and_wire_and_no_configuration() {
        let network = json!({
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"config": r#"{"type": "macvlan", "master": "eth1", "secret": "s"}"#},
        });
        let record = written("NetworkAttachmentDefinition", &network);
        let text = String::from_utf8(record.bytes).unwrap();
        assert!(!text.contains("secret"), "{text}");
        for (text, wire) in [
            (text.clone(), Some("macvlan/eth1")),
            // What an earlier version has written, and what none has.
            (text.replace(r#""wire":"macvlan/eth1","#, ""), None),
            (text.replace("macvlan/eth1", "macvlan/a b"), None),
        ] {
            let found = read(&key("NetworkAttachmentDefinition"), text.as_bytes()).unwrap();
            let Facts::Network(facts) = found.facts else {
                panic!("{text}");
            };
            assert_eq!(facts.plugin.as_deref(), Some("macvlan"));
            let read = facts.network.wire.map(|wire| wire.to_string());
            assert_eq!(read.as_deref(), wire, "{text}");
        }
    }

    #[test]
    fn a_service_has_its_addresses_alone() {
        let mut service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"app": "web"}},
            "spec": {
                "clusterIP": "10.96.0.1",
                "clusterIPs": ["10.96.0.1", "fd00:96::1"],
                "externalIPs": ["192.0.2.1"],
                "selector": {"app": "web"},
                "ports": [{"port": 80, "nodePort": 30080}],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9", "ipMode": "VIP", "hostname": "lb"}]}},
        });
        let record = written("Service", &service);
        let text = String::from_utf8(record.bytes.clone()).unwrap();
        for left_out in ["labels", "selector", "ports", "ipMode", "hostname"] {
            assert!(!text.contains(left_out), "{text}");
        }
        let all = ["10.96.0.1", "192.0.2.1", "192.0.2.9", "fd00:96::1"];
        assert_eq!(addresses(&record), all);
        service["spec"]["clusterIP"] = json!("None");
        service["spec"]["clusterIPs"] = json!(["None"]);
        let headless = written("Service", &service);
        assert_eq!(addresses(&headless), ["192.0.2.1", "192.0.2.9"]);
    }

    /// The addresses that the record of a service has, and that nothing is wrong with it.
    fn addresses(record: &Record) -> Vec<String> {
        let Facts::Service(facts) = read(&key("Service"), &record.bytes).unwrap().facts else {
            panic!("it is no service");
        };
        assert_eq!(facts.diagnostics, []);
        facts.service.addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_record_that_is_none_says_why() {
        let whole = String::from_utf8(written("Pod", &pod()).bytes).unwrap();
        let in_order =
            json!({"version": 1, "object": {"apiVersion": "v1", "kind": "Pod", "metadata": ["shop", "web"]}});
        let deep = format!(
            r#"{{"version":1,"object":{}{}}}"#,
            "[".repeat(9000),
            "]".repeat(9000)
        );
        for (text, why) in [
            ("", "it is no record"),
            ("\u{1b}[2J", "it is no record"),
            ("{}", "it is no record: missing field `version`"),
            (
                "[1]",
                "it is no record: invalid type: sequence, expected an object",
            ),
            (
                r#"{"version":1,"object":["v1","Pod"]}"#,
                "nobody can tell what its object is",
            ),
            (
                &in_order.to_string(),
                "the object is called `/`, and not as its key says",
            ),
            (
                r#"{"version":2,"object":{}}"#,
                "it is of version 2, and picket reads 1",
            ),
            (r#"{"version":1}"#, "it holds no object"),
            (
                r#"{"version":1,"object":{}}"#,
                "nobody can tell what its object is",
            ),
            (deep.as_str(), "nobody can tell what its object is"),
            (
                r#"{"version":1,"problem":"too\nlarge"}"#,
                r"the reflector could not write it: too\nlarge",
            ),
            (
                &whole.replace(r#""name":"web""#, r#""name":"api""#),
                "the object is called `shop/api`, and not as its key says",
            ),
            (
                &whole.replace(r#""kind":"Pod""#, r#""kind":"Node""#),
                "its object is a `v1 Node`, and not a Pod",
            ),
            (
                &whole.replace(r#""name":"web""#, r#""name":"web","name":"api""#),
                "the object is called `/`, and not as its key says",
            ),
        ] {
            let read = read(&key("Pod"), text.as_bytes());
            let said = read.err().unwrap();
            assert!(said.why.starts_with(why), "{text}: {}", said.why);
            assert!(said.instead.is_none(), "{text}");
        }
    }
}
