//! Objects with one mistake.

use serde_json::Value;

/// The object with one field moved to the next mapping around the one that it stands in.
///
/// The same object when there is none, when that has such a field, or when the field has a meaning there as well.
pub(crate) fn hoist(object: &Value, place: &[String]) -> Value {
    let pointer = |path: &[String]| path.iter().map(|step| format!("/{step}")).collect::<String>();
    let mut hoisted = object.clone();
    let Some((key, parent)) = place.split_last() else {
        return hoisted;
    };
    let around = (0..parent.len()).rev().map(|length| pointer(&place[..length]));
    let Some(around) = around
        .into_iter()
        .find(|path| object.pointer(path).is_some_and(Value::is_object))
    else {
        return hoisted;
    };
    let taken = object
        .pointer(&around)
        .is_some_and(|around| around.get(key).is_some());
    if taken || (key == "podSelector" && around == "/spec") {
        return hoisted;
    }
    let fields = hoisted
        .pointer_mut(&pointer(parent))
        .and_then(Value::as_object_mut);
    let value = fields
        .and_then(|fields| fields.shift_remove(key))
        .expect("the place is a field");
    let around = hoisted.pointer_mut(&around).and_then(Value::as_object_mut);
    around.expect("it is a mapping").insert(key.clone(), value);
    hoisted
}

/// A mistake at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Corruption {
    /// The key gets another letter.
    Misspell,
    /// The value becomes a fraction, which no field takes.
    Retype,
    /// The value becomes a list of lists, which no field takes.
    Nest,
    /// The key is there twice, with different values.
    Repeat,
    /// The value is an alias of nothing.
    Alias,
}

/// The paths of every field and item that can be corrupted so; indexes are written as numbers.
pub(crate) fn places(value: &Value, corruption: Corruption) -> Vec<Vec<String>> {
    fn walk(value: &Value, corruption: Corruption, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
        let of_keys = matches!(corruption, Corruption::Misspell | Corruption::Repeat);
        // Any key is a label: another one is another policy.
        let free = path
            .last()
            .is_some_and(|key| key == "matchLabels" || key == "labels");
        let children: Vec<(String, &Value, bool)> = match value {
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| (key.clone(), value, !(free && corruption == Corruption::Misspell)))
                .collect(),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(index, value)| (index.to_string(), value, !of_keys))
                .collect(),
            _ => Vec::new(),
        };
        for (step, child, fits) in children {
            path.push(step);
            if fits {
                found.push(path.clone());
            }
            walk(child, corruption, path, found);
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(value, corruption, &mut Vec::new(), &mut found);
    found
}

/// Prints JSON with one mistake in it.
pub(crate) struct Printer<'a> {
    pub(crate) place: &'a [String],
    pub(crate) corruption: Corruption,
}

impl Printer<'_> {
    pub(crate) fn print(&self, value: &Value) -> String {
        self.at(value, &mut Vec::new())
    }

    fn at(&self, value: &Value, path: &mut Vec<String>) -> String {
        let mut child = |step: &str, value: &Value| {
            path.push(step.to_owned());
            let here = path == self.place;
            let text = match self.corruption {
                Corruption::Retype if here => "0.5".to_owned(),
                Corruption::Nest if here => "[[]]".to_owned(),
                Corruption::Alias if here => "*gone".to_owned(),
                _ => self.at(value, path),
            };
            path.pop();
            (here, text)
        };
        match value {
            Value::Object(fields) => {
                let mut parts = Vec::new();
                for (key, value) in fields {
                    let (here, text) = child(key, value);
                    let misspelt = here && self.corruption == Corruption::Misspell;
                    let suffix = if misspelt { "s" } else { "" };
                    parts.push(format!("\"{key}{suffix}\": {text}"));
                    if here && self.corruption == Corruption::Repeat {
                        parts.push(format!("\"{key}\": null"));
                    }
                }
                format!("{{{}}}", parts.join(", "))
            }
            Value::Array(items) => {
                let items = items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| child(&index.to_string(), value).1);
                format!("[{}]", items.collect::<Vec<_>>().join(", "))
            }
            scalar => scalar.to_string(),
        }
    }
}
