//! Sets of classes, and how they fall apart. How all classes fall apart is worked out once; a cell takes its own of each
//! part.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

use picket_net::{BitSet, Family};
use rustc_hash::{FxHashMap, FxHasher};

use super::cell::{Axis, Scratch};
use super::values::Values;

/// Classes of one axis, by number.
#[derive(Clone, Debug)]
pub(super) struct List {
    classes: Rc<BitSet>,
    hash: u64,
}

impl From<BitSet> for List {
    fn from(classes: BitSet) -> Self {
        let mut hasher = FxHasher::default();
        classes.hash(&mut hasher);
        Self {
            classes: Rc::new(classes),
            hash: hasher.finish(),
        }
    }
}

impl Deref for List {
    type Target = BitSet;

    fn deref(&self) -> &BitSet {
        &self.classes
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        let same = Rc::ptr_eq(&self.classes, &other.classes);
        same || (self.hash == other.hash && self.classes == other.classes)
    }
}

impl Eq for List {}

impl Hash for List {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// What tells classes apart: themselves, or what a writable field holds for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum By {
    Address(Family),
    Interface,
    Value(Values),
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

/// The classes that find the same.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) left: Left,
    pub(super) classes: BitSet,
}

/// The parts into which classes fall.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: BTreeMap<Left, BitSet>,
}

impl Parts {
    pub(super) fn add(&mut self, left: Left, classes: &BitSet) {
        if !classes.is_empty() {
            self.parts.entry(left).or_default().extend(classes);
        }
    }

    fn sorted(self) -> Sorted {
        let parts = self.parts.into_iter();
        let parts: Vec<_> = parts.map(|(left, classes)| Part { left, classes }).collect();
        let mut of = Vec::new();
        let many = parts.iter().filter(|_| parts.len() > FEW);
        for (number, part) in (0..).zip(many) {
            let count = part.classes.last().map_or(0, |last| last as usize + 1);
            of.resize(of.len().max(count), 0);
            for class in part.classes.iter() {
                if let Some(of) = of.get_mut(class as usize) {
                    *of = number;
                }
            }
        }
        Sorted { parts, of }
    }
}

/// It takes less to try that many parts than to find out which a class is in.
const FEW: usize = 4;

/// The parts into which classes fall, in an order of their own.
#[derive(Debug)]
pub(super) struct Sorted {
    parts: Vec<Part>,
    /// For each class the number of the part, where there are more than a [`FEW`] parts.
    of: Vec<u32>,
}

impl Sorted {
    pub(super) fn all(&self) -> &[Part] {
        &self.parts
    }

    /// The parts that may have some of these classes.
    pub(super) fn of(&self, classes: &BitSet) -> Vec<&Part> {
        if self.parts.len() <= FEW || classes.len() >= self.parts.len() {
            return self.parts.iter().collect();
        }
        let mut numbers: Vec<u32> = classes
            .iter()
            .filter_map(|class| self.of.get(class as usize).copied())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
            .into_iter()
            .filter_map(|number| self.parts.get(number as usize))
            .collect()
    }
}

type Known<K, V> = RefCell<FxHashMap<K, V>>;

/// What was worked out of all classes before.
#[derive(Debug, Default)]
pub(super) struct Memory {
    parts: Known<(By, Place), Rc<Sorted>>,
    mapped: Known<(By, Axis, usize, Scratch), Values>,
}

impl Memory {
    /// The parts into which the classes fall at one field of a lookup.
    pub(super) fn parts(&self, by: By, place: Place, split: impl FnOnce(&By, &Place) -> Parts) -> Rc<Sorted> {
        let key = (by, place);
        if let Some(known) = self.parts.borrow().get(&key) {
            return Rc::clone(known);
        }
        // It may ask for the parts of what a field held before.
        let parts = Rc::new(split(&key.0, &key.1).sorted());
        self.parts.borrow_mut().insert(key, Rc::clone(&parts));
        parts
    }

    /// What a field that held `before` holds after the value that each class finds in a container was written into it.
    /// `write` makes it, of a number that no other has.
    pub(super) fn mapped(
        &self,
        (by, axis): (By, Axis),
        container: usize,
        before: &Scratch,
        write: impl FnOnce(usize) -> Values,
    ) -> Values {
        let mut mapped = self.mapped.borrow_mut();
        let number = mapped.len();
        let known = mapped.entry((by, axis, container, before.clone()));
        known.or_insert_with(|| write(number)).clone()
    }
}
