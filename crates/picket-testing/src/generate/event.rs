//! Random event sequences.

use picket_cluster::{Event, Object};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::attachment;
use super::cluster::{NAMESPACES, NODES, SLOTS, namespace, node, pod};
use super::policy::{Shape, policy};

/// How many different policies a sequence speaks of.
const POLICIES: u8 = 13;

/// 1 to `max` changes and lists: objects that appear, change, are repeated unchanged, vanish, vanish without having
/// existed, and lists that silently leave some out. Between events, nodes and namespaces that pods name may be missing.
pub fn events(shape: Shape, max: usize) -> impl Strategy<Value = Vec<Event>> {
    let object = object(shape);
    let change = prop_oneof![
        8 => object.clone().prop_map(|object| Change::Is(vec![Event::Apply(object)])),
        1 => object.clone().prop_map(|object| Change::Is(vec![Event::Apply(object.clone()), Event::Apply(object)])),
        2 => object.clone().prop_map(|object| Change::Is(vec![Event::Delete(object.object_ref())])),
        2 => any::<Index>().prop_map(Change::Undoes),
        1 => object.clone().prop_map(|object| {
            let gone = object.object_ref();
            Change::Is(vec![Event::Apply(object), Event::Delete(gone.clone()), Event::Delete(gone)])
        }),
        1 => vec(object, 0..12).prop_map(|objects| {
            let listed = objects.into_iter().map(Event::Apply);
            Change::Is([Event::Init].into_iter().chain(listed).chain([Event::InitDone]).collect())
        }),
    ];
    vec(change, 1..=max).prop_map(sequence)
}

#[derive(Clone, Debug)]
enum Change {
    /// These events.
    Is(Vec<Event>),
    /// One of the objects that were applied before vanishes; nothing happens when there is none.
    Undoes(Index),
}

fn sequence(changes: Vec<Change>) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for change in changes {
        match change {
            Change::Is(more) => events.extend(more),
            Change::Undoes(index) => {
                let applied = |event: &Event| match event {
                    Event::Apply(object) => Some(object.object_ref()),
                    _ => None,
                };
                let applied: Vec<_> = events.iter().filter_map(applied).collect();
                if !applied.is_empty() {
                    events.push(Event::Delete(index.get(&applied).clone()));
                }
            }
        }
    }
    events
}

fn object(shape: Shape) -> BoxedStrategy<Object> {
    prop_oneof![
        2 => (0..NAMESPACES.len()).prop_flat_map(|at| namespace(NAMESPACES[at])).prop_map(Object::Namespace),
        1 => (0..NODES.len()).prop_flat_map(node).prop_map(Object::Node),
        5 => (0..SLOTS).prop_flat_map(pod).prop_map(Object::from),
        1 => (0..attachment::NETWORKS.len()).prop_flat_map(attachment::definition).prop_map(Object::Network),
        4 => (0..POLICIES).prop_flat_map(move |name| policy(shape, name)).prop_map(Object::Policy),
    ]
    .boxed()
}
