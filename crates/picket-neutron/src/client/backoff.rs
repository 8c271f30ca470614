//! How long to wait before Neutron is called again.

use std::time::Duration;

/// Waits that double with every failure, up to a longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// However many there were.
    pub longest: Duration,
}

impl Default for Backoff {
    /// From a fifth of a second to ten.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(200),
            longest: Duration::from_secs(10),
        }
    }
}

impl Backoff {
    /// How long to wait after so many failures in a row, none being no wait. `chance`, from 0 to 1, takes up to half of it away,
    /// so that clients that failed together do not come back together.
    pub fn after(&self, failures: u32, chance: f64) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let whole = self.first.saturating_mul(factor).min(self.longest);
        whole - (whole / 2).mul_f64(chance.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_halved_at_most() {
        let waits = |chance| -> Vec<_> {
            (0..8)
                .map(|failures| Backoff::default().after(failures, chance).as_millis())
                .collect()
        };
        assert_eq!(waits(0.0), [0, 200, 400, 800, 1600, 3200, 6400, 10_000]);
        assert_eq!(waits(1.0), [0, 100, 200, 400, 800, 1600, 3200, 5000]);
        assert_eq!(Backoff::default().after(u32::MAX, 0.0).as_secs(), 10);
    }
}
