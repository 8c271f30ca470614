//! A pod's own list with what other pods of its node make of it.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use crate::peers::Peers;
use crate::value::Value;
use crate::work::looked_at;

/// What a pod may exchange with whom.
#[derive(Debug)]
pub(super) struct Table {
    own: Arc<Peers>,
    /// What is otherwise with other pods of the node, by address.
    entries: Vec<(IpAddr, Value)>,
    peers: Arc<Peers>,
}

impl Table {
    /// What the pod's own list says.
    pub(super) fn of(own: Arc<Peers>) -> Self {
        Self {
            entries: Vec::new(),
            peers: Arc::clone(&own),
            own,
        }
    }

    fn with(own: &Arc<Peers>, entries: Vec<(IpAddr, Value)>) -> Self {
        if entries.is_empty() {
            return Self::of(Arc::clone(own));
        }
        Self {
            own: Arc::clone(own),
            peers: Arc::new(own.with_hosts(entries.iter().copied())),
            entries,
        }
    }

    /// The pod's own list.
    pub(super) fn own(&self) -> &Arc<Peers> {
        &self.own
    }

    /// What holds.
    pub(super) fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    /// What is otherwise with an address.
    pub(super) fn entry(&self, address: IpAddr) -> Option<Value> {
        let at = self.entries.binary_search_by_key(&address, |(known, _)| *known);
        at.ok()
            .and_then(|at| self.entries.get(at))
            .map(|(_, value)| *value)
    }

    fn corrected(&self, corrections: &[(IpAddr, Option<Value>)]) -> Vec<(IpAddr, Value)> {
        looked_at(self.entries.len() + corrections.len());
        let mut entries = self.entries.clone();
        for &(address, value) in corrections {
            let at = entries.binary_search_by_key(&address, |(known, _)| *known);
            match (at, value) {
                (Ok(at), Some(value)) => drop(entries.get_mut(at).map(|entry| entry.1 = value)),
                (Ok(at), None) => drop(entries.remove(at)),
                (Err(at), Some(value)) => entries.insert(at, (address, value)),
                (Err(_), None) => {}
            }
        }
        entries
    }
}

/// The tables of pods: those of pods that are alike are one.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// By the place of the pods' own list in memory, where nothing else gets while the table is there.
    known: FxHashMap<Content, Weak<Table>>,
    /// How many are known before those that are gone are forgotten.
    most: usize,
}

/// What became of tables so far.
#[derive(Debug, Default)]
pub(super) struct Corrections(FxHashMap<Corrected, (Arc<Table>, Arc<Table>)>);

/// The place in memory of a pod's own list, and the entries.
type Content = (usize, Vec<(IpAddr, Value)>);

/// The places in memory of a table and of the own list that it has now, and what is otherwise.
type Corrected = ([usize; 2], Vec<(IpAddr, Option<Value>)>);

impl Tables {
    /// The table of a pod with the own list of `table` and these entries, sorted by address.
    pub(super) fn with(&mut self, own: &Arc<Peers>, entries: Vec<(IpAddr, Value)>) -> Arc<Table> {
        let key = (Arc::as_ptr(own).addr(), entries);
        if let Some(known) = self.known.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        let made = Arc::new(Table::with(own, key.1.clone()));
        self.known.insert(key, Arc::downgrade(&made));
        if self.known.len() > self.most {
            self.known.retain(|_, table| table.strong_count() > 0);
            self.most = 2 * self.known.len() + FEWEST;
        }
        made
    }

    /// A table where the own list is this, with other entries, or with `None` without some.
    pub(super) fn corrected(
        &mut self,
        table: &Arc<Table>,
        own: &Arc<Peers>,
        corrections: Vec<(IpAddr, Option<Value>)>,
        done: &mut Corrections,
    ) -> Arc<Table> {
        let key = ([Arc::as_ptr(table).addr(), Arc::as_ptr(own).addr()], corrections);
        if let Some((_, known)) = done.0.get(&key) {
            return Arc::clone(known);
        }
        let made = self.with(own, table.corrected(&key.1));
        done.0.insert(key, (Arc::clone(table), Arc::clone(&made)));
        made
    }
}

/// Fewer tables are not worth looking through.
const FEWEST: usize = 256;
