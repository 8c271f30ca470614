//! Lists of classes, and how they fall apart. Cells that differ in other things share their lists: what is worked out of a
//! list once is remembered.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

use picket_net::Family;
use rustc_hash::{FxHashMap, FxHasher};

use super::cell::{Axis, Cell, Scratch};

/// Numbers of classes, ascending; or one number for each class of such a list.
#[derive(Clone, Debug)]
pub(super) struct List {
    numbers: Rc<[u32]>,
    hash: u64,
}

impl FromIterator<u32> for List {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let numbers: Rc<[u32]> = numbers.into_iter().collect();
        let mut hasher = FxHasher::default();
        numbers.hash(&mut hasher);
        let hash = hasher.finish();
        Self { numbers, hash }
    }
}

impl Deref for List {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.numbers
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        let same = Rc::ptr_eq(&self.numbers, &other.numbers);
        same || (self.hash == other.hash && self.numbers == other.numbers)
    }
}

impl Eq for List {}

impl Hash for List {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// What classes of one axis are told apart by: the classes themselves, or the values that a writable field has for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Told {
    pub(super) family: Family,
    pub(super) axis: Axis,
    pub(super) classes: List,
    pub(super) values: Option<List>,
}

/// One field of a lookup: the container, the position, and the elements that the fields before have left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) container: usize,
    pub(super) at: usize,
    pub(super) is_last: bool,
    pub(super) among: Option<Box<[u32]>>,
}

/// What the classes of one part find.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Left {
    /// At the last field: the outcome of an element, or nothing.
    Outcome(Option<u32>),
    /// Before it: the elements that have the field.
    Elements(Vec<u32>),
}

/// The classes of a list that find the same.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) left: Left,
    positions: List,
    classes: List,
}

impl Part {
    /// The parts of a list, by what `find` gives for what each class, with its position, is `read` as.
    pub(super) fn all<R: Copy + Eq + Hash>(
        classes: &List,
        read: impl Fn(usize, u32) -> R,
        find: impl Fn(R) -> Left,
    ) -> Vec<Self> {
        let mut numbers: BTreeMap<Left, usize> = BTreeMap::new();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut known: FxHashMap<R, usize> = FxHashMap::default();
        // Neighbours mostly go the same way.
        let mut last: Option<(R, usize)> = None;
        for (index, (position, &class)) in (0..).zip(classes.iter().enumerate()) {
            let read = read(position, class);
            let number = match last {
                Some((before, number)) if before == read => number,
                _ => *known.entry(read).or_insert_with(|| {
                    let next = numbers.len();
                    *numbers.entry(find(read)).or_insert(next)
                }),
            };
            last = Some((read, number));
            if number == groups.len() {
                groups.push(Vec::new());
            }
            if let Some(group) = groups.get_mut(number) {
                group.push(index);
            }
        }
        let whole = numbers.len() == 1;
        let parts = numbers.into_iter().filter_map(|(left, number)| {
            let positions: List = groups.get(number)?.iter().copied().collect();
            let classes = if whole {
                classes.clone()
            } else {
                pick(classes, &positions)
            };
            Some(Self {
                left,
                positions,
                classes,
            })
        });
        parts.collect()
    }
}

fn pick(list: &List, positions: &List) -> List {
    let picked = positions
        .iter()
        .filter_map(|&position| list.get(position as usize));
    picked.copied().collect()
}

type Known<K, V> = RefCell<FxHashMap<K, V>>;

/// What was worked out of lists before. It depends on them and on the lookup alone, never on the rest of a cell.
#[derive(Debug, Default)]
pub(super) struct Memory {
    parts: Known<(Told, Place), Rc<[Part]>>,
    picked: Known<(Axis, List, List), Scratch>,
    mapped: Known<(Told, usize, Scratch), Option<Scratch>>,
}

impl Memory {
    /// The parts into which a list falls at one field of a lookup.
    pub(super) fn parts(
        &self,
        told: Told,
        place: Place,
        split: impl FnOnce(&Told, &Place) -> Vec<Part>,
    ) -> Rc<[Part]> {
        let mut parts = self.parts.borrow_mut();
        match parts.entry((told, place)) {
            Entry::Occupied(known) => Rc::clone(known.get()),
            Entry::Vacant(new) => {
                let (told, place) = new.key();
                let split: Rc<[Part]> = split(told, place).into();
                Rc::clone(new.insert(split))
            }
        }
    }

    /// What a field that held `before` holds after the value that each class finds in a container was written into it.
    pub(super) fn mapped(
        &self,
        told: Told,
        container: usize,
        before: &Scratch,
        map: impl FnOnce() -> Option<Scratch>,
    ) -> Option<Scratch> {
        let mut mapped = self.mapped.borrow_mut();
        let known = mapped.entry((told, container, before.clone()));
        known.or_insert_with(map).clone()
    }

    /// The packets of a cell that have a class of one part of a list.
    pub(super) fn keep(&self, cell: &Cell, axis: Axis, part: &Part) -> Cell {
        let mut kept = cell.clone();
        if part.positions.len() == kept.list(axis).len() {
            return kept;
        }
        for scratch in &mut kept.scratch {
            *scratch = match (axis, &*scratch) {
                (Axis::Source, Scratch::BySource(values))
                | (Axis::Destination, Scratch::ByDestination(values)) => {
                    self.picked(axis, values, &part.positions)
                }
                _ => continue,
            };
        }
        kept.set_list(axis, part.classes.clone());
        kept
    }

    fn picked(&self, axis: Axis, values: &List, positions: &List) -> Scratch {
        let mut picked = self.picked.borrow_mut();
        let known = picked.entry((axis, values.clone(), positions.clone()));
        let known = known.or_insert_with(|| Scratch::of(axis, pick(values, positions)));
        known.clone()
    }
}
