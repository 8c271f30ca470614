//! What agents put into the lists of random clusters is what the policies say.

use std::collections::BTreeMap;
use std::fs;

use picket_cluster::{Flow, Pod, Semantics, Snapshot};
use picket_net::Protocol;
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, snapshot};
use picket_testing::manifest::{self, Style};
use picket_vpp::fake::{Direction, Fake, Options, Packet, Verdict};
use picket_vpp::loopback;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use smol_str::SmolStr;

use crate::agent::run_on;
use crate::random::{ends, managed, own, seen};
use crate::scene::{ACL, CHANGES};

const UPLINK: &str = "ge0";

/// The interface of a pod, which its tag says.
fn tag(pod: &Pod) -> String {
    pod.id()
}

/// A VPP with an interface for each pod of a node, which an agent has made what the policies say.
fn enforced(name: &SmolStr, snapshot: &Snapshot, seed: u64) -> Fake {
    let options = Options::new(seed).interface(UPLINK, "");
    let pods = own(snapshot, name).into_iter().zip(1..);
    let options = pods.fold(options, |options, (pod, number)| {
        options.interface(&format!("tap{number}"), &tag(pod))
    });
    let vpp = Fake::start(options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let manifests = manifest::file(snapshot, &mut Style::new(seed));
    fs::write(folder.path().join("all.yaml"), manifests).unwrap();
    let socket = vpp.socket().to_str().unwrap().to_owned();
    for is_again in [false, true] {
        vpp.clear_record();
        let arguments = ["--target", ACL, "--once", "--vpp-socket", &socket];
        let ran = run_on(name, folder.path(), &arguments);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let record = vpp.record();
        let mut changes = record.iter().filter(|message| CHANGES.contains(&&*message.name));
        assert!(!is_again || changes.next().is_none(), "{record:?}");
    }
    assert_eq!(vpp.complaints(), Vec::<String>::new());
    vpp
}

/// The index of the interface of a pod.
fn interface(vpp: &Fake, pod: &Pod) -> Option<u32> {
    let state = vpp.state();
    let mut interfaces = state.interfaces();
    let found = interfaces.find(|(_, interface)| interface.tag == tag(pod));
    found.map(|(index, _)| index)
}

/// The way of a flow through VPPs, each with an interface and whether it enters there; `None` of one that passes none that is
/// known.
fn way<'n>(
    snapshot: &Snapshot,
    nodes: &'n BTreeMap<SmolStr, Fake>,
    flow: &Flow,
) -> Option<Vec<(&'n Fake, u32, Direction)>> {
    let ends = [&flow.source, &flow.destination].map(|end| managed(snapshot, end));
    let node = |pod: &Pod| pod.node.as_ref().and_then(|name| nodes.get(name));
    let is_known = |pod: &Pod| node(pod).is_some_and(|vpp| interface(vpp, pod).is_some());
    if flow.source == flow.destination || ends.iter().flatten().any(|pod| !is_known(pod)) {
        return None;
    }
    let [from, to] = ends;
    let is_near = from.zip(to).is_some_and(|(from, to)| from.node == to.node);
    let mut way = Vec::new();
    for (pod, directions) in [
        (from, [Direction::In, Direction::Out]),
        (to, [Direction::Out, Direction::In]),
    ] {
        let Some(pod) = pod else { continue };
        let vpp = node(pod)?;
        let own = (vpp, interface(vpp, pod)?, directions[0]);
        let out = (vpp, vpp.state().interface(UPLINK)?, directions[1]);
        let both = [own, out]
            .into_iter()
            .filter(|(_, index, _)| !is_near || *index == own.1);
        match directions[0] {
            Direction::In => way.extend(both),
            Direction::Out => way.extend(both.rev()),
        }
    }
    (!way.is_empty()).then_some(way)
}

/// Whether a packet passes on the way there, or back.
fn passes(way: &[(&Fake, u32, Direction)], packet: &Packet, is_back: bool) -> bool {
    let mut way = way.to_vec();
    if is_back {
        way.reverse();
    }
    way.into_iter().all(|(vpp, index, direction)| {
        let direction = match (direction, is_back) {
            (Direction::In, false) | (Direction::Out, true) => Direction::In,
            (Direction::Out, false) | (Direction::In, true) => Direction::Out,
        };
        matches!(vpp.packet(index, direction, packet), Verdict::Passed)
    })
}

fn check(snapshot: &Snapshot, seed: u64) -> Result<(), TestCaseError> {
    let semantics = Semantics::default();
    // What the NAT of a node gives packets is the node's, of which agents learn by themselves.
    let mut known = snapshot.clone();
    loopback::add(&mut known);
    let nodes: BTreeMap<_, _> = known
        .nodes
        .keys()
        .map(|name| (name.clone(), enforced(name, snapshot, seed)))
        .collect();
    for (number, flow) in (0..).zip(representative_flows(&known)) {
        if !matches!(flow.protocol, Protocol::TCP | Protocol::UDP) {
            continue;
        }
        let Some(way) = way(&known, &nodes, &flow) else {
            continue;
        };
        let Some((source, destination)) = ends(&known, &flow) else {
            continue;
        };
        // Another source port for each, so that no session is of another flow.
        let from = 1024 + u16::try_from(number % 60_000).unwrap();
        let packet = Packet::new(flow.protocol, (source, from), (destination, flow.port));
        let judged = picket_reference::judge(&known, &semantics, &flow);
        let allowed = judged.verdict().is_allow();
        prop_assert_eq!(passes(&way, &packet, false), allowed, "{:?}", flow);
        prop_assert!(
            !allowed || passes(&way, &packet.reply(), true),
            "no answer: {:?}",
            flow
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
