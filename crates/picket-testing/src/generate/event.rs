//! Random event sequences.

use picket_cluster::{Event, Object};
use proptest::collection::vec;
use proptest::prelude::*;

use super::cluster::{NAMESPACES, NODES, SLOTS, namespace, node, pod};
use super::policy::{Shape, policy};

/// How many different policies a sequence speaks of.
const POLICIES: u8 = 10;

/// 1 to `max` changes and lists: objects that appear, change, are repeated unchanged, vanish, vanish without having
/// existed, and lists that silently leave some out. Between events, nodes and namespaces that pods name may be missing.
pub fn events(shape: Shape, max: usize) -> impl Strategy<Value = Vec<Event>> {
    let change = prop_oneof![
        8 => object(shape).prop_map(|object| vec![Event::Apply(object)]),
        1 => object(shape).prop_map(|object| vec![Event::Apply(object.clone()), Event::Apply(object)]),
        3 => object(shape).prop_map(|object| vec![Event::Delete(object.object_ref())]),
        1 => object(shape).prop_map(|object| {
            let gone = object.object_ref();
            vec![Event::Apply(object), Event::Delete(gone.clone()), Event::Delete(gone)]
        }),
        1 => vec(object(shape), 0..12).prop_map(|objects| {
            let listed = objects.into_iter().map(Event::Apply);
            [Event::Init].into_iter().chain(listed).chain([Event::InitDone]).collect()
        }),
    ];
    vec(change, 1..=max).prop_map(|changes| changes.into_iter().flatten().collect())
}

fn object(shape: Shape) -> impl Strategy<Value = Object> {
    prop_oneof![
        2 => (0..NAMESPACES.len()).prop_flat_map(|at| namespace(NAMESPACES[at])).prop_map(Object::Namespace),
        1 => (0..NODES.len()).prop_flat_map(node).prop_map(Object::Node),
        5 => (0..SLOTS).prop_flat_map(pod).prop_map(Object::Pod),
        4 => (0..POLICIES).prop_flat_map(move |name| policy(shape, name)).prop_map(Object::Policy),
    ]
}
