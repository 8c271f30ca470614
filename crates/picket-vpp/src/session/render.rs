//! From what each pod may exchange to rules of the session layer.
//!
//! The local table of a pod's namespace judges what is opened in it, and the global table what arrives over the network.
//! Pods of one node reach each other past the global table, so that local tables hold also what other pods of the node may
//! receive.
//!
//! VPP's tables are trees in which a rule captures every other whose network address fits its mask, whichever is longer, so
//! that the order of addition can decide. Here it cannot: the prefixes of a table are disjoint, rules about ports are only
//! inside the prefix that they are about, and what holds for everybody else is the rule about everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_dataplane::Shortfall;
use picket_engine::{PodRef, Program};
use picket_policy::{Direction, ObjectRef};
use smol_str::SmolStr;

use super::model::SessionRules;
use super::node::NodeRules;
use super::renderer::Renderer;
use crate::lists::Lists;
use crate::value::Values;

/// What rules depend on besides the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many rules a table may have. Of ranges of ports that would need more nothing is allowed.
    pub most_rules: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { most_rules: 100_000 }
    }
}

/// A table that would have needed more rules than it may have, and allows less instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TooMany {
    /// The pod that is allowed less.
    pub pod: ObjectRef,
    /// The direction in which it is.
    pub direction: Direction,
    /// How many rules are missing.
    pub missing: usize,
}

/// What the policies of pods ask for that their tables have no room for. Where no policy says what a pod may send, its table is
/// full of what other pods of its node may receive.
pub fn shortfalls(program: &Program, missing: &[TooMany]) -> Vec<Shortfall> {
    let mut found = Vec::new();
    let mut beside = BTreeMap::new();
    for missing in missing {
        let mut policies = deciding(program, &missing.pod, missing.direction);
        if policies.is_empty() && missing.direction == Direction::Egress {
            let pod = program.pod(&missing.pod);
            let node = pod.as_ref().and_then(|pod| pod.pod().node.as_ref());
            let known = beside.entry(node.cloned());
            policies.clone_from(known.or_insert_with(|| deciding_beside(program, node)));
        }
        found.extend(policies.into_iter().map(|(policy, direction)| Shortfall {
            target: "vpp-session",
            what: format!(
                "{policy} ({direction}) needs {} more rules than a table may have",
                missing.missing
            ),
            instead: format!(
                "what they would allow is denied for {}; `--max-session-rules` sets how many there may be",
                missing.pod
            ),
            policy,
            direction,
        }));
    }
    found
}

/// The policies that decide what a pod may exchange in a direction.
fn deciding(program: &Program, pod: &ObjectRef, direction: Direction) -> BTreeSet<(ObjectRef, Direction)> {
    let subject = program.subject(pod, direction).into_iter();
    let policies = subject.flat_map(|subject| program.deciding_policies(subject));
    policies
        .map(|policy| (policy.object.clone(), direction))
        .collect()
}

/// Those that decide what the pods of a node may receive, or with `None` those without one.
fn deciding_beside(program: &Program, node: Option<&SmolStr>) -> BTreeSet<(ObjectRef, Direction)> {
    let beside = match node {
        Some(node) => program.pods_on(node),
        None => {
            let pods = program.pods().filter(PodRef::is_managed);
            pods.filter(|pod| pod.pod().node.is_none()).collect()
        }
    };
    let subjects: BTreeSet<_> = beside
        .iter()
        .filter_map(|pod| pod.subject(Direction::Ingress))
        .collect();
    let policies = subjects
        .into_iter()
        .flat_map(|subject| program.deciding_policies(subject));
    policies
        .map(|policy| (policy.object.clone(), Direction::Ingress))
        .collect()
}

/// The rules of one node, or with `None` of one node that runs every pod.
pub fn render(program: &Program, node: Option<&str>, options: &Options) -> (SessionRules, Vec<TooMany>) {
    let mut renderer = Renderer::new(node, *options);
    renderer.advance(program);
    (renderer.rules(), renderer.missing())
}

/// The rules of pods of which it is known what each may receive and send.
pub fn render_lists(
    pods: &BTreeMap<ObjectRef, Lists>,
    options: &Options,
    values: &mut Values,
) -> (SessionRules, Vec<TooMany>) {
    let mut node = NodeRules::of_rules(*options);
    let lists = pods.iter();
    let each = lists.map(|(pod, lists)| (pod.clone(), Some(Arc::new(lists.clone()))));
    node.advance(&each.collect(), values);
    (node.rules(), node.missing())
}
