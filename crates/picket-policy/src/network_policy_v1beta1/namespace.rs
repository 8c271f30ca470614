//! The isolation of a namespace, as the proposal has it.

use serde_json::Value as Json;

use crate::dialect::Lowered;
use crate::document::{Manifest, Node, Value};
use crate::header::{Scope, header};
use crate::reader::{Reader, Unreadable};
use crate::{Mode, NamespaceScope, Networks, PodSelector, Policy, Selector, Severity, Side, Tier, code};

/// The annotation that says it.
const ANNOTATION: &str = "net.beta.kubernetes.io/network-policy";

const ISOLATION: &str =
    "the value is `{\"ingress\": {\"isolation\": \"DefaultDeny\"}}`, in which both fields may be left out";

/// What a Namespace says about the isolation of its pods, as a policy of the kind `Namespace` that isolates them; `None`
/// when it says nothing in the words of the proposal, and of other kinds.
///
/// What cannot be read isolates.
pub fn namespace_isolation(manifest: &Manifest) -> Option<Lowered> {
    if (manifest.api_version().as_str(), manifest.kind().as_str()) != ("v1", "Namespace") {
        return None;
    }
    let root = manifest.root();
    let metadata = root.get("metadata");
    let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
    let annotation = annotations.and_then(|annotations| annotations.get(ANNOTATION));
    let structure = root.get("spec").and_then(|spec| spec.get("networkPolicy"));
    if annotation.is_none() && structure.is_none() {
        return None;
    }
    let (mut reader, root) = manifest.reader();
    let mut isolates = false;
    if let Some(node) = annotation {
        let written = node
            .as_str()
            .and_then(|text| serde_json::from_str::<Json>(text).ok());
        let found = written.ok_or(Unreadable).and_then(|json| of_json(&json));
        let path = format!("metadata.annotations.{ANNOTATION}");
        isolates |= said(found, node, path, &mut reader);
    }
    if let Some(node) = structure {
        isolates |= said(of_node(node), node, "spec.networkPolicy".to_owned(), &mut reader);
    }
    let policy = isolates.then(|| {
        let mut ignored = manifest.reader().0;
        let mut fields = root.fields(&mut ignored).ok()?;
        // What is wrong with the metadata is reported where the namespace itself is read.
        let header = header(manifest, Scope::Namespace, &mut fields, &mut ignored).ok()?;
        Some(Policy {
            subject: PodSelector {
                namespaces: NamespaceScope::Named(header.object.name.clone()),
                pods: Selector::everything(),
            },
            object: header.object,
            position: header.position,
            mode: Mode::Enforce,
            tier: Tier::NetworkPolicy,
            priority: 0,
            networks: Networks::Cluster,
            ingress: Side {
                isolates: true,
                rules: Vec::new(),
            },
            egress: Side::default(),
        })
    });
    Some(Lowered {
        policy: policy.flatten(),
        diagnostics: reader.finish(),
    })
}

/// Whether it isolates. What cannot be read does, and is reported.
fn said(found: Result<bool, Unreadable>, at: &Node, field: String, reader: &mut Reader<'_>) -> bool {
    found.unwrap_or_else(|Unreadable| {
        let path = crate::reader::Path::default();
        let message = "the isolation of the namespace cannot be read";
        let diagnostic = reader.report_at(code::ISOLATION, Severity::Error, &path, at.range.clone(), message);
        diagnostic.field = field;
        diagnostic.notes.push(ISOLATION.to_owned());
        diagnostic
            .notes
            .push("ingress to every pod of the namespace is isolated".to_owned());
        true
    })
}

fn of_json(value: &Json) -> Result<bool, Unreadable> {
    let only = |value: &Json, name: &str| match value {
        Json::Null => Ok(Json::Null),
        Json::Object(fields) if fields.keys().all(|key| key == name) => {
            Ok(fields.get(name).cloned().unwrap_or_default())
        }
        _ => Err(Unreadable),
    };
    match only(&only(value, "ingress")?, "isolation")? {
        Json::Null => Ok(false),
        Json::String(text) if text == "DefaultDeny" => Ok(true),
        _ => Err(Unreadable),
    }
}

fn of_node(node: &Node) -> Result<bool, Unreadable> {
    fn only<'n>(node: &'n Node, name: &str) -> Result<Option<&'n Node>, Unreadable> {
        match &node.value {
            Value::Null => Ok(None),
            Value::Mapping(entries) if entries.iter().all(|entry| entry.key == name) => Ok(node.get(name)),
            _ => Err(Unreadable),
        }
    }
    let ingress = only(node, "ingress")?;
    let isolation = ingress.map(|ingress| only(ingress, "isolation")).transpose()?;
    match isolation.flatten() {
        None => Ok(false),
        Some(node) if node.is_null() => Ok(false),
        Some(node) if node.as_str().is_some_and(|text| text == "DefaultDeny") => Ok(true),
        Some(_) => Err(Unreadable),
    }
}
