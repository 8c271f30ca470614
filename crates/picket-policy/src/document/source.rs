//! The text of one file, and places in it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::{Code, Diagnostic, Edit, Position, Severity, Span, code};

/// The text of one file. Clones share it.
#[derive(Clone, Debug)]
pub struct Source(Arc<Text>);

struct Text {
    file: Arc<str>,
    text: Arc<str>,
    /// The byte at which each line begins.
    lines: Vec<usize>,
    /// How many characters stand before each block of [`BLOCK`] bytes: a whole dump may stand in one line, and a column
    /// in it must not cost its length.
    characters: Vec<usize>,
}

/// The distance in bytes of the places whose number of characters is kept.
const BLOCK: usize = 1024;

impl fmt::Debug for Text {
    /// The file's name only: sources are part of every value read from them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.file)
    }
}

const BYTE_ORDER_MARK: char = '\u{feff}';

impl Source {
    /// Decodes the bytes of `file`, which must be UTF-8. A byte order mark is accepted.
    ///
    /// # Errors
    /// A diagnostic that marks the first byte which is not text.
    pub fn decode(file: &Arc<str>, bytes: &[u8]) -> Result<Self, Box<Diagnostic>> {
        let refuse = |code: Code, valid: &[u8], message: String| {
            let whole = Self::new(file, &String::from_utf8_lossy(valid));
            let end = whole.text().len();
            let mut span = whole.span(end..end);
            (span.start, span.end) = (valid.len(), valid.len() + 1);
            span.end_column += 1;
            Err(Box::new(
                Diagnostic::new(code, Severity::Error, message).mark(span, "not text"),
            ))
        };
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            let message = "the file is UTF-16; save it as UTF-8";
            return refuse(code::NOT_UTF8, &[], message.to_owned());
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let at = error.valid_up_to();
                let message = format!("the file is not UTF-8: invalid byte at offset {at}");
                return refuse(code::NOT_UTF8, bytes.get(..at).unwrap_or_default(), message);
            }
        };
        if let Some(at) = text.find('\0') {
            let message = format!("the file is not text: NUL byte at offset {at}; is it UTF-16 or binary?");
            return refuse(code::NOT_UTF8, bytes.get(..at).unwrap_or_default(), message);
        }
        Ok(Self::new(file, text))
    }

    fn new(file: &Arc<str>, text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        let characters = text
            .as_bytes()
            .chunks(BLOCK)
            .scan(0, |before, block| {
                let here = *before;
                *before += characters(block);
                Some(here)
            })
            .collect();
        Self(Arc::new(Text {
            file: file.clone(),
            text: text.into(),
            lines,
            characters,
        }))
    }

    /// The path as given or found, `-` for standard input.
    pub fn file(&self) -> &Arc<str> {
        &self.0.file
    }

    /// The whole text, with its byte order mark if it has one: offsets in it are offsets in the file.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The whole text, sharing its memory.
    pub fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.0.text)
    }

    /// The byte at which each line begins; the last line may be empty.
    pub(super) fn line_starts(&self) -> &[usize] {
        &self.0.lines
    }

    /// The text of a range; empty when the range does not lie on character boundaries.
    pub fn slice(&self, range: Range<usize>) -> &str {
        self.0.text.get(range).unwrap_or_default()
    }

    /// Writes `text`, which needs no escapes, for the scalar at a range: in the quotes that it has, or in some where YAML
    /// would not take it without.
    pub fn rewrite(&self, range: Range<usize>, text: &str) -> Edit {
        let quote = match self.slice(range.clone()).chars().next() {
            Some('"') => "\"",
            Some('\'') => "'",
            _ if text.starts_with(':') => "\"",
            _ => "",
        };
        Edit {
            span: self.span(range),
            replacement: format!("{quote}{text}{quote}"),
        }
    }

    /// The place that a range of bytes takes up.
    pub fn span(&self, range: Range<usize>) -> Span {
        let (line, column) = self.line_and_column(range.start);
        let (end_line, end_column) = self.line_and_column(range.end);
        Span {
            file: self.0.file.clone(),
            start: range.start,
            end: range.end,
            line,
            column,
            end_line,
            end_column,
        }
    }

    /// The line of a byte.
    pub fn position(&self, at: usize) -> Position {
        Position {
            file: self.0.file.clone(),
            line: number(self.line(at)),
        }
    }

    /// The line of a byte, counted from 1.
    fn line(&self, at: usize) -> usize {
        self.0.lines.partition_point(|&start| start <= at).max(1)
    }

    fn line_and_column(&self, at: usize) -> (u32, u32) {
        let line = self.line(at);
        let start = self.0.lines.get(line - 1).copied().unwrap_or_default();
        // The mark takes no column; it can only stand in the first line.
        let mark = usize::from(start == 0 && at > 0 && self.text().starts_with(BYTE_ORDER_MARK));
        let characters = match self.text().as_bytes().get(start..at) {
            Some(short) if short.len() <= BLOCK => characters(short),
            _ => self.characters_before(at) - self.characters_before(start),
        };
        (number(line), number(characters - mark + 1))
    }

    fn characters_before(&self, at: usize) -> usize {
        let at = at.min(self.text().len());
        let block = (at / BLOCK).min(self.0.characters.len().saturating_sub(1));
        let rest = self.text().as_bytes().get(block * BLOCK..at).unwrap_or_default();
        self.0.characters.get(block).copied().unwrap_or_default() + characters(rest)
    }
}

/// How many characters begin in a part of a text.
fn characters(bytes: &[u8]) -> usize {
    let continues = |byte: u8| byte & 0xc0 == 0x80;
    bytes.iter().filter(|&&byte| !continues(byte)).count()
}

fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::decode(&"a.yaml".into(), text.as_bytes()).unwrap()
    }

    #[test]
    fn columns_count_characters_and_offsets_count_bytes() {
        let span = source("é: ü\r\nñ: [ö, x]\n").span(13..15);
        assert_eq!(
            (span.line, span.column, span.end_line, span.end_column),
            (2, 5, 2, 6)
        );
        assert_eq!((span.start, span.end), (13, 15));
    }

    #[test]
    fn columns_of_a_dump_in_one_line_do_not_cost_its_length() {
        let source = source(&"é,".repeat(500_000));
        for at in (0..1_500_000).step_by(30) {
            let column = source.span(at..at + 2).column;
            assert_eq!(column as usize, at / 3 * 2 + 1);
        }
    }

    #[test]
    fn a_byte_order_mark_takes_bytes_but_no_column() {
        let source = source("\u{feff}a: 1");
        assert_eq!((source.span(3..4).column, source.slice(3..4)), (1, "a"));
    }

    #[test]
    fn what_is_not_utf8_is_refused_with_its_place() {
        for (bytes, message, line, column, start) in [
            (
                &b"a: 1\nb: \xff\n"[..],
                "the file is not UTF-8: invalid byte at offset 8",
                2,
                4,
                8,
            ),
            (b"\xff\xfea\0", "the file is UTF-16; save it as UTF-8", 1, 1, 0),
            (
                b"a\0b\0",
                "the file is not text: NUL byte at offset 1; is it UTF-16 or binary?",
                1,
                2,
                1,
            ),
        ] {
            let diagnostic = Source::decode(&"a.yaml".into(), bytes).unwrap_err();
            assert_eq!(diagnostic.message, message);
            let span = &diagnostic.labels[0].span;
            assert_eq!(
                (span.line, span.column, span.start),
                (line, column, start),
                "{message}"
            );
        }
    }
}
