//! Choices between ways to write the same.

/// A sequence of choices that follows from its seed (xorshift64).
#[derive(Clone, Debug)]
pub struct Style(u64);

impl Style {
    /// The choices of a seed; each seed has its own, but for 0, which has those of 1.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % u64::try_from(bound).unwrap()).unwrap()
    }

    /// Yes or no.
    pub fn choose(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Brings items into any order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}
