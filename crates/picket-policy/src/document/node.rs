//! The tree that a document is parsed into.

use std::ops::Range;
use std::sync::Arc;

use smol_str::SmolStr;

/// One value of a document and where it stands.
///
/// Aliases and merge keys are expanded; what an alias repeats shares its memory. A node that an alias repeats has the
/// place of the alias, and the nodes below it the places where they are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its bytes in the file. Empty for a value that is left out, as in `key:`.
    pub range: Range<usize>,
}

/// A value of a document, typed as kubectl reads it: YAML 1.1 with the resolution rules of `sigs.k8s.io/yaml`.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `~`, or nothing at all.
    Null,
    /// `true` and `false`, but also plain `yes`, `no`, `on`, `off`, `y` and `n`.
    Boolean(bool),
    /// A plain number without fraction, also as `0x1f`, `0o17`, `017`, `0b1` or `1_000`; a float that has no
    /// fraction counts, because JSON does not tell them apart.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text: everything that is quoted, and what is nothing else.
    String(SmolStr),
    /// A list.
    Sequence(Arc<[Node]>),
    /// Keys with values, in the order written. Keys are unique.
    Mapping(Arc<[Entry]>),
    /// Something that has no meaning, such as a field that is set twice. A diagnostic has been given for it.
    Unreadable,
}

impl Value {
    /// What it is, in the words of JSON, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "boolean",
            Self::Integer(_) => "integer",
            Self::Float(_) => "number",
            Self::String(_) => "string",
            Self::Sequence(_) => "array",
            Self::Mapping(_) => "object",
            Self::Unreadable => "unreadable value",
        }
    }
}

/// A key of a mapping and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: SmolStr,
    /// The bytes of the key in the file.
    pub key_range: Range<usize>,
    /// The value.
    pub value: Node,
}

impl Node {
    /// The value of `key`, when this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries()
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }

    /// The entries of a mapping; none for any other value.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a sequence; none for any other value.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            Value::Sequence(items) => items,
            _ => &[],
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&SmolStr> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is null. A field that is null counts as left out, as in the API server.
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }
}
