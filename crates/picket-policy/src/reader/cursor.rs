//! One value of an object, and the fields of a mapping.

use std::ops::Range;

use smol_str::SmolStr;

use super::suggestion::nearest;
use super::{Path, Reader, Unreadable};
use crate::document::{Entry, Node, Source, Value};
use crate::{Edit, Fix, Severity, code};

/// A value of an object and the path to it.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    node: &'a Node,
    path: Path<'a>,
}

impl<'a> Cursor<'a> {
    /// The object itself.
    pub(super) fn root(node: &'a Node) -> Self {
        let path = Path::default();
        Self { node, path }
    }

    /// The value.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// The path to it.
    pub fn path(&self) -> &Path<'a> {
        &self.path
    }

    /// The first line of the value: what to mark when the whole is meant.
    pub(super) fn first_line(&self, source: &Source) -> Range<usize> {
        let Range { start, end } = self.node.range;
        let width = source.slice(start..end).lines().next().map_or(0, str::len);
        start..start + width
    }

    /// The fields of a mapping.
    ///
    /// # Errors
    /// When it is anything else, which is reported.
    pub fn fields(&self, reader: &mut Reader<'_>) -> Result<Fields<'a>, Unreadable> {
        match &self.node.value {
            Value::Mapping(entries) => Ok(Fields {
                at: self.clone(),
                entries,
                known: Vec::new(),
            }),
            _ => Err(self.wrong_type(reader, "an object")),
        }
    }

    /// The items of a list.
    ///
    /// # Errors
    /// When it is anything else, which is reported.
    pub fn items(&self, reader: &mut Reader<'_>) -> Result<Vec<Self>, Unreadable> {
        match &self.node.value {
            Value::Sequence(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(index, node)| Self {
                    node,
                    path: self.path.index(index),
                })
                .collect()),
            _ => Err(self.wrong_type(reader, "an array")),
        }
    }

    /// The entries of a mapping whose keys are free, such as labels. Null values are left out.
    ///
    /// # Errors
    /// When it is anything else, which is reported.
    pub fn entries(&self, reader: &mut Reader<'_>) -> Result<Vec<(&'a Entry, Self)>, Unreadable> {
        match &self.node.value {
            Value::Mapping(entries) => Ok(entries
                .iter()
                .map(|entry| {
                    let node = &entry.value;
                    let path = self.path.field(&entry.key);
                    (entry, Self { node, path })
                })
                .collect()),
            _ => Err(self.wrong_type(reader, "an object")),
        }
    }

    /// The text of a string.
    ///
    /// # Errors
    /// When it is anything else, which is reported.
    pub fn string(&self, reader: &mut Reader<'_>) -> Result<&'a SmolStr, Unreadable> {
        match &self.node.value {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong_type(reader, "a string")),
        }
    }

    /// A whole number.
    ///
    /// # Errors
    /// When it is anything else, which is reported.
    pub fn integer(&self, reader: &mut Reader<'_>) -> Result<i64, Unreadable> {
        match self.node.value {
            Value::Integer(number) => Ok(number),
            _ => Err(self.wrong_type(reader, "an integer")),
        }
    }

    /// A truth value.
    ///
    /// # Errors
    /// When it is anything else, which is reported.
    pub fn boolean(&self, reader: &mut Reader<'_>) -> Result<bool, Unreadable> {
        match self.node.value {
            Value::Boolean(value) => Ok(value),
            _ => Err(self.wrong_type(reader, "a boolean")),
        }
    }

    /// Reports that the value is not `expected`, as in "a string". What the parser has already reported is not
    /// reported again.
    pub fn wrong_type(&self, reader: &mut Reader<'_>, expected: &str) -> Unreadable {
        let found = &self.node.value;
        if *found == Value::Unreadable {
            return Unreadable;
        }
        let written = reader.source().slice(self.node.range.clone()).to_owned();
        let fix = match found {
            Value::Boolean(_) | Value::Integer(_) | Value::Float(_) if expected == "a string" => {
                Some(format!("\"{written}\""))
            }
            Value::String(text) if expected == "an integer" => {
                text.parse::<i64>().ok().map(|number| number.to_string())
            }
            Value::String(text) if expected == "a boolean" && ["true", "false"].contains(&text.as_str()) => {
                Some(text.to_string())
            }
            _ => None,
        };
        let article = match found.type_name() {
            name @ ("array" | "integer" | "object") => format!("an {name}"),
            "null" => "null".to_owned(),
            name => format!("a {name}"),
        };
        let span = reader.source().span(self.node.range.clone());
        let message = format!("must be {expected}, not {article}");
        let diagnostic = reader.report(code::WRONG_TYPE, Severity::Error, self, message);
        diagnostic.fixes.extend(fix.map(|replacement| Fix {
            title: format!("write `{replacement}`"),
            edits: vec![Edit { span, replacement }],
        }));
        Unreadable
    }
}

/// The fields of a mapping, of which it remembers those that were asked for.
#[derive(Debug)]
pub struct Fields<'a> {
    at: Cursor<'a>,
    entries: &'a [Entry],
    known: Vec<&'static str>,
}

/// A field that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// What was written.
    pub name: SmolStr,
    /// What may have been meant.
    pub suggestion: Option<&'static str>,
}

impl<'a> Fields<'a> {
    /// The mapping.
    pub fn cursor(&self) -> &Cursor<'a> {
        &self.at
    }

    /// The value of a field, or `None` when it is missing or null, which the API does not tell apart.
    pub fn get(&mut self, name: &'static str) -> Option<Cursor<'a>> {
        self.known.push(name);
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        let node = &entry.value;
        let path = self.at.path.field(name);
        (!node.is_null()).then_some(Cursor { node, path })
    }

    /// Whether there is such a field, and it is not null.
    pub fn has(&self, name: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.key == name && !entry.value.is_null())
    }

    /// Whether a field is missing, and another that was not asked for is probably a misspelling of it.
    pub fn is_misspelt(&self, name: &'static str) -> bool {
        let unknown =
            |entry: &&Entry| entry.key != name && !self.known.iter().any(|known| *known == entry.key);
        let mut unknown = self.entries.iter().filter(unknown);
        !self.has(name) && unknown.any(|entry| nearest(&entry.key, [name]).is_some())
    }

    /// Reports every field that was neither asked for nor is one of `others`, the fields that exist besides.
    pub fn unknown(&self, others: &[&'static str], reader: &mut Reader<'_>) -> Vec<UnknownField> {
        let mut found = Vec::new();
        let exists = |name: &str| self.known.iter().chain(others).any(|known| *known == name);
        let absent = self.known.iter().chain(others).copied();
        let absent = absent.filter(|known| !self.entries.iter().any(|entry| entry.key == *known));
        let absent: Vec<&'static str> = absent.collect();
        for entry in self.entries.iter().filter(|entry| !exists(&entry.key)) {
            let name = &entry.key;
            let suggestion = nearest(name, absent.iter().copied());
            let path = self.at.path.field(name);
            let edit =
                suggestion.map(|meant| (meant, reader.source().rewrite(entry.key_range.clone(), meant)));
            let diagnostic = reader.report_at(
                code::UNKNOWN_FIELD,
                Severity::Error,
                &path,
                entry.key_range.clone(),
                format!("unknown field `{path}`"),
            );
            diagnostic.fixes.extend(edit.map(|(meant, edit)| Fix {
                title: format!("did you mean `{meant}`?"),
                edits: vec![edit],
            }));
            found.push(UnknownField {
                name: name.clone(),
                suggestion,
            });
        }
        found
    }
}
