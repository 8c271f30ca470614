//! Reading without an etcd: for tests and fuzzers of what keys and records can do.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Etcd;
use super::error::EtcdError;
use super::key::Keys;
use super::message::{Event, Header, KeyValue};
use super::read::{Reader, Stop};
use crate::kube::{Change, Health, Interest};

/// What [`Etcd::follow`] makes of keys that somebody says are in an etcd, below [`Etcd::PREFIX`].
pub struct Intake<S> {
    reader: Reader<S>,
    /// The revision up to which keys have been said.
    revision: i64,
}

impl<S: FnMut(Change)> Intake<S> {
    /// Nothing is known yet. `sink` gets every change, and `health` shows how it goes.
    ///
    /// # Errors
    /// None as long as keys can begin as they do.
    pub fn new(interest: Interest, health: Health, sink: S) -> Result<Self, EtcdError> {
        let etcd = Etcd::new(Vec::new(), Duration::ZERO);
        let keys = Keys::new(&etcd.prefix)?;
        let mut reader = Reader::new(&etcd, keys, interest, health, sink);
        reader.begin();
        Ok(Self { reader, revision: 0 })
    }

    /// Takes in all keys that there are, as a list of etcd says them.
    ///
    /// # Errors
    /// Why no reflector stands for what is there: nothing of it is told then, and all keys are to be listed again.
    pub fn list(&mut self, keys: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), String> {
        self.revision += 1;
        let revision = self.revision;
        let found = keys
            .iter()
            .map(|(key, value)| self.reader.terms.read(said(key, Some(value), revision)))
            .collect();
        let mut progress = None;
        self.reader.begin_list();
        self.reader.listed(found, &mut progress);
        let at = Header {
            cluster_id: 1,
            revision,
        };
        let listed = self.reader.end_list(at, progress);
        self.outcome(listed)
    }

    /// Takes in what one revision changes, as a watch says it: each key gets a value, or goes.
    ///
    /// # Errors
    /// Those of [`list`](Self::list).
    pub fn hear(&mut self, changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Result<(), String> {
        self.revision += 1;
        let revision = self.revision;
        let events = changes
            .iter()
            .map(|(key, value)| Event::new(said(key, value.as_ref(), revision), value.is_none()));
        let heard = self.reader.hear(events.collect());
        self.outcome(heard)
    }

    fn outcome(&mut self, outcome: Result<(), Stop>) -> Result<(), String> {
        outcome.map_err(|stop| {
            self.reader.known = None;
            match stop {
                Stop::Unreflected(why) => why,
                Stop::Failed(error) => error.to_string(),
                Stop::Forgotten => "what changed is forgotten".to_owned(),
            }
        })
    }
}

fn said(key: &[u8], value: Option<&Vec<u8>>, revision: i64) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        mod_revision: revision,
        value: value.cloned().unwrap_or_default(),
        ..KeyValue::default()
    }
}
