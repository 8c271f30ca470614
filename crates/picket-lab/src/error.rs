//! Why a lab fails.

use crate::{Place, TopologyError};

/// Why a ruleset is not in force.
#[derive(Debug)]
pub struct Unloaded {
    /// Why it did not load.
    pub error: picket_linux::Error,
    /// Why what was in force before could not be replaced by letting nothing pass either.
    pub open: Option<picket_linux::Error>,
}

/// Why a lab could not be built, enforced or probed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The snapshot does not make a lab.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The kernel, or a program the lab needs, refused.
    #[error(transparent)]
    Kernel(#[from] picket_linux::Error),
    /// Some rulesets did not load. The others are in force, and where they did not load nothing passes.
    #[error("cannot load {} of {of} rulesets, so nothing passes there: {}", failed.len(), listed(failed))]
    Rulesets {
        /// Those that did not, with the reason, by place.
        failed: Vec<(Place, Unloaded)>,
        /// How many were to be in force.
        of: usize,
    },
    /// The policies cannot be made into a ruleset.
    #[error("cannot render the ruleset of {place}: {message}")]
    Render {
        /// Where it would be loaded.
        place: Box<Place>,
        /// Why.
        message: String,
    },
    /// No namespace of the lab is called that.
    #[error("the lab has no `{0}`")]
    NoSuchPlace(Box<Place>),
    /// Probing needs more open files than this process may have.
    #[error(
        "probing needs {needed} open files and this process may have {limit}; raise the limit with `ulimit -n`"
    )]
    OpenFiles {
        /// How many it needs.
        needed: usize,
        /// How many it may have.
        limit: usize,
    },
}

fn listed(failed: &[(Place, Unloaded)]) -> String {
    let reasons: Vec<_> = failed
        .iter()
        .map(|(place, Unloaded { error, open })| match open {
            None => format!("{place}: {error}"),
            Some(open) => format!("{place}: {error}, and it is as it was: {open}"),
        })
        .collect();
    reasons.join("; ")
}
