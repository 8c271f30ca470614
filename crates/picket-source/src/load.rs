//! From texts to a snapshot.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_cluster::{Snapshot, Written, assemble, check_names, codes, is_cluster_kind, misnamed, place};
use picket_policy::document::{self, Manifest, Source};
use picket_policy::{
    Diagnostic, Lowered, Options, Position, Severity, Span, V1beta1, code, namespace_isolation,
};
use smol_str::SmolStr;

use crate::files::{SourceError, Text};
use crate::origin::{Missing, Origin};
use crate::parallel::{self, Batch};

/// Everything that files say.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// What exists.
    pub snapshot: Snapshot,
    /// What is wrong with it, by file in the order read and by place in the file.
    pub diagnostics: Vec<Diagnostic>,
    /// How many objects of each kind were read, whatever became of them, by kind.
    pub objects: BTreeMap<SmolStr, usize>,
    /// How many objects of each kind say nothing about connectivity, by kind.
    pub ignored: BTreeMap<SmolStr, usize>,
    /// The text of each file, as far as it is text: what diagnostics point into.
    pub sources: BTreeMap<Arc<str>, Arc<str>>,
    /// The files, in the order read.
    pub files: Vec<Arc<str>>,
    /// How NetworkPolicy of extensions/v1beta1 was read: as proposed or as v1.
    pub v1beta1: V1beta1,
    /// The files that are not text, or of which a document cannot be parsed at all. The rest of them was read.
    pub unparsable: BTreeSet<Arc<str>>,
    /// What exists where the texts are from and could not be had.
    pub missing: Vec<Missing>,
}

impl Loaded {
    /// Whether anything at all was in the files.
    ///
    /// # Errors
    /// When there was nothing, not even a mistake.
    pub fn not_empty(&self) -> Result<(), SourceError> {
        let wrong = self
            .diagnostics
            .iter()
            .any(|found| found.severity == Severity::Error);
        if wrong || !self.objects.is_empty() || !self.ignored.is_empty() {
            return Ok(());
        }
        let files: Vec<_> = self.files.iter().map(|file| format!("`{file}`")).collect();
        Err(SourceError::Empty(files.join(", ")))
    }

    /// Why what was read may not be everything: of what is lost, the first.
    pub fn gap(&self) -> Option<String> {
        let file = self.unparsable.first();
        let file = file.map(|file| format!("`{file}` cannot be parsed"));
        file.or_else(|| {
            let missing = self.missing.first()?;
            Some(format!("`{}` cannot be read", missing.what))
        })
    }

    /// Adds what exists where the texts are from and could not be had, and a diagnostic for each.
    pub fn lack(&mut self, missing: &[Missing]) {
        let diagnostics = missing.iter().map(|Missing { what, why }| {
            let message = format!("`{what}` cannot be read: {why}");
            Diagnostic::new(codes::MISSING, Severity::Error, message)
                .note("pods or policies may be missing: no answer is about the whole cluster")
        });
        self.add(diagnostics.collect());
        self.missing.extend_from_slice(missing);
    }

    /// Adds the cluster default of the v1beta1 proposal, where it restricts anything.
    fn set_default(&mut self, options: Options) {
        let Some(policy) = options.v1beta1_default.policy() else {
            return;
        };
        if options.v1beta1 == V1beta1::Proposal {
            self.snapshot
                .policies
                .insert(policy.object.clone(), Arc::new(policy));
            return;
        }
        let message = "the cluster default is not applied: the input is not read as the proposal has it";
        let note = "no namespace of the input has the isolation of the proposal, or `--v1beta1` says so; with \
                    `--v1beta1=proposal` it is applied";
        let diagnostic = Diagnostic::new(codes::V1BETA1, Severity::Warning, message.to_owned());
        self.diagnostics.push(diagnostic.note(note));
    }

    /// Adds what was found wrong with the files later, at its places among the rest.
    pub fn add(&mut self, diagnostics: Vec<Diagnostic>) {
        self.diagnostics.extend(diagnostics);
        sort(&mut self.diagnostics, &self.files);
    }
}

/// Reads everything from an origin.
///
/// # Errors
/// When the origin fails, or there is nothing at all.
pub fn load<O>(mut origin: O, options: Options) -> Result<Loaded, O::Error>
where
    O: Origin<Error: From<SourceError>>,
{
    let mut loaded = load_texts(&origin.texts()?, options);
    loaded.lack(origin.missing());
    loaded.not_empty()?;
    Ok(loaded)
}

/// Reads texts that are at hand. It never fails: what cannot be used has a diagnostic.
pub fn load_texts(texts: &[Text], options: Options) -> Loaded {
    let mut loaded = Loaded::default();
    let mut batches = Vec::new();
    for Text { name, bytes } in texts {
        match Source::decode(name, bytes) {
            Ok(source) => {
                batches.extend(Batch::of(&source));
                loaded.sources.insert(Arc::clone(name), source.shared_text());
            }
            Err(diagnostic) => {
                loaded.diagnostics.push(*diagnostic);
                let text = String::from_utf8_lossy(bytes);
                loaded.sources.insert(Arc::clone(name), Arc::from(text));
            }
        }
        loaded.files.push(Arc::clone(name));
    }
    let mut objects = Vec::new();
    let mut first_v1beta1 = None;
    let (parts, options) = read_parts(&batches, options);
    for part in parts {
        first_v1beta1 = first_v1beta1.or(part.first_v1beta1);
        objects.extend(part.written);
        loaded.diagnostics.extend(part.diagnostics);
        add(&mut loaded.objects, part.objects);
        add(&mut loaded.ignored, part.ignored);
    }
    let lines = Lines::of(&loaded.sources);
    let names = check_names(&objects, &|position| lines.span(position));
    let (snapshot, problems) = assemble(objects);
    loaded.snapshot = snapshot;
    loaded.v1beta1 = match options.v1beta1 {
        V1beta1::Proposal => V1beta1::Proposal,
        V1beta1::Automatic | V1beta1::V1 => V1beta1::V1,
    };
    loaded.set_default(options);
    loaded.diagnostics.extend(names);
    loaded.diagnostics.extend(problems);
    loaded
        .diagnostics
        .extend(first_v1beta1.map(|place| dialect_taken(place, options.v1beta1)));
    loaded.unparsable = unparsable(&loaded.diagnostics);
    sort(&mut loaded.diagnostics, &loaded.files);
    loaded
}

/// Reads everything, and chooses how NetworkPolicy of extensions/v1beta1 is read if that is left open.
fn read_parts(batches: &[Batch], options: Options) -> (Vec<Part>, Options) {
    let read = |options| parallel::read_all(batches, |batch| Part::read(batch, options));
    let parts = read(options);
    let automatic = options.v1beta1 == V1beta1::Automatic;
    if !automatic || !parts.iter().any(|part| part.uses_proposal) {
        return (parts, options);
    }
    let options = Options {
        v1beta1: V1beta1::Proposal,
        ..options
    };
    (read(options), options)
}

/// Says how NetworkPolicy of extensions/v1beta1 was read, at the first.
fn dialect_taken(place: Span, v1beta1: V1beta1) -> Diagnostic {
    let (taken, why) = match v1beta1 {
        V1beta1::Proposal => (
            "as it was proposed",
            "a namespace of the input says how it is isolated, or `--v1beta1` says so",
        ),
        V1beta1::Automatic | V1beta1::V1 => (
            "as networking.k8s.io/v1",
            "no namespace of the input has the isolation of the proposal, or `--v1beta1` says so",
        ),
    };
    let message = format!("NetworkPolicy of extensions/v1beta1 is read {taken}");
    Diagnostic::new(codes::V1BETA1, Severity::Note, message)
        .mark(place, "")
        .note(why)
}

/// What one text says, without regard to any other.
#[cfg(feature = "kube")]
pub(crate) fn read_text(text: &Text, options: Options) -> (Vec<Written>, Vec<Diagnostic>) {
    match Source::decode(&text.name, &text.bytes) {
        Ok(source) => {
            let parts = Batch::of(&source).into_iter();
            let parts = parts.map(|batch| Part::read(&batch, options));
            parts.fold((Vec::new(), Vec::new()), |(mut written, mut found), part| {
                written.extend(part.written);
                found.extend(part.diagnostics);
                (written, found)
            })
        }
        Err(diagnostic) => (Vec::new(), vec![*diagnostic]),
    }
}

/// What some documents say.
#[derive(Default)]
struct Part {
    /// Whether a namespace has the isolation of the proposal of NetworkPolicy.
    uses_proposal: bool,
    /// Where the first NetworkPolicy of extensions/v1beta1 is.
    first_v1beta1: Option<Span>,
    written: Vec<Written>,
    diagnostics: Vec<Diagnostic>,
    objects: BTreeMap<SmolStr, usize>,
    ignored: BTreeMap<SmolStr, usize>,
}

impl Part {
    fn read(batch: &Batch, options: Options) -> Self {
        let mut part = Self::default();
        for chunk in batch.chunks() {
            let (manifests, diagnostics) = document::read_chunk(batch.source(), chunk);
            part.diagnostics.extend(diagnostics);
            for manifest in &manifests {
                let written = part.object(manifest, options);
                part.written.extend(written);
            }
        }
        part
    }

    /// What one object says about connectivity.
    fn object(&mut self, manifest: &Manifest, options: Options) -> Option<Written> {
        if is_cluster_kind(manifest.api_version(), manifest.kind()) {
            *self.objects.entry(manifest.kind().clone()).or_default() += 1;
            self.isolation(manifest, options);
            return picket_cluster::parse(manifest, &mut self.diagnostics);
        }
        if let Some(Lowered { policy, diagnostics }) = picket_policy::lower(manifest, options) {
            *self.objects.entry(manifest.kind().clone()).or_default() += 1;
            self.diagnostics.extend(diagnostics);
            if manifest.api_version() == "extensions/v1beta1" {
                self.first_v1beta1.get_or_insert_with(|| place(manifest));
            }
            let policy = policy?;
            return Some(Written::policy(manifest, policy));
        }
        self.diagnostics.extend(misnamed(manifest));
        *self.ignored.entry(manifest.kind().clone()).or_default() += 1;
        None
    }
}

impl Part {
    /// What a namespace says in the words of the proposal, if those count.
    fn isolation(&mut self, manifest: &Manifest, options: Options) {
        let Some(Lowered { policy, diagnostics }) = namespace_isolation(manifest) else {
            return;
        };
        self.uses_proposal = true;
        if options.v1beta1 == V1beta1::Proposal {
            self.diagnostics.extend(diagnostics);
            self.written
                .extend(policy.map(|policy| Written::policy(manifest, policy)));
        }
    }
}

fn add(sums: &mut BTreeMap<SmolStr, usize>, counts: BTreeMap<SmolStr, usize>) {
    for (kind, count) in counts {
        *sums.entry(kind).or_default() += count;
    }
}

/// The files of which a document could not be parsed.
fn unparsable(diagnostics: &[Diagnostic]) -> BTreeSet<Arc<str>> {
    let codes = [code::NOT_UTF8, code::SYNTAX, code::TOO_DEEP];
    diagnostics
        .iter()
        .filter(|found| codes.contains(&found.code))
        .filter_map(|found| Some(Arc::clone(&found.labels.first()?.span.file)))
        .collect()
}

pub(crate) fn sort(diagnostics: &mut [Diagnostic], files: &[Arc<str>]) {
    let order: BTreeMap<_, _> = files.iter().zip(0usize..).collect();
    diagnostics.sort_by_cached_key(|found| {
        let span = found.labels.first().map(|label| &label.span);
        let file = span.and_then(|span| order.get(&span.file));
        let place = span.map(|span| (span.start, span.end));
        // Stable: what has no place comes last, in the order found.
        (file.is_none(), file.copied(), place, found.code)
    });
}

/// The lines of the files, found once for each file that is asked for.
pub(crate) struct Lines<'a> {
    sources: &'a BTreeMap<Arc<str>, Arc<str>>,
    starts: RefCell<BTreeMap<Arc<str>, Vec<usize>>>,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(sources: &'a BTreeMap<Arc<str>, Arc<str>>) -> Self {
        Self {
            sources,
            starts: RefCell::default(),
        }
    }

    /// The text of a line, without the spaces around it.
    pub(crate) fn span(&self, position: &Position) -> Option<Span> {
        let text = self.sources.get(&position.file)?;
        let number = usize::try_from(position.line).ok()?.checked_sub(1)?;
        let mut starts = self.starts.borrow_mut();
        let starts = starts.entry(Arc::clone(&position.file)).or_insert_with(|| {
            let ends = text.match_indices('\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(ends).collect()
        });
        let start = *starts.get(number)?;
        let line = text.get(start..)?.lines().next()?;
        let indent = line.len() - line.trim_start().len();
        let end = indent + line.trim().len();
        let column = |bytes: usize| {
            let characters = line.get(..bytes).unwrap_or_default().chars().count();
            u32::try_from(characters + 1).unwrap_or(u32::MAX)
        };
        Some(Span {
            file: Arc::clone(&position.file),
            start: start + indent,
            end: start + end,
            line: position.line,
            column: column(indent),
            end_line: position.line,
            end_column: column(end),
        })
    }
}

#[cfg(test)]
mod tests;
