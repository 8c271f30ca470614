use picket_cluster::{Endpoint, Flow, Reason, Semantics, Snapshot, Verdict};
use picket_engine::Engine;
use picket_net::{Family, Protocol};
use picket_testing::build::{accept, block, node, pod, pods_in, policy};
use picket_testing::snapshot;
use serde_json::{Value, json};

use super::*;

fn cluster() -> Snapshot {
    snapshot![
        pod("shop/web").label("app", "web").ip("10.0.0.1").ip("fd00::1"),
        pod("shop/db")
            .label("app", "db")
            .ip("10.0.0.2")
            .ip("fd00::2")
            .port("sql", Protocol::TCP, 5432)
            .port("multi", Protocol::TCP, 1)
            .port("multi", Protocol::TCP, 5432)
            .on("n1"),
        pod("shop/four").ip("10.0.0.3"),
        pod("shop/six").ip("fd00::4"),
        pod("shop/Deployment/api")
            .label("app", "api")
            .ip("198.18.0.9")
            .synthetic(),
        pod("shop/agent")
            .on("n1")
            .ip("10.9.0.1")
            .host_network()
            .port("metrics", Protocol::TCP, 9100),
        node("n1").ip("10.9.0.1").ip("10.9.0.2"),
        policy("shop/db").selects("app=db").ingress(
            accept()
                .peer(pods_in("shop", "app=web"))
                .peer(block("10.8.0.0/16", &[]))
                .port(Protocol::TCP, 5432)
        ),
        policy("shop/api")
            .selects("app=api")
            .ingress(accept().peer(block("10.0.0.0/8", &["10.9.0.2/32"]))),
    ]
}

fn ask(from: &str, to: &str, port: &str, family: Option<Family>) -> Result<Value, QuestionError> {
    let snapshot = cluster();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let evaluator = Evaluator::new(&snapshot, engine.program());
    let question = evaluator.question(from, to, port, family)?;
    Ok(serde_json::to_value(evaluator.answer(&question)).unwrap())
}

#[test]
fn verdicts_and_reasons_of_both_ends() {
    for (from, to, port, verdict, egress, ingress) in [
        (
            "shop/web",
            "shop/db",
            "5432/tcp",
            "allow",
            "not-isolated",
            "allowed-by-rule",
        ),
        (
            "shop/web",
            "shop/db",
            "sql",
            "allow",
            "not-isolated",
            "allowed-by-rule",
        ),
        (
            "shop/web",
            "shop/db",
            "80",
            "deny",
            "not-isolated",
            "no-rule-matches",
        ),
        (
            "shop/web",
            "shop/db",
            "5432/udp",
            "deny",
            "not-isolated",
            "no-rule-matches",
        ),
        (
            "shop/web",
            "shop/db",
            "icmp",
            "deny",
            "not-isolated",
            "no-rule-matches",
        ),
        ("shop/web", "shop/web", "80", "allow", "same-pod", "same-pod"),
        (
            "192.0.2.1",
            "shop/web",
            "proto:47",
            "allow",
            "not-a-pod",
            "not-isolated",
        ),
        ("n1", "shop/db", "80", "allow", "not-a-pod", "local-node"),
        ("shop/web", "10.9.0.2", "80", "allow", "not-isolated", "not-a-pod"),
        (
            "192.0.2.1",
            "2001:db8::1",
            "80",
            "deny",
            "no-common-family",
            "no-common-family",
        ),
        (
            "shop/four",
            "shop/six",
            "80",
            "deny",
            "no-common-family",
            "no-common-family",
        ),
        (
            "shop/web",
            "shop/db",
            "nothing/tcp",
            "deny",
            "unresolved-port-name",
            "unresolved-port-name",
        ),
        (
            "shop/web",
            "shop/db",
            "sql/udp",
            "deny",
            "unresolved-port-name",
            "unresolved-port-name",
        ),
        (
            "shop/web",
            "shop/agent",
            "metrics",
            "allow",
            "not-isolated",
            "not-a-pod",
        ),
        (
            "10.8.0.1",
            "shop/db",
            "5432/TCP",
            "allow",
            "not-a-pod",
            "allowed-by-rule",
        ),
        // Two different pods of it: its own policy counts.
        (
            "shop/Deployment/api",
            "shop/Deployment/api",
            "80",
            "deny",
            "not-isolated",
            "no-rule-matches",
        ),
    ] {
        let answer = ask(from, to, port, None).unwrap();
        let found = ["/verdict", "/egress/reason", "/ingress/reason"].map(|at| answer.pointer(at).cloned());
        let expected = [verdict, egress, ingress].map(|text| Some(json!(text)));
        assert_eq!(found, expected, "{from} → {to} {port}: {answer}");
    }
}

#[test]
fn the_shape_is_the_documented_one() {
    let end = |verdict: &str, reason: &str| json!({"verdict": verdict, "reason": reason, "causes": []});
    let egress = end("allow", "not-isolated");
    let ingress = json!({"verdict": "allow", "reason": "allowed-by-rule", "causes": [
        {"kind": "NetworkPolicy", "namespace": "shop", "name": "db", "direction": "ingress", "rule": 0, "file": "", "line": 0},
    ]});
    let family = json!({"verdict": "allow", "egress": egress, "ingress": ingress});
    let expected = json!({
        "from": "shop/web", "to": "shop/db", "protocol": "TCP", "port": 5432, "portName": "sql", "verdict": "allow",
        "families": {"ipv4": family, "ipv6": family},
        "egress": egress, "ingress": ingress,
    });
    assert_eq!(ask("shop/web", "fd00::2", "sql/TCP", None), Ok(expected));
}

#[test]
fn families_that_disagree_are_mixed_and_have_no_common_ends() {
    let mut snapshot = cluster();
    let narrow = snapshot![
        policy("shop/web")
            .selects("app=web")
            .ingress(accept().peer(block("0.0.0.0/0", &[])))
    ];
    snapshot.policies.extend(narrow.policies);
    let engine = Engine::compile(&snapshot, Semantics::default());
    let evaluator = Evaluator::new(&snapshot, engine.program());
    let answer = |family| evaluator.answer(&evaluator.question("shop/db", "shop/web", "80", family).unwrap());
    let both = answer(None);
    assert_eq!(
        (both.verdict, both.egress, both.ingress),
        (Overall::Mixed, None, None)
    );
    let six = answer(Some(Family::Ipv6));
    assert_eq!((six.verdict, six.families.ipv4), (Overall::Deny, None));
    assert_eq!(six.ingress.map(|end| end.reason), Some(Reason::NoRuleMatches));
}

#[test]
fn a_name_with_several_numbers_is_allowed_only_if_all_are() {
    let answer = ask("shop/web", "shop/db", "multi", None).unwrap();
    assert_eq!(
        (&answer["verdict"], &answer["port"], &answer["portName"]),
        (&json!("deny"), &json!(1), &json!("multi"))
    );
}

#[test]
fn a_node_is_allowed_only_if_each_of_its_addresses_is() {
    for (from, expected) in [("n1", "deny"), ("10.9.0.1", "allow"), ("10.9.0.2", "deny")] {
        assert_eq!(
            ask(from, "shop/Deployment/api", "80", None).unwrap()["verdict"],
            expected,
            "{from}"
        );
    }
}

#[test]
fn ports_are_read_in_all_their_forms() {
    use PortQuestion::{Name, Number, Portless};
    for (text, expected) in [
        ("80", Number(Protocol::TCP, 80)),
        ("80/tcp", Number(Protocol::TCP, 80)),
        ("53/UDP", Number(Protocol::UDP, 53)),
        ("7/Sctp", Number(Protocol::SCTP, 7)),
        ("http", Name(Protocol::TCP, "http".into())),
        ("dns/udp", Name(Protocol::UDP, "dns".into())),
        ("icmp", Portless(Protocol::ICMP)),
        ("ICMPv6", Portless(Protocol::ICMPV6)),
        ("proto:1", Portless(Protocol::ICMP)),
        ("Proto:0", Portless(Protocol::from_number(0))),
    ] {
        assert_eq!(PortQuestion::parse(text), Ok(expected), "{text}");
    }
    for (text, expected) in [
        ("0", "`0` is not within 1 to 65535"),
        ("65536/udp", "`65536` is not within 1 to 65535"),
        (
            "80/gre",
            "`gre` is no protocol with ports: these are TCP, UDP and SCTP; write `80/tcp`, `http/tcp`, `53/udp`, \
                    `icmp`, `icmpv6` or `proto:47`",
        ),
        ("80/icmp", "ICMP has no ports: write `icmp`"),
        (
            "proto:256",
            "`256` is no IP protocol number: they go from 0 to 255",
        ),
        (
            "proto:6",
            "TCP has ports, and the answer depends on them: write `NUMBER/TCP` or `NAME/TCP`",
        ),
        (
            "",
            "nothing is named: write `80/tcp`, `http/tcp`, `53/udp`, `icmp`, `icmpv6` or `proto:47`",
        ),
    ] {
        assert_eq!(
            PortQuestion::parse(text).unwrap_err().to_string(),
            expected,
            "{text}"
        );
    }
}

#[test]
fn a_batch_answers_every_line_in_its_place() {
    let snapshot = cluster();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let evaluator = Evaluator::new(&snapshot, engine.program());
    let questions = concat!(
        r#"{"from": "shop/web", "to": "shop/db", "port": "sql"}"#,
        "\n",
        r#"{"from": "shop/nobody", "to": "shop/db", "port": 80}"#,
        "\n",
        r#"{"from": "shop/web", "to": "shop/db", "port": 80}"#,
        "\r\n",
        "\n",
        r#"{"from": "shop/web"}"#,
        "\n",
        "\u{fffd}{\n",
        r#"{"from": "shop/web", "to": "shop/db", "port": "80/x"}"#,
        "\n",
        r#"{"from": "shop/db", "to": "shop/web", "port": "80/tcp"}"#,
        "\n\n\n",
    );
    let mut out = Vec::new();
    let outcome = batch(&evaluator, None, questions.as_bytes(), &mut out).unwrap();
    assert_eq!(
        outcome,
        BatchOutcome {
            answered: 3,
            failed: 5
        }
    );
    let lines: Vec<Value> = out
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let brief: Vec<_> = lines
        .iter()
        .map(|line| {
            line.pointer("/error/code")
                .unwrap_or(&line["verdict"])
                .as_str()
                .unwrap()
        })
        .collect();
    assert_eq!(
        brief,
        [
            "allow",
            "unknown-endpoint",
            "deny",
            "bad-line",
            "bad-line",
            "bad-line",
            "bad-port",
            "allow"
        ]
    );
}

#[test]
fn a_port_that_is_no_number_and_no_text_is_named() {
    let snapshot = cluster();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let evaluator = Evaluator::new(&snapshot, engine.program());
    for port in ["1.5", "null", "[80]", "-1"] {
        let question = format!(r#"{{"from": "shop/web", "to": "shop/db", "port": {port}}}"#);
        let mut out = Vec::new();
        batch(&evaluator, None, question.as_bytes(), &mut out).unwrap();
        let answer: Value = serde_json::from_slice(&out).unwrap();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("`port` is neither a number nor a text"),
            "{message}"
        );
    }
}

#[test]
fn a_batch_says_what_single_questions_say() {
    let snapshot = cluster();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let evaluator = Evaluator::new(&snapshot, engine.program());
    let names = [
        "shop/web",
        "shop/db",
        "shop/four",
        "shop/six",
        "shop/Deployment/api",
        "shop/agent",
        "n1",
        "10.8.0.1",
        "::9",
    ];
    let mut questions = String::new();
    let mut expected = Vec::new();
    for from in names {
        for to in names {
            for port in ["80", "sql", "5432/tcp", "multi", "icmp", "none"] {
                questions += &json!({"from": from, "to": to, "port": port}).to_string();
                questions.push('\n');
                let question = evaluator.question(from, to, port, None).unwrap();
                serde_json::to_writer(&mut expected, &evaluator.answer(&question)).unwrap();
                expected.push(b'\n');
            }
        }
    }
    let mut out = Vec::new();
    batch(&evaluator, None, questions.as_bytes(), &mut out).unwrap();
    assert_eq!(String::from_utf8(out), String::from_utf8(expected));
}

#[test]
fn answers_are_the_references() {
    let snapshot = cluster();
    let semantics = Semantics::default();
    let engine = Engine::compile(&snapshot, semantics.clone());
    let evaluator = Evaluator::new(&snapshot, engine.program());
    for (source, families) in picket_testing::flows::endpoints(&snapshot) {
        for family in families {
            let Endpoint::Pod(object) = &source else { continue };
            let question = evaluator
                .question(&snapshot.pods[object].id(), "shop/db", "5432", Some(family))
                .unwrap();
            let answer = evaluator.answer(&question);
            let flow = Flow {
                source: source.clone(),
                destination: Endpoint::Pod(snapshot.pod("Pod", "shop", "db").unwrap().object.clone()),
                family,
                protocol: Protocol::TCP,
                port: 5432,
            };
            let verdict = picket_reference::judge(&snapshot, &semantics, &flow).verdict();
            assert_eq!(
                answer.verdict == Overall::Allow,
                verdict == Verdict::Allow,
                "{flow:?}"
            );
        }
    }
}
