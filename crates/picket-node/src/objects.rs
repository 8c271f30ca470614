//! How much tables hold.

use std::iter::Sum;

use picket_nftables::model::Table;

use crate::metrics::{Metrics, ObjectKind};

/// What a table holds, or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Objects {
    elements: usize,
    rules: usize,
    chains: usize,
}

impl Objects {
    /// What one table holds.
    pub(crate) fn of(table: &Table) -> Self {
        Self {
            elements: table.sets().iter().map(|set| set.elements().len()).sum::<usize>()
                + table.maps().iter().map(|map| map.elements().len()).sum::<usize>(),
            rules: table.chains().iter().map(|chain| chain.rules.len()).sum(),
            chains: table.chains().len(),
        }
    }

    /// Shows it to those who watch.
    pub(crate) fn show(self, metrics: &Metrics) {
        for (object, count) in [
            ("element", self.elements),
            ("rule", self.rules),
            ("chain", self.chains),
        ] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            metrics.objects.get_or_create(&ObjectKind { object }).set(count);
        }
    }
}

impl Sum for Objects {
    fn sum<I: Iterator<Item = Self>>(objects: I) -> Self {
        objects.fold(Self::default(), |all, one| Self {
            elements: all.elements + one.elements,
            rules: all.rules + one.rules,
            chains: all.chains + one.chains,
        })
    }
}
