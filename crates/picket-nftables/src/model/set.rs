//! Sets, maps and counters.

use std::collections::{BTreeMap, BTreeSet};

use super::{Comment, Datatype, Key, ModelError, Name, Value, Verdict};

/// A named counter of packets and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name.
    pub name: Name,
    /// What it counts.
    pub comment: Option<Comment>,
}

/// A named set. Its elements are of its type and disjoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    name: Name,
    key: Vec<Datatype>,
    interval: bool,
    comment: Option<Comment>,
    elements: BTreeSet<Key>,
}

impl Set {
    /// A set of keys of type `key` (several types: a concatenation). Only an `interval` set may hold intervals.
    pub fn new(
        name: Name,
        key: Vec<Datatype>,
        interval: bool,
        elements: impl IntoIterator<Item = Key>,
    ) -> Result<Self, ModelError> {
        let elements: BTreeSet<Key> = elements.into_iter().collect();
        check_key_type(&name, &key)?;
        check_keys(&name, &key, interval, elements.iter())?;
        check_overlap(&name, interval, elements.iter())?;
        Ok(Self {
            name,
            key,
            interval,
            comment: None,
            elements,
        })
    }

    /// The same set with a comment.
    #[must_use]
    pub fn commented(self, comment: Comment) -> Self {
        Self {
            comment: Some(comment),
            ..self
        }
    }

    /// Adds elements; whether none was there. After an error it is no set that the kernel would take.
    pub(crate) fn insert(&mut self, keys: &[Key]) -> Result<bool, ModelError> {
        check_keys(&self.name, &self.key, self.interval, keys.iter())?;
        let mut new = true;
        for key in keys {
            new &= self.elements.insert(key.clone());
        }
        check_overlap(&self.name, self.interval, self.elements.iter())?;
        Ok(new)
    }

    /// Removes elements; whether all were there.
    pub(crate) fn remove(&mut self, keys: &[Key]) -> bool {
        keys.iter().all(|key| self.elements.remove(key))
    }

    /// The same set with its first so many elements alone, and the others.
    pub(crate) fn split(mut self, first: usize) -> (Self, Vec<Key>) {
        let middle = self.elements.iter().nth(first).cloned();
        let rest = middle.map(|middle| self.elements.split_off(&middle));
        (self, rest.into_iter().flatten().collect())
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The type of its keys.
    pub fn key(&self) -> &[Datatype] {
        &self.key
    }

    /// Whether it may hold intervals.
    pub fn interval(&self) -> bool {
        self.interval
    }

    /// Its comment.
    pub fn comment(&self) -> Option<&Comment> {
        self.comment.as_ref()
    }

    /// Whether an element holds a key of single values.
    pub fn holds(&self, key: &Key) -> bool {
        if !self.interval {
            return self.elements.contains(key);
        }
        match key.above() {
            Some(above) => {
                let last = self.elements.range(..=above).next_back();
                last.is_some_and(|one| one.overlaps(key))
            }
            None => self.elements.iter().any(|one| one.overlaps(key)),
        }
    }

    /// Its elements, ascending.
    pub fn elements(&self) -> &BTreeSet<Key> {
        &self.elements
    }
}

/// What a map gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MapType {
    /// A verdict.
    Verdict,
    /// A mark.
    Mark,
    /// A queueing priority.
    Priority,
}

impl MapType {
    /// As nft writes it.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Mark => Datatype::Mark.keyword(),
            Self::Priority => Datatype::Priority.keyword(),
        }
    }
}

/// What one element of a map gives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Datum {
    /// A verdict.
    Verdict(Verdict),
    /// A mark.
    Mark(u32),
    /// A queueing priority.
    Priority(u32),
}

impl Datum {
    /// Its type.
    pub fn map_type(&self) -> MapType {
        match self {
            Self::Verdict(_) => MapType::Verdict,
            Self::Mark(_) => MapType::Mark,
            Self::Priority(_) => MapType::Priority,
        }
    }
}

/// A named map or verdict map. Its keys are of its type and disjoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    name: Name,
    key: Vec<Datatype>,
    gives: MapType,
    interval: bool,
    comment: Option<Comment>,
    elements: BTreeMap<Key, Datum>,
}

impl Map {
    /// A map from keys of type `key` (several types: a concatenation) to `gives`. Only an `interval` map may have
    /// intervals as keys. Two elements with one key are an error.
    pub fn new(
        name: Name,
        key: Vec<Datatype>,
        gives: MapType,
        interval: bool,
        elements: impl IntoIterator<Item = (Key, Datum)>,
    ) -> Result<Self, ModelError> {
        check_key_type(&name, &key)?;
        let mut count = 0;
        let elements = elements.into_iter().inspect(|_| count += 1);
        let elements: BTreeMap<_, _> = elements.collect();
        if elements.len() < count {
            return Err(ModelError::Overlap { set: name });
        }
        check_data(&name, gives, elements.values())?;
        check_keys(&name, &key, interval, elements.keys())?;
        check_overlap(&name, interval, elements.keys())?;
        Ok(Self {
            name,
            key,
            gives,
            interval,
            comment: None,
            elements,
        })
    }

    /// Adds elements; whether none of the keys was there. After an error or `false` it is no map that the kernel would take.
    pub(crate) fn insert(
        &mut self,
        elements: impl IntoIterator<Item = (Key, Datum)>,
    ) -> Result<bool, ModelError> {
        let mut new = true;
        for (key, datum) in elements {
            check_data(&self.name, self.gives, std::iter::once(&datum))?;
            check_keys(&self.name, &self.key, self.interval, std::iter::once(&key))?;
            new &= self.elements.insert(key, datum).is_none();
        }
        check_overlap(&self.name, self.interval, self.elements.keys())?;
        Ok(new)
    }

    /// Removes elements; whether all were there.
    pub(crate) fn remove(&mut self, keys: &[Key]) -> bool {
        keys.iter().all(|key| self.elements.remove(key).is_some())
    }

    /// The same map with its first so many elements alone, and the others.
    pub(crate) fn split(mut self, first: usize) -> (Self, Vec<(Key, Datum)>) {
        let middle = self.elements.keys().nth(first).cloned();
        let rest = middle.map(|middle| self.elements.split_off(&middle));
        (self, rest.into_iter().flatten().collect())
    }

    /// The same map with another name, and elements more, whose keys no other has.
    pub(crate) fn renamed(&self, name: Name, more: impl IntoIterator<Item = (Key, Datum)>) -> Self {
        let mut other = Self { name, ..self.clone() };
        other.elements.extend(more);
        other
    }

    /// The same map with a comment.
    #[must_use]
    pub fn commented(self, comment: Comment) -> Self {
        Self {
            comment: Some(comment),
            ..self
        }
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The type of its keys.
    pub fn key(&self) -> &[Datatype] {
        &self.key
    }

    /// What it gives.
    pub fn gives(&self) -> MapType {
        self.gives
    }

    /// Whether its keys may be intervals.
    pub fn interval(&self) -> bool {
        self.interval
    }

    /// Its comment.
    pub fn comment(&self) -> Option<&Comment> {
        self.comment.as_ref()
    }

    /// What is found for a key of single values: what the element gives that holds it.
    pub fn get(&self, key: &Key) -> Option<&Datum> {
        self.holding(key).map(|(_, datum)| datum)
    }

    /// The element that holds a key of single values.
    pub(crate) fn holding(&self, key: &Key) -> Option<(&Key, &Datum)> {
        if !self.interval {
            return self.elements.get_key_value(key);
        }
        match key.above() {
            Some(above) => {
                let last = self.elements.range(..=above).next_back();
                last.filter(|(one, _)| one.overlaps(key))
            }
            None => self.elements.iter().find(|(one, _)| one.overlaps(key)),
        }
    }

    /// Its elements, ascending by key.
    pub fn elements(&self) -> &BTreeMap<Key, Datum> {
        &self.elements
    }
}

/// The kernel's `NFT_DATA_VALUE_MAXLEN`.
const KEY_BYTES: usize = 64;

fn check_key_type(set: &Name, key: &[Datatype]) -> Result<(), ModelError> {
    let bytes: usize = key.iter().map(|field| field.register_bytes()).sum();
    if key.is_empty() || bytes > KEY_BYTES {
        return Err(ModelError::KeyType { set: set.clone() });
    }
    Ok(())
}

fn check_keys<'a>(
    set: &Name,
    key: &[Datatype],
    interval: bool,
    elements: impl Iterator<Item = &'a Key>,
) -> Result<(), ModelError> {
    for element in elements {
        let types = element.values().iter().map(Value::datatype);
        if !types.eq(key.iter().copied()) {
            return Err(ModelError::ElementType { set: set.clone() });
        }
        if !interval && !element.is_single() {
            return Err(ModelError::NotAnInterval { set: set.clone() });
        }
    }
    Ok(())
}

fn check_data<'a>(
    map: &Name,
    gives: MapType,
    mut data: impl Iterator<Item = &'a Datum>,
) -> Result<(), ModelError> {
    match data.all(|datum| datum.map_type() == gives) {
        true => Ok(()),
        false => Err(ModelError::DatumType { map: map.clone() }),
    }
}

fn check_overlap<'a>(
    set: &Name,
    interval: bool,
    sorted: impl Iterator<Item = &'a Key>,
) -> Result<(), ModelError> {
    if interval && overlap(sorted) {
        return Err(ModelError::Overlap { set: set.clone() });
    }
    Ok(())
}

/// Whether any two of `sorted` overlap: a sweep over the first field, with the keys that still reach into it.
fn overlap<'a>(sorted: impl Iterator<Item = &'a Key>) -> bool {
    let mut open: Vec<&Key> = Vec::new();
    for key in sorted {
        let start = first_end(key);
        open.retain(|earlier| {
            first_end(earlier)
                .zip(start)
                .is_some_and(|((_, last), (first, _))| first <= last)
        });
        if open.iter().any(|earlier| earlier.overlaps(key)) {
            return true;
        }
        open.push(key);
    }
    false
}

fn first_end(key: &Key) -> Option<(u128, u128)> {
    key.values().first().and_then(Value::ends)
}

#[cfg(test)]
mod tests {
    use picket_net::Interval;

    use super::*;

    fn name() -> Name {
        Name::new("s").expect("a name")
    }

    fn v4(first: u32, last: u32) -> Value {
        Value::Ipv4(Interval::new(first, last).expect("an interval"))
    }

    fn ports(first: u16, last: u16) -> Value {
        Value::Port(Interval::new(first, last).expect("an interval"))
    }

    #[test]
    fn elements_must_be_of_the_type_of_the_set() {
        let error = Set::new(
            name(),
            vec![Datatype::Ipv4Address],
            false,
            [Key::from(Value::port(1))],
        );
        assert_eq!(error, Err(ModelError::ElementType { set: name() }));
    }

    #[test]
    fn only_interval_sets_hold_intervals_and_only_disjoint_ones() {
        let both = vec![Datatype::Ipv4Address, Datatype::Port];
        let wide = Key::of([v4(1, 5), ports(1, 10)]);
        let error = Set::new(name(), both.clone(), false, [wide.clone()]);
        assert_eq!(error, Err(ModelError::NotAnInterval { set: name() }));
        for (other, disjoint) in [
            (Key::of([v4(5, 6), ports(11, 12)]), true),
            (Key::of([v4(6, 6), ports(1, 12)]), true),
            (Key::of([v4(0, 0), ports(1, 12)]), true),
            (Key::of([v4(0, 1), ports(10, 12)]), false),
            (Key::of([v4(3, 3), ports(5, 5)]), false),
        ] {
            let set = Set::new(name(), both.clone(), true, [wide.clone(), other.clone()]);
            assert_eq!(set.is_ok(), disjoint, "{other:?}");
        }
    }

    #[test]
    fn a_map_gives_one_type() {
        let key = || vec![Datatype::Mark];
        let element = |datum| [(Key::from(Value::mark(1)), datum)];
        assert!(Map::new(name(), key(), MapType::Mark, false, element(Datum::Mark(7))).is_ok());
        let wrong = Map::new(name(), key(), MapType::Mark, false, element(Datum::Priority(7)));
        assert_eq!(wrong, Err(ModelError::DatumType { map: name() }));
    }
}
