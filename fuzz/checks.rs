//! What must hold for every input. Shared by the fuzz targets, which search for inputs, and by
//! `crates/picket-policy/tests/`, which replays those that were found.

#[path = "damage.rs"]
pub(crate) mod damage;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{Prefix, Protocol};
use picket_policy::{
    Action, Diagnostic, DomainName, Hosts, List, Manifest, Options, Policy, PortMatch, Severity, Side, Tier,
    V1beta1, lower, namespace_isolation, read,
};

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
        for options in every_option() {
            let Some(lowered) = lower(manifest, options) else {
                continue;
            };
            check_places(&lowered.diagnostics, bytes);
            match &lowered.policy {
                Some(policy) => check_policy(policy, manifest, options),
                None => assert!(lowered.diagnostics.iter().any(|d| d.severity == Severity::Error)),
            }
        }
        isolation(manifest, bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if !text.contains('\r') {
            assert_eq!(policies(&text.replace('\n', "\r\n")), policies(text));
        }
        for v1beta1 in [V1beta1::V1, V1beta1::Proposal] {
            damage::never_widens(
                text,
                Options {
                    v1beta1,
                    ..Options::default()
                },
            );
        }
    }
}

fn every_option() -> impl Iterator<Item = Options> {
    let versions = [V1beta1::V1, V1beta1::Proposal].into_iter();
    versions.flat_map(|v1beta1| {
        [false, true].map(|strict_cidr| Options {
            strict_cidr,
            v1beta1,
            ..Options::default()
        })
    })
}

/// What a namespace says about its isolation isolates ingress, or nothing; what cannot be read isolates.
fn isolation(manifest: &Manifest, bytes: &[u8]) {
    let Some(lowered) = namespace_isolation(manifest) else {
        return;
    };
    check_places(&lowered.diagnostics, bytes);
    if let Some(policy) = lowered.policy {
        assert_eq!(policy.object.kind, "Namespace");
        assert!(policy.ingress.isolates && !policy.egress.isolates);
        assert!(policy.ingress.rules.is_empty() && policy.egress.rules.is_empty());
    } else {
        let metadata = manifest.root().get("metadata");
        let name = metadata
            .and_then(|metadata| metadata.get("name"))
            .and_then(|name| name.as_str());
        let is_named = name.is_some_and(|name| !name.is_empty()) && !manifest.is_broken();
        assert!(lowered.diagnostics.is_empty() || !is_named, "{lowered:?}");
    }
}

/// A file in the format of hosts is read line by line as all at once, and its ends of lines make no difference.
pub(crate) fn hosts(bytes: &[u8]) {
    let read = |bytes: &[u8]| Hosts::read(&Arc::from("hosts"), bytes);
    let (hosts, diagnostics) = read(bytes);
    check_places(&diagnostics, bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.contains(['\0', '\r', '\u{feff}']) {
        return;
    }
    let lines: Vec<_> = text
        .split_inclusive('\n')
        .map(|line| read(line.as_bytes()))
        .collect();
    assert_eq!(
        lines.iter().map(|(_, found)| found.len()).sum::<usize>(),
        diagnostics.len()
    );
    let domains = text.split_whitespace().filter_map(DomainName::parse);
    let below = text
        .split_whitespace()
        .filter_map(|name| DomainName::parse(&format!("*.{name}")));
    for domain in domains.chain(below) {
        let each: BTreeSet<_> = lines
            .iter()
            .flat_map(|(hosts, _)| hosts.addresses(&domain))
            .collect();
        assert_eq!(hosts.addresses(&domain), each, "{domain}");
    }
    assert_eq!(read(text.replace('\n', "\r\n").as_bytes()).0, hosts);
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

fn check_policy(policy: &Policy, manifest: &Manifest, options: Options) {
    if policy.tier != Tier::NetworkPolicy {
        return check_tiered(policy);
    }
    assert_eq!(policy.priority, 0);
    if manifest.api_version() == "extensions/v1beta1" && options.v1beta1 == V1beta1::Proposal {
        return check_proposed(policy);
    }
    let networks = policy.networks.attached();
    assert!(networks.is_sorted_by(|one, other| one < other));
    assert!(networks.is_empty() || manifest.kind() == "MultiNetworkPolicy");
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

/// It isolates nothing, and has rules about connections to its pods over TCP and UDP alone.
fn check_proposed(policy: &Policy) {
    assert!(!policy.ingress.isolates && policy.egress == Side::default());
    for (rule, index) in policy.ingress.rules.iter().zip(0..) {
        assert_eq!((rule.index, rule.action), (index, Action::Accept));
        if let List::Items(ports) = &rule.ports {
            let sctp = [PortMatch::Protocol(Protocol::SCTP)];
            assert!(ports.iter().all(|port| !sctp.contains(port)));
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
