//! JSON values as YAML for people: block style, keys in the order given, quotes only where they are needed.

use std::fmt::Write;

use serde_json::Value;

/// Writes `value` as one YAML document, with `---` before it.
pub(crate) fn write_document(value: &Value, out: &mut String) {
    out.push_str("---\n");
    write_block(value, 0, out);
}

/// Writes a value that begins a line of its own; lines after the first are indented by `depth` blanks.
fn write_block(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (index, (key, value)) in fields.iter().enumerate() {
                indent(index, depth, out);
                write_scalar(&Value::from(key.as_str()), out);
                out.push(':');
                match value {
                    Value::Object(inner) if !inner.is_empty() => nest(value, depth + 2, out),
                    // As kubectl prints them, items stand below their key without further indentation.
                    Value::Array(items) if !items.is_empty() => nest(value, depth, out),
                    scalar => inline(scalar, out),
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                indent(index, depth, out);
                out.push_str("- ");
                write_block(item, depth + 2, out);
            }
        }
        scalar => {
            write_scalar(scalar, out);
            out.push('\n');
        }
    }
}

/// The first line is indented by whoever began it.
fn indent(index: usize, depth: usize, out: &mut String) {
    if index > 0 {
        let _ = write!(out, "{:depth$}", "");
    }
}

fn nest(value: &Value, depth: usize, out: &mut String) {
    let _ = write!(out, "\n{:depth$}", "");
    write_block(value, depth, out);
}

fn inline(value: &Value, out: &mut String) {
    out.push(' ');
    write_scalar(value, out);
    out.push('\n');
}

/// Text that could be read as anything else is quoted as in JSON, which YAML 1.2 contains.
fn write_scalar(value: &Value, out: &mut String) {
    match value {
        Value::String(text) if is_plain(text) => out.push_str(text),
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

/// Whether `text` is a string in YAML 1.1 and 1.2 without quotes: letters first, and none of the words for values.
fn is_plain(text: &str) -> bool {
    const VALUES: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter))
        && !VALUES.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_written_as_people_write_them() {
        let value = json!({
            "kind": "NetworkPolicy",
            "spec": {
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [
                    {"from": [{"ipBlock": {"cidr": "::/0", "except": ["10.0.0.0/8"]}}], "ports": []},
                    {},
                ],
            },
            "replicas": 2,
            "y": "no",
            "app": "1.0",
        });
        let mut text = String::new();
        write_document(&value, &mut text);
        let expected = "\
---
kind: NetworkPolicy
spec:
  podSelector: {}
  policyTypes:
  - Ingress
  ingress:
  - from:
    - ipBlock:
        cidr: \"::/0\"
        except:
        - \"10.0.0.0/8\"
    ports: []
  - {}
replicas: 2
\"y\": \"no\"
app: \"1.0\"
";
        assert_eq!(text, expected);
    }
}
