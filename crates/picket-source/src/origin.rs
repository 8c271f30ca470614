//! Where objects come from, whatever that is.

use std::io::Read;
use std::path::PathBuf;

use crate::files::{self, SourceError, Text};

/// Where objects come from: files here, a revision of git in the command line, a cluster.
///
/// What is answered depends on nothing else. An origin gives texts and not objects, so that whatever is wrong can be shown
/// where somebody wrote it.
pub trait Origin {
    /// Why there is nothing to be had.
    type Error;

    /// Everything there, as manifests in YAML or JSON, by names that tell people where to look.
    ///
    /// # Errors
    /// When not everything can be had: a part of it could have any other meaning.
    fn texts(&mut self) -> Result<Vec<Text>, Self::Error>;

    /// What should have been among the texts and could not be had, though the rest could; known after
    /// [`texts`](Self::texts). Answers without it are about the rest, and must say so.
    fn missing(&self) -> &[Missing] {
        &[]
    }
}

/// Objects that exist and could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which, such as `networkpolicies.networking.k8s.io`.
    pub what: String,
    /// Why, for people.
    pub why: String,
}

/// Files, directories and standard input.
pub struct Files<'a> {
    /// Their paths, `-` for standard input; see [`read`](crate::read).
    pub paths: &'a [PathBuf],
    /// Standard input.
    pub stdin: &'a mut dyn Read,
}

impl Origin for Files<'_> {
    type Error = SourceError;

    fn texts(&mut self) -> Result<Vec<Text>, SourceError> {
        files::read(self.paths, self.stdin)
    }
}
