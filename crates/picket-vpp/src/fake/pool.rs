//! Things by index, as VPP keeps them.

/// A `pool_t`: an index that was freed is given out again, the one freed last first.
///
/// That order is what `pool_get` of vppinfra does, which takes the last of its free indices.
#[derive(Clone, Debug)]
pub(super) struct Pool<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Pool<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop()
            && let Some(slot) = self.slot(index)
        {
            *slot = Some(value);
            return index;
        }
        self.slots.push(Some(value));
        // INVARIANT: nobody adds four billion things to a fake.
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let removed = self.slot(index)?.take()?;
        self.free.push(index);
        Some(removed)
    }

    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(usize::try_from(index).ok()?)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slot(index)?.as_mut()
    }

    fn slot(&mut self, index: u32) -> Option<&mut Option<T>> {
        self.slots.get_mut(usize::try_from(index).ok()?)
    }

    /// In the order of indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = (0..).zip(&self.slots);
        slots.filter_map(|(index, slot)| Some((index, slot.as_ref()?)))
    }

    /// In the order of indices.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let slots = (0..).zip(&mut self.slots);
        slots.filter_map(|(index, slot)| Some((index, slot.as_mut()?)))
    }
}
