use picket_policy::{Peer, Source};

use super::*;

fn read(text: &str, direction: Direction, family: Family) -> Result<CustomRules, Vec<Diagnostic>> {
    let source = Source::decode(&"rules.txt".into(), text.as_bytes()).expect("UTF-8");
    CustomRules::read(&source, direction, family)
}

/// A rule as nft has it, and as a policy has it.
fn check(text: &str, direction: Direction, family: Family, nft: &str, peers: &[&str], ports: &str) {
    let rules = read(text, direction, family).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    let rendered: Vec<_> = rules.rendered().map(|rule| crate::print::rule(&rule)).collect();
    assert_eq!(rendered, [format!("{nft} comment \"Custom Rule\"")], "{text}");
    let policies = rules.policies();
    let policy = &policies[0];
    let rule = &policy.side(direction).rules[0];
    let List::Items(found) = &rule.peers else {
        panic!("{text}: a rule is about one family")
    };
    let found: Vec<_> = found
        .iter()
        .map(|peer| match peer {
            Peer::Block(block) => {
                let except: String = block.except.iter().map(|prefix| format!("-{prefix}")).collect();
                format!("{}{except}", block.prefix)
            }
            other => panic!("{text}: {other:?}"),
        })
        .collect();
    assert_eq!(found, peers, "{text}");
    let shown = match &rule.ports {
        List::Absent => "any".to_owned(),
        List::Items(items) => {
            let items: Vec<_> = items
                .iter()
                .map(|item| match item {
                    PortMatch::Protocol(protocol) => protocol.to_string(),
                    PortMatch::Range(protocol, range) => format!("{protocol}:{range}"),
                    PortMatch::Named { .. } => panic!("{text}"),
                })
                .collect();
            items.join(" ")
        }
    };
    assert_eq!(shown, ports, "{text}");
}

const ALL4: &[&str] = &["0.0.0.0/0"];

#[test]
fn rules_are_read_as_nft_and_as_policies_have_them() {
    let (ingress, egress) = (Direction::Ingress, Direction::Egress);
    for (text, direction, nft, peers, ports) in [
        (
            "tcp dport 9999 accept",
            ingress,
            "meta nfproto ipv4 tcp dport 9999 accept",
            ALL4,
            "TCP:9999",
        ),
        (
            "ip saddr 192.168.100.0/24 accept",
            ingress,
            "ip saddr 192.168.100.0/24 accept",
            &["192.168.100.0/24"],
            "any",
        ),
        (
            "ip saddr 10.0.0.0/8 drop",
            ingress,
            "ip saddr 10.0.0.0/8 drop",
            &["10.0.0.0/8"],
            "any",
        ),
        (
            "ip daddr { 10.0.0.1, 10.0.0.4-10.0.0.5 , 10.0.0.5} tcp dport {80,443, 8000-8010} accept comment \"web\"",
            egress,
            "ip daddr { 10.0.0.1, 10.0.0.4/31 } tcp dport { 80, 443, 8000-8010 } accept",
            &["10.0.0.1/32", "10.0.0.4/31"],
            "TCP:80 TCP:443 TCP:8000-8010",
        ),
        (
            "meta nfproto ipv4 meta l4proto {tcp, udp} th dport == 53 ct state new accept",
            egress,
            "meta nfproto ipv4 meta l4proto { tcp, udp } th dport 53 ct state new,untracked accept",
            ALL4,
            "TCP:53 UDP:53",
        ),
        (
            "ip saddr != 10.0.0.0/8 meta l4proto icmp drop",
            ingress,
            "ip saddr != 10.0.0.0/8 meta l4proto icmp drop",
            &["0.0.0.0/0-10.0.0.0/8"],
            "ICMP",
        ),
        // About no new connection: it stands in the chain, and decides none.
        (
            "ct state invalid drop",
            ingress,
            "meta nfproto ipv4 ct state invalid drop",
            ALL4,
            "",
        ),
        (
            "meta l4proto udp th dport 80 ct state { new, established } drop",
            ingress,
            "meta nfproto ipv4 udp dport 80 ct state established,new,invalid,untracked drop",
            ALL4,
            "UDP:80",
        ),
        (
            "counter packets 3 bytes 120 tcp dport 80 reject",
            ingress,
            "meta nfproto ipv4 counter name \"custom-v4-ingress-1\" tcp dport 80 reject with icmpx port-unreachable",
            ALL4,
            "TCP:80",
        ),
        (
            "iifname { \"net1\", net2 } ip daddr 10.0.0.0/8 accept",
            ingress,
            "iifname { \"net1\", \"net2\" } ip daddr 10.0.0.0/8 accept",
            ALL4,
            "any",
        ),
    ] {
        check(text, direction, Family::Ipv4, nft, peers, ports);
    }
    check(
        "ip6 saddr 2001:db8:100::/64 accept",
        ingress,
        Family::Ipv6,
        "ip6 saddr 2001:db8:100::/64 accept",
        &["2001:db8:100::/64"],
        "any",
    );
}

#[test]
fn empty_lines_and_comments_say_nothing() {
    let text = "\n# a comment\n   \t\n  # indented\n\ntcp dport 1 accept\r\n";
    let rules = read(text, Direction::Ingress, Family::Ipv4).expect("rules");
    let lines: Vec<_> = rules.rules.iter().map(|rule| rule.line).collect();
    assert_eq!(lines, [6]);
}

#[test]
fn a_line_outside_the_grammar_is_refused_with_its_place_and_the_reason() {
    for (line, marked, reason) in [
        (
            "tcp dport 80",
            "0",
            "the rule ends where `accept`, `drop` or `reject` is expected",
        ),
        (
            "tcp dport 80 reject with tcp reset",
            "with",
            "`reject` has nothing behind it",
        ),
        (
            "meta l4proto != tcp accept",
            "!=",
            "`!=` is not supported for the protocol",
        ),
        (
            "ct state != new accept",
            "!=",
            "`!=` is not supported for the state",
        ),
        ("ct state untracked accept", "state", "stands with `new`"),
        ("ct state invalid accept", "state", "cannot be accepted"),
        ("meta l4proto udp tcp dport 80 accept", "tcp", "no packet is"),
        (
            "tcp dport 80 meta l4proto tcp accept",
            "l4proto",
            "before the port",
        ),
        (
            "meta l4proto { tcp, icmp } th dport 80 accept",
            "th",
            "others have no ports",
        ),
        (
            "oifname net1 accept",
            "oifname",
            "the pod's interface is `iifname`",
        ),
        ("iifname \"net*\" accept", "\"net*\"", "wildcards"),
        ("iif 2 accept", "iif", "write `iifname`"),
        ("iifname net1 iifname net2 accept", "iifname", "looked at twice"),
        ("counter counter accept", "counter", "one counter"),
        ("counter packets x accept", "x", "expected a number"),
        ("ip daddr 10.0.0.1 ip daddr 10.0.0.2 accept", "daddr", "twice"),
        ("log prefix \"x\" accept", "log", "write `counter`"),
        ("jump x", "jump", "ends in `accept`"),
        ("tcp dport 0 accept", "0", "`0` is no port"),
        ("tcp dport 90-80 accept", "90-80", "ends before it begins"),
        ("tcp sport 80 accept", "sport", "no verdict depends"),
        ("tcp dport http accept", "http", "`http` is no port"),
        (
            "tcp dport != 80 accept",
            "!=",
            "`!=` is not supported for the port",
        ),
        ("th dport 80 accept", "th", "needs `meta l4proto`"),
        ("ip6 saddr ::1 accept", "ip6", "this is the file for"),
        (
            "ip saddr 10.0.0.1/8 accept",
            "10.0.0.1/8",
            "write `10.0.0.1/8` as `10.0.0.0/8`",
        ),
        ("ip saddr ::1 accept", "::1", "no ipv4 address"),
        (
            "ip saddr != { 10.0.0.1, 10.0.0.3 } accept",
            "saddr",
            "`!=` takes one",
        ),
        ("ip saddr { 10.0.0.1 accept", "accept", "expected `,` or `}`"),
        ("ip saddr 10.0.0.1 ip saddr 10.0.0.2 accept", "saddr", "twice"),
        ("meta nfproto ipv6 accept", "ipv6", "this is the file for"),
        ("meta mark 1 accept", "mark", "expected `l4proto`"),
        ("ct state old accept", "old", "expected `new`"),
        ("accept comment \"open", "\"open", "has no end"),
        ("accept accept", "accept", "only `comment"),
        ("accept comment x", "x", "stands in quotes"),
        ("include \"/etc/passwd\"", "include", "no part of a custom rule"),
        ("\"tcp\" dport 80 accept", "\"tcp\"", "a quoted text"),
    ] {
        let text = format!("# first\n{line}\ntcp dport 80 accept\n");
        let problems = read(&text, Direction::Ingress, Family::Ipv4).expect_err(line);
        assert_eq!(problems.len(), 1, "{line}");
        let span = &problems[0].labels[0].span;
        assert!(
            problems[0].message.contains(reason),
            "{line}: {}",
            problems[0].message
        );
        assert_eq!((span.line, &text[span.start..span.end]), (2, marked), "{line}");
    }
}
