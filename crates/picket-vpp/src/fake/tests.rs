//! The fake, spoken to with bytes that are written by hand, from VPP's `.api` files and not from the code beside.

mod acls;
mod faults;
mod handshake;
mod interfaces;
mod packets;
mod rules;
mod tree;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::{Fake, Options};

/// Bytes from hexadecimal digits, with spaces where they help.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A text in 64 bytes, as hexadecimal digits.
fn text(text: &str) -> String {
    let mut digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    digits.extend(std::iter::repeat_n('0', 128 - digits.len()));
    digits
}

/// `10.0.0.0/8` as family, 16 bytes of address, length.
fn prefix(text: &str) -> String {
    let (address, length) = text.split_once('/').unwrap();
    let length: u8 = length.parse().unwrap();
    match address.parse().unwrap() {
        IpAddr::V4(address) => format!("00 {:08x} {:024x} {length:02x}", address.to_bits(), 0),
        IpAddr::V6(address) => format!("01 {:032x} {length:02x}", address.to_bits()),
    }
}

/// A rule of an ACL: what it does, from where to where, protocol, source ports and destination ports.
fn rule(
    action: u8,
    source: &str,
    destination: &str,
    protocol: u8,
    sources: (u16, u16),
    ports: (u16, u16),
) -> String {
    format!(
        "{action:02x} {} {} {protocol:02x} {:04x} {:04x} {:04x} {:04x} 00 00",
        prefix(source),
        prefix(destination),
        sources.0,
        sources.1,
        ports.0,
        ports.1
    )
}

/// A rule for every port.
fn wide(action: u8, source: &str, destination: &str, protocol: u8) -> String {
    rule(action, source, destination, protocol, (0, 65535), (0, 65535))
}

const ANY4: &str = "0.0.0.0/0";
const ANY6: &str = "::/0";

fn fake() -> Fake {
    Fake::start(Options::new(7)).unwrap()
}

/// A client of bytes.
struct Wire {
    stream: UnixStream,
    client: Vec<u8>,
    ids: BTreeMap<String, u16>,
    context: u32,
}

impl Wire {
    /// Connects and shakes hands: frame, 15, context 1, and a name in 64 bytes.
    fn connect(fake: &Fake) -> Self {
        let stream = UnixStream::connect(fake.socket()).unwrap();
        // A test that would wait forever fails instead.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut wire = Self {
            stream,
            client: Vec::new(),
            ids: BTreeMap::new(),
            context: 1,
        };
        wire.write(&format!(
            "0000000000000000 00000046 00000000  000f 00000001 {}",
            text("test")
        ));
        let reply = wire.read().unwrap();
        assert_eq!(reply[..2], hex("0010"), "sockclnt_create_reply");
        assert_eq!(reply[6..14], hex("00000001 00000000"), "context and response");
        wire.client = reply[14..18].to_vec();
        let count = usize::from(u16::from_be_bytes([reply[18], reply[19]]));
        assert_eq!(reply.len(), 20 + 66 * count);
        for entry in reply[20..].chunks(66) {
            let name = entry[2..].split(|byte| *byte == 0).next().unwrap();
            let name = String::from_utf8(name.to_vec()).unwrap();
            wire.ids.insert(name, u16::from_be_bytes([entry[0], entry[1]]));
        }
        wire
    }

    fn write(&mut self, digits: &str) {
        self.stream.write_all(&hex(digits)).unwrap();
    }

    /// The next message without its frame, or `None` at the end of the stream.
    fn read(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; 16];
        self.stream.read_exact(&mut header).ok()?;
        assert_eq!(
            (&header[..8], &header[12..]),
            (&[0; 8][..], &[0; 4][..]),
            "q and gc_mark"
        );
        let length = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        let mut message = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut message).ok()?;
        Some(message)
    }

    /// Sends a request, named with its checksum: frame, number, index of the client, context, fields.
    fn send(&mut self, name: &str, fields: &str) {
        self.context += 1;
        let fields = hex(fields);
        let mut message = self.ids[name].to_be_bytes().to_vec();
        message.extend_from_slice(&self.client);
        message.extend_from_slice(&self.context.to_be_bytes());
        message.extend_from_slice(&fields);
        let mut frame = hex(&format!("0000000000000000 {:08x} 00000000", message.len()));
        frame.extend_from_slice(&message);
        self.stream.write_all(&frame).unwrap();
    }

    /// What follows the number and the context of the next message, which is this one and answers the last request.
    fn receive(&mut self, name: &str) -> Vec<u8> {
        let message = self.read().unwrap();
        assert_eq!(message[..2], self.ids[name].to_be_bytes(), "{name}");
        assert_eq!(message[2..6], self.context.to_be_bytes(), "{name}: context");
        message[6..].to_vec()
    }

    /// Sends a request that has a plain reply; the number in that.
    fn ask(&mut self, name: &str, fields: &str) -> i32 {
        let (bare, _) = name.rsplit_once('_').unwrap();
        self.send(name, fields);
        let reply = self.receive(&format!("{bare}_reply_e8d4e804"));
        i32::from_be_bytes(reply.try_into().unwrap())
    }

    /// Adds an ACL or replaces one: its index, and the number of how it went.
    fn acl(&mut self, index: u32, tag: &str, rules: &[String]) -> (u32, i32) {
        let fields = format!("{index:08x} {tag} {:08x} {}", rules.len(), rules.concat());
        self.send("acl_add_replace_ee5c2f18", &fields);
        let reply = self.receive("acl_add_replace_reply_ac407b0c");
        let (index, retval) = reply.split_first_chunk().unwrap();
        (
            u32::from_be_bytes(*index),
            i32::from_be_bytes(retval.try_into().unwrap()),
        )
    }

    /// Adds an ACL that VPP takes.
    fn new_acl(&mut self, rules: &[String]) -> u32 {
        let (index, retval) = self.acl(NEW, &text("test"), rules);
        assert_eq!(retval, 0);
        index
    }

    fn set_list(&mut self, sw_if_index: u32, input: &[u32], output: &[u32]) -> i32 {
        let all: String = [input, output]
            .concat()
            .iter()
            .map(|index| format!("{index:08x}"))
            .collect();
        let count = input.len() + output.len();
        let fields = format!("{sw_if_index:08x} {count:02x} {:02x} {all}", input.len());
        self.ask("acl_interface_set_acl_list_473982bd", &fields)
    }

    /// Everything until the reply to a ping that is sent now: number and bytes of each message.
    fn until_ping(&mut self) -> Vec<Vec<u8>> {
        self.send("control_ping_51077d14", "");
        let end = self.ids["control_ping_reply_f6b0b8ca"].to_be_bytes();
        let mut messages = Vec::new();
        loop {
            let message = self.read().unwrap();
            if message[..2] == end {
                return messages;
            }
            messages.push(message);
        }
    }

    /// Sends a dump and reads all of its details, without number and context.
    fn dump(&mut self, name: &str, fields: &str, details: &str) -> Vec<Vec<u8>> {
        self.send(name, fields);
        let id = self.ids[details].to_be_bytes();
        let messages = self.until_ping();
        assert!(messages.iter().all(|message| message[..2] == id), "{details}");
        messages.iter().map(|message| message[6..].to_vec()).collect()
    }
}

const NEW: u32 = u32::MAX;
