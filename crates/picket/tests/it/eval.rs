use serde_json::json;

use crate::{run, shop};

/// The verdict and exit status of one question.
fn ask(from: &str, to: &str, port: &str, more: &[&str]) -> (serde_json::Value, i32) {
    let arguments = [&["--from", from, "--to", to, "--port", port, "-o", "json"], more].concat();
    let ran = shop().picket("eval", &arguments);
    (ran.json(), ran.status)
}

#[test]
fn the_exit_status_is_the_verdict() {
    for (from, to, port, verdict, status) in [
        ("shop/web", "shop/db", "sql", "allow", 0),
        ("shop/web", "shop/db", "5432/tcp", "allow", 0),
        ("shop/web", "shop/db", "80", "deny", 1),
        ("shop/web", "shop/db", "5432/UDP", "deny", 1),
        ("shop/Deployment/api", "shop/db", "5432", "deny", 1),
        ("203.0.113.1", "shop/db", "5432", "allow", 0),
        ("203.0.113.129", "shop/db", "5432", "deny", 1),
        ("203.0.113.1", "shop/db", "9010/udp", "allow", 0),
        ("shop/db", "shop/web", "proto:47", "allow", 0),
        ("n2", "shop/db", "80", "allow", 0),
        ("n1", "shop/db", "80", "deny", 1),
        ("shop/web", "shop/db", "http", "deny", 1),
        ("shop/db", "2001:db8::1", "icmpv6", "allow", 0),
        ("192.0.2.1", "2001:db8::1", "80", "deny", 1),
    ] {
        let (answer, found) = ask(from, to, port, &[]);
        assert_eq!(
            (&answer["verdict"], found),
            (&json!(verdict), status),
            "{from} → {to} {port}: {answer:#}"
        );
    }
}

#[test]
fn causes_name_the_policy_the_rule_and_its_place() {
    let (answer, _) = ask("shop/web", "shop/db", "sql/tcp", &[]);
    let ingress = json!({"verdict": "allow", "reason": "allowed-by-rule", "causes": [
        {"kind": "NetworkPolicy", "namespace": "shop", "name": "db", "direction": "ingress", "rule": 0,
         "file": "./policies.yaml", "line": 7},
    ]});
    let egress = json!({"verdict": "allow", "reason": "not-isolated", "causes": []});
    let family = json!({"verdict": "allow", "egress": egress, "ingress": ingress});
    assert_eq!(
        answer,
        json!({
            "from": "shop/web", "to": "shop/db", "protocol": "TCP", "port": 5432, "portName": "sql",
            "verdict": "allow", "families": {"ipv4": family, "ipv6": family}, "egress": egress, "ingress": ingress,
        })
    );
    let (answer, _) = ask("shop/web", "shop/db", "1", &[]);
    assert_eq!(answer["ingress"]["causes"][0]["rule"], json!(null));
}

#[test]
fn an_address_of_a_pod_or_node_is_that_pod_or_node() {
    for (address, id) in [
        ("10.0.0.1", "shop/web"),
        ("fd00::1", "shop/web"),
        ("10.9.0.1", "n1"),
        ("10.0.0.9", "10.0.0.9"),
    ] {
        assert_eq!(ask(address, "shop/db", "5432", &[]).0["from"], id, "{address}");
    }
    assert_eq!(
        ask("10.0.0.1", "10.0.0.2", "sql", &[]),
        ask("shop/web", "shop/db", "sql", &[])
    );
}

#[test]
fn one_family_can_be_asked_about() {
    let (answer, _) = ask("shop/web", "shop/db", "sql", &["--family", "ipv6"]);
    assert!(answer["families"].get("ipv4").is_none() && answer.get("ingress").is_some());
    let (answer, status) = ask("n2", "shop/db", "sql", &["--family", "ipv6"]);
    assert_eq!(
        (&answer["ingress"]["reason"], status),
        (&json!("no-common-family"), 1)
    );
}

#[test]
fn flags_change_the_semantics() {
    let (answer, status) = ask("n1", "shop/db", "icmp", &["--accept-icmp"]);
    assert_eq!(
        (&answer["ingress"]["reason"], status),
        (&json!("icmp-accepted"), 0)
    );
    let block = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/24}}]}]}
";
    let manifests = shop();
    std::fs::write(manifests.path().join("block.yaml"), block).unwrap();
    let question = [
        "--from", "shop/db", "--to", "shop/web", "--port", "80", "--family", "ipv4",
    ];
    for (flag, status) in [
        ("--ipblock-matches-pods", 0),
        ("--ipblock-matches-pods=true", 0),
        ("--ipblock-matches-pods=false", 1),
    ] {
        let arguments = [&question[..], &[flag]].concat();
        assert_eq!(manifests.picket("eval", &arguments).status, status, "{flag}");
    }
}

#[test]
fn people_get_the_verdict_both_reasons_and_the_causes() {
    let ran = shop().picket(
        "eval",
        &["--from", "shop/web", "--to", "shop/db", "--port", "sql"],
    );
    assert_eq!(
        ran.stdout,
        "allow: shop/web → shop/db, TCP sql (5432)\n  egress   allow  not-isolated\n  ingress  allow  allowed-by-rule\n    \
         NetworkPolicy shop/db, ingress rule 0 (./policies.yaml:7)\n"
    );
}

#[test]
fn a_batch_is_answered_line_by_line() {
    let questions = "{\"from\": \"shop/web\", \"to\": \"shop/db\", \"port\": \"sql/tcp\"}\n\
                     {\"from\": \"shop/web\", \"to\": \"shop/db\", \"port\": 81}\n";
    let manifests = shop();
    let path = manifests.path();
    let ran = run(
        path,
        &[
            "eval",
            "-f",
            "cluster.yaml",
            "-f",
            "policies.yaml",
            "--batch",
            "-",
            "-o",
            "json",
        ],
        questions,
    );
    let verdicts: Vec<_> = ran.lines().iter().map(|line| line["verdict"].clone()).collect();
    assert_eq!((verdicts, ran.status), (vec![json!("allow"), json!("deny")], 0));
    std::fs::write(
        path.join("questions"),
        format!("{questions}nonsense\n{questions}"),
    )
    .unwrap();
    let ran = manifests.picket("eval", &["--batch", "questions", "-o", "json"]);
    let codes: Vec<_> = ran
        .lines()
        .iter()
        .map(|line| line["error"]["code"].clone())
        .collect();
    assert_eq!(
        codes,
        [
            json!(null),
            json!(null),
            json!("bad-line"),
            json!(null),
            json!(null)
        ]
    );
    assert_eq!(ran.status, 2);
}
