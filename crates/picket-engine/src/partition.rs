//! Members partitioned into classes by the exact list of terms that match them.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;
use picket_net::IntervalSet;
use rustc_hash::FxBuildHasher;

use crate::multimap::{insert_sorted, remove_sorted};
use crate::slab::{ClassId, Key, Slab};

/// Members with the same terms.
#[derive(Clone, Debug)]
pub(crate) struct Class<M, T> {
    /// Sorted.
    terms: Vec<T>,
    /// In no order that matters, but in one that only the sequence of changes decides.
    members: Vec<M>,
}

impl<M, T: Ord> Class<M, T> {
    pub(crate) fn terms(&self) -> &[T] {
        &self.terms
    }

    pub(crate) fn members(&self) -> &[M] {
        &self.members
    }

    pub(crate) fn contains(&self, term: &T) -> bool {
        self.terms.binary_search(term).is_ok()
    }
}

/// A partition that terms refine. Two members share a class exactly when their terms are equal.
#[derive(Clone, Debug)]
pub(crate) struct Partition<M, T> {
    classes: Slab<ClassId, Class<M, T>>,
    /// By terms; equality is checked, hashes are not trusted.
    by_terms: HashTable<u32>,
    /// For each member its class and its position there.
    places: Vec<Option<(ClassId, usize)>>,
    /// For each term the classes that have it.
    with_term: Vec<IntervalSet<u32>>,
    /// Classes that lost their last member and wait for [`Partition::sweep`].
    emptied: Vec<ClassId>,
}

impl<M, T> Default for Partition<M, T> {
    fn default() -> Self {
        Self {
            classes: Slab::default(),
            by_terms: HashTable::new(),
            places: Vec::new(),
            with_term: Vec::new(),
            emptied: Vec::new(),
        }
    }
}

impl<M: Key, T: Key> Partition<M, T> {
    pub(crate) fn class_of(&self, member: M) -> Option<ClassId> {
        self.places
            .get(member.index() as usize)
            .copied()
            .flatten()
            .map(|(class, _)| class)
    }

    pub(crate) fn class(&self, class: ClassId) -> &Class<M, T> {
        &self.classes[class]
    }

    /// The classes that have `term`, ascending.
    pub(crate) fn with_term(&self, term: T) -> impl Iterator<Item = ClassId> + '_ {
        let classes = self.with_term.get(term.index() as usize);
        classes.into_iter().flat_map(IntervalSet::iter).map(ClassId)
    }

    /// Puts `member`, present or not, into the class of `terms` (sorted, unique).
    pub(crate) fn place(&mut self, member: M, terms: &[T]) -> ClassId {
        let class = self.class_with(terms);
        let before = self.class_of(member);
        if before != Some(class) {
            self.remove(member);
            self.attach(member, class);
        }
        class
    }

    /// Takes a member out. A class without members keeps its terms until [`Partition::sweep`].
    pub(crate) fn remove(&mut self, member: M) {
        let place = self.places.get_mut(member.index() as usize);
        let Some((class, at)) = place.and_then(Option::take) else {
            return;
        };
        let members = &mut self.classes[class].members;
        members.swap_remove(at);
        if members.is_empty() {
            self.emptied.push(class);
        }
        if let Some(filler) = members.get(at) {
            let filler = filler.index() as usize;
            if let Some(slot) = self.places.get_mut(filler) {
                *slot = Some((class, at));
            }
        }
    }

    /// Forgets the classes that have no members any more.
    pub(crate) fn sweep(&mut self) {
        // The last first: taking many out of a sorted set is then fast.
        for class in std::mem::take(&mut self.emptied).into_iter().rev() {
            if self
                .classes
                .get(class)
                .is_some_and(|class| class.members.is_empty())
            {
                self.unlist(class);
                self.classes.remove(class);
            }
        }
    }

    /// Gives `members` a term that nobody has yet, and returns those whose class changed. A class that is covered
    /// whole keeps its id.
    pub(crate) fn refine(&mut self, term: T, members: impl IntoIterator<Item = M>) -> Vec<M> {
        let mut covered: Vec<_> = members
            .into_iter()
            .filter_map(|member| Some((self.class_of(member)?, member)))
            .collect();
        covered.sort_unstable();
        let (mut whole, mut moved) = (Vec::new(), Vec::new());
        for members in covered.chunk_by(|(one, _), (other, _)| one == other) {
            let Some(&(class, _)) = members.first() else {
                continue;
            };
            if members.len() == self.classes[class].members.len() {
                self.reterm(class, |terms| insert_sorted(terms, term));
                whole.push(class.index());
                continue;
            }
            let mut terms = self.classes[class].terms.clone();
            insert_sorted(&mut terms, term);
            // INVARIANT: nobody has the term yet, so the class is new.
            let split = self.class_with(&terms);
            for &(_, member) in members {
                self.remove(member);
                self.attach(member, split);
                moved.push(member);
            }
        }
        let classes = self.with_term_mut(term);
        *classes = classes.union(&whole.into_iter().collect());
        moved
    }

    /// Takes a term from all members that have it, and returns those whose class changed. A class that becomes equal
    /// to no other keeps its id.
    pub(crate) fn retire(&mut self, term: T) -> Vec<M> {
        let classes: Vec<_> = self.with_term(term).collect();
        let (mut emptied, mut moved) = (Vec::new(), Vec::new());
        let mut others = Vec::new();
        for class in classes {
            if !self.classes[class].members.is_empty() {
                others.clone_from(&self.classes[class].terms);
                remove_sorted(&mut others, term);
                let Some(equal) = self.find(&others) else {
                    self.reterm(class, |terms| remove_sorted(terms, term));
                    continue;
                };
                for member in self.classes[class].members.clone() {
                    self.remove(member);
                    self.attach(member, equal);
                    moved.push(member);
                }
            }
            emptied.push(class.index());
        }
        *self.with_term_mut(term) = emptied.into_iter().collect();
        moved
    }

    fn find(&self, terms: &[T]) -> Option<ClassId> {
        let found = self.by_terms.find(hash(terms), |&index| {
            *self.classes[ClassId(index)].terms == *terms
        });
        found.map(|&index| ClassId(index))
    }

    fn class_with(&mut self, terms: &[T]) -> ClassId {
        self.find(terms).unwrap_or_else(|| {
            let class = self.classes.insert(Class {
                terms: terms.into(),
                members: Vec::new(),
            });
            self.list(class);
            class
        })
    }

    /// Enters a class under its terms.
    fn list(&mut self, class: ClassId) {
        self.list_terms(class);
        for term in self.classes[class].terms.clone() {
            self.with_term_mut(term).insert(class.index());
        }
    }

    fn unlist(&mut self, class: ClassId) {
        self.unlist_terms(class);
        for term in self.classes[class].terms.clone() {
            self.with_term_mut(term).remove(class.index());
        }
    }

    /// Gives a class other terms; which classes have the one that differs is the caller's to say.
    fn reterm(&mut self, class: ClassId, change: impl FnOnce(&mut Vec<T>)) {
        self.unlist_terms(class);
        change(&mut self.classes[class].terms);
        self.list_terms(class);
    }

    fn list_terms(&mut self, class: ClassId) {
        let classes = &self.classes;
        let hasher = |&index: &u32| hash(&classes[ClassId(index)].terms);
        self.by_terms
            .insert_unique(hasher(&class.index()), class.index(), hasher);
    }

    fn unlist_terms(&mut self, class: ClassId) {
        let hash = hash(&self.classes[class].terms);
        if let Ok(entry) = self.by_terms.find_entry(hash, |&index| index == class.index()) {
            entry.remove();
        }
    }

    fn with_term_mut(&mut self, term: T) -> &mut IntervalSet<u32> {
        let at = term.index() as usize;
        if self.with_term.len() <= at {
            self.with_term.resize_with(at + 1, IntervalSet::empty);
        }
        &mut self.with_term[at]
    }

    fn attach(&mut self, member: M, class: ClassId) {
        let members = &mut self.classes[class].members;
        members.push(member);
        let place = Some((class, members.len() - 1));
        let at = member.index() as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        if let Some(slot) = self.places.get_mut(at) {
            *slot = place;
        }
    }
}

fn hash<T: Hash>(terms: &[T]) -> u64 {
    FxBuildHasher.hash_one(terms)
}
