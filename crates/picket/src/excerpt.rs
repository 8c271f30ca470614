//! The lines that a diagnostic shows, and of long lines only what is near.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::Snippet;
use picket_policy::Span;
use picket_source::Loaded;

/// Whole lines are shown that begin and end so near to what is marked, in bytes. Neither more is looked at: a whole dump
/// may stand in one line, with a finding in each of its objects.
const NEAR: usize = 500;

/// What is shown before and after what is marked in a line that is longer.
const AROUND: usize = 60;

/// As much as is marked at most.
const LONGEST: usize = 2_000;

/// Some text of a file around a place.
pub(crate) struct Excerpt<'a> {
    file: &'a str,
    text: Cow<'a, str>,
    /// The place in `text`.
    pub(crate) range: Range<usize>,
    line: usize,
    /// Where the place is in the file, when `text` does not begin with its line.
    column: Option<usize>,
}

impl<'a> Excerpt<'a> {
    /// The text around a span; `None` when the span does not fit the text.
    pub(crate) fn of(span: &'a Span, loaded: &'a Loaded) -> Option<Self> {
        let text = loaded.sources.get(&span.file)?;
        text.get(span.start..span.end)?;
        let end = text.floor_char_boundary(span.end.min(span.start + LONGEST));
        let (from, is_start) = line_start(text, span.start);
        let (to, is_end) = line_end(text, end);
        let before = if is_start { "" } else { "…" };
        let after = if is_end { "" } else { "…" };
        let shown = text.get(from..to)?;
        let shown = match (is_start, is_end) {
            (true, true) => Cow::Borrowed(shown),
            _ => Cow::Owned(format!("{before}{shown}{after}")),
        };
        let start = span.start - from + before.len();
        Some(Self {
            file: &span.file,
            text: shown,
            range: start..start + (end - span.start),
            line: usize::try_from(span.line).ok()?,
            column: (!is_start).then(|| usize::try_from(span.column).ok()).flatten(),
        })
    }

    /// The text, to be marked.
    pub(crate) fn snippet<T: Clone>(self) -> Snippet<'a, T> {
        Snippet::source(self.text).line_start(self.line).path(self.file)
    }

    /// Corrects the place that was drawn for the snippet: the column in its text is not that in the file.
    pub(crate) fn correction(&self) -> Option<Correction> {
        let before = self.text.get(..self.range.start)?;
        let place = |column: usize| format!("{}:{}:{column}", self.file, self.line);
        Some(Correction {
            drawn: place(before.chars().count() + 1),
            correct: place(self.column?),
        })
    }
}

/// A place that is drawn wrongly.
pub(crate) struct Correction {
    drawn: String,
    correct: String,
}

impl Correction {
    /// Corrects the first such place in what was drawn.
    pub(crate) fn apply(&self, text: &str) -> String {
        let is_whole = |at: &usize| {
            let rest = text.get(at + self.drawn.len()..);
            !rest.is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()))
        };
        let found = text.match_indices(&self.drawn).map(|(at, _)| at).find(is_whole);
        let parts = found.and_then(|at| Some((text.get(..at)?, text.get(at + self.drawn.len()..)?)));
        match parts {
            Some((before, after)) => [before, &self.correct, after].concat(),
            None => text.to_owned(),
        }
    }
}

/// Where the text before a place begins to be shown, and whether its line begins there.
fn line_start(text: &str, at: usize) -> (usize, bool) {
    let far = text.floor_char_boundary(at.saturating_sub(NEAR));
    match text.get(far..at).and_then(|near| near.rfind('\n')) {
        Some(newline) => (far + newline + 1, true),
        None if far == 0 => (0, true),
        None => (text.floor_char_boundary(at.saturating_sub(AROUND)), false),
    }
}

/// Where the text after a place ceases to be shown, and whether its line ends there.
fn line_end(text: &str, at: usize) -> (usize, bool) {
    let far = text.floor_char_boundary(at + NEAR);
    match text.get(at..far).and_then(|near| near.find('\n')) {
        Some(newline) => (at + newline, true),
        None if far >= text.len() => (text.len(), true),
        None => (text.floor_char_boundary(at + AROUND), false),
    }
}
