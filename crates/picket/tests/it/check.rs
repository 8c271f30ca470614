use serde_json::json;

use crate::{Manifests, shop};

const SLOPPY: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: p, namespace: default}
spec:
  podSelector: {}
  ingress: [{from: [{ipBlock: {cidr: 10.0.0.5/8}}]}]
";

#[test]
fn clean_manifests_are_counted() {
    let manifests = shop();
    std::fs::write(
        manifests.path().join("map.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n",
    )
    .unwrap();
    let ran = manifests.picket("check", &[]);
    assert_eq!(
        (ran.stdout.as_str(), ran.status),
        (
            "3 files: 1 Deployment, 1 Namespace, 1 NetworkPolicy, 2 Node, 4 Pod, 1 Service; ignored: 1 ConfigMap\n\
             0 errors, 0 warnings\n",
            0
        )
    );
}

#[test]
fn warnings_fail_only_when_asked_to() {
    let manifests = Manifests::new(&[("p.yaml", SLOPPY)]);
    for (arguments, status) in [
        (vec![], 0),
        (vec!["--deny-warnings"], 1),
        (vec!["--strict-cidr"], 1),
    ] {
        assert_eq!(
            manifests.picket("check", &arguments).status,
            status,
            "{arguments:?}"
        );
    }
}

#[test]
fn the_place_is_shown_in_its_line() {
    let ran = Manifests::new(&[("p.yaml", SLOPPY)]).picket("check", &[]);
    assert!(
        ran.stdout.contains("--> ./p.yaml:6:38") && ran.stdout.contains("cidr: 10.0.0.5/8"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains('\u{1b}'));
}

#[test]
fn a_place_in_a_long_line_is_shown_with_what_is_near() {
    let item = |name: usize| {
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": format!("p{name}"), "namespace": "default", "annotations": {"é": "é"}},
            "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.5/8"}}]}]},
        })
    };
    let items: Vec<_> = (0..300).map(item).collect();
    let text = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let column = text.chars().collect::<String>().find("10.0.0.5/8").unwrap();
    let column = text[..column].chars().count();
    // The policies all say the same, which is not what this is about.
    let ran = Manifests::new(&[("dump.json", &text)]).picket("check", &["--ignore", "L011"]);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert!(
        lines.iter().all(|line| line.chars().count() < 250),
        "{}",
        ran.stdout
    );
    let places: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("--> ./dump.json:1:"))
        .collect();
    assert!(places.len() >= 300, "{}", places.len());
    assert!(
        places
            .iter()
            .any(|place| place.ends_with(&format!("dump.json:1:{column}"))),
        "{column}: {places:?}"
    );
    let shown = lines
        .iter()
        .find(|line| line.contains("10.0.0.5/8") && line.contains("…"))
        .unwrap();
    let mark = lines
        .iter()
        .find(|line| line.trim_start_matches([' ', '|']).starts_with("^^^^"))
        .unwrap();
    let at = |line: &str, text: &str| line[..line.find(text).unwrap()].chars().count();
    assert_eq!(at(shown, "\"10.0.0.5/8\""), at(mark, "^"));
}

#[test]
fn sarif_names_rules_levels_and_places() {
    let ran = Manifests::new(&[("a b.yaml", SLOPPY)]).picket("check", &["-o", "sarif"]);
    let log = ran.json();
    let result = &log["runs"][0]["results"][0];
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(result["level"], "warning");
    assert_eq!(
        result["ruleId"],
        log["runs"][0]["tool"]["driver"]["rules"][0]["id"]
    );
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "./a%20b.yaml");
    assert_eq!(
        place["region"],
        json!({"startLine": 6, "startColumn": 38, "endLine": 6, "endColumn": 48})
    );
}

/// Denies ingress without saying so.
const EGRESS: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: p
  namespace: default
spec:
  podSelector: {}
  egress: [{to: [{ipBlock: {cidr: 192.0.2.0/24}}]}]
";

#[test]
fn lints_are_warnings_that_can_be_left_out() {
    let manifests = Manifests::new(&[("p.yaml", EGRESS)]);
    for (arguments, finds, status) in [
        (vec![], true, 0),
        (vec!["--deny-warnings"], true, 1),
        (vec!["--deny-warnings", "--ignore", "L001,L003"], false, 0),
        (vec!["--deny-warnings", "--ignore", "l003"], false, 0),
    ] {
        let ran = manifests.picket("check", &arguments);
        assert_eq!(
            (ran.stdout.contains("warning[L003]"), ran.status),
            (finds, status),
            "{arguments:?}"
        );
    }
    let ran = manifests.picket("check", &["--ignore", "L999"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("no lint has this code"), "{}", ran.stderr);
}

#[test]
fn lints_are_in_json_and_sarif_as_other_findings_are() {
    let manifests = Manifests::new(&[("p.yaml", EGRESS)]);
    let found = &manifests.picket("check", &["-o", "json"]).json()["diagnostics"][0];
    assert_eq!(found["code"], "L003");
    assert_eq!(
        (&found["line"], &found["field"]),
        (&json!(8), &json!("spec.egress"))
    );
    let log = manifests.picket("check", &["-o", "sarif"]).json();
    let run = &log["runs"][0];
    assert_eq!(run["results"][0]["ruleId"], "L003");
    let title = &run["tool"]["driver"]["rules"][0]["shortDescription"]["text"];
    assert_eq!(title, "Egress rules that also deny ingress");
}
