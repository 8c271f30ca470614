//! The bytes of probes that go through raw sockets: ICMP echo (RFC 792, RFC 4443) and SCTP INIT (RFC 9260).

use picket_linux::{crc32c, internet_checksum};
use picket_net::Family;

/// An ICMP echo request of `family`. The kernel fills in the checksum of ICMPv6.
pub fn echo_request(family: Family, identifier: u16, sequence: u16, nonce: u32) -> Vec<u8> {
    let kind = match family {
        Family::Ipv4 => 8,
        Family::Ipv6 => 128,
    };
    let mut message = vec![kind, 0, 0, 0];
    message.extend(identifier.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    message.extend(nonce.to_be_bytes());
    if family == Family::Ipv4 {
        let checksum = internet_checksum(&message).to_be_bytes();
        put(&mut message, 2, &checksum);
    }
    message
}

/// The nonce of an echo reply to requests with `identifier`.
pub fn echo_reply(family: Family, message: &[u8], identifier: u16) -> Option<u32> {
    let kind = match family {
        Family::Ipv4 => 0,
        Family::Ipv6 => 129,
    };
    (message.first() == Some(&kind) && u16_at(message, 4)? == identifier).then(|| u32_at(message, 8))?
}

/// The ports and the beginning of the first chunk of an SCTP packet whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sctp {
    /// The port of who sends it.
    pub source_port: u16,
    /// The port that it goes to.
    pub destination_port: u16,
    /// What the other side calls the association; nothing yet in an INIT.
    pub verification_tag: u32,
    /// What it says.
    pub chunk: Chunk,
}

/// The chunks that open an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Asks for an association.
    Init {
        /// What the sender calls it.
        tag: u32,
    },
    /// Answers that.
    InitAck {
        /// What the sender calls it.
        tag: u32,
    },
}

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const STATE_COOKIE: u16 = 7;

impl Sctp {
    /// Its bytes, with their checksum.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, tag, cookie) = match self.chunk {
            Chunk::Init { tag } => (INIT, tag, None),
            // A cookie is mandatory; nobody will return it.
            Chunk::InitAck { tag } => (INIT_ACK, tag, Some(*b"probe\0\0\0")),
        };
        let mut packet = Vec::with_capacity(44);
        packet.extend(self.source_port.to_be_bytes());
        packet.extend(self.destination_port.to_be_bytes());
        packet.extend(self.verification_tag.to_be_bytes());
        packet.extend([0; 4]);
        let chunk = packet.len();
        packet.extend([kind, 0, 0, 0]);
        packet.extend(tag.to_be_bytes());
        packet.extend(65536u32.to_be_bytes());
        packet.extend([0, 1, 0, 1]);
        packet.extend(tag.to_be_bytes());
        if let Some(cookie) = cookie {
            packet.extend(STATE_COOKIE.to_be_bytes());
            packet.extend([0, 12]);
            packet.extend(cookie);
        }
        let length = u16::try_from(packet.len() - chunk).unwrap_or_default();
        put(&mut packet, chunk + 2, &length.to_be_bytes());
        let checksum = crc32c(&packet).to_le_bytes();
        put(&mut packet, 8, &checksum);
        packet
    }

    /// Reads a packet that opens an association; `None` for every other and for one with a wrong checksum.
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let mut blank = packet.to_vec();
        put(&mut blank, 8, &[0; 4]);
        let checksum = u32::from_le_bytes(packet.get(8..12)?.try_into().ok()?);
        if crc32c(&blank) != checksum {
            return None;
        }
        let tag = u32_at(packet, 16)?;
        Some(Self {
            source_port: u16_at(packet, 0)?,
            destination_port: u16_at(packet, 2)?,
            verification_tag: u32_at(packet, 4)?,
            chunk: match *packet.get(12)? {
                INIT => Chunk::Init { tag },
                INIT_ACK => Chunk::InitAck { tag },
                _ => return None,
            },
        })
    }
}

/// What follows the IP header that raw IPv4 sockets deliver; IPv6 ones deliver none.
pub fn payload(family: Family, packet: &[u8]) -> Option<&[u8]> {
    match family {
        Family::Ipv4 => packet.get(usize::from(packet.first()? & 0x0f) * 4..),
        Family::Ipv6 => Some(packet),
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_open_an_association_read_back() {
        for chunk in [Chunk::Init { tag: 7 }, Chunk::InitAck { tag: 0xffff_ffff }] {
            let packet = Sctp {
                source_port: 40000,
                destination_port: 132,
                verification_tag: 9,
                chunk,
            };
            let bytes = packet.encode();
            assert_eq!(bytes.len() % 4, 0);
            assert_eq!(Sctp::decode(&bytes), Some(packet));
        }
    }

    #[test]
    fn a_packet_with_one_wrong_bit_is_no_packet() {
        let packet = Sctp {
            source_port: 1,
            destination_port: 2,
            verification_tag: 0,
            chunk: Chunk::Init { tag: 3 },
        };
        let bytes = packet.encode();
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Sctp::decode(&wrong), None, "bit {bit}");
        }
    }

    #[test]
    fn the_init_chunk_is_laid_out_as_rfc_9260_says() {
        let bytes = Sctp {
            source_port: 0x1234,
            destination_port: 0x5678,
            verification_tag: 0,
            chunk: Chunk::Init { tag: 0x0a0b_0c0d },
        }
        .encode();
        assert_eq!(bytes[..8], [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0]);
        // Type 1, no flags, length 20, tag, window, one stream each way, first TSN.
        let chunk = [
            1, 0, 0, 20, 10, 11, 12, 13, 0, 1, 0, 0, 0, 1, 0, 1, 10, 11, 12, 13,
        ];
        assert_eq!(bytes[12..], chunk);
    }

    #[test]
    fn replies_are_told_by_kind_and_identifier() {
        let mut message = echo_request(Family::Ipv4, 5, 6, 7);
        assert_eq!(internet_checksum(&message), 0);
        assert_eq!(echo_reply(Family::Ipv4, &message, 5), None, "a request");
        message[0] = 0;
        assert_eq!(echo_reply(Family::Ipv4, &message, 5), Some(7));
        assert_eq!(echo_reply(Family::Ipv4, &message, 4), None, "another's");
        assert_eq!(echo_reply(Family::Ipv6, &message, 5), None, "another family's");
    }
}
