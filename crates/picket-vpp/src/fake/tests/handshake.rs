//! Handshake, frames and numbers of messages.

use super::super::{Dumps, Fake, FakeError, Options};
use super::{Wire, fake, hex, text};

#[test]
fn numbers_follow_from_the_seed_and_change_with_every_start() {
    let ids = |seed| Wire::connect(&Fake::start(Options::new(seed)).unwrap()).ids;
    assert_eq!(ids(1), ids(1));
    assert_ne!(ids(1), ids(2));
    let fake = fake();
    let before = Wire::connect(&fake).ids;
    fake.restart();
    let after = Wire::connect(&fake).ids;
    assert_ne!(before, after);
    assert!(before.keys().eq(after.keys()));
    assert!(
        before.values().all(|id| *id > 16),
        "15 and 16 are the handshake's"
    );
}

#[test]
fn a_test_says_which_messages_there_are() {
    let options = Options::new(1)
        .crc("acl_add_replace", "1cabdeab")
        .without("acl_dump")
        .dumps(Dumps::First);
    let ids = Wire::connect(&Fake::start(options).unwrap()).ids;
    for (name, expected) in [
        ("acl_add_replace_1cabdeab", true),
        ("acl_add_replace_ee5c2f18", false),
        ("acl_dump_ef34fea4", false),
        ("acl_del_ef34fea4", true),
        ("session_rules_dump_51077d14", true),
        ("session_rules_v2_dump_51077d14", false),
        ("session_rules_v2_details_f91993dc", false),
    ] {
        assert_eq!(ids.contains_key(name), expected, "{name}");
    }
    let second = Options::new(1).dumps(Dumps::Second);
    let ids = Wire::connect(&Fake::start(second).unwrap()).ids;
    assert!(!ids.contains_key("session_rules_dump_51077d14"));
    assert!(ids.contains_key("session_rules_v2_dump_51077d14"));
    let unknown = Fake::start(Options::new(1).without("acl_dmup"));
    assert!(matches!(unknown, Err(FakeError::UnknownMessage(name)) if name == "acl_dmup"));
}

#[test]
fn every_client_has_an_index_of_its_own() {
    let fake = fake();
    let (one, other) = (Wire::connect(&fake), Wire::connect(&fake));
    assert_ne!(one.client, other.client);
    assert!(one.client[0] & 0x80 != 0 && other.client[0] & 0x80 != 0);
    assert_eq!(fake.connections(), 2);
    drop(one);
    assert!(fake.wait_for_connections(1));
}

#[test]
fn replies_come_in_the_order_of_requests() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    for _ in 0..300 {
        wire.send("control_ping_51077d14", "");
    }
    let last = wire.context;
    for context in last - 299..=last {
        let reply = wire.read().unwrap();
        assert_eq!(reply.len(), 18);
        assert_eq!(reply[2..10], [&context.to_be_bytes()[..], &[0; 4]].concat());
        assert_eq!(reply[10..14], wire.client);
    }
    assert!(fake.record()[1..].iter().all(|ping| !ping.stops_workers));
}

#[test]
fn the_plugin_says_its_version() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    wire.send("acl_plugin_get_version_51077d14", "");
    let version = wire.receive("acl_plugin_get_version_reply_9b32cf86");
    assert_eq!(version, hex("00000001 00000004"));
}

/// What a client with a defect does.
type Send = fn(&mut Wire);

#[test]
fn what_no_client_sends_ends_the_connection_and_is_named() {
    let cases: [(Send, &str); 8] = [
        (
            |wire| wire.write("0000000000000001 0000000a 00000000"),
            "frame: a header",
        ),
        (
            |wire| wire.write("0000000000000000 0000000a 00000001"),
            "frame: a header",
        ),
        (
            |wire| wire.write("0000000000000000 ffffffff 00000000"),
            "frame: a header",
        ),
        (
            |wire| {
                wire.ids.insert("none".to_owned(), 3000);
                wire.send("none", "");
            },
            "message 3000: there is none",
        ),
        (
            |wire| wire.send("control_ping_51077d14", "00"),
            "control_ping: not with 11 bytes",
        ),
        (
            |wire| wire.send("acl_del_ef34fea4", "000000"),
            "acl_del: not with 13 bytes",
        ),
        (
            // One rule is said to be there, none is.
            |wire| {
                wire.send(
                    "acl_add_replace_ee5c2f18",
                    &format!("ffffffff {} 00000001", text("a")),
                );
            },
            "acl_add_replace: not with 82 bytes",
        ),
        (
            |wire| {
                wire.client = hex("80000099");
                wire.send("control_ping_51077d14", "");
            },
            "control_ping: `client_index`",
        ),
    ];
    for (sends, complaint) in cases {
        let fake = fake();
        let mut wire = Wire::connect(&fake);
        sends(&mut wire);
        assert_eq!(wire.read(), None, "{complaint}");
        let complaints = fake.complaints();
        assert!(complaints[0].starts_with(complaint), "{complaints:?}");
    }
}

#[test]
fn nothing_is_asked_before_the_handshake() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    wire.stream = std::os::unix::net::UnixStream::connect(fake.socket()).unwrap();
    wire.send("control_ping_51077d14", "");
    assert_eq!(wire.read(), None);
    assert!(fake.complaints()[0].contains("there is none with this number"));
}

#[test]
fn a_fake_that_is_down_takes_nobody_and_comes_back_empty() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    wire.new_acl(&[]);
    fake.down();
    assert_eq!(wire.read(), None);
    assert!(std::os::unix::net::UnixStream::connect(fake.socket()).is_err());
    fake.up().unwrap();
    let _wire = Wire::connect(&fake);
    assert_eq!(fake.state().acls().count(), 0);
    let directory = fake.socket().parent().unwrap().to_owned();
    drop(fake);
    assert!(!directory.exists());
}
