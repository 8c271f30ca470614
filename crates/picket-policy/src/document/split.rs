//! Cutting a file into documents, so that one that cannot be parsed loses no other.

use std::ops::Range;

/// The byte ranges of the documents of a file.
///
/// `---` and `...` at the start of a line end a document wherever they stand: YAML forbids them there inside any
/// scalar (YAML 1.2.2 §9.1.2). Directives stay with the `---` that follows them.
pub(super) fn split(text: &str) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let (mut start, mut at, mut has_content) = (0, 0, false);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
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
        at = end;
    }
    chunks.push(start..at);
    chunks
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn documents_begin_at_markers_in_the_first_column() {
        for (text, expected) in [
            ("a: 1\n", vec!["a: 1\n"]),
            ("a: 1\n---\nb: 1\n", vec!["a: 1\n", "---\nb: 1\n"]),
            ("---\r\na: 1\r\n---\r\n", vec!["---\r\na: 1\r\n", "---\r\n"]),
            ("# c\n%YAML 1.2\n---\na: 1\n", vec!["# c\n%YAML 1.2\n---\na: 1\n"]),
            (
                "a: 1\n...\n%YAML 1.2\n---\nb: 1",
                vec!["a: 1\n...\n", "%YAML 1.2\n---\nb: 1"],
            ),
            ("a: |\n  ---\n  x\n---x: 1\n", vec!["a: |\n  ---\n  x\n---x: 1\n"]),
        ] {
            let chunks: Vec<_> = split(text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(chunks, expected);
        }
    }
}
