//! The pods of a node by number, so that a name is looked up once for each that happens to a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_policy::ObjectRef;

use super::local::Local;
use crate::lists::{Lists, Number, Slab};

/// The pods of a node.
#[derive(Debug, Default)]
pub(super) struct Pods {
    known: Slab<ObjectRef, Known>,
    /// In the order in which they are told.
    in_order: BTreeMap<ObjectRef, Number>,
}

/// What is known of a pod.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) lists: Option<Arc<Lists>>,
    /// Its table.
    pub(super) local: Option<Local>,
}

impl Pods {
    /// The number of a pod that is known.
    pub(super) fn number(&self, pod: &ObjectRef) -> Option<Number> {
        self.known.number(pod)
    }

    /// The number of a pod, which is known from now on.
    pub(super) fn enter(&mut self, pod: &ObjectRef) -> Number {
        self.number(pod).unwrap_or_else(|| {
            let number = self.known.insert(pod.clone(), Known::default());
            self.in_order.insert(pod.clone(), number);
            number
        })
    }

    /// A pod is gone, and nothing is known by its number.
    pub(super) fn leave(&mut self, number: Number) {
        if let Some(pod) = self.known.remove(number) {
            self.in_order.remove(&pod);
        }
    }

    /// Its name.
    pub(super) fn name(&self, number: Number) -> Option<&ObjectRef> {
        self.known.key(number)
    }

    /// What is known of a pod.
    pub(super) fn get(&self, number: Number) -> Option<&Known> {
        self.known.get(number)
    }

    /// The same, to change it.
    pub(super) fn get_mut(&mut self, number: Number) -> Option<&mut Known> {
        self.known.get_mut(number)
    }

    /// A pod has these lists now; those that it had.
    pub(super) fn set_lists(&mut self, number: Number, lists: Option<Arc<Lists>>) -> Option<Arc<Lists>> {
        std::mem::replace(&mut self.get_mut(number)?.lists, lists)
    }

    /// Every pod.
    pub(super) fn each(&self) -> impl Iterator<Item = (&ObjectRef, &Known)> {
        let each = self.in_order.iter();
        each.filter_map(|(pod, number)| Some((pod, self.get(*number)?)))
    }
}
