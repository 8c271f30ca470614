//! How watching goes, for those who operate it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

#[cfg(feature = "etcd")]
use crate::etcd::Freshness;

/// How watching goes, kind by kind. Clones show the same.
#[derive(Clone, Debug, Default)]
pub struct Health {
    kinds: Arc<Mutex<BTreeMap<String, KindHealth>>>,
    teller: Option<Teller>,
    #[cfg(feature = "etcd")]
    freshness: Arc<Mutex<Option<Freshness>>>,
}

/// Who is told of the trouble with a kind.
type Tell = dyn Fn(&str, Option<&str>) + Send + Sync;

#[derive(Clone)]
struct Teller(Arc<Tell>);

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

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
    /// The same, which calls `tell` with a kind and its [`KindHealth::trouble`] each time that this becomes another.
    #[must_use]
    pub fn telling(self, tell: impl Fn(&str, Option<&str>) + Send + Sync + 'static) -> Self {
        Self {
            teller: Some(Teller(Arc::new(tell))),
            ..self
        }
    }

    /// How each kind goes, by its resource, such as `networkpolicies.networking.k8s.io`; what is said of `/apis` is about
    /// asking which kinds there are.
    #[must_use]
    pub fn kinds(&self) -> BTreeMap<String, KindHealth> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How fresh is what is read of etcd; nothing where something else is followed.
    #[cfg(feature = "etcd")]
    #[must_use]
    pub fn freshness(&self) -> Option<Freshness> {
        self.freshness
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Notes how fresh it is.
    #[cfg(feature = "etcd")]
    pub(crate) fn freshen(&self, note: impl FnOnce(&mut Freshness)) {
        let mut freshness = self.freshness.lock().unwrap_or_else(PoisonError::into_inner);
        note(freshness.get_or_insert_default());
    }

    /// Notes something about a kind.
    pub(crate) fn note(&self, kind: &str, note: impl FnOnce(&mut KindHealth)) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let health = match kinds.get_mut(kind) {
            Some(health) => health,
            None => kinds.entry(kind.to_owned()).or_default(),
        };
        let before = health.trouble.clone();
        note(health);
        let now = health.trouble.clone();
        drop(kinds);
        if before != now {
            self.tell(kind, now.as_deref());
        }
    }

    fn tell(&self, kind: &str, trouble: Option<&str>) {
        if let Some(Teller(tell)) = &self.teller {
            tell(kind, trouble);
        }
    }

    /// The kind is gone.
    pub(crate) fn forget(&self, kind: &str) {
        let gone = self
            .kinds
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(kind);
        if gone.is_some_and(|gone| gone.trouble.is_some()) {
            self.tell(kind, None);
        }
    }
}

impl KindHealth {
    /// The server answers.
    pub(crate) fn answered(&mut self) {
        self.trouble = None;
        self.heard = Some(SystemTime::now());
    }

    /// It does not.
    pub(crate) fn failed(&mut self, why: String) {
        self.failures += 1;
        self.trouble = Some(why);
    }
}
