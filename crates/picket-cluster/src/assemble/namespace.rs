//! Namespaces, written and implied.

use picket_policy::{Diagnostic, Edit, Fix, ObjectRef, Severity};

use crate::written::WrittenNamespace;
use crate::{NAMESPACE_NAME_LABEL, Namespace, Snapshot, codes};

/// Lets the namespace of `object` exist.
pub(super) fn imply(object: &ObjectRef, snapshot: &mut Snapshot) {
    if !object.namespace.is_empty() && !snapshot.namespaces.contains_key(&object.namespace) {
        snapshot
            .namespaces
            .insert(object.namespace.clone(), Namespace::implied(&object.namespace));
    }
}

/// Adds a namespace that was written; it may have been implied before.
pub(super) fn insert(
    object: &ObjectRef,
    written: &WrittenNamespace,
    snapshot: &mut Snapshot,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let name = &object.name;
    if let Some(label) = written.name_label.as_ref().filter(|label| label.value != *name) {
        let message = format!(
            "the label `{NAMESPACE_NAME_LABEL}` of namespace `{name}` says `{}`",
            label.value
        );
        let mut diagnostic = Diagnostic::new(codes::NAME_LABEL, Severity::Warning, message)
            .on(object)
            .mark(label.span.clone(), format!("the API server makes this `{name}`"))
            .note(format!("it is read as `{name}`"));
        diagnostic.field = format!("metadata.labels[{NAMESPACE_NAME_LABEL}]");
        diagnostic.fixes.push(Fix {
            title: format!("write `{name}`, or leave the label out"),
            edits: vec![Edit {
                span: label.span.clone(),
                // Quoted, it is a text in YAML and in JSON, whatever it looks like.
                replacement: format!("\"{name}\""),
            }],
        });
        diagnostics.push(diagnostic);
    }
    snapshot
        .namespaces
        .insert(name.clone(), Namespace::new(name, &written.labels));
}
