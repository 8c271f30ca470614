//! Annotations that mean something to picket, or meant something once, and say what nobody understands.

use kube::core::Status;
use serde_json::{Value, json};

use super::{ANNOTATIONS, QUOTES, expect, from_z, port};
use crate::agents::Agent;
use crate::apiserver::agent::Live;
use crate::apiserver::hostile::expect_readable;
use crate::objects::network_policy;
use crate::picket;

/// Where the policies of namespace y are.
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/y/networkpolicies";

/// The annotation by which a namespace isolated its pods in the proposal of NetworkPolicy.
const PROPOSED: &str = "net.beta.kubernetes.io/network-policy";

/// What stands for the way in which a policy is meant, and is not `audit`. The server takes neither more nor bytes of zero.
pub(in crate::apiserver) fn modes() -> Vec<String> {
    let quotes = QUOTES.replace('\0', "");
    let mut modes: Vec<_> = [
        "",
        "off",
        "Audit",
        "audit,enforce",
        "audit\nenforce",
        "\"audit\"",
        "{}",
    ]
    .iter()
    .map(|mode| (*mode).to_owned())
    .collect();
    modes.push(format!("audit{quotes}"));
    modes.push("audit ".repeat((ANNOTATIONS - 1000) / 6));
    modes.push(quotes);
    modes
}

/// Waits until the agent enforces an object as it was written last.
fn until_known(agent: &Agent, resource: &str, written: &Value) {
    let version = written["metadata"]["resourceVersion"].as_str().unwrap();
    let known = [(resource.to_owned(), version.parse().unwrap())];
    agent.until_enforced(&known.into());
}

#[test]
fn a_policy_whose_mode_nobody_knows_is_enforced_and_named() {
    let live = Live::new(None);
    let agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    let mut spec = from_z(&[port(7001)]);
    spec["podSelector"] = json!({"matchLabels": {"pod": "b"}});
    live.api.create(POLICIES, &network_policy("y", "moded", &spec));
    let set = |mode: &str| {
        let fields = json!({"metadata": {"annotations": {"picket.dev/mode": mode}}});
        let patched = live.api.try_patch(POLICIES, "moded", None, &fields)?;
        until_known(&agent, "networkpolicies.networking.k8s.io", &patched);
        Ok::<_, Box<Status>>(agent.status().unwrap().findings)
    };
    let others = || {
        expect(&live, &[("z/a", "y/b", 7001), ("z/a", "z/b", 7002)], true);
        expect(&live, &[("z/a", "x/a", 7001)], false);
    };
    for mode in modes() {
        // What is enforced all the same would pass here.
        assert_eq!(set("audit").unwrap(), []);
        expect(&live, &[("z/a", "y/b", 7002)], true);
        let findings = set(&mode).unwrap();
        expect(&live, &[("z/a", "y/b", 7002)], false);
        others();
        let named: Vec<_> = findings.iter().map(|finding| finding.object.as_str()).collect();
        assert_eq!(named, ["NetworkPolicy y/moded"], "{mode:.100}");
        assert!(findings[0].message.contains("Unsupported value"), "{findings:?}");
    }
    let refused = set(&"audit ".repeat(1 << 18)).unwrap_err();
    assert!(
        refused.message.contains("may not be more than"),
        "{}",
        refused.message
    );
    others();
    expect_readable(&live, &agent);
}

#[test]
fn what_isolated_namespaces_once_isolates_none_whatever_it_says() {
    let live = Live::new(None);
    let agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    let mut values = modes();
    values.extend(
        [
            "{\"ingress\": {\"isolation\": \"DefaultDeny\"}}",
            "{\"ingress\": 7}",
            "[",
        ]
        .map(str::to_owned),
    );
    for value in values {
        let mut written = Value::Null;
        for namespace in ["x", "y", "z"] {
            let fields = json!({"metadata": {"annotations": {PROPOSED: value}}});
            written = live.api.patch("/api/v1/namespaces", namespace, &fields);
        }
        until_known(&agent, "namespaces", &written);
        expect(&live, &[("z/a", "y/b", 7001)], true);
        expect(&live, &[("z/a", "x/a", 7001)], false);
        assert_eq!(agent.status().unwrap().findings, []);
        // Who asks about the cluster hears the same.
        for (from, to, answer) in [("z/a", "y/b", "allow"), ("z/a", "x/a", "deny")] {
            let asked = picket(
                &live.server.kubeconfig(),
                &["eval", "--kube", "--from", from, "--to", to, "--port", "7001"],
            );
            assert!(
                asked.stdout.contains(answer),
                "{value:.100}: {}{}",
                asked.stdout,
                asked.stderr
            );
        }
    }
    expect_readable(&live, &agent);
}
