//! The ports of Neutron that the annotation of a pod names.

use picket_policy::{Reader, Severity};
use smol_str::SmolStr;

use super::field::{Field, Fields};
use crate::codes;

/// The annotation.
const KEY: &str = "picket.dev/neutron-ports";

/// The most ids that one annotation may name.
const MOST: usize = 16;

/// The ids of ports that the annotation in this metadata names, sorted and unique; none where one of them can be no id, or there
/// are too many.
pub(super) fn ports<'a>(reader: &mut Reader<'a>, metadata: &Field<'a>) -> Vec<SmolStr> {
    let Some((field, text)) = reader.annotation(metadata, KEY) else {
        return Vec::new();
    };
    let ids = text.split(',').map(str::trim).filter(|id| !id.is_empty());
    let mut ids: Vec<_> = ids.map(str::to_ascii_lowercase).collect();
    ids.sort();
    ids.dedup();
    let wrong = match ids.iter().find(|id| !is_id(id)) {
        Some(wrong) => Some(format!(
            "Invalid value: {wrong:?}: no port of Neutron has such an id"
        )),
        None if ids.len() > MOST => Some(format!("Too many: {}: must have at most {MOST} ids", ids.len())),
        None => None,
    };
    if let Some(message) = wrong {
        let diagnostic = reader.report(codes::NEUTRON_PORT, Severity::Error, &field, message);
        diagnostic.notes.push("the annotation is left out".to_owned());
        return Vec::new();
    }
    ids.into_iter().map(SmolStr::from).collect()
}

/// Whether a text is written as a UUID is, in lower case.
fn is_id(text: &str) -> bool {
    let is_right = |(at, char): (usize, char)| match at {
        8 | 13 | 18 | 23 => char == '-',
        _ => char.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.chars().enumerate().all(is_right)
}
