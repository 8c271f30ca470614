//! Numbers that nft prints by name.

/// Types of ICMP (`icmp_type`).
const ICMP: [(&str, u8); 15] = [
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
    ("info-request", 15),
    ("info-reply", 16),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
];

/// Types of ICMPv6 (`icmpv6_type`).
const ICMPV6: [(&str, u8); 19] = [
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("mld-listener-query", 130),
    ("mld-listener-report", 131),
    ("mld-listener-done", 132),
    ("mld-listener-reduction", 132),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
    ("router-renumbering", 138),
    ("ind-neighbor-solicit", 141),
    ("ind-neighbor-advert", 142),
    ("mld2-listener-report", 143),
];

/// Protocols.
const PROTOCOLS: [(&str, u8); 13] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("comp", 108),
    ("sctp", 132),
    ("udplite", 136),
];

fn found(table: &[(&str, u8)], text: &str) -> Option<u8> {
    let named = table.iter().find(|(name, _)| *name == text);
    named.map(|(_, number)| *number).or_else(|| text.parse().ok())
}

/// A type of ICMP by name or number.
pub(super) fn icmp_type(text: &str) -> Option<u8> {
    found(&ICMP, text)
}

/// A type of ICMPv6 by name or number.
pub(super) fn icmpv6_type(text: &str) -> Option<u8> {
    found(&ICMPV6, text)
}

/// A protocol by name or number.
pub(super) fn protocol(text: &str) -> Option<u8> {
    found(&PROTOCOLS, text)
}

/// A priority of base chains, as a number or one of the names of family `inet`, with what is added to it.
pub(super) fn priority(words: &[&str]) -> Option<i32> {
    let base = |word: &str| match word {
        "raw" => Some(-300),
        "mangle" => Some(-150),
        "dstnat" => Some(-100),
        "filter" => Some(0),
        "security" => Some(50),
        "srcnat" => Some(100),
        number => number.parse().ok(),
    };
    match words {
        [word] => base(word),
        [word, "+", more] => base(word)?.checked_add(more.parse().ok()?),
        [word, "-", less] => base(word)?.checked_sub(less.parse().ok()?),
        _ => None,
    }
}
