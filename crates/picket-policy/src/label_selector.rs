//! LabelSelector (meta/v1), as policies and workloads write it.

use smol_str::SmolStr;

use crate::reader::{Cursor, Reader, Unreadable};
use crate::{Requirement, Selector, Severity, code, name};

/// What could be read of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The requirements that can be read: together they match everything that the selector matches.
    pub selector: Selector,
    /// Whether that is all of it.
    pub complete: bool,
}

impl Reading {
    /// The selector that matches everything.
    pub fn everything() -> Self {
        Self {
            selector: Selector::everything(),
            complete: true,
        }
    }

    /// The selector, if all of it could be read.
    pub fn whole(self) -> Result<Selector, Unreadable> {
        if self.complete {
            Ok(self.selector)
        } else {
            Err(Unreadable)
        }
    }
}

/// Reads a selector. A requirement that the API server would refuse counts as one that cannot be read.
pub fn read(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Reading {
    let mut requirements = Vec::new();
    let complete = requirements_of(at, &mut requirements, reader).is_ok();
    Reading {
        selector: requirements.into_iter().collect(),
        complete,
    }
}

/// Reads a selector of which a part may be lost: the requirements that every selector which may be meant has. A list of
/// values is not among them: it may have had more.
pub(crate) fn rest(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Selector {
    let labels = at.node().get("matchLabels");
    let label = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
    let readable = read(at, reader).selector;
    let kept = readable
        .requirements()
        .iter()
        .filter(|requirement| match requirement {
            Requirement::In(key, values) => {
                label(key).is_some_and(|label| values.iter().all(|value| value == label))
            }
            Requirement::NotIn(..) | Requirement::Exists(_) | Requirement::DoesNotExist(_) => true,
        });
    kept.cloned().collect()
}

fn requirements_of(
    at: &Cursor<'_>,
    found: &mut Vec<Requirement>,
    reader: &mut Reader<'_>,
) -> Result<(), Unreadable> {
    let mut fields = at.fields(reader)?;
    let labels = fields.get("matchLabels");
    let expressions = fields.get("matchExpressions");
    let mut sound = if fields.unknown(&[], reader).is_empty() {
        Ok(())
    } else {
        Err(Unreadable)
    };
    let mut keep = |requirement: Result<Requirement, Unreadable>| match requirement {
        Ok(requirement) => found.push(requirement),
        Err(Unreadable) => sound = Err(Unreadable),
    };
    if let Some(labels) = labels {
        match labels.entries(reader) {
            Ok(entries) => {
                for (entry, value) in entries {
                    let key_range = entry.key_range.clone();
                    keep(label(&labels, (&entry.key, key_range), &value, reader));
                }
            }
            Err(Unreadable) => keep(Err(Unreadable)),
        }
    }
    if let Some(expressions) = expressions {
        match expressions.items(reader) {
            Ok(items) => items.iter().for_each(|item| keep(expression(item, reader))),
            Err(Unreadable) => keep(Err(Unreadable)),
        }
    }
    sound
}

/// An entry of `matchLabels`. A null value is the empty text for the API server.
fn label(
    labels: &Cursor<'_>,
    (key, key_range): (&SmolStr, std::ops::Range<usize>),
    value: &Cursor<'_>,
    reader: &mut Reader<'_>,
) -> Result<Requirement, Unreadable> {
    let mut sound = Ok(());
    for problem in name::qualified_name(key) {
        let message = format!("Invalid value: {key:?}: {problem}");
        reader.report_at(
            code::SELECTOR,
            Severity::Error,
            labels.path(),
            key_range.clone(),
            message,
        );
        sound = Err(Unreadable);
    }
    let text = text_or_empty(value, reader)?;
    for problem in name::label_value(&text) {
        let message = format!("Invalid value: {text:?}: {problem}");
        let range = value.node().range.clone();
        reader.report_at(code::SELECTOR, Severity::Error, labels.path(), range, message);
        sound = Err(Unreadable);
    }
    sound.map(|()| Requirement::In(key.clone(), vec![text]))
}

fn text_or_empty(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<SmolStr, Unreadable> {
    if at.node().is_null() {
        Ok(SmolStr::default())
    } else {
        at.string(reader).cloned()
    }
}

/// An item of `matchExpressions`.
fn expression(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Requirement, Unreadable> {
    let mut fields = at.fields(reader)?;
    let key = fields.get("key");
    let operator = fields.get("operator");
    let values = fields.get("values");
    let known = fields.unknown(&[], reader).is_empty();

    let operator_text = match &operator {
        Some(operator) => operator.string(reader).map(SmolStr::as_str),
        None => Ok(""),
    };
    let value_texts = match &values {
        Some(values) => value_texts(values, reader),
        None => Ok(Vec::new()),
    };
    let mut sound = if known { Ok(()) } else { Err(Unreadable) };
    match (operator_text, &value_texts) {
        (Ok("In" | "NotIn"), Ok(texts)) if texts.is_empty() => {
            let message = "Required value: must be specified when `operator` is 'In' or 'NotIn'";
            sound = Err(match &values {
                Some(values) => reader.error(code::SELECTOR, values, message),
                None => reader.missing(code::SELECTOR, at, "values", message),
            });
        }
        (Ok("Exists" | "DoesNotExist"), Ok(texts)) if !texts.is_empty() => {
            let message = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            sound = Err(reader.error(code::SELECTOR, values.as_ref().unwrap_or(at), message));
        }
        (Ok("In" | "NotIn" | "Exists" | "DoesNotExist"), _) => {}
        (Ok(text), _) => sound = Err(bad_operator(at, operator.as_ref(), text, reader)),
        (Err(Unreadable), _) => sound = Err(Unreadable),
    }
    let key = match &key {
        Some(key) => key.string(reader).map(|text| (Some(key), text.clone())),
        None => Ok((None, SmolStr::default())),
    };
    let (key_at, key) = key?;
    for problem in name::qualified_name(&key) {
        let message = format!("Invalid value: {key:?}: {problem}");
        sound = Err(match key_at {
            Some(key_at) => reader.error(code::SELECTOR, key_at, message),
            None => reader.missing(code::SELECTOR, at, "key", message),
        });
    }
    let values = value_texts?;
    sound?;
    match operator_text? {
        "In" => Ok(Requirement::In(key, values)),
        "NotIn" => Ok(Requirement::NotIn(key, values)),
        "Exists" => Ok(Requirement::Exists(key)),
        "DoesNotExist" => Ok(Requirement::DoesNotExist(key)),
        _ => Err(Unreadable),
    }
}

fn bad_operator(
    at: &Cursor<'_>,
    operator: Option<&Cursor<'_>>,
    text: &str,
    reader: &mut Reader<'_>,
) -> Unreadable {
    let message = format!("Invalid value: {text:?}: not a valid selector operator");
    let Some(operator) = operator else {
        return reader.missing(code::SELECTOR, at, "operator", message);
    };
    reader.report(code::SELECTOR, Severity::Error, operator, message);
    reader.suggest(operator, text, &["In", "NotIn", "Exists", "DoesNotExist"]);
    Unreadable
}

fn value_texts(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Vec<SmolStr>, Unreadable> {
    let mut texts = Vec::new();
    let mut sound = Ok(());
    for item in at.items(reader)? {
        match text_or_empty(&item, reader) {
            Ok(text) => {
                for problem in name::label_value(&text) {
                    sound = Err(reader.error(
                        code::SELECTOR,
                        &item,
                        format!("Invalid value: {text:?}: {problem}"),
                    ));
                }
                texts.push(text);
            }
            Err(Unreadable) => sound = Err(Unreadable),
        }
    }
    sound.map(|()| texts)
}
