//! A ruleset of one table as typed values.
//!
//! A [`Draft`] is written freely; [`Draft::check`] turns it into a [`Table`], in which every name that is used exists,
//! every comparison and lookup is of one type, and intervals are disjoint. What a `Table` prints, nft loads.

mod chain;
mod name;
mod rule;
mod set;
mod table;
mod value;

pub use chain::{Base, Chain, Hook, Policy, priority};
pub use name::{Comment, InterfaceName, LogPrefix, Name, NameDigest, NameHash};
pub use rule::{
    Assigned, End, Field, Limit, Log, Match, Relation, Rule, Slot, Statement, Transport, Verdict,
};
pub use set::{Counter, Datum, Map, MapType, Set};
pub use table::{Draft, ModelError, Table};
pub use value::{Datatype, Key, Value};
