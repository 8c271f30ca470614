//! The interface of VPP that the annotation of a pod names.

use picket_policy::{Reader, Severity};

use super::field::{Field, Fields};
use crate::codes;

/// The annotation.
pub(super) const KEY: &str = "picket.dev/vpp-interface";

/// The most bytes that VPP keeps of the name of an interface, without the zero at its end.
const LONGEST: usize = 63;

/// The interface that the annotation in this metadata names; `None` without one, and where no interface can be called so.
pub(super) fn interface<'a>(reader: &mut Reader<'a>, metadata: &Field<'a>) -> Option<Box<str>> {
    let (field, name) = reader.annotation(metadata, KEY)?;
    let name = name.trim();
    if !name.is_empty() && name.len() <= LONGEST && name.chars().all(|char| char.is_ascii_graphic()) {
        return Some(name.into());
    }
    let message = format!("Invalid value: {name:?}: no interface of VPP has such a name");
    let diagnostic = reader.report(codes::VPP_INTERFACE, Severity::Error, &field, message);
    diagnostic.notes.push("it is left out".to_owned());
    None
}
