//! The log of what the policies drop: one rule for each interface, so that nobody who sends much over one of them takes
//! anything from the log of another.

use std::collections::BTreeSet;

use picket_policy::Direction;

use super::skeleton::interface_of;
use super::{Plan, PodView};
use crate::model::{Comment, InterfaceName, LogPrefix, Match, Rule, Value};
use crate::render::log;

/// What the log of a denied packet begins with: the direction in which the pod may not, and by which of its interfaces.
pub fn log_prefix(direction: Direction, interface: &InterfaceName) -> LogPrefix {
    LogPrefix::new(&format!("picket {direction} {interface}"))
}

/// The direction of a [`log_prefix`], of whichever interface; `None` for what no rule of this layout logs.
pub fn logged_direction(prefix: &str) -> Option<Direction> {
    let (direction, _interface) = prefix.strip_prefix("picket ")?.split_once(' ')?;
    let mut directions = Direction::BOTH.into_iter();
    directions.find(|one| one.to_string() == direction)
}

/// The rules that log what gets there, to stand before the drop.
pub(super) fn rules(view: &PodView, direction: Direction, plan: Plan, group: u16) -> Vec<Rule> {
    let policies = view.policies.iter();
    let closing = policies.filter(|policy| plan.closes(policy, direction));
    let interfaces: BTreeSet<_> = closing.flat_map(|policy| &policy.interfaces).collect();
    let rule = |interface: &InterfaceName| {
        let over = Match::is(interface_of(direction), Value::Interface(interface.clone()));
        let rule = log::rule([over.into()], log_prefix(direction, interface), group);
        rule.commented(Comment::of("Log of what is dropped"))
    };
    interfaces.into_iter().map(rule).collect()
}
