//! "Bad input must give" of the issue, one test per line, and the exit statuses around it.

use serde_json::json;

use crate::{CLUSTER, Manifests, POLICIES, Ran, run, shop};

fn fails_with(ran: &Ran, message: &str) {
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains(message), "{message}: {}", ran.stderr);
    assert_eq!(ran.stderr.matches(message).count(), 1, "{}", ran.stderr);
}

#[test]
fn a_missing_file() {
    let manifests = shop();
    for command in ["check", "matrix"] {
        fails_with(
            &run(manifests.path(), &[command, "-f", "none.yaml"], ""),
            "`none.yaml` does not exist",
        );
    }
}

#[test]
fn an_empty_directory() {
    fails_with(
        &Manifests::new(&[]).picket("check", &[]),
        "hold no file ending in .yaml, .yml or .json",
    );
}

#[test]
fn empty_standard_input() {
    fails_with(
        &run(shop().path(), &["check", "-f", "-"], ""),
        "the input holds no object",
    );
}

#[test]
fn standard_input_for_both_manifests_and_questions() {
    fails_with(
        &run(shop().path(), &["eval", "-f", "-", "--batch", "-"], CLUSTER),
        "standard input (`-`) cannot hold both the manifests and the batch",
    );
}

#[test]
fn a_manifest_without_kind() {
    let manifests = Manifests::new(&[("a.yaml", "metadata: {name: x}\n"), ("b.yaml", CLUSTER)]);
    let ran = manifests.picket("check", &["-o", "json"]);
    assert_eq!(
        (ran.json()["diagnostics"][0]["code"].clone(), ran.status),
        (json!("P011"), 1)
    );
    let ran = manifests.picket(
        "eval",
        &[
            "--from", "shop/web", "--to", "shop/db", "--port", "80", "-o", "json",
        ],
    );
    let answer = ran.json();
    assert_eq!(
        (&answer["verdict"], &answer["diagnostics"][0]["code"], ran.status),
        (&json!("allow"), &json!("P011"), 0)
    );
    let ran = manifests.picket("eval", &["--from", "shop/web", "--to", "shop/db", "--port", "80"]);
    assert!(ran.stderr.contains("P011") && ran.stdout.starts_with("allow"));
}

#[test]
fn a_policy_that_names_an_unknown_namespace() {
    let policy = POLICIES.replace("namespace: shop", "namespace: shpo");
    let ran = Manifests::new(&[("c.yaml", CLUSTER), ("p.yaml", &policy)]).picket("check", &["-o", "json"]);
    let report = ran.json();
    let found = report["diagnostics"].as_array().unwrap();
    assert!(
        found.iter().any(|one| one["code"] == "C007" && one["line"] == 3),
        "{report:#}"
    );
}

#[test]
fn an_endpoint_that_does_not_exist() {
    let manifests = shop();
    for (from, to, message) in [
        (
            "shop/wbe",
            "shop/db",
            "from: nothing in the input is called `shop/wbe`; did you mean `shop/web`",
        ),
        (
            "shop/web",
            "shop/api",
            "to: nothing in the input is called `shop/api`; did you mean `shop/Deployment/api`?",
        ),
        ("shop/done", "shop/db", "from: pod `shop/done` has finished"),
        (
            "shop/web",
            "10.96.0.7",
            "to: `10.96.0.7` is an address of service `shop/db`",
        ),
    ] {
        fails_with(
            &manifests.picket("eval", &["--from", from, "--to", to, "--port", "80"]),
            message,
        );
    }
}

#[test]
fn a_port_name_no_pod_has() {
    let ran = shop().picket(
        "eval",
        &[
            "--from", "shop/web", "--to", "shop/db", "--port", "nope", "-o", "json",
        ],
    );
    let answer = ran.json();
    assert_eq!(
        (&answer["ingress"]["reason"], &answer["port"], ran.status),
        (&json!("unresolved-port-name"), &json!(null), 1)
    );
    let policy = POLICIES.replace("{port: sql}", "{port: sqll}");
    let ran = Manifests::new(&[("c.yaml", CLUSTER), ("p.yaml", &policy)]).picket("check", &["-o", "json"]);
    assert!(
        ran.json()["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["code"] == "C008"),
        "{}",
        ran.stdout
    );
}

#[test]
fn two_pods_with_one_address() {
    let twice = CLUSTER.replace("10.0.0.2", "10.0.0.1");
    let ran = Manifests::new(&[("c.yaml", &twice)]).picket("check", &["-o", "json"]);
    assert_eq!(
        (ran.json()["diagnostics"][0]["code"].clone(), ran.status),
        (json!("C003"), 1)
    );
}

#[test]
fn an_address_of_the_wrong_family() {
    let two = CLUSTER.replace("fd00::2", "10.0.0.22");
    let ran = Manifests::new(&[("c.yaml", &two)]).picket("check", &["-o", "json"]);
    assert_eq!(
        (ran.json()["diagnostics"][0]["code"].clone(), ran.status),
        (json!("C004"), 1)
    );
}

#[test]
fn yaml_that_cannot_be_parsed_is_status_2_with_the_rest_answered() {
    let manifests = Manifests::new(&[("a.yaml", CLUSTER), ("b.yaml", "a: [1\nb: }\n")]);
    let ran = manifests.picket("eval", &["--from", "shop/web", "--to", "shop/db", "--port", "80"]);
    assert!(
        ran.status == 2 && ran.stdout.starts_with("allow") && ran.stderr.contains("P002"),
        "{}",
        ran.stderr
    );
    assert_eq!(manifests.picket("check", &[]).status, 2);
    assert_eq!(
        manifests.picket("matrix", &["-o", "json"]).json()["diagnostics"][0]["code"],
        "P002"
    );
}

#[test]
fn wrong_usage_is_status_2() {
    let manifests = shop();
    for arguments in [
        vec![],
        vec!["chekc"],
        vec!["check"],
        vec!["eval", "-f", "."],
        vec![
            "eval", "-f", ".", "--from", "shop/web", "--to", "shop/db", "--port", "0",
        ],
        vec![
            "eval", "-f", ".", "--from", "shop/web", "--to", "shop/db", "--port", "80/icmp",
        ],
        vec!["eval", "-f", ".", "--batch", "none.jsonl"],
        vec!["matrix", "-f", ".", "-o", "xml"],
        vec!["render", "-f", "."],
    ] {
        let ran = run(manifests.path(), &arguments, "");
        assert!(
            ran.status == 2 && ran.stdout.is_empty() && !ran.stderr.is_empty(),
            "{arguments:?}"
        );
    }
}

#[test]
fn names_that_a_terminal_would_act_upon() {
    const ODD: &str = r#"
{apiVersion: v1, kind: Pod, metadata: {name: "\e[31mred\n|", namespace: "a\rb"}, spec: {nodeName: "\e]0;title\a", containers: [{ports: [{containerPort: 80, name: "\u202eptth"}]}]}}
---
{apiVersion: v1, kind: "Po\ed", metadata: {name: a}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: "\e[2J", namespace: "a\rb"}, spec: {podSelector: {}, ingress: [{ports: [{port: http}]}]}}
"#;
    let manifests = Manifests::new(&[("a.yaml", ODD)]);
    let forms = ["table", "json", "csv", "md", "dot", "html"];
    let mut rans: Vec<_> = forms.map(|form| manifests.picket("matrix", &["-o", form])).into();
    rans.push(manifests.picket("check", &[]));
    rans.push(manifests.picket("render", &["--target", "nftables"]));
    let to = [
        "--from",
        "1.1.1.1",
        "--to",
        "a\u{fffd}b/\u{fffd}[31mred\u{fffd}|",
        "--port",
        "80",
    ];
    rans.push(manifests.picket("eval", &to));
    for Ran { stdout, stderr, .. } in &rans {
        let acts = |character: char| character.is_control() && !matches!(character, '\n' | '\r');
        assert!(
            !stdout.contains(acts) && !stderr.contains(acts),
            "{stdout}{stderr}"
        );
        assert!(
            !stdout.contains('\u{202e}') && !stderr.contains('\u{202e}'),
            "{stdout}{stderr}"
        );
        assert!(!stdout.contains("red\n"), "{stdout}");
    }
    let eval = rans.last().map(|ran| ran.status);
    assert_eq!(eval, Some(1), "the policy isolates the pod");
}

#[test]
fn an_agent_in_pods_with_flags_about_the_table_of_the_node() {
    for flag in ["--until-synced=deny", "--anti-spoof=off"] {
        let arguments = ["agent", "--container-runtime-endpoint", "/none.sock", flag];
        let ran = run(shop().path(), &arguments, "");
        let flag = flag.split('=').next().unwrap_or(flag);
        assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(flag), "{flag}: {}", ran.stderr);
        assert!(ran.stderr.contains("cannot be used with"), "{}", ran.stderr);
    }
}
