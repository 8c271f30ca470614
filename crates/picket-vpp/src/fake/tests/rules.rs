//! Session rules and namespaces over the wire.

mod dumps;
mod tags;

use picket_net::{Family, Protocol};

use super::super::{Connection, Fake, Packet, Transport};
use super::{ANY4, ANY6, Wire, fake, hex, prefix, text};

const ALLOW: u32 = 0xffff_fffd;
const DROP: u32 = 0xffff_fffe;
const GLOBAL: &str = "00000000";
/// What VPP takes for the local scope: the first byte counts.
const LOCAL: &str = "02000000";

/// A session rule that is sent: by default everything, to be changed.
struct Rule<'a> {
    transport: u8,
    local: &'a str,
    remote: &'a str,
    ports: (u16, u16),
    action: u32,
    add: bool,
    namespace: u32,
    scope: &'a str,
    tag: &'a str,
}

const RULE: Rule<'static> = Rule {
    transport: 0,
    local: ANY4,
    remote: ANY4,
    ports: (0, 0),
    action: DROP,
    add: true,
    namespace: 0,
    scope: LOCAL,
    tag: "",
};

fn change(wire: &mut Wire, rule: &Rule<'_>) -> i32 {
    let fields = format!(
        "{:02x} {} {} {:04x} {:04x} {:08x} {:02x} {:08x} {} {}",
        rule.transport,
        prefix(rule.local),
        prefix(rule.remote),
        rule.ports.0,
        rule.ports.1,
        rule.action,
        u8::from(rule.add),
        rule.namespace,
        rule.scope,
        text(rule.tag)
    );
    assert_eq!(hex(&fields).len(), 128 - 10);
    wire.ask("session_rule_add_del_82a90af5", &fields)
}

/// A fake with the session layer enabled.
fn enabled() -> (Fake, Wire) {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    assert_eq!(wire.ask("session_enable_disable_v2_f09fbf32", "01"), 0);
    (fake, wire)
}

/// Adds or removes a namespace: the number of how it went, and its index.
fn namespace(wire: &mut Wire, add: u8, interface: u32, fib: u32, id: &str) -> (i32, u32) {
    let fields = format!(
        "0000000000000000 {add:02x} {interface:08x} {fib:08x} {fib:08x} {} 00000000",
        text(id)
    );
    wire.send("app_namespace_add_del_v4_42c1d824", &fields);
    let reply = wire.receive("app_namespace_add_del_v4_reply_85137120");
    let (retval, index) = reply.split_first_chunk().unwrap();
    (
        i32::from_be_bytes(*retval),
        u32::from_be_bytes(index.try_into().unwrap()),
    )
}

fn packet(protocol: Protocol, source: (&str, u16), destination: (&str, u16)) -> Packet {
    Packet::new(
        protocol,
        (source.0.parse().unwrap(), source.1),
        (destination.0.parse().unwrap(), destination.1),
    )
}

#[test]
fn nothing_is_possible_while_the_layer_is_disabled() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    assert_eq!(change(&mut wire, &RULE), -30);
    assert_eq!(namespace(&mut wire, 1, u32::MAX, 0, "a").0, -30);
    assert!(
        wire.dump(
            "session_rules_dump_51077d14",
            "",
            "session_rules_details_4ef746e7"
        )
        .is_empty()
    );
    assert_eq!(
        wire.ask("session_enable_disable_c264d7bf", "01"),
        0,
        "the first version"
    );
    assert_eq!(change(&mut wire, &Rule { tag: "a", ..RULE }), 0);
    assert_eq!(wire.ask("session_enable_disable_v2_f09fbf32", "02"), 0);
    assert_eq!(
        change(&mut wire, &Rule { tag: "a", ..RULE }),
        -1,
        "enabled again it has what it had"
    );
    assert_eq!(change(&mut wire, &RULE), 0, "and the engine that it had");
    assert_eq!(wire.ask("session_enable_disable_v2_f09fbf32", "00"), 0);
    assert_eq!(change(&mut wire, &RULE), -30);
    assert_eq!(wire.ask("session_enable_disable_v2_f09fbf32", "02"), 0);
    assert_eq!(change(&mut wire, &RULE), -1, "an engine without rules");
}

#[test]
fn rules_that_cannot_be_are_refused() {
    let (fake, mut wire) = enabled();
    for (rule, expected) in [
        (Rule { namespace: 9, ..RULE }, -1),
        (
            Rule {
                scope: "04000000",
                ..RULE
            },
            -1,
        ),
        (Rule { remote: ANY6, ..RULE }, -1),
        (
            Rule {
                local: ANY6,
                remote: ANY6,
                ..RULE
            },
            0,
        ),
        (
            Rule {
                remote: "10.0.0.1/8",
                ..RULE
            },
            0,
        ),
    ] {
        assert_eq!(
            change(&mut wire, &rule),
            expected,
            "{} {}",
            rule.remote,
            rule.scope
        );
    }
    let rules = fake.state().session_rules(Some(0), Transport::Tcp, Family::Ipv4);
    assert_eq!(rules[1].remote.to_string(), "10.0.0.0/8", "host bits are masked");
}

#[test]
fn local_rules_are_asked_at_connect_and_have_no_own_side() {
    let (fake, mut wire) = enabled();
    let (retval, index) = namespace(&mut wire, 1, u32::MAX, 0, "default/web");
    assert_eq!((retval, index), (0, 1));
    let rule = Rule {
        local: "192.168.0.0/16",
        remote: "10.0.0.0/8",
        ports: (7, 80),
        namespace: index,
        ..RULE
    };
    assert_eq!(change(&mut wire, &rule), 0);
    let (from, to) = (("172.16.0.1", 1), ("10.9.9.9", 80));
    assert_eq!(
        fake.connects(1, &packet(Protocol::TCP, from, to)),
        Connection::Dropped
    );
    assert_eq!(
        fake.connects(1, &packet(Protocol::TCP, from, ("10.9.9.9", 81))),
        Connection::Allowed
    );
    assert_eq!(
        fake.connects(1, &packet(Protocol::UDP, from, to)),
        Connection::Allowed
    );
    assert_eq!(
        fake.connects(1, &packet(Protocol::SCTP, from, to)),
        Connection::Allowed
    );
    assert_eq!(
        fake.connects(0, &packet(Protocol::TCP, from, to)),
        Connection::Allowed
    );
    assert_eq!(
        fake.accepts(&packet(Protocol::TCP, to, from)),
        Connection::Allowed
    );
    let kept = fake.state().session_rules(Some(1), Transport::Tcp, Family::Ipv4);
    assert_eq!(
        (kept[1].local.to_string().as_str(), kept[1].local_port),
        (ANY4, 0)
    );
}

#[test]
fn global_rules_judge_what_comes_from_outside() {
    let (fake, mut wire) = enabled();
    let rule = Rule {
        local: "10.0.0.2/32",
        remote: "172.16.0.0/12",
        ports: (80, 0),
        scope: GLOBAL,
        transport: 1,
        ..RULE
    };
    assert_eq!(change(&mut wire, &rule), 0);
    let (from, to) = (("172.16.0.1", 1), ("10.0.0.2", 80));
    assert_eq!(
        fake.accepts(&packet(Protocol::UDP, from, to)),
        Connection::Dropped
    );
    assert_eq!(
        fake.accepts(&packet(Protocol::UDP, from, ("10.0.0.2", 81))),
        Connection::Allowed
    );
    assert_eq!(
        fake.accepts(&packet(Protocol::UDP, ("172.32.0.1", 1), to)),
        Connection::Allowed
    );
    assert_eq!(
        fake.accepts(&packet(Protocol::TCP, from, to)),
        Connection::Allowed
    );
    assert_eq!(
        fake.connects(0, &packet(Protocol::UDP, to, from)),
        Connection::Allowed
    );
}

#[test]
fn the_scope_is_the_first_byte() {
    for (scope, global, local) in [
        (GLOBAL, true, false),
        ("01000000", true, false),
        (LOCAL, false, true),
        ("03000000", true, true),
        // What a client sends that takes the field for a number in network byte order: local is 1, and becomes global.
        ("00000001", true, false),
        ("00000002", true, false),
    ] {
        let (fake, mut wire) = enabled();
        assert_eq!(
            change(
                &mut wire,
                &Rule {
                    scope,
                    remote: "10.0.0.0/8",
                    ..RULE
                }
            ),
            0
        );
        let rules = |namespace| {
            let state = fake.state();
            state.session_rules(namespace, Transport::Tcp, Family::Ipv4).len() > 1
        };
        assert_eq!((rules(None), rules(Some(0))), (global, local), "{scope}");
    }
}

#[test]
fn a_transport_that_is_not_udp_is_tcp() {
    let (fake, mut wire) = enabled();
    for transport in [0, 1, 2, 6, 17] {
        let remote = format!("10.{transport}.0.0/16");
        let rule = Rule {
            transport,
            remote: &remote,
            ..RULE
        };
        assert_eq!(change(&mut wire, &rule), 0);
    }
    let count = |transport| fake.state().session_rules(Some(0), transport, Family::Ipv4).len() - 1;
    assert_eq!((count(Transport::Tcp), count(Transport::Udp)), (4, 1));
}

#[test]
fn namespaces_are_added_once_and_have_fibs_that_are_there() {
    let (fake, mut wire) = enabled();
    let tap = fake.add_interface("tap1", "");
    assert_eq!(namespace(&mut wire, 1, u32::MAX, 0, "a"), (0, 1));
    assert_eq!(
        namespace(&mut wire, 1, u32::MAX, 0, "a"),
        (0, 1),
        "the same again"
    );
    assert_eq!(namespace(&mut wire, 1, u32::MAX, 5, "b").0, -19);
    assert_eq!(
        namespace(&mut wire, 1, tap, 5, "b"),
        (0, 2),
        "its interface has one"
    );
    assert_eq!(namespace(&mut wire, 1, 99, 0, "c").0, -2);
    fake.add_fib(5);
    assert_eq!(namespace(&mut wire, 1, u32::MAX, 5, "c"), (0, 3));
    // Rules of another FIB do not judge what comes into FIB 0.
    let rule = Rule {
        namespace: 3,
        scope: GLOBAL,
        ..RULE
    };
    assert_eq!(change(&mut wire, &rule), 0);
    let asked = packet(Protocol::TCP, ("172.16.0.1", 1), ("10.0.0.2", 80));
    assert_eq!(fake.accepts(&asked), Connection::Allowed);
    assert_eq!(namespace(&mut wire, 0, u32::MAX, 0, "nobody").0, -1);
    assert_eq!(namespace(&mut wire, 0, u32::MAX, 0, "a").0, 0);
    assert_eq!(change(&mut wire, &Rule { namespace: 1, ..RULE }), -1);
    assert_eq!(
        namespace(&mut wire, 1, u32::MAX, 0, "d"),
        (0, 1),
        "the index is reused"
    );
    let names: Vec<_> = fake
        .state()
        .namespaces()
        .map(|(_, known)| known.id.clone())
        .collect();
    assert_eq!(names, ["default", "d", "b", "c"]);
}
