use std::net::IpAddr;

use super::*;

fn tuple(source: &str, destination: &str, protocol: u8, carried: Carried) -> Tuple {
    Tuple {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol,
        carried,
        zone: 0,
    }
}

fn ports(source: u16, destination: u16) -> Carried {
    Carried::Ports { source, destination }
}

/// The attributes with which the kernel tells of a connection.
fn attributes(connection: &Connection) -> Vec<u8> {
    let message = about(IPCTNL_MSG_CT_GET, 0, &connection.original, connection.zone);
    let message = connection
        .reply
        .write(message, CTA_TUPLE_REPLY, Part::Whole)
        .attribute(CTA_STATUS, &connection.status.to_be_bytes())
        .attribute(CTA_ID, &connection.id.to_be_bytes());
    let message = match &connection.master {
        Some(master) => master.write(message, CTA_TUPLE_MASTER, Part::Whole),
        None => message,
    };
    let message = match connection.is_taken_up {
        true => {
            let (message, of_protocol) = message.open(CTA_PROTOINFO | NLA_F_NESTED, &[]);
            let (message, of_tcp) = message.open(CTA_PROTOINFO_TCP | NLA_F_NESTED, &[]);
            message
                .attribute(CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, &[LIBERAL | 1, 0])
                .close(&of_tcp)
                .close(&of_protocol)
        }
        false => message,
    };
    message.finish(1).split_off(HEADER + FAMILY_HEADER)
}

fn examples() -> [Connection; 5] {
    let of = |original, reply| Connection {
        original,
        reply,
        zone: 0,
        id: 7,
        status: IPS_SEEN_REPLY,
        master: None,
        is_taken_up: false,
    };
    let service = of(
        tuple("10.0.0.1", "10.96.0.1", 6, ports(40_000, 80)),
        tuple("10.0.0.2", "10.0.1.9", 6, ports(8080, 50_000)),
    );
    let echo = |kind| Carried::Icmp { kind, code: 0, id: 9 };
    let ping = of(
        tuple("fd00::1", "fd00::2", 58, echo(128)),
        tuple("fd00::2", "fd00::1", 58, echo(129)),
    );
    let tunnel = of(
        tuple("10.0.0.1", "10.0.0.2", 4, Carried::Nothing),
        tuple("10.0.0.2", "10.0.0.1", 4, Carried::Nothing),
    );
    let expected = Connection {
        zone: 5,
        status: 0,
        master: Some(Tuple {
            zone: 3,
            ..service.original
        }),
        ..of(
            tuple("10.0.0.2", "10.0.0.1", 17, ports(1, 2)),
            tuple("10.0.0.1", "10.0.0.2", 17, ports(2, 1)),
        )
    };
    let taken_up = Connection {
        is_taken_up: true,
        ..service
    };
    [service, ping, tunnel, expected, taken_up]
}

#[test]
fn what_is_written_is_read() {
    for connection in examples() {
        let bytes = attributes(&connection);
        assert_eq!(Connection::read(Attributes::of(&bytes)), Some(connection));
    }
}

#[test]
fn damage_gives_no_connection_or_another_and_no_panic() {
    for connection in examples() {
        // The identifier, without which there is no connection, then comes last.
        let alone = attributes(&Connection {
            master: None,
            is_taken_up: false,
            ..connection
        });
        for end in 0..alone.len() {
            assert_eq!(
                Connection::read(Attributes::of(&alone[..end])),
                None,
                "{end} bytes"
            );
        }
        let bytes = attributes(&connection);
        for at in 0..bytes.len() {
            for change in 1..=u8::MAX {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                let _ = Connection::read(Attributes::of(&damaged));
            }
        }
    }
}

#[test]
fn only_a_single_address_of_ipv4_is_chosen_by_the_kernel() {
    let of_ipv6 = Which::From("fd00::1".parse().unwrap());
    for which in [Which::All, Which::Ipv6, of_ipv6] {
        assert_eq!(list(which, 0).finish(1).len(), HEADER + FAMILY_HEADER);
    }
    let address: IpAddr = "10.0.0.1".parse().unwrap();
    let chosen = list(Which::To(address), 0).finish(1);
    let kinds: Vec<_> = Attributes::of(&chosen[HEADER + FAMILY_HEADER..])
        .map(|(kind, _)| kind)
        .collect();
    assert_eq!(kinds, [CTA_TUPLE_REPLY, CTA_FILTER]);
}
