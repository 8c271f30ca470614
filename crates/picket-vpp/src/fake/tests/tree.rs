//! The tree of session rules and its defect. The verdicts were found before with another simulator of VPP's tree.

use super::super::rules::{Connection, RuleChange, Rules};
use super::super::tree::NONE;
use std::net::IpAddr;

const ALLOW: u32 = 0xffff_fffd;
const DROP: u32 = 0xffff_fffe;

/// A rule of a local table: `10.0.0.0/8:80`, port 0 for any.
fn remote(text: &str, action: u32) -> RuleChange {
    let (prefix, port) = text.rsplit_once('@').unwrap_or((text, "0"));
    let (address, length) = prefix.split_once('/').unwrap();
    let address: IpAddr = address.parse().unwrap();
    let nowhere = if address.is_ipv4() { "0.0.0.0" } else { "::" };
    RuleChange::new(
        (nowhere.parse().unwrap(), 0, 0),
        (address, length.parse().unwrap(), port.parse().unwrap()),
        action,
        String::new(),
    )
}

fn table(rules: &[(&str, u32)]) -> Rules {
    let mut table = Rules::default();
    for (rule, action) in rules {
        table.add(remote(rule, *action)).unwrap();
    }
    table
}

/// What a table says of a connection to an address and a port.
fn to(table: &Rules, address: &str, port: u16) -> u32 {
    let address: IpAddr = address.parse().unwrap();
    let nowhere = if address.is_ipv4() { "0.0.0.0" } else { "::" };
    table.action((nowhere.parse().unwrap(), 0), (address, port))
}

#[test]
fn a_wider_rule_that_comes_later_is_reached_only_inside_the_narrower_one() {
    let wide_first = table(&[("10.0.0.0/8", DROP), ("10.0.0.0/16", ALLOW)]);
    let wide_last = table(&[("10.0.0.0/16", ALLOW), ("10.0.0.0/8", DROP)]);
    for (address, first, last) in [
        ("10.0.1.1", ALLOW, DROP),
        ("10.9.9.9", DROP, NONE),
        ("11.0.0.1", NONE, NONE),
    ] {
        assert_eq!(to(&wide_first, address, 80), first, "{address}");
        assert_eq!(to(&wide_last, address, 80), last, "{address}");
    }
}

#[test]
fn no_order_makes_overlapping_rules_right() {
    let rules = [
        ("0.0.0.0/0", DROP),
        ("10.0.0.0/8@80", ALLOW),
        ("10.0.0.0/16", DROP),
    ];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let table = table(&order.map(|place| rules[place]));
        assert_eq!(to(&table, "10.9.9.9", 80), DROP, "{order:?}");
        assert_eq!(to(&table, "10.0.1.1", 80), ALLOW, "{order:?}");
    }
}

#[test]
fn disjoint_rules_mean_the_same_in_every_order() {
    let rules = [
        ("0.0.0.0/0", DROP),
        ("10.0.0.0/16", DROP),
        ("10.1.0.0/16", ALLOW),
        ("10.0.0.0/16@80", ALLOW),
    ];
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]];
    for order in orders {
        let table = table(&order.map(|place| rules[place]));
        for (address, port, expected) in [
            ("10.0.1.1", 80, ALLOW),
            ("10.0.1.1", 81, DROP),
            ("10.1.1.1", 81, ALLOW),
            ("10.2.1.1", 80, DROP),
        ] {
            assert_eq!(to(&table, address, port), expected, "{order:?} {address}:{port}");
        }
    }
}

#[test]
fn a_default_that_is_overwritten_late_hangs_below_what_holds_address_zero() {
    let table = table(&[("0.0.0.0/1", ALLOW), ("0.0.0.0/0", DROP)]);
    assert_eq!(to(&table, "200.0.0.1", 80), NONE);
    assert_eq!(to(&table, "10.0.0.1", 80), DROP);
}

#[test]
fn siblings_are_tried_by_their_highest_address_and_port() {
    // Neither holds the network of the other: the rule of the address has the lower highest remote, so that it is first.
    let overlapping = [("10.0.0.0/8@80", DROP), ("10.9.0.0/16", ALLOW)];
    for order in [[0, 1], [1, 0]] {
        let table = table(&order.map(|place| overlapping[place]));
        assert_eq!(to(&table, "10.9.1.1", 80), ALLOW, "{order:?}");
        assert_eq!(to(&table, "10.8.1.1", 80), DROP, "{order:?}");
    }
}

#[test]
fn a_rule_that_takes_children_over_stands_where_the_first_of_them_stood() {
    let (small, web, wide) = (
        ("10.255.1.0/24", ALLOW),
        ("10.0.0.0/8@443", DROP),
        ("10.255.0.0/16", ALLOW),
    );
    assert_eq!(to(&table(&[web, wide]), "10.255.9.9", 443), DROP);
    assert_eq!(to(&table(&[small, web, wide]), "10.255.9.9", 443), ALLOW);
}

#[test]
fn where_a_rule_says_nothing_the_one_above_decides() {
    let table = table(&[("0.0.0.0/0", DROP), ("10.0.0.0/8", NONE), ("10.0.0.0/16", ALLOW)]);
    assert_eq!(to(&table, "10.9.9.9", 80), DROP);
    assert_eq!(to(&table, "10.0.1.1", 80), ALLOW);
}

#[test]
fn the_same_tuple_is_overwritten_and_removed_rules_leave_their_children() {
    let mut table = table(&[
        ("10.0.0.0/8", DROP),
        ("10.1.0.0/16", ALLOW),
        ("10.0.0.0/8", ALLOW),
    ]);
    assert_eq!(table.list(true, false).count(), 3, "with the one for everything");
    assert_eq!(to(&table, "10.9.9.9", 80), ALLOW);
    table.remove(&remote("10.0.0.0/8", NONE)).unwrap();
    assert_eq!(to(&table, "10.9.9.9", 80), NONE);
    assert_eq!(to(&table, "10.1.1.1", 80), ALLOW);
    table.remove(&remote("172.16.0.0/12", NONE)).unwrap();
    assert_eq!(
        table.list(true, false).count(),
        2,
        "what is not there is not removed"
    );
    table.add(remote("0.0.0.0/0", DROP)).unwrap();
    table.remove(&remote("0.0.0.0/0", NONE)).unwrap();
    assert_eq!(to(&table, "172.16.0.1", 80), NONE);
    assert_eq!(table.list(true, false).count(), 2, "the one for everything stays");
}

#[test]
fn families_have_trees_of_their_own_and_host_bits_are_masked() {
    let table = table(&[("fd00::1/64", DROP), ("10.0.0.1/8", DROP)]);
    assert_eq!(to(&table, "fd00::99", 80), DROP);
    assert_eq!(to(&table, "fd01::99", 80), NONE);
    assert_eq!(to(&table, "10.9.9.9", 80), DROP);
    let listed: Vec<_> = table
        .list(false, false)
        .map(|rule| rule.remote.to_string())
        .collect();
    assert_eq!(listed, ["::/0", "fd00::/64"]);
}

#[test]
fn actions_mean_what_the_session_layer_makes_of_them() {
    for (action, expected) in [
        (NONE, Connection::Allowed),
        (ALLOW, Connection::Allowed),
        (DROP, Connection::Dropped),
        (7, Connection::Redirected(7)),
    ] {
        assert_eq!(Connection::of(action), expected);
    }
}
