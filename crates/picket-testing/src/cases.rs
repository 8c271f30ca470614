//! Cases that people read and write: Markdown with manifests and the verdicts they must give.
//!
//! ````markdown
//! # What the file is about
//!
//! Cluster: [three namespaces](cluster.md)
//!
//! ## Nobody reaches an isolated pod
//!
//! ```yaml
//! apiVersion: networking.k8s.io/v1
//! kind: NetworkPolicy
//! metadata: {name: deny, namespace: x}
//! spec: {podSelector: {}}
//! ```
//!
//! ```verdicts TCP/80 UDP/53
//!      x/a  x/b  y/a
//! x/a   -    X    .
//! x/b   X    -    .
//! y/a   X    X    -
//! ```
//!
//! ### Once the policy is gone, everybody does
//!
//! ```delete
//! NetworkPolicy x/deny
//! ```
//!
//! ```verdicts
//! allow y/a x/b -> x/a : TCP/80 ICMP
//! ```
//! ````
//!
//! - A `##` heading begins a case. What stands before the first one belongs to every case of the file, and so does
//!   what stands there in the file that a line `Cluster: [text](file)` links to.
//! - A line `Cluster default: deny` sets the cluster default of the v1beta1 proposal for the cases of the file.
//! - A `yaml` block adds objects, or replaces those of the same kind, namespace and name. A `delete` block removes
//!   objects, one per line: `Kind namespace/name`, or `Kind name`.
//! - A `verdicts` block says what must hold then; the next `yaml` or `delete` block begins the next step, with the last
//!   `###` heading as its title.
//! - In a grid, rows are sources and columns are destinations: `.` allows, `X` denies, `-` says nothing. What is probed
//!   stands behind `verdicts`. A line of its own is `allow|deny sources -> destinations : probes`.
//! - `verdicts on namespace/name` is about a secondary network.
//! - An end is `namespace/name`, `namespace/Kind/name` or an address. A probe is `TCP/80`, `TCP/name`, `ICMP`,
//!   `ICMPv6` or `proto:47`.

mod expectation;
mod manifest;

pub use expectation::{Expectation, Port, Probe};
pub use manifest::Manifest;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use picket_cluster::Snapshot;
use picket_policy::{ClusterDefault, NetworkName, Options, Position, Severity};
use picket_source::Text;

/// One case: the same cluster and policies through one or more steps.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its heading.
    pub title: String,
    /// Where its heading stands.
    pub position: Position,
    /// Its steps, at least one.
    pub steps: Vec<Step>,
}

/// What exists at one moment of a case, and what must hold then.
#[derive(Clone, Debug)]
pub struct Step {
    /// The last `###` heading before it, or the title of the case.
    pub title: String,
    /// Every object that exists, in the order in which they first appeared.
    pub manifests: Vec<Manifest>,
    /// The secondary network that it is about; `None` for the cluster network.
    pub network: Option<NetworkName>,
    /// What holds where the v1beta1 proposal leaves it to the cluster.
    pub default: ClusterDefault,
    /// What must hold, at least one.
    pub expectations: Vec<Expectation>,
}

impl Step {
    /// What exists in this step, as its network sees it.
    ///
    /// # Panics
    /// When a manifest has an error: a case must mean what it says.
    pub fn snapshot(&self) -> Snapshot {
        let cluster = self.cluster();
        match &self.network {
            Some(network) => cluster.on(network),
            None => cluster,
        }
    }

    /// What exists in this step, on every network.
    ///
    /// # Panics
    /// When a manifest has an error: a case must mean what it says.
    pub fn cluster(&self) -> Snapshot {
        let text = |manifest: &Manifest| Text {
            name: Arc::clone(&manifest.position.file),
            bytes: manifest.in_place().into_bytes(),
        };
        let texts: Vec<_> = self.manifests.iter().map(text).collect();
        let options = Options {
            v1beta1_default: self.default,
            ..Options::default()
        };
        let loaded = picket_source::load_texts(&texts, options);
        let error = loaded
            .diagnostics
            .iter()
            .find(|found| found.severity == Severity::Error);
        match error {
            Some(error) => panic!("{}: {error:?}", self.title),
            None => loaded.snapshot,
        }
    }
}

/// Why a file of cases cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The file system refuses.
    #[error("cannot read `{path}`")]
    Read {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line means nothing.
    #[error("{position}: {message}")]
    Line {
        /// The line.
        position: Position,
        /// What is wrong with it.
        message: String,
    },
}

/// Reads every case of the Markdown files in `folder` and below, in the order of their paths.
///
/// # Errors
/// When a file cannot be read, or a line of one means nothing.
pub fn load(folder: &Path) -> Result<Vec<Case>, CaseError> {
    let mut cases = Vec::new();
    for path in markdown_files(folder)? {
        let text = read(&path)?;
        let name: Arc<str> = path.display().to_string().into();
        let shared = match cluster_link(&text) {
            Some(link) => {
                let path = path.with_file_name(link);
                parse(&path.display().to_string().into(), &read(&path)?, Vec::new())?.shared
            }
            None => Vec::new(),
        };
        cases.extend(parse(&name, &text, shared)?.cases);
    }
    Ok(cases)
}

/// Every case in the folder `cases` of this repository.
///
/// # Errors
/// As [`load`].
pub fn committed() -> Result<Vec<Case>, CaseError> {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases"))
}

fn read(path: &Path) -> Result<String, CaseError> {
    std::fs::read_to_string(path).map_err(|source| CaseError::Read {
        path: path.to_owned(),
        source,
    })
}

fn markdown_files(folder: &Path) -> Result<Vec<PathBuf>, CaseError> {
    let failed = |source| CaseError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.extend(markdown_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The file that a line `Cluster: [text](file)` links to.
fn cluster_link(text: &str) -> Option<&str> {
    let line = text.lines().find_map(|line| line.strip_prefix("Cluster: ["))?;
    let (_, target) = line.split_once("](")?;
    Some(target.split_once(')')?.0)
}

/// What one file holds.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// The objects that every case of the file begins with.
    pub shared: Vec<Manifest>,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// Reads the text of the file called `name`, whose cases begin with the objects `shared`.
///
/// # Errors
/// When a line means nothing.
pub fn parse(name: &Arc<str>, text: &str, shared: Vec<Manifest>) -> Result<CaseFile, CaseError> {
    let mut reader = Reader {
        shared,
        cases: Vec::new(),
        current: Vec::new(),
        default: ClusterDefault::Allow,
        heading: String::new(),
        changed: true,
    };
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let position = Position {
            file: Arc::clone(name),
            line: number,
        };
        if let Some(title) = line.strip_prefix("## ") {
            reader.begin_case(title, position);
        } else if let Some(title) = line.strip_prefix("### ") {
            title.clone_into(&mut reader.heading);
        } else if let Some(word) = line.strip_prefix("Cluster default: ") {
            reader.default = default(&position, word)?;
        } else if let Some(tag) = line.strip_prefix("```") {
            let block: Vec<_> = lines.by_ref().take_while(|(_, line)| *line != "```").collect();
            reader.block(&position, tag, &block)?;
        }
    }
    Ok(CaseFile {
        shared: reader.shared,
        cases: reader.cases,
    })
}

struct Reader {
    shared: Vec<Manifest>,
    cases: Vec<Case>,
    /// What exists at this line.
    current: Vec<Manifest>,
    default: ClusterDefault,
    heading: String,
    /// Whether something changed since the last verdicts.
    changed: bool,
}

impl Reader {
    fn begin_case(&mut self, title: &str, position: Position) {
        self.cases.push(Case {
            title: title.to_owned(),
            position,
            steps: Vec::new(),
        });
        self.current = self.shared.clone();
        title.clone_into(&mut self.heading);
        self.changed = true;
    }

    fn block(&mut self, position: &Position, tag: &str, lines: &[(u32, &str)]) -> Result<(), CaseError> {
        let (language, rest) = tag.split_once(' ').unwrap_or((tag, ""));
        match language {
            "yaml" => {
                let objects = if self.cases.is_empty() {
                    &mut self.shared
                } else {
                    &mut self.current
                };
                manifest::apply(objects, &position.file, lines)?;
                self.changed = true;
            }
            "delete" => {
                manifest::delete(&mut self.current, &position.file, lines)?;
                self.changed = true;
            }
            "verdicts" => {
                let (network, rest) = network(rest);
                let expectations = expectation::read(&position.file, rest, position.line, lines)?;
                self.expect(position, network, expectations)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn expect(
        &mut self,
        position: &Position,
        network: Option<NetworkName>,
        expectations: Vec<Expectation>,
    ) -> Result<(), CaseError> {
        let Some(case) = self.cases.last_mut() else {
            return Err(error(
                position,
                "verdicts belong to a case, which a `##` heading begins",
            ));
        };
        match case.steps.last_mut() {
            Some(step) if !self.changed && step.network == network => step.expectations.extend(expectations),
            _ => case.steps.push(Step {
                title: self.heading.clone(),
                manifests: self.current.clone(),
                network,
                default: self.default,
                expectations,
            }),
        }
        self.changed = false;
        Ok(())
    }
}

fn default(position: &Position, word: &str) -> Result<ClusterDefault, CaseError> {
    match word {
        "allow" => Ok(ClusterDefault::Allow),
        "deny" => Ok(ClusterDefault::Deny),
        _ => Err(error(
            position,
            format!("`{word}` is no cluster default: it is `allow` or `deny`"),
        )),
    }
}

/// The network that `on namespace/name` at the beginning of `text` names, and the rest of it.
fn network(text: &str) -> (Option<NetworkName>, &str) {
    let named = text
        .strip_prefix("on ")
        .map(|named| named.split_once(' ').unwrap_or((named, "")));
    match named {
        Some((name, rest)) => (NetworkName::parse(name, ""), rest),
        None => (None, text),
    }
}

fn error(position: &Position, message: impl Into<String>) -> CaseError {
    CaseError::Line {
        position: position.clone(),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests;
