//! Real outputs are as `docs/schema` says.

use picket_cluster::Reason;
use serde_json::{Value, json};

use crate::{CLUSTER, Manifests, POLICIES, run, shop};

pub(crate) fn schema(name: &str) -> Value {
    let path = format!(
        "{}/../../docs/schema/{name}.schema.json",
        env!("CARGO_MANIFEST_DIR")
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap().replace("2}]?$", "2}?$")).unwrap()
}

#[track_caller]
pub(crate) fn assert_valid(name: &str, instances: &[Value]) {
    let schema = schema(name);
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap();
    assert!(!instances.is_empty());
    for instance in instances {
        let errors: Vec<_> = validator
            .iter_errors(instance)
            .map(|error| format!("{error}"))
            .collect();
        assert!(errors.is_empty(), "{errors:?}\n{instance:#}");
    }
}

/// Manifests with a diagnostic of every shape.
fn broken() -> Manifests {
    let policy = POLICIES
        .replace("port: 5432", "port: 99999")
        .replace("203.0.113.0/24", "203.0.113.7/24");
    let typo = POLICIES
        .replace("ingress:", "ingres:")
        .replace("name: db", "name: typo");
    let files = [
        ("a.yaml", "metadata: {name: x}\n"),
        ("b.yaml", CLUSTER),
        ("c.yaml", &policy),
        ("d.yaml", &typo),
    ];
    Manifests::new(&files)
}

#[test]
fn eval() {
    let mut answers = Vec::new();
    for manifests in [shop(), broken()] {
        for (from, to, port) in [
            ("shop/web", "shop/db", "sql"),
            ("shop/web", "shop/db", "nope/udp"),
            ("shop/web", "shop/web", "icmp"),
            ("n2", "shop/db", "proto:47"),
            ("192.0.2.1", "2001:db8::1", "80"),
            ("203.0.113.5", "shop/db", "5432"),
        ] {
            let ran = manifests.picket(
                "eval",
                &["--from", from, "--to", to, "--port", port, "-o", "json"],
            );
            answers.push(ran.json());
        }
    }
    assert_valid("eval", &answers);
}

#[test]
fn explain() {
    let mut explanations = Vec::new();
    for manifests in [shop(), broken()] {
        for (from, to, port) in [
            ("shop/web", "shop/db", "sql"),
            ("shop/web", "shop/db", "80"),
            ("shop/Deployment/api", "shop/db", "9005/udp"),
            ("shop/web", "shop/db", "nope/udp"),
            ("shop/web", "shop/web", "icmp"),
            ("n2", "shop/db", "proto:47"),
            ("192.0.2.1", "2001:db8::1", "80"),
            ("203.0.113.200", "shop/db", "5432"),
        ] {
            let ran = manifests.picket(
                "explain",
                &["--from", from, "--to", to, "--port", port, "-o", "json"],
            );
            explanations.push(ran.json());
        }
    }
    assert_valid("explain", &explanations);
}

#[test]
fn explain_pod() {
    let pods = ["shop/web", "shop/db", "shop/agent", "shop/Deployment/api"];
    let explained = [shop(), broken()].into_iter().flat_map(|manifests| {
        pods.map(|pod| manifests.picket("explain", &["--pod", pod, "-o", "json"]).json())
    });
    assert_valid("explain-pod", &explained.collect::<Vec<_>>());
}

#[test]
fn batch() {
    let questions = ["shop/web", "nobody/here", "10.96.0.7", "shop/done", "nonsense"]
        .map(|from| json!({"from": from, "to": "shop/db", "port": "sql"}).to_string());
    let bad_port = json!({"from": "shop/web", "to": "shop/db", "port": "80/x"}).to_string();
    let questions = [questions.join("\n"), bad_port, "{}".to_owned()].join("\n");
    let ran = run(
        shop().path(),
        &["eval", "-f", ".", "--batch", "-", "-o", "json"],
        &questions,
    );
    assert_eq!(ran.lines().len(), 7);
    assert_valid("batch", &ran.lines());
}

#[test]
fn matrix() {
    let flags = ["-o", "json", "--accept-icmp"];
    assert_valid(
        "matrix",
        &[
            shop().picket("matrix", &flags).json(),
            broken().picket("matrix", &["-o", "json"]).json(),
        ],
    );
}

#[test]
fn diff() {
    let (old, new, broken) = (shop(), Manifests::new(&[("cluster.yaml", CLUSTER)]), broken());
    let [old, new, broken] = [&old, &new, &broken].map(|one| one.path().to_str().unwrap());
    let difference = |old, new| run(shop().path(), &["diff", old, new, "-o", "json"], "").json();
    let found = [
        difference(old, new),
        difference(new, broken),
        difference(old, old),
    ];
    assert!(
        found[0]["added"]
            .as_array()
            .is_some_and(|added| !added.is_empty())
    );
    assert!(found[1]["diagnostics"].is_array());
    assert_valid("diff", &found);
}

#[test]
fn diagnostics() {
    assert_valid(
        "diagnostics",
        &[
            shop().picket("check", &["-o", "json"]).json(),
            broken().picket("check", &["-o", "json"]).json(),
        ],
    );
}

#[test]
fn sarif() {
    let odd = Manifests::new(&[
        ("ü [1]: #%.yaml", POLICIES),
        ("cut.yaml", "kind: [\n"),
        ("bytes.yaml", "a: \0"),
    ]);
    let logs = [shop(), broken(), odd].map(|manifests| manifests.picket("check", &["-o", "sarif"]).json());
    let results = |log: &Value| log["runs"][0]["results"].as_array().unwrap().clone();
    assert!(
        logs.iter()
            .flat_map(results)
            .any(|result| result["fixes"].is_array())
    );
    assert_valid("sarif", &logs);
    let validator = jsonschema::validator_for(&schema("sarif")).unwrap();
    let mut wrong = logs[1].clone();
    wrong["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startColumn"] = json!(0);
    assert!(!validator.is_valid(&wrong));
    for log in &logs {
        for result in results(log) {
            let rule = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(
                log["runs"][0]["tool"]["driver"]["rules"][rule]["id"],
                result["ruleId"]
            );
        }
    }
}

#[test]
fn the_schemas_allow_nothing_else() {
    let mut answer = shop()
        .picket(
            "eval",
            &[
                "--from", "shop/web", "--to", "shop/db", "--port", "sql", "-o", "json",
            ],
        )
        .json();
    let validator = jsonschema::validator_for(&schema("eval")).unwrap();
    assert!(validator.is_valid(&answer));
    answer["ingress"]["reason"] = json!("because");
    assert!(!validator.is_valid(&answer));
}

#[test]
fn every_reason_is_in_the_schema() {
    use Reason::*;
    let all = [
        SamePod,
        NotAPod,
        LocalNode,
        NotIsolated,
        AllowedByRule,
        DeniedByRule,
        NoRuleMatches,
        ClusterDefault,
        IcmpAccepted,
        UnresolvedPortName,
        NoCommonFamily,
    ];
    // A new reason stops this from compiling: add it above and to the schemas.
    for reason in all {
        match reason {
            SamePod | NotAPod | LocalNode | NotIsolated | AllowedByRule | DeniedByRule | NoRuleMatches
            | ClusterDefault | IcmpAccepted | UnresolvedPortName | NoCommonFamily => {}
        }
    }
    for name in ["eval", "batch", "explain"] {
        let mut listed: Vec<_> = schema(name)["$defs"]["end"]["properties"]["reason"]["enum"]
            .as_array()
            .unwrap()
            .clone();
        let mut known: Vec<_> = all
            .iter()
            .map(|reason| serde_json::to_value(reason).unwrap())
            .collect();
        listed.sort_by_key(Value::to_string);
        known.sort_by_key(Value::to_string);
        assert_eq!(listed, known, "{name}");
    }
}

#[test]
fn shared_definitions_are_the_same_everywhere() {
    for (name, one, other) in [
        ("diagnostic", "eval", "diagnostics"),
        ("diagnostic", "matrix", "diagnostics"),
        ("diagnostic", "explain", "diagnostics"),
        ("diagnostic", "explain-pod", "diagnostics"),
        ("allow", "explain-pod", "matrix"),
        ("diagnostic", "diff", "diagnostics"),
        ("allow", "diff", "matrix"),
        ("end", "eval", "batch"),
        ("end", "eval", "explain"),
        ("family", "eval", "explain"),
        ("cause", "eval", "explain"),
        ("family", "eval", "batch"),
        ("cause", "eval", "batch"),
    ] {
        assert_eq!(
            schema(one)["$defs"][name],
            schema(other)["$defs"][name],
            "{name} of {one} and {other}"
        );
    }
}
