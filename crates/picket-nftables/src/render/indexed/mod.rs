//! The indexed layout: constant work per new connection, whatever the number of policies.
//!
//! ```text
//! forward        replies pass; the rest is judged, and leaves with the queueing priority it came with
//! └ judge        address of an own pod → chain of its subject, once as source and once as destination
//!   ├ egress-N   destination → peer class → traffic class → return, or count and drop
//!   └ ingress-N  source      → peer class → traffic class → return, or count and drop
//! ```
//!
//! For pods with policies that are only audited, `judge` goes on to the chains audit-egress-N and audit-ingress-N: as the
//! others with those policies enforced, but that they only count.
//!
//!
//! `docs/nftables.md` says what each set holds and why the layout is as it is.

mod behind;
mod chains;
mod class;
mod counters;
mod group;
mod guard;
mod part;
mod program;
mod renderer;
mod restrict;
mod sets;
mod traffic;
mod view;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_engine::Program;
use picket_net::Family;
use picket_policy::{Direction, ObjectRef};

use crate::model::{Comment, Draft, Key, LogPrefix, ModelError, Name, Table, Value};
use crate::render::log;
pub use behind::policies_behind;
use chains::chains;
use class::Classes;
use counters::Counters;
pub use counters::{audit_counter_name, counter_name, unknown_counter};
pub use guard::{Guard, closed, until_known, with_uplinks};
pub use renderer::{Renderer, Step};
use restrict::{Restrictions, own_addresses};
use view::NodeView;

/// What a table has besides what policies say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The netlink group to which denied packets are logged, if they are; see [`log_prefix`].
    pub log_denied: Option<u16>,
    /// What the node itself looks at, where its interfaces are known.
    pub guard: Option<Guard>,
}

/// The table's name.
const TABLE: &str = "picket";

/// Why the indexed layout cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexedError {
    /// Two policies have one digest, so that their counters would have one name. Nobody can make two that do.
    #[error("{0} and {1} have the same hash, so that their counters would have the same name")]
    Collision(Box<ObjectRef>, Box<ObjectRef>),
    /// The renderer made something that is no ruleset.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// The table of one node, or with `None` of one node that runs every pod.
///
/// Pods that run elsewhere or nowhere are peers only. A node that no policy restricts a pod of has the table with an
/// empty base chain.
pub fn render(program: &Program, node: Option<&str>) -> Result<Table, IndexedError> {
    render_with(program, node, &Options::default())
}

/// The same with more than what policies say.
///
/// # Errors
/// As [`render`].
pub fn render_with(program: &Program, node: Option<&str>, options: &Options) -> Result<Table, IndexedError> {
    let view = NodeView::of(program, node, &mut Restrictions::default());
    let pods = own_addresses(program, node);
    Ok(Made::of(&view, &pods, options)?.table)
}

/// What the log of a denied packet begins with: whether its source or its destination is the pod that may not, and whether
/// the policies because of which it may not are only `audited`, so that it passed.
pub fn log_prefix(direction: Direction, audited: bool) -> LogPrefix {
    LogPrefix::new(&log::prefix(direction, audited))
}

/// What a [`log_prefix`] was made of; `None` for what no rule of this layout logs.
pub fn logged_as(prefix: &str) -> Option<(Direction, bool)> {
    log::read(prefix)
}

/// The name of the table.
pub fn table_name() -> Name {
    name(TABLE)
}

/// A table with nothing in it yet. The kernel cannot change the comment of a table, so that one with another would have to be
/// made anew as a whole.
fn empty_draft() -> Draft {
    let mut draft = Draft::new(name(TABLE));
    draft.comment = Some(Comment::of(
        "network policies of the pods on this node, written by picket",
    ));
    draft
}

/// What nothing new passes.
fn closed_draft() -> Result<Draft, ModelError> {
    let mut draft = empty_draft();
    draft.sets = vec![sets::always()?];
    draft.chains = vec![chains::closed()];
    Ok(draft)
}

/// The addresses of pods that something restricts, as a table of this layout has them.
pub fn restricted_addresses(table: &Table) -> impl Iterator<Item = IpAddr> {
    let names = Family::BOTH.map(|family| name(sets::restricted_pods(family)));
    let sets = table.sets().iter().filter(move |set| names.contains(set.name()));
    let values = sets.flat_map(|set| set.elements().iter().flat_map(Key::values));
    values.filter_map(|value| match value {
        Value::Ipv4(address) => Some(Ipv4Addr::from_bits(address.first()).into()),
        Value::Ipv6(address) => Some(Ipv6Addr::from_bits(address.first()).into()),
        _ => None,
    })
}

/// A table, with what it was made of.
struct Made {
    table: Table,
    classes: Classes,
    counters: Counters,
}

impl Made {
    /// The table for what `view` holds.
    /// On a node that lists its own pods these are `pods`.
    fn of(view: &NodeView, pods: &BTreeSet<IpAddr>, options: &Options) -> Result<Self, IndexedError> {
        let mut draft = empty_draft();
        let (mut classes, mut counters) = (Classes::default(), Counters::default());
        if view.sides.is_empty() {
            draft.chains = vec![chains::idle()];
        } else {
            classes = Classes::of(view);
            counters = Counters::of(&view.sides)?;
            draft.counters = counters.all();
            draft.sets = sets::sets(view, &classes)?;
            draft.maps = sets::maps(view, &classes)?;
            draft.chains = chains(view, &classes, &counters, options);
        }
        if let Some(guard) = &options.guard {
            guard.add(&mut draft)?;
            draft.sets.extend(guard::pods(pods)?);
        }
        Ok(Self {
            table: draft.check()?,
            classes,
            counters,
        })
    }
}

/// A name of this layout.
#[expect(
    clippy::expect_used,
    reason = "INVARIANT: every name here is letters, then literals, numbers or hexadecimal digits"
)]
fn name(text: &str) -> Name {
    Name::new(text).expect("names of this layout are nftables names")
}

#[cfg(test)]
mod tests;
