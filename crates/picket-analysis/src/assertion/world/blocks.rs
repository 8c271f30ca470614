//! The prefixes that assertions name, and the parts into which they cut other addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::{AddressRange, AddressSet, Prefix};

use super::super::{Assertion, Claim, End, Ends};

/// Prefixes, by which addresses are told apart.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    prefixes: BTreeSet<Prefix>,
    lengths: BTreeSet<u8>,
    /// Where one of them begins, and what comes after one.
    boundaries: BTreeSet<IpAddr>,
}

impl Blocks {
    /// The prefixes that some assertions name.
    pub(super) fn of(assertions: &[&Assertion]) -> Self {
        let mut blocks = Self::default();
        for assertion in assertions {
            let through = match &assertion.claim {
                Claim::Unreachable(through) => through.as_ref(),
                Claim::Allowed | Claim::Denied | Claim::Exactly(_) | Claim::Only(_) => None,
            };
            for ends in [&assertion.from, &assertion.to].into_iter().chain(through) {
                named(ends).for_each(|prefix| blocks.insert(prefix));
            }
        }
        blocks
    }

    fn insert(&mut self, prefix: Prefix) {
        self.prefixes.insert(prefix);
        self.lengths.insert(prefix.length());
        self.boundaries.insert(prefix.first());
        self.boundaries.extend(neighbour(prefix.last(), true));
    }

    /// The parts of `addresses` that every prefix holds whole or not at all, as few as there can be.
    pub(super) fn cut(&self, addresses: &AddressSet) -> Vec<AddressSet> {
        let mut parts: BTreeMap<Option<Prefix>, Vec<AddressRange>> = BTreeMap::new();
        for range in addresses.ranges() {
            let mut first = range.first();
            while let Some(piece) = self.piece(first, range.last()) {
                parts.entry(self.longest(first)).or_default().push(piece);
                match neighbour(piece.last(), true) {
                    Some(next) if piece.last() < range.last() => first = next,
                    _ => break,
                }
            }
        }
        parts
            .into_values()
            .map(|ranges| ranges.into_iter().collect())
            .collect()
    }

    /// The addresses from `first` on, up to the next boundary or `last`.
    fn piece(&self, first: IpAddr, last: IpAddr) -> Option<AddressRange> {
        let after = (std::ops::Bound::Excluded(first), std::ops::Bound::Included(last));
        let boundary = if first < last {
            self.boundaries.range(after).next()
        } else {
            None
        };
        let last = boundary
            .and_then(|&boundary| neighbour(boundary, false))
            .unwrap_or(last);
        AddressRange::new(first, last)
    }

    /// The longest prefix that holds an address. Of two prefixes that share an address one holds the other, so it tells
    /// which others do.
    fn longest(&self, address: IpAddr) -> Option<Prefix> {
        let prefixes = self
            .lengths
            .iter()
            .rev()
            .filter_map(|&length| Prefix::new(address, length));
        prefixes.into_iter().find(|prefix| self.prefixes.contains(prefix))
    }
}

fn named(ends: &Ends) -> impl Iterator<Item = Prefix> + '_ {
    ends.items.iter().chain(&ends.except).flat_map(|(end, _)| {
        let (some, others): (&[Prefix], &[Prefix]) = match end {
            End::Block(prefix) => (std::slice::from_ref(prefix), &[]),
            End::External { within, except } => (within, except),
            End::Any | End::Namespace(_) | End::Named(_) | End::Selected { .. } => (&[], &[]),
        };
        some.iter().chain(others).copied()
    })
}

/// The address after, or before, of the same family.
fn neighbour(address: IpAddr, after: bool) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            let bits = if after {
                bits.checked_add(1)
            } else {
                bits.checked_sub(1)
            };
            bits.map(|bits| IpAddr::V4(bits.into()))
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let bits = if after {
                bits.checked_add(1)
            } else {
                bits.checked_sub(1)
            };
            bits.map(|bits| IpAddr::V6(bits.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_in_every_prefix_or_outside() {
        let prefix = |text: &str| -> Prefix { text.parse().unwrap() };
        for (prefixes, addresses, expected) in [
            (vec![], "10.0.0.0/24", vec!["10.0.0.0-10.0.0.255"]),
            (vec!["0.0.0.0/0"], "10.0.0.0/24", vec!["10.0.0.0-10.0.0.255"]),
            (
                vec!["10.0.0.64/26", "10.0.0.64/32", "::/0"],
                "10.0.0.0/24",
                vec![
                    "10.0.0.0-10.0.0.63 10.0.0.128-10.0.0.255",
                    "10.0.0.65-10.0.0.127",
                    "10.0.0.64-10.0.0.64",
                ],
            ),
            (
                vec!["255.255.255.255/32"],
                "255.255.255.254/31",
                vec![
                    "255.255.255.254-255.255.255.254",
                    "255.255.255.255-255.255.255.255",
                ],
            ),
        ] {
            let mut blocks = Blocks::default();
            prefixes.iter().for_each(|text| blocks.insert(prefix(text)));
            let parts = blocks.cut(&prefix(addresses).range().into());
            let shown = parts.iter().map(|part| {
                let ranges: Vec<_> = part.ranges().map(|range| range.to_string()).collect();
                ranges.join(" ")
            });
            assert_eq!(shown.collect::<Vec<_>>(), expected, "{prefixes:?}");
        }
    }
}
