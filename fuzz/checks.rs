//! What must hold for every input. Shared by the fuzz targets, which search for inputs, and by
//! `crates/picket-policy/tests/`, which replays those that were found.

#[path = "damage.rs"]
pub(crate) mod damage;

use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Prefix;
use picket_policy::{Action, Diagnostic, List, Options, Policy, Severity, Tier, lower, read};

/// Files are read without panic, every place lies in the file, and what is left out is reported. No document takes
/// the one after it along.
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
    if std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0')) {
        let followed = [bytes, b"\n...\n---\n{apiVersion: v1, kind: Last}\n"].concat();
        let (followed, _) = read(&Arc::from("fuzz.yaml"), &followed);
        assert!(
            followed.last().is_some_and(|last| last.kind() == "Last"),
            "the last document is lost"
        );
    }
}

/// Policies are lowered without panic into what the lowered form allows, and one that is lost is reported. Ends of
/// lines make no difference, and damage makes no policy wider.
pub(crate) fn network_policy(bytes: &[u8]) {
    let (manifests, _) = read(&Arc::from("fuzz.yaml"), bytes);
    for manifest in &manifests {
        for strict_cidr in [false, true] {
            let Some(lowered) = lower(
                manifest,
                Options {
                    strict_cidr,
                    ..Options::default()
                },
            ) else {
                continue;
            };
            check_places(&lowered.diagnostics, bytes);
            match &lowered.policy {
                Some(policy) => check_policy(policy),
                None => assert!(lowered.diagnostics.iter().any(|d| d.severity == Severity::Error)),
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if !text.contains('\r') {
            assert_eq!(policies(&text.replace('\n', "\r\n")), policies(text));
        }
        damage::never_widens(text);
    }
}

/// The policies of a file, without the names: those that picket makes up depend on the text.
fn policies(text: &str) -> Vec<Option<Policy>> {
    let (manifests, _) = read(&Arc::from("fuzz.yaml"), text.as_bytes());
    let lowered = manifests
        .iter()
        .filter_map(|manifest| lower(manifest, Options::default()));
    let nameless = |mut policy: Policy| {
        policy.object.name = "".into();
        policy
    };
    lowered.map(|lowered| lowered.policy.map(nameless)).collect()
}

/// Prefixes are read without panic, and print as what reads back as the same prefix without notes. What is spelt as
/// the standard library spells it is the prefix that it says.
pub(crate) fn prefix(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok((prefix, _)) = Prefix::parse(text) {
        assert_eq!(Prefix::parse(&prefix.to_string()), Ok((prefix, vec![])), "{text}");
        assert!(prefix.contains(prefix.first()) && prefix.contains(prefix.last()));
        assert_eq!(Prefix::new(prefix.first(), prefix.length()), Some(prefix));
    }
    let spelt = text.split_once('/').and_then(|(address, length)| {
        let digits = length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|_| digits)?;
        Some((address.parse::<IpAddr>().ok()?, length))
    });
    if let Some((address, length)) = spelt {
        let expected = match (address.to_canonical(), length) {
            (IpAddr::V4(mapped), 96..=128) if address.is_ipv6() => Prefix::new(mapped.into(), length - 96),
            _ => Prefix::new(address, length),
        };
        assert_eq!(
            Prefix::parse(text).ok().map(|(prefix, _)| prefix),
            expected,
            "{text}"
        );
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
    if policy.tier != Tier::NetworkPolicy {
        return check_tiered(policy);
    }
    assert_eq!(policy.priority, 0);
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

fn check_tiered(policy: &Policy) {
    assert!(policy.priority <= 1000);
    assert!(policy.object.namespace.is_empty(), "it is in no namespace");
    for side in [&policy.ingress, &policy.egress] {
        assert!(!side.isolates, "it denies by rules alone");
        for (rule, index) in side.rules.iter().zip(0..) {
            assert_eq!(rule.index, index);
            assert!(rule.position.line >= 1);
            let nobody = matches!(&rule.peers, List::Items(peers) if peers.is_empty());
            assert!(
                !nobody || rule.action == Action::Accept,
                "what denies denies something"
            );
        }
    }
}
