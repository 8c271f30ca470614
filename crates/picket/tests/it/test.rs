//! `picket test`: assertions in files, and what is printed of them.

use picket_policy::{Node, Value as Yaml};
use serde_json::Value;

use crate::schema::{assert_valid, schema};
use crate::{CLUSTER, Manifests, POLICIES, Ran, run, shop};

/// Assertions about the shop of these tests, of which the last fails.
const TESTS: &str = r#"apiVersion: picket.dev/v1
kind: ConnectivityTest
sets:
  clients: [shop/web]
tests:
- name: web reaches the database
  allow: every
  from: {set: clients}
  to: shop/db
  ports: sql
- name: pods reach the database as web only
  allow: only
  exact: [from, ports]
  from: [{set: clients}, {external: [203.0.113.0/25]}]
  to: {podSelector: {matchLabels: {app: db}}}
  ports: [5432, 9000-9010/udp]
- name: nobody else in the shop gets to the database
  deny: every
  from: shop/*
  notFrom: [{set: clients}, shop/agent]
  to: shop/db
- name: the API never reaches the database
  reach: never
  from: shop/Deployment/api
  to: shop/db
"#;

fn test(files: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let manifests = shop();
    std::fs::create_dir(manifests.path().join("tests")).unwrap();
    for (name, text) in files {
        std::fs::write(manifests.path().join("tests").join(name), text).unwrap();
    }
    let input = ["test", "-f", "cluster.yaml", "-f", "policies.yaml"];
    run(manifests.path(), &[&input, arguments].concat(), "")
}

#[test]
fn what_fails_is_shown_with_its_steps_and_rules() {
    let ran = test(&[("a.yaml", TESTS)], &["tests"]);
    assert_eq!(
        ran.stdout,
        "ok      web reaches the database
ok      pods reach the database as web only
ok      nobody else in the shop gets to the database
FAILED  the API never reaches the database (tests/a.yaml:22)
  shop/Deployment/api reaches shop/db in 2 steps:
    shop/Deployment/api → shop/web, TCP 8080, IPv4
      egress  allow  not-isolated
      ingress allow  not-isolated
    shop/web → shop/db, TCP 5432, IPv4
      egress  allow  not-isolated
      ingress allow  allowed-by-rule
        NetworkPolicy shop/db, ingress rule 0 (policies.yaml:7)
4 tests, 1 failed
"
    );
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let held = TESTS.split("- name: the API").next().unwrap();
    let ran = test(&[("a.yaml", held)], &["tests"]);
    assert!(
        ran.status == 0 && ran.stdout.ends_with("3 tests, all hold\n"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn results_come_in_the_formats_of_pipelines() {
    let files = [("a.yaml", TESTS), ("b.yaml", TESTS)];
    let tap = test(&files, &["tests", "-o", "tap"]);
    assert!(
        tap.stdout.starts_with("TAP version 14\n1..8\nok 1 - web reaches"),
        "{}",
        tap.stdout
    );
    assert!(
        tap.stdout
            .contains("\nnot ok 4 - the API never reaches the database\n# tests/a.yaml:22\n# shop/Dep"),
        "{}",
        tap.stdout
    );
    let junit = test(&files, &["tests", "-o", "junit"]);
    assert_eq!((tap.status, junit.status), (1, 1));
    assert!(
        junit
            .stdout
            .contains("<testsuites name=\"picket test\" tests=\"8\" failures=\"2\""),
        "{}",
        junit.stdout
    );
    assert_eq!(junit.stdout.matches("<testsuite name=\"tests/").count(), 2);
    let manifests = shop();
    std::fs::write(manifests.path().join("tests.yml"), TESTS).unwrap();
    let ran = manifests.picket("test", &["tests.yml", "--junit", "out.xml"]);
    assert!(
        ran.status == 1 && ran.stdout.starts_with("ok "),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let written = std::fs::read_to_string(manifests.path().join("out.xml")).unwrap();
    assert!(written.contains("file=\"tests.yml\" line=\"22\""), "{written}");
}

#[test]
fn the_json_is_as_the_schema_says() {
    let whole = test(&[("a.yaml", TESTS)], &["tests", "-o", "json"]).json();
    assert_eq!((&whole["passed"], &whole["failed"]), (&3.into(), &1.into()));
    let steps = whole["tests"][3]["failures"][0]["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &steps[1]["port"]), (2, &5432.into()));
    let manifests = Manifests::new(&[
        ("a.yaml", CLUSTER),
        ("b.yaml", &POLICIES.replace("203.0.113.0/24", "203.0.113.7/24")),
    ]);
    let broken = run(manifests.path(), &["test", "-f", ".", "-", "-o", "json"], TESTS).json();
    assert!(
        broken["diagnostics"].is_array() && broken["tests"][0]["file"] == "-",
        "{broken}"
    );
    assert_valid("test", &[whole, broken]);
}

#[test]
fn what_cannot_be_tested_is_no_pass() {
    let changed = |from: &str, to: &str| TESTS.replacen(from, to, 1);
    let file = |text: &str| vec![("a.yaml".to_owned(), text.to_owned())];
    let cases = [
        (
            file(&changed("to: shop/db\n", "to: shop/bd\n")),
            vec!["tests"],
            vec![
                "error[T004]: nothing in the input is called `shop/bd`",
                "--> tests/a.yaml:9:7",
                "did you mean `shop/db`?",
            ],
        ),
        (
            file(&changed("from: shop/*", "form: shop/*")),
            vec!["tests"],
            vec![
                "error[P",
                "unknown field `tests[2].form`",
                "did you mean `from`?",
                "--> tests/a.yaml:19:3",
            ],
        ),
        (
            file(&changed("picket.dev/v1", "picket.dev/v7")),
            vec!["tests"],
            vec![
                "Unsupported value: \"picket.dev/v7\": supported values: \"picket.dev/v1\"",
                "--> tests/a.yaml:1:13",
            ],
        ),
        (
            file(&changed("ports: sql", "ports: 90-80")),
            vec!["tests"],
            vec!["error[T003]: `90-80` holds no port", "write `80-90`"],
        ),
        (
            file(&changed("deny: every", "allow: every")),
            vec!["tests"],
            vec![
                "error[T006]: `pods reach the database as web only` and `nobody else in the shop gets to the database` can never both hold",
            ],
        ),
        (
            file(&changed("from: shop/*", "from: n2")),
            vec!["tests"],
            vec![
                "error[T005]: `nobody else in the shop gets to the database` can never hold: no policy can keep",
            ],
        ),
        (
            file("kind: [\n"),
            vec!["tests"],
            vec!["error[P002]", "--> tests/a.yaml"],
        ),
        (
            file(CLUSTER),
            vec!["tests"],
            vec!["supported values: \"ConnectivityTest\""],
        ),
        (
            file("apiVersion: picket.dev/v1\nkind: ConnectivityTest\ntests: []\n"),
            vec!["tests"],
            vec!["`tests` holds no assertion: a test of nothing would always hold"],
        ),
        (
            file("# nothing\n"),
            vec!["tests"],
            vec!["`tests` holds no assertion"],
        ),
        (
            file(TESTS),
            vec!["tests", "none.yaml"],
            vec!["`none.yaml` does not exist"],
        ),
        (
            Vec::new(),
            vec!["tests"],
            vec!["`tests` and its directories hold no file"],
        ),
        (Vec::new(), vec![], vec!["required arguments", "<TESTS>"]),
        (
            file(TESTS),
            vec!["tests", "--record"],
            vec!["cannot be used with"],
        ),
        (
            file(TESTS),
            vec!["tests", "-f", "-", "-"],
            vec!["standard input (`-`) cannot hold both"],
        ),
        (
            file(TESTS),
            vec!["tests", "--junit", "no/such/place.xml"],
            vec!["cannot write `no/such/place.xml`"],
        ),
        (
            file(TESTS),
            vec!["tests", "--network", "a/b"],
            vec!["there is no network `a/b`"],
        ),
        (
            file("{"),
            vec!["tests", "-f", "tests/a.yaml"],
            vec!["`tests/a.yaml` cannot be parsed, and may hold pods or policies"],
        ),
    ];
    for (files, arguments, said) in cases {
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let ran = test(&files, &arguments);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (2, ""),
            "{arguments:?}\n{}",
            ran.stderr
        );
        for said in said {
            assert!(ran.stderr.contains(said), "{said}\n{}", ran.stderr);
        }
    }
}

#[test]
fn a_record_holds_at_once_and_no_longer_when_a_rule_goes() {
    let manifests = shop();
    let record = |manifests: &Manifests| manifests.picket("test", &["--record"]);
    let first = record(&manifests);
    assert_eq!(
        (first.status, &first.stdout),
        (0, &record(&shop()).stdout),
        "{}",
        first.stderr
    );
    let against = |policies: &str| {
        let changed = Manifests::new(&[("cluster.yaml", CLUSTER), ("policies.yaml", policies)]);
        run(changed.path(), &["test", "-f", ".", "-"], &first.stdout)
    };
    let ran = against(POLICIES);
    assert!(
        ran.status == 0 && ran.stdout.ends_with(", all hold\n"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    for (from, to) in [
        ("- {port: sql}", "- {port: 80}"),
        ("endPort: 9010", "endPort: 9011"),
        ("app: web", "app: api"),
        ("/25", "/26"),
    ] {
        assert_eq!(against(&POLICIES.replace(from, to)).status, 1, "{from} {to}");
    }
    assert_eq!(against("").status, 1);
}

#[test]
fn assertions_are_about_the_network_that_they_name() {
    let manifests = Manifests::new(&[("storage.yaml", crate::network::STORAGE)]);
    let tests = "apiVersion: picket.dev/v1\nkind: ConnectivityTest\nnetwork: infra/storage\ntests:\n\
        - {name: disks, allow: exactly, exact: [from, ports], from: shop/web, to: shop/db, ports: 5432}\n\
        - {name: one, deny: every, from: external, to: shop/db@data1}\n";
    let ran = run(manifests.path(), &["test", "-f", ".", "-"], tests);
    assert!(
        ran.status == 0 && ran.stdout.ends_with("2 tests, all hold\n"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let on_cluster = tests.replace("network: infra/storage\n", "");
    let ran = run(manifests.path(), &["test", "-f", ".", "-"], &on_cluster);
    assert!(
        ran.status == 2
            && ran
                .stderr
                .contains("nothing in the input is called `shop/db@data1`"),
        "{}",
        ran.stderr
    );
    let failing = tests.replace("ports: 5432", "ports: 5433");
    let ran = run(manifests.path(), &["test", "-f", ".", "-"], &failing);
    assert!(
        ran.stdout
            .contains("shop/web → shop/db@data0, TCP 5433, IPv4 on network infra/storage: should be allowed"),
        "{}",
        ran.stdout
    );
    let chosen = ["test", "-f", ".", "--network", "infra/storage"];
    let record = run(manifests.path(), &[&chosen[..], &["--record"]].concat(), "");
    assert!(
        record.stdout.contains("\nnetwork: infra/storage\n"),
        "{}",
        record.stdout
    );
    let ran = run(manifests.path(), &["test", "-f", ".", "-"], &record.stdout);
    assert!(ran.status == 0, "{}{}", ran.stdout, ran.stderr);
    let ran = run(manifests.path(), &[&chosen[..], &["-"]].concat(), &on_cluster);
    assert!(ran.status == 0, "{}{}", ran.stdout, ran.stderr);
    let ran = run(manifests.path(), &[&chosen[..], &["-"]].concat(), tests);
    assert!(
        ran.status == 2 && ran.stderr.contains("names its network itself"),
        "{}",
        ran.stderr
    );
}

#[test]
fn nothing_is_no_baseline() {
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n";
    let ran = Manifests::new(&[("n.yaml", namespace)]).picket("test", &["--record"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.contains("there is nothing to record"),
        "{}",
        ran.stderr
    );
}

/// The file of assertions in the help of the command.
fn taught() -> String {
    let help = run(shop().path(), &["test", "--help"], "").stdout;
    let lines = help
        .lines()
        .skip_while(|line| *line != "A file of assertions:")
        .skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    lines.map(|line| format!("{}\n", &line[2..])).collect()
}

#[test]
fn the_help_teaches_a_file_that_can_be_tested() {
    let cluster = CLUSTER.replace("name: agent, namespace: shop", "name: agent, namespace: staging").replace("name: web, namespace: shop", "name: web, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: a, controller: true}]");
    let policies = POLICIES
        .split("  - from:\n    - ipBlock")
        .next()
        .unwrap()
        .replace("app: web", "app: api");
    let manifests = Manifests::new(&[("cluster.yaml", &cluster), ("policies.yaml", &policies)]);
    std::fs::write(manifests.path().join("tests.txt"), taught()).unwrap();
    let ran = manifests.picket("test", &["tests.txt"]);
    let shown: Vec<_> = ran.stdout.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(shown.len(), 4, "{}{}", ran.stdout, ran.stderr);
    assert!(
        shown[0].starts_with("ok      web reaches the API") && shown[1].starts_with("ok      only the API"),
        "{}",
        ran.stdout
    );
}

#[test]
fn editors_are_told_the_format() {
    let schema = schema("connectivity-test");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tests");
    let mut good: Vec<_> = std::fs::read_dir(examples)
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    good.extend([
        TESTS.to_owned(),
        taught(),
        shop().picket("test", &["--record"]).stdout,
    ]);
    for text in &good {
        let json = as_json(text);
        let errors: Vec<_> = validator
            .iter_errors(&json)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}\n{text}");
    }
    for (from, to) in [
        ("picket.dev/v1", "picket.dev/v2"),
        ("ConnectivityTest", "ConnectivityTests"),
        ("allow: every", "allow: all"),
        ("allow: every", "deny: exactly"),
        ("allow: every", "allow: every\n  deny: every"),
        ("allow: every", "exact: from\n  allow: every"),
        ("allow: every", "through: any\n  allow: every"),
        ("  allow: every\n", ""),
        ("  to: shop/db\n", ""),
        ("to: shop/db\n", "to: []\n"),
        ("to: shop/db\n", "to: a/b/c/d\n"),
        ("to: shop/db\n", "to: {}\n"),
        ("ports: sql", "ports: 0"),
        ("ports: sql", "port: sql"),
        ("ports: sql", "family: ipv5"),
        ("exact: [from, ports]", "exact: [form]"),
        ("external: [203.0.113.0/25]", "external: [any]"),
        ("matchLabels", "matchlabels"),
        ("tests:\n", "tests: {}\nmore:\n"),
    ] {
        let changed = TESTS.replacen(from, to, 1);
        assert!(
            changed != TESTS && !validator.is_valid(&as_json(&changed)),
            "{changed}"
        );
        assert_eq!(test(&[("a.yaml", &changed)], &["tests"]).status, 2, "{changed}");
    }
}

fn as_json(text: &str) -> Value {
    let (manifests, problems) = picket_policy::read(&"tests.yaml".into(), text.as_bytes());
    assert_eq!(problems, []);
    value(manifests.first().unwrap().root())
}

fn value(node: &Node) -> Value {
    match &node.value {
        Yaml::Mapping(entries) => entries
            .iter()
            .map(|entry| (entry.key.to_string(), value(&entry.value)))
            .collect(),
        Yaml::Sequence(items) => items.iter().map(value).collect(),
        Yaml::String(text) => text.as_str().into(),
        Yaml::Integer(number) => (*number).into(),
        Yaml::Boolean(truth) => (*truth).into(),
        _ => Value::Null,
    }
}
