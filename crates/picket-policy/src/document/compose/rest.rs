//! What is left of a document that cannot be parsed: the items of a list that stand on their own, and the fields of an
//! object that were read before the parser gave up.
//!
//! A mistake in YAML shows at its place or just after it, so of what was being read the last value that seems complete
//! may not be what was meant: it counts as unreadable, and so does everything that is still open, but for the object
//! itself and its `spec`.

mod json;
mod list;

use super::mapping;
use super::{Composer, Frame, Root, Stop, syntax_error};
use crate::document::node::{Node, Value};
use crate::document::source::Source;
use crate::{Diagnostic, code};

use std::ops::Range;

/// Reads what can be relied on in `range`, a document at which the parser stopped with `open` collections.
pub(super) fn of_document(
    source: &Source,
    range: Range<usize>,
    stop: &Stop,
    open: Vec<Frame>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Root> {
    if let Some(first) = list::items(&open).and_then(|start| list::first_item(source, start)) {
        return Some(list::of_block(source, range, first, stop, diagnostics));
    }
    if source.slice(range.clone()).trim_start().starts_with('{')
        && let Some(list) = json::of_list(source, range.clone(), stop, diagnostics)
    {
        return Some(list);
    }
    let mut open = open.into_iter();
    let Some(outer) = open.next() else {
        report(source, range, stop, None, diagnostics);
        return None;
    };
    let node = object(source, outer, open.collect(), diagnostics);
    report(source, range, stop, node.as_ref(), diagnostics);
    let node = node?;
    let broken = vec![node.range.start];
    Some(Root {
        node,
        broken,
        is_list: false,
    })
}

/// Reads what can be relied on of a document after whose end the parser stopped: the mistake may be that it ends there.
pub(super) fn after(
    source: &Source,
    document: Root,
    end: usize,
    stop: &Stop,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Root> {
    let node = document.node;
    let start = node.range.start;
    let block = !source.slice(start..end).starts_with('{');
    let items = node.get("items").filter(|_| block).map(|items| items.range.start);
    if let Some(first) = items.and_then(|start| list::first_item(source, start)) {
        return Some(list::of_block(source, start..end, first, stop, diagnostics));
    }
    report(source, start..end, stop, Some(&node), diagnostics);
    Some(Root {
        node,
        broken: vec![start],
        is_list: false,
    })
}

/// The fields of the object `outer`, of which the collections `inner` are open.
fn object(
    source: &Source,
    outer: Frame,
    inner: Vec<Frame>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Node> {
    if !outer.is_mapping || !outer.readable {
        return None;
    }
    let is_spec = outer.pending_key().is_some_and(|key| key == "spec");
    let mut inner = inner.into_iter();
    let open = match inner.next() {
        Some(spec) if is_spec && spec.is_mapping && spec.readable => {
            let ended = inner.next().is_none();
            Open::Value(fields(
                source,
                spec,
                if ended { Open::Nothing } else { Open::Unreadable },
                diagnostics,
            ))
        }
        Some(_) => Open::Unreadable,
        None => Open::Nothing,
    };
    Some(fields(source, outer, open, diagnostics))
}

/// What is open inside a collection.
enum Open {
    /// Nothing: the mistake is beside its last value.
    Nothing,
    /// Something that cannot be used.
    Unreadable,
    /// A value of which something can be used.
    Value(Node),
}

/// The fields of a mapping that is open.
fn fields(source: &Source, frame: Frame, open: Open, diagnostics: &mut Vec<Diagnostic>) -> Node {
    let end = frame.children.last().map_or(frame.start, |last| last.range.end);
    let mut children = frame.children;
    if children.len() % 2 == 1 {
        let unreadable = Node {
            value: Value::Unreadable,
            range: end..end,
        };
        children.push(match open {
            Open::Value(node) => node,
            Open::Nothing | Open::Unreadable => unreadable,
        });
    } else if let (Open::Nothing, Some(last)) = (open, children.last_mut()) {
        last.value = Value::Unreadable;
    }
    // After a bracket that is not closed, what follows the object looks like keys of it.
    let mut kept = Vec::with_capacity(children.len());
    let mut children = children.into_iter();
    while let (Some(key), Some(value)) = (children.next(), children.next()) {
        if key.as_str().is_some() {
            kept.extend([key, value]);
        }
    }
    Node {
        value: mapping::build(source, kept, diagnostics),
        range: frame.start..end,
    }
}

/// Says what cannot be parsed, and which lines are lost with it.
fn report(
    source: &Source,
    range: Range<usize>,
    stop: &Stop,
    object: Option<&Node>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if let Some(kind) = &stop.kind {
        diagnostics.push(syntax_error(source, stop.at, kind));
    }
    let lines = lines(source, range);
    let note = match object.and_then(name) {
        Some((kind, name)) if kind.ends_with("NetworkPolicy") => {
            format!("{lines} are not read, but for whom {kind} `{name}` isolates")
        }
        Some((kind, name)) => format!("{lines} are not read: {kind} `{name}`"),
        None => format!("{lines} are not read"),
    };
    // What nests too deep has been reported where it was found.
    let stops = [code::SYNTAX, code::TOO_DEEP];
    let found = diagnostics.iter_mut().rfind(|found| stops.contains(&found.code));
    found.into_iter().for_each(|found| found.notes.push(note.clone()));
}

/// `lines 3 to 7`: those that hold something.
fn lines(source: &Source, range: Range<usize>) -> String {
    let text = source.slice(range.clone());
    let start = range.start + (text.len() - text.trim_start().len());
    let end = range.start + text.trim_end().len();
    let line = |at| source.position(at).line;
    format!("lines {} to {}", line(start), line(end.max(start)))
}

/// Kind and name of an object, as far as they can be read.
fn name(object: &Node) -> Option<(&str, String)> {
    let kind = object.get("kind")?.as_str()?;
    let metadata = object.get("metadata")?;
    let name = metadata.get("name")?.as_str()?;
    let namespace = metadata.get("namespace").and_then(Node::as_str);
    let name = match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_string(),
    };
    Some((kind, name))
}

impl Frame {
    /// The key whose value is being read.
    fn pending_key(&self) -> Option<&str> {
        let pending = self.is_mapping && self.children.len() % 2 == 1;
        self.children
            .last()
            .filter(|_| pending)?
            .as_str()
            .map(|key| key.as_str())
    }
}

/// Where the parser stopped, with what it had read.
struct Stopped {
    stop: Stop,
    /// The collections that were open.
    open: Vec<Frame>,
    /// A value that had ended before.
    before: Option<Node>,
}

/// Parses a part of a document on its own.
fn parse(
    source: &Source,
    text: &str,
    start: usize,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<Node>, Stopped> {
    let mut composer = Composer::new(source, start, diagnostics);
    let stop = composer.run(text).err();
    let before = composer.roots.into_iter().next();
    match stop {
        None => Ok(before),
        Some(stop) => Err(Stopped {
            stop,
            open: composer.stack,
            before,
        }),
    }
}
