//! Objects of a case as text.

use std::sync::Arc;

use picket_policy::{ObjectRef, Position};

use super::{CaseError, error};

/// One object, as a YAML document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// What it says it is.
    pub object: ObjectRef,
    /// Where its first line stands.
    pub position: Position,
    /// The document, without the line that separates it from others.
    pub text: String,
}

impl Manifest {
    /// The document behind as many empty lines as stand before it in its file, so that what is said about it names the
    /// right line.
    pub fn in_place(&self) -> String {
        let before = usize::try_from(self.position.line.saturating_sub(1)).unwrap();
        "\n".repeat(before) + &self.text
    }
}

/// Adds the documents of a `yaml` block to `objects`, or replaces those of the same name.
pub(super) fn apply(
    objects: &mut Vec<Manifest>,
    file: &Arc<str>,
    lines: &[(u32, &str)],
) -> Result<(), CaseError> {
    for document in lines.split(|(_, line)| *line == "---") {
        let Some(&(line, _)) = document.first() else {
            continue;
        };
        let position = Position {
            file: Arc::clone(file),
            line,
        };
        let Some(object) = object_ref(document) else {
            return Err(error(&position, "a document needs `kind` and `metadata.name`"));
        };
        let text = document.iter().map(|(_, line)| format!("{line}\n")).collect();
        let manifest = Manifest {
            object,
            position,
            text,
        };
        match objects
            .iter_mut()
            .find(|present| present.object == manifest.object)
        {
            Some(present) => *present = manifest,
            None => objects.push(manifest),
        }
    }
    Ok(())
}

/// Removes the objects that the lines of a `delete` block name.
pub(super) fn delete(
    objects: &mut Vec<Manifest>,
    file: &Arc<str>,
    lines: &[(u32, &str)],
) -> Result<(), CaseError> {
    for (line, text) in lines {
        let position = Position {
            file: Arc::clone(file),
            line: *line,
        };
        let Some((kind, name)) = text.split_once(' ') else {
            return Err(error(&position, format!("`{text}` is not `Kind namespace/name`")));
        };
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let object = ObjectRef::new(kind, namespace, name);
        let before = objects.len();
        objects.retain(|present| present.object != object);
        if objects.len() == before {
            return Err(error(&position, format!("there is no {object} to delete")));
        }
    }
    Ok(())
}

/// Reads what cases need to tell objects apart: `kind:` and `metadata:` at the margin, with `name` and `namespace`
/// either indented below or in braces, quoted or not.
fn object_ref(document: &[(u32, &str)]) -> Option<ObjectRef> {
    let (mut kind, mut namespace, mut name) = (None, "", None);
    let mut in_metadata = false;
    for (_, line) in document {
        if let Some(value) = line.strip_prefix("kind:") {
            kind = Some(value.trim());
        } else if let Some(value) = line.strip_prefix("metadata:") {
            in_metadata = true;
            let fields = value.trim().trim_start_matches('{').trim_end_matches('}');
            for (key, value) in fields.split(',').filter_map(|field| field.split_once(':')) {
                match key.trim() {
                    "name" => name = Some(unquoted(value)),
                    "namespace" => namespace = unquoted(value),
                    _ => {}
                }
            }
        } else if in_metadata && line.starts_with("  ") {
            // Deeper fields, such as a label `name`, are indented further.
            match line.strip_prefix("  ")?.split_once(':') {
                Some(("name", value)) => name = Some(unquoted(value)),
                Some(("namespace", value)) => namespace = unquoted(value),
                _ => {}
            }
        } else {
            in_metadata = false;
        }
    }
    Some(ObjectRef::new(kind?, namespace, name?))
}

fn unquoted(value: &str) -> &str {
    value.trim().trim_matches('"')
}
