//! Reading what tools write without a parser for all of YAML: mappings and lists in blocks, and scalars in one line.
//!
//! Nearly every document of a large cluster is one of these, and is read several times as fast. This never decides what
//! text means: it reads a document as the parser does, places included, or not at all, and then the parser reads it.
//! Whatever could be an error, needs a diagnostic or has a meaning of its own in YAML counts as not at all.

use std::ops::Range;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::document::node::{Entry, Node, Value};
use crate::document::scalar;
use crate::document::source::Source;

/// How deep blocks may nest here: less than the parser allows.
const MAX_DEPTH: usize = 32;

/// How many keys a mapping may have here, because each is compared with those before it.
const MAX_KEYS: usize = 64;

/// How long a key may be here: less than the parser allows.
const MAX_KEY_LENGTH: usize = 256;

/// The mapping or list that a range of the text is, if all of it is simple.
pub(super) fn read(source: &Source, chunk: Range<usize>) -> Option<Node> {
    let text = source.slice(chunk.clone());
    let is_plain = |byte| matches!(byte, b'\n' | b' '..=b'~');
    // Without an early end, so that it takes many bytes at a time.
    if !text.bytes().fold(true, |all, byte| all & is_plain(byte)) {
        return None;
    }
    let starts = source.line_starts();
    let after = starts.partition_point(|start| *start <= chunk.start);
    let mut blocks = Blocks {
        source,
        starts: starts.get(after..)?,
        next: chunk.start,
        end: chunk.end,
        line: None,
    };
    blocks.advance();
    if blocks.line?.column == 0 && blocks.line?.text == "---" {
        blocks.advance();
    }
    let root = blocks.block(MAX_DEPTH)?;
    blocks.line.is_none().then_some(root)
}

/// What is left of a line.
#[derive(Clone, Copy)]
struct Line<'a> {
    column: usize,
    /// Its first byte in the file.
    at: usize,
    /// Without spaces around it; never empty.
    text: &'a str,
}

impl<'a> Line<'a> {
    /// What follows the dash, if the line begins with an item of a list.
    fn item(self) -> Option<Self> {
        let rest = self.text.strip_prefix("- ")?;
        self.skip(self.text.len() - rest.trim_ascii_start().len())
    }

    /// The line without its first bytes.
    fn skip(self, bytes: usize) -> Option<Self> {
        Some(Self {
            column: self.column + bytes,
            at: self.at + bytes,
            text: self.text.get(bytes..)?,
        })
    }

    /// The length of the key that the line begins with.
    fn key(self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./".contains(byte);
        let length = bytes.iter().position(|byte| !part(byte))?;
        let ends = matches!(bytes.get(length..)?, [b':'] | [b':', b' ', ..]);
        let begins = bytes.first().is_some_and(u8::is_ascii_alphabetic);
        (begins && ends && length <= MAX_KEY_LENGTH).then_some(length)
    }

    /// The scalar that the line is.
    fn scalar(self) -> Option<Node> {
        let value = match self.text.as_bytes() {
            [b'"', inner @ .., b'"'] if !inner.iter().any(|byte| b"\"\\".contains(byte)) => self.quoted(),
            [b'\'', inner @ .., b'\''] if !inner.contains(&b'\'') => self.quoted(),
            b"{}" => Value::Mapping(Arc::default()),
            b"[]" => Value::Sequence(Arc::default()),
            [first, ..] if first.is_ascii_alphanumeric() || b"/_".contains(first) => self.plain()?,
            _ => return None,
        };
        Some(Node {
            value,
            range: self.at..self.at + self.text.len(),
        })
    }

    fn quoted(self) -> Value {
        let inner = self.text.get(1..self.text.len() - 1);
        Value::String(SmolStr::new(inner.unwrap_or_default()))
    }

    /// A plain scalar, unless it holds what ends one.
    fn plain(self) -> Option<Value> {
        let bytes = self.text.as_bytes();
        let ends = |pair: &[u8]| matches!(pair, b": " | b" #");
        let is_whole = bytes.last() != Some(&b':') && !bytes.windows(2).any(ends);
        is_whole.then(|| scalar::resolve(self.text))
    }
}

/// The blocks of a document, read from its first line to its last.
struct Blocks<'a> {
    source: &'a Source,
    /// Where the lines after the next one begin.
    starts: &'a [usize],
    /// Where the next line begins.
    next: usize,
    end: usize,
    /// The line that is read; none at the end.
    line: Option<Line<'a>>,
}

impl Blocks<'_> {
    /// Goes on to the next line that has anything but a comment.
    fn advance(&mut self) {
        self.line = None;
        while self.line.is_none() && self.next < self.end {
            let begin = self.next;
            let after = self.starts.split_first();
            self.next = after.map_or(self.end, |(next, _)| self.end.min(*next));
            self.starts = after.map_or(&[], |(_, starts)| starts);
            let written = self.source.slice(begin..self.next);
            let text = written.trim_ascii_start();
            let column = written.len() - text.len();
            let line = Line {
                column,
                at: begin + column,
                text: text.trim_ascii_end(),
            };
            self.line = Some(line).filter(|line| !line.text.is_empty() && !line.text.starts_with('#'));
        }
    }

    /// The mapping or list that begins with the line.
    fn block(&mut self, depth: usize) -> Option<Node> {
        let depth = depth.checked_sub(1)?;
        let line = self.line?;
        if line.item().is_some() {
            self.sequence(line.column, depth)
        } else {
            self.mapping(line.column, depth)
        }
    }

    fn mapping(&mut self, column: usize, depth: usize) -> Option<Node> {
        let start = self.line?.at;
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(line) = self.line.filter(|line| line.column >= column) {
            let length = line.key().filter(|_| line.column == column)?;
            let Value::String(key) = scalar::resolve(line.text.get(..length)?) else {
                return None;
            };
            if entries.len() >= MAX_KEYS || entries.iter().any(|entry| entry.key == key) {
                return None;
            }
            let value = self.value(line, length, depth)?;
            entries.push(Entry {
                key,
                key_range: line.at..line.at + length,
                value,
            });
        }
        let end = entries.last()?.value.range.end;
        Some(Node {
            value: Value::Mapping(entries.into()),
            range: start..end,
        })
    }

    /// The value of the key that a line begins with: the rest of the line, or the block below it.
    fn value(&mut self, line: Line<'_>, key: usize, depth: usize) -> Option<Node> {
        let rest = line.text.get(key + 1..)?;
        self.advance();
        if !rest.is_empty() {
            return line
                .skip(line.text.len() - rest.trim_ascii_start().len())?
                .scalar();
        }
        let below = self.line?;
        if below.column > line.column {
            return self.block(depth);
        }
        // A list may stand as far to the left as its key; the parser then has it begin after its first dash.
        let first = below.item().filter(|_| below.column == line.column)?;
        let list = self.block(depth)?;
        Some(Node {
            range: first.at..list.range.end,
            ..list
        })
    }

    fn sequence(&mut self, column: usize, depth: usize) -> Option<Node> {
        let start = self.line?.at;
        let mut items: Vec<Node> = Vec::new();
        while let Some(line) = self.line.filter(|line| line.column >= column) {
            let Some(item) = line.item().filter(|_| line.column == column) else {
                if line.column == column {
                    break;
                }
                return None;
            };
            self.line = Some(item);
            items.push(if item.key().is_some() || item.item().is_some() {
                self.block(depth)?
            } else {
                self.advance();
                item.scalar()?
            });
        }
        let end = items.last()?.range.end;
        Some(Node {
            value: Value::Sequence(items.into()),
            range: start..end,
        })
    }
}

#[cfg(test)]
mod tests;
