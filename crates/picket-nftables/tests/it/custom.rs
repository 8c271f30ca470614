//! Files of custom rules at random, and in the kernel.

use picket_net::Family;
use picket_nftables::custom::CustomRules;
use picket_nftables::model::{Chain, Draft, Name};
use picket_nftables::parse::{self, listing};
use picket_nftables::print;
use picket_policy::{Direction, Source};
use proptest::prelude::*;
use proptest::sample::select;

use crate::kernel::in_namespace;

/// The four files, with how nft writes the address of the other end.
const FILES: [(Direction, Family); 4] = [
    (Direction::Ingress, Family::Ipv4),
    (Direction::Egress, Family::Ipv4),
    (Direction::Ingress, Family::Ipv6),
    (Direction::Egress, Family::Ipv6),
];

pub(crate) fn read(text: &str, direction: Direction, family: Family) -> CustomRules {
    let name = format!("{direction}-{family}.txt");
    let source = Source::decode(&name.into(), text.as_bytes()).expect("UTF-8");
    CustomRules::read(&source, direction, family).expect("rules")
}

/// Lines of a file, about addresses that no pod has a made-up one of.
fn lines(direction: Direction, family: Family) -> impl Strategy<Value = String> {
    let (keyword, addresses) = match family {
        Family::Ipv4 => (
            "ip",
            [
                "10.0.0.0/24",
                "10.0.0.10",
                "{ 10.0.0.11, 192.0.2.0/25 }",
                "0.0.0.0/0",
            ],
        ),
        Family::Ipv6 => (
            "ip6",
            ["fd00::/64", "fd00::a", "{ fd00::10/124, 2001:db8::/33 }", "::/0"],
        ),
    };
    let (peer, own, interface) = match direction {
        Direction::Ingress => ("saddr", "daddr", "iifname"),
        Direction::Egress => ("daddr", "saddr", "oifname"),
    };
    let address = move |side: &'static str| {
        (select(addresses.to_vec()), any::<bool>()).prop_map(move |(addresses, is)| {
            let not = if is || addresses.starts_with('{') {
                ""
            } else {
                "!= "
            };
            format!("{keyword} {side} {not}{addresses} ")
        })
    };
    let nothing = || Just(String::new());
    let over = select(vec!["eth0", "!= eth0", "{ net1, eth0 }", "net1"])
        .prop_map(move |names| format!("{interface} {names} "));
    let traffic = select(vec![
        "",
        "tcp dport 80 ",
        "udp dport { 53, 5000-5999 } ",
        "meta l4proto icmp ",
        "meta l4proto { tcp, udp } th dport 80-90 ",
        "meta l4proto sctp ct state new ",
        "ct state new counter ",
        "counter meta l4proto { icmp, icmpv6 } ",
    ]);
    let end = select(vec!["accept", "drop", "reject", "ct state invalid drop"]);
    let rule = (
        prop_oneof![4 => nothing(), 1 => over],
        prop_oneof![1 => nothing(), 2 => address(peer)],
        prop_oneof![4 => nothing(), 1 => address(own)],
        traffic.prop_filter("one look at the state", |_| true),
        end,
    );
    let line = rule.prop_map(|(over, peer, own, traffic, end)| {
        let end = if traffic.contains("ct state") {
            end.trim_start_matches("ct state invalid ")
        } else {
            end
        };
        format!("{over}{peer}{own}{traffic}{end}\n")
    });
    proptest::collection::vec(line, 0..4).prop_map(|lines| lines.concat())
}

pub(crate) fn custom_rules() -> impl Strategy<Value = Vec<CustomRules>> {
    let files = FILES.map(|(direction, family)| {
        lines(direction, family).prop_map(move |text| read(&text, direction, family))
    });
    Vec::from(files)
}

/// Every kind of rule there is, in every file.
pub(crate) fn every_kind() -> Vec<CustomRules> {
    let file = |(direction, family)| {
        let (keyword, [one, other]) = match family {
            Family::Ipv4 => ("ip", ["192.168.100.0/24", "192.168.7.7"]),
            Family::Ipv6 => ("ip6", ["2001:db8:100::/64", "2001:db8::7"]),
        };
        let (peer, own, interface) = match direction {
            Direction::Ingress => ("saddr", "daddr", "iifname"),
            Direction::Egress => ("daddr", "saddr", "oifname"),
        };
        let text = format!(
            "accept\ndrop\nreject\ntcp dport 9999 accept\ncounter packets 3 bytes 9 udp dport {{ 53, 80-90 }} drop\n\
             {keyword} {peer} {one} {keyword} {own} != {other} accept\n{keyword} {peer} {{ {one}, {other} }} reject\n\
             {interface} \"net1\" meta l4proto {{ tcp, sctp }} th dport 81 counter reject\n\
             {interface} != lo meta l4proto icmpv6 ct state new drop\nmeta l4proto {{ icmp, 47 }} accept\n\
             {interface} {{ net1, net2 }} ct state {{ new, established }} accept\nct state invalid reject\n\
             meta nfproto ipv{} meta l4proto tcp tcp dport 1-65535 accept comment \"all of it\"\n",
            if family == Family::Ipv4 { 4 } else { 6 }
        );
        read(&text, direction, family)
    };
    FILES.map(file).into()
}

#[test]
fn every_kind_of_rule_loads_and_is_listed_as_it_is_printed() {
    let rules: Vec<_> = every_kind()
        .iter()
        .flat_map(|file| file.rendered().collect::<Vec<_>>())
        .collect();
    let counters = every_kind()
        .iter()
        .flat_map(|file| file.counters().collect::<Vec<_>>())
        .collect();
    let mut draft = Draft::new(Name::new("t").expect("a name"));
    draft.counters = counters;
    draft.chains = vec![Chain::regular(Name::new("c").expect("a name")).with_rules(rules)];
    let table = draft.check().expect("a table");
    let text = in_namespace("nft -f -; nft list ruleset", &print::text(&table));
    assert_eq!(
        listing(&text, "t").expect("a listing").table.as_ref(),
        Some(&table)
    );
    let json = in_namespace("nft -f -; nft -j list ruleset", &print::text(&table));
    assert_eq!(
        listing(&json, "t").expect("a listing").table,
        Some(parse::shown(&table))
    );
    let json = in_namespace("nft -j -f -; nft list ruleset", &print::json(&table));
    assert_eq!(
        listing(&json, "t")
            .expect("a listing")
            .table
            .map(|table| table.chains().to_vec()),
        Some(table.chains().to_vec())
    );
}
