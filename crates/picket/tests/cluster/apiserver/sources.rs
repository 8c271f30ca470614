//! Agents that ask no API server enforce the same.

use std::fs;

use picket_testing::etcd::Etcd;

use crate::agents::{Agent, check};
use crate::apiserver::agent::{Live, expect_schema, metric};
use crate::objects::{KINDS, dump};
use crate::proxy::Proxy;
use crate::reflectors::Reflector;

/// A file that does not exist.
const NOWHERE: &str = "/nowhere/kubeconfig";

/// Agents on both nodes, which could not ask an API server.
fn agents(live: &Live, more: &[&str]) -> Vec<Agent> {
    ["lab-1", "lab-2"]
        .map(|node| Agent::start_with(&live.lab, node, NOWHERE.as_ref(), more))
        .into()
}

#[test]
fn what_a_reflector_keeps_is_enforced() {
    let mut live = Live::new(None);
    let mut kept = Etcd::start();
    for node in live.lab.topology().snapshot.nodes.keys() {
        let place = picket_lab::Place::Node(node.clone());
        Proxy::from(live.lab.network().namespace(&place).unwrap(), kept.port());
    }
    let mut reflector = Reflector::start(&live.server.kubeconfig(), &kept);
    let arguments = [
        "--source",
        "etcd",
        "--etcd-endpoints",
        &kept.endpoint(),
        "--etcd-timeout",
        "1",
    ];
    let mut enforcing = agents(&live, &arguments);
    for agent in &enforcing {
        let status = agent.until_enforced(&live.versions);
        assert_eq!(status.host.policies, ["NetworkPolicy x/deny-ingress"]);
        let versions = status.host.policy_versions;
        assert!(
            versions[0].is_current() && versions[0].in_force.as_ref().unwrap().revision > Some(1),
            "{versions:?}"
        );
        expect_schema(&agent.asked_by(&["status", "-o", "json"]).json());
        assert!(metric(agent, "picket_source_revision") > 1);
    }
    check(&mut live.lab, "from etcd", &enforcing);
    // Whatever goes away, the rules stay; also those of an agent that begins then.
    reflector.kill();
    kept.kill();
    enforcing[0].until("trouble", |status| status.source["etcd"].trouble.is_some());
    enforcing[0].kill();
    enforcing[0] = Agent::start_with(&live.lab, "lab-1", NOWHERE.as_ref(), &arguments);
    enforcing[0].until("trouble", |status| {
        status
            .source
            .get("etcd")
            .is_some_and(|etcd| etcd.trouble.is_some())
    });
    check(&mut live.lab, "without etcd", &enforcing);
    kept.restart();
    enforcing[0].until_enforced(&live.versions);
    check(&mut live.lab, "with etcd again", &enforcing);
}

#[test]
fn what_manifests_say_is_enforced() {
    let mut live = Live::new(None);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.json");
    dump(&live.api, &KINDS[..12], &file);
    let enforcing = agents(&live, &["--source", folder.path().to_str().unwrap()]);
    for agent in &enforcing {
        let status = agent.until("the policy", |status| {
            status.ready && !status.host.policies.is_empty()
        });
        assert_eq!(status.host.policies, ["NetworkPolicy x/deny-ingress"]);
        expect_schema(&agent.asked_by(&["status", "-o", "json"]).json());
    }
    check(&mut live.lab, "from a directory", &enforcing);
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    for agent in &enforcing {
        agent.until("trouble", |status| status.source["files"].trouble.is_some());
    }
    check(&mut live.lab, "from half a file", &enforcing);
    fs::write(&file, whole.replace("deny-ingress", "another-name")).unwrap();
    for agent in &enforcing {
        agent.until("the policy by another name", |status| {
            status.host.policies == ["NetworkPolicy x/another-name"]
        });
    }
    check(&mut live.lab, "from another file", &enforcing);
}
