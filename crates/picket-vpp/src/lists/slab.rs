//! What is looked up by name once, and by number from then on.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// The number of a name, which another has only when this one is gone.
pub(crate) type Number = u32;

/// Values by name and by number.
#[derive(Debug)]
pub(crate) struct Slab<K, V> {
    numbers: FxHashMap<K, Number>,
    known: Vec<Option<(K, V)>>,
    /// Numbers that no name has any more.
    free: Vec<Number>,
}

impl<K, V> Default for Slab<K, V> {
    fn default() -> Self {
        Self {
            numbers: FxHashMap::default(),
            known: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<K: Eq + Hash + Clone, V> Slab<K, V> {
    /// The number of a name that is known.
    pub(crate) fn number(&self, name: &K) -> Option<Number> {
        self.numbers.get(name).copied()
    }

    /// Learns of a name that is not known; its number.
    pub(crate) fn insert(&mut self, name: K, value: V) -> Number {
        let number = self.free.pop().unwrap_or_else(|| {
            self.known.push(None);
            // INVARIANT: there are more numbers than there is memory for names.
            Number::try_from(self.known.len() - 1).unwrap_or(Number::MAX)
        });
        self.numbers.insert(name.clone(), number);
        if let Some(known) = self.known.get_mut(number as usize) {
            *known = Some((name, value));
        }
        number
    }

    /// Forgets a number; its name.
    pub(crate) fn remove(&mut self, number: Number) -> Option<K> {
        let (name, _) = self.known.get_mut(number as usize)?.take()?;
        self.numbers.remove(&name);
        self.free.push(number);
        Some(name)
    }

    /// The name with a number.
    pub(crate) fn key(&self, number: Number) -> Option<&K> {
        let known = self.known.get(number as usize)?.as_ref();
        known.map(|(name, _)| name)
    }

    /// What is known by a number.
    pub(crate) fn get(&self, number: Number) -> Option<&V> {
        let known = self.known.get(number as usize)?.as_ref();
        known.map(|(_, value)| value)
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, number: Number) -> Option<&mut V> {
        let known = self.known.get_mut(number as usize)?.as_mut();
        known.map(|(_, value)| value)
    }

    /// All numbers.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = Number> {
        let known = self.known.iter().zip(0..);
        known.filter_map(|(known, number)| known.as_ref().map(|_| number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_one_name_at_a_time() {
        let mut slab = Slab::default();
        let [one, other] = ["one", "other"].map(|name| slab.insert(name, name.len()));
        assert_eq!(
            (slab.number(&"one"), slab.key(other)),
            (Some(one), Some(&"other"))
        );
        assert_eq!(slab.remove(one), Some("one"));
        assert_eq!(
            (slab.number(&"one"), slab.key(one), slab.get(one)),
            (None, None, None)
        );
        assert_eq!(
            (slab.remove(one), slab.numbers().collect::<Vec<_>>()),
            (None, vec![other])
        );
        let third = slab.insert("third", 3);
        assert_ne!(third, other);
        assert_eq!((slab.get(third), slab.get(other)), (Some(&3), Some(&5)));
    }
}
