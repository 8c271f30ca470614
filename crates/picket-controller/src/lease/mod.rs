//! Who of several controllers may change anything: the one that has a Lease of the cluster.
//!
//! A Lease alone does not keep two from writing at once: a process may be stopped after it has looked and before it writes. So
//! every call asks [`Lease::permits`], which says no unless the call would end before the Lease does; and who has taken a
//! Lease that nobody gave back waits as long as a call may take before it looks at anything.

mod elector;
mod keeper;
mod record;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;
pub(crate) use elector::Beginning;
use elector::Term;
pub(crate) use keeper::Keeper;
pub use keeper::LeaseSettings;

/// What is known of the Lease. Clones show the same.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    known: Mutex<Known>,
    changed: Notify,
}

/// What is known of it.
#[derive(Clone, Debug, Default)]
struct Known {
    term: Option<Term>,
    /// Who has it, if anybody.
    leader: Option<String>,
    /// Why the API server does not say.
    trouble: Option<String>,
}

impl Lease {
    /// One that nobody has yet.
    pub(crate) fn of_nobody(clock: Clock) -> Self {
        Self(Arc::new(Inner {
            clock,
            known: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// For a controller that shares its work with no other: it has the Lease, and for good.
    pub(crate) fn of_the_only_one(clock: Clock, identity: &str) -> Self {
        let lease = Self::of_nobody(clock);
        *lease.known() = Known {
            term: Some(Term {
                number: 1,
                until: Duration::MAX,
                begins: Some(Beginning::Handed),
            }),
            leader: Some(identity.to_owned()),
            trouble: None,
        };
        lease
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn term_now(&self) -> Option<Term> {
        let term = self.known().term;
        term.filter(|term| self.0.clock.now() < term.until)
    }

    /// How long it is certain that no other controller has it; nothing where this one has not.
    pub fn remaining(&self) -> Duration {
        let until = self.known().term.map(|term| term.until);
        until.unwrap_or_default().saturating_sub(self.0.clock.now())
    }

    /// The how manyth time this controller has it now, if it has.
    pub fn term(&self) -> Option<u64> {
        Some(self.term_now()?.number)
    }

    /// How the term began that this is, if it is one.
    pub(crate) fn beginning(&self) -> Option<(u64, Beginning)> {
        let term = self.term_now()?;
        Some((term.number, term.begins.unwrap_or(Beginning::Taken)))
    }

    /// Whether a call may begin, as a part of what was begun in a term, that ends within `limit`.
    pub fn permits(&self, term: u64, limit: Duration) -> bool {
        self.term() == Some(term) && self.remaining() > limit
    }

    /// Who has it, by what the API server said last.
    pub fn leader(&self) -> Option<String> {
        self.known().leader.clone()
    }

    /// Why it is not known who has it.
    pub fn trouble(&self) -> Option<String> {
        self.known().trouble.clone()
    }

    /// Waits until something else is known of it.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Another has it, or nobody.
    fn is_of(&self, leader: Option<&str>) {
        let mut known = self.known();
        known.term = None;
        known.leader = leader.filter(|leader| !leader.is_empty()).map(str::to_owned);
        drop(known);
        self.0.changed.notify_one();
    }

    /// This controller has it.
    fn is_mine(&self, identity: &str, term: Term) {
        let mut known = self.known();
        let begins = match &known.term {
            // How it began stays known.
            Some(before) if before.number == term.number => before.begins,
            _ => term.begins,
        };
        known.term = Some(Term { begins, ..term });
        known.leader = Some(identity.to_owned());
        drop(known);
        self.0.changed.notify_one();
    }

    /// This controller has it now, for so long.
    #[cfg(test)]
    pub(crate) fn begin_for_test(&self, identity: &str, number: u64, length: Duration, begins: Beginning) {
        let term = Term {
            number,
            until: self.0.clock.now() + length,
            begins: Some(begins),
        };
        self.is_mine(identity, term);
    }

    /// Whether the API server can be asked.
    fn is_troubled(&self, trouble: Option<String>) {
        self.known().trouble = trouble;
    }
}
