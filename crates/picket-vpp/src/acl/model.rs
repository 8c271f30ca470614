//! Access control lists as VPP's ACL plugin has them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use picket_net::{Family, Prefix, Protocol};
use picket_policy::ObjectRef;
use smol_str::SmolStr;

use crate::digest::{Digest, OWN};
use crate::layer4::{Layer4, Selector, is_icmp};
use crate::rule::ALL_PORTS;
use crate::work::looked_at;

/// What becomes of a packet that a rule matches; the number is the API's (`is_permit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclAction {
    /// It is dropped.
    Deny = 0,
    /// It passes.
    Permit = 1,
    /// It passes, and what belongs to its connection passes its interface from then on, in both directions, whatever lists
    /// say.
    PermitReflect = 2,
}

/// One rule. Both prefixes are of one family: a rule matches no packet of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclRule {
    /// What becomes of what it matches.
    pub action: AclAction,
    /// The source addresses.
    pub source: Prefix,
    /// The destination addresses.
    pub destination: Prefix,
    /// The protocol number; 0 for every protocol, and then ports do not matter.
    pub protocol: u8,
    /// Source ports, or for ICMP and ICMPv6 types: first and last.
    pub first: (u16, u16),
    /// Destination ports, or for ICMP and ICMPv6 codes: first and last.
    pub second: (u16, u16),
    /// Of TCP the flags that count, and what these must be. To all other protocols they do not matter.
    pub tcp_flags: (u8, u8),
}

/// The flag of a TCP segment that begins a connection, or answers what does (RFC 9293 §3.1).
pub const SYN: u8 = 0x02;

/// The flag of every TCP segment but that which begins a connection, and some resets.
pub const ACK: u8 = 0x10;

/// Which of the packets that begin connections a rule may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginnings {
    /// Whichever its addresses, protocol and ports match.
    All,
    /// Some of these, by other flags.
    Some,
    /// None.
    None,
}

impl AclRule {
    /// A rule about everything that `selector` holds between two networks, as few rules as there can be: several where it
    /// holds only some codes of types of ICMP.
    pub fn of(action: AclAction, source: Prefix, destination: Prefix, selector: &Selector) -> Vec<Self> {
        let mut rules = Vec::with_capacity(1);
        Self::add(&mut rules, action, (source, destination), selector);
        rules
    }

    /// Adds [`AclRule::of`] to other rules.
    pub(super) fn add(
        rules: &mut Vec<Self>,
        action: AclAction,
        (source, destination): (Prefix, Prefix),
        selector: &Selector,
    ) {
        let rule = |protocol, first, second| Self {
            action,
            source,
            destination,
            protocol,
            first,
            second,
            tcp_flags: (0, 0),
        };
        match selector {
            Selector::Any => rules.push(rule(0, ALL, ALL)),
            Selector::One(protocol, ports) if is_icmp(*protocol) && *ports != ALL_PORTS => {
                let kinds = types_and_codes(ports.first().to_be_bytes(), ports.last().to_be_bytes());
                let kinds = kinds.into_iter();
                rules.extend(kinds.map(|(types, codes)| rule(protocol.number(), types, codes)));
            }
            Selector::One(protocol, ports) => {
                rules.push(rule(protocol.number(), ALL, (ports.first(), ports.last())));
            }
        }
    }

    /// A rule about everything of a family.
    pub fn everything(action: AclAction, family: Family) -> Self {
        let any = Prefix::all(family);
        Self {
            action,
            source: any,
            destination: any,
            protocol: 0,
            first: ALL,
            second: ALL,
            tcp_flags: (0, 0),
        }
    }

    /// Whether it is about all that its source sends.
    pub(super) fn is_about_all_from_its_source(&self) -> bool {
        self.protocol == 0 && self.destination.length() == 0
    }

    /// Whether it is about everything of its family.
    pub fn is_everything(&self) -> bool {
        (self.source.length(), self.destination.length(), self.protocol) == (0, 0, 0)
    }

    /// The family of its networks.
    pub fn family(&self) -> Family {
        self.source.family()
    }

    /// What it matches behind the addresses, whatever the source port; with [`AclRule::any_source_port`] that is all there
    /// is to it.
    pub fn selected(&self) -> Layer4 {
        if self.protocol == 0 {
            return Layer4::all();
        }
        let protocol = Protocol::from_number(self.protocol);
        if is_icmp(protocol) {
            let bytes = |number: u16| u8::try_from(number).unwrap_or(u8::MAX);
            let codes = (bytes(self.second.0), bytes(self.second.1));
            let types = bytes(self.first.0)..=bytes(self.first.1);
            let is_none = self.first.0 > 255 || self.second.0 > 255;
            let each = types.filter(|_| !is_none).filter_map(|kind| {
                let code = |code| u16::from_be_bytes([kind, code]);
                picket_net::Interval::new(code(codes.0), code(codes.1))
            });
            return each.fold(Layer4::empty(), |all, ports| {
                all.union(&Layer4::of(&Selector::One(protocol, ports)))
            });
        }
        match picket_net::Interval::new(self.second.0, self.second.1) {
            Some(ports) => Layer4::of(&Selector::One(protocol, ports)),
            None => Layer4::empty(),
        }
    }

    /// Which packets that begin connections it may match: of TCP those have SYN, and no ACK.
    pub fn beginnings(&self) -> Beginnings {
        let (mask, value) = self.tcp_flags;
        if self.protocol != Protocol::TCP.number() {
            return Beginnings::All;
        }
        let begins = SYN & mask & (SYN | ACK);
        match () {
            () if value & !mask != 0 || value & (SYN | ACK) != begins => Beginnings::None,
            () if mask & !(SYN | ACK) != 0 => Beginnings::Some,
            () => Beginnings::All,
        }
    }

    /// What of TCP it may drop the answers of, by the ports of who answers, or lets pass for certain; and whether it does that.
    pub(super) fn answers(&self) -> Option<(Layer4, bool)> {
        let tcp = Layer4::of(&Selector::whole(Protocol::TCP));
        let passes = self.action != AclAction::Deny;
        if self.beginnings() == Beginnings::None {
            let is_whole = self.second == ALL && self.tcp_flags == (ACK, ACK);
            let ports = picket_net::Interval::new(self.first.0, self.first.1)?;
            let answers = Layer4::of(&Selector::One(Protocol::TCP, ports));
            return (!passes || is_whole).then_some((answers, passes));
        }
        let is_whole = self.any_source_port() && self.beginnings() == Beginnings::All;
        (passes && is_whole && self.selected().contains_all(&tcp)).then_some((tcp, true))
    }

    /// Everything that it says, in bytes that no other rule has.
    fn hash_into(&self, digest: &mut Digest) {
        let action = self.action as u8;
        match self.tcp_flags {
            (0, 0) => digest.bytes([action, self.protocol]),
            (mask, value) => digest.bytes([action | WITH_FLAGS, mask, value, self.protocol]),
        }
        digest.prefix(self.source);
        digest.prefix(self.destination);
        for (first, last) in [self.first, self.second] {
            digest.bytes(first.to_be_bytes());
            digest.bytes(last.to_be_bytes());
        }
    }

    /// Whether source ports do not matter to it.
    pub fn any_source_port(&self) -> bool {
        self.protocol == 0 || is_icmp(Protocol::from_number(self.protocol)) || self.first == (0, u16::MAX)
    }
}

const ALL: (u16, u16) = (0, u16::MAX);

/// What tells rules apart that look at flags, when they are hashed.
const WITH_FLAGS: u8 = 0x80;

/// As many bytes as a rule is hashed as, or more.
const RULE_BYTES: usize = 48;

/// Ranges of types with ranges of codes that together are everything from one type and code to another.
fn types_and_codes(first: [u8; 2], last: [u8; 2]) -> Vec<((u16, u16), (u16, u16))> {
    let ([mut kind, code], [last_kind, last_code]) = (first, last);
    let one = |first: u8, last: u8, codes: (u8, u8)| {
        // All codes are said as VPP itself says them.
        let end = if codes.1 == u8::MAX {
            u16::MAX
        } else {
            codes.1.into()
        };
        ((u16::from(first), u16::from(last)), (u16::from(codes.0), end))
    };
    if kind == last_kind {
        return vec![one(kind, kind, (code, last_code))];
    }
    let mut found = Vec::new();
    if code != 0 {
        found.push(one(kind, kind, (code, u8::MAX)));
        kind += 1;
    }
    let end = if last_code == u8::MAX {
        Some(last_kind)
    } else {
        last_kind.checked_sub(1)
    };
    found.extend(
        end.filter(|&end| end >= kind)
            .map(|end| one(kind, end, (0, u8::MAX))),
    );
    if last_code != u8::MAX {
        found.push(one(last_kind, last_kind, (0, last_code)));
    }
    found
}

/// The name of a list: at most 63 bytes, and never the same for lists with other rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(SmolStr);

impl Tag {
    /// The tag of these rules. What a list is for is part of it.
    fn of(role: Role, rules: &[AclRule]) -> Self {
        looked_at(rules.len());
        let mut digest = Digest::with_capacity(rules.len() * RULE_BYTES);
        for rule in rules {
            rule.hash_into(&mut digest);
        }
        Self(format!("{OWN}{role}-{}", digest.text()).into())
    }

    /// The name of a list that somebody has made.
    pub fn installed(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether a list of this name is picket's.
    pub fn is_own(text: &str) -> bool {
        text.starts_with(OWN)
    }

    /// Whether this is the name of a list of picket's that is for this.
    pub(crate) fn is_for(&self, role: Role) -> bool {
        let rest = self.0.strip_prefix(OWN);
        let rest = rest.and_then(|rest| rest.strip_prefix(role.name()));
        rest.is_some_and(|rest| rest.starts_with('-'))
    }

    /// Whether this is the name of a list of picket's for where a node is connected with the rest.
    pub(crate) fn is_of_uplink(&self) -> bool {
        [Role::Global, Role::FromOutside]
            .into_iter()
            .any(|role| self.is_for(role))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// What VPP may send to pods: what they may receive, and what other pods of the node may send to them.
    ToPod,
    /// What a pod may send into VPP.
    FromPod,
    /// What pods of the node may send out of it.
    Global,
    /// What comes into the node.
    FromOutside,
    /// What another is where lists of others follow, which decide what it lets pass at last.
    BeforeOthers,
    /// What stands before the others of an interface, so that nothing takes up again what a change has cut.
    Cut,
}

impl Role {
    /// Each of them.
    pub const ALL: [Self; 6] = [
        Self::ToPod,
        Self::FromPod,
        Self::Global,
        Self::FromOutside,
        Self::BeforeOthers,
        Self::Cut,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ToPod => "to-pod",
            Self::FromPod => "from-pod",
            Self::Global => "global",
            Self::FromOutside => "from-outside",
            Self::BeforeOthers => "before-others",
            Self::Cut => "cut",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A list: the first rule that matches decides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    /// Its name.
    pub tag: Tag,
    /// Its rules.
    pub rules: Vec<AclRule>,
}

impl Acl {
    /// Whether it is one of picket's.
    pub(super) fn is_own(&self) -> bool {
        Tag::is_own(self.tag.as_str())
    }

    /// Whether it is, and judges what begins, where others only keep cut what a change has cut.
    pub(super) fn judges(&self) -> bool {
        self.is_own() && !self.tag.is_for(Role::Cut)
    }

    /// Whether it is, and judges what a pod sends or receives there, where others judge what crosses the bounds of the node.
    pub(super) fn judges_pods(&self) -> bool {
        self.judges() && !self.tag.is_of_uplink()
    }

    /// The list of these rules.
    pub fn new(role: Role, rules: Vec<AclRule>) -> Self {
        Self {
            tag: Tag::of(role, &rules),
            rules,
        }
    }
}

/// The lists of one interface. Where one is empty, everything passes; else what no rule of any list matches does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceLists {
    /// The pod at the other end of the interface; `None` for one that leads out of the node, or to the node itself.
    pub pod: Option<ObjectRef>,
    /// What enters VPP there.
    pub input: Vec<Tag>,
    /// What leaves VPP there.
    pub output: Vec<Tag>,
}

/// The lists of one node, and where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acls {
    /// Every list that an interface has, by name.
    pub acls: BTreeMap<Tag, Arc<Acl>>,
    /// The interfaces, by name.
    pub interfaces: BTreeMap<SmolStr, InterfaceLists>,
}

impl Acls {
    /// No interface.
    pub(super) const fn none() -> Self {
        Self {
            acls: BTreeMap::new(),
            interfaces: BTreeMap::new(),
        }
    }

    /// The rules of some lists, one list after the other.
    pub fn rules<'a>(&'a self, tags: &'a [Tag]) -> impl Iterator<Item = &'a AclRule> {
        let acls = tags.iter().filter_map(|tag| self.acls.get(tag));
        acls.flat_map(|acl| &acl.rules)
    }
}

impl fmt::Display for AclRule {
    /// As VPP's own `show acl-plugin acl` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family() {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        };
        let action = match self.action {
            AclAction::Deny => "deny",
            AclAction::Permit => "permit",
            AclAction::PermitReflect => "permit+reflect",
        };
        let ports = |(first, last): (u16, u16)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        write!(
            f,
            "{family} {action} src {} dst {} proto {} sport {} dport {}",
            self.source,
            self.destination,
            self.protocol,
            ports(self.first),
            ports(self.second)
        )?;
        match self.tcp_flags {
            (0, 0) => Ok(()),
            (mask, value) => write!(f, " tcpflags {value} mask {mask}"),
        }
    }
}
