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

impl<'a> References<'a> {
    /// What `rule` uses.
    pub(super) fn of(rule: &'a Rule) -> Self {
        let mut used = Self::default();
        for statement in &rule.statements {
            match statement {
                Statement::Match(Match::Lookup { set, .. }) => {
                    used.containers.insert(set);
                }
                Statement::Set(_, Assigned::Map { map, .. }) => {
                    used.containers.insert(map);
                }
                Statement::Count(counter) => {
                    used.counters.insert(counter);
                }
                Statement::Match(_) | Statement::Set(..) | Statement::Log(_) | Statement::Limit(_) => {}
            }
        }
        match &rule.end {
            End::VerdictMap { map, .. } => {
                used.containers.insert(map);
            }
            End::Verdict(verdict) => used.chains.extend(verdict.target()),
            End::Next | End::Reject => {}
        }
        used
    }

    /// Whether `rule` uses any of them.
    pub(super) fn used_by(&self, rule: &Rule) -> bool {
        if self.chains.is_empty() && self.containers.is_empty() && self.counters.is_empty() {
            return false;
        }
        let used = References::of(rule);
        used.chains.iter().any(|name| self.chains.contains(name))
            || used.containers.iter().any(|name| self.containers.contains(name))
            || used.counters.iter().any(|name| self.counters.contains(name))
    }

    /// Whether `datum` leads to any of their chains.
    pub(super) fn targeted_by(&self, datum: &Datum) -> bool {
        match datum {
            Datum::Verdict(verdict) => verdict
                .target()
                .is_some_and(|target| self.chains.contains(target)),
            Datum::Mark(_) | Datum::Priority(_) => false,
        }
    }
}
