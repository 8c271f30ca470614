//! Selectors become identities, policies become allow sets, events become deltas.
//!
//! The shape of it, in the order in which things depend on each other:
//! - [`slab`], [`multimap`]: small keys, interned values, posting lists.
//! - [`label`], [`namespace`], [`term`]: which selectors match which labels, without asking each about each.
//! - [`partition`]: members with equal terms form classes; a term that comes splits them, one that goes merges them.
//! - [`atom`]: the prefixes of all blocks as a tree, whose nodes are such members.
//! - [`group`]: pods with the same namespace, labels and ports, which are such members too.
//! - [`identity`]: a class of selectors together with a class of blocks.
//! - [`policy`], [`subject`], [`universal`], [`allow`]: policies in these terms, who they are about, and what they then
//!   allow.
//! - [`program`], [`judge`], [`view`], [`equivalence`]: reading.
//! - [`identify`], [`grouping`], [`lowering`], [`apply`], [`commit`], [`delta`]: writing.

#![expect(
    clippy::indexing_slicing,
    reason = "INVARIANT: only slabs and interners are indexed, by keys that never leave the engine and are dropped with \
              the values that they stand for; slices are not"
)]

mod allow;
mod apply;
mod atom;
mod commit;
mod delta;
mod equivalence;
mod group;
mod grouping;
mod identify;
mod identity;
mod judge;
mod label;
mod lowering;
mod multimap;
mod namespace;
mod partition;
mod policy;
mod program;
mod slab;
mod subject;
mod term;
mod universal;
mod view;

pub use allow::AllowSet;
pub use apply::Engine;
pub use delta::{Change, Comings, Delta, PodState};
pub use equivalence::equivalent;
pub use identity::{Identity, IdentitySet};
pub use program::{PodRef, Program};
pub use subject::SubjectId;
pub use view::{PeerView, PolicyView, RuleView, SideView};
