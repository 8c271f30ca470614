//! What the messages of a batch may refer to.

use std::collections::BTreeMap;

use super::container::Shape;
use crate::model::{Map, Name, Set, Table};

/// A set or map that is there when the next message is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) shape: Shape<'a>,
    /// Its number, if it was made in this batch.
    pub(super) id: Option<u32>,
}

/// The sets and maps of the table, as the messages so far leave them.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    containers: BTreeMap<&'a Name, Known<'a>>,
    ids: u32,
}

impl<'a> Scope<'a> {
    /// Those of a table that is there.
    pub(super) fn of(table: &'a Table) -> Self {
        let mut scope = Self::default();
        for set in table.sets() {
            scope.containers.insert(
                set.name(),
                Known {
                    shape: set_shape(set),
                    id: None,
                },
            );
        }
        for map in table.maps() {
            scope.containers.insert(
                map.name(),
                Known {
                    shape: map_shape(map),
                    id: None,
                },
            );
        }
        scope
    }

    /// Another batch begins, in which what was made before has no number.
    pub(super) fn settle(&mut self) {
        for known in self.containers.values_mut() {
            known.id = None;
        }
    }

    /// A number for a new set.
    pub(super) fn take_id(&mut self) -> u32 {
        self.ids += 1;
        self.ids
    }

    /// Notes a set or map that is made now; its number.
    pub(super) fn add(&mut self, name: &'a Name, shape: Shape<'a>) -> u32 {
        let id = self.take_id();
        self.containers.insert(name, Known { shape, id: Some(id) });
        id
    }

    /// Forgets one that goes.
    pub(super) fn remove(&mut self, name: &Name) {
        self.containers.remove(name);
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.containers.clear();
    }

    /// The one of that name.
    pub(super) fn container(&self, name: &Name) -> Option<Known<'a>> {
        self.containers.get(name).copied()
    }
}

pub(super) fn set_shape(set: &Set) -> Shape<'_> {
    Shape {
        key: set.key(),
        gives: None,
        interval: set.interval(),
    }
}

pub(super) fn map_shape(map: &Map) -> Shape<'_> {
    Shape {
        key: map.key(),
        gives: Some(map.gives()),
        interval: map.interval(),
    }
}
