//! How watching goes, for those who operate it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// How watching goes, kind by kind. Clones show the same.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<BTreeMap<String, KindHealth>>>);

/// How watching one kind goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindHealth {
    /// Whether all its objects are known, or were when the server last answered.
    pub complete: bool,
    /// How many objects were said to be, to have changed or to be gone.
    pub objects: u64,
    /// How many complete lists there were.
    pub lists: u64,
    /// How often the server did not answer, or not as it should.
    pub failures: u64,
    /// Why the server says nothing about the kind at the moment, if it does not.
    pub trouble: Option<String>,
    /// When the server last said something.
    pub heard: Option<SystemTime>,
}

impl Health {
    /// How each kind goes, by its resource, such as `networkpolicies.networking.k8s.io`; what is said of `/apis` is about
    /// asking which kinds there are.
    #[must_use]
    pub fn kinds(&self) -> BTreeMap<String, KindHealth> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes something about a kind.
    pub(super) fn note(&self, kind: &str, note: impl FnOnce(&mut KindHealth)) {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !kinds.contains_key(kind) {
            kinds.insert(kind.to_owned(), KindHealth::default());
        }
        if let Some(health) = kinds.get_mut(kind) {
            note(health);
        }
    }

    /// The kind is gone.
    pub(super) fn forget(&self, kind: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(kind);
    }
}

impl KindHealth {
    /// The server answers.
    pub(super) fn answered(&mut self) {
        self.trouble = None;
        self.heard = Some(SystemTime::now());
    }

    /// It does not.
    pub(super) fn failed(&mut self, why: String) {
        self.failures += 1;
        self.trouble = Some(why);
    }
}
