//! How long to wait before asking again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The wait after the first failure.
const FIRST: Duration = Duration::from_millis(250);

/// The longest.
const LONGEST: Duration = Duration::from_secs(30);

/// Waits that double from failure to failure, up to a bound, and differ between processes that fail together.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(0.5 + random() / 2.0)
    }

    /// Whether nothing failed since something succeeded.
    pub(crate) fn is_fresh(&self) -> bool {
        self.failures == 0
    }

    /// Something succeeded.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A number from 0 to 1, each time another.
pub(crate) fn random() -> f64 {
    let bits = RandomState::new().hash_one(0u8) >> 32;
    f64::from(u32::try_from(bits).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_start_again() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..100).map(|_| backoff.next()).collect();
        assert!(waits[0] <= FIRST && waits[0] >= FIRST / 2, "{waits:?}");
        assert!(
            waits[7..]
                .iter()
                .all(|wait| *wait <= LONGEST && *wait >= LONGEST / 2),
            "{waits:?}"
        );
        assert!(waits[8..].windows(2).any(|pair| pair[0] != pair[1]), "{waits:?}");
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
