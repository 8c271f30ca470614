//! Why a lab fails.

use crate::{Place, TopologyError};

/// Why a lab could not be built, enforced or probed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The snapshot does not make a lab.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The kernel, or a program the lab needs, refused.
    #[error(transparent)]
    Kernel(#[from] picket_linux::Error),
    /// A ruleset did not load.
    #[error("cannot load the ruleset of {place}: {source}")]
    Ruleset {
        /// Where.
        place: Box<Place>,
        /// Why.
        source: picket_linux::Error,
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
