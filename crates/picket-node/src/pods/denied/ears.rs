//! The sockets in all pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use picket_linux::runtime::SandboxId;
use picket_linux::{Epoll, Heard, Interest, PacketLog, Readiness};

use super::share::shared;
use super::{DeniedThere, Told};
use crate::denied::Fold;

/// The most lines of one pod that are known at a time.
const KNOWN: usize = 256;

/// How often the socket of one pod is read in a turn. The rules of the agent fill it a few times; who writes others into the
/// namespace of a pod takes nobody's time with them.
const READINGS: usize = 128;

/// All sockets. Each is in the set of those to wait for under its token, but not while it is deaf.
pub(super) struct Ears {
    epoll: Epoll,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    ears: BTreeMap<u64, Ear>,
    /// The last token that was given.
    given: u64,
    /// Whose lines were told last.
    last: u64,
}

struct Ear {
    sandbox: SandboxId,
    log: PacketLog,
    fold: Fold<DeniedThere>,
    /// How often it was read in this turn.
    readings: usize,
    /// Whether nothing is read until the next turn.
    is_deaf: bool,
    /// Why nothing is heard any more, if that is so.
    failure: Option<String>,
}

/// As long as this is there, what is logged in a sandbox is heard.
pub(in crate::pods) struct Hearing {
    ears: Arc<Ears>,
    token: u64,
}

impl Hearing {
    /// Why nothing is heard any more, if that is so.
    pub(in crate::pods) fn failure(&self) -> Option<String> {
        self.ears.lock().ears.get(&self.token)?.failure.clone()
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        // A socket that is closed leaves the set by itself.
        self.ears.lock().ears.remove(&self.token);
    }
}

impl Ears {
    pub(super) fn new() -> picket_linux::Result<Self> {
        Ok(Self {
            epoll: Epoll::new()?,
            open: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears one more.
    pub(super) fn add(all: &Arc<Self>, sandbox: SandboxId, log: PacketLog) -> picket_linux::Result<Hearing> {
        let mut open = all.lock();
        open.given += 1;
        let token = open.given;
        all.epoll.add(&log, token, Interest::Read)?;
        let ear = Ear {
            sandbox,
            log,
            fold: Fold::new(KNOWN),
            readings: 0,
            is_deaf: false,
            failure: None,
        };
        open.ears.insert(token, ear);
        let ears = Arc::clone(all);
        Ok(Hearing { ears, token })
    }

    /// Waits until there is something to hear, or for so long if there is something to do then.
    pub(super) fn wait(&self, until_turn: Duration) -> picket_linux::Result<Vec<Readiness>> {
        let is_waiting = |ear: &Ear| !ear.fold.is_empty() || ear.readings > 0;
        let something = self.lock().ears.values().any(is_waiting);
        self.epoll.wait(something.then_some(until_turn))
    }

    /// Takes in what there is.
    pub(super) fn hear(&self, ready: &[Readiness]) {
        let mut open = self.lock();
        for Readiness { token, .. } in ready {
            if let Some(ear) = open.ears.get_mut(token) {
                ear.hear(&self.epoll);
            }
        }
    }

    /// Begins a turn: what is to be told `now`.
    pub(super) fn tell(&self, now: Duration) -> Told {
        let Open { ears, last, .. } = &mut *self.lock();
        let folds = ears
            .iter_mut()
            .map(|(token, ear)| (*token, &mut ear.fold))
            .collect();
        let told = shared(folds, last, now);
        ears.iter_mut()
            .for_each(|(token, ear)| ear.begin(*token, &self.epoll));
        let lines = told.lines.into_iter().filter_map(|((token, line), packets)| {
            let sandbox = ears.get(&token)?.sandbox.clone();
            Some(((sandbox, line), packets))
        });
        Told {
            lines: lines.collect(),
            unlisted: told.unlisted,
            losses: told.losses,
        }
    }
}

impl Ear {
    fn hear(&mut self, epoll: &Epoll) {
        match self.log.heard() {
            Ok(heard) => self.take(&heard),
            Err(error) => self.fail(error.to_string()),
        }
        if self.readings >= READINGS || self.failure.is_some() {
            match epoll.remove(&self.log) {
                Ok(()) => self.is_deaf = true,
                Err(error) => self.fail(error.to_string()),
            }
        }
    }

    fn take(&mut self, heard: &Heard) {
        self.readings += heard.readings;
        self.fold.lose(heard.losses);
        let denied = heard.packets.iter().filter_map(DeniedThere::of);
        denied.for_each(|denied| self.fold.add(denied));
    }

    /// Begins a turn.
    fn begin(&mut self, token: u64, epoll: &Epoll) {
        self.readings = 0;
        if self.is_deaf && self.failure.is_none() {
            match epoll.add(&self.log, token, Interest::Read) {
                Ok(()) => self.is_deaf = false,
                Err(error) => self.fail(error.to_string()),
            }
        }
    }

    fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }
}
