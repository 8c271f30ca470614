//! Pairs of ends, each demand once.

use rustc_hash::FxHashMap;

use super::{Demand, End};

/// Pairs of some sources with some destinations.
pub(super) struct Pairs<'p> {
    pub(super) sources: &'p [&'p End],
    pub(super) destinations: &'p [&'p End],
    /// The sources by index.
    pub(super) froms: Vec<usize>,
    /// The destinations to pair with every source.
    pub(super) judged: Vec<usize>,
    /// The destinations to pair with sources that are judged here. One of them stands for all where the source is not, as
    /// one pair of strangers is like every other.
    pub(super) others: Vec<usize>,
}

impl Pairs<'_> {
    /// Every demand of a pair, with the first pair of which it is.
    pub(super) fn demands(&self, demand: impl Fn(&End, &End) -> Demand) -> Vec<(Demand, usize, usize)> {
        let mut found: FxHashMap<Demand, (usize, usize)> = FxHashMap::default();
        // Neighbours mostly are alike.
        let mut last = None;
        let mut stranger = false;
        for &from in &self.froms {
            let Some(source) = self.sources.get(from) else {
                continue;
            };
            let others = match source.own {
                Some(_) => self.others.as_slice(),
                None if std::mem::replace(&mut stranger, true) => &[],
                None => self.others.get(..1).unwrap_or_default(),
            };
            for &to in self.judged.iter().chain(others) {
                let Some(destination) = self.destinations.get(to) else {
                    continue;
                };
                let demand = demand(source, destination);
                if last != Some(demand) {
                    found.entry(demand).or_insert((from, to));
                    last = Some(demand);
                }
            }
        }
        let mut found: Vec<_> = found
            .into_iter()
            .map(|(demand, (from, to))| (demand, from, to))
            .collect();
        found.sort_unstable_by_key(|&(_, from, to)| (from, to));
        found
    }
}
