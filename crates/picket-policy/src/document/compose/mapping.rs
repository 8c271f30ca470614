//! Mappings: keys as text, each once, with merge keys (<https://yaml.org/type/merge.html>) expanded.

use std::collections::BTreeMap;

use smol_str::{SmolStr, ToSmolStr};

use crate::document::node::{Entry, Node, Value};
use crate::document::source::Source;
use crate::{Diagnostic, Severity, code};

/// The value of a mapping from its keys and values in turn.
///
/// [`Value::Unreadable`] when it cannot be told which keys it has: then not even a key that is present can be relied
/// on to be all that was meant.
pub(super) fn build(source: &Source, children: Vec<Node>, diagnostics: &mut Vec<Diagnostic>) -> Value {
    let mut mapping = Mapping {
        source,
        entries: Vec::with_capacity(children.len() / 2),
        merged: Vec::with_capacity(children.len() / 2),
        index: BTreeMap::new(),
        readable: true,
        diagnostics,
    };
    let mut children = children.into_iter();
    while let (Some(key), Some(value)) = (children.next(), children.next()) {
        if is_merge_key(source, &key) {
            mapping.merge(&key, &value);
        } else if let Some(text) = mapping.key_text(&key) {
            mapping.set(text, key, value);
        }
    }
    if mapping.readable {
        Value::Mapping(mapping.entries.into())
    } else {
        Value::Unreadable
    }
}

/// Plain `<<`; quoted it is a key like any other.
fn is_merge_key(source: &Source, key: &Node) -> bool {
    key.as_str().is_some_and(|text| text == "<<") && source.slice(key.range.clone()) == "<<"
}

/// Up to so many entries are searched one by one: nearly every mapping has fewer, and an index costs more.
const FEW: usize = 16;

struct Mapping<'a> {
    source: &'a Source,
    entries: Vec<Entry>,
    /// Which of the entries came by a merge key, and have not been overridden.
    merged: Vec<bool>,
    /// The places of the keys, once there are more than a few.
    index: BTreeMap<SmolStr, usize>,
    readable: bool,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Mapping<'_> {
    fn find(&self, key: &str) -> Option<usize> {
        if self.entries.len() <= FEW {
            self.entries.iter().position(|entry| entry.key == key)
        } else {
            self.index.get(key).copied()
        }
    }

    fn push(&mut self, entry: Entry, merged: bool) {
        self.entries.push(entry);
        self.merged.push(merged);
        let indexed = self.index.len();
        if self.entries.len() > FEW {
            let places = self.entries.iter().enumerate().skip(indexed);
            let places = places.map(|(at, entry)| (entry.key.clone(), at));
            self.index.extend(places);
        }
    }

    fn set(&mut self, text: SmolStr, key: Node, value: Node) {
        let at = self.find(&text);
        let entry = Entry {
            key: text,
            key_range: key.range,
            value,
        };
        let present = at.and_then(|at| Some((self.entries.get_mut(at)?, self.merged.get_mut(at)?)));
        let Some((present, merged)) = present else {
            self.push(entry, false);
            return;
        };
        if *merged {
            // Overriding is what merge keys are for.
            *merged = false;
            *present = entry;
            return;
        }
        let message = format!("the key `{}` is set twice", entry.key);
        self.diagnostics.push(
            Diagnostic::new(code::DUPLICATE_KEY, Severity::Error, message)
                .mark(self.source.span(entry.key_range), "set again here")
                .mark(self.source.span(present.key_range.clone()), "first set here")
                .note("neither value is used"),
        );
        present.value.value = Value::Unreadable;
    }

    fn merge(&mut self, key: &Node, value: &Node) {
        let maps: Vec<&Node> = match &value.value {
            Value::Sequence(items) => items.iter().collect(),
            _ => vec![value],
        };
        let before = self.entries.len();
        for map in maps {
            match &map.value {
                Value::Mapping(entries) => entries.iter().for_each(|entry| self.inherit(key, before, entry)),
                Value::Unreadable => self.readable = false,
                other => {
                    self.readable = false;
                    let message = format!("`<<` takes mappings, not a value of type {}", other.type_name());
                    let diagnostic = Diagnostic::new(code::MERGE, Severity::Error, message);
                    self.diagnostics.push(
                        diagnostic
                            .mark(self.source.span(map.range.clone()), "not a mapping")
                            .note("the mapping that it stands in is not read"),
                    );
                }
            }
        }
    }

    /// Adds a merged entry. Of several mappings in one `<<` the first that has a key counts; entries below `before`
    /// were there when the `<<` came.
    fn inherit(&mut self, merge_key: &Node, before: usize, entry: &Entry) {
        let at = self.find(&entry.key);
        let Some((at, present)) = at.and_then(|at| Some((at, self.entries.get_mut(at)?))) else {
            self.push(entry.clone(), true);
            return;
        };
        let agree = present.value.value == entry.value.value && is_scalar(&entry.value.value);
        if at >= before || agree {
            return;
        }
        let message = format!(
            "the key `{}` is set before `<<` and again by what is merged",
            entry.key
        );
        self.diagnostics.push(
            Diagnostic::new(code::MERGE, Severity::Error, message)
                .mark(self.source.span(present.key_range.clone()), "set here")
                .mark(self.source.span(merge_key.range.clone()), "and merged here")
                .note("tools disagree on which counts, so neither value is used")
                .note("write `<<` first, then what overrides it"),
        );
        present.value.value = Value::Unreadable;
    }

    /// The text of a key, as `sigs.k8s.io/yaml` turns keys into those of JSON.
    fn key_text(&mut self, key: &Node) -> Option<SmolStr> {
        let text = match &key.value {
            Value::String(text) => return Some(text.clone()),
            Value::Boolean(value) => value.to_smolstr(),
            Value::Integer(value) => value.to_smolstr(),
            Value::Unreadable => {
                self.readable = false;
                return None;
            }
            Value::Null | Value::Float(_) | Value::Sequence(_) | Value::Mapping(_) => {
                self.readable = false;
                let message = format!(
                    "a key must be a string, not a value of type {}",
                    key.value.type_name()
                );
                let diagnostic = Diagnostic::new(code::KEY_TYPE, Severity::Error, message);
                self.diagnostics.push(
                    diagnostic
                        .mark(self.source.span(key.range.clone()), "")
                        .note("the mapping that it stands in is not read"),
                );
                return None;
            }
        };
        let written = self.source.slice(key.range.clone());
        if written != text {
            let message = format!("the key `{written}` is read as `{text}`");
            let diagnostic = Diagnostic::new(code::KEY_TYPE, Severity::Warning, message);
            self.diagnostics.push(
                diagnostic
                    .mark(self.source.span(key.range.clone()), "")
                    .note("`kubectl` reads it so; quote the key to keep it as written"),
            );
        }
        Some(text)
    }
}

fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Sequence(_) | Value::Mapping(_) | Value::Unreadable)
}
