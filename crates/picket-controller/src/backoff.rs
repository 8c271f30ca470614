//! Trying again what went wrong, later and later, and not all at once.

use std::time::Duration;

/// How long until the first attempt, and at most until any.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// When to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    /// By the clock of the controller.
    pub(crate) at: Duration,
    /// How long it was until then.
    after: Duration,
}

impl Retry {
    /// When to try again what has failed now, after twice as long as the time before if that was an attempt too.
    pub(crate) fn after(before: Option<Self>, now: Duration, jitter: &mut Jitter) -> Self {
        let after = before.map_or(FIRST, |before| (before.after * 2).min(LONGEST));
        Self {
            at: now + jitter.lengthen(after),
            after,
        }
    }

    /// The same, at this moment at the latest.
    pub(crate) fn by(self, latest: Duration) -> Self {
        let at = self.at.min(latest);
        Self { at, ..self }
    }
}

/// Makes times a little longer, each controller in its own way.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    /// That of a controller, by what no other is called (FNV-1a).
    pub(crate) fn of(identity: &str) -> Self {
        let hash = identity.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // The generator below stays at zero.
        Self(hash.max(1))
    }

    /// A time that is up to a fifth longer (xorshift64).
    pub(crate) fn lengthen(&mut self, time: Duration) -> Duration {
        let parts = u32::try_from(self.roll(1000)).unwrap_or_default();
        time + time / 5 * parts / 1000
    }

    /// A number below another.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_is_tried_later_and_later_and_never_too_late() {
        let mut jitter = Jitter::of("a");
        let (mut retry, mut now) = (None, Duration::ZERO);
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let next = Retry::after(retry, now, &mut jitter);
            let least = now + Duration::from_secs(expected);
            let most = least + Duration::from_secs(expected) / 5;
            assert!((least..=most).contains(&next.at), "{next:?} after {now:?}");
            (retry, now) = (Some(next), next.at);
        }
    }

    #[test]
    fn two_controllers_do_not_try_at_the_same_time() {
        let times = |identity: &str| {
            let mut jitter = Jitter::of(identity);
            [(); 4].map(|()| jitter.lengthen(Duration::from_secs(10)))
        };
        assert_ne!(times("a"), times("b"));
        assert_eq!(times("a"), times("a"));
    }
}
