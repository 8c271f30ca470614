//! Files of custom rules at random, and in the kernel.

use std::collections::BTreeSet;

use picket_net::Family;
use picket_nftables::custom::CustomRules;
use picket_nftables::model::{Chain, Draft, Name};
use picket_nftables::parse::{self, listing};
use picket_nftables::print;
use picket_policy::{Direction, Source};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

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
    check_in_kernel(&every_kind());
}

/// Loads the rules of all files in one chain, as text and as JSON, and reads back what nft lists.
fn check_in_kernel(files: &[CustomRules]) {
    let rules: Vec<_> = files.iter().flat_map(|file| file.rendered()).collect();
    let mut draft = Draft::new(Name::new("t").expect("a name"));
    draft.counters = files.iter().flat_map(|file| file.counters()).collect();
    draft.chains = vec![Chain::regular(Name::new("c").expect("a name")).with_rules(rules)];
    let table = draft.check().expect("a table");
    let (text, json) = (print::text(&table), print::json(&table));
    // JSON brings no comments of counters, and lists a rule with its prefixes as ranges.
    for (script, input, expected) in [
        ("nft -f -; nft list ruleset", &text, table.clone()),
        ("nft -f -; nft -j list ruleset", &text, parse::shown(&table)),
        ("nft -j -f -; nft -j list ruleset", &json, parse::shown(&table)),
    ] {
        let listed = in_namespace(script, input);
        let listed = listing(&listed, "t")
            .expect("a listing")
            .table
            .expect("our table");
        for (listed, expected) in listed.chains()[0].rules.iter().zip(&expected.chains()[0].rules) {
            assert_eq!(listed, expected, "{script}");
        }
        assert_eq!(listed, expected, "{script}");
    }
}

/// Conditions in any order and number.
fn any_line() -> impl Strategy<Value = (usize, String)> {
    let parts = select(vec![
        "ip saddr 10.0.0.0/8",
        "ip daddr != 10.0.0.1",
        "ip6 saddr { ::1, 2001:db8::/32 }",
        "ip6 daddr ::2-::9",
        "tcp dport 80",
        "udp dport { 1-65535 }",
        "sctp dport { 5, 7-9 }",
        "th dport { 80, 81 }",
        "meta l4proto tcp",
        "meta l4proto { tcp, udp }",
        "meta l4proto icmp",
        "meta l4proto icmpv6",
        "meta l4proto { icmp, 47, 255 }",
        "meta nfproto ipv4",
        "meta nfproto ipv6",
        "ct state new",
        "ct state { new, invalid }",
        "ct state invalid",
        "ct state established,related",
        "iifname net1",
        "oifname != \"net1\"",
        "iifname { net1, a@b }",
        "counter",
    ]);
    let parts = proptest::collection::vec(parts, 0..5);
    let end = select(vec!["accept", "drop", "reject", "accept comment \"x\""]);
    (0..FILES.len(), parts, end).prop_map(|(file, parts, end)| (file, format!("{} {end}\n", parts.join(" "))))
}

#[test]
fn every_line_that_is_read_loads_and_is_listed_as_it_is_printed() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let mut texts = [const { String::new() }; FILES.len()];
    let mut lines = BTreeSet::new();
    for _ in 0..3000 {
        let (file, line) = any_line().new_tree(&mut runner).expect("a line").current();
        let (direction, family) = FILES[file];
        let source = Source::decode(&"line".into(), line.as_bytes()).expect("UTF-8");
        if CustomRules::read(&source, direction, family).is_ok() && lines.insert((file, line.clone())) {
            texts[file].push_str(&line);
        }
    }
    assert!(lines.len() > 200, "{}", lines.len());
    let files = FILES.iter().zip(&texts);
    let files: Vec<_> = files
        .map(|(&(direction, family), text)| read(text, direction, family))
        .collect();
    check_in_kernel(&files);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic_and_what_is_wrong_has_a_place(
        words in proptest::collection::vec(
            select(vec![
                "ip", "ip6", "saddr", "daddr", "tcp", "th", "dport", "meta", "l4proto", "nfproto", "ct", "state", "new",
                ",", "{", "}", "!=", "==", "-", "/", "\"", "\n", "#", "accept", "reject", "counter", "packets", "iifname",
                "10.0.0.0/8", "10.0.0.9-10.0.0.1", "::/0", "80", "99999", "é", "\u{1}", "\r", "comment",
            ]),
            0..12,
        ),
        file in 0..FILES.len(),
    ) {
        let (direction, family) = FILES[file];
        for text in [words.concat(), words.join(" ")] {
            let source = Source::decode(&"text".into(), text.as_bytes()).expect("UTF-8");
            if let Err(problems) = CustomRules::read(&source, direction, family) {
                prop_assert!(problems.iter().all(|problem| !problem.labels.is_empty()), "{text}");
            }
        }
    }
}
