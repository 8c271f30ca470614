//! What is told of what is wanted: all of it once, and from then on what has changed.

use std::fmt::Debug;
use std::sync::Arc;

use picket_vpp::{acl, session};

/// What is wanted of a target.
pub(crate) trait Whole: Clone + Debug {
    /// What has changed of it.
    type Change: Clone + Debug + Default;

    /// Takes in what has changed.
    fn follow(&mut self, change: &Self::Change);

    /// What has changed, and then something else.
    fn join(change: &mut Self::Change, later: &Self::Change);
}

/// What is told of it.
#[derive(Clone, Debug)]
pub(crate) enum Told<W: Whole> {
    /// All of it.
    Whole(Arc<W>),
    /// What has changed since the last time.
    Changed(Arc<W::Change>),
}

impl<W: Whole> Default for Told<W> {
    fn default() -> Self {
        Self::Changed(Arc::default())
    }
}

impl<W: Whole> Told<W> {
    /// This, and what was told after it.
    pub(super) fn then(&self, later: &Self) -> Self {
        let Self::Changed(later) = later else {
            return later.clone();
        };
        match self {
            Self::Whole(whole) => {
                let mut whole = Arc::clone(whole);
                Arc::make_mut(&mut whole).follow(later);
                Self::Whole(whole)
            }
            Self::Changed(change) => {
                let mut change = Arc::clone(change);
                W::join(Arc::make_mut(&mut change), later);
                Self::Changed(change)
            }
        }
    }
}

impl Whole for acl::Acls {
    type Change = acl::Change;

    fn follow(&mut self, change: &acl::Change) {
        self.advance(change);
    }

    fn join(change: &mut acl::Change, later: &acl::Change) {
        change.then(later);
    }
}

impl Whole for session::Tables {
    type Change = session::Change;

    fn follow(&mut self, change: &session::Change) {
        self.advance(change);
    }

    fn join(change: &mut session::Change, later: &session::Change) {
        change.then(later);
    }
}
