//! NetworkPolicy of extensions/v1beta1: what means something else as it was proposed than as v1.

use picket_policy::{Diagnostic, Direction, Policy, Rule, Severity, V1beta1, lower};

use super::text::Place;
use super::{Subject, advice, table};

const VERSION: &str = "extensions/v1beta1";

pub(super) fn check(about: &Subject<'_>, read: V1beta1, found: &mut Vec<Diagnostic>) {
    let policy = about.policy;
    if policy.object.kind != "NetworkPolicy" || !about.context.texts.may_mention(policy, VERSION) {
        return;
    }
    let place = about.place();
    let Some([proposed, v1]) = both(&place) else {
        return;
    };
    if read == V1beta1::Proposal {
        found.extend(without_effect(about));
    }
    let rules = proposed.ingress.rules.iter().zip(&v1.ingress.rules);
    let differing = rules.filter(|(one, other)| (&one.peers, &one.ports) != (&other.peers, &other.ports));
    found.extend(differing.map(|(rule, _)| differently(about, read, rule)));
}

/// The policy as it was proposed and as v1; `None` for one of another version, and for one in which a part has no
/// meaning as one of the two, which is then no trap but an error.
fn both(place: &Place) -> Option<[Policy; 2]> {
    let manifest = place.manifest()?;
    if manifest.api_version() != VERSION {
        return None;
    }
    let [proposed, v1] = [V1beta1::Proposal, V1beta1::V1].map(|v1beta1| {
        let options = picket_policy::Options {
            v1beta1,
            ..Default::default()
        };
        let lowered = lower(manifest, options)?;
        let errors = lowered.diagnostics.iter();
        let sound = !errors.clone().any(|found| found.severity == Severity::Error);
        lowered.policy.filter(|_| sound)
    });
    Some([proposed?, v1?])
}

/// A policy that could as well not be there: only a namespace isolates, and this one allows nothing, or to pods which
/// nothing isolates.
fn without_effect(about: &Subject<'_>) -> Option<Diagnostic> {
    let (policy, namespace) = (about.policy, &about.policy.object.namespace);
    let spec = about.place().field("spec");
    if policy.ingress.rules.is_empty() {
        let message = format!(
            "{} has no effect: it has no rules, and read as it was proposed it isolates nothing; as v1 it denies all \
             ingress to its pods",
            policy.object
        );
        let mut diagnostic = about.warning(table::V1BETA1, &spec.field("ingress"), message);
        diagnostic.fixes.push(advice(isolate(namespace)));
        return Some(diagnostic);
    }
    if about.cluster().is_isolated(namespace, &policy.subject) {
        return None;
    }
    let message = format!(
        "{} has no effect: nothing isolates its pods in namespace `{namespace}`, and read as it was proposed a policy \
         isolates none; as v1 it denies them all other ingress",
        policy.object
    );
    let mut diagnostic = about.warning(table::V1BETA1, &about.place(), message);
    diagnostic.fixes.push(advice(isolate(namespace)));
    Some(diagnostic)
}

fn isolate(namespace: &str) -> String {
    format!(
        "annotate namespace `{namespace}` with `net.beta.kubernetes.io/network-policy`: `{{\"ingress\": \
         {{\"isolation\": \"DefaultDeny\"}}}}`, or write the policy as networking.k8s.io/v1"
    )
}

/// A rule with a list that is there and empty.
fn differently(about: &Subject<'_>, read: V1beta1, rule: &Rule) -> Diagnostic {
    let place = about.rule_place(Direction::Ingress, rule);
    let empty = ["from", "ports"]
        .map(|list| place.field(list))
        .into_iter()
        .find(|list| {
            let node = list.node();
            node.is_some_and(|node| !node.is_null() && node.items().is_empty())
        });
    let (here, there) = match read {
        V1beta1::Proposal => ("matches nothing as it was proposed", "leaves that open as v1"),
        V1beta1::Automatic | V1beta1::V1 => ("leaves that open as v1", "matches nothing as it was proposed"),
    };
    let at = empty.unwrap_or(place);
    let message = format!("`{}` is empty, so that the rule {here}, and {there}", at.path());
    let mut diagnostic = about.warning(table::V1BETA1, &at, message);
    let mend = "leave the list out to mean anybody or every port, or remove the rule to allow nothing: both versions \
                read that alike";
    diagnostic.fixes.push(advice(mend));
    diagnostic
}
