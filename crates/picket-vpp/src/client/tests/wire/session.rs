use super::{ANSWERED, ASKED, Recorded, label, recorded};
use crate::client::field::{AskedScope, Engine, ToldScope};
use crate::client::message::*;
use crate::client::value::{SessionAction, SessionScope, Transport};

/// `UDP`: 1.
const PROTOCOL: &str = "01";
/// lcl `0.0.0.0/0`, rmt `10.1.0.0/16`, lcl_port 0, rmt_port 53: 18+18+2+2 bytes.
const TUPLE: &str = "00 00*16 00 00 0a010000 00*12 10 0000 0035";
/// tag[64]: `dns` and 61 zeros.
const TAG: &str = "646e73 00*61";

fn rule(action_index: SessionAction, scope: SessionScope, is_add: bool) -> SessionRuleAddDel {
    SessionRuleAddDel {
        transport_proto: Transport::Udp,
        lcl: "0.0.0.0/0".parse().unwrap(),
        rmt: "10.1.0.0/16".parse().unwrap(),
        lcl_port: 0,
        rmt_port: 53,
        action_index,
        is_add,
        appns_index: 4,
        scope: AskedScope(scope),
        tag: label("dns"),
    }
}

fn details(action_index: SessionAction, scope: SessionScope) -> SessionRulesDetails {
    SessionRulesDetails {
        transport_proto: Transport::Udp,
        lcl: "0.0.0.0/0".parse().unwrap(),
        rmt: "10.1.0.0/16".parse().unwrap(),
        lcl_port: 0,
        rmt_port: 53,
        action_index,
        appns_index: 4,
        scope: ToldScope(scope),
        tag: label("dns"),
    }
}

pub(super) fn all() -> Vec<Recorded> {
    use SessionAction::{Allow, Defer};
    use SessionScope::Local;
    [
        switches(),
        namespaces(),
        vec![
            recorded(
                &rule(Allow, Local, true),
                // §7.2 session_rule_add_del, §7.4 for action and scope: action_index ~2, is_add, appns_index 4,
                // scope: 2 for local, in the first byte of four.
                &[ASKED, PROTOCOL, TUPLE, "fffffffd 01 00000004 02 00*3", TAG],
            ),
            // §7.2 session_rule_add_del, its reply: retval; -1 of §7.2 errors.
            recorded(&SessionRuleAddDelReply { retval: -1 }, &[ANSWERED, "ffffffff"]),
            // §7.2 session_rules_dump: no fields.
            recorded(&SessionRulesDump {}, &[ASKED]),
            recorded(
                &details(Defer, Local),
                // §7.2 session_rules_details, §7.4 for the scope: action_index ~0, appns_index 4,
                // scope: 1 for local, the lowest byte first.
                &[ANSWERED, PROTOCOL, TUPLE, "ffffffff 00000004 01 00*3", TAG],
            ),
            // §7.2 session_rules_v2_dump: no fields.
            recorded(&SessionRulesV2Dump {}, &[ASKED]),
            recorded(
                &SessionRulesV2Details {
                    transport_proto: Transport::Tcp,
                    lcl: "::/0".parse().unwrap(),
                    rmt: "2001:db8::1/128".parse().unwrap(),
                    lcl_port: 443,
                    rmt_port: 0,
                    action_index: SessionAction::Redirect(9),
                    scope: ToldScope(SessionScope::Global),
                    tag: label(""),
                    appns_index: vec![4, 5],
                },
                &[
                    ANSWERED,
                    // §7.2 session_rules_v2_details. TCP is 0.
                    "00",
                    // lcl `::/0`, rmt `2001:db8::1/128`, lcl_port 443, rmt_port 0.
                    "01 00*16 00 01 20010db8 00*11 01 80 01bb 0000",
                    // action_index 9, scope 0, no tag.
                    "00000009 00000000 00*64",
                    // A count of four bytes, and so many namespaces, at the end.
                    "00000002 00000004 00000005",
                ],
            ),
        ],
    ]
    .concat()
}

fn switches() -> Vec<Recorded> {
    vec![
        // §7.2 session_enable_disable (v1): a bool.
        recorded(&SessionEnableDisable { is_enable: true }, &[ASKED, "01"]),
        // §7.2 session_enable_disable (v1), its reply: retval.
        recorded(&SessionEnableDisableReply { retval: 0 }, &[ANSWERED, "00000000"]),
        recorded(
            &SessionEnableDisableV2 {
                rt_engine_type: Engine::RuleTable,
            },
            // §7.2 session_enable_disable_v2: one byte, 1 for the rule table.
            &[ASKED, "01"],
        ),
        recorded(
            // §7.2 session_enable_disable_v2, its reply: retval.
            &SessionEnableDisableV2Reply { retval: 0 },
            &[ANSWERED, "00000000"],
        ),
    ]
}

fn namespaces() -> Vec<Recorded> {
    vec![
        recorded(
            &AppNamespaceAddDelV4 {
                secret: 0x0102_0304,
                is_add: true,
                sw_if_index: ANY,
                ip4_fib_id: 1,
                ip6_fib_id: 2,
                namespace_id: label("pod"),
                sock_name: b"@s".to_vec(),
            },
            &[
                ASKED,
                // §7.2 app_namespace_add_del_v4: secret of eight bytes, is_add, sw_if_index, ip4_fib_id, ip6_fib_id.
                "00000000 01020304 01 ffffffff 00000001 00000002",
                // namespace_id[64]: `pod` and 61 zeros.
                "706f64 00*61",
                // sock_name: its length in four bytes, `@s`, no zero at the end.
                "00000002 4073",
            ],
        ),
        recorded(
            &AppNamespaceAddDelV4Reply {
                retval: -30,
                appns_index: 6,
            },
            // §7.2 app_namespace_add_del_v4, its reply: retval, appns_index; -30 of §7.2 errors.
            &[ANSWERED, "ffffffe2 00000006"],
        ),
    ]
}

#[test]
fn every_action_and_scope_is_recorded() {
    for (action, scope, asked, told) in [
        (
            SessionAction::Deny,
            SessionScope::Global,
            "fffffffe 00 00000004 00 00*3",
            "fffffffe 00000004 00 00*3",
        ),
        (
            SessionAction::Defer,
            SessionScope::Both,
            "ffffffff 00 00000004 03 00*3",
            "ffffffff 00000004 02 00*3",
        ),
        (
            SessionAction::Redirect(0x0102),
            SessionScope::Local,
            "00000102 00 00000004 02 00*3",
            "00000102 00000004 01 00*3",
        ),
    ] {
        let removed = rule(action, scope, false);
        recorded(&removed, &[ASKED, PROTOCOL, TUPLE, asked, TAG]);
        recorded(&details(action, scope), &[ANSWERED, PROTOCOL, TUPLE, told, TAG]);
    }
}

#[test]
fn a_request_for_a_rule_has_128_bytes() {
    let parts = [ASKED, PROTOCOL, TUPLE, "fffffffd 01 00000004 02 00*3", TAG];
    assert_eq!(super::bytes(&parts).len(), 128);
}
