//! From parser events to a tree: aliases, merge keys, unique keys, bounds.

mod mapping;
mod rest;
mod simple;

use std::collections::BTreeMap;
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, StructureStyle, Tag};
use smol_str::SmolStr;

use super::node::{Node, Value};
use super::scalar;
use super::source::Source;
use crate::{Code, Diagnostic, Severity, code};

/// How deep lists and mappings may nest: several times what any API needs, and little enough to walk recursively.
const MAX_DEPTH: usize = 128;

/// How many nodes all aliases of a document may repeat together.
const MAX_ALIASED_NODES: usize = 100_000;

/// YAML allows keys of 1,024 characters; JSON has no bound, and this one only guards time.
const MAX_KEY_LENGTH: usize = 1 << 16;

/// A document, or what is left of one that cannot be parsed.
pub(super) struct Root {
    pub(super) node: Node,
    /// Where the objects in it begin of which a part is missing, ascending.
    pub(super) broken: Vec<usize>,
    /// Whether it is a list, even if that cannot be read of its kind.
    pub(super) is_list: bool,
}

/// Reads a range of the text, and returns the documents in it that have a value.
pub(super) fn compose(source: &Source, chunk: Range<usize>, diagnostics: &mut Vec<Diagnostic>) -> Vec<Root> {
    match simple::read(source, chunk.clone()) {
        Some(node) => vec![Root::whole(node)],
        None => parse(source, chunk, diagnostics),
    }
}

/// Does the same for any YAML.
fn parse(source: &Source, chunk: Range<usize>, diagnostics: &mut Vec<Diagnostic>) -> Vec<Root> {
    let mut problems = Vec::new();
    let mut composer = Composer::new(source, chunk.start, &mut problems);
    let stop = composer.run(source.slice(chunk.clone()));
    let open = std::mem::take(&mut composer.stack);
    let mut roots: Vec<_> = composer.roots.into_iter().map(Root::whole).collect();
    if let Err(stop) = stop {
        // Whatever else follows a value is no document.
        roots.truncate(1);
        let rest = match roots.pop() {
            Some(before) => rest::after(source, before, chunk.end, &stop, &mut problems),
            None => rest::of_document(source, chunk, &stop, open, &mut problems),
        };
        roots.extend(rest);
    }
    diagnostics.extend(problems);
    roots.retain(|root| !root.node.is_null());
    roots
}

impl Root {
    fn whole(node: Node) -> Self {
        Self {
            node,
            broken: Vec::new(),
            is_list: false,
        }
    }
}

fn syntax_error(source: &Source, at: usize, kind: &ErrorKind) -> Diagnostic {
    let rest = source.slice(at..source.text().len());
    let width = rest.chars().next().map_or(0, char::len_utf8);
    Diagnostic::new(
        code::SYNTAX,
        Severity::Error,
        format!("the YAML cannot be parsed: {kind}"),
    )
    .mark(source.span(at..at + width), "the parser gave up here")
}

/// Why composing ended early; `kind` is absent when the reason has been reported.
struct Stop {
    at: usize,
    kind: Option<ErrorKind>,
}

/// A node with what bounds need to know of it.
#[derive(Clone)]
struct Built {
    node: Node,
    /// How many nodes it consists of, aliases expanded.
    size: usize,
    /// How deep it nests.
    height: usize,
}

/// A list or mapping whose end has not come yet.
struct Frame {
    start: usize,
    anchor: usize,
    flow: bool,
    /// Whether its tag fits.
    readable: bool,
    /// Items, or keys and values in turn.
    children: Vec<Node>,
    is_mapping: bool,
    size: usize,
    height: usize,
}

struct Composer<'a> {
    source: &'a Source,
    /// The byte in the file at which the parser's text begins.
    base: usize,
    stack: Vec<Frame>,
    /// Finished nodes with an anchor; `None` while the node is not finished.
    anchors: BTreeMap<usize, Option<Built>>,
    aliased: usize,
    roots: Vec<Node>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl<'a> Composer<'a> {
    fn new(source: &'a Source, base: usize, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self {
            source,
            base,
            stack: Vec::new(),
            anchors: BTreeMap::new(),
            aliased: 0,
            roots: Vec::new(),
            diagnostics,
        }
    }

    fn run(&mut self, text: &str) -> Result<(), Stop> {
        let options = granit_parser::options! {
            emit_comments: false,
            emit_unresolved_aliases: true,
            simple_key_max_lookahead: MAX_KEY_LENGTH,
        };
        for event in Parser::new_from_str_with_options(text, options) {
            let (event, span) = event.map_err(|error| Stop {
                at: self.base + error.marker().byte_offset().unwrap_or(text.len()).min(text.len()),
                kind: Some(error.kind().clone()),
            })?;
            let at = |marker: granit_parser::Marker| self.base + marker.byte_offset().unwrap_or(text.len());
            let range = at(span.start)..at(span.end).max(at(span.start));
            self.event(event, range)?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, range: Range<usize>) -> Result<(), Stop> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(&text, style, tag.as_deref(), &range);
                let node = Node {
                    value,
                    range: self.without_trailing_space(range),
                };
                self.finish(
                    Built {
                        node,
                        size: 1,
                        height: 0,
                    },
                    anchor,
                );
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.open(style, anchor, tag.as_deref(), false, range)?;
            }
            Event::MappingStart(style, anchor, tag) => {
                self.open(style, anchor, tag.as_deref(), true, range)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(&range),
            Event::Alias(id) => {
                let built = self.alias(id, range);
                self.finish(built, 0);
            }
            Event::UnresolvedAlias(name) => {
                let message = format!("the alias `*{name}` names no anchor before it in this document");
                let built = self.unreadable(code::ALIAS, message, range);
                self.finish(built, 0);
            }
            Event::DocumentEnd => {
                self.anchors.clear();
                self.aliased = 0;
            }
            other if other.is_node() => {
                let message = "the parser finds something here that picket does not know".to_owned();
                let built = self.unreadable(code::SYNTAX, message, range);
                self.finish(built, 0);
            }
            // Stream and document starts, comments: nothing that has a value.
            _ => {}
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, range: &Range<usize>) -> Value {
        let plain = style == ScalarStyle::Plain;
        let text = if plain && range.is_empty() { "" } else { text };
        let Some(tag) = tag else {
            return if plain {
                scalar::resolve(text)
            } else {
                Value::String(SmolStr::new(text))
            };
        };
        let tag = tag.to_string();
        match tag.strip_prefix("tag:yaml.org,2002:") {
            None if tag == "!" => Value::String(SmolStr::new(text)),
            Some(core) => scalar::resolve_tagged(core, text)
                .unwrap_or_else(|| self.refuse_tag(&format!("!!{core}"), range.clone())),
            None => self.refuse_tag(&tag, range.clone()),
        }
    }

    fn refuse_tag(&mut self, tag: &str, range: Range<usize>) -> Value {
        let message = format!("the tag `{tag}` has no meaning here, or the value does not fit it");
        self.error(code::TAG, message, range);
        Value::Unreadable
    }

    fn open(
        &mut self,
        style: StructureStyle,
        anchor: usize,
        tag: Option<&Tag>,
        is_mapping: bool,
        range: Range<usize>,
    ) -> Result<(), Stop> {
        if self.stack.len() >= MAX_DEPTH {
            let message = format!("the document nests more than {MAX_DEPTH} levels deep");
            let at = range.start;
            self.error(code::TOO_DEEP, message, range);
            return Err(Stop { at, kind: None });
        }
        let fitting = if is_mapping {
            "tag:yaml.org,2002:map"
        } else {
            "tag:yaml.org,2002:seq"
        };
        let tag = tag
            .map(ToString::to_string)
            .filter(|tag| tag != fitting && tag != "!");
        if let Some(tag) = &tag {
            self.refuse_tag(tag, range.clone());
        }
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
        self.stack.push(Frame {
            start: range.start,
            anchor,
            flow: style == StructureStyle::Flow,
            readable: tag.is_none(),
            children: Vec::new(),
            is_mapping,
            size: 1,
            height: 0,
        });
        Ok(())
    }

    fn close(&mut self, range: &Range<usize>) {
        let Some(frame) = self.stack.pop() else { return };
        let end = match frame.children.last() {
            _ if frame.flow => range.end,
            Some(last) => last.range.end.max(frame.start),
            None => frame.start,
        };
        let value = if !frame.readable {
            Value::Unreadable
        } else if frame.is_mapping {
            mapping::build(self.source, frame.children, self.diagnostics)
        } else {
            Value::Sequence(frame.children.into())
        };
        let node = Node {
            value,
            range: frame.start..end,
        };
        let built = Built {
            node,
            size: frame.size,
            height: frame.height + 1,
        };
        self.finish(built, frame.anchor);
    }

    /// Puts a finished node where it belongs.
    fn finish(&mut self, built: Built, anchor: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, Some(built.clone()));
        }
        match self.stack.last_mut() {
            Some(frame) => {
                frame.size = frame.size.saturating_add(built.size);
                frame.height = frame.height.max(built.height);
                frame.children.push(built.node);
            }
            None => self.roots.push(built.node),
        }
    }

    fn alias(&mut self, id: usize, range: Range<usize>) -> Built {
        let name = self.source.slice(range.clone()).to_owned();
        match self.anchors.get(&id).cloned() {
            Some(Some(target)) => {
                self.aliased = self.aliased.saturating_add(target.size);
                let depth = self.stack.len() + target.height;
                if self.aliased > MAX_ALIASED_NODES {
                    let message =
                        format!("the aliases up to `{name}` repeat more than {MAX_ALIASED_NODES} values");
                    self.unreadable(code::ALIAS, message, range)
                } else if depth > MAX_DEPTH {
                    let message = format!("the alias `{name}` nests more than {MAX_DEPTH} levels deep");
                    self.unreadable(code::ALIAS, message, range)
                } else {
                    let node = Node {
                        value: target.node.value,
                        range,
                    };
                    Built { node, ..target }
                }
            }
            Some(None) => {
                let message = format!("the alias `{name}` stands inside the value that it repeats");
                self.unreadable(code::ALIAS, message, range)
            }
            None => {
                let message = format!("the alias `{name}` names no anchor before it in this document");
                self.unreadable(code::ALIAS, message, range)
            }
        }
    }

    fn unreadable(&mut self, code: Code, message: String, range: Range<usize>) -> Built {
        self.error(code, message, range.clone());
        let node = Node {
            value: Value::Unreadable,
            range,
        };
        Built {
            node,
            size: 1,
            height: 0,
        }
    }

    fn error(&mut self, code: Code, message: String, range: Range<usize>) {
        let diagnostic = Diagnostic::new(code, Severity::Error, message);
        self.diagnostics
            .push(diagnostic.mark(self.source.span(range), ""));
    }

    /// The parser counts the line break and the next line's indentation to a block scalar.
    fn without_trailing_space(&self, range: Range<usize>) -> Range<usize> {
        let kept = self.source.slice(range.clone()).trim_end().len();
        range.start..range.start + kept
    }
}
