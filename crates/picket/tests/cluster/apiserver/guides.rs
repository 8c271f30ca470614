//! What the guides tell operators to run, as it stands there: against a real API server, by Helm, and as `kubectl` would.
//!
//! There are no controllers and no kubelet: pods of a DaemonSet are made here, and what runs in a container is held to be understood by
//! picket; `apiserver::contained` runs it.

mod operator;
mod questions;

use serde_json::json;

use self::operator::{Operator, words};
use crate::apiserver::deploy::documents;
use crate::apiserver::reflect::REFLECTOR;

/// The agents that the guides put on nodes.
const AGENTS: &str = "daemonset/picket-agent";
const AGENTS_OF_PODS: &str = "daemonset/picket-pods";
const AGENTS_OF_VPP: &str = "daemonset/picket-agent-vpp";

const AGENT: &str = include_str!("../../../../../docs/agent.md");
pub(crate) const ETCD: &str = include_str!("../../../../../docs/etcd.md");
const MIGRATE: &str = include_str!("../../../../../docs/migrate.md");
const PODS: &str = include_str!("../../../../../docs/pods.md");
const UPGRADE: &str = include_str!("../../../../../docs/upgrade.md");
const VPP: &str = include_str!("../../../../../docs/vpp.md");

/// The blocks of commands of a page, in order: the words of each line, without what is said about it.
pub(crate) fn blocks<const N: usize>(page: &str) -> [Vec<Vec<String>>; N] {
    let parts = page.split("```sh\n").skip(1);
    let blocks = parts.map(|part| part.split("```").next().unwrap());
    let blocks: Vec<_> = blocks.map(|block| block.lines().map(words).collect()).collect();
    let count = blocks.len();
    blocks
        .try_into()
        .unwrap_or_else(|_| panic!("{count} blocks of commands, and {N} that somebody has looked at"))
}

#[test]
fn agents_are_put_on_nodes() {
    let [run, by_manifest, by_chart, trace, remove] = blocks(AGENT);
    let operator = Operator::new();
    operator.play(&run);
    operator.play(&by_manifest);
    operator.expect_asked(AGENTS, "worker-1", "status");
    operator.play(&trace);
    operator.expect_asked(AGENTS, "worker-2", "trace");
    assert_eq!(operator.container(AGENTS)["image"], "picket:0.1.0");
    removed(&operator, AGENTS, &remove);
    // Another cluster: what is there is nobody's but who has put it there.
    let operator = Operator::new();
    operator.play(&by_chart);
    operator.roll_out(AGENTS);
    operator.play(&trace);
    operator.expect_asked(AGENTS, "worker-2", "trace");
    let image = &operator.container(AGENTS)["image"];
    assert_eq!(image, "registry.example/picket:0.1.0");
}

#[test]
fn agents_with_vpp_are_removed_as_others() {
    let [.., remove] = blocks::<5>(AGENT);
    let word = |word: &String| word.replace("agent", "agent-vpp");
    let remove: Vec<Vec<_>> = remove
        .iter()
        .map(|line| line.iter().map(word).collect())
        .collect();
    let operator = Operator::new();
    operator.run(&["kubectl", "apply", "-f", "deploy/agent-vpp.yaml"]);
    operator.roll_out(AGENTS_OF_VPP);
    removed(&operator, AGENTS_OF_VPP, &remove);
}

#[test]
fn agents_of_pods_are_put_on_nodes() {
    let [run, by_chart, by_manifest, trace] = blocks(PODS);
    let operator = Operator::new();
    operator.play(&run);
    operator.play(&by_chart);
    // Beside those of nodes.
    let [_, _, by_chart, ..] = blocks::<5>(AGENT);
    operator.play(&by_chart);
    for agents in [AGENTS, AGENTS_OF_PODS] {
        operator.roll_out(agents);
    }
    operator.play(&trace);
    operator.expect_asked(AGENTS_OF_PODS, "worker-2", "trace");
    for agent in [AGENTS, AGENTS_OF_PODS] {
        let image = &operator.container(agent)["image"];
        assert_eq!(image, "registry.example/picket:0.1.0", "{agent}");
    }
    let operator = Operator::new();
    operator.play(&by_manifest);
    operator.roll_out(AGENTS_OF_PODS);
    assert_eq!(operator.container(AGENTS_OF_PODS)["image"], "picket:0.1.0");
}

#[test]
fn lists_and_rules_of_vpp_are_shown_kept_and_proved() {
    let [render, run, refuse, by_chart, lists, rules] = blocks(VPP);
    let operator = Operator::new();
    for block in [render, run, refuse, lists, rules] {
        operator.play(&block);
    }
    // They are two ways to make the same release.
    for line in &by_chart {
        let operator = Operator::new();
        operator.play(std::slice::from_ref(line));
        operator.roll_out(AGENTS_OF_VPP);
        let container = operator.container(AGENTS_OF_VPP);
        operator::expect_understood(&container);
        let of_etcd = container["args"]
            .as_array()
            .unwrap()
            .contains(&json!("--source=etcd"));
        assert_eq!(
            of_etcd,
            line.contains(&"vpp.source=etcd".to_owned()),
            "{container}"
        );
    }
}

#[test]
fn a_cluster_is_kept_in_etcd_by_whoever_may_read_what_the_guide_says() {
    // The rights that it has somebody give in etcd are enough: `apiserver::sources` holds that.
    let [run, _] = blocks(ETCD);
    let operator = Operator::new();
    operator.play(&run);
    let (_, role) = documents(REFLECTOR)
        .find(|(kind, _)| *kind == "ClusterRole")
        .unwrap();
    let (_, rest) = ETCD.split_once("They may `list` and `watch`").unwrap();
    let (said, _) = rest.split_once("change nothing").unwrap();
    for resource in ["namespaces", "nodes", "pods", "services"] {
        assert!(role.contains(&format!("  - {resource}\n")), "{resource}");
        assert!(said.contains(resource), "{resource}: {said}");
    }
}

#[test]
fn one_version_follows_another_and_goes_back() {
    let [look, upgrade, back, seen] = blocks(UPGRADE);
    let operator = Operator::new();
    let before = ["image.tag=0.0.9", "listen=127.0.0.1:9999"];
    operator.run(&[
        "helm",
        "install",
        "picket",
        "deploy/chart",
        "--namespace",
        "kube-system",
        "--set",
        before[0],
        "--set",
        before[1],
    ]);
    operator.play(&look);
    let is = |image: &str| {
        let container = operator.container(AGENTS);
        assert_eq!(container["image"], image);
        // What was set for the version before holds for the other.
        let arguments = container["args"].as_array().unwrap();
        assert!(
            arguments.contains(&json!("--listen=127.0.0.1:9999")),
            "{container}"
        );
    };
    is("picket:0.0.9");
    operator.play(&upgrade);
    is("picket:0.1.0");
    operator.play(&seen);
    operator.play(&back);
    is("picket:0.0.9");
}

#[test]
fn other_programs_are_replaced_and_come_back() {
    let [look, from_nftables, from_iptables, back] = blocks(MIGRATE);
    let operator = Operator::new();
    let others = ["multi-networkpolicy-nftables", "multi-networkpolicy-iptables"];
    for other in others {
        operator.run_other(other);
    }
    operator.play(&look);
    for (other, replace) in others.into_iter().zip([from_nftables, from_iptables]) {
        operator.play(&replace);
        operator.expect_asked(AGENTS_OF_PODS, "worker-1", "status");
        assert_eq!(operator.find(&format!("daemonset/{other}")), None);
        removed(&operator, AGENTS_OF_PODS, &back);
    }
}

/// Plays how agents are removed, and holds that all pods then clean up, and are seen to have done so when they have.
fn removed(operator: &Operator, of: &str, block: &[Vec<String>]) {
    let before = operator.container(of);
    let [patch, desired, pods, remove] = block else {
        panic!("{block:?}")
    };
    operator.play(std::slice::from_ref(patch));
    let spec = operator.object(of)["spec"].clone();
    assert_eq!(spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"], "100%");
    let pod = &spec["template"]["spec"];
    // All that the agent was told and given, and what it is to do with it.
    let mut cleanup = before;
    cleanup["name"] = json!("cleanup");
    cleanup["args"].as_array_mut().unwrap().push(json!("--cleanup"));
    let fields = cleanup.as_object_mut().unwrap();
    fields.retain(|field, _| !["livenessProbe", "readinessProbe"].contains(&field.as_str()));
    assert_eq!(pod["initContainers"], json!([cleanup]));
    operator::expect_understood(&cleanup);
    let rest = operator.container(of);
    assert_eq!(
        (&rest["args"], &rest["readinessProbe"]),
        (&json!(["--version"]), &json!(null))
    );
    operator::expect_understood(&rest);

    let shown = || operator.output(pods).unwrap();
    assert_eq!(shown(), "NODE CLEANUP\nworker-1 <none>\nworker-2 <none>\n");
    operator.play(std::slice::from_ref(desired));
    operator.roll_out(of);
    assert_eq!(shown(), "NODE CLEANUP\nworker-1 <none>\nworker-2 <none>\n");
    operator.clean_up_on(of, "worker-2");
    assert_eq!(shown(), "NODE CLEANUP\nworker-1 <none>\nworker-2 Completed\n");
    operator.clean_up_on(of, "worker-1");
    operator.play(std::slice::from_ref(remove));
    assert_eq!(operator.find(of), None);
    // So would the garbage collector.
    operator.end_pods(of);
}
