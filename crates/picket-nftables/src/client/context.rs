//! What earlier comparisons of a rule say about the packet.

use picket_net::Protocol;

use super::expression::{META_L4PROTO, META_NFPROTO};
use super::uapi::{NFPROTO_IPV4, NFPROTO_IPV6};
use crate::model::{Field, Transport};

/// A comparison of one byte of what is known of a packet: the key of `meta`, and the byte.
pub(super) type Known = (u32, u8);

/// The protocols that a packet has for sure where a rule has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Context {
    network: Option<u8>,
    transport: Option<u8>,
}

impl Context {
    /// Notes a comparison that held.
    pub(super) fn note(&mut self, (key, byte): Known) {
        match key {
            META_NFPROTO => self.network = Some(byte),
            META_L4PROTO => self.transport = Some(byte),
            _ => {}
        }
    }

    /// The comparisons that must hold besides for the packet to have a field. They are noted.
    pub(super) fn require(&mut self, field: Field) -> Vec<Known> {
        match field {
            Field::Ipv4Source | Field::Ipv4Destination => self.network(NFPROTO_IPV4),
            Field::Ipv6Source | Field::Ipv6Destination => self.network(NFPROTO_IPV6),
            Field::DestinationPort(Transport::Tcp) => self.transport(Protocol::TCP, None),
            Field::DestinationPort(Transport::Udp) => self.transport(Protocol::UDP, None),
            Field::DestinationPort(Transport::Sctp) => self.transport(Protocol::SCTP, None),
            Field::IcmpType => self.transport(Protocol::ICMP, Some(NFPROTO_IPV4)),
            Field::Icmpv6Type => self.transport(Protocol::ICMPV6, Some(NFPROTO_IPV6)),
            Field::InputInterface
            | Field::OutputInterface
            | Field::Family
            | Field::Protocol
            | Field::DestinationPort(Transport::Any)
            | Field::Priority
            | Field::Mark
            | Field::ConnectionMark => Vec::new(),
        }
    }

    /// Whether the packet has a field for sure.
    pub(super) fn has(mut self, field: Field) -> bool {
        self.require(field).is_empty()
    }

    fn network(&mut self, family: u8) -> Vec<Known> {
        if self.network == Some(family) {
            return Vec::new();
        }
        self.network = Some(family);
        vec![(META_NFPROTO, family)]
    }

    fn transport(&mut self, protocol: Protocol, family: Option<u8>) -> Vec<Known> {
        let protocol = protocol.number();
        if self.transport == Some(protocol) {
            return Vec::new();
        }
        let mut needed = family.map_or_else(Vec::new, |family| self.network(family));
        self.transport = Some(protocol);
        needed.push((META_L4PROTO, protocol));
        needed
    }
}
