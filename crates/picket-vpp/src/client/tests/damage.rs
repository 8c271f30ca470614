//! What VPP says need not be what it should.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use picket_net::{Family, Prefix};
use proptest::prelude::*;

use super::peer::{NUMBERS, frame, greeting};
use super::wire;
use crate::client::connection::{Connection, Limits};
use crate::client::definition::{Address, Message};
use crate::client::error::Error;
use crate::client::field::{AskedScope, Lists, MessageNumbers, ToldScope};
use crate::client::message::*;
use crate::client::value::*;
use crate::client::{Definition, Frame, MESSAGES};

fn labels() -> impl Strategy<Value = Label> {
    prop::collection::vec(1_u8.., 0..=Label::LONGEST).prop_map(|bytes| Label::new(bytes).unwrap())
}

fn prefixes() -> impl Strategy<Value = Prefix> {
    let ipv4 = (any::<[u8; 4]>(), 0..=32_u8).prop_map(|(octets, length)| Prefix::new(octets.into(), length));
    let ipv6 =
        (any::<[u8; 16]>(), 0..=128_u8).prop_map(|(octets, length)| Prefix::new(octets.into(), length));
    let all = prop::sample::select(Family::BOTH.as_slice()).prop_map(Prefix::all);
    prop_oneof![ipv4.prop_map(Option::unwrap), ipv6.prop_map(Option::unwrap), all]
}

fn rules() -> impl Strategy<Value = AclRule> {
    use AclAction::{Deny, Permit, PermitReflect};
    (
        prop::sample::select([Deny, Permit, PermitReflect].as_slice()),
        (prefixes(), prefixes()),
        any::<(u8, (u16, u16), (u16, u16), (u8, u8))>(),
    )
        .prop_map(
            |(action, (source, destination), (protocol, sources, destinations, tcp_flags))| AclRule {
                action,
                source,
                destination,
                protocol,
                source_ports: sources,
                destination_ports: destinations,
                tcp_flags,
            },
        )
}

fn session_rules() -> impl Strategy<Value = SessionRule> {
    use SessionScope::{Both, Global, Local};
    (
        prop::sample::select([Transport::Tcp, Transport::Udp].as_slice()),
        (prefixes(), prefixes(), any::<(u16, u16)>()),
        prop_oneof![
            Just(SessionAction::Allow),
            Just(SessionAction::Deny),
            Just(SessionAction::Defer),
            (0..0xffff_fffd_u32).prop_map(SessionAction::Redirect),
        ],
        prop::sample::select([Global, Local, Both].as_slice()),
        labels(),
    )
        .prop_map(
            |(transport, (local, remote, ports), action, scope, tag)| SessionRule {
                transport,
                local,
                remote,
                local_port: ports.0,
                remote_port: ports.1,
                action,
                scope,
                tag,
            },
        )
}

/// Writes a message and reads it.
fn holds<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
    let address = Address {
        id: 3,
        client_index: 0,
        context: 5,
    };
    let mut bytes = Vec::new();
    message.write(address, &mut bytes);
    let (_, read) = M::read(&bytes).unwrap();
    assert_eq!(&read, message);
}

fn definition(name: &str) -> Definition {
    *MESSAGES.iter().find(|message| message.name == name).unwrap()
}

/// What is read at all is read again from what was made of it.
fn is_stable(message: &Definition, bytes: &[u8]) {
    if let Ok(once) = message.rewrite(bytes) {
        assert_eq!(once.len(), bytes.len());
        assert_eq!(message.rewrite(&once).unwrap(), once);
    }
}

/// A client to which this was said instead of anything else, after the handshake or in its place.
fn client(after_handshake: bool, said: &[u8]) -> Result<Connection, Error> {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    if after_handshake {
        theirs.write_all(&greeting()).unwrap();
    }
    theirs.write_all(said).unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    let limits = Limits {
        answer: Duration::from_secs(10),
        window: 4,
    };
    let mut client = Connection::open(ours, &wire::label("picket"), limits)?;
    client.dump(&AclDump { acl_index: ANY })?;
    client.call(ControlPing {})?;
    Ok(client)
}

proptest! {
    #[test]
    fn acls_are_read_as_they_were_written(tag in labels(), r in prop::collection::vec(rules(), 0..9), acl_index: u32) {
        holds(&AclAddReplace { acl_index, tag: tag.clone(), r: r.clone() });
        holds(&AclDetails { acl_index, tag, r });
    }

    #[test]
    fn lists_are_read_as_they_were_written(
        sw_if_index: u32,
        input in prop::collection::vec(any::<u32>(), 0..150),
        output in prop::collection::vec(any::<u32>(), 0..150),
    ) {
        let fits = input.len() + output.len() <= 255;
        let acls = Lists::new(input, output);
        prop_assert_eq!(acls.is_some(), fits);
        if let Some(acls) = acls {
            holds(&AclInterfaceSetAclList { sw_if_index, acls: acls.clone() });
            holds(&AclInterfaceListDetails { sw_if_index, acls });
        }
    }

    #[test]
    fn session_rules_are_read_as_they_were_written(
        rule in session_rules(),
        is_add: bool,
        appns_index in prop::collection::vec(any::<u32>(), 1..5),
    ) {
        let SessionRule { transport, local, remote, local_port, remote_port, action, scope, tag } = rule;
        holds(&SessionRuleAddDel {
            transport_proto: transport,
            lcl: local,
            rmt: remote,
            lcl_port: local_port,
            rmt_port: remote_port,
            action_index: action,
            is_add,
            appns_index: appns_index[0],
            scope: AskedScope(scope),
            tag: tag.clone(),
        });
        holds(&SessionRulesDetails {
            transport_proto: transport,
            lcl: local,
            rmt: remote,
            lcl_port: local_port,
            rmt_port: remote_port,
            action_index: action,
            appns_index: appns_index[0],
            scope: ToldScope(scope),
            tag: tag.clone(),
        });
        holds(&SessionRulesV2Details {
            transport_proto: transport,
            lcl: local,
            rmt: remote,
            lcl_port: local_port,
            rmt_port: remote_port,
            action_index: action,
            scope: ToldScope(scope),
            tag,
            appns_index,
        });
    }

    #[test]
    fn names_are_read_as_they_were_written(
        table in prop::collection::vec((any::<u16>(), labels()), 0..9),
        name in labels(),
        numbers: [u32; 3],
        secret: u64,
        flags: [bool; 3],
        l2_address: [u8; 6],
        text in prop::collection::vec(any::<u8>(), 0..99),
    ) {
        let [first, second, third] = numbers;
        let state = LinkState { is_up: flags[0], has_link: flags[1] };
        holds(&SockclntCreateReply { response: -3, index: first, message_table: MessageNumbers(table) });
        holds(&AppNamespaceAddDelV4 {
            secret,
            is_add: flags[2],
            sw_if_index: first,
            ip4_fib_id: second,
            ip6_fib_id: third,
            namespace_id: name.clone(),
            sock_name: text.clone(),
        });
        holds(&SwInterfaceDetails {
            sw_if_index: first,
            sup_sw_if_index: second,
            l2_address,
            flags: state,
            skipped: crate::client::wire::Skipped,
            interface_name: name.clone(),
            interface_dev_type: name.clone(),
            tag: name.clone(),
        });
        holds(&SwInterfaceEvent { pid: first, sw_if_index: second, flags: state, deleted: flags[2] });
        holds(&SwInterfaceTagAddDel { is_add: flags[2], sw_if_index: third, tag: name });
        holds(&SwInterfaceDump { sw_if_index: third, name_filter_valid: flags[2], name_filter: text });
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for message in MESSAGES {
            is_stable(message, &bytes);
        }
    }

    #[test]
    fn damaged_messages_are_read_or_refused(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        damage in prop::collection::vec(any::<u8>(), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let recorded = wire::all();
        let (name, mut bytes) = which.get(&recorded).clone();
        let at = at.index(bytes.len());
        for (byte, other) in bytes.iter_mut().skip(at).zip(damage) {
            *byte = other;
        }
        is_stable(&definition(name), &bytes);
        is_stable(&definition(name), &bytes[..end.index(bytes.len())]);
    }

    #[test]
    fn nothing_that_is_said_stops_the_client(
        after_handshake: bool,
        noise in prop::collection::vec(any::<u8>(), 0..200),
        bodies in prop::collection::vec((prop::sample::select(NUMBERS), any::<prop::sample::Index>(), 0..4_u32), 0..6),
    ) {
        let recorded = wire::all();
        let mut said = Vec::new();
        for (id, which, context) in bodies {
            let (_, mut body) = which.get(&recorded).clone();
            body[..2].copy_from_slice(&id.to_be_bytes());
            body[2..6].copy_from_slice(&context.to_be_bytes());
            said.extend([0; 8]);
            said.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
            said.extend([0; 4]);
            said.extend(body);
        }
        said.extend(noise);
        // There is no answer to the last ping, so it cannot succeed, but by a very lucky guess.
        let _ = client(after_handshake, &said).is_ok();
    }
}

#[test]
fn counts_that_cannot_be_are_refused_with_their_place() {
    for (name, at, count, expected) in [
        // After number, context, acl_index and tag: 2 + 4 + 4 + 64.
        (
            "acl_details",
            74,
            &[0xff; 4][..],
            "`r` of `acl_details` from VPP is 4294967295, and there is room for 2",
        ),
        // After number, context and sw_if_index.
        (
            "acl_interface_list_details",
            10,
            &[0xff],
            "`count` of `acl_interface_list_details` from VPP is 255, and there is room for 3",
        ),
        (
            "acl_interface_list_details",
            11,
            &[4],
            "`n_input` of `acl_interface_list_details` from VPP is 4, and there is room for 3",
        ),
        // Before two namespaces.
        (
            "session_rules_v2_details",
            119,
            &[0xff; 4],
            "`appns_index` of `session_rules_v2_details` from VPP is 4294967295, and there is room for 2",
        ),
        // After number, client index, context, response and index.
        (
            "sockclnt_create_reply",
            18,
            &[0xff; 2],
            "`count` of `sockclnt_create_reply` from VPP is 65535, and there is room for 2",
        ),
    ] {
        assert_eq!(refused(name, at, count), expected);
    }
}

#[test]
fn values_that_cannot_be_are_refused_with_their_place() {
    for (name, at, value, expected) in [
        (
            "acl_details",
            78,
            3,
            "`is_permit` of `acl_details` from VPP cannot be 3",
        ),
        (
            "acl_details",
            79,
            2,
            "`src_prefix` of `acl_details` from VPP cannot be 2",
        ),
        (
            "acl_details",
            96,
            33,
            "`src_prefix` of `acl_details` from VPP cannot be 33",
        ),
        (
            "session_rules_details",
            58,
            1,
            "`scope` of `session_rules_details` from VPP cannot be 16777217",
        ),
        (
            "sw_interface_event",
            18,
            2,
            "`deleted` of `sw_interface_event` from VPP cannot be 2",
        ),
    ] {
        assert_eq!(refused(name, at, &[value]), expected);
    }
    let unterminated = refused("sw_interface_details", 231, &[b'x'; 64]);
    assert_eq!(
        unterminated,
        "`tag` of `sw_interface_details` from VPP has no end"
    );
}

/// What is said of a recorded message with other bytes at some place.
fn refused(name: &str, at: usize, other: &[u8]) -> String {
    let recorded = wire::all();
    let (_, bytes) = recorded.iter().find(|(recorded, _)| *recorded == name).unwrap();
    let mut bytes = bytes.clone();
    bytes[at..at + other.len()].copy_from_slice(other);
    definition(name).rewrite(&bytes).unwrap_err().to_string()
}

#[test]
fn a_frame_is_there_when_all_of_it_is() {
    let bytes = frame(7, 9, &ControlPing {});
    for length in 0..bytes.len() {
        assert_eq!(Frame::first(&bytes[..length]), Ok(None), "{length}");
    }
    let two = [&bytes[..], &[1, 2]].concat();
    let (message, rest) = (&bytes[16..], &[1, 2][..]);
    assert_eq!(Frame::first(&two), Ok(Some(Frame { message, rest })));
    let long = [&[0; 8][..], &[0x04, 0, 0, 1], &[0; 4]].concat();
    assert_eq!(Frame::first(&long), Err(0x0400_0001));
}
