//! Diagnostics as SARIF 2.1.0, the format that code hosts show beside the lines.

use std::collections::BTreeMap;

use picket_policy::code::Explanation;
use picket_policy::{Diagnostic, Severity, Span};
use serde_json::{Value, json};

/// The log of one run.
pub(crate) fn log(diagnostics: &[Diagnostic]) -> Value {
    let explanations: BTreeMap<_, &Explanation> = [
        picket_policy::code::ALL,
        picket_cluster::codes::ALL,
        picket_analysis::lint::ALL,
    ]
    .into_iter()
    .flatten()
    .map(|explanation| (explanation.code, explanation))
    .collect();
    let mut codes: Vec<_> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules = codes.iter().map(|code| match explanations.get(code) {
        Some(explanation) => json!({
            "id": code.0,
            "shortDescription": {"text": explanation.title},
            "fullDescription": {"text": explanation.text},
        }),
        None => json!({"id": code.0}),
    });
    let results = diagnostics.iter().map(|diagnostic| {
        let rule = codes.binary_search(&diagnostic.code).unwrap_or_default();
        result(diagnostic, rule)
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "picket",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

fn result(diagnostic: &Diagnostic, rule: usize) -> Value {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let mut text = diagnostic.message.clone();
    for note in &diagnostic.notes {
        text += &format!("\n{note}");
    }
    for fix in diagnostic.fixes.iter().filter(|fix| fix.edits.is_empty()) {
        text += &format!("\n{}", fix.title);
    }
    let mut result = json!({
        "ruleId": diagnostic.code.0,
        "ruleIndex": rule,
        "level": level,
        "message": {"text": text},
    });
    let mut add = |key: &str, values: Vec<Value>| {
        if let (Some(result), false) = (result.as_object_mut(), values.is_empty()) {
            result.insert(key.to_owned(), Value::Array(values));
        }
    };
    let logical = diagnostic.object.as_ref().map(|object| {
        json!([{"fullyQualifiedName": format!("{object} {}", diagnostic.field).trim_end(), "kind": "object"}])
    });
    let mut places = diagnostic.labels.iter();
    let mut location = places.next().map_or_else(
        || json!({}),
        |label| json!({"physicalLocation": physical(&label.span)}),
    );
    if let (Some(location), Some(logical)) = (location.as_object_mut(), logical) {
        location.insert("logicalLocations".to_owned(), logical);
    }
    if location.as_object().is_some_and(|location| !location.is_empty()) {
        add("locations", vec![location]);
    }
    let related = places.enumerate().map(|(id, label)| {
        json!({"id": id, "physicalLocation": physical(&label.span), "message": {"text": label.text}})
    });
    add("relatedLocations", related.collect());
    let certain = diagnostic.fixes.iter().filter(|fix| !fix.edits.is_empty());
    let fixes = certain.map(|fix| {
        let changes = fix.edits.iter().map(|edit| {
            json!({
                "artifactLocation": {"uri": uri(&edit.span.file)},
                "replacements": [{"deletedRegion": region(&edit.span), "insertedContent": {"text": edit.replacement}}],
            })
        });
        json!({"description": {"text": fix.title}, "artifactChanges": changes.collect::<Vec<_>>()})
    });
    add("fixes", fixes.collect());
    result
}

fn physical(span: &Span) -> Value {
    json!({"artifactLocation": {"uri": uri(&span.file)}, "region": region(span)})
}

fn region(span: &Span) -> Value {
    json!({
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    })
}

/// A path as a URI reference (RFC 3986).
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri += &format!("%{byte:02X}");
        }
    }
    uri
}
