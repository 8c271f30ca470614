//! Rules: matches, statements and what they end in.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use picket_dataplane::State;

use super::{Comment, Datatype, LogPrefix, Name, Value};

/// One rule. Statements run in order until a match fails; what the rule ends in then does not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Matches and effects, in order.
    pub statements: Vec<Statement>,
    /// What happens when every match held.
    pub end: End,
    /// What it is for.
    pub comment: Option<Comment>,
}

impl Rule {
    /// A rule that ends in `verdict` when all `matches` hold.
    pub fn when(matches: impl IntoIterator<Item = Match>, verdict: Verdict) -> Self {
        Self {
            statements: matches.into_iter().map(Statement::Match).collect(),
            end: End::Verdict(verdict),
            comment: None,
        }
    }

    /// A rule of any statements.
    pub fn of(statements: impl IntoIterator<Item = Statement>, end: End) -> Self {
        Self {
            statements: statements.into_iter().collect(),
            end,
            comment: None,
        }
    }

    /// The same rule with a comment.
    #[must_use]
    pub fn commented(self, comment: Comment) -> Self {
        Self {
            comment: Some(comment),
            ..self
        }
    }
}

/// What a rule ends in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The next rule: this one only had effects.
    Next,
    /// A verdict.
    Verdict(Verdict),
    /// `reject with icmpx port-unreachable`: the packet goes nowhere, and its sender hears so.
    Reject,
    /// The verdict that a map gives for these fields; the next rule when it gives none.
    VerdictMap {
        /// What is looked up.
        key: Vec<Field>,
        /// Where.
        map: Name,
    },
}

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// To the next base chain; out of the table.
    Accept,
    /// Nowhere.
    Drop,
    /// Back to the chain that jumped here; from a base chain, to its policy.
    Return,
    /// To another chain, and back when that decides nothing.
    Jump(Name),
    /// To another chain, and when that decides nothing to where this chain would return.
    Goto(Name),
}

impl Verdict {
    /// The chain it leads to.
    pub fn target(&self) -> Option<&Name> {
        match self {
            Self::Jump(chain) | Self::Goto(chain) => Some(chain),
            Self::Accept | Self::Drop | Self::Return => None,
        }
    }

    /// The same way to another chain; what leads to none is what it was.
    #[must_use]
    pub(crate) fn towards(&self, other: Name) -> Self {
        match self {
            Self::Jump(_) => Self::Jump(other),
            Self::Goto(_) => Self::Goto(other),
            Self::Accept | Self::Drop | Self::Return => self.clone(),
        }
    }
}

/// Something that a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// `iifname`.
    InputInterface,
    /// `oifname`.
    OutputInterface,
    /// `ip saddr`; only IPv4 packets have it.
    Ipv4Source,
    /// `ip daddr`; only IPv4 packets have it.
    Ipv4Destination,
    /// `ip6 saddr`; only IPv6 packets have it.
    Ipv6Source,
    /// `ip6 daddr`; only IPv6 packets have it.
    Ipv6Destination,
    /// `meta nfproto`.
    Family,
    /// `meta l4proto`.
    Protocol,
    /// `th dport`, `tcp dport` and so on.
    DestinationPort(Transport),
    /// `icmp type`; only ICMP packets have it.
    IcmpType,
    /// `icmpv6 type`; only ICMPv6 packets have it.
    Icmpv6Type,
    /// `meta priority`.
    Priority,
    /// `meta mark`.
    Mark,
    /// `ct mark`; only tracked packets have it.
    ConnectionMark,
}

/// Whose destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Bytes 2 and 3 of whatever follows the IP header, also where they are no port.
    Any,
    /// TCP's.
    Tcp,
    /// UDP's.
    Udp,
    /// SCTP's.
    Sctp,
}

impl Field {
    /// The type of its values.
    pub fn datatype(self) -> Datatype {
        match self {
            Self::InputInterface | Self::OutputInterface => Datatype::Interface,
            Self::Ipv4Source | Self::Ipv4Destination => Datatype::Ipv4Address,
            Self::Ipv6Source | Self::Ipv6Destination => Datatype::Ipv6Address,
            Self::Family => Datatype::Family,
            Self::Protocol => Datatype::Protocol,
            Self::DestinationPort(_) => Datatype::Port,
            Self::IcmpType => Datatype::IcmpType,
            Self::Icmpv6Type => Datatype::Icmpv6Type,
            Self::Priority => Datatype::Priority,
            Self::Mark | Self::ConnectionMark => Datatype::Mark,
        }
    }
}

/// How a field relates to a value or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// It is the value, or in the interval or set.
    Is,
    /// It is not.
    IsNot,
}

/// A condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// A field against a value or interval.
    Compare {
        /// The field.
        field: Field,
        /// How.
        relation: Relation,
        /// The value.
        value: Value,
    },
    /// A field against an anonymous set of two or more disjoint values. The kernel makes a set for every such rule, so
    /// a ruleset must hold few.
    AnyOf {
        /// The field.
        field: Field,
        /// The values, disjoint.
        values: BTreeSet<Value>,
    },
    /// One field, or a concatenation of several, against a named set.
    Lookup {
        /// The fields.
        key: Vec<Field>,
        /// How.
        relation: Relation,
        /// The set.
        set: Name,
    },
    /// `ct state`.
    State(BTreeSet<State>),
    /// `tcp flags & mask == value` or `!=`; bits as in the TCP header (FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32).
    TcpFlags {
        /// The flags looked at.
        mask: u8,
        /// How.
        relation: Relation,
        /// Those of them that are set.
        value: u8,
    },
    /// `fib saddr . iif oif missing`: the route back to the source does not lead through the interface of arrival.
    NoReversePath,
    /// `fib saddr type local`: the source is an address of this machine.
    LocalSource,
}

impl Match {
    /// That `field` is `value`, or in it.
    pub fn is(field: Field, value: Value) -> Self {
        Self::Compare {
            field,
            relation: Relation::Is,
            value,
        }
    }

    /// That `field` is in the named set.
    pub fn is_in(field: Field, set: Name) -> Self {
        Self::Lookup {
            key: vec![field],
            relation: Relation::Is,
            set,
        }
    }

    /// That the packet is in one of these states.
    pub fn state(states: impl IntoIterator<Item = State>) -> Self {
        Self::State(states.into_iter().collect())
    }
}

/// Something that a rule writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// `meta priority`.
    Priority,
    /// `meta mark`.
    Mark,
    /// `ct mark`.
    ConnectionMark,
}

impl Slot {
    /// The field that reads it.
    pub fn field(self) -> Field {
        match self {
            Self::Priority => Field::Priority,
            Self::Mark => Field::Mark,
            Self::ConnectionMark => Field::ConnectionMark,
        }
    }
}

/// What is written. nft 1.0.6 can only write a looked-up value whole, never merge it with other bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assigned {
    /// A constant.
    Constant(u32),
    /// Another field of the same type.
    Field(Field),
    /// What a map gives for these fields; the rule ends without effect when it gives nothing.
    Map {
        /// What is looked up.
        key: Vec<Field>,
        /// Where.
        map: Name,
    },
}

/// A line in the kernel's log for each packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// What the line begins with.
    pub prefix: LogPrefix,
    /// The netlink group to log to; `None` for the kernel's ring buffer.
    pub group: Option<u16>,
}

/// `limit rate`: of the packets that get here, so many go on, whichever they are. Behind it a rule only logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How many a second, for long.
    pub per_second: NonZeroU32,
    /// How many at once.
    pub burst: NonZeroU32,
}

impl Limit {
    /// The burst that nft means, and 1.0.6 prints, where none is written.
    pub const BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(4);
}

/// One step of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Goes on only when it holds.
    Match(Match),
    /// Writes a field.
    Set(Slot, Assigned),
    /// Counts the packet.
    Count(Name),
    /// Logs the packet.
    Log(Log),
    /// Goes on for a part of the packets.
    Limit(Limit),
}

impl From<Match> for Statement {
    fn from(condition: Match) -> Self {
        Self::Match(condition)
    }
}
