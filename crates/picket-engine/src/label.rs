//! Whether selectors match labels, and the two indexes that spare asking.

use picket_policy::{Labels, Requirement, Selector};
use smol_str::SmolStr;

/// Every requirement holds (apimachinery `labels.Selector`).
pub(crate) fn matches(selector: &Selector, labels: &Labels) -> bool {
    selector.requirements().iter().all(|requirement| {
        let value = labels.get(requirement.key());
        match (requirement, value) {
            (Requirement::In(_, values), Some(value)) => values.binary_search(value).is_ok(),
            (Requirement::NotIn(_, values), Some(value)) => values.binary_search(value).is_err(),
            (Requirement::Exists(_), present) => present.is_some(),
            (Requirement::DoesNotExist(_), present) => present.is_none(),
            (Requirement::In(..), None) => false,
            // An absent key is not in the values.
            (Requirement::NotIn(..), None) => true,
        }
    })
}

/// One fact about labels under which selectors and labelled things can be listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Anchor {
    /// Nothing: holds for all labels.
    Any,
    /// The key is present.
    Key(SmolStr),
    /// The key is present with this value.
    Pair(SmolStr, SmolStr),
}

impl Anchor {
    /// Facts of which at least one holds for all labels that match, the most telling ones of `selector`.
    pub(crate) fn of_selector(selector: &Selector) -> Vec<Self> {
        let values = |requirement: &Requirement| match requirement {
            Requirement::In(_, values) => Some(values.len()),
            Requirement::Exists(_) => Some(usize::MAX),
            Requirement::NotIn(..) | Requirement::DoesNotExist(_) => None,
        };
        let narrowest = selector
            .requirements()
            .iter()
            .filter_map(|requirement| Some((values(requirement)?, requirement)))
            .min_by_key(|(values, _)| *values);
        match narrowest {
            Some((_, Requirement::In(key, values))) => values
                .iter()
                .map(|value| Self::Pair(key.clone(), value.clone()))
                .collect(),
            Some((_, requirement)) => vec![Self::Key(requirement.key().clone())],
            None => vec![Self::Any],
        }
    }

    /// Every fact about `labels`.
    pub(crate) fn of_labels(labels: &Labels) -> impl Iterator<Item = Self> {
        let facts = labels
            .iter()
            .flat_map(|(key, value)| [Self::Key(key.clone()), Self::Pair(key.clone(), value.clone())]);
        std::iter::once(Self::Any).chain(facts)
    }
}
