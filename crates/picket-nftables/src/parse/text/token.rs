//! Words, strings and punctuation, with their lines.

/// Why a text is no listing of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct TextError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong: lower case, no full stop.
    pub reason: String,
}

impl TextError {
    pub(super) fn new(line: usize, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
        }
    }
}

/// One token. Ends of statements, semicolons and ends of lines, are `;`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub(super) text: &'t str,
    pub(super) quoted: bool,
    pub(super) line: usize,
}

/// Cuts a text into tokens. What follows `#` in a line is a comment.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, TextError> {
    let mut found = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let mut rest = content;
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else { break };
            let (length, quoted) = match first {
                '#' => break,
                '"' => {
                    let inside = rest.get(1..).unwrap_or_default();
                    let end = inside
                        .find('"')
                        .ok_or_else(|| TextError::new(line, "a string is not closed"))?;
                    let text = inside.get(..end).unwrap_or_default();
                    found.push(Token {
                        text,
                        quoted: true,
                        line,
                    });
                    (end + 2, true)
                }
                '!' if rest.starts_with("!=") => (2, false),
                '=' if rest.starts_with("==") => (2, false),
                '{' | '}' | ';' | ',' | '=' | '!' | '&' | '|' | '(' | ')' => (1, false),
                _ => {
                    let ends =
                        |character: char| character.is_whitespace() || "{};,=!&|()\"#".contains(character);
                    (rest.find(ends).unwrap_or(rest.len()), false)
                }
            };
            let (word, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
            if !quoted {
                found.push(Token {
                    text: word,
                    quoted: false,
                    line,
                });
            }
            rest = behind;
        }
        found.push(Token {
            text: ";",
            quoted: false,
            line,
        });
    }
    Ok(found)
}

/// A place among tokens.
pub(super) struct Cursor<'c, 't> {
    tokens: &'c [Token<'t>],
    at: usize,
}

impl<'c, 't> Cursor<'c, 't> {
    pub(super) fn new(tokens: &'c [Token<'t>]) -> Self {
        Self { tokens, at: 0 }
    }

    /// The line of what was read last.
    pub(super) fn line(&self) -> usize {
        let last = self.at.saturating_sub(1);
        let token = self.tokens.get(last).or_else(|| self.tokens.last());
        token.map_or(1, |token| token.line)
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> TextError {
        TextError::new(self.line(), reason)
    }

    pub(super) fn next(&mut self) -> Option<Token<'t>> {
        let token = self.tokens.get(self.at).copied();
        self.at += usize::from(token.is_some());
        token
    }

    /// The next token if it is no string.
    pub(super) fn peek(&self) -> Option<&'t str> {
        let token = self.tokens.get(self.at).filter(|token| !token.quoted);
        token.map(|token| token.text)
    }

    pub(super) fn next_word(&mut self) -> Option<&'t str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Takes `word` if it is next.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(word);
        self.at += usize::from(there);
        there
    }

    /// A word that is no punctuation.
    pub(super) fn word(&mut self, what: &str) -> Result<&'t str, TextError> {
        match self.next() {
            Some(token) if !token.quoted && !"{};,=!&|()".contains(token.text) => Ok(token.text),
            Some(token) => Err(TextError::new(
                token.line,
                format!("expected {what}, found `{}`", token.text),
            )),
            None => Err(self.error(format!("expected {what}, found the end"))),
        }
    }

    /// A word or a string.
    pub(super) fn text(&mut self, what: &str) -> Result<&'t str, TextError> {
        match self.tokens.get(self.at).filter(|token| token.quoted) {
            Some(token) => {
                self.at += 1;
                Ok(token.text)
            }
            None => self.word(what),
        }
    }

    pub(super) fn expect(&mut self, word: &str) -> Result<(), TextError> {
        match self.next() {
            Some(token) if !token.quoted && token.text == word => Ok(()),
            Some(token) => Err(TextError::new(
                token.line,
                format!("expected `{word}`, found `{}`", token.text),
            )),
            None => Err(self.error(format!("expected `{word}`, found the end"))),
        }
    }

    pub(super) fn open(&mut self) -> Result<(), TextError> {
        self.expect("{")
    }

    pub(super) fn skip_ends(&mut self) {
        while self.take(";") {}
    }

    /// Whether the block that is being read ends here; takes its brace.
    pub(super) fn closes(&mut self) -> bool {
        self.skip_ends();
        self.take("}")
    }

    /// Whether the statement that is being read ends here.
    pub(super) fn at_end(&self) -> bool {
        self.tokens.get(self.at).is_none() || matches!(self.peek(), Some(";" | "}"))
    }

    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.tokens.len()
    }

    pub(super) fn skip_statement(&mut self) {
        while !self.at_end() {
            self.at += 1;
        }
    }
}
