use super::{ANSWERED, ASKED, Recorded, label, recorded};
use crate::client::field::Lists;
use crate::client::message::*;
use crate::client::value::{AclAction, AclRule};

/// `permit+reflect 10.1.0.0/16 -> 192.0.2.7/32, TCP, from any port to 80-443, of SYN and ACK only SYN`.
fn tcp() -> AclRule {
    AclRule {
        action: AclAction::PermitReflect,
        source: "10.1.0.0/16".parse().unwrap(),
        destination: "192.0.2.7/32".parse().unwrap(),
        protocol: 6,
        source_ports: (0, 65535),
        destination_ports: (80, 443),
        tcp_flags: (0x12, 0x02),
    }
}

const TCP: [&str; 4] = [
    // is_permit: 2.
    "02",
    // src: family 0, four bytes of sixteen, length 16. dst: family 0, length 32.
    "00 0a010000 00*12 10 00 c0000207 00*12 20",
    // proto 6, sport 0 to 65535, dport 80 to 443.
    "06 0000 ffff 0050 01bb",
    // tcp_flags_mask, tcp_flags_value. In all 1+18+18+1+8+2 = 48 bytes.
    "12 02",
];

/// `deny ::/0 -> 2001:db8::/32, ICMPv6 128, any code`.
fn icmp() -> AclRule {
    AclRule {
        action: AclAction::Deny,
        source: "::/0".parse().unwrap(),
        destination: "2001:db8::/32".parse().unwrap(),
        protocol: 58,
        source_ports: (128, 128),
        destination_ports: (0, 255),
        tcp_flags: (0, 0),
    }
}

const ICMP: [&str; 3] = [
    // is_permit: 0.
    "00",
    // src: family 1, all zeros, length 0. dst: family 1, length 32.
    "01 00*16 00 01 20010db8 00*12 20",
    // proto 58, type 128, codes 0 to 255, no flags.
    "3a 0080 0080 0000 00ff 00 00",
];

pub(super) fn all() -> Vec<Recorded> {
    [acls(), lists()].concat()
}

fn acls() -> Vec<Recorded> {
    // §7.2 acl_add_replace and acl_details. tag[64]: `web` and 61 zeros; a count of four bytes: 2.
    let contents = [&["776562 00*61 00000002"][..], &TCP, &ICMP].concat();
    vec![
        // §7.2 acl_plugin_get_version: no fields.
        recorded(&AclPluginGetVersion {}, &[ASKED]),
        recorded(
            &AclPluginGetVersionReply { major: 1, minor: 4 },
            // §7.2 acl_plugin_get_version, its reply: no retval, major, minor.
            &[ANSWERED, "00000001 00000004"],
        ),
        recorded(
            &AclAddReplace {
                acl_index: ANY,
                tag: label("web"),
                r: vec![tcp(), icmp()],
            },
            // §7.2 acl_add_replace: acl_index ~0 for a new one; 82 + 48 * 2 bytes.
            &[&[ASKED, "ffffffff"][..], &contents].concat(),
        ),
        recorded(
            &AclAddReplaceReply {
                acl_index: 5,
                retval: -6,
            },
            // §7.2 acl_add_replace, its reply: acl_index before retval; -6 of §7.2 errors.
            &[ANSWERED, "00000005 fffffffa"],
        ),
        // §7.2 acl_del: acl_index.
        recorded(&AclDel { acl_index: 258 }, &[ASKED, "00000102"]),
        // §7.2 acl_del, its reply: retval; -142 of §7.2 errors.
        recorded(&AclDelReply { retval: -142 }, &[ANSWERED, "ffffff72"]),
        // §7.2 acl_dump: acl_index, ~0 for all.
        recorded(&AclDump { acl_index: ANY }, &[ASKED, "ffffffff"]),
        recorded(
            &AclDetails {
                acl_index: 5,
                tag: label("web"),
                r: vec![tcp(), icmp()],
            },
            // §7.2 acl_details: acl_index, tag, count, rules.
            &[&[ANSWERED, "00000005"][..], &contents].concat(),
        ),
    ]
}

fn lists() -> Vec<Recorded> {
    let acls = Lists::new(vec![1, 2], vec![3]).unwrap();
    // count 3 and n_input 2, of one byte each; the input first.
    let contents = "03 02 00000001 00000002 00000003";
    vec![
        recorded(
            &AclInterfaceSetAclList {
                sw_if_index: 9,
                acls: acls.clone(),
            },
            // §7.2 acl_interface_set_acl_list: sw_if_index, count, n_input, acls.
            &[ASKED, "00000009", contents],
        ),
        recorded(
            &AclInterfaceSetAclListReply { retval: -2 },
            // §7.2 acl_interface_set_acl_list, its reply: retval; -2 of §7.2 errors.
            &[ANSWERED, "fffffffe"],
        ),
        // §7.2 acl_interface_list_dump: sw_if_index, ~0 for all.
        recorded(&AclInterfaceListDump { sw_if_index: ANY }, &[ASKED, "ffffffff"]),
        recorded(
            &AclInterfaceListDetails { sw_if_index: 9, acls },
            // §7.2 acl_interface_list_details: sw_if_index, count, n_input, acls.
            &[ANSWERED, "00000009", contents],
        ),
    ]
}

#[test]
fn a_rule_has_48_bytes() {
    assert_eq!(super::bytes(&TCP).len(), 48);
    assert_eq!(super::bytes(&ICMP).len(), 48);
}
