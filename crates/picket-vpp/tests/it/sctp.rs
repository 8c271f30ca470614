//! What lists mean to a VPP that reads no ports of SCTP.

use std::net::IpAddr;

use picket_cluster::{Object, Semantics, Snapshot};
use picket_net::Protocol;
use picket_policy::Direction;
use picket_testing::build::policy;
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, semantics, snapshot};
use picket_vpp::acl::meaning::{Packet, Way};
use picket_vpp::acl::text;
use proptest::prelude::*;

use crate::acl::pods_called;
use crate::journey::Cluster;

/// The exception that `picket verify` names: a session of SCTP has no ports.
#[test]
fn one_association_lets_every_other_back() {
    let closed = policy("x/closed")
        .selects("name=closed")
        .isolates(Direction::Ingress);
    let pods = pods_called(&["closed", "other"]);
    let snapshot: Snapshot = pods.chain([Object::Policy(closed.build())]).collect();
    let cluster = Cluster::new(&snapshot, &Semantics::default());
    let [own, other]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
    for (protocol, comes_back) in [(Protocol::TCP, false), (Protocol::SCTP, true)] {
        let mut running = cluster.start().without_ports_of_sctp();
        let vpp = running.0.values_mut().next().expect("a node");
        let opened = Packet::opening(other, own, protocol, 80);
        assert!(!vpp.passes("x/closed", Way::Out, &opened));
        let asked = Packet::opening(own, other, protocol, 9000);
        assert!(vpp.passes("x/closed", Way::In, &asked));
        assert_eq!(
            vpp.passes("x/closed", Way::Out, &opened),
            comes_back,
            "{protocol}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn lists_let_no_more_pass_where_no_ports_of_sctp_are_read(
        snapshot in snapshot(Shape::Dialects, 5),
        semantics in semantics(),
    ) {
        let cluster = Cluster::new(&snapshot, &semantics);
        for flow in representative_flows(&snapshot) {
            let Some(hops) = cluster.hops(&flow).filter(|_| flow.source != flow.destination) else {
                continue;
            };
            let judged = picket_reference::judge(&snapshot, &semantics, &flow);
            let allowed = judged.verdict().is_allow();
            let ends = [&flow.source, &flow.destination].map(|end| cluster.address(end, &flow));
            let packet = Packet::opening(ends[0], ends[1], flow.protocol, flow.port);
            let mut running = cluster.start().without_ports_of_sctp();
            let passes = running.passes(&hops, &packet);
            let is_right = passes == allowed || flow.protocol == Protocol::SCTP && !passes;
            let lists = || cluster.acls.values().map(text).collect::<Vec<_>>().join("\n");
            prop_assert!(is_right, "{flow:?}: {passes}\n{}", lists());
            prop_assert!(!passes || running.answers(&hops, &packet, &packet), "no answer: {flow:?}\n{}", lists());
        }
    }
}
