//! What agents put into the session layers of random clusters is what the policies say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Endpoint, Flow, Pod, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_policy::ObjectRef;
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, snapshot};
use picket_testing::manifest::{self, Style};
use picket_vpp::fake::{Connection, Dumps, Fake, Options, Packet};
use picket_vpp::loopback;
use picket_vpp::session::{self, render};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use smol_str::SmolStr;

use crate::agent::run_on;

/// How many rules a table may have: adding to a tree takes VPP a time that grows with the square.
const MOST_RULES: usize = 400;

/// A node with its VPP.
struct Node {
    vpp: Fake,
    /// The namespaces of its pods.
    namespaces: BTreeMap<ObjectRef, u32>,
    /// Pods whose tables have no room.
    narrower: BTreeSet<ObjectRef>,
}

/// What an agent sees of it: no workloads, no addresses that were made up, and no proposals of NetworkPolicy.
pub(crate) fn seen(mut snapshot: Snapshot) -> Snapshot {
    snapshot.pods.retain(|object, _| object.kind == "Pod");
    for pod in snapshot.pods.values_mut() {
        let pod = Arc::make_mut(pod);
        pod.attachments.clear();
        if pod.synthetic {
            pod.synthetic = false;
            pod.addresses = [].into_iter().collect();
        }
    }
    snapshot.networks.clear();
    snapshot.policies.retain(|object, policy| {
        object.kind == "NetworkPolicy" && (policy.ingress.isolates || policy.egress.isolates)
    });
    snapshot
}

/// The pods of a node that are in VPP.
pub(crate) fn own<'s>(snapshot: &'s Snapshot, node: &SmolStr) -> Vec<&'s Pod> {
    let pods = snapshot.pods.values().map(|pod| &**pod);
    pods.filter(|pod| pod.node.as_ref() == Some(node) && !pod.host_network && !pod.finished)
        .collect()
}

impl Node {
    fn new(name: &SmolStr, snapshot: &Snapshot, engine: &Engine, seed: u64) -> Self {
        let pods = own(snapshot, name).into_iter();
        let pods: Vec<_> = pods.map(|pod| pod.object.clone()).collect();
        let id = |pod: &ObjectRef| format!("{}/{}", pod.namespace, pod.name);
        let dumps = match seed % 3 {
            0 => Dumps::First,
            1 => Dumps::Second,
            _ => Dumps::Both,
        };
        let options = Options::new(seed).session_layer(true).dumps(dumps);
        let options = pods
            .iter()
            .fold(options, |options, pod| options.namespace(&id(pod)));
        let namespaces: BTreeMap<_, _> = pods.into_iter().zip(1..).collect();
        let vpp = Fake::start(options).unwrap();
        let options = session::Options {
            most_rules: MOST_RULES,
        };
        let (_, missing) = render(engine.program(), Some(name), &options);
        let node = Self {
            vpp,
            namespaces,
            narrower: missing.into_iter().map(|missing| missing.pod).collect(),
        };
        node.enforce(name, snapshot, seed, &id);
        node
    }

    fn enforce(&self, name: &str, snapshot: &Snapshot, seed: u64, id: &impl Fn(&ObjectRef) -> String) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("all.yaml"),
            manifest::file(snapshot, &mut Style::new(seed)),
        )
        .unwrap();
        let lines = self
            .namespaces
            .iter()
            .map(|(pod, index)| format!("{} {index}\n", id(pod)));
        let file = folder.path().join("namespaces");
        fs::write(&file, lines.collect::<String>()).unwrap();
        let arguments = [
            "--target".to_owned(),
            "vpp-session".to_owned(),
            "--once".to_owned(),
            "--max-session-rules".to_owned(),
            MOST_RULES.to_string(),
            "--vpp-socket".to_owned(),
            self.vpp.socket().to_str().unwrap().to_owned(),
            "--vpp-pod-namespace".to_owned(),
            format!("file={}", file.display()),
        ];
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        for is_again in [false, true] {
            self.vpp.clear_record();
            let ran = run_on(name, folder.path(), &arguments);
            assert_eq!(ran.status, 0, "{}", ran.stderr);
            let record = self.vpp.record();
            let changes = record
                .iter()
                .filter(|message| message.name == "session_rule_add_del");
            assert!(!is_again || changes.count() == 0, "{record:?}");
        }
        assert_eq!(self.vpp.complaints(), Vec::<String>::new());
        assert_eq!(self.vpp.crashes(), Vec::<String>::new());
    }
}

/// The pod at an end that has a network of its own.
pub(crate) fn managed<'s>(snapshot: &'s Snapshot, end: &Endpoint) -> Option<&'s Pod> {
    let Endpoint::Pod(object) = end else { return None };
    let pod = snapshot.pods.get(object).map(|pod| &**pod);
    pod.filter(|pod| !pod.host_network)
}

/// The addresses at both ends of a flow.
pub(crate) fn ends(snapshot: &Snapshot, flow: &Flow) -> Option<(IpAddr, IpAddr)> {
    let address = |end: &Endpoint| match end {
        Endpoint::Pod(object) => snapshot.pods.get(object)?.addresses.of(flow.family),
        Endpoint::Node { address, .. } | Endpoint::External(address) => Some(*address),
    };
    address(&flow.source).zip(address(&flow.destination))
}

/// Whether a flow passes, and whether a table on its way had no room; `None` of one that no session layer that is known sees.
fn judge(snapshot: &Snapshot, nodes: &BTreeMap<SmolStr, Node>, flow: &Flow) -> Option<(bool, bool)> {
    if !matches!(flow.protocol, Protocol::TCP | Protocol::UDP) {
        return None;
    }
    let (from, to) = (
        managed(snapshot, &flow.source),
        managed(snapshot, &flow.destination),
    );
    let node = |pod: &Pod| pod.node.as_ref().and_then(|name| nodes.get(name));
    if (from, to) == (None, None) || [from, to].into_iter().flatten().any(|pod| node(pod).is_none()) {
        return None;
    }
    let (source, destination) = ends(snapshot, flow)?;
    if source.is_unspecified() || destination.is_unspecified() {
        return None;
    }
    let packet = Packet::new(flow.protocol, (source, 40_000), (destination, flow.port));
    let (mut passes, mut narrower) = (true, false);
    if let Some((pod, node)) = from.and_then(|pod| Some((pod, node(pod)?))) {
        passes &= node.vpp.connects(*node.namespaces.get(&pod.object)?, &packet) == Connection::Allowed;
        narrower |= node.narrower.contains(&pod.object);
    }
    let is_near = from.zip(to).is_some_and(|(from, to)| from.node == to.node);
    if let Some((pod, node)) = to.filter(|_| !is_near).and_then(|pod| Some((pod, node(pod)?))) {
        passes &= node.vpp.accepts(&packet) == Connection::Allowed;
        narrower |= node.narrower.contains(&pod.object);
    }
    Some((passes, narrower))
}

fn check(snapshot: &Snapshot, seed: u64) -> Result<(), TestCaseError> {
    let semantics = Semantics::default();
    // What the NAT of a node gives packets is the node's, of which agents learn by themselves.
    let mut known = snapshot.clone();
    loopback::add(&mut known);
    let engine = Engine::compile(&known, semantics.clone());
    let names = known.nodes.keys();
    let nodes: BTreeMap<_, _> = names
        .map(|name| (name.clone(), Node::new(name, snapshot, &engine, seed)))
        .collect();
    for flow in representative_flows(&known) {
        let Some((passes, narrower)) = judge(&known, &nodes, &flow) else {
            continue;
        };
        let allowed = picket_reference::judge(&known, &semantics, &flow)
            .verdict()
            .is_allow();
        prop_assert!(
            passes == allowed || narrower && !passes,
            "{passes} {narrower}: {flow:?}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_agents_put_there_means_what_the_specification_says(snapshot in snapshot(Shape::Dialects, 6), seed: u64) {
        check(&seen(snapshot), seed)?;
    }
}
