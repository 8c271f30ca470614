//! The log of packets that rules drop.

use std::num::NonZeroU32;

use picket_policy::Direction;

use crate::model::{End, Limit, Log, LogPrefix, Rule, Statement};

/// How many denied packets of one subject are logged: a pod that sends many takes nothing from the log of the others.
const LOGGED: Limit = Limit {
    per_second: NonZeroU32::MIN.saturating_add(9),
    burst: NonZeroU32::MIN.saturating_add(99),
};

/// What the log of a denied packet begins with: whether the policies because of which it may not are only `audited`, so that
/// it passed, and the direction.
pub(super) fn prefix(direction: Direction, audited: bool) -> String {
    match audited {
        true => format!("picket audit {direction}"),
        false => format!("picket {direction}"),
    }
}

/// What [`prefix`] was made of; `None` for any other text.
pub(super) fn read(text: &str) -> Option<(Direction, bool)> {
    let mut kinds = Direction::BOTH
        .into_iter()
        .flat_map(|direction| [(direction, false), (direction, true)]);
    kinds.find(|&(direction, audited)| prefix(direction, audited) == text)
}

/// Logs some of the packets that get there, of which `first` holds.
pub(super) fn rule(first: impl IntoIterator<Item = Statement>, prefix: LogPrefix, group: u16) -> Rule {
    let log = Log {
        prefix,
        group: Some(group),
    };
    let some = [Statement::Limit(LOGGED), Statement::Log(log)];
    Rule::of(first.into_iter().chain(some), End::Next)
}
