//! What a Neutron can do, and how much of it a project may have.

use std::collections::{BTreeMap, BTreeSet};

use picket_neutron::Objects;
use picket_neutron::client::Quota;
use smol_str::SmolStr;

use super::state::State;
use crate::cloud::{Failure, Reason};

/// What nothing works without, and why.
const NEEDED: [(&str, &str); 2] = [
    ("security-group", "groups are all that it enforces with"),
    ("standard-attr-tag", "its groups are known by their tags"),
];

/// The extensions by which many addresses are one rule: that there are groups of them, and that rules may be about these.
const ADDRESS_GROUPS: [&str; 2] = ["address-group", "security-groups-remote-address-group"];

/// The extension that tells how much of a quota is used.
pub(super) const QUOTA_DETAILS: &str = "quota_details";

/// What goes on where an extension is missing, and how: what it would have told is not seen.
const TELLING: [(&str, &str); 6] = [
    (
        "port-security",
        "a port for which somebody has turned it off counts as enforced",
    ),
    (
        "stateful-security-group",
        "every group counts as one that keeps connections",
    ),
    (
        "allowed-address-pairs",
        "every port counts as one that has its own addresses alone",
    ),
    ("binding", "a port counts as enforced however it is attached"),
    (
        "standard-attr-revisions",
        "a port is changed whoever has changed it meanwhile",
    ),
    (QUOTA_DETAILS, "a quota is noticed when a call is refused"),
];

/// What is not seen for want of an extension, for people.
pub(super) fn unseen(extensions: &BTreeSet<SmolStr>) -> Vec<String> {
    let missing = TELLING.iter().filter(|(alias, _)| !extensions.contains(*alias));
    missing
        .map(|(alias, instead)| format!("Neutron has no extension `{alias}`: {instead}"))
        .collect()
}

/// Fails where something is missing that nothing works without.
pub(super) fn check(extensions: &BTreeSet<SmolStr>) -> Result<(), Failure> {
    let missing = NEEDED.iter().find(|(alias, _)| !extensions.contains(*alias));
    match missing {
        None => Ok(()),
        Some((alias, why)) => Err(Failure::new(
            Reason::Away,
            format!("Neutron has no extension `{alias}`, which picket needs: {why}"),
        )),
    }
}

/// Whether rules may be about groups of addresses.
pub(super) fn has_address_groups(extensions: &BTreeSet<SmolStr>) -> bool {
    ADDRESS_GROUPS.iter().all(|alias| extensions.contains(*alias))
}

/// What does not fit into the quotas of the project, for people.
pub(super) fn shortages(state: &State, wanted: &Objects) -> Vec<String> {
    let groups = wanted.security_groups.values();
    let rules: usize = groups.map(|group| group.rules.len()).sum();
    let (has_groups, has_rules) = state.counted;
    let all = [
        ("security_group", wanted.security_groups.len(), has_groups),
        ("security_group_rule", rules, has_rules),
    ];
    let short = all
        .into_iter()
        .filter_map(|(kind, wanted, there)| shortage(&state.quotas, kind, wanted.saturating_sub(there)));
    short.collect()
}

fn shortage(quotas: &BTreeMap<SmolStr, Quota>, kind: &str, more: usize) -> Option<String> {
    let left = quotas.get(kind)?.left()?;
    let is_short = u64::try_from(more).is_ok_and(|more| more > left);
    is_short.then(|| {
        format!("the quota `{kind}` of the project allows {left} more, and the policies need {more}")
    })
}
