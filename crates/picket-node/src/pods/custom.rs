//! Files of custom rules, read again when they change.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use picket_net::Family;
use picket_nftables::custom::CustomRules;
use picket_policy::{Direction, Source};

/// A file of custom rules, and what its rules are for.
#[derive(Clone, Debug)]
pub struct CustomFile {
    /// The file.
    pub path: PathBuf,
    /// Which packets of a pod.
    pub direction: Direction,
    /// Of which family.
    pub family: Family,
}

/// Files of custom rules as they last were right.
pub(super) struct CustomFiles {
    files: Vec<Read>,
}

struct Read {
    file: CustomFile,
    /// What it last held, right or wrong.
    bytes: Vec<u8>,
    rules: CustomRules,
    trouble: Option<String>,
}

impl CustomFiles {
    /// Reads all of them.
    ///
    /// # Errors
    /// What is wrong with the first that cannot be read.
    pub(super) fn read(files: &[CustomFile]) -> Result<Self, String> {
        let files = files.iter().map(|file| {
            let bytes = file.bytes()?;
            Ok(Read {
                rules: file.rules(&bytes)?,
                file: file.clone(),
                bytes,
                trouble: None,
            })
        });
        let files = files.collect::<Result<_, String>>()?;
        Ok(Self { files })
    }

    /// The rules, in the order in which they are judged.
    pub(super) fn rules(&self) -> Vec<CustomRules> {
        self.files.iter().map(|read| read.rules.clone()).collect()
    }

    /// What is wrong with files as they are now; the rules are those from before.
    pub(super) fn troubles(&self) -> Vec<String> {
        self.files
            .iter()
            .filter_map(|read| read.trouble.clone())
            .collect()
    }

    /// Looks whether files have changed. Whether that changes rules.
    pub(super) fn refresh(&mut self) -> bool {
        let mut changed = false;
        for read in &mut self.files {
            changed |= read.refresh();
        }
        changed
    }
}

impl Read {
    fn refresh(&mut self) -> bool {
        let bytes = match self.file.bytes() {
            Ok(bytes) if bytes == self.bytes => return false,
            Ok(bytes) => bytes,
            Err(why) => {
                self.fail(why);
                return false;
            }
        };
        self.bytes = bytes;
        match self.file.rules(&self.bytes) {
            Ok(rules) => {
                self.trouble = None;
                let changed = self.rules != rules;
                self.rules = rules;
                changed
            }
            Err(why) => {
                self.fail(why);
                false
            }
        }
    }

    fn fail(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            tracing::error!("{why}; its rules from before hold");
        }
        self.trouble = Some(why);
        // What was right once may come back.
        self.bytes.clear();
    }
}

impl CustomFile {
    fn bytes(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.path).map_err(|error| format!("cannot read `{}`: {error}", self.path.display()))
    }

    fn rules(&self, bytes: &[u8]) -> Result<CustomRules, String> {
        let name: Arc<str> = self.path.display().to_string().into();
        let source = Source::decode(&name, bytes).map_err(|_| format!("`{name}` is no text in UTF-8"))?;
        CustomRules::read(&source, self.direction, self.family).map_err(|problems| {
            let first = problems.first().map(|first| match first.labels.first() {
                Some(label) => format!(": line {}: {}", label.span.line, first.message),
                None => format!(": {}", first.message),
            });
            format!("`{name}` is no file of custom rules{}", first.unwrap_or_default())
        })
    }
}
