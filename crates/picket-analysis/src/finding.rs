//! Diagnostics in the shape of their JSON (`docs/schema/diagnostics.schema.json`).

use picket_policy::{Diagnostic, Edit, Fix, Label, Severity, Span};
use serde::Serialize;
use smol_str::SmolStr;

/// One diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Its stable code, as in `P104`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// The most important place; absent for problems that have no place in a file.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The object concerned, when it could be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<FindingObject>,
    /// The path of the field, as in `spec.ingress[0].ports[1].endPort`; absent for the whole object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// Marked places, the most important first.
    pub labels: Vec<FindingLabel>,
    /// What picket did about it, and other things worth knowing.
    pub notes: Vec<String>,
    /// How to mend it.
    pub fixes: Vec<FindingFix>,
}

/// A range of text in one file. Lines and columns are counted from 1, columns in characters; the end is one past the
/// last character.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The path as given or found, `-` for standard input.
    pub file: String,
    /// The line of the first character.
    pub line: u32,
    /// Its column.
    pub column: u32,
    /// The line of the end.
    pub end_line: u32,
    /// The column of the end.
    pub end_column: u32,
}

/// The object that a diagnostic is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingObject {
    /// Its kind.
    pub kind: SmolStr,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
}

/// A marked place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingLabel {
    /// What is marked.
    #[serde(flatten)]
    pub place: Place,
    /// What to say about it; empty to mark only.
    pub text: String,
}

/// A change that mends the problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingFix {
    /// What to do.
    pub title: String,
    /// The edits that do it; empty when a person must decide.
    pub edits: Vec<FindingEdit>,
}

/// One replacement of text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingEdit {
    /// What to replace.
    #[serde(flatten)]
    pub place: Place,
    /// The new text.
    pub replacement: String,
}

impl From<&Diagnostic> for Finding {
    fn from(diagnostic: &Diagnostic) -> Self {
        let Diagnostic {
            code,
            severity,
            message,
            object,
            field,
            labels,
            notes,
            fixes,
        } = diagnostic;
        Self {
            code: code.0,
            severity: *severity,
            message: message.clone(),
            place: labels.first().map(|label| Place::from(&label.span)),
            object: object.as_ref().map(|object| FindingObject {
                kind: object.kind.clone(),
                namespace: object.namespace.clone(),
                name: object.name.clone(),
            }),
            field: field.clone(),
            labels: labels.iter().map(FindingLabel::from).collect(),
            notes: notes.clone(),
            fixes: fixes.iter().map(FindingFix::from).collect(),
        }
    }
}

impl From<&Span> for Place {
    fn from(span: &Span) -> Self {
        Self {
            file: span.file.to_string(),
            line: span.line,
            column: span.column,
            end_line: span.end_line,
            end_column: span.end_column,
        }
    }
}

impl From<&Label> for FindingLabel {
    fn from(label: &Label) -> Self {
        Self {
            place: Place::from(&label.span),
            text: label.text.clone(),
        }
    }
}

impl From<&Fix> for FindingFix {
    fn from(fix: &Fix) -> Self {
        Self {
            title: fix.title.clone(),
            edits: fix.edits.iter().map(FindingEdit::from).collect(),
        }
    }
}

impl From<&Edit> for FindingEdit {
    fn from(edit: &Edit) -> Self {
        Self {
            place: Place::from(&edit.span),
            replacement: edit.replacement.clone(),
        }
    }
}
