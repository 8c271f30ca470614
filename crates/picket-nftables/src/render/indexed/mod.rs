//! The indexed layout: constant work per new connection, whatever the number of policies.
//!
//! ```text
//! forward        replies pass; the rest is judged, and leaves with the queueing priority it came with
//! └ judge        address of an own pod → chain of its subject, once as source and once as destination
//!   ├ egress-N   destination → peer class → traffic class → return, or count and drop
//!   └ ingress-N  source      → peer class → traffic class → return, or count and drop
//! ```
//!
//! `docs/nftables.md` says what each set holds and why the layout is as it is.

mod chains;
mod class;
mod guard;
mod program;
mod sets;
mod view;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_engine::Program;
use picket_net::Family;
use picket_policy::{Direction, ObjectRef};

use super::documented::{policy_hash, title};
use crate::model::{Comment, Counter, Draft, Key, LogPrefix, ModelError, Name, Table, Value};
use chains::chains;
use class::Classes;
pub use program::can_deny;
use view::NodeView;

pub use guard::{Guard, closed, until_known, with_uplinks};

/// What a table has besides what policies say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'g> {
    /// The netlink group to which denied packets are logged, if they are; see [`log_prefix`].
    pub log_denied: Option<u16>,
    /// What the node itself looks at, where its interfaces are known.
    pub guard: Option<&'g Guard>,
}

/// The table's name.
const TABLE: &str = "picket";

/// Why the indexed layout cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexedError {
    /// Two policies have one hash, so that their counters would have one name.
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
    render_with(program, node, Options::default())
}

/// The same with more than what policies say.
///
/// # Errors
/// As [`render`].
pub fn render_with(
    program: &Program,
    node: Option<&str>,
    options: Options<'_>,
) -> Result<Table, IndexedError> {
    let mut draft = draft(&NodeView::of(program, node), options)?;
    if let Some(guard) = options.guard {
        guard.add(&mut draft)?;
        guard::list_pods(&mut draft, program, node)?;
    }
    Ok(draft.check()?)
}

/// What the log of a denied packet begins with: whether its source or its destination is the pod that may not.
pub fn log_prefix(direction: Direction) -> LogPrefix {
    LogPrefix::new(&format!("picket {direction}"))
}

/// The name of the table.
pub fn table_name() -> Name {
    name(TABLE)
}

/// What nothing new passes.
fn closed_draft() -> Result<Draft, ModelError> {
    let mut draft = Draft::new(name(TABLE));
    draft.comment = Some(Comment::of(
        "nothing new is forwarded until the policies are known, written by picket",
    ));
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

/// The table for what `view` holds, not checked yet.
fn draft(view: &NodeView, options: Options<'_>) -> Result<Draft, IndexedError> {
    let mut draft = Draft::new(name(TABLE));
    draft.comment = Some(Comment::of(
        "network policies of the pods on this node, written by picket",
    ));
    if !view.sides.is_empty() {
        let classes = Classes::of(view);
        draft.counters = counters(view)?;
        draft.sets = sets::sets(view, &classes)?;
        draft.maps = sets::maps(view, &classes)?;
        draft.chains = chains(view, &classes, options);
    } else {
        draft.chains = vec![chains::idle()];
    }
    Ok(draft)
}

/// A counter for each policy and direction because of which packets of the node's pods can be dropped.
fn counters(view: &NodeView) -> Result<Vec<Counter>, IndexedError> {
    let mut owners = std::collections::BTreeMap::new();
    for side in &view.sides {
        for policy in &side.denying {
            let owner = owners
                .entry(counter_name(policy, side.role.direction()))
                .or_insert(policy);
            if *owner != policy {
                return Err(IndexedError::Collision(
                    Box::new((*owner).clone()),
                    Box::new(policy.clone()),
                ));
            }
        }
    }
    let counter = |(name, policy): (Name, &ObjectRef)| Counter {
        name,
        comment: Some(Comment::new(&title(policy), policy_hash(policy))),
    };
    let mid_stream = Counter {
        name: mid_stream_counter(),
        comment: Some(Comment::of("TCP of no known connection")),
    };
    Ok(owners.into_iter().map(counter).chain([mid_stream]).collect())
}

/// `drop-<direction>-<hash>`: packets that were dropped in this direction and that the policy may be why.
pub fn counter_name(policy: &ObjectRef, direction: Direction) -> Name {
    name(&format!("drop-{direction}-{}", policy_hash(policy)))
}

/// The counter of TCP packets of restricted pods that belong to no known connection and begin none, which were dropped.
pub fn mid_stream_counter() -> Name {
    name(chains::MID_STREAM_COUNTER)
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
