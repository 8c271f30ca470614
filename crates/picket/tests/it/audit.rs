//! Policies that are only audited.

use serde_json::json;

use crate::schema::assert_valid;
use crate::{Manifests, run};

fn tried(mode: &str) -> Manifests {
    let cluster = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: x}}}}\n---\n\
         {{apiVersion: v1, kind: Pod, metadata: {{name: b, namespace: x, labels: {{app: b}}}}}}\n---\n\
         apiVersion: networking.k8s.io/v1\n\
         kind: NetworkPolicy\n\
         metadata: {{name: tried, namespace: x, annotations: {{picket.dev/mode: {mode}}}}}\n\
         spec: {{podSelector: {{matchLabels: {{app: b}}}}, ingress: [{{ports: [{{port: 80}}]}}]}}\n"
    );
    Manifests::new(&[("cluster.yaml", &cluster)])
}

const QUESTION: [&str; 6] = ["--from", "x/a", "--to", "x/b", "--port", "81"];

#[test]
fn what_an_audited_policy_denies_is_allowed_and_told() {
    let manifests = tried("audit");
    let told = "audited, else denied: NetworkPolicy x/tried, isolates";
    for command in ["eval", "explain"] {
        let ran = manifests.picket(command, &QUESTION);
        assert!(ran.stdout.contains(told), "{}", ran.stdout);
        let ran = manifests.picket(command, &[&QUESTION[..], &["-o", "json"]].concat());
        let answer = ran.json();
        assert_valid(command, std::slice::from_ref(&answer));
        assert_eq!(answer["verdict"], "allow");
        let told = answer.to_string().contains("\"audited\":[{");
        assert!(told, "{answer:#}");
    }
    assert_eq!(manifests.picket("eval", &QUESTION).status, 0);
    let allowed = [&QUESTION[..5], &["80"]].concat();
    let ran = manifests.picket("eval", &allowed);
    assert!(!ran.stdout.contains("audited"), "{}", ran.stdout);
    let ran = manifests.picket("eval", &[&QUESTION[..], &["--enforce-audited"]].concat());
    assert_eq!(ran.status, 1);
    assert!(!ran.stdout.contains("audited"), "{}", ran.stdout);
}

#[test]
fn what_is_no_mode_is_an_error_and_enforces() {
    let manifests = tried("Audit");
    let ran = manifests.picket("check", &["-o", "json"]);
    assert_eq!(ran.status, 1);
    let found = &ran.json()["diagnostics"][0];
    assert_eq!(
        (&found["code"], &found["field"], &found["line"]),
        (
            &json!("P118"),
            &json!("metadata.annotations.picket.dev/mode"),
            &json!(7)
        ),
        "{found:#}"
    );
    assert_eq!(manifests.picket("eval", &QUESTION).status, 1);
}

#[test]
fn a_difference_is_what_enforcing_takes_away() {
    let (before, after) = (tried("audit"), tried("enforce"));
    let sides = [&before, &after].map(|side| side.path().to_str().unwrap());
    let ran = run(before.path(), &[&["diff"], &sides[..]].concat(), "");
    for told in [
        "NetworkPolicy x/tried changed",
        "narrowed  x/a → x/b: TCP 80, before: everything",
    ] {
        assert!(ran.stdout.contains(told), "{}", ran.stdout);
    }
}
