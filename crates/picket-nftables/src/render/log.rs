//! The log of packets that rules drop.

use std::num::NonZeroU32;

use crate::model::{End, Limit, Log, LogPrefix, Rule, Statement};

/// How many denied packets of one subject are logged: a pod that sends many takes nothing from the log of the others.
const LOGGED: Limit = Limit {
    per_second: NonZeroU32::MIN.saturating_add(9),
    burst: NonZeroU32::MIN.saturating_add(99),
};

/// Logs some of the packets that get there, of which `first` holds.
pub(super) fn rule(first: impl IntoIterator<Item = Statement>, prefix: LogPrefix, group: u16) -> Rule {
    let log = Log {
        prefix,
        group: Some(group),
    };
    let some = [Statement::Limit(LOGGED), Statement::Log(log)];
    Rule::of(first.into_iter().chain(some), End::Next)
}
