//! Writing the fixes that are certain into the files.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use anyhow::{Context, bail};
use picket_policy::Diagnostic;
use picket_source::Loaded;

/// The name that standard input goes by.
const STDIN: &str = "-";

/// A file and what it is to hold.
pub(crate) struct Fixed<'a> {
    file: &'a Arc<str>,
    before: &'a str,
    after: String,
    /// The replaced bytes of `before` with what replaces them, in order.
    edits: Vec<(Range<usize>, &'a str)>,
}

/// The files that change when the fixes with edits are made, by name, and how many fixes that are. Of fixes that
/// touch the same place the first is made; standard input is never changed.
pub(crate) fn fixed(loaded: &Loaded) -> (Vec<Fixed<'_>>, usize) {
    let mut by_file: BTreeMap<&Arc<str>, Vec<(Range<usize>, &str)>> = BTreeMap::new();
    let mut made = 0;
    for diagnostic in &loaded.diagnostics {
        let Some(edits) = edits(diagnostic, loaded) else {
            continue;
        };
        let is_free = |(file, range, _): &Replacement<'_>| {
            let taken = by_file.get(*file).map(Vec::as_slice).unwrap_or_default();
            taken
                .iter()
                .all(|(other, _)| range.end <= other.start || other.end <= range.start)
        };
        if edits.iter().all(is_free) {
            made += 1;
            for (file, range, replacement) in edits {
                by_file.entry(file).or_default().push((range, replacement));
            }
        }
    }
    let files = by_file.into_iter().filter_map(|(file, mut edits)| {
        edits.sort_by_key(|(range, _)| range.start);
        let before: &str = loaded.sources.get(file)?;
        Some(Fixed {
            file,
            before,
            after: replaced(before, &edits),
            edits,
        })
    });
    (files.collect(), made)
}

/// A file, bytes of it, and what replaces them.
type Replacement<'a> = (&'a Arc<str>, Range<usize>, &'a str);

/// What the only certain fix of a diagnostic changes.
fn edits<'a>(diagnostic: &'a Diagnostic, loaded: &'a Loaded) -> Option<Vec<Replacement<'a>>> {
    let mut certain = diagnostic.fixes.iter().filter(|fix| !fix.edits.is_empty());
    let (fix, None) = (certain.next()?, certain.next()) else {
        return None;
    };
    let edits = fix.edits.iter().map(|edit| {
        let range = edit.span.start..edit.span.end;
        let text = loaded.sources.get(&edit.span.file)?;
        let fits = text.get(range.clone()).is_some() && &*edit.span.file != STDIN;
        fits.then_some((&edit.span.file, range, edit.replacement.as_str()))
    });
    edits.collect()
}

fn replaced(text: &str, edits: &[(Range<usize>, &str)]) -> String {
    let mut after = String::with_capacity(text.len());
    let mut at = 0;
    for (range, replacement) in edits {
        after += text.get(at..range.start).unwrap_or_default();
        after += replacement;
        at = range.end;
    }
    after + text.get(at..).unwrap_or_default()
}

impl Fixed<'_> {
    /// Writes the file: whoever reads it sees all of the old text or all of the new.
    ///
    /// # Errors
    /// When it has changed since it was read, or cannot be written.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        let file = self.file;
        // A link stays one: what it leads to is replaced.
        let path = fs::canonicalize(&**file).with_context(|| format!("cannot find `{file}` again"))?;
        let now = fs::read(&path).with_context(|| format!("cannot read `{file}` again"))?;
        if now != self.before.as_bytes() {
            bail!("`{file}` has changed since it was read; nothing in it was fixed");
        }
        replace(&path, self.after.as_bytes()).with_context(|| format!("cannot write `{file}`"))
    }

    /// The change as a unified diff.
    pub(crate) fn diff(&self) -> String {
        let mut text = format!("--- {0}\n+++ {0}\n", self.file);
        let old: Vec<_> = self.before.split_inclusive('\n').collect();
        let (mut removed, mut added) = (0, 0);
        for group in self.changed_lines(old.len()) {
            let first = group.start.saturating_sub(CONTEXT);
            let last = (group.end + CONTEXT).min(old.len());
            let (start, end) = (self.offset(&old, group.start), self.offset(&old, group.end));
            let inside = self
                .edits
                .iter()
                .filter(|(range, _)| start <= range.start && range.end <= end);
            let inside: Vec<_> = inside
                .map(|(range, text)| (range.start - start..range.end - start, *text))
                .collect();
            let new = replaced(self.before.get(start..end).unwrap_or_default(), &inside);
            let new: Vec<_> = new.split_inclusive('\n').collect();
            let around = last - first - group.len();
            text += &format!(
                "@@ -{},{} +{},{} @@\n",
                first + 1,
                last - first,
                first + 1 + added - removed,
                around + new.len()
            );
            let part = |range: Range<usize>| old.get(range).unwrap_or_default().to_vec();
            lines(&mut text, ' ', &part(first..group.start));
            lines(&mut text, '-', &part(group.clone()));
            lines(&mut text, '+', &new);
            lines(&mut text, ' ', &part(group.end..last));
            removed += group.len();
            added += new.len();
        }
        text
    }

    /// The lines that edits touch, from 0; those that are near each other together.
    fn changed_lines(&self, count: usize) -> Vec<Range<usize>> {
        let line = |at: usize| {
            let before = self.before.get(..at).unwrap_or_default();
            before.matches('\n').count()
        };
        let mut groups: Vec<Range<usize>> = Vec::new();
        for (range, _) in &self.edits {
            let lines = line(range.start)..(line(range.end) + 1).min(count);
            match groups.last_mut() {
                Some(last) if lines.start <= last.end + 2 * CONTEXT => last.end = last.end.max(lines.end),
                _ => groups.push(lines),
            }
        }
        groups
    }

    fn offset(&self, lines: &[&str], at: usize) -> usize {
        lines.iter().take(at).map(|line| line.len()).sum()
    }
}

/// How many lines that stay a diff shows around a change.
const CONTEXT: usize = 3;

fn lines(text: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        text.push(mark);
        *text += line;
        if !line.ends_with('\n') {
            *text += "\n\\ No newline at end of file\n";
        }
    }
}

/// Puts a new file in the place of `path`, with its permissions.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let permissions = fs::metadata(path)?.permissions();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".picket-{}", std::process::id()));
    let beside = path.with_file_name(name);
    let written = fs::File::create_new(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.set_permissions(permissions)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
