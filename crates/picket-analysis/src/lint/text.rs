//! What was written, read again where a finding needs a place in it or a field that the lowered policy no longer has.
//!
//! Reading manifests keeps no places but those of rules, so that it stays fast: only documents with findings are read
//! twice, each once more.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use picket_policy::document::{self, Manifest, Node, Source, Value};
use picket_policy::{ObjectRef, Policy, Span};

/// The texts of all files, by their names.
pub(super) struct Texts<'a> {
    sources: &'a BTreeMap<Arc<str>, Arc<str>>,
    files: RefCell<BTreeMap<Arc<str>, Option<Rc<File>>>>,
}

/// One file and the documents of it that were read again.
struct File {
    source: Source,
    /// The line on which each document begins, and its bytes.
    chunks: Vec<(u32, Range<usize>)>,
    read: RefCell<BTreeMap<usize, Rc<[Rc<Manifest>]>>>,
}

impl<'a> Texts<'a> {
    pub(super) fn new(sources: &'a BTreeMap<Arc<str>, Arc<str>>) -> Self {
        Self {
            sources,
            files: RefCell::default(),
        }
    }

    /// The object that a policy was lowered from, if its text is at hand.
    pub(super) fn place(&self, policy: &Policy) -> Place {
        let manifest = self.manifest(policy);
        let node = manifest.as_ref().map(|manifest| manifest.root().clone());
        Place {
            manifest,
            node,
            mark: None,
            field: String::new(),
        }
    }

    /// Whether the document of a policy may have a field called `key`, or one whose text holds `key`: false is certain.
    pub(super) fn may_mention(&self, policy: &Policy, key: &str) -> bool {
        let Some(file) = self.file(&policy.position.file) else {
            return false;
        };
        file.around(policy.position.line)
            .iter()
            .any(|(_, (_, bytes))| file.source.slice(bytes.clone()).contains(key))
    }

    /// Whether any file holds `text`.
    pub(super) fn mention(&self, text: &str) -> bool {
        self.sources.values().any(|source| source.contains(text))
    }

    fn manifest(&self, policy: &Policy) -> Option<Rc<Manifest>> {
        let file = self.file(&policy.position.file)?;
        let mut other = None;
        // Mostly it is the document that begins on its line.
        for (at, (_, bytes)) in file.around(policy.position.line).into_iter().rev() {
            for manifest in file.read(at, bytes).iter() {
                if manifest.position().line == policy.position.line && *manifest.kind() == policy.object.kind
                {
                    if is_called(manifest, &policy.object) {
                        return Some(Rc::clone(manifest));
                    }
                    other.get_or_insert_with(|| Rc::clone(manifest));
                }
            }
        }
        other
    }

    fn file(&self, name: &Arc<str>) -> Option<Rc<File>> {
        let mut files = self.files.borrow_mut();
        let file = files.entry(Arc::clone(name)).or_insert_with(|| {
            let source = Source::decode(name, self.sources.get(name)?.as_bytes()).ok()?;
            let chunks = document::chunks(&source).into_iter();
            let chunks = chunks.map(|chunk| (source.position(chunk.start).line, chunk));
            Some(Rc::new(File {
                chunks: chunks.collect(),
                source,
                read: RefCell::default(),
            }))
        });
        file.clone()
    }
}

impl File {
    /// The documents that have text on a line, by their numbers.
    fn around(&self, line: u32) -> Vec<(usize, &(u32, Range<usize>))> {
        let after = self.chunks.partition_point(|(first, _)| *first <= line);
        let first = self.chunks.partition_point(|(first, _)| *first < line);
        let numbered = self.chunks.iter().enumerate();
        numbered.take(after).skip(first.saturating_sub(1)).collect()
    }

    fn read(&self, at: usize, bytes: &Range<usize>) -> Rc<[Rc<Manifest>]> {
        let mut read = self.read.borrow_mut();
        let manifests = read.entry(at).or_insert_with(|| {
            let (manifests, _) = document::read_chunk(&self.source, bytes.clone());
            manifests.into_iter().map(Rc::new).collect()
        });
        Rc::clone(manifests)
    }
}

fn is_called(manifest: &Manifest, object: &ObjectRef) -> bool {
    let metadata = manifest.root().get("metadata");
    let text = |key| metadata.and_then(|metadata| metadata.get(key)?.as_str());
    let namespace = text("namespace").map_or("default", |namespace| namespace.as_str());
    text("name").is_some_and(|name| *name == object.name)
        && (object.namespace.is_empty() || namespace == object.namespace)
}

/// A field of a policy: its path, what is written there, and where.
#[derive(Clone)]
pub(super) struct Place {
    manifest: Option<Rc<Manifest>>,
    node: Option<Node>,
    /// What to mark for the field; its key, when the value takes several lines.
    mark: Option<Range<usize>>,
    field: String,
}

impl Place {
    /// The path, as in `spec.ingress[0]`; empty for the whole object.
    pub(super) fn path(&self) -> &str {
        &self.field
    }

    /// What is written there; `None` when nothing is, or the text is not at hand.
    pub(super) fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// The object that the field is of; `None` when its text is not at hand.
    pub(super) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_deref()
    }

    /// Whether the text of the object is at hand.
    pub(super) fn is_known(&self) -> bool {
        self.manifest.is_some()
    }

    /// A field of the mapping here. What is not written is marked where it would stand.
    pub(super) fn field(&self, key: &str) -> Self {
        let entry = self.node.as_ref().and_then(|node| {
            let entries = node.entries();
            entries.iter().find(|entry| entry.key == key).cloned()
        });
        let separator = if self.field.is_empty() { "" } else { "." };
        let mark = entry.as_ref().map(|entry| match entry.value.value {
            Value::Mapping(_) | Value::Sequence(_) => entry.key_range.clone(),
            _ => entry.value.range.clone(),
        });
        Self {
            manifest: self.manifest.clone(),
            node: entry.map(|entry| entry.value),
            mark: mark.or_else(|| self.mark.clone()),
            field: format!("{}{separator}{key}", self.field),
        }
    }

    /// An item of the list here, counted from 0.
    pub(super) fn item(&self, at: usize) -> Self {
        let node = self.node.as_ref().and_then(|node| node.items().get(at).cloned());
        let mark = node.as_ref().map(|node| node.range.clone());
        Self {
            manifest: self.manifest.clone(),
            mark: mark.or_else(|| self.mark.clone()),
            node,
            field: format!("{}[{at}]", self.field),
        }
    }

    /// What to mark, in one line; the name of the object for the whole of it.
    pub(super) fn span(&self) -> Option<Span> {
        let manifest = self.manifest.as_ref()?;
        let Some(mark) = self.mark.clone() else {
            return Some(picket_cluster::place(manifest));
        };
        let source = manifest.source();
        let width = source.slice(mark.clone()).lines().next().map_or(0, str::len);
        Some(source.span(mark.start..mark.start + width))
    }
}
