mod asked;
mod bad;
mod brute;
mod examples;
mod properties;

use picket_cluster::{Semantics, Snapshot};
use picket_policy::{Diagnostic, read};

use super::*;

/// The assertions of a file's tests, and what is wrong with them.
fn parsed(tests: &str) -> (Vec<Assertion>, Vec<Diagnostic>) {
    let text = if tests.starts_with("apiVersion") {
        tests.to_owned()
    } else {
        format!("apiVersion: picket.dev/v1\nkind: ConnectivityTest\n{tests}")
    };
    let (manifests, mut problems) = read(&"tests.yaml".into(), text.as_bytes());
    let mut assertions = Vec::new();
    for manifest in &manifests {
        let (found, more) = parse(manifest);
        assertions.extend(found);
        problems.extend(more);
    }
    (assertions, problems)
}

#[track_caller]
fn sound(tests: &str) -> Vec<Assertion> {
    let (assertions, problems) = parsed(tests);
    assert_eq!(problems, [], "{tests}");
    assertions
}

/// How the assertions of a file fare.
#[track_caller]
fn outcomes(snapshot: &Snapshot, tests: &str) -> Result<Vec<Outcome>, Vec<Diagnostic>> {
    run(snapshot, &Semantics::default(), &sound(tests))
}

/// The text for people.
#[track_caller]
fn shown(snapshot: &Snapshot, tests: &str) -> String {
    let assertions = sound(tests);
    let outcomes = run(snapshot, &Semantics::default(), &assertions).unwrap();
    let judged: Vec<_> = assertions.iter().zip(&outcomes).collect();
    let mut out = Vec::new();
    write::text(&judged, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}
