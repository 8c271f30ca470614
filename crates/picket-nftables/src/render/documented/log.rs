//! The log of what the policies drop: one rule for each interface, so that nobody who sends much over one of them takes
//! anything from the log of another.

use std::collections::BTreeSet;

use picket_policy::Direction;

use super::skeleton::interface_of;
use super::{Plan, PodView};
use crate::model::{Comment, InterfaceName, LogPrefix, Match, Rule, Value};
use crate::render::log;

/// What the log of a denied packet begins with: the direction in which the pod may not, by which of its interfaces, and
/// whether the policies because of which it may not are only `audited`, so that it passed.
pub fn log_prefix(direction: Direction, interface: &InterfaceName, audited: bool) -> LogPrefix {
    LogPrefix::new(&format!("{} {interface}", log::prefix(direction, audited)))
}

/// The direction of a [`log_prefix`], of whichever interface, and whether it is of what is audited; `None` for what no rule of
/// this layout logs.
pub fn logged_as(prefix: &str) -> Option<(Direction, bool)> {
    let (first, _interface) = prefix.rsplit_once(' ')?;
    log::read(first)
}

/// The rules that log what gets there, to stand before the drop.
pub(super) fn rules(view: &PodView, direction: Direction, plan: Plan, group: u16) -> Vec<Rule> {
    let policies = view.policies.iter();
    let closing = policies.filter(|policy| plan.closes(policy, direction));
    let interfaces: BTreeSet<_> = closing.flat_map(|policy| &policy.interfaces).collect();
    let rules = interfaces.into_iter();
    rules
        .map(|interface| rule(direction, interface, group, false))
        .collect()
}

/// The rule that logs what gets there over one interface.
pub(super) fn rule(direction: Direction, interface: &InterfaceName, group: u16, audited: bool) -> Rule {
    let over = Match::is(interface_of(direction), Value::Interface(interface.clone()));
    let rule = log::rule([over.into()], log_prefix(direction, interface, audited), group);
    rule.commented(Comment::of(match audited {
        true => "Log of what would be dropped",
        false => "Log of what is dropped",
    }))
}
