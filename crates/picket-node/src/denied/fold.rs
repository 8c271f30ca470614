//! Many packets as few lines.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Denied;

/// How often one line is told again, with how many packets there were since.
const AGAIN: Duration = Duration::from_secs(30);

/// The most lines that are told at once.
const AT_ONCE: usize = 50;

/// The most lines that are known. The packets of further ones are only counted.
const KNOWN: usize = 1024;

/// What was denied since lines were told, and when that was.
#[derive(Debug, Default)]
pub(super) struct Fold {
    lines: BTreeMap<Denied, Line>,
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

/// What there is to tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Lines with how many packets each is about.
    pub(crate) lines: Vec<(Denied, u64)>,
    /// How many packets are in no line, because there would be too many lines.
    pub(crate) unlisted: u64,
    /// How often the kernel had no room for packets, however many those were.
    pub(crate) losses: u64,
}

impl Told {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Fold {
    /// Whether nothing has to be told, not even later.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.unlisted == 0 && self.losses == 0
    }

    /// A packet was denied.
    pub(super) fn add(&mut self, denied: Denied) {
        if self.lines.len() >= KNOWN && !self.lines.contains_key(&denied) {
            self.unlisted += 1;
        } else {
            self.lines.entry(denied).or_default().packets += 1;
        }
    }

    /// The kernel had no room for packets so often.
    pub(super) fn lose(&mut self, losses: u64) {
        self.losses += losses;
    }

    /// What is to be told `now`, after any beginning. What was told long ago and has not come again is forgotten.
    pub(super) fn tell(&mut self, now: Duration) -> Told {
        let is_due = |line: &Line| line.told.is_none_or(|told| now.saturating_sub(told) >= AGAIN);
        self.lines.retain(|_, line| line.packets > 0 || !is_due(line));
        let due = self.lines.iter_mut();
        let due = due.filter(|(_, line)| line.packets > 0 && is_due(line));
        let lines = due.take(AT_ONCE).map(|(denied, line)| {
            line.told = Some(now);
            (*denied, std::mem::take(&mut line.packets))
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
    use picket_net::Protocol;
    use picket_policy::Direction;

    use super::*;

    fn to_port(port: u16) -> Denied {
        Denied {
            direction: Direction::Ingress,
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            protocol: Protocol::TCP,
            number: Some(port),
        }
    }

    fn ports(told: &Told) -> Vec<(u16, u64)> {
        let lines = told.lines.iter();
        lines
            .map(|(denied, packets)| (denied.number.unwrap(), *packets))
            .collect()
    }

    #[test]
    fn what_repeats_is_told_at_once_and_then_with_its_count() {
        let (mut fold, began) = (Fold::default(), Duration::ZERO);
        for port in [80, 80, 443] {
            fold.add(to_port(port));
        }
        assert_eq!(ports(&fold.tell(began)), [(80, 2), (443, 1)]);
        for _ in 0..7 {
            fold.add(to_port(80));
        }
        assert!(fold.tell(began + AGAIN / 2).is_empty());
        assert_eq!(ports(&fold.tell(began + AGAIN)), [(80, 7)]);
        assert!(!fold.is_empty());
        assert!(fold.tell(began + 2 * AGAIN).is_empty() && fold.is_empty());
    }

    #[test]
    fn a_flood_of_lines_comes_bit_by_bit_and_what_finds_no_room_is_counted() {
        let (mut fold, began) = (Fold::default(), Duration::ZERO);
        for port in 1..=2000 {
            fold.add(to_port(port));
        }
        fold.lose(3);
        let first = fold.tell(began);
        assert_eq!(
            (first.lines.len(), first.unlisted, first.losses),
            (AT_ONCE, 976, 3)
        );
        let mut all = ports(&first);
        loop {
            let told = fold.tell(began);
            if told.is_empty() {
                break;
            }
            assert_eq!((told.unlisted, told.losses), (0, 0));
            all.extend(ports(&told));
        }
        assert_eq!(all, (1..=1024).map(|port| (port, 1)).collect::<Vec<_>>());
    }
}
