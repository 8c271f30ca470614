//! What the agents of a cluster let pass is what its policies say, step by step, with real packets.

use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::Arc;

use picket_cluster::Snapshot;
use picket_lab::Progress;
use picket_testing::apiserver::Server;
use picket_testing::cases::{Case, Step, committed};

use crate::agents::{Agent, check, lab};
use crate::apiserver::deploy::role;
use crate::apiserver::refusals::grant;
use crate::client::Api;
use crate::published::Published;

/// Where pods get the IPv6 address that a case does not give them: fd78::/96, with their IPv4 address in it.
const PREFIX_V6: u128 = 0xfd78 << 112;

/// What a step says exists, where every pod has the address that it is given there, and one of each family.
pub(crate) fn cluster(step: &Step) -> Snapshot {
    let mut snapshot = step.cluster();
    for pod in snapshot.pods.values_mut().map(Arc::make_mut) {
        pod.synthetic = false;
        if let (Some(v4), None, false) = (pod.addresses.v4, pod.addresses.v6, pod.host_network) {
            pod.addresses.v6 = Some(Ipv6Addr::from_bits(PREFIX_V6 | u128::from(v4.to_bits())));
        }
    }
    snapshot
}

/// Plays one case: the cluster becomes what each step says, and then the wire must be what the policies say.
fn play(case: &Case, published: &mut Published<'_>, kubeconfig: &Path) -> usize {
    let mut answers = 0;
    let mut lab = lab(&cluster(&case.steps[0]), kubeconfig);
    let nodes: Vec<_> = lab.topology().snapshot.nodes.keys().cloned().collect();
    let start = |node| Agent::start(&lab, node, kubeconfig);
    let agents: Vec<_> = nodes.iter().map(|node| start(node)).collect();
    for (index, step) in case.steps.iter().enumerate() {
        let title = format!("{}: {}", step.expectations[0].position, step.title);
        if index > 0 {
            lab.apply(&cluster(step), &Progress::hidden()).unwrap();
        }
        let versions = published.put(&lab.topology().snapshot, &step.manifests);
        for agent in &agents {
            agent.until_enforced(&versions);
        }
        answers += check(&mut lab, &title, &agents);
    }
    answers
}

/// How much was played.
#[derive(Default)]
struct Played {
    cases: usize,
    steps: usize,
}

/// Plays all cases of some files, or as many as are wanted of each.
fn play_all(files: &[&str], of_each: usize) -> Played {
    let server = Server::start();
    let api = Api::new(&server.kubeconfig());
    grant(&api, &role(), "agent", None);
    let mut published = Published::new(&api);
    let cases = committed().unwrap();
    let mut played = Played::default();
    for file in files {
        let of_file = cases.iter().filter(|case| case.position.file.ends_with(file));
        let of_file: Vec<_> = of_file.take(of_each).collect();
        assert!(!of_file.is_empty(), "{file}");
        for case in of_file {
            let answers = play(case, &mut published, &server.kubeconfig_of("agent-token"));
            assert!(answers > 100, "{}: {answers}", case.title);
            played.cases += 1;
            played.steps += case.steps.len();
        }
    }
    played
}

#[test]
fn network_policies_of_the_end_to_end_tests_are_enforced() {
    let files = [
        "k8s-e2e/blocks.md",
        "k8s-e2e/isolation.md",
        "k8s-e2e/ports.md",
        "k8s-e2e/sctp.md",
        "k8s-e2e/selectors.md",
        "k8s-e2e/udp.md",
        "k8s-e2e/updates.md",
    ];
    assert!(play_all(&files, usize::MAX).steps > 40);
}

#[test]
fn thirty_cases_of_cyclonus_are_enforced() {
    let files = [
        "cyclonus/conflicts.md",
        "cyclonus/egress-ports.md",
        "cyclonus/ingress-ports.md",
        "cyclonus/peers.md",
        "cyclonus/steps.md",
        "cyclonus/targets.md",
    ];
    assert_eq!(play_all(&files, 6).cases, 30);
}

#[test]
fn policies_of_administrators_are_enforced() {
    let files = [
        "cluster-network-policy/admin.md",
        "cluster-network-policy/baseline.md",
        "cluster-network-policy/named-ports.md",
        "cluster-network-policy/networks.md",
        "cluster-network-policy/nodes.md",
        "tiers/admin-network-policy.md",
        "tiers/composition.md",
    ];
    assert!(play_all(&files, usize::MAX).steps > 34);
}
