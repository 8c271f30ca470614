//! Pods with the longest names, in namespaces with the longest.

use picket_net::Family;
use serde_json::json;

use super::{expect, expect_readable, from_z, port};
use crate::agents::denied;
use crate::apiserver::agent::{Live, NODE};
use crate::objects::network_policy;
use crate::prober::address;

/// As long as the server takes names of pods: four labels of DNS.
pub(in crate::apiserver) fn longest_of_pods() -> String {
    ["p".repeat(63), "o".repeat(63), "d".repeat(63), "s".repeat(61)].join(".")
}

/// As long as it takes names of namespaces: one.
pub(in crate::apiserver) fn longest_of_namespaces() -> String {
    "n".repeat(63)
}

#[test]
fn pods_with_the_longest_names_are_enforced() {
    let live = Live::new(None);
    let agent = live.agent(&["--log-format", "json"]);
    agent.until_enforced(&live.versions);
    let (namespace, name) = (longest_of_namespaces(), longest_of_pods());
    let (pods, policies) = (
        format!("/api/v1/namespaces/{namespace}/pods"),
        format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"),
    );
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    live.api.create("/api/v1/namespaces", &object);
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"pod": "a"}},
            "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "main"}]},
        })
    };
    let refused = live.api.try_create(&pods, &pod(&format!("{name}s"))).unwrap_err();
    assert!(
        refused.message.contains("no more than 253"),
        "{}",
        refused.message
    );
    // It takes the place of another.
    let ips = Family::BOTH.map(|family| address(&live.lab, "y/b", family).to_string());
    expect(&live, &[("z/a", "y/b", 7001), ("z/a", "y/b", 7002)], true);
    live.api.delete("/api/v1/namespaces/y/pods", "b");
    live.api.create(&pods, &pod(&name));
    let ips = json!({"phase": "Running", "podIP": ips[0], "podIPs": ips.map(|ip| json!({"ip": ip}))});
    live.api.set_status(&pods, &name, &ips);
    let policy = network_policy(&namespace, &name, &from_z(&[port(7001)]));
    live.api.create(&policies, &policy);
    let id = format!("NetworkPolicy {namespace}/{name}");
    agent.until("the policy", |status| status.host.policies.contains(&id));
    let denies = || {
        expect(&live, &[("z/a", "y/b", 7001), ("z/a", "z/b", 7002)], true);
        expect(
            &live,
            &[("z/a", "y/b", 7002), ("x/c", "y/b", 7001), ("z/a", "x/a", 7001)],
            false,
        );
    };
    denies();
    // It is named in full to whoever asks.
    let (own, server) = (format!("{namespace}/{name}"), "7002");
    let traced = agent.asked_by(&["trace", "z/a", &own, server]);
    assert!(
        traced.stdout.contains(&own) && traced.stdout.contains("drop"),
        "{}",
        traced.stdout
    );
    agent.until("a line about it", |_| {
        let lines = denied(&agent.log());
        lines.iter().any(|line| line.to_string().contains(&own))
    });
    assert_eq!(agent.status().unwrap().findings, []);
    expect_readable(&live, &agent);
}
