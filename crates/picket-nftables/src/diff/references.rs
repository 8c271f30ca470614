//! Which objects rules and elements use.

use std::collections::BTreeSet;

use crate::model::{Assigned, Datum, End, Match, Name, Rule, Statement};

/// Some objects of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct References<'a> {
    pub(super) chains: BTreeSet<&'a Name>,
    /// Sets and maps.
    pub(super) containers: BTreeSet<&'a Name>,
    pub(super) counters: BTreeSet<&'a Name>,
}

/// An object that a rule or an element uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    Chain(&'a Name),
    /// A set or map.
    Container(&'a Name),
    Counter(&'a Name),
}

impl<'a> Reference<'a> {
    /// What `rule` uses.
    pub(super) fn of(rule: &'a Rule) -> impl Iterator<Item = Self> {
        let statements = rule.statements.iter().filter_map(|statement| match statement {
            Statement::Match(Match::Lookup { set, .. }) => Some(Self::Container(set)),
            Statement::Set(_, Assigned::Map { map, .. }) => Some(Self::Container(map)),
            Statement::Count(counter) => Some(Self::Counter(counter)),
            Statement::Match(_) | Statement::Set(..) | Statement::Log(_) | Statement::Limit(_) => None,
        });
        let end = match &rule.end {
            End::VerdictMap { map, .. } => Some(Self::Container(map)),
            End::Verdict(verdict) => verdict.target().map(Self::Chain),
            End::Next | End::Reject => None,
        };
        statements.chain(end)
    }

    /// The chain that `datum` leads to.
    pub(super) fn led_to(datum: &'a Datum) -> Option<Self> {
        match datum {
            Datum::Verdict(verdict) => verdict.target().map(Self::Chain),
            Datum::Mark(_) | Datum::Priority(_) => None,
        }
    }

    /// Its name.
    pub(super) fn name(self) -> &'a Name {
        match self {
            Self::Chain(name) | Self::Container(name) | Self::Counter(name) => name,
        }
    }
}

impl References<'_> {
    /// Whether `rule` uses any of them.
    pub(super) fn used_by(&self, rule: &Rule) -> bool {
        if self.chains.is_empty() && self.containers.is_empty() && self.counters.is_empty() {
            return false;
        }
        Reference::of(rule).any(|used| self.contains(used))
    }

    /// Whether `datum` leads to any of their chains.
    pub(super) fn targeted_by(&self, datum: &Datum) -> bool {
        Reference::led_to(datum).is_some_and(|used| self.contains(used))
    }

    fn contains(&self, object: Reference<'_>) -> bool {
        match object {
            Reference::Chain(name) => self.chains.contains(name),
            Reference::Container(name) => self.containers.contains(name),
            Reference::Counter(name) => self.counters.contains(name),
        }
    }
}
