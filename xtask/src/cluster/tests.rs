use std::sync::Arc;

use picket_cluster::{Snapshot, Spec, Written, assemble, parse};
use picket_policy::{Options, Policy, Position, lower};
use picket_testing::synthetic::{self, Size};

use super::files;

/// The snapshot of manifests that have no mistake.
fn read(texts: impl Iterator<Item = String>) -> Snapshot {
    let mut objects = Vec::new();
    for text in texts {
        let (manifests, mut diagnostics) = picket_policy::read(&Arc::from("-"), text.as_bytes());
        for manifest in manifests {
            let policy = lower(
                &manifest,
                Options {
                    strict_cidr: true,
                    ..Options::default()
                },
            )
            .map(|lowered| {
                diagnostics.extend(lowered.diagnostics);
                let policy = lowered.policy.expect("a policy that can be read");
                let (object, spec) = (policy.object.clone(), Spec::Policy(policy));
                Written {
                    object,
                    span: manifest.source().span(0..0),
                    places: std::collections::BTreeMap::new(),
                    spec,
                }
            });
            objects.extend(policy.or_else(|| parse(&manifest, &mut diagnostics)));
        }
        assert_eq!(diagnostics, []);
    }
    let (snapshot, diagnostics) = assemble(objects);
    assert_eq!(diagnostics, []);
    snapshot
}

/// The policy as if it came from no file.
fn without_positions(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    policy.position = Position::unknown();
    for rule in policy.ingress.rules.iter_mut().chain(&mut policy.egress.rules) {
        rule.position = Position::unknown();
    }
    policy
}

#[test]
fn manifests_read_back_as_the_cluster_they_were_written_from() {
    for seed in [1, 2] {
        let size = Size {
            pods: 120,
            namespaces: 5,
            policies: 100,
            seed,
        };
        let (expected, mut found) = (synthetic::cluster(size), read(files(size).into_values()));
        for policy in found.policies.values_mut() {
            *policy = Arc::new(without_positions(policy));
        }
        assert_eq!(found.namespaces, expected.namespaces);
        assert_eq!(found.nodes, expected.nodes);
        assert_eq!(found.pods, expected.pods);
        assert_eq!(found.policies, expected.policies);
    }
}

#[test]
fn the_same_numbers_give_the_same_bytes() {
    let size = Size {
        pods: 30,
        namespaces: 3,
        policies: 20,
        seed: 7,
    };
    assert_eq!(files(size), files(size));
    assert_ne!(files(size), files(Size { seed: 8, ..size }));
}
