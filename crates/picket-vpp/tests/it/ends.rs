//! What reaches the end of the lists of an interface is dropped.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::{Family, Prefix, Protocol};
use picket_policy::ObjectRef;
use picket_vpp::acl::meaning::{self, Interpreter, Way};
use picket_vpp::acl::verify::{Fault, verify};
use picket_vpp::acl::{Acl, AclAction, AclRule, Acls, InterfaceLists, Role};
use picket_vpp::fake::{Direction, DroppedBy, Packet, Verdict};

use crate::acl::pods_called;
use crate::installed::{put, start};

/// The interface of `x/own`, where one list has one rule: who has this address may send to the pod.
fn lists(from: &str) -> Acls {
    let rule = AclRule {
        source: from.parse().expect("a network"),
        ..AclRule::everything(AclAction::Permit, Family::Ipv4)
    };
    let acl = Acl::new(Role::ToPod, vec![rule]);
    let interface = InterfaceLists {
        pod: Some(ObjectRef::new("Pod", "x", "own")),
        input: Vec::new(),
        output: vec![acl.tag.clone()],
    };
    Acls {
        acls: BTreeMap::from([(acl.tag.clone(), Arc::new(acl))]),
        interfaces: BTreeMap::from([("x/own".into(), interface)]),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn what_no_rule_of_a_list_is_about_is_dropped_and_the_list_that_is_empty_passes_it() {
    let acls = lists("10.0.0.1/32");
    let (fake, mut connector) = start(&acls, 5);
    let interface = put(&fake, &mut connector, &acls)["x/own"];
    for (source, destination, passes) in [
        ("10.0.0.1", "10.0.0.9", true),
        ("10.0.0.2", "10.0.0.9", false),
        // A list of rules about IPv4 is one for IPv6 too.
        ("fd00::1", "fd00::9", false),
    ] {
        let (source, destination) = (ip(source), ip(destination));
        let mut vpp = Interpreter::new(&acls);
        let read = meaning::Packet::opening(source, destination, Protocol::TCP, 80);
        assert!(vpp.passes("x/own", Way::In, &read), "{source}");
        assert_eq!(vpp.passes("x/own", Way::Out, &read), passes, "{source}");
        let packet = Packet::new(Protocol::TCP, (source, 40_000), (destination, 80));
        let expected = match passes {
            true => Verdict::Passed,
            false => Verdict::Dropped {
                by: DroppedBy::EndOfList,
            },
        };
        assert_eq!(fake.packet(interface, Direction::In, &packet), Verdict::Passed);
        assert_eq!(
            fake.packet(interface, Direction::Out, &packet),
            expected,
            "{source}"
        );
    }
}

/// Nothing restricts the pods, so that what is dropped is dropped wrongly, and nothing passes wrongly.
#[test]
fn what_reaches_the_end_of_a_list_is_dropped_to_who_proves_lists() {
    let snapshot: Snapshot = pods_called(&["one", "two", "own"]).collect();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let found = |from: &str| {
        let only = |pod: picket_engine::PodRef<'_>| match pod.pod().id().as_str() {
            "x/own" => vec!["x/own".into()],
            _ => Vec::new(),
        };
        verify(&lists(from), engine.program(), None, only, 99).counterexamples
    };
    let examples = found("10.0.0.1/32");
    let dropped = examples.iter().filter(|one| one.fault == Fault::Dropped);
    let dropped: Vec<_> = dropped.collect();
    let is_from = |source: &str| dropped.iter().any(|one| one.packet.source == ip(source));
    assert!(is_from("10.0.0.2") && !is_from("10.0.0.1"), "{examples:?}");
    assert!(
        dropped
            .iter()
            .all(|one| one.interface == "x/own" && one.way == Way::Out)
    );
    // The list reflects nothing and there is no other: what is dropped on its way to the pod is no answer to what that sends either.
    let others = examples.iter().filter(|one| one.fault != Fault::Dropped);
    for one in others {
        assert_eq!((one.way, one.fault), (Way::In, Fault::NoAnswer), "{one:?}");
        assert_ne!(one.packet.destination, ip("10.0.0.1"), "{one:?}");
    }
    let all = Prefix::all(Family::Ipv4).to_string();
    assert!(found(&all).is_empty(), "{:?}", found(&all));
}
