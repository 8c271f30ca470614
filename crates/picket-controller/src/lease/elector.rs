//! Who leads, worked out from what the API server says of a Lease.
//!
//! Clocks of different machines are never compared. Who waits looks how long a Lease has not changed, by its own clock; who
//! leads counts from before the request by which it renewed. So the one has stopped before the other begins:
//!
//! ```text
//! leader   ──sends────────────────────────────▶ stops          (a hundredth earlier)
//! server        └─▶ writes
//! other                 └─▶ sees the change ───────────────────────▶ takes
//!            ◀──────────── the length of the Lease ───────▶
//! ```

use std::time::Duration;

use serde_json::Value;

use super::record::{Record, version};

/// How much less of a Lease its leader counts: clocks of two machines run differently, by far less than this.
const DRIFT: u32 = 100;

/// Takes part in the election, as nobody but itself sees it.
#[derive(Debug)]
pub(super) struct Elector {
    /// What no other that takes part is called.
    identity: String,
    /// How long the Lease is that it writes, in whole seconds.
    length: Duration,
    /// The version of the Lease that was seen last, and when it was first.
    seen: Option<(String, Duration)>,
    /// Whether there was one when it was last looked for, or has been written since.
    is_known: bool,
    /// Since when there has been none where there was one.
    gone: Option<Duration>,
    /// What it has itself.
    held: Option<Held>,
    /// How many times it has begun to lead.
    terms: u64,
}

/// The Lease, while it is one's own.
#[derive(Debug)]
struct Held {
    /// As it was written last.
    object: Value,
    until: Duration,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attempt {
    /// Nothing for so long: somebody else leads.
    Wait(Duration),
    /// Create the Lease.
    Create(Write),
    /// Replace it, if it is still the same.
    Replace(Write),
}

/// Something to write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Write {
    pub(super) object: Value,
    /// Where it begins a term of its own; none where it only renews.
    begins: Option<Beginning>,
}

/// How a term begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The one before said that it had ended: nothing of it is under way.
    Handed,
    /// It did not: calls of it may still have an effect.
    Taken,
}

/// A term that has begun, or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) number: u64,
    /// Until when nobody else begins one.
    pub(super) until: Duration,
    /// Where it has just begun.
    pub(super) begins: Option<Beginning>,
}

impl Elector {
    /// One that is called so, and that writes Leases of so many seconds.
    pub(super) fn new(identity: &str, length: Duration) -> Self {
        Self {
            identity: identity.to_owned(),
            length: Duration::from_secs(length.as_secs().max(1)),
            seen: None,
            is_known: false,
            gone: None,
            held: None,
            terms: 0,
        }
    }

    /// What renews the Lease without asking who has it, if it is one's own now.
    pub(super) fn renewal(&mut self, now: Duration, time: &str) -> Option<Write> {
        // One that has ended is nothing to go by.
        self.held.take_if(|held| now >= held.until);
        let held = self.held.as_ref()?;
        Some(Write {
            object: Record::of(&held.object).renewed(&self.identity, self.length, time),
            begins: None,
        })
    }

    /// What to do about a Lease that was found, or about none.
    pub(super) fn attempt(&mut self, now: Duration, found: Option<&Value>, time: &str) -> Attempt {
        let Some(object) = found else {
            let is_own = self.holds(now);
            (self.seen, self.held) = (None, None);
            // Who had it may not hear that it is gone, and counts on it to its end.
            if std::mem::take(&mut self.is_known) && !is_own {
                self.gone = Some(now);
            }
            let until = self.gone.map(|since| since + self.length);
            if let Some(until) = until
                && now < until
            {
                return Attempt::Wait(until - now);
            }
            return Attempt::Create(Write {
                object: Record::of(&Value::Null).taken(&self.identity, self.length, time),
                // Whoever had it may not know yet that it is gone.
                begins: Some(Beginning::Taken),
            });
        };
        (self.is_known, self.gone) = (true, None);
        let (record, version) = (Record::of(object), version(object));
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            _ => now,
        };
        self.seen = Some((version, since));
        if record.holder() == self.identity {
            let is_held = self.held.as_ref().is_some_and(|held| now < held.until);
            return Attempt::Replace(Write {
                object: record.renewed(&self.identity, self.length, time),
                begins: (!is_held).then_some(Beginning::Taken),
            });
        }
        self.held = None;
        let begins = match record.holder() {
            "" => Beginning::Handed,
            _ => Beginning::Taken,
        };
        let until = since + record.length().max(self.length);
        if begins == Beginning::Taken && now < until {
            return Attempt::Wait(until - now);
        }
        Attempt::Replace(Write {
            object: record.taken(&self.identity, self.length, time),
            begins: Some(begins),
        })
    }

    /// The API server has taken a write that was sent at `sent`, and says what the Lease is then.
    pub(super) fn written(&mut self, sent: Duration, write: &Write, object: Value) -> Term {
        let until = sent + self.length - self.length / DRIFT;
        self.terms += u64::from(write.begins.is_some());
        (self.is_known, self.gone) = (true, None);
        self.held = Some(Held { object, until });
        Term {
            number: self.terms,
            until,
            begins: write.begins,
        }
    }

    /// Whether it is one's own, as far as one knows.
    pub(super) fn holds(&self, now: Duration) -> bool {
        self.held.as_ref().is_some_and(|held| now < held.until)
    }

    /// What gives the Lease back, if it is one's own. It is not, from then on, whatever becomes of the write.
    pub(super) fn release(&mut self, time: &str) -> Option<Value> {
        let held = self.held.take()?;
        Some(Record::of(&held.object).released(time))
    }
}

#[cfg(test)]
mod tests;
