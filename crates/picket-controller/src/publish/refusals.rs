//! Objects that the API server does not let be written. Each is tried again, later and later, and keeps no other from being written.

use std::collections::BTreeMap;
use std::time::Duration;

use picket_source::Refused;

use crate::backoff::{Jitter, Retry};
use crate::clock::Clock;

/// What was refused, by what is another for each object.
#[derive(Debug)]
pub(super) struct Refusals<K> {
    clock: Clock,
    jitter: Jitter,
    each: BTreeMap<K, Refusal>,
}

#[derive(Debug)]
struct Refusal {
    retry: Retry,
    what: String,
    why: Refused,
}

impl<K: Ord> Refusals<K> {
    pub(super) fn new(clock: Clock, identity: &str) -> Self {
        Self {
            clock,
            jitter: Jitter::of(identity),
            each: BTreeMap::new(),
        }
    }

    /// Whether something was refused, and is not to be tried yet.
    pub(super) fn wait(&self, key: &K) -> bool {
        let refusal = self.each.get(key);
        refusal.is_some_and(|refusal| refusal.retry.at > self.clock.now())
    }

    /// Something was refused: `what` is said of it.
    pub(super) fn refused(&mut self, key: K, what: String, why: Refused) {
        let before = self.each.get(&key).map(|refusal| refusal.retry);
        let retry = Retry::after(before, self.clock.now(), &mut self.jitter);
        self.each.insert(key, Refusal { retry, what, why });
    }

    /// Something was written, or need not be.
    pub(super) fn done(&mut self, key: &K) {
        self.each.remove(key);
    }

    /// Forgets what is not among these any more.
    pub(super) fn retain(&mut self, is_there: impl Fn(&K) -> bool) {
        self.each.retain(|key, _| is_there(key));
    }

    /// How long it is until something is to be tried again.
    pub(super) fn next(&self) -> Option<Duration> {
        let next = self.each.values().map(|refusal| refusal.retry.at).min();
        Some(next?.saturating_sub(self.clock.now()))
    }

    /// What was refused: one of it, and how much more there is.
    pub(super) fn trouble(&self) -> Option<String> {
        let refusal = self.each.values().next()?;
        let (what, why) = (&refusal.what, &refusal.why);
        Some(match self.each.len() - 1 {
            0 => format!("{what}: {why}"),
            more => format!("{what}: {why} (and {more} more)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hands;

    fn refused() -> Refused {
        Refused {
            code: 422,
            message: "too long".to_owned(),
        }
    }

    #[test]
    fn what_was_refused_waits_and_nothing_else_does() {
        let hands = Hands::default();
        let mut refusals = Refusals::new(hands.clock(), "a");
        assert_eq!((refusals.next(), refusals.trouble()), (None, None));
        refusals.refused("a", "pod a".to_owned(), refused());
        refusals.refused("b", "pod b".to_owned(), refused());
        assert!(refusals.wait(&"a") && !refusals.wait(&"c"));
        let trouble = refusals.trouble().unwrap();
        assert!(
            trouble.starts_with("pod a: ") && trouble.ends_with("(and 1 more)"),
            "{trouble}"
        );
        hands.forward(refusals.next().unwrap() + Duration::from_secs(1));
        assert!(!refusals.wait(&"a"));
        refusals.done(&"a");
        refusals.retain(|key| *key != "b");
        assert_eq!(refusals.trouble(), None);
    }
}
