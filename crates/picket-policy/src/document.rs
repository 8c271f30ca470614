//! Files of manifests: text → documents → objects, with the place of every key and value.

mod compose;
mod manifest;
mod node;
mod scalar;
mod source;
mod split;

use std::ops::Range;
use std::sync::Arc;

use crate::Diagnostic;

pub use manifest::Manifest;
pub use node::{Entry, Node, Value};
pub use source::Source;

/// Reads one file of manifests: YAML or JSON, any number of documents, lists of objects taken apart.
///
/// `file` is the name to print, `-` for standard input. What cannot be read is left out with a diagnostic; a document
/// that cannot be parsed takes no other document with it. Empty documents are skipped.
pub fn read(file: &Arc<str>, bytes: &[u8]) -> (Vec<Manifest>, Vec<Diagnostic>) {
    let source = match Source::decode(file, bytes) {
        Ok(source) => source,
        Err(diagnostic) => return (Vec::new(), vec![*diagnostic]),
    };
    let (mut manifests, mut diagnostics) = (Vec::new(), Vec::new());
    for chunk in chunks(&source) {
        let (found, problems) = read_chunk(&source, chunk);
        manifests.extend(found);
        diagnostics.extend(problems);
    }
    (manifests, diagnostics)
}

/// The parts of a file that can be read one by one, in any order or side by side: its documents, as ranges of bytes.
pub fn chunks(source: &Source) -> Vec<Range<usize>> {
    split::split(source)
}

/// Reads one of the [`chunks`] of a file, as [`read`] does the whole of it.
pub fn read_chunk(source: &Source, chunk: Range<usize>) -> (Vec<Manifest>, Vec<Diagnostic>) {
    let (mut manifests, mut diagnostics) = (Vec::new(), Vec::new());
    for root in compose::compose(source, chunk, &mut diagnostics) {
        manifest::flatten(source, root, &mut manifests, &mut diagnostics);
    }
    (manifests, diagnostics)
}

#[cfg(test)]
mod tests;
