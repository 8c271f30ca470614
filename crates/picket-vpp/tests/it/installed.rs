//! What is rendered, put into the strict VPP of the tests over its socket, lets pass what the reference says.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{Semantics, Snapshot};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, snapshot};
use picket_vpp::acl::Acls;
use picket_vpp::acl::hold::Held;
use picket_vpp::acl::meaning::{self, Way};
use picket_vpp::acl::plan::{Installed, Plan, plan};
use picket_vpp::client::{Connector, Error, Feature};
use picket_vpp::fake::{Direction, Fake, Options, Packet, Verdict};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use smol_str::SmolStr;

use crate::journey::Cluster;

/// How many lists a VPP has, but for those that stand before others because something was cut.
pub(crate) fn beside_cuts(installed: &Installed) -> usize {
    let acls = installed.acls.values();
    acls.filter(|acl| !acl.is_cut()).count()
}

/// The same of one in the tests.
pub(crate) fn lists_beside_cuts(fake: &Fake) -> usize {
    let state = fake.state();
    let acls = state
        .acls()
        .filter(|(_, acl)| !acl.tag.starts_with("picket-cut-"));
    acls.count()
}

/// A VPP with the interfaces of some lists, and what connects to it.
pub(crate) fn start(acls: &Acls, seed: u64) -> (Fake, Connector) {
    let fake = Fake::start(Options::new(seed).reads_sctp()).expect("a VPP");
    for name in acls.interfaces.keys() {
        let index = fake.add_interface(name, "");
        assert!(fake.set_up(index, true));
    }
    let connector = Connector::new(fake.socket());
    (fake, connector)
}

/// Has VPP make lists and give them to interfaces, once, and reads what it has then: what it was told, and what it refused.
pub(crate) fn carry_out(connector: &mut Connector, acls: &Acls) -> (Plan, Vec<Error>) {
    let mut vpp = connector
        .connect(&[Feature::Acls, Feature::Interfaces])
        .expect("a connection");
    let reading = vpp.read().expect("what there is");
    let mut held = Held::new(reading.installed);
    let plan = held.plan(acls, held.installed().interfaces.keys());
    let troubles = vpp.carry_out_held(&plan, &reading.interfaces, &BTreeSet::new(), &mut held);
    let troubles = troubles.expect("answers");
    assert_eq!(vpp.read().expect("what there is").installed, *held.installed());
    (plan, troubles)
}

/// Makes the lists of a VPP these, and reads them back; nothing is sent a second time. Gives the indices of its interfaces.
pub(crate) fn put(fake: &Fake, connector: &mut Connector, acls: &Acls) -> BTreeMap<SmolStr, u32> {
    let mut vpp = connector
        .connect(&[Feature::Acls, Feature::Interfaces])
        .expect("a connection");
    let mut known = vpp.read().expect("what there is");
    let troubles = vpp
        .carry_out(&plan(&known.installed, acls), &mut known)
        .expect("answers");
    assert!(troubles.is_empty(), "{troubles:?}");
    let mut after = vpp.read().expect("what there is");
    assert_eq!(known, after);
    assert!(plan(&after.installed, acls).is_empty());
    assert_eq!(beside_cuts(&after.installed), acls.acls.len());
    fake.clear_record();
    let troubles = vpp
        .carry_out(&plan(&after.installed, acls), &mut after)
        .expect("answers");
    assert!(troubles.is_empty() && fake.record().is_empty());
    assert_eq!(fake.complaints(), Vec::<String>::new());
    let interfaces = after.interfaces.into_iter();
    interfaces
        .map(|(name, interface)| (name, interface.index))
        .collect()
}

fn check(snapshot: &Snapshot, seed: u64) -> Result<(), TestCaseError> {
    let semantics = Semantics::default();
    let cluster = Cluster::new(snapshot, &semantics);
    let mut vpps = BTreeMap::new();
    for (node, acls) in &cluster.acls {
        let (fake, mut connector) = start(acls, seed);
        let interfaces = put(&fake, &mut connector, acls);
        vpps.insert(node.clone(), (fake, interfaces));
    }
    let mut interpreted = cluster.start();
    for (number, flow) in (0..).zip(representative_flows(snapshot)) {
        let Some(hops) = cluster.hops(&flow).filter(|_| flow.source != flow.destination) else {
            continue;
        };
        if !flow.protocol.has_ports() {
            continue;
        }
        let ends = [&flow.source, &flow.destination].map(|end| cluster.address(end, &flow));
        // Another source port for each, so that no session is of another flow.
        let from = 1024 + u16::try_from(number % 60_000).expect("a port");
        let packet = Packet::new(flow.protocol, (ends[0], from), (ends[1], flow.port));
        let pass = |packet: &Packet, back: bool| {
            let mut hops: Vec<_> = hops.iter().collect();
            if back {
                hops.reverse();
            }
            hops.into_iter().all(|(node, interface, way)| {
                let (fake, interfaces) = &vpps[node];
                let direction = match (way, back) {
                    (Way::In, false) | (Way::Out, true) => Direction::In,
                    (Way::Out, false) | (Way::In, true) => Direction::Out,
                };
                let packet = if back { packet.reply() } else { *packet };
                matches!(
                    fake.packet(interfaces[interface], direction, &packet),
                    Verdict::Passed
                )
            })
        };
        let allowed = picket_reference::judge(snapshot, &semantics, &flow)
            .verdict()
            .is_allow();
        prop_assert_eq!(pass(&packet, false), allowed, "{:?}", flow);
        prop_assert!(!allowed || pass(&packet, true), "no answer: {:?}", flow);
        // Fragments meet the sessions of those before them, in the interpreter as there.
        let (later, read) = (
            packet.fragment(),
            meaning::Packet::opening(ends[0], ends[1], flow.protocol, 0),
        );
        let read = read.later_fragment();
        let passes = pass(&later, false);
        prop_assert_eq!(interpreted.passes(&hops, &read), passes, "a fragment: {:?}", flow);
        if passes {
            let answered = interpreted.answers(&hops, &read, &read);
            prop_assert_eq!(
                pass(&later, true),
                answered,
                "what answers a fragment: {:?}",
                flow
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn what_is_installed_means_what_the_specification_says(snapshot in snapshot(Shape::Dialects, 5), seed: u64) {
        check(&snapshot, seed)?;
    }
}
