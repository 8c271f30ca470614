//! Cutting a file into documents, so that one that cannot be parsed loses no other.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::source::Source;

/// The byte ranges of the documents of a file: what markers separate, and the JSON objects within that.
pub(super) fn split(source: &Source) -> Vec<Range<usize>> {
    let chunks = at_markers(source).into_iter();
    chunks
        .flat_map(|chunk| between_objects(source.text(), chunk))
        .collect()
}

/// Cuts where one JSON object follows another without a marker, as `kubectl` reads them.
///
/// The YAML parser must not look for these places: it reads on to the end of a line before it gives back the first
/// object there, so that asking it object by object costs the square of the line.
fn between_objects(text: &str, chunk: Range<usize>) -> Vec<Range<usize>> {
    let (mut objects, mut start) = (Vec::new(), chunk.start);
    while let Some(length) = text.get(start..chunk.end).and_then(object_before_another) {
        objects.push(start..start + length);
        start += length;
    }
    objects.push(start..chunk.end);
    objects
}

/// The length of the JSON object at the start of the text, if another follows it.
fn object_before_another(text: &str) -> Option<usize> {
    let opens = |text: &str| text.trim_start().starts_with('{');
    if !opens(text) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let length = values.byte_offset();
    opens(text.get(length..)?).then_some(length)
}

/// `---` and `...` at the start of a line end a document wherever they stand: YAML forbids them there inside any
/// scalar (YAML 1.2.2 §9.1.2). Directives stay with the `---` that follows them.
fn at_markers(source: &Source) -> Vec<Range<usize>> {
    let length = source.text().len();
    let mut chunks = Vec::new();
    let (mut start, mut has_content) = (0, false);
    let starts = source.line_starts();
    let ends = starts.iter().skip(1).chain([&length]);
    for (&at, &end) in starts.iter().zip(ends) {
        let first = source.text().as_bytes().get(at).copied();
        if has_content && !first.is_some_and(may_mark) {
            continue;
        }
        let line = source.slice(at..end);
        let mark = line.trim_start_matches('\u{feff}');
        if is_marker(mark, "---") {
            if has_content {
                chunks.push(start..at);
                start = at;
            }
            has_content = true;
        } else if is_marker(mark, "...") {
            chunks.push(start..end);
            (start, has_content) = (end, false);
        } else if !line.trim().is_empty() && !line.starts_with(['#', '%']) {
            has_content = true;
        }
    }
    chunks.push(start..length);
    chunks
}

/// Whether a line may be a marker that begins with this byte, which may be the first one of a byte order mark.
fn may_mark(first: u8) -> bool {
    matches!(first, b'-' | b'.' | 0xef)
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_begin_at_markers_in_the_first_column() {
        for (text, expected) in [
            ("", vec![""]),
            ("a: 1\n", vec!["a: 1\n"]),
            ("a: 1\n\u{feff}---\nb: 1", vec!["a: 1\n", "\u{feff}---\nb: 1"]),
            ("a: 1\n---\nb: 1\n", vec!["a: 1\n", "---\nb: 1\n"]),
            ("---\r\na: 1\r\n---\r\n", vec!["---\r\na: 1\r\n", "---\r\n"]),
            ("# c\n%YAML 1.2\n---\na: 1\n", vec!["# c\n%YAML 1.2\n---\na: 1\n"]),
            (
                "a: 1\n...\n%YAML 1.2\n---\nb: 1",
                vec!["a: 1\n...\n", "%YAML 1.2\n---\nb: 1"],
            ),
            ("{}{\"a\": [{}]} \n{}", vec!["{}", "{\"a\": [{}]}", " \n{}"]),
            ("---\n{}\n{}", vec!["---\n{}\n{}"]),
            ("{\"a\": \"}{\"}: {}", vec!["{\"a\": \"}{\"}: {}"]),
            ("{a: '}{'}{}", vec!["{a: '}{'}{}"]),
            ("a: |\n  ---\n  x\n---x: 1\n", vec!["a: |\n  ---\n  x\n---x: 1\n"]),
        ] {
            let source = Source::decode(&"a.yaml".into(), text.as_bytes()).unwrap();
            let chunks: Vec<_> = split(&source).into_iter().map(|range| &text[range]).collect();
            assert_eq!(chunks, expected);
        }
    }
}
