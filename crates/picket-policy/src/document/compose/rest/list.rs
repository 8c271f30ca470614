//! The items of a list that cannot be parsed whole.

use std::ops::Range;
use std::sync::Arc;

use smol_str::SmolStr;

use super::{Stopped, object, parse, report};
use crate::document::compose::{Frame, Root, Stop};
use crate::document::node::{Entry, Node, Value};
use crate::document::source::Source;
use crate::{Diagnostic, code};

/// Where the list of `items` stands in the mappings that are open.
pub(super) fn items(open: &[Frame]) -> Option<usize> {
    let outer = open.first().filter(|outer| outer.is_mapping && !outer.flow)?;
    let closed = outer.children.chunks_exact(2).find_map(|pair| match pair {
        [key, value] if key.as_str().is_some_and(|key| key == "items") => Some(value.range.start),
        _ => None,
    });
    let pending = outer.pending_key().is_some_and(|key| key == "items");
    let list = open.get(1).filter(|list| pending && !list.is_mapping);
    closed.or_else(|| list.map(|list| list.start))
}

/// Where the dash of the first item stands of the list at `start`, if its items are written with dashes.
pub(super) fn first_item(source: &Source, start: usize) -> Option<usize> {
    // The parser has lists that are not indented begin at the end of `items:` or after their first dash.
    let line = source.slice(0..start).rfind('\n').map_or(0, |at| at + 1);
    let mut at = line;
    for line in source.slice(line..source.text().len()).split_inclusive('\n') {
        let text = line.trim_start_matches(' ');
        if is_item(text) {
            return Some(at + line.len() - text.len());
        }
        let key = text
            .strip_prefix("items:")
            .is_some_and(|rest| is_nothing(rest.trim_start()));
        if !key && !is_nothing(text) {
            return None;
        }
        at += line.len();
    }
    None
}

/// Whether a line without its indentation begins an item.
fn is_item(text: &str) -> bool {
    let rest = text.strip_prefix('-');
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Whether a line without its indentation is empty or a comment.
fn is_nothing(text: &str) -> bool {
    text.trim().is_empty() || text.starts_with('#')
}

/// Reads every item on its own: YAML allows a dash in the column of the first one nowhere but at the start of another.
pub(super) fn of_block(
    source: &Source,
    range: Range<usize>,
    first: usize,
    stop: &Stop,
    diagnostics: &mut Vec<Diagnostic>,
) -> Root {
    let pieces = pieces(source, range.clone(), first);
    // Every item is read again.
    let before = std::mem::take(diagnostics);
    let mut problems = Vec::new();
    let outline = outline(source, range.clone(), &pieces);
    let root = parse(source, &outline, range.start, &mut problems).ok().flatten();
    let mut items = Items {
        source,
        items: Vec::new(),
        broken: Vec::new(),
        is_explained: false,
    };
    for (at, piece) in pieces.iter().enumerate() {
        let next = pieces.get(at + 1).map_or(range.end, |next| next.start);
        let followed = !source.slice(piece.end..next).trim().is_empty();
        let is_last = next == range.end && is_list(root.as_ref());
        // What follows the item may have belonged to it.
        let cut = (followed && !is_last).then_some((next, stop));
        items.read(piece, cut, diagnostics);
    }
    diagnostics.extend(problems);
    if !items.is_explained {
        diagnostics.extend(before.into_iter().filter(|found| found.code == code::TOO_DEEP));
        report(source, stop.at..range.end, stop, None, diagnostics);
    }
    let fields = root.map_or_else(|| Arc::from([]), |root| Arc::from(root.entries()));
    Root {
        node: list(&fields, items.items, range),
        broken: items.broken,
        is_list: true,
    }
}

/// The items of a list that are read one by one.
struct Items<'a> {
    source: &'a Source,
    items: Vec<Node>,
    broken: Vec<usize>,
    /// Whether it has been said what is wrong with the list.
    is_explained: bool,
}

impl Items<'_> {
    /// Reads the item in the lines `piece`. With `cut` other lines follow, up to a place, at which the parser of the
    /// whole stopped.
    fn read(&mut self, piece: &Range<usize>, cut: Option<(usize, &Stop)>, diagnostics: &mut Vec<Diagnostic>) {
        let mut found = Vec::new();
        let (item, stop) = match parse(
            self.source,
            self.source.slice(piece.clone()),
            piece.start,
            &mut found,
        ) {
            Ok(list) => (list.and_then(only), None),
            Err(Stopped { stop, open, before }) => {
                let mut open = open.into_iter();
                let mut list = open.next();
                let ended = list.as_mut().and_then(|list| list.children.pop());
                let before = before.and_then(only).or(ended);
                let item = open
                    .next()
                    .and_then(|outer| object(self.source, outer, open.collect(), &mut found));
                (before.or(item), Some(stop))
            }
        };
        let end = cut.map_or(piece.end, |(next, _)| next);
        if let Some(stop) = stop.as_ref().or(cut.map(|(_, stop)| stop)) {
            report(self.source, piece.start..end, stop, item.as_ref(), &mut found);
            self.is_explained = true;
            self.broken.extend(item.iter().map(|item| item.range.start));
        }
        self.items.extend(item);
        diagnostics.extend(found);
    }
}

/// The first item of a list.
fn only(list: Node) -> Option<Node> {
    list.items().first().cloned()
}

/// Whether an outline is that of a list, and nothing else stands in it.
fn is_list(outline: Option<&Node>) -> bool {
    const FIELDS: [&str; 4] = ["apiVersion", "items", "kind", "metadata"];
    let fields = outline.map_or(&[][..], Node::entries);
    let kind = outline.and_then(|outline| outline.get("kind")?.as_str());
    kind.is_some_and(|kind| kind.ends_with("List"))
        && fields.iter().all(|field| FIELDS.contains(&field.key.as_str()))
}

/// The document without the lines from its first to its last item: the same bytes at the same places, but spaces there.
fn outline(source: &Source, range: Range<usize>, pieces: &[Range<usize>]) -> String {
    let items = match (pieces.first(), pieces.last()) {
        (Some(first), Some(last)) => first.start..last.end,
        _ => range.end..range.end,
    };
    let blank = |byte: u8| if byte == b'\n' { '\n' } else { ' ' };
    let mut text = source.slice(range.start..items.start).to_owned();
    text.extend(source.slice(items.clone()).bytes().map(blank));
    text += source.slice(items.end..range.end);
    text
}

/// The lines of each item: from a dash in the column of the first one to the next line that stands no deeper.
fn pieces(source: &Source, range: Range<usize>, first: usize) -> Vec<Range<usize>> {
    let before = source.slice(range.start..first);
    let line_start = range.start + before.rfind('\n').map_or(0, |at| at + 1);
    let column = first - line_start;
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let (mut at, mut inside) = (line_start, false);
    for line in source.slice(line_start..range.end).split_inclusive('\n') {
        let end = at + line.len();
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        if indent == column && is_item(text) {
            pieces.push(at..end);
            inside = true;
        } else if is_nothing(text) || indent > column {
            if let Some(last) = pieces.last_mut().filter(|_| inside) {
                last.end = end;
            }
        } else {
            inside = false;
        }
        at = end;
    }
    pieces
}

/// A list with these items, and the other fields that can be read of it.
pub(super) fn list(fields: &[Entry], items: Vec<Node>, range: Range<usize>) -> Node {
    let named = fields.iter().filter(|field| field.key != "items").cloned();
    let items = Entry {
        key: SmolStr::new_static("items"),
        key_range: range.clone(),
        value: Node {
            value: Value::Sequence(items.into()),
            range: range.clone(),
        },
    };
    Node {
        value: Value::Mapping(named.chain([items]).collect()),
        range,
    }
}
