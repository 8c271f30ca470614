//! Agents that ask no API server enforce the same.

use std::fs;

use picket_testing::etcd::Etcd;

use crate::agents::{Agent, check};
use crate::apiserver::agent::{Live, expect_schema, metric};
use crate::apiserver::guides::{ETCD, blocks};
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

/// Makes the etcd one that can be reached from the nodes.
fn reach(live: &Live, etcd: &Etcd) {
    for node in live.lab.topology().snapshot.nodes.keys() {
        let place = picket_lab::Place::Node(node.clone());
        Proxy::from(live.lab.network().namespace(&place).unwrap(), etcd.port());
    }
}

#[test]
fn what_a_reflector_keeps_is_enforced() {
    let mut live = Live::new(None);
    let mut kept = Etcd::start();
    reach(&live, &kept);
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
        assert!(metric(agent, "picket_source_behind_revisions") < 10);
    }
    check(&mut live.lab, "from etcd", &enforcing);
    // A reflector goes on to say how far it is while nothing changes.
    let told = |agent: &Agent| metric(agent, "picket_source_reflected_timestamp_seconds");
    let before = told(&enforcing[0]);
    enforcing[0].until("a later time", |_| told(&enforcing[0]) > before);
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

/// The role, the kind of right and the first keys of each right in etcd that the guide has somebody give.
fn documented() -> Vec<[String; 3]> {
    let [_, rights] = blocks(ETCD);
    let right = |line: Vec<String>| match &line.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [
            "etcdctl",
            "role",
            "grant-permission",
            role,
            "--prefix=true",
            right,
            prefix,
        ] => [(*role).to_owned(), right.to_uppercase(), (*prefix).to_owned()],
        other => panic!("{other:?}: nobody has looked at what that gives"),
    };
    rights.into_iter().map(right).collect()
}

#[test]
fn certificates_passwords_and_the_rights_that_the_guide_gives_are_enough() {
    let mut live = Live::new(None);
    let mut kept = Etcd::start_with(&["--bcrypt-cost=4"]);
    let rights = documented();
    let rights: Vec<_> = rights
        .iter()
        .map(|right| right.each_ref().map(String::as_str).into())
        .collect();
    kept.demand_passwords(&rights);
    kept.secure();
    reach(&live, &kept);
    let file = |name: &str| kept.folder().join(name).to_str().unwrap().to_owned();
    let [authority, certificate, key, password] =
        ["ca.pem", "client.pem", "client.key", "password"].map(file);
    fs::write(&password, "secret\n").unwrap();
    let files = [
        ["--etcd-cacert", &authority],
        ["--etcd-cert", &certificate],
        ["--etcd-key", &key],
        ["--etcd-password-file", &password],
    ];
    let as_user = |user: &'static str| [&files.concat()[..], &["--etcd-user", user]].concat();
    let kubeconfig = live.server.kubeconfig();
    let writes = as_user("picket-reflector");
    let mut reflector = Reflector::start_with(&kubeconfig, &kept, &writes);
    let endpoint = kept.endpoint();
    let source = ["--source", "etcd", "--etcd-endpoints", &endpoint];
    let enforcing = agents(&live, &[&source[..], &as_user("picket-agent")].concat());
    for agent in &enforcing {
        let status = agent.until_enforced(&live.versions);
        assert_eq!(status.host.policies, ["NetworkPolicy x/deny-ingress"]);
    }
    check(&mut live.lab, "from an etcd that knows who asks", &enforcing);
    // Who may read does not write, and one who may do so takes over.
    let reads = Reflector::start_with(&kubeconfig, &kept, &as_user("picket-agent"));
    reads.until("it is refused", |reflector| {
        reflector.log().contains("permission denied")
    });
    reflector.stop();
    let other = Reflector::start_with(&kubeconfig, &kept, &writes);
    other.until("it leads", |reflector| reflector.value("leading") == Some(1));
    assert_eq!(reads.value("puts_total"), Some(0), "{}", reads.log());
    for reflector in [&reflector, &other] {
        assert!(!reflector.log().contains("denied"), "{}", reflector.log());
    }
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
