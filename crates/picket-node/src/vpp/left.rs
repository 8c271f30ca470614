//! What an agent before may have left open, while nobody knows yet what is wanted.

use std::collections::BTreeSet;

/// What VPP has for pods and is open as an agent before may have left it: that of pods that nothing restricts. What comes later is not
/// among it, and nothing is where no agent has put a policy into VPP since this was begun.
#[derive(Debug)]
pub(crate) struct Left<K> {
    /// Nothing was noted yet where this is `None`.
    open: Option<BTreeSet<K>>,
}

impl<K> Default for Left<K> {
    fn default() -> Self {
        Self { open: None }
    }
}

impl<K: Ord> Left<K> {
    /// Notes what is open now, if VPP has policies of an agent. What is not there any more is forgotten.
    pub(crate) fn note(
        &mut self,
        has_policies: bool,
        open: impl Iterator<Item = K>,
        is_there: impl Fn(&K) -> bool,
    ) {
        match &mut self.open {
            Some(left) if has_policies => left.retain(|one| is_there(one)),
            None if has_policies => self.open = Some(open.collect()),
            _ => self.open = Some(BTreeSet::new()),
        }
    }

    /// Whether an agent may have left it so.
    pub(crate) fn has(&self, one: &K) -> bool {
        self.open.as_ref().is_some_and(|left| left.contains(one))
    }
}
