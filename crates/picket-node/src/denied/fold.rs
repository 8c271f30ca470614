//! Many packets as few lines.

use std::collections::BTreeMap;
use std::time::Duration;

/// How often one line is told again, with how many packets there were since.
const AGAIN: Duration = Duration::from_secs(30);

/// The most lines that are told at once.
pub(crate) const AT_ONCE: usize = 50;

/// What was denied since lines were told, and when that was.
#[derive(Debug)]
pub(crate) struct Fold<L> {
    lines: BTreeMap<L, Line>,
    /// The most lines that are known. The packets of further ones are only counted.
    most: usize,
    unlisted: u64,
    losses: u64,
}

#[derive(Debug, Default)]
struct Line {
    /// When it was told last.
    told: Option<Duration>,
    /// How many packets there were since.
    packets: u64,
}

impl Line {
    fn is_due(&self, now: Duration) -> bool {
        self.told.is_none_or(|told| now.saturating_sub(told) >= AGAIN)
    }
}

/// What there is to tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told<L> {
    /// Lines with how many packets each is about.
    pub(crate) lines: Vec<(L, u64)>,
    /// How many packets are in no line, because there would be too many lines.
    pub(crate) unlisted: u64,
    /// How often the kernel had no room for packets, however many those were.
    pub(crate) losses: u64,
}

impl<L> Default for Told<L> {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            unlisted: 0,
            losses: 0,
        }
    }
}

impl<L> Told<L> {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.unlisted == 0 && self.losses == 0
    }
}

impl<L: Ord + Clone> Fold<L> {
    /// Knows so many lines at most.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            lines: BTreeMap::new(),
            most,
            unlisted: 0,
            losses: 0,
        }
    }

    /// Whether nothing has to be told, not even later.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.unlisted == 0 && self.losses == 0
    }

    /// A packet was denied.
    pub(crate) fn add(&mut self, denied: L) {
        if self.lines.len() >= self.most && !self.lines.contains_key(&denied) {
            self.unlisted += 1;
        } else {
            self.lines.entry(denied).or_default().packets += 1;
        }
    }

    /// The kernel had no room for packets so often.
    pub(crate) fn lose(&mut self, losses: u64) {
        self.losses += losses;
    }

    /// Whether there are lines to tell `now`.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        let mut lines = self.lines.values();
        lines.any(|line| line.packets > 0 && line.is_due(now))
    }

    /// What is to be told `now`, after any beginning, in so many lines at most. What was told long ago and has not come again
    /// is forgotten.
    pub(crate) fn tell(&mut self, now: Duration, at_most: usize) -> Told<L> {
        self.lines.retain(|_, line| line.packets > 0 || !line.is_due(now));
        let due = self.lines.iter_mut();
        let due = due.filter(|(_, line)| line.packets > 0 && line.is_due(now));
        let lines = due.take(at_most).map(|(denied, line)| {
            line.told = Some(now);
            (denied.clone(), std::mem::take(&mut line.packets))
        });
        Told {
            lines: lines.collect(),
            unlisted: std::mem::take(&mut self.unlisted),
            losses: std::mem::take(&mut self.losses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_told_at_once_and_then_with_its_count() {
        let (mut fold, began) = (Fold::new(1024), Duration::ZERO);
        for port in [80, 80, 443] {
            fold.add(port);
        }
        assert_eq!(fold.tell(began, AT_ONCE).lines, [(80, 2), (443, 1)]);
        for _ in 0..7 {
            fold.add(80);
        }
        assert!(fold.tell(began + AGAIN / 2, AT_ONCE).is_empty());
        assert_eq!(fold.tell(began + AGAIN, AT_ONCE).lines, [(80, 7)]);
        assert!(!fold.is_empty());
        assert!(fold.tell(began + 2 * AGAIN, AT_ONCE).is_empty() && fold.is_empty());
    }

    #[test]
    fn a_flood_of_lines_comes_bit_by_bit_and_what_finds_no_room_is_counted() {
        let (mut fold, began) = (Fold::new(1024), Duration::ZERO);
        for port in 1..=2000 {
            fold.add(port);
        }
        fold.lose(3);
        let first = fold.tell(began, AT_ONCE);
        assert_eq!(
            (first.lines.len(), first.unlisted, first.losses),
            (AT_ONCE, 976, 3)
        );
        let mut all = first.lines;
        loop {
            let told = fold.tell(began, AT_ONCE);
            if told.is_empty() {
                break;
            }
            assert_eq!((told.unlisted, told.losses), (0, 0));
            all.extend(told.lines);
        }
        assert_eq!(all, (1..=1024).map(|port| (port, 1)).collect::<Vec<(u16, u64)>>());
    }
}
