use picket_testing::build::{ip, node, pod};
use picket_testing::snapshot;

use super::*;

fn cluster() -> Snapshot {
    let mut snapshot = snapshot![
        pod("shop/web").ip("10.0.0.1").ip("fd00::1"),
        pod("shop/done").ip("10.0.0.9").finished(),
        pod("shop/api-1").ip("10.0.0.2").owned_by("Deployment", "api"),
        pod("shop/StatefulSet/db").ip("198.18.0.1").synthetic(),
        pod("node/odd").ip("10.0.0.4"),
        pod("shop/agent").on("n1").ip("10.9.0.1").host_network(),
        node("n1").ip("10.9.0.1").ip("10.9.0.2").ip("fd00:9::1"),
        node("odd").ip("10.9.1.1"),
    ];
    let service = picket_cluster::Service {
        object: ObjectRef::new("Service", "shop", "front"),
        addresses: [ip("10.96.0.1"), ip("10.9.0.1")].into(),
        selector: picket_policy::Labels::default(),
        ports: Vec::new(),
    };
    snapshot.services.insert(service.object.clone(), service);
    snapshot
}

#[test]
fn endpoints_are_found_by_name_and_by_address() {
    let snapshot = cluster();
    let directory = Directory::new(&snapshot);
    for (asked, expected) in [
        ("shop/web", "shop/web"),
        ("shop/Pod/web", "shop/web"),
        ("10.0.0.1", "shop/web"),
        ("010.000.0.1", "shop/web"),
        ("::ffff:10.0.0.1", "shop/web"),
        ("FD00:0::1", "shop/web"),
        ("shop/StatefulSet/db", "shop/StatefulSet/db"),
        ("198.18.0.1", "shop/StatefulSet/db"),
        ("n1", "n1"),
        ("node/n1", "n1"),
        ("node/odd", "node/odd"),
        ("odd", "odd"),
        ("10.9.0.1", "n1"),
        ("10.9.0.2", "n1"),
        ("shop/agent", "shop/agent"),
        ("10.0.0.9", "10.0.0.9"),
        ("192.0.2.1", "192.0.2.1"),
    ] {
        assert_eq!(
            directory.find(asked).map(|party| party.id()),
            Ok(expected.to_owned()),
            "{asked}"
        );
    }
}

#[test]
fn an_address_of_a_node_leaves_out_its_other_addresses_of_that_family() {
    let snapshot = cluster();
    let directory = Directory::new(&snapshot);
    let addresses = |asked| match directory.find(asked) {
        Ok(Party::Node { addresses, .. }) => addresses,
        other => panic!("{other:?}"),
    };
    assert_eq!(addresses("10.9.0.2"), [ip("10.9.0.2"), ip("fd00:9::1")]);
    assert_eq!(addresses("n1"), [ip("10.9.0.1"), ip("10.9.0.2"), ip("fd00:9::1")]);
}

#[test]
fn what_names_nothing_says_what_to_do() {
    let snapshot = cluster();
    let directory = Directory::new(&snapshot);
    for (asked, expected) in [
        (
            "shop/wep",
            "nothing in the input is called `shop/wep`; did you mean `shop/web`?",
        ),
        (
            "shop/done",
            "pod `shop/done` has finished (its `status.phase` is Succeeded or Failed): for policies it no longer \
             exists",
        ),
        (
            "shop/Deployment/api",
            "the pods of `shop/Deployment/api` are in the input themselves: ask about one of them, such as \
             `shop/api-1`",
        ),
        (
            "10.96.0.1",
            "`10.96.0.1` is an address of service `shop/front`: policies are judged after service translation, so \
             ask about a pod behind it and the pod's own port",
        ),
        (
            "web",
            "`web` is no endpoint: write `namespace/pod`, `namespace/Kind/name` for a workload, the name of a node, \
             or an address; did you mean `shop/web`?",
        ),
    ] {
        assert_eq!(directory.find(asked).unwrap_err().to_string(), expected);
    }
}
