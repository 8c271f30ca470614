//! What may have changed in a cluster since somebody last looked.

use std::collections::BTreeSet;

use picket_cluster::{Event, Object};
use picket_policy::ObjectRef;

/// What may have changed.
#[derive(Debug)]
pub(super) enum Touched {
    Anything,
    These(BTreeSet<ObjectRef>),
}

impl Default for Touched {
    /// Nothing.
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl Touched {
    /// An event comes.
    pub(super) fn note(&mut self, event: &Event) {
        let object = match event {
            // What the list did not name is gone.
            Event::InitDone => {
                *self = Self::Anything;
                return;
            }
            // On which wires networks are is asked anew each time.
            Event::Init | Event::Apply(Object::Network(_)) => return,
            Event::Apply(object) => object.object_ref(),
            Event::Delete(object) => object.clone(),
        };
        if let Self::These(objects) = self {
            objects.insert(object);
        }
    }
}
