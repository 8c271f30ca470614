//! Labels of pods, templates and namespaces.

use picket_policy::document::{Entry, Value};
use picket_policy::{Diagnostic, Labels, Reader, code};
use smol_str::SmolStr;

use super::field::{Field, Fields};

/// The labels of `metadata`. Unquoted numbers and truth values count as the text that is written.
///
/// No reading of such a label is narrower than all others: with it, peers match that else would not; without it,
/// policies do not isolate that else would. So it is read as what it becomes once it is quoted.
pub(super) fn parse<'a>(reader: &mut Reader<'a>, metadata: &Field<'a>) -> Labels {
    let Some(entries) = reader
        .field(metadata, "labels")
        .and_then(|labels| labels.entries(reader).ok())
    else {
        return Labels::default();
    };
    let mut labels = Vec::new();
    for (entry, value) in entries {
        let text = match as_written(reader, entry) {
            Some(written) => {
                value.wrong_type(reader, "a string");
                Some(written)
            }
            // What the API server makes of a null text.
            None if value.node().is_null() => Some(SmolStr::default()),
            None => value.string(reader).ok().cloned(),
        };
        labels.extend(text.map(|text| (entry.key.clone(), text)));
    }
    labels.into_iter().collect()
}

/// Adds to `labels`, in which they are missing, those of `metadata` that are numbers or truth values.
pub(super) fn complete<'a>(reader: &mut Reader<'a>, metadata: &Field<'a>, labels: Labels) -> Labels {
    let field = reader.field(metadata, "labels");
    let entries = field.map(|labels| labels.node().entries()).unwrap_or_default();
    entries
        .iter()
        .fold(labels, |labels, entry| match as_written(reader, entry) {
            Some(written) => labels.with(&entry.key, &written),
            None => labels,
        })
}

/// Whether a diagnostic is about a label that [`parse`] or [`complete`] reads as it is written.
pub(super) fn is_unquoted(diagnostic: &Diagnostic) -> bool {
    diagnostic.code == code::WRONG_TYPE
        && diagnostic.field.contains("metadata.labels.")
        && !diagnostic.fixes.is_empty()
}

fn as_written(reader: &Reader<'_>, entry: &Entry) -> Option<SmolStr> {
    let written = reader.source().slice(entry.value.range.clone());
    match entry.value.value {
        // The place of an alias is not the text that it stands for.
        Value::Boolean(value) if written.starts_with('*') => Some(value.to_string().into()),
        Value::Integer(value) if written.starts_with('*') => Some(value.to_string().into()),
        Value::Float(value) if written.starts_with('*') => Some(value.to_string().into()),
        Value::Boolean(_) | Value::Integer(_) | Value::Float(_) => Some(written.into()),
        _ => None,
    }
}
