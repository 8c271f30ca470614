//! The words of a line.

use std::ops::Range;

/// A word, a brace, a comma, or a quoted text without its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// Its bytes in the line.
    pub(super) range: Range<usize>,
    pub(super) quoted: bool,
}

/// The tokens of a line; the place of a quote that is not closed.
pub(super) fn tokens(line: &str) -> Result<Vec<Token<'_>>, Range<usize>> {
    let mut tokens = Vec::new();
    let mut rest = line.char_indices().peekable();
    while let Some(&(start, character)) = rest.peek() {
        if character.is_whitespace() {
            rest.next();
            continue;
        }
        let quoted = character == '"';
        let end = match character {
            '{' | '}' | ',' => {
                rest.next();
                start + 1
            }
            '"' => {
                rest.next();
                let closing = rest.find(|&(_, character)| character == '"');
                closing.ok_or(start..line.trim_end().len())?.0
            }
            _ => {
                let ends =
                    |character: char| character.is_whitespace() || matches!(character, '{' | '}' | ',' | '"');
                while rest.next_if(|&(_, character)| !ends(character)).is_some() {}
                rest.peek().map_or(line.len(), |&(end, _)| end)
            }
        };
        let text = line.get(start + usize::from(quoted)..end).unwrap_or_default();
        tokens.push(Token {
            text,
            range: start..end + usize::from(quoted),
            quoted,
        });
    }
    Ok(tokens)
}
