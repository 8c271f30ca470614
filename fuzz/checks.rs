//! What must hold for every input. Shared by the fuzz targets, which search for inputs, and by
//! `crates/picket-policy/tests/`, which replays those that were found.

use std::sync::Arc;

use picket_net::Prefix;
use picket_policy::{Diagnostic, List, Options, Policy, Severity, Tier, lower, read};

/// Files are read without panic, every place lies in the file, and what is left out is reported.
pub(crate) fn document(bytes: &[u8]) {
    let (manifests, diagnostics) = read(&Arc::from("fuzz.yaml"), bytes);
    let again = read(&Arc::from("fuzz.yaml"), bytes);
    assert_eq!(diagnostics, again.1, "reading is deterministic");
    check_places(&diagnostics, bytes);
    for manifest in &manifests {
        let range = &manifest.root().range;
        assert!(range.start <= range.end && range.end <= bytes.len());
        assert!(
            manifest.source().text().get(range.clone()).is_some(),
            "ranges lie on characters"
        );
        assert!(manifest.position().line >= 1);
    }
}

/// Policies are lowered without panic into what the lowered form allows, and one that is lost is reported.
pub(crate) fn network_policy(bytes: &[u8]) {
    let (manifests, _) = read(&Arc::from("fuzz.yaml"), bytes);
    for manifest in &manifests {
        for strict_cidr in [false, true] {
            let Some(lowered) = lower(manifest, Options { strict_cidr }) else {
                continue;
            };
            check_places(&lowered.diagnostics, bytes);
            match &lowered.policy {
                Some(policy) => check_policy(policy),
                None => assert!(lowered.diagnostics.iter().any(|d| d.severity == Severity::Error)),
            }
        }
    }
}

/// Prefixes are read without panic, and print as what reads back as the same prefix without notes.
pub(crate) fn prefix(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok((prefix, _)) = Prefix::parse(text) {
        assert_eq!(Prefix::parse(&prefix.to_string()), Ok((prefix, vec![])), "{text}");
        assert!(prefix.contains(prefix.first()) && prefix.contains(prefix.last()));
    }
}

fn check_places(diagnostics: &[Diagnostic], bytes: &[u8]) {
    for diagnostic in diagnostics {
        assert!(!diagnostic.labels.is_empty(), "{diagnostic:?}");
        let edits = diagnostic.fixes.iter().flat_map(|fix| &fix.edits);
        let spans = diagnostic
            .labels
            .iter()
            .map(|label| &label.span)
            .chain(edits.map(|edit| &edit.span));
        for span in spans {
            assert!(
                span.start <= span.end && span.end <= bytes.len() + 1,
                "{diagnostic:?}"
            );
            assert!((1, 1) <= (span.line, span.column), "{diagnostic:?}");
            assert!(
                (span.line, span.column) <= (span.end_line, span.end_column),
                "{diagnostic:?}"
            );
        }
    }
}

fn check_policy(policy: &Policy) {
    assert_eq!((policy.tier, policy.priority), (Tier::NetworkPolicy, 0));
    assert!(
        policy.ingress.isolates || policy.egress.isolates,
        "a policy isolates something"
    );
    for side in [&policy.ingress, &policy.egress] {
        assert!(side.isolates || side.rules.is_empty(), "inert rules are left out");
        for (rule, index) in side.rules.iter().zip(0..) {
            assert_eq!(rule.index, index);
            assert!(rule.position.line >= 1);
            assert!(
                !matches!(&rule.ports, List::Items(ports) if ports.is_empty()),
                "v1 has no empty list of ports"
            );
        }
    }
}
