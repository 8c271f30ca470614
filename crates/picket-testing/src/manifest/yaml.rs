//! Objects as a file: YAML in block style, YAML in flow style, or JSON.

use serde_json::{Value, json};

use super::style::Style;

/// One file with every object, in order.
pub(super) fn file(objects: &[Value], style: &mut Style) -> String {
    match style.below(4) {
        0 => format!("{:#}\n", list(objects)),
        1 => block(&list(objects), 0),
        _ => {
            let documents = objects.iter().map(|object| match style.choose() {
                true => block(object, 0),
                false => format!("{object}\n"),
            });
            documents.collect::<Vec<_>>().join("---\n")
        }
    }
}

fn list(objects: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": objects})
}

/// Block style, ended by a line break. Texts stand in quotes.
fn block(value: &Value, indent: usize) -> String {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            let entry = |(key, value): (&String, &Value)| format!("{pad}{key}:{}", below(value, indent));
            entries.iter().map(entry).collect()
        }
        Value::Array(items) if !items.is_empty() => {
            let item = |item: &Value| match item {
                Value::Object(entries) if !entries.is_empty() => {
                    let text = block(item, indent + 2);
                    format!("{pad}- {}", &text[indent + 2..])
                }
                other => format!("{pad}-{}", below(other, indent)),
            };
            items.iter().map(item).collect()
        }
        scalar => format!("{pad}{scalar}\n"),
    }
}

/// What follows a key or a dash.
fn below(value: &Value, indent: usize) -> String {
    let is_empty = match value {
        Value::Object(entries) => entries.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    match is_empty {
        true => format!(" {value}\n"),
        false => format!("\n{}", block(value, indent + 2)),
    }
}
