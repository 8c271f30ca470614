//! What every object has: a name, a namespace, labels, owners.

use smol_str::{SmolStr, format_smolstr};

use crate::document::Manifest;
use crate::reader::{Cursor, Fields, Reader, Unreadable};
use crate::{Labels, ObjectRef, Position, Severity, code, name};

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// They do; `default` when none is given. Names are DNS subdomains.
    Namespaced,
    /// They do not. Names are DNS subdomains.
    Cluster,
    /// Namespaces themselves: they do not, and names are DNS labels.
    Namespace,
}

/// The metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What identifies it.
    pub object: ObjectRef,
    /// Where it begins.
    pub position: Position,
    /// Its labels, as far as they can be read.
    pub labels: Labels,
    /// Whether every label could be read.
    pub labels_complete: bool,
    /// Its annotations, as far as they can be read.
    pub annotations: Labels,
    /// What it belongs to.
    pub owners: Vec<OwnerReference>,
    /// Whether picket made up the name, because only `generateName` is given, or no usable name at all.
    pub name_made_up: bool,
}

/// An item of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerReference {
    /// The kind of the owner.
    pub kind: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// Its uid, or empty.
    pub uid: SmolStr,
    /// Whether the owner is the one that manages the object.
    pub controller: bool,
}

/// The fields of ObjectMeta (meta/v1) that picket does not read.
const OTHER_FIELDS: [&str; 9] = [
    "clusterName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
];

/// Reads `metadata` of the object whose fields are `outer`, and names it in the diagnostics that follow.
///
/// An object that only has `generateName` gets a name as the API server would make it, with a suffix that follows from
/// the object's own text: the same text has the same name, wherever it stands. One without a usable name gets a name
/// in the same way, and an error.
///
/// # Errors
/// When it cannot be told in which namespace the object is, if it is in one.
pub fn header(
    manifest: &Manifest,
    scope: Scope,
    outer: &mut Fields<'_>,
    reader: &mut Reader<'_>,
) -> Result<Header, Unreadable> {
    let metadata = outer.get("metadata");
    let at = outer.cursor().clone();
    let Some(metadata) = metadata else {
        let misplaced = outer.is_misspelt("metadata") || outer.has("namespace");
        if scope == Scope::Namespaced && misplaced {
            return Err(reader.missing(code::METADATA, &at, "metadata", NAME_REQUIRED));
        }
        let object = unnamed(manifest, scope, SmolStr::new_static("default"), reader);
        reader.missing(code::METADATA, &at, "metadata.name", NAME_REQUIRED);
        return Ok(Header::nothing_but(object, manifest));
    };
    let mut fields = match metadata.fields(reader) {
        Ok(fields) => fields,
        Err(Unreadable) if scope == Scope::Cluster => {
            let object = unnamed(manifest, scope, SmolStr::default(), reader);
            return Ok(Header::nothing_but(object, manifest));
        }
        Err(Unreadable) => return Err(Unreadable),
    };
    let namespace = namespace(scope, &mut fields, reader);
    let name = fields.get("name");
    let prefix = fields.get("generateName");
    let uid = fields.get("uid");
    let labels = fields.get("labels");
    let annotations = fields.get("annotations");
    let owners = fields.get("ownerReferences");
    fields.unknown(&OTHER_FIELDS, reader);
    // A namespace that is misspelt or stands beside the metadata is not `default`.
    let misplaced = !fields.has("namespace") && outer.has("namespace");
    if scope != Scope::Cluster && (fields.is_misspelt("namespace") || misplaced) {
        return Err(Unreadable);
    }
    let namespace = namespace?;
    let mut object = unnamed(manifest, scope, namespace, reader);
    if let Some(uid) = uid {
        object.uid = uid.string(reader).cloned().unwrap_or_default();
    }
    let (written, name_made_up) = written_name(name, prefix, &metadata, scope, manifest, reader);
    object.name = written.unwrap_or(object.name);
    reader.rename(object.clone());
    let mut header = Header::nothing_but(object, manifest);
    header.name_made_up = name_made_up;
    if let Some(labels) = labels {
        (header.labels, header.labels_complete) = texts(&labels, reader, true);
    }
    if let Some(annotations) = annotations {
        (header.annotations, _) = texts(&annotations, reader, false);
    }
    if let Some(owners) = owners {
        header.owners = owner_references(&owners, reader);
    }
    Ok(header)
}

/// The name that is written or that `generateName` begins, and whether picket has to make up all of it or the rest.
fn written_name(
    name: Option<Cursor<'_>>,
    prefix: Option<Cursor<'_>>,
    metadata: &Cursor<'_>,
    scope: Scope,
    manifest: &Manifest,
    reader: &mut Reader<'_>,
) -> (Option<SmolStr>, bool) {
    match (name, prefix) {
        (Some(name), _) => match name.string(reader) {
            Ok(text) if !text.is_empty() => {
                check_name(scope, &name, text, reader);
                (Some(name::printable(text)), false)
            }
            Ok(_) => {
                reader.error(code::METADATA, &name, NAME_REQUIRED);
                (None, true)
            }
            Err(Unreadable) => (None, true),
        },
        (None, Some(prefix)) => {
            let prefix = prefix.string(reader).ok().map(name::printable);
            (
                prefix.map(|prefix| format_smolstr!("{prefix}{}", suffix(manifest))),
                true,
            )
        }
        (None, None) => {
            reader.missing(code::METADATA, metadata, "name", NAME_REQUIRED);
            (None, true)
        }
    }
}

const NAME_REQUIRED: &str = "Required value: name or generateName is required";

impl Header {
    fn nothing_but(object: ObjectRef, manifest: &Manifest) -> Self {
        Self {
            object,
            position: manifest.position(),
            labels: Labels::default(),
            labels_complete: true,
            annotations: Labels::default(),
            owners: Vec::new(),
            name_made_up: true,
        }
    }
}

fn namespace(scope: Scope, fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Result<SmolStr, Unreadable> {
    let given = fields.get("namespace");
    match (scope, given) {
        (Scope::Namespaced, None) => Ok(SmolStr::new_static("default")),
        (Scope::Namespaced, Some(given)) => {
            let text = given.string(reader)?;
            if text.is_empty() {
                return Ok(SmolStr::new_static("default"));
            }
            for problem in name::dns_label(text) {
                reader.error(
                    code::METADATA,
                    &given,
                    format!("Invalid value: {text:?}: {problem}"),
                );
            }
            Ok(name::printable(text))
        }
        (Scope::Cluster | Scope::Namespace, None) => Ok(SmolStr::default()),
        (Scope::Cluster | Scope::Namespace, Some(given)) => {
            if given.node().as_str().is_none_or(|text| !text.is_empty()) {
                reader.error(code::METADATA, &given, "Forbidden: not allowed on this type");
            }
            Ok(SmolStr::default())
        }
    }
}

fn check_name(scope: Scope, at: &Cursor<'_>, text: &str, reader: &mut Reader<'_>) {
    let problems = match scope {
        Scope::Namespace => name::dns_label(text),
        Scope::Namespaced | Scope::Cluster => name::dns_subdomain(text),
    };
    for problem in problems {
        reader.error(code::METADATA, at, format!("Invalid value: {text:?}: {problem}"));
    }
}

/// The object under a made-up name.
fn unnamed(manifest: &Manifest, scope: Scope, namespace: SmolStr, reader: &mut Reader<'_>) -> ObjectRef {
    let object = ObjectRef {
        kind: manifest.kind().clone(),
        namespace: if scope == Scope::Namespaced {
            namespace
        } else {
            SmolStr::default()
        },
        name: format_smolstr!("unnamed-{}", suffix(manifest)),
        uid: SmolStr::default(),
    };
    reader.rename(object.clone());
    object
}

/// Five characters that follow from the object's text, of those that the API server takes for generated names.
fn suffix(manifest: &Manifest) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = manifest.source().slice(manifest.root().range.clone());
    // FNV-1a, 64 bits: the name is the same in every build of picket.
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut letter = || {
        let at = usize::try_from(hash % 27).unwrap_or_default();
        hash /= 27;
        LETTERS.get(at).copied().map_or('b', char::from)
    };
    (0..5).map(|_| letter()).collect()
}

/// Labels or annotations, and whether all could be read.
fn texts(at: &Cursor<'_>, reader: &mut Reader<'_>, labels: bool) -> (Labels, bool) {
    let Ok(entries) = at.entries(reader) else {
        return (Labels::default(), false);
    };
    let mut complete = true;
    let mut found = Vec::new();
    for (entry, value) in entries {
        // A null value is the empty text for the API server.
        let text = if value.node().is_null() {
            Ok(SmolStr::default())
        } else {
            value.string(reader).cloned()
        };
        let Ok(text) = text else {
            complete = false;
            continue;
        };
        if labels {
            for problem in name::qualified_name(&entry.key) {
                let message = format!("Invalid value: {:?}: {problem}", entry.key);
                reader.report_at(
                    code::LABEL,
                    Severity::Error,
                    at.path(),
                    entry.key_range.clone(),
                    message,
                );
            }
            for problem in name::label_value(&text) {
                let message = format!("Invalid value: {text:?}: {problem}");
                reader.report_at(
                    code::LABEL,
                    Severity::Error,
                    at.path(),
                    value.node().range.clone(),
                    message,
                );
            }
        }
        found.push((entry.key.clone(), text));
    }
    (found.into_iter().collect(), complete)
}

/// The value of an annotation, where it stands. What is wrong with it has been reported with the header.
pub(crate) fn annotation<'a>(
    root: &Cursor<'a>,
    key: &'static str,
    reader: &mut Reader<'_>,
) -> Option<Cursor<'a>> {
    let metadata = root.fields(reader).ok()?.get("metadata")?;
    let annotations = metadata.fields(reader).ok()?.get("annotations")?;
    annotations.fields(reader).ok()?.get(key)
}

fn owner_references(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Vec<OwnerReference> {
    let Ok(items) = at.items(reader) else {
        return Vec::new();
    };
    items
        .iter()
        .filter_map(|item| owner_reference(item, reader).ok())
        .collect()
}

fn owner_reference(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<OwnerReference, Unreadable> {
    let mut fields = at.fields(reader)?;
    let mut text = |field: &'static str, reader: &mut Reader<'_>| match fields.get(field) {
        Some(value) => value.string(reader).map(name::printable),
        None => Ok(SmolStr::default()),
    };
    let kind = text("kind", reader)?;
    let name = text("name", reader)?;
    let uid = text("uid", reader)?;
    let controller = fields.get("controller").map(|value| value.boolean(reader));
    Ok(OwnerReference {
        kind,
        name,
        uid,
        controller: controller.transpose()?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
