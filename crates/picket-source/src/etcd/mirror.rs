//! What etcd should hold: what the API server says.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::key::Key;
use super::progress::Reach;
use super::record::Record;
use crate::kube::kind::Kind;
use crate::kube::listener::Listener;
use crate::live::{Name, Step};

/// What etcd should hold. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Mirror {
    state: Arc<Mutex<State>>,
    bell: Arc<Notify>,
}

/// Records by their keys.
pub(super) type Records = BTreeMap<Key, Arc<[u8]>>;

#[derive(Default)]
struct State {
    records: Records,
    /// The keys that changed since they were last taken.
    changed: BTreeSet<Key>,
    kinds: BTreeMap<&'static str, OfKind>,
    /// Whether everything was known once.
    is_complete: bool,
}

/// How far the objects of a kind are known.
#[derive(Default)]
struct OfKind {
    resource: String,
    reach: Reach,
    /// What the list that is coming in has named.
    named: BTreeSet<Name>,
    /// Whether the next version is that of a change.
    is_changing: bool,
}

/// What changed.
#[derive(Default)]
pub(super) struct Batch {
    /// The records, and the keys of which there is none any more.
    pub(super) changes: Vec<(Key, Option<Arc<[u8]>>)>,
    /// How far that is.
    pub(super) kinds: BTreeMap<String, Reach>,
}

impl Mirror {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changes, or has.
    pub(super) async fn changed(&self) {
        self.bell.notified().await;
    }

    /// Waits until everything is known.
    pub(super) async fn complete(&self) {
        while !self.lock().is_complete {
            self.bell.notified().await;
        }
    }

    /// What changed since the last time.
    pub(super) fn take(&self) -> Batch {
        let mut state = self.lock();
        let changed = take(&mut state.changed).into_iter();
        let changes = changed.map(|key| {
            let record = state.records.get(&key).cloned();
            (key, record)
        });
        Batch {
            changes: changes.collect(),
            kinds: state.reach(),
        }
    }

    /// Everything, and how far it is; nothing of it counts as changed any more.
    pub(super) fn all(&self) -> (Records, BTreeMap<String, Reach>) {
        let mut state = self.lock();
        state.changed.clear();
        (state.records.clone(), state.reach())
    }

    /// How far it is.
    pub(super) fn reach(&self) -> BTreeMap<String, Reach> {
        self.lock().reach()
    }

    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.lock().records.len()
    }
}

impl State {
    fn reach(&self) -> BTreeMap<String, Reach> {
        let kinds = self.kinds.values();
        kinds
            .map(|kind| (kind.resource.clone(), kind.reach.clone()))
            .collect()
    }

    fn put(&mut self, kind: &'static Kind, record: Record) {
        let of_kind = self.kinds.entry(kind.name).or_default();
        of_kind.named.insert(record.name.clone());
        of_kind.reach.changed = of_kind.reach.changed.max(record.changed);
        let Some(key) = Key::new(kind.name, record.name) else {
            return;
        };
        let is_known = |known: &Arc<[u8]>| **known == *record.bytes;
        if !self.records.get(&key).is_some_and(is_known) {
            self.records.insert(key.clone(), record.bytes.into());
            self.changed.insert(key);
        }
    }

    fn remove(&mut self, key: &Key) {
        if self.records.remove(key).is_some() {
            self.changed.insert(key.clone());
        }
    }

    /// Removes the objects of a kind that a complete list has not named.
    fn sweep(&mut self, kind: &'static Kind) {
        let of_kind = self.kinds.entry(kind.name).or_default();
        let named = take(&mut of_kind.named);
        let Some(first) = Key::first(kind.name) else {
            return;
        };
        let of_kind = self.records.range(first..).map(|(key, _)| key);
        let of_kind = of_kind.take_while(|key| key.kind().name == kind.name);
        let gone: Vec<_> = of_kind
            .filter(|key| !named.contains(&key.name))
            .cloned()
            .collect();
        for key in &gone {
            self.remove(key);
        }
    }
}

impl Listener for Mirror {
    type Object = Record;

    fn begin(&mut self) {}

    fn step(&mut self, kind: &'static Kind, step: Step<Record>) {
        let mut state = self.lock();
        let of_kind = state.kinds.entry(kind.name).or_default();
        if of_kind.resource.is_empty() {
            of_kind.resource = kind.full_name();
        }
        match step {
            Step::Begin => of_kind.named.clear(),
            Step::Listed(record) => state.put(kind, record),
            Step::End => state.sweep(kind),
            Step::Apply(record) => {
                of_kind.is_changing = true;
                state.put(kind, record);
            }
            Step::Delete(name) => {
                of_kind.is_changing = true;
                if let Some(key) = Key::new(kind.name, name) {
                    state.remove(&key);
                }
            }
            Step::Gone => {
                of_kind.named.clear();
                state.sweep(kind);
                state.kinds.remove(kind.name);
            }
        }
        drop(state);
        self.bell.notify_one();
    }

    fn reached(&mut self, kind: &'static Kind, version: String) {
        let mut state = self.lock();
        let of_kind = state.kinds.entry(kind.name).or_default();
        if take(&mut of_kind.is_changing)
            && let Ok(changed) = version.parse()
        {
            of_kind.reach.changed = changed;
        }
        of_kind.reach.resource_version = version;
        drop(state);
        self.bell.notify_one();
    }

    fn complete(&mut self) {
        self.lock().is_complete = true;
        self.bell.notify_one();
    }
}
