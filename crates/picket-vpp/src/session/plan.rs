//! From the session rules that a table has to those that it should have.
//!
//! What a rule means depends on which others are there, so that rules of both states together could mean anything. Steps are
//! ordered so that after each of them nothing is allowed that is allowed neither before nor after:
//!
//! - What changes inside one prefix changes rule by rule: a port has the rule of the one state or that of the other.
//! - Where prefixes are cut in another way, or what holds for everybody else changes, all else is denied meanwhile: the rule about
//!   everything comes first or goes last, and no other captures it. What was allowed then goes before what was denied, and what
//!   will be denied comes before what will be allowed.
//!
//! A rule never takes the place of another with the same addresses and ports: of rules of IPv6 VPP would keep the old name taken.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::{Family, Prefix};
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

use super::edit::Edit;
use super::model::{Action, SessionRule, Tag, Transport};
use crate::work::looked_at;

/// A rule that a table has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstalledRule {
    /// What it says.
    pub rule: SessionRule,
    /// Its name as VPP lists it: of rules of IPv6 that says nothing.
    pub tag: SmolStr,
    /// Whether that is our name of what it says.
    is_named: bool,
}

/// Whose a rule is.
enum Standing {
    Ours,
    /// Ours by its name, which says something else.
    Broken,
    Others,
}

/// One message to VPP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Adds a rule.
    Add(SessionRule),
    /// Removes a rule of ours.
    Delete(SessionRule),
    /// Removes a rule if it is ours, which VPP does not tell: by its name alone.
    DeleteIfOwn(SessionRule),
    /// Removes the rule of this name, which is ours and not what its name says.
    DeleteNamed(SessionRule, SmolStr),
}

/// Operations in steps: a step may begin when all of the one before has been done.
pub type Plan = Vec<Vec<Operation>>;

/// A part of a table in which rules do not concern those of other parts: one transport, and what is at this end.
pub type Part = (Transport, Prefix);

/// The operations that give a table the rules of `desired`, none of which is there twice. Of rules of IPv6 those in `foreign` are not ours.
/// Rules of others stay, and none of ours takes the place of one: what it would have said is [`displaced`].
pub fn plan(installed: &[InstalledRule], desired: &[SessionRule], foreign: &BTreeSet<SessionRule>) -> Plan {
    let mut ours = Vec::with_capacity(installed.len());
    let mut known_ours = FxHashSet::default();
    let mut broken = Vec::new();
    let mut taken = BTreeSet::new();
    for known in installed {
        let rule = known.rule;
        match known.standing(foreign) {
            Standing::Ours if known_ours.insert(rule) => ours.push(rule),
            Standing::Ours => {}
            Standing::Broken => broken.push(Operation::DeleteNamed(rule, known.tag.clone())),
            Standing::Others => drop(taken.insert((part(&rule), place(&rule)))),
        }
    }
    let mut plan = steps(&ours, desired);
    for step in &mut plan {
        step.retain(|operation| {
            let rule = operation.rule();
            !taken.contains(&(part(rule), place(rule)))
        });
    }
    // What nobody meant goes first, where it is denied until then by nothing that we know of.
    plan.insert(1, broken);
    plan.retain(|step| !step.is_empty());
    plan
}

/// The operations by which a table that has just the rules of `before` gets those of `desired`. None is there twice in either.
pub fn between(before: &[SessionRule], desired: &[SessionRule]) -> Plan {
    let mut plan = steps(before, desired);
    plan.retain(|step| !step.is_empty());
    plan
}

/// The operations that an edit of a table with these rules takes.
pub(super) fn of_edit(edit: &Edit, before: &[SessionRule]) -> Plan {
    let Edit {
        gone,
        come,
        is_closed,
    } = edit;
    let mut plan = match is_closed {
        true => guarded(gone, come).into(),
        false => {
            // What holds for everybody else stays.
            let defaults = defaults(before);
            of_changes(changes(gone, come, [&defaults, &defaults]))
        }
    };
    plan.retain(|step| !step.is_empty());
    plan
}

/// The same, with steps in which nothing is to be done.
fn steps(before: &[SessionRule], desired: &[SessionRule]) -> Plan {
    let [gone, come] = differing(before, desired);
    if gone.is_empty() && come.is_empty() {
        return vec![Vec::new(); STEPS];
    }
    let [before, desired] = [before, desired].map(defaults);
    of_changes(changes(&gone, &come, [&before, &desired]))
}

/// What changes of each part, step by step.
fn of_changes(changes: Vec<Change<'_>>) -> Plan {
    let mut plan: Plan = vec![Vec::new(); STEPS];
    for change in changes {
        for (step, operations) in plan.iter_mut().zip(change.steps()) {
            match step.is_empty() {
                true => *step = operations,
                false => step.extend(operations),
            }
        }
    }
    plan
}

/// What changes of each part of which something does, part by part. All rules are in order.
fn changes<'r>(
    mut gone: &'r [SessionRule],
    mut come: &'r [SessionRule],
    defaults: [&[SessionRule]; 2],
) -> Vec<Change<'r>> {
    let mut changes = Vec::new();
    // The order of rules is first that of their parts.
    while let Some(part) = gone.first().into_iter().chain(come.first()).map(part).min() {
        let rules_of = |rules: &mut &'r [SessionRule]| {
            let (here, following) = rules.split_at(rules.partition_point(|rule| self::part(rule) <= part));
            *rules = following;
            here
        };
        changes.push(Change {
            gone: rules_of(&mut gone),
            come: rules_of(&mut come),
            defaults: defaults.map(|defaults| {
                let at = defaults.binary_search_by_key(&part, self::part).ok()?;
                defaults.get(at).copied()
            }),
        });
    }
    changes
}

/// What holds for everybody else in each part, in order.
fn defaults(rules: &[SessionRule]) -> Vec<SessionRule> {
    looked_at(rules.len());
    let defaults = rules.iter().filter(|rule| is_default(rule));
    let mut defaults: Vec<_> = defaults.copied().collect();
    defaults.sort_unstable();
    defaults
}

/// The rules that only the one state has, and those that only the other has, in order. No state has one twice.
fn differing(before: &[SessionRule], desired: &[SessionRule]) -> [Vec<SessionRule>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    let [gone, come] = &mut found;
    let [mut was, mut will] = [before, desired];
    looked_at(before.len() + desired.len());
    while !was.is_empty() || !will.is_empty() {
        let alike = was
            .iter()
            .zip(will)
            .take_while(|(one, other)| one == other)
            .count();
        was = was.get(alike..).unwrap_or_default();
        will = will.get(alike..).unwrap_or_default();
        let [few_gone, few_come] = until_alike(was, will);
        gone.extend_from_slice(was.get(..few_gone).unwrap_or_default());
        come.extend_from_slice(will.get(..few_come).unwrap_or_default());
        was = was.get(few_gone..).unwrap_or_default();
        will = will.get(few_come..).unwrap_or_default();
    }
    gone.sort_unstable();
    come.sort_unstable();
    if !gone.is_empty() && !come.is_empty() {
        // What is in both was only at another place.
        let kept: FxHashSet<_> = gone
            .iter()
            .filter(|rule| come.binary_search(rule).is_ok())
            .copied()
            .collect();
        gone.retain(|rule| !kept.contains(rule));
        come.retain(|rule| !kept.contains(rule));
    }
    found
}

/// How many rules of each state come before two that are alike, where these are near; or else one of each.
///
/// It only decides how fast it goes: where it is wrong, a rule is taken for one that has gone and has come.
fn until_alike(was: &[SessionRule], will: &[SessionRule]) -> [usize; 2] {
    let (Some(gone), Some(come)) = (was.first(), will.first()) else {
        return [was.len(), will.len()];
    };
    for ahead in 1..=NEAR {
        if will.get(ahead) == Some(gone) {
            return [0, ahead];
        }
        if was.get(ahead) == Some(come) {
            return [ahead, 0];
        }
    }
    [1, 1]
}

/// How far ahead a rule is looked for.
const NEAR: usize = 16;

/// The rules of `desired` that are not there because a rule of others has just their addresses and ports, and does the
/// opposite; each with that one.
pub fn displaced(
    installed: &[InstalledRule],
    desired: &[SessionRule],
    foreign: &BTreeSet<SessionRule>,
) -> Vec<(SessionRule, InstalledRule)> {
    let others = installed.iter().filter(|known| !known.is_own(foreign));
    let taken: BTreeMap<_, _> = others
        .map(|known| ((part(&known.rule), place(&known.rule)), known))
        .collect();
    let displaced = desired.iter().filter_map(|rule| {
        let other = taken.get(&(part(rule), place(rule)))?;
        (other.rule.action != rule.action).then(|| (*rule, (*other).clone()))
    });
    displaced.collect()
}

impl InstalledRule {
    /// One that has this name.
    pub fn new(rule: SessionRule, tag: SmolStr) -> Self {
        let is_named = rule.tag().as_str() == tag;
        Self { rule, tag, is_named }
    }

    /// One of ours.
    pub fn ours(rule: SessionRule) -> Self {
        Self {
            rule,
            tag: rule.tag().as_str().into(),
            is_named: true,
        }
    }

    fn standing(&self, foreign: &BTreeSet<SessionRule>) -> Standing {
        match self.rule.family() {
            _ if !self.is_own(foreign) => Standing::Others,
            Family::Ipv4 if !self.is_named => Standing::Broken,
            Family::Ipv4 | Family::Ipv6 => Standing::Ours,
        }
    }

    /// Whether it is ours. Of rules of IPv6 those in `foreign` are not.
    pub fn is_own(&self, foreign: &BTreeSet<SessionRule>) -> bool {
        match self.rule.family() {
            Family::Ipv4 => Tag::is_own(&self.tag),
            Family::Ipv6 => !foreign.contains(&self.rule),
        }
    }
}

impl Operation {
    /// The rule that it adds or removes.
    pub fn rule(&self) -> &SessionRule {
        match self {
            Self::Add(rule) | Self::Delete(rule) | Self::DeleteIfOwn(rule) | Self::DeleteNamed(rule, _) => {
                rule
            }
        }
    }
}

pub(crate) fn part(rule: &SessionRule) -> Part {
    (rule.transport, rule.local)
}

/// How many steps a change has.
const STEPS: usize = 6;

/// What changes of one part.
#[derive(Debug)]
struct Change<'r> {
    gone: &'r [SessionRule],
    come: &'r [SessionRule],
    /// What holds for everybody else, before and after.
    defaults: [Option<SessionRule>; 2],
}

impl Change<'_> {
    fn steps(&self) -> [Vec<Operation>; STEPS] {
        let Self {
            gone,
            come,
            defaults: [before, after],
        } = self;
        let (gone, come, before, after) = (*gone, *come, *before, *after);
        let is_guarded = before.is_some() || after.is_some() || are_cut_otherwise(gone, come);
        if !is_guarded {
            return in_place(gone, come);
        }
        // INVARIANT: something has gone or come, as there is a change.
        let guard = before
            .or(after)
            .or_else(|| gone.first().or(come.first()).map(everything));
        let missing = guard.filter(|_| before.is_none());
        let superfluous = guard.filter(|_| after.is_none());
        let [gone_allowed, gone_denied, come_denied, come_allowed] = guarded(gone, come);
        [
            adds(missing),
            gone_allowed,
            gone_denied,
            come_denied,
            come_allowed,
            match before.is_some() {
                true => deletions(superfluous),
                false => superfluous.into_iter().map(Operation::Delete).collect(),
            },
        ]
    }
}

/// What changes where everybody else is denied meanwhile.
fn guarded(gone: &[SessionRule], come: &[SessionRule]) -> [Vec<Operation>; 4] {
    [
        deletions(of(gone, Action::Allow)),
        deletions(of(gone, Action::Drop)),
        adds(of(come, Action::Drop)),
        adds(of(come, Action::Allow)),
    ]
}

/// The rules by which something becomes of some, but not of everybody else.
fn of(rules: &[SessionRule], action: Action) -> impl Iterator<Item = SessionRule> {
    let rules = rules.iter().copied();
    rules.filter(move |rule| rule.action == action && !is_default(rule))
}

/// What changes without another rule for everybody else, and inside the same prefixes.
fn in_place(gone: &[SessionRule], come: &[SessionRule]) -> [Vec<Operation>; STEPS] {
    let taken = match gone.is_empty() {
        true => BTreeSet::new(),
        false => come.iter().map(place).collect(),
    };
    let is_replaced = |rule: &&SessionRule| taken.contains(&place(rule));
    let (replaced, gone): (Vec<&SessionRule>, Vec<&SessionRule>) = gone.iter().partition(is_replaced);
    let (gone_whole, gone_ports): (Vec<&SessionRule>, Vec<&SessionRule>) =
        gone.into_iter().partition(|rule| is_about_all_ports(rule));
    let (come_whole, come_ports): (Vec<&SessionRule>, Vec<&SessionRule>) =
        come.iter().partition(|rule| is_about_all_ports(rule));
    [
        deletions(replaced.into_iter().copied()),
        adds(come_ports.into_iter().copied()),
        adds(come_whole.into_iter().copied()),
        deletions(gone_whole.into_iter().copied()),
        deletions(gone_ports.into_iter().copied()),
        Vec::new(),
    ]
}

fn adds(rules: impl IntoIterator<Item = SessionRule>) -> Vec<Operation> {
    rules.into_iter().map(Operation::Add).collect()
}

fn deletions(rules: impl IntoIterator<Item = SessionRule>) -> Vec<Operation> {
    let delete = |rule: SessionRule| match rule.family() {
        Family::Ipv4 => Operation::Delete(rule),
        Family::Ipv6 => Operation::DeleteIfOwn(rule),
    };
    rules.into_iter().map(delete).collect()
}

/// Whether prefixes of some are parts of those of others.
fn are_cut_otherwise(gone: &[SessionRule], come: &[SessionRule]) -> bool {
    if gone.is_empty() || come.is_empty() {
        return false;
    }
    let mut sides: BTreeMap<Prefix, [bool; 2]> = BTreeMap::new();
    for rule in gone {
        let [has_gone, _] = sides.entry(rule.remote).or_default();
        *has_gone = true;
    }
    for rule in come {
        let [_, has_come] = sides.entry(rule.remote).or_default();
        *has_come = true;
    }
    // Prefixes stand before those that are parts of them. Of those around the present one, what sides they are of.
    let mut around: Vec<(Prefix, [bool; 2])> = Vec::new();
    for (prefix, [has_gone, has_come]) in sides {
        while around
            .last()
            .is_some_and(|(outer, _)| !outer.contains_prefix(&prefix))
        {
            around.pop();
        }
        let [outer_gone, outer_come] = around.last().map(|(_, sides)| *sides).unwrap_or_default();
        if has_gone && outer_come || has_come && outer_gone {
            return true;
        }
        around.push((prefix, [has_gone || outer_gone, has_come || outer_come]));
    }
    false
}

/// What a rule is about, whatever it does.
fn place(rule: &SessionRule) -> (Prefix, u16, u16) {
    (rule.remote, rule.local_port, rule.remote_port)
}

fn is_about_all_ports(rule: &SessionRule) -> bool {
    (rule.local_port, rule.remote_port) == (0, 0)
}

/// Whether it says what holds for everybody else. Only denials do: what no rule is about is allowed.
pub(super) fn is_default(rule: &SessionRule) -> bool {
    is_about_all_ports(rule) && rule.remote.length() == 0
}

/// The denial of everything in the part of a rule.
fn everything(rule: &SessionRule) -> SessionRule {
    SessionRule {
        remote: Prefix::all(rule.family()),
        local_port: 0,
        remote_port: 0,
        action: Action::Drop,
        ..*rule
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    /// Rules about prefixes of which some are parts of others.
    fn rules() -> impl Strategy<Value = Vec<SessionRule>> {
        let prefix = (0..16u32, 26..=32u8).prop_map(|(host, length)| {
            let address = Ipv4Addr::from_bits(0x0a00_0000 + 4 * host);
            Prefix::new(address.into(), length).unwrap()
        });
        let rule = prefix.prop_map(|remote| SessionRule {
            transport: Transport::Tcp,
            local: Prefix::all(Family::Ipv4),
            remote,
            local_port: 0,
            remote_port: 80,
            action: Action::Allow,
        });
        prop::collection::vec(rule, 0..4)
    }

    /// Rules of several parts, each there once, in any order.
    fn tables() -> impl Strategy<Value = Vec<SessionRule>> {
        let rule = (0..2usize, 0..3u32, 24..=32u8, 0..2u16, 0..3u8);
        let rule = rule.prop_map(|(transport, host, length, port, action)| {
            let any = Prefix::all(Family::Ipv4);
            let address = Ipv4Addr::from_bits(0x0a00_0000 + host);
            SessionRule {
                transport: Transport::BOTH[transport],
                local: any,
                remote: match length {
                    24 => any,
                    length => Prefix::new(address.into(), length).unwrap(),
                },
                local_port: 0,
                remote_port: if length == 24 { 0 } else { port },
                // What holds for everybody else is only ever denied.
                action: match action {
                    0 if length > 24 => Action::Allow,
                    _ => Action::Drop,
                },
            }
        });
        let once = |rules: Vec<SessionRule>| {
            let mut known = BTreeSet::new();
            rules
                .into_iter()
                .filter(|rule| known.insert((part(rule), place(rule))))
                .collect()
        };
        prop::collection::vec(rule, 0..12).prop_map(once)
    }

    proptest! {
        #[test]
        fn what_is_between_two_tables_is_told_and_nothing_else(
            mut before in tables(),
            mut desired in tables(),
            are_in_order in any::<bool>(),
        ) {
            if are_in_order {
                before.sort_unstable();
                desired.sort_unstable();
            }
            let plan = between(&before, &desired);
            let installed: Vec<_> = before.iter().copied().map(InstalledRule::ours).collect();
            prop_assert_eq!(&plan, &super::plan(&installed, &desired, &BTreeSet::new()));
            let twice = [&installed[..], &installed].concat();
            prop_assert_eq!(&plan, &super::plan(&twice, &desired, &BTreeSet::new()));
            let mut now: BTreeSet<_> = before.iter().copied().collect();
            let mut told = BTreeSet::new();
            for operation in plan.iter().flatten() {
                let is_new = match operation {
                    Operation::Add(rule) => now.insert(*rule),
                    other => now.remove(other.rule()),
                };
                prop_assert!(is_new, "{operation:?}");
                told.insert(*operation.rule());
            }
            prop_assert_eq!(&now, &desired.iter().copied().collect());
            let kept = before.iter().filter(|rule| now.contains(rule));
            prop_assert!(kept.clone().all(|rule| !told.contains(rule)));
        }

        #[test]
        fn prefixes_are_cut_otherwise_where_one_is_a_part_of_another(gone in rules(), come in rules()) {
            let overlap = |one: &Prefix, other: &Prefix| {
                one != other && (one.contains_prefix(other) || other.contains_prefix(one))
            };
            let expected = gone.iter().any(|one| come.iter().any(|other| overlap(&one.remote, &other.remote)));
            prop_assert_eq!(are_cut_otherwise(&gone, &come), expected);
        }
    }
}
