//! What tells one direction of a connection from all others.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::NLA_F_NESTED;
use crate::message::Message;
use crate::reply::Attributes;

const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_TUPLE_ZONE: u16 = 3;

const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;

const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
const CTA_PROTO_ICMP_ID: u16 = 4;
const CTA_PROTO_ICMP_TYPE: u16 = 5;
const CTA_PROTO_ICMP_CODE: u16 = 6;
/// How much higher the same three are for ICMPv6.
const ICMPV6: u16 = 3;

const IPPROTO_ICMP: u8 = 1;
const IPPROTO_ICMPV6: u8 = 58;

/// What the packets of one direction of a connection carry when they come. Both addresses are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// Where they come from.
    pub source: IpAddr,
    /// Where they are to go.
    pub destination: IpAddr,
    /// Their protocol (`IPPROTO_*`).
    pub protocol: u8,
    /// What their protocol has besides.
    pub carried: Carried,
    /// The zone of this direction, where the other has none; otherwise 0.
    pub zone: u16,
}

/// What tells connections of the same addresses and protocol apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carried {
    /// The protocol has nothing, or nothing that the kernel looks at.
    Nothing,
    /// Ports, or the keys of GRE.
    Ports {
        /// The one that packets come from.
        source: u16,
        /// The one that they are to go to.
        destination: u16,
    },
    /// What ICMP and ICMPv6 have.
    Icmp {
        /// The type of the messages, as 8 for an echo request.
        kind: u8,
        /// Their code.
        code: u8,
        /// The identifier, which replies repeat.
        id: u16,
    },
}

/// What of a tuple is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Source,
}

impl Tuple {
    /// What the attributes of a tuple say; `None` when they are those of none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (mut addresses, mut protocol, mut zone) = (None, None, 0);
        for (kind, bytes) in Attributes::of(bytes) {
            match kind {
                CTA_TUPLE_IP => addresses = Some(read_addresses(bytes)?),
                CTA_TUPLE_PROTO => protocol = Some(read_protocol(bytes)?),
                CTA_TUPLE_ZONE => zone = u16::from_be_bytes(bytes.try_into().ok()?),
                _ => {}
            }
        }
        let ((source, destination), (protocol, carried)) = (addresses?, protocol?);
        Some(Self {
            source,
            destination,
            protocol,
            carried,
            zone,
        })
    }

    /// Adds it to a message as an attribute of this kind.
    pub(super) fn write(&self, message: Message, kind: u16, part: Part) -> Message {
        let (message, tuple) = message.open(kind | NLA_F_NESTED, &[]);
        let (message, addresses) = message.open(CTA_TUPLE_IP | NLA_F_NESTED, &[]);
        let (from, to) = match self.source {
            IpAddr::V4(_) => (CTA_IP_V4_SRC, CTA_IP_V4_DST),
            IpAddr::V6(_) => (CTA_IP_V6_SRC, CTA_IP_V6_DST),
        };
        let message = message.address(from, self.source);
        if part == Part::Source {
            return message.close(&addresses).close(&tuple);
        }
        let message = message.address(to, self.destination).close(&addresses);
        let message = self.write_protocol(message);
        let message = match self.zone {
            0 => message,
            zone => message.attribute(CTA_TUPLE_ZONE, &zone.to_be_bytes()),
        };
        message.close(&tuple)
    }

    fn write_protocol(&self, message: Message) -> Message {
        let (message, nest) = message.open(CTA_TUPLE_PROTO | NLA_F_NESTED, &[]);
        let message = message.attribute(CTA_PROTO_NUM, &[self.protocol]);
        let message = match self.carried {
            Carried::Nothing => message,
            Carried::Ports { source, destination } => message
                .attribute(CTA_PROTO_SRC_PORT, &source.to_be_bytes())
                .attribute(CTA_PROTO_DST_PORT, &destination.to_be_bytes()),
            Carried::Icmp { kind, code, id } => {
                let shift = if self.protocol == IPPROTO_ICMPV6 {
                    ICMPV6
                } else {
                    0
                };
                message
                    .attribute(CTA_PROTO_ICMP_ID + shift, &id.to_be_bytes())
                    .attribute(CTA_PROTO_ICMP_TYPE + shift, &[kind])
                    .attribute(CTA_PROTO_ICMP_CODE + shift, &[code])
            }
        };
        message.close(&nest)
    }
}

fn read_addresses(bytes: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let find = |kind| Attributes::of(bytes).find(kind);
    let v4 = |kind| -> Option<Ipv4Addr> { Some(<[u8; 4]>::try_from(find(kind)?).ok()?.into()) };
    let v6 = |kind| -> Option<Ipv6Addr> { Some(<[u8; 16]>::try_from(find(kind)?).ok()?.into()) };
    match v4(CTA_IP_V4_SRC) {
        Some(source) => Some((source.into(), v4(CTA_IP_V4_DST)?.into())),
        None => Some((v6(CTA_IP_V6_SRC)?.into(), v6(CTA_IP_V6_DST)?.into())),
    }
}

fn read_protocol(bytes: &[u8]) -> Option<(u8, Carried)> {
    let find = |kind| Attributes::of(bytes).find(kind);
    let short = |kind| -> Option<u16> { Some(u16::from_be_bytes(find(kind)?.try_into().ok()?)) };
    let byte = |kind| -> Option<u8> { find(kind)?.first().copied() };
    let protocol = byte(CTA_PROTO_NUM)?;
    let shift = match protocol {
        IPPROTO_ICMP => Some(0),
        IPPROTO_ICMPV6 => Some(ICMPV6),
        _ => None,
    };
    let carried = match (shift, find(CTA_PROTO_SRC_PORT)) {
        (Some(shift), _) => Carried::Icmp {
            kind: byte(CTA_PROTO_ICMP_TYPE + shift)?,
            code: byte(CTA_PROTO_ICMP_CODE + shift)?,
            id: short(CTA_PROTO_ICMP_ID + shift)?,
        },
        (None, Some(_)) => Carried::Ports {
            source: short(CTA_PROTO_SRC_PORT)?,
            destination: short(CTA_PROTO_DST_PORT)?,
        },
        (None, None) => Carried::Nothing,
    };
    Some((protocol, carried))
}

impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            destination,
            protocol,
            ..
        } = self;
        match self.carried {
            Carried::Nothing => write!(f, "{source} to {destination}, protocol {protocol}"),
            Carried::Ports {
                source: from,
                destination: to,
            } => {
                write!(
                    f,
                    "{source} port {from} to {destination} port {to}, protocol {protocol}"
                )
            }
            Carried::Icmp { kind, code, id } => write!(
                f,
                "{source} to {destination}, protocol {protocol}, type {kind}, code {code}, identifier {id}"
            ),
        }
    }
}
