//! Walking the fields of an object: types, unknown fields, and the path and place of whatever is wrong.

mod cursor;
mod path;
mod suggestion;

use std::ops::Range;

use crate::document::{Manifest, Source, Value};
use crate::{Code, Diagnostic, Fix, ObjectRef, Severity, code};

pub use cursor::{Cursor, Fields, UnknownField};
pub use path::Path;

/// How much is said of one object at most. Nobody reads more, and whoever is wrong 100,000 times in one object is not to fill
/// the memory and the log of others.
const MOST: usize = 100;

/// Something could not be read, and a diagnostic says so. The caller decides what that means for the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Collects what is wrong with one object while it is read.
#[derive(Debug)]
pub struct Reader<'a> {
    source: &'a Source,
    object: ObjectRef,
    diagnostics: Vec<Diagnostic>,
}

impl Manifest {
    /// Begins reading the object. Diagnostics name it by its kind, namespace and name as far as they can be read.
    pub fn reader(&self) -> (Reader<'_>, Cursor<'_>) {
        let metadata = self.root().get("metadata");
        let text = |field| {
            let value = metadata.and_then(|metadata| metadata.get(field));
            value
                .and_then(|value| value.as_str())
                .cloned()
                .unwrap_or_default()
        };
        let object = ObjectRef {
            kind: self.kind().clone(),
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
        };
        let reader = Reader {
            source: self.source(),
            object,
            diagnostics: Vec::new(),
        };
        (reader, Cursor::root(self.root()))
    }
}

impl<'a> Reader<'a> {
    /// The text that the object comes from.
    pub fn source(&self) -> &'a Source {
        self.source
    }

    /// The object, as diagnostics name it.
    pub fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// Names the object otherwise from now on, as when its namespace is a default.
    pub fn rename(&mut self, object: ObjectRef) {
        self.object = object;
    }

    /// Reports an error at a value. Returns [`Unreadable`] for `?` and `Err`.
    pub fn error(&mut self, code: Code, at: &Cursor<'_>, message: impl Into<String>) -> Unreadable {
        self.report(code, Severity::Error, at, message);
        Unreadable
    }

    /// Reports that a field which must be there is missing from the mapping `at`.
    pub fn missing(
        &mut self,
        code: Code,
        at: &Cursor<'_>,
        field: &'static str,
        message: impl Into<String>,
    ) -> Unreadable {
        self.report_at(
            code,
            Severity::Error,
            &at.path().field(field),
            at.first_line(self.source),
            message,
        );
        Unreadable
    }

    /// Reports something at a value; more can be added to what is returned.
    pub fn report(
        &mut self,
        code: Code,
        severity: Severity,
        at: &Cursor<'_>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let range = match at.node().value {
            Value::Sequence(_) | Value::Mapping(_) => at.first_line(self.source),
            _ => at.node().range.clone(),
        };
        self.report_at(code, severity, at.path(), range, message)
    }

    /// Reports something at a path and a range of bytes.
    pub fn report_at(
        &mut self,
        code: Code,
        severity: Severity,
        path: &Path<'_>,
        range: Range<usize>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let mut diagnostic = Diagnostic::new(code, severity, message)
            .on(&self.object)
            .mark(self.source.span(range), "");
        diagnostic.field = path.to_string();
        self.diagnostics.push(diagnostic);
        // INVARIANT: one was just pushed.
        let last = self.diagnostics.len() - 1;
        #[expect(clippy::indexing_slicing, reason = "the index is that of the last element")]
        &mut self.diagnostics[last]
    }

    /// Reports a value that is none of those allowed, in the words of the API server, with the one that may be meant.
    pub fn unsupported(
        &mut self,
        code: Code,
        at: &Cursor<'_>,
        text: &str,
        supported: &[&'static str],
    ) -> Unreadable {
        let quoted: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!(
            "Unsupported value: {text:?}: supported values: {}",
            quoted.join(", ")
        );
        self.report(code, Severity::Error, at, message);
        self.suggest(at, text, supported);
        Unreadable
    }

    /// Adds to the last diagnostic that one of `candidates` may be meant by `text`, which stands at a value.
    pub fn suggest(&mut self, at: &Cursor<'_>, text: &str, candidates: &[&'static str]) {
        let meant = suggestion::nearest(text, candidates.iter().copied());
        if let (Some(meant), Some(diagnostic)) = (meant, self.diagnostics.last_mut()) {
            diagnostic.fixes.push(Fix {
                title: format!("did you mean `{meant}`?"),
                edits: vec![self.source.rewrite(at.node().range.clone(), meant)],
            });
        }
    }

    /// Says in a note what follows from the errors after the first `before` diagnostics. When there are none, because
    /// the parser has reported what is wrong, an error at `at` says it.
    pub fn consequence(&mut self, before: usize, at: &Cursor<'_>, note: &str) {
        let mut errors = self.diagnostics.iter_mut().skip(before);
        if !errors.any(|diagnostic| diagnostic.severity == Severity::Error) {
            self.report(
                code::UNREADABLE,
                Severity::Error,
                at,
                "a part of this cannot be read",
            );
        }
        for diagnostic in self.diagnostics.iter_mut().skip(before) {
            if diagnostic.severity == Severity::Error {
                diagnostic.notes.push(note.to_owned());
            }
        }
    }

    /// What has been reported so far.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Everything that was reported, in order. Of very much only the first are given, errors before others.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        let left_out = self.diagnostics.len().saturating_sub(MOST);
        if left_out > 0 {
            let is_less = |diagnostic: &Diagnostic| diagnostic.severity != Severity::Error;
            self.diagnostics.sort_by_key(is_less);
            self.diagnostics.truncate(MOST);
            let note = format!("{left_out} more of this object are not listed");
            if let Some(last) = self.diagnostics.last_mut() {
                last.notes.push(note);
            }
        }
        self.diagnostics
    }
}

#[cfg(test)]
mod tests;
