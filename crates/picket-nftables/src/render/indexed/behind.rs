//! The policies that an object of a table is there for: on demand, from what the table was rendered from.

use std::collections::BTreeSet;

use picket_engine::Program;
use picket_policy::ObjectRef;

use super::counters::counter_of;
use super::restrict::{Restrictions, own_pods};
use super::view::LocalSide;
use crate::model::Name;

/// The policies because of which the table of `node` for this program has a chain, a map or a counter of this name: those that
/// decide about the pods whose chain or map it is, or the one whose packets are counted. None for what all pods share.
pub fn policies_behind(program: &Program, node: Option<&str>, name: &Name) -> BTreeSet<ObjectRef> {
    let sides = Restrictions::default().update(program, node, None);
    let behind = sides.iter().flat_map(|side| {
        if side.name == *name {
            return deciding(program, node, side);
        }
        let counted = side
            .denying
            .iter()
            .filter(|policy| counter_of(side, policy).name == *name);
        counted.cloned().collect()
    });
    behind.collect()
}

/// The policies that decide about some pods of a node in one direction.
fn deciding(program: &Program, node: Option<&str>, side: &LocalSide) -> BTreeSet<ObjectRef> {
    let pods = own_pods(program, node).into_iter();
    let pods = pods.filter(|pod| {
        let mut addresses = pod.pod().addresses.iter();
        addresses.any(|address| side.addresses.contains(&address))
    });
    let subjects: BTreeSet<_> = pods
        .filter_map(|pod| pod.subject(side.role.direction()))
        .collect();
    let policies = subjects
        .into_iter()
        .flat_map(|subject| program.deciding_policies(subject));
    policies.map(|policy| policy.object.clone()).collect()
}
