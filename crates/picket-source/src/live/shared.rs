//! Values that many objects have alike, kept once.

use std::collections::BTreeMap;

/// Values whose clones share their memory, each with how many objects have it.
pub(super) struct Shared<T>(BTreeMap<T, usize>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone + Ord> Shared<T> {
    /// The value as others have it, for one object more.
    pub(super) fn take(&mut self, value: T) -> T {
        let shared = self.0.get_key_value(&value).map(|(shared, _)| shared.clone());
        let shared = shared.unwrap_or(value);
        *self.0.entry(shared.clone()).or_default() += 1;
        shared
    }

    /// One object less has the value.
    pub(super) fn give_back(&mut self, value: &T) {
        if let Some(count) = self.0.get_mut(value) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(value);
            }
        }
    }
}
