//! What others have put into a table of ours.

use std::fmt;

use super::super::attributes::Oddity;

/// Something in a table that picket does not write, so that the model cannot say what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Where it is.
    pub place: Place,
    /// Why picket cannot have written it.
    pub oddity: Oddity,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.oddity)
    }
}

/// An object in the kernel. Names are as they are there; bytes that are no text are replaced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The table itself, or the whole of it.
    Table,
    /// A chain.
    Chain(String),
    /// A rule.
    Rule {
        /// Its chain.
        chain: String,
        /// Its number in the table, as `nft -a` lists it.
        handle: u64,
    },
    /// A set or map, or elements of it.
    Container(String),
    /// A counter, or another object with a state.
    Object(String),
    /// A flowtable.
    Flowtable(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table => f.write_str("the table"),
            Self::Chain(name) => write!(f, "chain `{name}`"),
            Self::Rule { chain, handle } => write!(f, "chain `{chain}`, rule with handle {handle}"),
            Self::Container(name) => write!(f, "set or map `{name}`"),
            Self::Object(name) => write!(f, "object `{name}`"),
            Self::Flowtable(name) => write!(f, "flowtable `{name}`"),
        }
    }
}
