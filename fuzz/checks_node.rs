//! What must hold for everything that the agents of a node hear: from the kernel, from a container runtime, and about the
//! plugins of networks. Shared by the fuzz targets and by `crates/picket/tests/fuzz_corpus.rs`, which replays their corpora.

use std::net::IpAddr;

use picket_linux::runtime::{Place, Said};
use picket_linux::{Attributes, Carried, Connection, Logged, Reply, Tuple};
use picket_source::network_plugin;
use serde_json::{Value, json};

/// What the kernel may list of tracked connections is read without panic. What is read is whole: the kernel, had it
/// written that, would be understood alike, whatever else it said.
pub(crate) fn connections(bytes: &[u8]) {
    for reply in Reply::all(bytes).unwrap_or_default() {
        let Some(connection) = Connection::read(reply.attributes()) else {
            continue;
        };
        let written = written(&connection);
        let again = Connection::read(Attributes::of(&written));
        assert_eq!(again, Some(connection));
        let unknown = [attribute(0x3fff, b"unknown"), written].concat();
        assert_eq!(Connection::read(Attributes::of(&unknown)), Some(connection));
        assert!(!connection.to_string().is_empty());
    }
}

/// The attributes with which the kernel tells of a connection (`linux/netfilter/nfnetlink_conntrack.h`).
fn written(connection: &Connection) -> Vec<u8> {
    let mut attributes = vec![
        attribute(1, &written_tuple(&connection.original)),
        attribute(2, &written_tuple(&connection.reply)),
        attribute(3, &connection.status.to_be_bytes()),
        attribute(12, &connection.id.to_be_bytes()),
        attribute(18, &connection.zone.to_be_bytes()),
    ];
    let master = connection.master.as_ref();
    attributes.extend(master.map(|master| attribute(14, &written_tuple(master))));
    if connection.is_taken_up {
        attributes.push(attribute(4, &attribute(1, &attribute(4, &[8, 0]))));
    }
    attributes.concat()
}

fn written_tuple(tuple: &Tuple) -> Vec<u8> {
    let addresses = match (tuple.source, tuple.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => [
            attribute(1, &source.octets()),
            attribute(2, &destination.octets()),
        ],
        (IpAddr::V6(source), IpAddr::V6(destination)) => [
            attribute(3, &source.octets()),
            attribute(4, &destination.octets()),
        ],
        _ => panic!("both addresses are of one family: {tuple:?}"),
    };
    let mut protocol = attribute(1, &[tuple.protocol]);
    match tuple.carried {
        Carried::Nothing => {}
        Carried::Ports { source, destination } => {
            protocol.extend(attribute(2, &source.to_be_bytes()));
            protocol.extend(attribute(3, &destination.to_be_bytes()));
        }
        Carried::Icmp { kind, code, id } => {
            let first = match tuple.protocol {
                1 => 4,
                58 => 7,
                _ => panic!("only ICMP has types: {tuple:?}"),
            };
            protocol.extend(attribute(first, &id.to_be_bytes()));
            protocol.extend(attribute(first + 1, &[kind]));
            protocol.extend(attribute(first + 2, &[code]));
        }
    }
    let nested = [attribute(1, &addresses.concat()), attribute(2, &protocol)];
    [nested.concat(), attribute(3, &tuple.zone.to_be_bytes())].concat()
}

/// What the kernel may say of packets that were logged is read without panic, message by message as all at once. So are the
/// packets alone: what is cut off says nothing else of where they go.
pub(crate) fn logged_packets(bytes: &[u8]) {
    let packets = Logged::all(bytes);
    let messages = Reply::all(bytes);
    assert!(messages.is_none_or(|messages| packets.len() <= messages.len()));
    for one in &packets {
        let alone = Logged::all(&message(one.prefix.as_bytes(), &written_packet(&one.packet)));
        assert_eq!(alone, std::slice::from_ref(one));
    }
    let read = |length| bytes.get(..length).map(|part| Logged::all(&message(b"", part)));
    let whole = read(bytes.len().min(LONGEST_PACKET)).unwrap_or_default();
    for part in (0..LONGEST_PACKET).filter_map(read).flatten() {
        let packet = &whole.first().expect("a packet of which a part is one").packet;
        let ends = |packet: &Tuple| (packet.source, packet.destination);
        assert_eq!(ends(&part.packet), ends(packet));
        let is_known = packet.carried == part.packet.carried && packet.protocol == part.packet.protocol;
        assert!(is_known || part.packet.carried == Carried::Nothing, "{part:?}");
    }
}

/// As much of a packet as the kernel is asked to copy.
const LONGEST_PACKET: usize = 128;

/// The message of a packet (`linux/netfilter/nfnetlink_log.h`).
fn message(prefix: &[u8], packet: &[u8]) -> Vec<u8> {
    let attributes = [attribute(10, prefix), attribute(9, packet)].concat();
    let length = u32::try_from(20 + attributes.len()).expect("a short message");
    let mut message = length.to_ne_bytes().to_vec();
    message.extend((4_u16 << 8).to_ne_bytes());
    message.extend([0; 14]);
    message.extend(attributes);
    message
}

/// A packet that carries this and nothing else (RFC 791, section 3.1, and RFC 8200, section 3).
fn written_packet(packet: &Tuple) -> Vec<u8> {
    let mut bytes = match (packet.source, packet.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let start = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, packet.protocol, 0, 0];
            [&start[..], &source.octets(), &destination.octets()].concat()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let start = [0x60, 0, 0, 0, 0, 0, packet.protocol, 64];
            [&start[..], &source.octets(), &destination.octets()].concat()
        }
        _ => panic!("both addresses are of one family: {packet:?}"),
    };
    match packet.carried {
        Carried::Nothing => {}
        Carried::Ports { source, destination } => {
            bytes.extend([source.to_be_bytes(), destination.to_be_bytes()].concat());
        }
        Carried::Icmp { kind, code, id } => {
            bytes.extend([kind, code, 0, 0]);
            bytes.extend(id.to_be_bytes());
        }
    }
    bytes
}

/// An attribute as netlink has them (`linux/netlink.h`).
fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 4).expect("a short attribute");
    let mut attribute = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    attribute.extend(payload);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

/// Whatever a runtime says of a sandbox is read without panic: it is a place where something can be, or refused with a
/// reason. What else it says, and how it writes that, makes no difference.
pub(crate) fn sandbox_places(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let said = match Said::read(text) {
        Ok(said) => said,
        Err(reason) => return assert!(!reason.is_empty()),
    };
    if let Said::At(Place { path, process }) = &said {
        assert!(path.is_some() || process.is_some(), "{said:?}");
        assert!(path.as_ref().is_none_or(|path| !path.is_empty()), "{said:?}");
        assert_ne!(*process, Some(0));
    }
    // What nobody looks at may be such that it is no value, as a number may be too large.
    if let Ok(mut value) = serde_json::from_str::<Value>(text) {
        assert_eq!(Said::read(&format!("{value:#}")), Ok(said.clone()));
        if let Some(fields) = value.as_object_mut() {
            fields.insert(
                "unknown to picket".to_owned(),
                json!({"pid": 0, "runtimeSpec": []}),
            );
        }
        assert_eq!(Said::read(&value.to_string()), Ok(said));
    }
}

/// Whatever a definition of a network says of plugins is read without panic, alone as in a whole definition. A plugin is
/// one that the text names, and there is no other that could be meant.
pub(crate) fn network_plugins(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = network_plugin(text);
    let of_config = |config: &str| {
        let metadata = json!({"name": "net", "annotations": {"config": "{\"type\": \"none\"}"}});
        network_plugin(&json!({"metadata": metadata, "spec": {"config": config}}).to_string())
    };
    let plugin = of_config(text);
    assert!(plugin.as_ref().is_none_or(|name| (1..=255).contains(&name.len())));
    let Ok(config) = serde_json::from_str::<Value>(text) else {
        return;
    };
    assert!(plugin.is_none() || of_config(&config.to_string()) == plugin);
    let own = named(&config, "type").and_then(Value::as_str);
    let first = named(&config, "plugins").and_then(|plugins| plugins.get(0));
    let first = first
        .and_then(|first| named(first, "type"))
        .and_then(Value::as_str);
    let Some(plugin) = plugin.as_deref() else {
        return;
    };
    let mut meant = [own, first].into_iter().flatten();
    assert!(
        meant.clone().next().is_some() && meant.all(|name| name == plugin),
        "{plugin} in {text}"
    );
}

/// The only field of this name as Go reads it: case makes no difference, nor does how an `s` is written.
fn named<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    let mut found = fields
        .iter()
        .filter(|(field, _)| field.replace('\u{17f}', "s").to_ascii_lowercase() == name);
    let (_, value) = found.next()?;
    found.next().is_none().then_some(value)
}
