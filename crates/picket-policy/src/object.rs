//! Names of objects and places in files.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use smol_str::SmolStr;

/// Identifies one object: kind, namespace, name and uid, never a joined string.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectRef {
    /// The kind, as in `NetworkPolicy`.
    pub kind: SmolStr,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: SmolStr,
    /// The name.
    pub name: SmolStr,
    /// The uid that the API server gave; empty for objects from files.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub uid: SmolStr,
}

impl ObjectRef {
    /// An object without a uid. `namespace` is empty for cluster-scoped kinds.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            uid: SmolStr::default(),
        }
    }
}

impl fmt::Display for ObjectRef {
    /// `Kind namespace/name`, or `Kind name` for cluster-scoped kinds. For people only: it identifies nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// A line in a file that a person wrote.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    /// The path as given or found, `-` for standard input, empty for objects that came from no file.
    pub file: Arc<str>,
    /// The line, counted from 1; 0 when there is no file.
    pub line: u32,
}

impl Position {
    /// The place of an object that came from no file.
    pub fn unknown() -> Self {
        Self {
            file: Arc::from(""),
            line: 0,
        }
    }
}

impl fmt::Display for Position {
    /// `file:line`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
