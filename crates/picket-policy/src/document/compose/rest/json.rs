//! The items of a JSON list before the one that cannot be parsed.

use std::ops::Range;

use super::{list, parse, report};
use crate::Diagnostic;
use crate::document::compose::{Root, Stop};
use crate::document::source::Source;

/// Keeps the items before the first that cannot be parsed on its own. A bracket too much may have ended an item early: one
/// counts only if what follows it begins as an object does.
pub(super) fn of_list(
    source: &Source,
    range: Range<usize>,
    stop: &Stop,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Root> {
    let text = source.slice(range.clone());
    let found = items(text)?;
    let mut kept = Vec::new();
    let mut lost = stop.at;
    for (at, item) in found.iter().enumerate() {
        let item = range.start + item.start..range.start + item.end;
        let next = found.get(at + 1).and_then(|next| text.get(next.start..));
        let mut problems = Vec::new();
        let node = parse(source, source.slice(item.clone()), item.start, &mut problems);
        match node {
            Ok(Some(node)) if next.is_some_and(begins_object) => kept.push(node),
            _ => {
                lost = item.start;
                break;
            }
        }
        diagnostics.extend(problems);
    }
    report(source, lost..range.end, stop, None, diagnostics);
    Some(Root {
        node: list::list(&[], kept, range),
        broken: Vec::new(),
        is_list: true,
    })
}

/// Whether a text begins as an object of Kubernetes does.
fn begins_object(text: &str) -> bool {
    let inside = text.strip_prefix('{').map(str::trim_start);
    let keys = ["\"apiVersion\"", "\"kind\"", "\"metadata\""];
    inside.is_some_and(|inside| keys.iter().any(|key| inside.starts_with(key)))
}

/// The ranges of the items of the list `items` of the outermost object, the last of which may have no end.
fn items(text: &str) -> Option<Vec<Range<usize>>> {
    let mut closing = Vec::new();
    let mut found: Option<Vec<Range<usize>>> = None;
    let (mut string, mut escaped) = (None, false);
    let mut last_string = "";
    for (at, character) in text.char_indices() {
        if let Some(start) = string {
            if !escaped && character == '"' {
                last_string = text.get(start + 1..at).unwrap_or_default();
                string = None;
            }
            escaped = !escaped && character == '\\';
            continue;
        }
        let in_list = closing.len() == 2 && found.is_some();
        match character {
            '"' => string = Some(at),
            '[' if closing.len() == 1 && last_string == "items" && found.is_none() => {
                found = Some(Vec::new());
            }
            ',' if in_list => continue,
            _ => {}
        }
        match character {
            '{' | '[' => closing.push(if character == '{' { '}' } else { ']' }),
            '}' | ']' if closing.pop() != Some(character) => break,
            ']' if in_list => break,
            _ => {}
        }
        let Some(found) = found.as_mut() else { continue };
        if character.is_whitespace() {
            continue;
        }
        let end = at + character.len_utf8();
        let same =
            |last: &Range<usize>| !in_list || !text.get(last.end..at).is_some_and(|gap| gap.contains(','));
        match found.last_mut() {
            Some(last) if same(last) => last.end = end,
            _ if in_list => found.push(at..end),
            _ => {}
        }
    }
    found
}
