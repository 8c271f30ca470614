use super::{ANSWERED, ASKED, Recorded, label, recorded};
use crate::client::field::MessageNumbers;
use crate::client::message::*;

pub(super) fn all() -> Vec<Recorded> {
    let table = vec![(7, label("a_01234567")), (0x0203, label("b"))];
    vec![
        recorded(
            &SockclntCreate {
                name: label("picket"),
            },
            &[
                // §7.1 handshake, sockclnt_create: the one request that has no client index yet.
                ANSWERED,
                // name[64]: `picket` and 58 zeros.
                "7069636b6574 00*58",
            ],
        ),
        recorded(
            &SockclntCreateReply {
                response: 0,
                index: 0x8000_0009,
                message_table: MessageNumbers(table),
            },
            &[
                // §7.1 handshake, sockclnt_create_reply: the one answer that has a client index.
                ASKED,
                // response, index, count of two bytes.
                "00000000 80000009 0002",
                // An entry is 66 bytes: number 7, `a_01234567` and 54 zeros.
                "0007 615f3031323334353637 00*54",
                // Number 0x203, `b` and 63 zeros.
                "0203 62 00*63",
            ],
        ),
        recorded(
            &SockclntDelete { index: 0x8000_0009 },
            // §7.1 sockclnt_delete: index, as the reply to the first message had it.
            &[ASKED, "80000009"],
        ),
        // §7.1 sockclnt_delete, its reply: response.
        recorded(&SockclntDeleteReply { retval: 0 }, &[ANSWERED, "00000000"]),
        // §7.2 control_ping: no fields, ten bytes.
        recorded(&ControlPing {}, &[ASKED]),
        recorded(
            &ControlPingReply {
                retval: -1,
                client_index: 3,
                vpe_pid: 4660,
            },
            // §7.2 control_ping, its reply: retval in two's complement, client_index, vpe_pid: eighteen bytes with the head.
            &[ANSWERED, "ffffffff 00000003 00001234"],
        ),
    ]
}
