//! What is wrong with what somebody wrote, as values: rendered as text, JSON or SARIF by the command line.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::ObjectRef;

/// A stable code such as `P104`. Codes are never reused; `docs/diagnostics.md` lists them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Code(pub &'static str);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Probably not what was meant, but it has a meaning.
    Warning,
    /// It cannot be read as written, or the API server would refuse it.
    Error,
}

/// A range of text in one file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Span {
    /// The path as given or found, `-` for standard input.
    pub file: Arc<str>,
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// The line of `start`, counted from 1.
    pub line: u32,
    /// The column of `start` in characters, counted from 1.
    pub column: u32,
    /// The line of `end`.
    pub end_line: u32,
    /// The column of `end` in characters, counted from 1: one past the last character.
    pub end_column: u32,
}

/// A marked place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Label {
    /// What is marked.
    pub span: Span,
    /// What to say about it; empty to mark only.
    pub text: String,
}

/// A change that mends the problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Fix {
    /// What to do, as in "write `matchLabels`".
    pub title: String,
    /// The edits that do it, when they are certain; empty when a person must decide.
    pub edits: Vec<Edit>,
}

/// One replacement of text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Edit {
    /// What to replace.
    pub span: Span,
    /// The new text.
    pub replacement: String,
}

/// One finding about something somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Diagnostic {
    /// Its stable code.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong: lower case, no full stop, user input in backticks.
    pub message: String,
    /// The object concerned, when it could be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// The path of the field as the API server writes it, as in `spec.ingress[0].ports[1].endPort`; empty for the
    /// whole object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// Marked places, the most important first. Empty only for problems that have no place in a file.
    pub labels: Vec<Label>,
    /// What picket did about it, and other things worth knowing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How to mend it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<Fix>,
}

impl Diagnostic {
    /// A diagnostic that says only what is wrong; add the rest with the `with_` methods or directly.
    pub fn new(code: Code, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            code,
            severity,
            message: message.into(),
            object: None,
            field: String::new(),
            labels: Vec::new(),
            notes: Vec::new(),
            fixes: Vec::new(),
        }
    }

    /// Names the object concerned.
    #[must_use]
    pub fn on(mut self, object: &ObjectRef) -> Self {
        self.object = Some(object.clone());
        self
    }

    /// Marks a place.
    #[must_use]
    pub fn mark(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label {
            span,
            text: text.into(),
        });
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}
