//! ACLs: what VPP takes for one, and what its rules match.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_net::{Prefix, Protocol};

use super::packet::Packet;
use super::retval;
use super::wire::{Reader, Writer};

/// An ACL as VPP keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// Its tag, without the NULs behind it.
    pub tag: String,
    /// Its rules, the first of which that matches decides.
    pub rules: Vec<AclRule>,
}

/// What a rule does with packets that match: any other number than these permits without a session too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclAction {
    /// 0: dropped.
    Deny,
    /// 1: passes, and nothing is remembered.
    Permit,
    /// 2: passes, and so do the rest of its flow and what answers it.
    Reflect,
    /// Anything else, which the plugin takes for a permit.
    Other(u8),
}

/// One rule of an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclRule {
    /// What it does.
    pub action: AclAction,
    /// The addresses that packets come from.
    pub source: Prefix,
    /// The addresses that they go to, of the same family.
    pub destination: Prefix,
    /// The protocol; 0 is any, and then ports do not count.
    pub protocol: u8,
    /// First and last source port, or type of ICMP.
    pub source_ports: (u16, u16),
    /// First and last destination port, or code of ICMP.
    pub destination_ports: (u16, u16),
    /// The flags of TCP that count, and what they must be.
    pub tcp_flags: (u8, u8),
}

impl AclRule {
    /// A rule for everything of one family, to be narrowed.
    pub fn all(action: AclAction, family: picket_net::Family) -> Self {
        Self {
            action,
            source: Prefix::all(family),
            destination: Prefix::all(family),
            protocol: 0,
            source_ports: (0, u16::MAX),
            destination_ports: (0, u16::MAX),
            tcp_flags: (0, 0),
        }
    }

    /// Whether it is about this packet, as `single_acl_match_5tuple` of the plugin decides it.
    pub(super) fn matches(&self, packet: &Packet) -> bool {
        if !self.source.contains(packet.source) || !self.destination.contains(packet.destination) {
            return false;
        }
        if self.protocol == 0 {
            return true;
        }
        if self.protocol != packet.protocol.number() {
            return false;
        }
        // `l4_match_nonfirst_fragment`, on by default: what has no ports matches every port.
        packet.fragment || self.matches_ports(packet)
    }

    fn matches_ports(&self, packet: &Packet) -> bool {
        let within = |(first, last): (u16, u16), port| (first..=last).contains(&port);
        let (mask, value) = self.tcp_flags;
        within(self.source_ports, packet.source_port)
            && within(self.destination_ports, packet.destination_port)
            && (packet.protocol != Protocol::TCP || packet.tcp_flags & mask == value)
    }
}

impl AclAction {
    pub(super) fn from_wire(number: u8) -> Self {
        match number {
            0 => Self::Deny,
            1 => Self::Permit,
            2 => Self::Reflect,
            other => Self::Other(other),
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Deny => 0,
            Self::Permit => 1,
            Self::Reflect => 2,
            Self::Other(number) => number,
        }
    }
}

/// A prefix as it came: not yet known to be one.
#[derive(Clone, Copy, Debug)]
pub(super) struct WirePrefix {
    pub(super) family: u8,
    address: [u8; 16],
    pub(super) length: u8,
}

impl WirePrefix {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            family: reader.u8()?,
            address: reader.array()?,
            length: reader.u8()?,
        })
    }

    /// The address, if its family is one of the two. Of an IPv4 address the first four bytes count.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let [a, b, c, d, ..] = self.address;
        match self.family {
            0 => Some(Ipv4Addr::new(a, b, c, d).into()),
            1 => Some(Ipv6Addr::from(self.address).into()),
            _ => None,
        }
    }

    /// The prefix, if it has no bits beyond its length.
    fn exact(&self) -> Option<Prefix> {
        let address = self.address()?;
        Prefix::new(address, self.length).filter(|prefix| prefix.first() == address)
    }
}

/// Writes a prefix: family, 16 bytes of address, length.
pub(super) fn write_prefix(writer: Writer, address: IpAddr, length: u8) -> Writer {
    let writer = match address {
        IpAddr::V4(address) => writer.u8(0).bytes(&address.octets()).zeros(12),
        IpAddr::V6(address) => writer.u8(1).bytes(&address.octets()),
    };
    writer.u8(length)
}

/// A rule as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireRule {
    action: u8,
    source: WirePrefix,
    destination: WirePrefix,
    protocol: u8,
    source_ports: (u16, u16),
    destination_ports: (u16, u16),
    tcp_flags: (u8, u8),
}

impl WireRule {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            action: reader.u8()?,
            source: WirePrefix::read(reader)?,
            destination: WirePrefix::read(reader)?,
            protocol: reader.u8()?,
            source_ports: (reader.u16()?, reader.u16()?),
            destination_ports: (reader.u16()?, reader.u16()?),
            tcp_flags: (reader.u8()?, reader.u8()?),
        })
    }

    /// The rule, or the number of why it is none, in the order in which the plugin looks.
    pub(super) fn checked(&self) -> Result<AclRule, i32> {
        let source = self.source.exact().ok_or(retval::INVALID_SRC_ADDRESS)?;
        let destination = self.destination.exact().ok_or(retval::INVALID_DST_ADDRESS)?;
        if source.family() != destination.family() {
            return Err(retval::INVALID_DST_ADDRESS);
        }
        for (first, last) in [self.source_ports, self.destination_ports] {
            if first > last {
                return Err(retval::INVALID_VALUE_2);
            }
        }
        Ok(AclRule {
            action: AclAction::from_wire(self.action),
            source,
            destination,
            protocol: self.protocol,
            source_ports: self.source_ports,
            destination_ports: self.destination_ports,
            tcp_flags: self.tcp_flags,
        })
    }
}

impl AclRule {
    pub(super) fn write(&self, writer: Writer) -> Writer {
        let writer = writer.u8(self.action.number());
        let writer = write_prefix(writer, self.source.first(), self.source.length());
        write_prefix(writer, self.destination.first(), self.destination.length())
            .u8(self.protocol)
            .u16(self.source_ports.0)
            .u16(self.source_ports.1)
            .u16(self.destination_ports.0)
            .u16(self.destination_ports.1)
            .u8(self.tcp_flags.0)
            .u8(self.tcp_flags.1)
    }
}
