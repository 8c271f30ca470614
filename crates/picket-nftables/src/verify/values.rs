//! What a writable field holds: a number for each class of an axis.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use picket_net::BitSet;

use super::cell::{Axis, Scratch};

/// A number for each class of an axis of which one is known.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// What tells it from the others of one memory.
    number: usize,
    table: Rc<Table>,
}

#[derive(Debug)]
struct Table {
    known: BitSet,
    /// By class; what it is for one that is not known is of no account.
    by_class: Vec<u32>,
    /// The numbers that were written last, each with the classes of which it is.
    written: Vec<(u32, BitSet)>,
    /// The classes of all of these.
    over: BitSet,
    /// What was there before, and is still for every other class.
    before: Option<Values>,
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Values {}

impl Hash for Values {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.number);
    }
}

impl Values {
    /// What a field that held `before` holds after each number was `written` for its classes. Classes beyond `all` are
    /// not known.
    pub(super) fn new(
        number: usize,
        all: &BitSet,
        mut written: BTreeMap<u32, BitSet>,
        before: (Axis, &Scratch),
    ) -> Self {
        let mut over = BitSet::empty();
        for classes in written.values() {
            over.extend(classes);
        }
        let count = all.last().map_or(0, |last| last as usize + 1);
        let (mut by_class, mut known, before) = match before {
            (_, Scratch::Constant(value)) => {
                written.entry(*value).or_default().extend(&all.difference(&over));
                over = all.clone();
                (vec![0; count], all.clone(), None)
            }
            (Axis::Source, Scratch::BySource(values))
            | (Axis::Destination, Scratch::ByDestination(values)) => {
                let before = &values.table;
                (
                    before.by_class.clone(),
                    before.known.clone(),
                    Some(values.clone()),
                )
            }
            _ => (vec![0; count], BitSet::empty(), None),
        };
        known.extend(&over);
        for (value, classes) in &written {
            for class in classes.iter() {
                if let Some(held) = by_class.get_mut(class as usize) {
                    *held = *value;
                }
            }
        }
        let table = Table {
            known: known.intersection(all),
            by_class,
            written: written.into_iter().collect(),
            over,
            before,
        };
        Self {
            number,
            table: Rc::new(table),
        }
    }

    pub(super) fn known(&self) -> &BitSet {
        &self.table.known
    }

    /// Every class of which the number is known, with that.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let known = self.known().iter();
        known.filter_map(|class| Some((class, *self.table.by_class.get(class as usize)?)))
    }

    /// The numbers that were written last, each with the classes of which it is.
    pub(super) fn written(&self) -> &[(u32, BitSet)] {
        &self.table.written
    }

    /// What every class holds for which nothing was written last, and the classes of which that does not hold.
    pub(super) fn before(&self) -> Option<(&Self, &BitSet)> {
        self.table
            .before
            .as_ref()
            .map(|before| (before, &self.table.over))
    }

    /// Adds the classes of which this is the number.
    pub(super) fn find(&self, number: u32, found: &mut BitSet) {
        let written = self.written();
        let at = written.binary_search_by_key(&number, |&(number, _)| number);
        if let Some((_, classes)) = at.ok().and_then(|at| written.get(at)) {
            found.extend(classes);
        }
        if let Some((before, over)) = self.before() {
            let mut there = BitSet::empty();
            before.find(number, &mut there);
            found.extend(&there.difference(over));
        }
    }

    /// What the field holds for these classes: one number where it is the same for all. `None` where one is not known.
    pub(super) fn held(&self, axis: Axis, classes: &BitSet) -> Option<Scratch> {
        if !self.known().contains_all(classes) {
            return None;
        }
        let mut values = classes
            .iter()
            .map(|class| self.table.by_class.get(class as usize));
        let first = values.next().flatten();
        Some(match (first, axis) {
            (Some(&first), _) if values.all(|value| value == Some(&first)) => Scratch::Constant(first),
            (_, Axis::Source) => Scratch::BySource(self.clone()),
            _ => Scratch::ByDestination(self.clone()),
        })
    }
}
