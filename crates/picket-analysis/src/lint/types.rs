//! `policyTypes`: directions that a policy isolates without saying so, and rules for directions that it is not about.

use picket_policy::{Diagnostic, Direction, Side};

use super::{Subject, advice, table};

pub(super) fn check(about: &Subject<'_>, found: &mut Vec<Diagnostic>) {
    if about.is_tiered() {
        return;
    }
    found.extend(isolated_by_default(about));
    found.extend(inert(about));
}

/// Egress rules without `policyTypes`: the default adds `Egress` to `Ingress` instead of replacing it.
fn isolated_by_default(about: &Subject<'_>) -> Option<Diagnostic> {
    let Side { isolates, rules } = &about.policy.ingress;
    let has_egress = about.policy.egress.isolates && !about.policy.egress.rules.is_empty();
    if !isolates || !rules.is_empty() || !has_egress {
        return None;
    }
    let spec = about.place().field("spec");
    let types = spec.field("policyTypes");
    let is_default = types
        .node()
        .is_none_or(|types| types.is_null() || types.items().is_empty());
    if !is_default || spec.field("ingress").node().is_some() || !spec.is_known() {
        return None;
    }
    let message = format!(
        "{} has egress rules only, but also denies all ingress: `policyTypes` is missing, and its default always \
         holds `Ingress`",
        about.policy.object
    );
    let mut diagnostic = about.warning(table::INGRESS_BY_DEFAULT, &spec.field("egress"), message);
    let write = "write `policyTypes: [Egress]` to leave ingress as it is, or `policyTypes: [Ingress, Egress]` to deny it";
    diagnostic.fixes.push(advice(write));
    Some(diagnostic)
}

/// Rules in a direction that `policyTypes` does not list.
fn inert(about: &Subject<'_>) -> Option<Diagnostic> {
    let silent: Vec<_> = Direction::BOTH
        .into_iter()
        .filter(|direction| !about.policy.side(*direction).isolates)
        .collect();
    let &[direction] = silent.as_slice() else {
        return None;
    };
    let (name, listed) = match direction {
        Direction::Ingress => ("ingress", "Ingress"),
        Direction::Egress => ("egress", "Egress"),
    };
    if !about.context.texts.may_mention(about.policy, name) {
        return None;
    }
    let spec = about.place().field("spec");
    let rules = spec.field(name);
    let lists_types = spec
        .field("policyTypes")
        .node()
        .is_some_and(|types| !types.items().is_empty());
    if !lists_types || rules.node().is_none_or(|rules| rules.items().is_empty()) {
        return None;
    }
    let message = format!(
        "the {name} rules of {} have no effect: `policyTypes` does not list `{listed}`",
        about.policy.object
    );
    let diagnostic = about.warning(table::INERT_RULES, &rules, message);
    let mut diagnostic = match spec.field("policyTypes").span() {
        Some(span) => diagnostic.mark(span, "these directions count"),
        None => diagnostic,
    };
    diagnostic.fixes.push(advice(format!(
        "add `{listed}` to `policyTypes`, which denies all other {name}, or remove the rules"
    )));
    Some(diagnostic)
}
