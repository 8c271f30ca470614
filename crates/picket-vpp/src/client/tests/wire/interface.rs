use super::{ANSWERED, ASKED, HAPPENED, Recorded, bytes, label, recorded};
use crate::client::definition::Message;
use crate::client::message::*;
use crate::client::value::LinkState;
use crate::client::wire::Skipped;

const UP: LinkState = LinkState {
    is_up: true,
    has_link: true,
};

fn details() -> SwInterfaceDetails {
    SwInterfaceDetails {
        sw_if_index: 3,
        sup_sw_if_index: 2,
        l2_address: [2, 0xfe, 0, 0, 0, 1],
        flags: UP,
        skipped: Skipped,
        interface_name: label("tap0"),
        interface_dev_type: label("virtio"),
        tag: label("pod"),
    }
}

/// What comes before byte 24: sw_if_index at 6, sup_sw_if_index at 10, the link-layer address at 14, flags at 20: 1 for
/// switched on and 2 for a link.
const START: [&str; 2] = [ANSWERED, "00000003 00000002 02fe00000001 00000003"];
/// interface_name at 103, interface_dev_type at 167 and tag at 231, of 64 bytes each.
const NAMES: &str = "74617030 00*60 76697274696f 00*58 706f64 00*61";

pub(super) fn all() -> Vec<Recorded> {
    vec![
        recorded(
            &SwInterfaceDump {
                sw_if_index: ANY,
                name_filter_valid: true,
                name_filter: b"tap".to_vec(),
            },
            // §7.2 sw_interface_dump: sw_if_index ~0, name_filter_valid, the length of the filter in four bytes, `tap`.
            &[ASKED, "ffffffff 01 00000003 746170"],
        ),
        // §7.2 sw_interface_details, by its offsets: from 24 to 102 there is nothing that anybody looks at.
        recorded(&details(), &[&START[..], &["00*79", NAMES]].concat()),
        recorded(
            &WantInterfaceEvents {
                enable_disable: 1,
                pid: 258,
            },
            // §7.2 want_interface_events: enable_disable and pid, of four bytes each.
            &[ASKED, "00000001 00000102"],
        ),
        // §7.2 want_interface_events, its reply: retval.
        recorded(&WantInterfaceEventsReply { retval: 0 }, &[ANSWERED, "00000000"]),
        recorded(
            &SwInterfaceEvent {
                pid: 258,
                sw_if_index: 3,
                flags: LinkState {
                    is_up: false,
                    has_link: true,
                },
                deleted: true,
            },
            // §7.2 sw_interface_event: pid, sw_if_index, flags, and whether it is deleted in one byte.
            &[HAPPENED, "00000102 00000003 00000002 01"],
        ),
        recorded(
            &SwInterfaceTagAddDel {
                is_add: true,
                sw_if_index: 3,
                tag: label("pod"),
            },
            // §7.2 sw_interface_tag_add_del: is_add, sw_if_index, tag[64].
            &[ASKED, "01 00000003 706f64 00*61"],
        ),
        // §7.2 sw_interface_tag_add_del, its reply: retval; -2 of §7.2 errors.
        recorded(&SwInterfaceTagAddDelReply { retval: -2 }, &[ANSWERED, "fffffffe"]),
    ]
}

#[test]
fn an_interface_has_295_bytes_of_which_some_are_skipped() {
    // From 24: type 0, link_duplex 2, link_speed, link_mtu 9000 at 36 with two before it, and whatever follows.
    let said = bytes(
        &[
            &START[..],
            &["00000000 00000002 05f5e100 0000", "2328*2 7f*61", NAMES],
        ]
        .concat(),
    );
    assert_eq!(said.len(), 295);
    assert_eq!(SwInterfaceDetails::read(&said).unwrap().1, details());
}
