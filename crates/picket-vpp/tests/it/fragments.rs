//! Fragments behind the first one, of which VPP compares addresses and protocol alone.

use std::collections::BTreeSet;

use picket_cluster::{Endpoint, Semantics, Snapshot};
use picket_net::{Family, Protocol};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, snapshot};
use picket_vpp::acl::meaning::Packet;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::journey::Cluster;

/// What is alike to the rules about a later fragment.
type Key = (Endpoint, Endpoint, Family, Protocol);

/// Fragments of what is allowed pass, and so do those that answer. Where one end allows nothing of the protocol, none does.
fn check(snapshot: &Snapshot) -> Result<(), TestCaseError> {
    let semantics = Semantics::default();
    let cluster = Cluster::new(snapshot, &semantics);
    let flows = representative_flows(snapshot);
    let flows: Vec<_> = flows
        .into_iter()
        .filter_map(|flow| Some((cluster.hops(&flow)?, flow)))
        .filter(|(_, flow)| flow.source != flow.destination)
        .collect();
    let (mut sent, mut received): (BTreeSet<Key>, BTreeSet<Key>) = Default::default();
    let key = |flow: &picket_cluster::Flow| {
        let (source, destination) = (flow.source.clone(), flow.destination.clone());
        (source, destination, flow.family, flow.protocol)
    };
    for (_, flow) in &flows {
        let judgement = picket_reference::judge(snapshot, &semantics, flow);
        sent.extend(judgement.egress.verdict.is_allow().then(|| key(flow)));
        received.extend(judgement.ingress.verdict.is_allow().then(|| key(flow)));
    }
    for (hops, flow) in &flows {
        let ends = [&flow.source, &flow.destination].map(|end| cluster.address(end, flow));
        let first = Packet::opening(ends[0], ends[1], flow.protocol, flow.port);
        let later = first.later_fragment();
        let mut running = cluster.start();
        let is_allowed = running.passes(hops, &first);
        let passes = running.passes(hops, &later);
        prop_assert!(passes || !is_allowed, "{:?}", flow);
        // Some ICMPv6 always passes, and so then do fragments of all.
        let possible = sent.contains(&key(flow)) && received.contains(&key(flow));
        let possible = possible || flow.protocol == Protocol::ICMPV6;
        prop_assert!(possible || !passes, "{:?}", flow);
        // The session of a fragment lets fragments back, and nothing else.
        let mut running = cluster.start();
        if running.passes(hops, &later) {
            prop_assert!(running.answers(hops, &later, &later), "no answer: {:?}", flow);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn fragments_of_what_is_allowed_pass_and_so_do_those_that_answer(snapshot in snapshot(Shape::Dialects, 5)) {
        check(&snapshot)?;
    }
}
