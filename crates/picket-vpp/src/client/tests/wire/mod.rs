//! The bytes of every message, written by hand from the facts about VPP's API (`facts/vpp.md`, §7), of which each names the paragraph
//! and the message: numbers with the highest byte first and nothing between fields, texts filled up with zeros. Message 0x0102 is for
//! context 7, from the client 0x80000003.

mod acl;
mod client;
mod interface;
mod session;

use std::collections::BTreeSet;

use crate::client::MESSAGES;
use crate::client::definition::{Address, Message};
use crate::client::value::Label;

/// The head of what we ask, of §7.1: number, client index, context.
const ASKED: &str = "0102 80000003 00000007";
/// The head of what VPP answers, of §7.1: number, context.
const ANSWERED: &str = "0102 00000007";
/// The head of an event: number, client index.
const HAPPENED: &str = "0102 80000003";

/// The bytes that hexadecimal digits say; `00*3` is three zeros.
pub(super) fn bytes(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts.iter().flat_map(|part| part.split_whitespace()) {
        let (digits, times) = part.split_once('*').unwrap_or((part, "1"));
        for _ in 0..times.parse().unwrap() {
            let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
            bytes.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()));
        }
    }
    bytes
}

pub(super) fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

/// A message of which the bytes are known: its name, and they.
pub(super) type Recorded = (&'static str, Vec<u8>);

/// Every message that there is.
pub(super) fn all() -> Vec<Recorded> {
    [acl::all(), client::all(), interface::all(), session::all()].concat()
}

/// Makes sure that a message is written as these bytes, and read from them and from no part of them.
fn recorded<M: Message + PartialEq + std::fmt::Debug>(message: &M, parts: &[&str]) -> Recorded {
    let name = M::DEFINITION.name;
    let bytes = bytes(parts);
    let mut address = Address {
        id: 0x0102,
        client_index: 0x8000_0003,
        context: 7,
    };
    let mut written = Vec::new();
    message.write(address, &mut written);
    assert_eq!(written, bytes, "{name}");
    match parts.first() {
        Some(&ANSWERED) => address.client_index = 0,
        Some(&HAPPENED) => address.context = 0,
        _ => {}
    }
    let (read_address, read) = M::read(&bytes).unwrap();
    assert_eq!((read_address, &read), (address, message), "{name}");
    for length in 0..bytes.len() {
        assert!(M::read(&bytes[..length]).is_err(), "{length} bytes of {name}");
    }
    let longer = M::read(&[&bytes[..], &[0]].concat()).unwrap_err();
    assert_eq!(
        longer.to_string(),
        format!("`length` of `{name}` from VPP is 1 bytes too long")
    );
    (name, bytes)
}

#[test]
fn every_message_is_recorded() {
    let all: Vec<_> = all().into_iter().map(|(name, _)| name).collect();
    let known: Vec<_> = MESSAGES.iter().map(|message| message.name).collect();
    assert_eq!(BTreeSet::from_iter(&all), BTreeSet::from_iter(&known));
    assert_eq!((all.len(), known.len()), (37, 37));
}

#[test]
fn every_message_is_known_by_the_crc_that_vpp_gives_it() {
    let known: BTreeSet<_> = MESSAGES
        .iter()
        .map(|message| format!("{}_{:08x}", message.name, message.crc))
        .collect();
    // As vppapigen computes them for 26.10, from all fields of a message with their types.
    let computed = "
        acl_add_replace_ee5c2f18 acl_add_replace_reply_ac407b0c acl_del_ef34fea4 acl_del_reply_e8d4e804
        acl_details_95babae0 acl_dump_ef34fea4 acl_interface_list_details_e695d256
        acl_interface_list_dump_f9e6675e acl_interface_set_acl_list_473982bd
        acl_interface_set_acl_list_reply_e8d4e804 acl_plugin_get_version_51077d14
        acl_plugin_get_version_reply_9b32cf86 app_namespace_add_del_v4_42c1d824
        app_namespace_add_del_v4_reply_85137120 control_ping_51077d14 control_ping_reply_f6b0b8ca
        session_enable_disable_c264d7bf session_enable_disable_reply_e8d4e804
        session_enable_disable_v2_f09fbf32 session_enable_disable_v2_reply_e8d4e804
        session_rule_add_del_82a90af5 session_rule_add_del_reply_e8d4e804 session_rules_details_4ef746e7
        session_rules_dump_51077d14 session_rules_v2_details_f91993dc session_rules_v2_dump_51077d14
        sockclnt_create_455fb9c4 sockclnt_create_reply_35166268 sockclnt_delete_8ac76db6
        sockclnt_delete_reply_8f38b1ee sw_interface_details_6c221fc7 sw_interface_dump_aa610c27
        sw_interface_event_2d3d95a7 sw_interface_tag_add_del_426f8bc1
        sw_interface_tag_add_del_reply_e8d4e804 want_interface_events_476f5a08
        want_interface_events_reply_e8d4e804";
    let computed: BTreeSet<_> = computed.split_whitespace().map(str::to_owned).collect();
    assert_eq!(known, computed);
}
