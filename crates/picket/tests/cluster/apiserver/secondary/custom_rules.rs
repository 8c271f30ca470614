//! Files of custom rules: judged first, read again, and wrong when the agent starts.

use picket_net::Family;
use serde_json::{Value, json};

use super::super::agent::expect_schema;
use super::{Case, holds, labelled, named, simple};
use crate::pods::{Node, Pod, Pods, expect, forget_neighbours, table};

/// Of no grammar of custom rules, in its second line.
const WRONG: &str = "tcp dport 1 accept\ninclude \"/etc/passwd\"\n";

#[test]
fn custom_rules_are_judged_first_and_read_again() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    let paths = files(&node, "# metrics\ntcp dport 9999 accept\n");
    node.start(&[&arguments(&paths)[..], &["--verify-interval", "1"]].concat());
    let spec = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Ingress"],
        "ingress": [{"from": named(&["a"]), "ports": [{"port": 8080}]}]});
    let case = Case {
        name: "custom-rules",
        policies: vec![("default", "custom", "default/net", spec.clone())],
        allowed: &["a->server:8080 a->server:9999 b->server:9999"],
        denied: &["a->server:80 b->server:80 b->server:8080"],
        restricted: &["server"],
    };
    case.play(&node, &pods);
    node.policy("default", "custom", "default/net", &spec);
    node.until_enforced();
    files(&node, "tcp dport 7777 accept\n");
    until_listed(&node, &pods, "7777");
    holds(&pods, "b->server:7777", "b->server:9999", "with the changed file");
    node.file("v4", WRONG);
    let status = node.until("trouble", |status| !status.custom_rules.is_empty());
    assert!(status.custom_rules[0].contains("line 2"), "{status:#?}");
    holds(
        &pods,
        "b->server:7777",
        "b->server:9999 b->server:1",
        "with a wrong file",
    );
    // The rules of the kernel were held against the policies meanwhile, and are.
    let proved = node.proofs("proved");
    node.until("two more proofs", |_| node.proofs("proved") > proved + 1);
    assert_eq!(node.proofs("refuted"), 0);
}

#[test]
fn a_custom_rule_of_egress_drops_what_a_policy_allows_in_its_family_alone() {
    let mut node = Node::new();
    let mut pods = simple(&mut node);
    part(&mut pods, "a");
    let file = node.file("v4", "tcp dport 9999 drop\n");
    node.start(&["--custom-v4-egress-rule-file", &file]);
    expect(
        &pods,
        &["server->a:9999 server->b:9999"],
        true,
        "without a policy",
    );
    let spec = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Egress"],
        "egress": [{"to": named(&["a"])}]});
    node.policy("default", "to-a", "default/net", &spec);
    node.until_enforced();
    holds(
        &pods,
        "server->a:80 server->a6:9999 a->server:9999",
        "server->a4:9999 server->b:80 server->b:9999",
        "with a policy",
    );
}

#[test]
fn a_custom_rule_opens_its_family_alone() {
    let mut node = Node::new();
    let mut pods = simple(&mut node);
    part(&mut pods, "a");
    part(&mut pods, "server");
    let into = node.file("into", "tcp dport 9999 accept\n");
    let out = node.file("out", "tcp dport 7777 accept\n");
    node.start(&[
        "--custom-v4-ingress-rule-file",
        &into,
        "--custom-v6-egress-rule-file",
        &out,
    ]);
    let spec = json!({"podSelector": labelled("name", "server"), "policyTypes": ["Ingress", "Egress"]});
    node.policy("default", "nothing", "default/net", &spec);
    node.until_enforced();
    holds(
        &pods,
        "a->server4:9999 server->a6:7777",
        "a->server6:9999 server->a4:7777 a->server:80 server->a:80",
        "with a policy",
    );
}

#[test]
fn an_agent_that_starts_on_a_wrong_file_opens_nothing_and_goes_on_once_it_is_mended() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    let paths = files(&node, "tcp dport 9999 accept\n");
    node.start(&arguments(&paths));
    node.policy("default", "from-a", "default/net", &from(&["a"], "server"));
    node.until_enforced();
    node.kill();
    let before = rules(&pods);

    files(&node, WRONG);
    node.policy("default", "from-b", "default/net", &from(&["b"], "server"));
    node.policy("default", "new", "default/net", &from(&["a"], "d"));
    forget_neighbours(&pods);
    node.launch(&arguments(&paths));
    let waiting = [
        "MultiNetworkPolicy default/from-a",
        "MultiNetworkPolicy default/from-b",
    ];
    until_known(&node, "rules that stay", |pods| {
        let mut sandboxes = pods["sandboxes"].as_array().unwrap().iter();
        sandboxes.len() == 2 && sandboxes.any(|sandbox| sandbox["waiting"] == json!(waiting))
    });
    opens_nothing(&node, &pods, &before, &paths);
    // One of two is not enough.
    node.file("v6", "tcp dport 7777 accept\n");
    until_known(&node, "one wrong file", |pods| {
        pods["customRules"].as_array().unwrap().len() == 1
    });
    opens_nothing(&node, &pods, &before, &paths[..1]);

    node.file("v4", "tcp dport 7777 accept\n");
    let status = node.until("an agent that is ready", |status| status.is_well());
    assert_eq!(status.sandboxes.len(), 2, "{status:#?}");
    assert_eq!(node.readiness(), (200, "ok\n".to_owned()));
    assert_eq!(node.metric("picket_custom_rules_waiting"), 0);
    assert_eq!(node.status(&[]).status, 0);
    let allowed = "a->server b->server c->server:7777 a->d b->d:7777";
    holds(
        &pods,
        allowed,
        "c->server c->server:9999 b->d",
        "with mended files",
    );
}

/// Holds that what an earlier agent has left stays, and that what is new is closed; and that it is said, of each file.
fn opens_nothing(node: &Node, pods: &Pods, before: &str, wrong: &[String]) {
    let what = &format!("with {} wrong files", wrong.len());
    assert_eq!(rules(pods), before, "{what}");
    holds(pods, "a->server b->server:9999", "b->server b->server:1", what);
    if wrong.len() == 2 {
        expect(pods, &["a->d b->d b->d:1"], false, what);
    }
    let (code, why) = node.readiness();
    let told = node.status(&[]);
    assert_eq!((code, told.status), (503, 1), "{why}\n{}", told.stdout);
    for file in wrong {
        let named = format!("`{file}` is no file of custom rules: line 2: ");
        for text in [&why, &told.stdout, &node.log()] {
            assert!(text.contains(&named), "{what}: {named}\n{text}");
        }
    }
    assert!(
        why.contains("default/server: rules from before this agent stay: "),
        "{why}"
    );
    assert_eq!(node.metric("picket_ready"), 0);
    let waiting = u64::try_from(wrong.len()).unwrap();
    assert_eq!(node.metric("picket_custom_rules_waiting"), waiting);
    assert_eq!(node.metric("picket_policies_waiting"), 2, "{what}");
    expect_schema(&node.status(&["-o", "json"]).json());
}

/// Waits until something holds of what an agent shows that knows the cluster and is not ready.
fn until_known(node: &Node, what: &str, holds: impl Fn(&Value) -> bool) {
    let status = node.until_status(what, |status| {
        let pods = status.pods.as_ref().filter(|pods| pods.known);
        pods.is_some_and(|pods| holds(&json!(pods)))
    });
    assert!(!status.ready, "{what}: {status:#?}");
}

/// Waits until a rule stands twice in the table of a pod, once for each family.
fn until_listed(node: &Node, pods: &Pods, rule: &str) {
    node.until("other custom rules", |_| {
        table(&pods["server"]).matches(rule).count() == 2
    });
}

/// What is in force in the pod `server`, but for what it has counted.
fn rules(pods: &Pods) -> String {
    let table = table(&pods["server"]);
    let lines = table
        .lines()
        .filter(|line| !line.trim_start().starts_with("packets "));
    lines.collect::<Vec<_>>().join("\n")
}

/// A pod with the addresses of one family alone, as one with a 4 behind its name and one with a 6.
fn part(pods: &mut Pods, name: &str) {
    for (number, family) in [(4, Family::Ipv4), (6, Family::Ipv6)] {
        let (whole, name) = (&pods[name], format!("{name}{number}"));
        let addresses = whole.addresses.iter().copied();
        let only = Pod {
            name: name.clone(),
            sandbox: whole.sandbox.clone(),
            inside: whole.inside.duplicate().unwrap(),
            addresses: addresses
                .filter(|address| Family::of(*address) == family)
                .collect(),
        };
        pods.insert(name, only);
    }
}

/// A file for each family, both with these rules.
fn files(node: &Node, rules: &str) -> [String; 2] {
    ["v4", "v6"].map(|name| node.file(name, rules))
}

/// The arguments of an agent that has these.
pub(super) fn arguments([v4, v6]: &[String; 2]) -> [&str; 4] {
    [
        "--custom-v4-ingress-rule-file",
        v4,
        "--custom-v6-ingress-rule-file",
        v6,
    ]
}

/// That pods may begin connections to another.
fn from(peers: &[&str], to: &str) -> Value {
    json!({"podSelector": labelled("name", to), "ingress": [{"from": named(peers)}]})
}
