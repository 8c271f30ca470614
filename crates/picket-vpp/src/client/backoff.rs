//! How long to wait before VPP is called again.

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
    /// From a tenth of a second to five.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
        }
    }
}

impl Backoff {
    /// How long to wait after so many failures in a row; not at all after none.
    pub fn after(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_seconds() {
        let waits: Vec<_> = (0..9)
            .map(|failures| Backoff::default().after(failures).as_millis())
            .collect();
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(Backoff::default().after(u32::MAX).as_millis(), 5000);
    }
}
