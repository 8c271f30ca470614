//! What the headers of a packet say. Whoever sent it wrote them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Carried, Tuple};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// Extension headers of IPv6 (RFC 8200, section 4) that say what follows, and the authentication header (RFC 4302).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// More extension headers than any packet needs.
const EXTENSIONS: usize = 8;

/// What follows the headers of IP.
struct Behind<'p> {
    protocol: u8,
    /// Nothing where a fragment before this one has it.
    bytes: &'p [u8],
}

/// What the packet that begins with `bytes` carries; `None` when that is no IPv4 or IPv6.
pub(super) fn read(bytes: &[u8]) -> Option<Tuple> {
    let (source, destination, behind): (IpAddr, IpAddr, _) = match bytes.first()? >> 4 {
        4 => {
            let address = |at| Some(Ipv4Addr::from(array::<4>(bytes, at)?));
            (address(12)?.into(), address(16)?.into(), behind_v4(bytes)?)
        }
        6 => {
            let address = |at| Some(Ipv6Addr::from(array::<16>(bytes, at)?));
            (address(8)?.into(), address(24)?.into(), behind_v6(bytes)?)
        }
        _ => return None,
    };
    Some(Tuple {
        source,
        destination,
        protocol: behind.protocol,
        carried: carried(&behind).unwrap_or(Carried::Nothing),
        zone: 0,
    })
}

fn behind_v4(bytes: &[u8]) -> Option<Behind<'_>> {
    const OFFSET: u16 = 0x1fff;
    let length = usize::from(bytes.first()? & 0xf) * 4;
    let is_first = u16::from_be_bytes(array(bytes, 6)?) & OFFSET == 0;
    Some(Behind {
        protocol: *bytes.get(9)?,
        bytes: bytes.get(length..).filter(|_| is_first).unwrap_or_default(),
    })
}

fn behind_v6(bytes: &[u8]) -> Option<Behind<'_>> {
    const OFFSET: u16 = 0xfff8;
    let (mut protocol, mut rest) = (*bytes.get(6)?, bytes.get(40..)?);
    for _ in 0..EXTENSIONS {
        let length = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION => rest.get(1).map(|units| 8 + 8 * usize::from(*units)),
            AUTHENTICATION => rest.get(1).map(|units| 8 + 4 * usize::from(*units)),
            FRAGMENT => array(rest, 2).map(|offset| match u16::from_be_bytes(offset) & OFFSET {
                0 => 8,
                _ => usize::MAX,
            }),
            _ => break,
        };
        // Where the copy ends, or this is no first fragment, what follows is named at least.
        protocol = rest.first().copied().unwrap_or(protocol);
        rest = length.and_then(|length| rest.get(length..)).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
    }
    Some(Behind {
        protocol,
        bytes: rest,
    })
}

fn carried(behind: &Behind<'_>) -> Option<Carried> {
    let short = |at| Some(u16::from_be_bytes(array(behind.bytes, at)?));
    match behind.protocol {
        TCP | UDP | DCCP | SCTP | UDP_LITE => Some(Carried::Ports {
            source: short(0)?,
            destination: short(2)?,
        }),
        ICMP | ICMPV6 => Some(Carried::Icmp {
            kind: *behind.bytes.first()?,
            code: *behind.bytes.get(1)?,
            id: short(4)?,
        }),
        _ => None,
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of IPv4 with options of some words, at an offset of fragments.
    fn v4(words: u8, offset: u16, protocol: u8, behind: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x40 | (5 + words), 0, 0, 0, 0, 0];
        bytes.extend(offset.to_be_bytes());
        bytes.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(vec![0; usize::from(words) * 4]);
        bytes.extend(behind);
        bytes
    }

    fn v6(next: u8, behind: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        for last in [1, 2] {
            let address: Ipv6Addr = format!("fd00::{last}").parse().unwrap();
            bytes.extend(address.octets());
        }
        bytes.extend(behind);
        bytes
    }

    fn shown(bytes: &[u8]) -> Option<String> {
        read(bytes).map(|tuple| tuple.to_string())
    }

    #[test]
    fn headers_say_what_they_carry() {
        let ports = [0x12, 0x34, 0, 80];
        let extended = [&[6, 1][..], &[0; 14], &ports].concat();
        let first = [&[17, 0, 0, 1, 0, 0, 0, 0][..], &ports].concat();
        let later = [&[17, 0, 0, 9, 0, 0, 0, 0][..], &ports].concat();
        let authenticated = [&[6, 1][..], &[0; 10], &ports].concat();
        let v4_ports = "10.0.0.1 port 4660 to 10.0.0.2 port 80, protocol";
        let v6_ports = "fd00::1 port 4660 to fd00::2 port 80, protocol";
        for (bytes, expected) in [
            (v4(0, 0, TCP, &ports), format!("{v4_ports} 6")),
            (v4(3, 0x4000, SCTP, &ports), format!("{v4_ports} 132")),
            (
                v4(0, 9, UDP, &ports),
                "10.0.0.1 to 10.0.0.2, protocol 17".to_owned(),
            ),
            (
                v4(0, 0, TCP, &ports[..3]),
                "10.0.0.1 to 10.0.0.2, protocol 6".to_owned(),
            ),
            (
                v4(0, 0, ICMP, &[8, 0, 1, 1, 0, 7]),
                "10.0.0.1 to 10.0.0.2, protocol 1, type 8, code 0, identifier 7".to_owned(),
            ),
            (
                v4(0, 0, 47, &ports),
                "10.0.0.1 to 10.0.0.2, protocol 47".to_owned(),
            ),
            (v6(UDP, &ports), format!("{v6_ports} 17")),
            (v6(HOP_BY_HOP, &extended), format!("{v6_ports} 6")),
            (v6(FRAGMENT, &first), format!("{v6_ports} 17")),
            (v6(FRAGMENT, &later), "fd00::1 to fd00::2, protocol 17".to_owned()),
            (v6(AUTHENTICATION, &authenticated), format!("{v6_ports} 6")),
            (v6(ROUTING, &[]), "fd00::1 to fd00::2, protocol 43".to_owned()),
        ] {
            assert_eq!(shown(&bytes), Some(expected), "{bytes:?}");
            // A part of it says nothing else about the ends.
            let whole = read(&bytes).unwrap();
            for part in (0..bytes.len()).filter_map(|end| read(&bytes[..end])) {
                assert_eq!((part.source, part.destination), (whole.source, whole.destination));
                assert!(
                    [whole.carried, Carried::Nothing].contains(&part.carried),
                    "{part:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_cut_off_or_no_packet_is_none_or_less() {
        for bytes in [
            &[][..],
            &[0x45],
            &[0x50; 60],
            &v6(TCP, &[])[..39],
            &v4(0, 0, TCP, &[])[..19],
        ] {
            assert_eq!(shown(bytes), None, "{bytes:?}");
        }
        // Extensions without end, and lengths that lead behind the packet.
        let endless = [HOP_BY_HOP, 0, 0, 0, 0, 0, 0, 0].repeat(30);
        assert_eq!(
            shown(&v6(HOP_BY_HOP, &endless)).as_deref(),
            Some("fd00::1 to fd00::2, protocol 0")
        );
        assert_eq!(
            shown(&v6(DESTINATION, &[TCP, 255, 0, 0])).as_deref(),
            Some("fd00::1 to fd00::2, protocol 6")
        );
        let lying = v4(10, 0, TCP, &[])[..24].to_vec();
        assert_eq!(shown(&lying).as_deref(), Some("10.0.0.1 to 10.0.0.2, protocol 6"));
    }
}
