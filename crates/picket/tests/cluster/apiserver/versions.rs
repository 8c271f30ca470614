//! `picket status` says in which version each policy was read, and in which it is in force.

use jiff::Timestamp;
use picket_linux::NetworkNamespace;
use picket_nftables::render::{documented, indexed};
use picket_node::{PodsStatus, PolicyVersions};
use serde_json::{Value, json};

use super::agent::{Live, expect_schema, metric};
use super::never_open::{POLICIES, allow, steal};
use super::secondary::{named, simple};
use crate::agents::Agent;
use crate::objects::{KINDS, network_policy};
use crate::pods::{Node, expect};

/// The version of an object, as it is shown.
fn words(object: &Value) -> String {
    let metadata = &object["metadata"];
    let version = metadata["resourceVersion"].as_str().unwrap();
    format!("version {version} (generation {})", metadata["generation"])
}

/// The versions that were read and are in force of a policy, as they are shown, and why these differ.
fn of(all: &[PolicyVersions], policy: &str) -> (Option<String>, Option<String>, String) {
    let mut all = all.iter();
    let found = all.find(|versions| versions.policy == policy);
    let found = found.cloned().unwrap_or_default();
    (
        found.read.map(|version| version.to_string()),
        found.in_force.map(|version| version.to_string()),
        found.why.unwrap_or_default(),
    )
}

/// Since when a policy is in force, if that is known.
fn since(all: &[PolicyVersions], policy: &str) -> Option<Timestamp> {
    let mut all = all.iter();
    all.find(|versions| versions.policy == policy)?.since
}

#[test]
fn a_node_says_since_when_what_a_policy_says_is_in_force() {
    let live = Live::new(None);
    let mut agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    allow(&live, "TCP");
    let policies = ["NetworkPolicy x/deny-ingress", "NetworkPolicy x/allow"];
    let known = |agent: &Agent, version: &str| {
        let status = agent.until(&format!("{version} in force"), |status| {
            let (_, in_force, _) = of(&status.host.policy_versions, policies[1]);
            in_force.as_deref() == Some(version)
        });
        policies.map(|policy| since(&status.host.policy_versions, policy))
    };
    let patch = |change: &Value| words(&live.api.patch(POLICIES, "allow", change));
    let annotate = |value: &str| patch(&json!({"metadata": {"annotations": {"a": value}}}));
    let first = known(&agent, &annotate("b"));
    assert!(first[0].is_some() && first[1] > first[0], "{first:?}");
    assert_eq!(
        known(&agent, &annotate("c")),
        first,
        "when nothing but an annotation changes"
    );
    let version = patch(&json!({"spec": {"ingress": null}}));
    let second = known(&agent, &version);
    assert!(second[0] == first[0] && second[1] > first[1], "{second:?}");
    let told = agent.asked_by(&["status"]).stdout;
    let line = format!("{}, {version}, since {:.0}\n", policies[1], second[1].unwrap());
    assert!(told.contains(&line), "{line}: {told}");
    expect_schema(&agent.asked_by(&["status", "-o", "json"]).json());

    // The next agent finds it so.
    agent.kill();
    let agent = live.agent(&["--until-synced", "allow"]);
    assert_eq!(known(&agent, &version), [None; 2]);
    let told = agent.asked_by(&["status"]).stdout;
    let line = format!("{}, {version}, since the agent started or before\n", policies[1]);
    assert!(told.contains(&line), "{line}: {told}");
    expect_schema(&agent.asked_by(&["status", "-o", "json"]).json());
    let third = known(&agent, &patch(&json!({"spec": {"ingress": [{}]}})));
    assert!(third[0].is_none() && third[1] > second[1], "{third:?}");
}

#[test]
fn a_node_says_which_version_of_a_policy_is_in_force_and_why_not_the_last() {
    // A schema would refuse what nobody can read.
    let live = Live::without_schemas(None);
    let (api_version, kind, path) = KINDS[14];
    let spec = json!({"tier": "Admin", "priority": 5, "subject": {"namespaces": {}}});
    let policy = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "all"}, "spec": spec});
    let first = words(&live.api.create(path, &policy));
    let agent = live.agent(&["--table-owner", "everybody"]);
    let name = "ClusterNetworkPolicy all";
    let read = |policy: &str, expected: &str| {
        let status = agent.until(&format!("{policy} of {expected}"), |status| {
            of(&status.host.policy_versions, policy).0.as_deref() == Some(expected)
        });
        of(&status.host.policy_versions, policy)
    };
    let in_force = |policy: &str, expected: &str| {
        agent.until(&format!("{policy} of {expected} in force"), |status| {
            let known = of(&status.host.policy_versions, policy);
            known
                == (
                    Some(expected.to_owned()),
                    Some(expected.to_owned()),
                    String::new(),
                )
        })
    };
    in_force(name, &first);

    // Nobody can tell what it selects any more: what it said before holds.
    let unreadable = live.api.patch(path, "all", &json!({"spec": 7}));
    let (_, kept, _) = read(name, &words(&unreadable));
    assert_eq!(kept, Some(first.clone()));
    agent.until("a reason", |status| {
        of(&status.host.policy_versions, name).2.starts_with('P')
    });
    let ran = agent.asked_by(&["status"]);
    let line = format!("{name}: {} was read, {first} is in force: P", words(&unreadable));
    assert!(ran.stdout.contains(&line), "{line}: {}", ran.stdout);
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    assert_eq!(metric(&agent, "picket_policies_waiting"), 1);
    expect_schema(&agent.asked_by(&["status", "-o", "json"]).json());

    // What changes nothing is in force at once.
    let again = live.api.patch(path, "all", &json!({"spec": spec}));
    in_force(name, &words(&again));
    let ran = agent.asked_by(&["status"]);
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    assert_eq!(metric(&agent, "picket_policies_waiting"), 0);
    let operations = metric(&agent, "picket_operations_total");
    let annotations = json!({"metadata": {"annotations": {"a": "b"}}});
    let annotated = live.api.patch(path, "all", &annotations);
    in_force(name, &words(&annotated));
    assert_eq!(metric(&agent, "picket_operations_total"), operations);

    // What the kernel does not take waits.
    let allowing = "NetworkPolicy x/allow";
    allow(&live, "TCP");
    let before = words(&live.api.patch(POLICIES, "allow", &annotations));
    in_force(allowing, &before);
    let thief = steal(live.node(), &indexed::table_name());
    let spec = network_policy("x", "allow", &json!({"ingress": null}));
    let after = words(&live.api.patch(POLICIES, "allow", &spec));
    let (_, kept, _) = read(allowing, &after);
    assert_eq!(kept, Some(before.clone()));
    agent.until("what the kernel answered", |status| {
        let (_, kept, why) = of(&status.host.policy_versions, allowing);
        kept.as_ref() == Some(&before) && why.contains("Operation not permitted")
    });
    let ran = agent.asked_by(&["status"]);
    let line = format!("{allowing}: {after} was read, {before} is in force\n");
    assert!(ran.stdout.contains(&line), "{line}: {}", ran.stdout);
    drop(thief);
    in_force(allowing, &after);
    let ran = agent.asked_by(&["status"]);
    assert!(
        ran.stdout.contains("NetworkPolicy x/deny-ingress, version "),
        "{}",
        ran.stdout
    );
    // What is gone is not shown, nor is what concerns no pod here.
    live.api.delete(POLICIES, "allow");
    agent.until("no policy", |status| {
        of(&status.host.policy_versions, allowing).0.is_none()
    });
}

#[test]
fn pods_say_since_when_what_a_policy_says_is_in_force_in_each_and_since_when_it_is_not() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    let everybody = ["--table-owner", "everybody"];
    node.start(&everybody);
    let path = "MultiNetworkPolicy default/from-a";
    let list = "/apis/k8s.cni.cncf.io/v1beta1/namespaces/default/multi-networkpolicies";
    let selected =
        json!({"matchExpressions": [{"key": "name", "operator": "In", "values": ["server", "b"]}]});
    let spec = |peer: &str| json!({"podSelector": selected, "ingress": [{"from": named(&[peer])}]});
    node.policy("default", "from-a", "default/net", &spec("a"));
    let patch = |change: &Value| words(&node.api.patch(list, "from-a", change));
    let annotate = |value: &str| patch(&json!({"metadata": {"annotations": {"a": value}}}));
    let sandbox = |status: &PodsStatus, pod: &str| {
        let mut sandboxes = status.sandboxes.iter();
        let found = sandboxes.find(|sandbox| sandbox.pod == format!("default/{pod}"));
        found.cloned().unwrap_or_default()
    };
    let known = |node: &Node, versions: [&str; 2]| {
        let each = [("server", versions[0]), ("b", versions[1])];
        let status = node.until(&format!("{versions:?} in force"), |status| {
            each.iter().all(|(pod, version)| {
                let (_, in_force, _) = of(&sandbox(status, pod).policy_versions, path);
                in_force.as_deref() == Some(*version)
            })
        });
        each.map(|(pod, _)| since(&sandbox(&status, pod).policy_versions, path))
    };
    let version = annotate("b");
    let first = known(&node, [&version; 2]);
    assert!(first.iter().all(Option::is_some), "{first:?}");
    let version = annotate("c");
    assert_eq!(
        known(&node, [&version; 2]),
        first,
        "when nothing but an annotation changes"
    );

    // In one pod the kernel refuses the next.
    let thief = steal(&pods["server"].inside, &documented::table_name());
    let next = patch(&json!({"spec": spec("c")}));
    let second = known(&node, [&version, &next]);
    assert!(second[0] == first[0] && second[1] > first[1], "{second:?}");
    let troubled = |status: &PodsStatus| sandbox(status, "server").trouble_since;
    let status = node.until("a refusal", |status| troubled(status).is_some());
    let trouble = troubled(&status);
    assert!(trouble > first[0] && sandbox(&status, "b").trouble_since.is_none());
    let told = node.status(&[]).stdout;
    let line = format!("NOT all in force since {:.0}: another program", trouble.unwrap());
    assert!(told.contains(&line), "{line}: {told}");
    let line = format!("{path}, {next}, since {:.0}\n", second[1].unwrap());
    assert!(told.contains(&line), "{line}: {told}");
    expect_schema(&node.status(&["-o", "json"]).json());
    drop(thief);
    let third = known(&node, [&next; 2]);
    assert!(third[0] > second[1] && third[1] == second[1], "{third:?}");
    node.until("no refusal", |status| troubled(status).is_none());

    // The next agent finds it so.
    node.kill();
    node.start(&everybody);
    assert_eq!(known(&node, [&next; 2]), [None; 2]);
    let told = node.status(&[]).stdout;
    for part in [
        "default/server, rules as the agent has found them\n",
        &format!("{path}, {next}, since the agent started or before\n"),
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    expect_schema(&node.status(&["-o", "json"]).json());
}

#[test]
fn pods_say_which_version_of_a_policy_is_in_force_in_each() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    node.start(&["--table-owner", "everybody"]);
    let path = "MultiNetworkPolicy default/from-a".to_owned();
    let list = "/apis/k8s.cni.cncf.io/v1beta1/namespaces/default/multi-networkpolicies";
    let spec = |peer: &str| json!({"podSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": ["server", "b"]}]}, "ingress": [{"from": named(&[peer])}]});
    node.policy("default", "from-a", "default/net", &spec("a"));
    let touch = |value: &str| {
        let annotations = json!({"metadata": {"annotations": {"a": value}}});
        words(&node.api.patch(list, "from-a", &annotations))
    };
    let first = touch("b");
    let until = |expected: [(&str, &str, &str); 2]| {
        let status = node.until(&format!("{expected:?}"), |status| {
            expected.iter().all(|(pod, read, in_force)| {
                let mut sandboxes = status.sandboxes.iter();
                let sandbox = sandboxes.find(|sandbox| sandbox.pod == format!("default/{pod}"));
                let known = of(sandbox.map_or(&[], |sandbox| &sandbox.policy_versions), &path);
                let told = !known.2.starts_with("nobody has told yet");
                told && (known.0.as_deref(), known.1.as_deref()) == (Some(read), Some(in_force))
            })
        });
        let mut sandboxes = status.sandboxes.into_iter();
        let server = sandboxes.find(|sandbox| sandbox.pod == "default/server");
        (
            status.read[&path].to_string(),
            of(&server.unwrap().policy_versions, &path).2,
        )
    };
    assert_eq!(
        until([("server", &first, &first), ("b", &first, &first)]),
        (first.clone(), String::new())
    );

    // In one pod the kernel refuses the next.
    let inside: &NetworkNamespace = &pods["server"].inside;
    let thief = steal(inside, &documented::table_name());
    let next = json!({"spec": spec("c")});
    let next = words(&node.api.patch(list, "from-a", &next));
    let (read, why) = until([("server", &next, &first), ("b", &next, &next)]);
    assert_eq!(read, next);
    assert!(why.contains("another program holds the table"), "{why}");
    let told = node.status(&[]);
    let line = format!("{path}: {next} was read, {first} is in force\n");
    assert!(told.stdout.contains(&line), "{line}: {}", told.stdout);
    expect_schema(&node.status(&["-o", "json"]).json());
    expect(&pods, &["a->server c->b"], true, "with a refusal in one pod");
    drop(thief);
    until([("server", &next, &next), ("b", &next, &next)]);
    expect(&pods, &["c->server"], true, "in the end");

    // What changes nothing is in force at once, and what nobody can read leaves what is.
    let touched = touch("c");
    until([("server", &touched, &touched), ("b", &touched, &touched)]);
    let wrong = json!({ "spec": null });
    let wrong = words(&node.api.patch(list, "from-a", &wrong));
    let (read, why) = until([("server", &wrong, &touched), ("b", &wrong, &touched)]);
    assert_eq!(read, wrong);
    assert!(why.starts_with('P'), "{why}");
    let told = node.status(&[]);
    let line = format!("NOT in force as it is: {path}: {wrong} was read, {touched} is in force: P");
    assert!(told.stdout.contains(&line), "{line}: {}", told.stdout);
    assert_eq!(told.status, 1, "{}", told.stdout);
    node.delete_policy("default", "from-a");
    let gone = node.until("no policy", |status| status.sandboxes.is_empty());
    assert_eq!(gone.read.len(), 0);
}
