//! Tables of the indexed layout in the kernel, and listed back.

use picket_cluster::Snapshot;
use picket_net::Protocol;
use picket_nftables::{parse, print};
use picket_policy::Direction;
use picket_testing::build::{accept, admin_policy, block, deny, node, pod, pods_in, policy};
use picket_testing::snapshot;

use super::super::table;
use crate::kernel::{listed, without_comments_of_sets};

/// Everything that the layout has: both families, every set, and a node whose pods may not reach it.
fn everything() -> Snapshot {
    snapshot![
        node("n").ip("192.0.2.1").ip("2001:db8::1"),
        pod("x/a").label("app", "a").ip("10.0.0.1").ip("fd00::1").on("n"),
        pod("x/b").label("app", "b").ip("10.0.0.2").ip("fd00::2").on("n"),
        pod("y/c").ip("10.0.1.3").ip("fd00::3"),
        admin_policy("no-ssh", 1).egress(deny().peer(block("192.0.2.0/24", &[])).port(Protocol::TCP, 22)),
        policy("x/b").selects("app=b").ingress(
            accept()
                .peer(pods_in("x", "app=a"))
                .peer(block("0.0.0.0/0", &["10.0.0.0/8", "172.16.0.0/12"]))
                .peer(block("2001:db8::/32", &["2001:db8:1::/48"]))
                .port(Protocol::TCP, 80)
                .ports(Protocol::UDP, 1000, 2000)
                .protocol(Protocol::SCTP)
        ),
        policy("x/all")
            .ingress(accept().peer(pods_in("y", "")))
            .isolates(Direction::Egress),
    ]
}

/// So many policies isolate one pod that their counters do not fit into one rule.
fn many_policies() -> Snapshot {
    let policies = (0..150).map(|index| policy(&format!("x/p{index}")).isolates(Direction::Ingress).into());
    [pod("x/a").ip("10.0.0.1").into()]
        .into_iter()
        .chain(policies)
        .collect()
}

#[test]
fn tables_load_from_text_and_from_json_and_are_listed_as_they_were() {
    let idle = snapshot![node("n"), pod("x/a").ip("10.0.0.1").on("n")];
    for (cluster, node) in [
        (everything(), Some("n")),
        (many_policies(), None),
        (idle, Some("n")),
    ] {
        let table = table(&cluster, node);
        let expected = parse::shown(&table);
        assert_eq!(listed("nft -f -", &table, &print::text(&table)), expected);
        let loaded = listed("nft -j -f -", &table, &print::json(&table));
        assert_eq!(loaded, without_comments_of_sets(&expected));
    }
}

#[test]
fn the_number_of_sets_depends_on_subjects_and_not_on_policies() {
    let one = table(
        &[
            pod("x/a").ip("10.0.0.1").into(),
            policy("x/p").isolates(Direction::Ingress).into(),
        ]
        .into_iter()
        .collect(),
        None,
    );
    let many = table(&many_policies(), None);
    let count = |table: &picket_nftables::model::Table| {
        (table.sets().len(), table.maps().len(), table.chains().len())
    };
    assert_eq!(count(&one), count(&many));
}
