//! Names, interface names and comments that nft takes as they are.

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest, Sha256};
use smol_str::SmolStr;

/// The name of a table, chain, set, map or counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(SmolStr);

impl Name {
    /// The kernel's `NFT_NAME_MAXLEN`, without the final zero byte.
    pub const MAX_BYTES: usize = 255;

    /// `text` as a name: a letter, then letters, digits, `-`, `_` and `.`. `None` for anything else, for more than
    /// [`Name::MAX_BYTES`], and for words that nft's grammar has taken.
    pub fn new(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let valid = text.len() <= Self::MAX_BYTES
            && text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
            && text.bytes().all(allowed)
            && KEYWORDS.binary_search(&text).is_err();
        valid.then(|| Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Words that nft 1.0.6's grammar refuses as the name of a table, chain, set or counter (tried one by one), ascending.
#[rustfmt::skip]
const KEYWORDS: [&str; 147] = [
    "accept", "add", "ah", "all", "and", "arp", "auto-merge", "bridge", "bytes", "cgroup", "chain",
    "comment", "comp", "constant", "continue", "counter", "cpu", "create", "ct", "day", "dccp", "define",
    "delete", "describe", "device", "devices", "dnat", "drop", "dst", "dup", "dynamic", "ecn", "element",
    "elements", "eq", "esp", "ether", "exists", "expires", "export", "exthdr", "fib", "flags", "flow",
    "flowtable", "flush", "frag", "fwd", "ge", "get", "goto", "gt", "handle", "hbh", "hook", "hour",
    "ibriport", "ibrname", "icmp", "icmpv6", "igmp", "iif", "iifgroup", "iifname", "iiftype", "import",
    "include", "index", "inet", "insert", "interval", "ip", "ip6", "ipsec", "jhash", "jump", "le", "limit",
    "list", "log", "lt", "map", "mark", "masquerade", "meta", "meter", "mh", "missing", "monitor", "ne",
    "netdev", "nh", "not", "notrack", "numgen", "obriport", "obrname", "offload", "oif", "oifgroup",
    "oifname", "oiftype", "or", "osf", "packets", "pkttype", "policy", "position", "priority", "quota",
    "random", "redirect", "reject", "rename", "replace", "reset", "return", "rt", "rt0", "rt2", "rtclassid",
    "rule", "ruleset", "sctp", "secmark", "set", "size", "skgid", "skuid", "snat", "socket", "srh",
    "symhash", "synproxy", "table", "tcp", "th", "time", "timeout", "tproxy", "type", "typeof", "udp",
    "udplite", "update", "vlan", "vmap",
];

/// The name of a network interface, as far as nft can write it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(SmolStr);

impl InterfaceName {
    /// `text` as an interface name. `None` when the kernel refuses it (empty, more than 15 bytes, `.`, `..`, a slash,
    /// a colon, white space), and for what nft cannot write: `"` ends a string, `*` is a wildcard, `\` escapes one,
    /// and what is not printable ASCII.
    pub fn new(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_graphic() && !b"/:\"*\\".contains(&byte);
        let valid =
            (1..=15).contains(&text.len()) && text != "." && text != ".." && text.bytes().all(allowed);
        valid.then(|| Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The first 16 hexadecimal characters of a SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameHash(u64);

impl NameHash {
    /// The hash of `text`.
    pub fn of(text: &str) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        Self(
            digest
                .iter()
                .take(8)
                .fold(0, |hash, &byte| hash << 8 | u64::from(byte)),
        )
    }
}

impl fmt::Display for NameHash {
    /// Sixteen lower-case hexadecimal characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The first 128 bits of a SHA-256 hash, where no two texts may ever have the same: nobody can make two that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameDigest(u128);

impl NameDigest {
    /// The digest of `text`.
    pub fn of(text: &str) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        let first = digest.iter().take(16);
        Self(first.fold(0, |hash, &byte| hash << 8 | u128::from(byte)))
    }
}

impl fmt::Display for NameDigest {
    /// Thirty-two lower-case hexadecimal characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A comment that nft takes and prints back as it is: at most 128 bytes, no `"` and no control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comment(SmolStr);

impl Comment {
    /// The most bytes that nft takes.
    pub const MAX_BYTES: usize = 128;

    /// `text` made safe: nft has no way to write `"` within a string, so it becomes `'`, and every control character
    /// becomes a space. More than 128 bytes are cut to 111 (fewer where a character would be split), `~` and `hash`.
    pub fn new(text: &str, hash: NameHash) -> Self {
        Self::cut(text, || hash)
    }

    /// `text` with its own hash for when it must be cut; see [`Comment::new`].
    pub fn of(text: &str) -> Self {
        Self::cut(text, || NameHash::of(text))
    }

    /// As [`Comment::new`], with a hash that is worked out where it is needed.
    pub fn cut(text: &str, hash: impl FnOnce() -> NameHash) -> Self {
        let safe = written_safely(text);
        if safe.len() <= Self::MAX_BYTES {
            return Self(safe.into());
        }
        Self(format!("{}~{}", head(&safe, 111), hash()).into())
    }

    /// The comment as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Comment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a log line begins with: at most 120 bytes (the kernel's `NF_LOG_PREFIXLEN` is 128), made safe like a
/// [`Comment`], and without nft's variable sign `$`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPrefix(SmolStr);

impl LogPrefix {
    /// `text` made safe and cut to 120 bytes.
    pub fn new(text: &str) -> Self {
        Self(head(&written_safely(text).replace('$', "_"), 120).into())
    }

    /// The prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn written_safely(text: &str) -> Cow<'_, str> {
    let safe = |character: char| match character {
        '"' => '\'',
        control if control.is_control() => ' ',
        other => other,
    };
    match text.chars().all(|character| safe(character) == character) {
        true => text.into(),
        false => text.chars().map(safe).collect(),
    }
}

/// The longest beginning of `text` of at most `bytes` bytes.
fn head(text: &str, bytes: usize) -> &str {
    let cut = (0..=bytes).rev().find(|&at| text.is_char_boundary(at));
    cut.and_then(|at| text.get(..at)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_first_16_hexadecimal_characters_of_sha_256() {
        assert_eq!(NameHash::of("default/web-policy").to_string(), "9be5caa7bb5301c5");
        let digest = NameDigest::of("default/web-policy").to_string();
        assert!(
            digest.len() == 32 && digest.starts_with("9be5caa7bb5301c5"),
            "{digest}"
        );
    }

    #[test]
    fn keywords_ascend() {
        assert!(KEYWORDS.is_sorted());
        assert!(KEYWORDS.iter().all(|keyword| Name::new(keyword).is_none()));
    }

    #[test]
    fn names_are_what_the_grammar_takes() {
        for (text, valid) in [
            ("cnp-9be5caa7bb5301c5", true),
            ("snp-9be5caa7bb5301c5_ingress_ipv4_eth0.100_0", true),
            ("ingress", true),
            ("", false),
            ("0x", false),
            ("-a", false),
            ("a b", false),
            ("a\"", false),
            ("a;", false),
            ("fwd", false),
            (&"a".repeat(255), true),
            (&"a".repeat(256), false),
        ] {
            assert_eq!(Name::new(text).is_some(), valid, "{text}");
        }
    }

    #[test]
    fn interface_names_are_those_that_nft_can_write() {
        for (text, valid) in [
            ("eth0", true),
            ("veth1@if2", true),
            ("eth0.100", true),
            ("eth*", false),
            ("a\"b", false),
            ("a\\b", false),
            ("a/b", false),
            ("a:b", false),
            ("a b", false),
            ("..", false),
            ("", false),
            ("sixteen-bytes-xx", false),
        ] {
            assert_eq!(InterfaceName::new(text).is_some(), valid, "{text}");
        }
    }

    #[test]
    fn comments_are_cut_on_a_character_and_cannot_end_the_string() {
        let hash = NameHash::of("default/web-policy");
        assert_eq!(Comment::new("say \"hi\"\n", hash).as_str(), "say 'hi' ");
        assert_eq!(Comment::new(&"x".repeat(128), hash).as_str(), "x".repeat(128));
        let cut = Comment::new(&"x".repeat(129), hash);
        assert_eq!(cut.as_str(), format!("{}~9be5caa7bb5301c5", "x".repeat(111)));
        let cut = Comment::new(&"é".repeat(100), hash);
        assert_eq!(cut.as_str(), format!("{}~9be5caa7bb5301c5", "é".repeat(55)));
    }
}
