//! Faults, the record and the observer.

use std::io::Read;
use std::time::Duration;

use super::super::{Direction, Fake, Fault, Options, Packet, Verdict, When};
use super::{ANY4, NEW, Wire, fake, hex, text, wide};
use picket_net::Protocol;

fn named(name: &str) -> When {
    When::Named(name.to_owned(), 0)
}

fn names(fake: &Fake) -> Vec<String> {
    fake.record().into_iter().map(|received| received.name).collect()
}

#[test]
fn the_record_says_what_came_with_how_many_bytes_and_what_stopped_workers() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    wire.new_acl(&[wide(1, ANY4, ANY4, 0)]);
    wire.acl(9, &text("a"), &[]);
    wire.until_ping();
    let rows: Vec<_> = fake
        .record()
        .into_iter()
        .map(|received| {
            (
                received.name,
                received.bytes,
                received.stops_workers,
                received.retval,
            )
        })
        .collect();
    let row = |name: &str, bytes, stops, retval| (name.to_owned(), bytes, stops, retval);
    assert_eq!(
        rows,
        [
            row("sockclnt_create", 16 + 70, false, None),
            row("acl_add_replace", 16 + 82 + 48, true, Some(0)),
            row("acl_add_replace", 16 + 82, true, Some(-6)),
            row("control_ping", 16 + 10, false, Some(0)),
        ]
    );
    fake.clear_record();
    assert!(fake.record().is_empty());
}

#[test]
fn a_fault_meets_the_message_it_is_for() {
    // Five messages behind the handshake: the fault at each position meets that one and no other.
    for position in 0..5 {
        let fake = fake();
        let mut wire = Wire::connect(&fake);
        fake.fail(When::After(position), Fault::Refuse(-1));
        let retvals: Vec<i32> = (0..5).map(|_| wire.acl(NEW, &text("a"), &[]).1).collect();
        let expected: Vec<i32> = (0..5).map(|at| if at == position { -1 } else { 0 }).collect();
        assert_eq!(retvals, expected);
        assert_eq!((fake.faults(), fake.state().acls().count()), (0, 4));
    }
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    fake.fail(When::Named("acl_del".to_owned(), 1), Fault::Refuse(-1));
    for (index, expected) in [(0, 0), (1, -1), (1, 0)] {
        wire.new_acl(&[]);
        assert_eq!(wire.ask("acl_del_ef34fea4", &format!("{index:08x}")), expected);
        wire.new_acl(&[]);
    }
}

#[test]
fn refusals_have_the_form_of_each_reply() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    for name in [
        "acl_add_replace",
        "acl_del",
        "acl_dump",
        "session_enable_disable_v2",
    ] {
        fake.fail(named(name), Fault::Refuse(-30));
    }
    assert_eq!(wire.acl(NEW, &text("a"), &[]), (NEW, -30));
    assert_eq!(wire.ask("acl_del_ef34fea4", "00000000"), -30);
    wire.new_acl(&[]);
    assert!(
        wire.dump("acl_dump_ef34fea4", "ffffffff", "acl_details_95babae0")
            .is_empty()
    );
    assert_eq!(wire.ask("session_enable_disable_v2_f09fbf32", "01"), -30);
    fake.fail(named("control_ping"), Fault::Refuse(-1));
    wire.send("control_ping_51077d14", "");
    assert_eq!(wire.receive("control_ping_reply_f6b0b8ca")[..4], hex("ffffffff"));
}

#[test]
fn connections_end_before_or_after_the_message_is_handled() {
    for (fault, handled) in [(Fault::DropBefore, 0), (Fault::DropAfter, 1)] {
        let fake = fake();
        let mut wire = Wire::connect(&fake);
        fake.fail(named("acl_add_replace"), fault.clone());
        wire.send(
            "acl_add_replace_ee5c2f18",
            &format!("ffffffff {} 00000000", text("a")),
        );
        assert_eq!(wire.read(), None, "{fault:?}");
        assert_eq!(fake.state().acls().count(), handled, "{fault:?}");
        assert!(fake.complaints().is_empty());
        // The fake goes on, with what it has.
        let mut wire = Wire::connect(&fake);
        assert_eq!(wire.new_acl(&[]), u32::try_from(handled).unwrap());
    }
}

#[test]
fn a_connection_ends_in_the_middle_of_a_frame() {
    let fake = fake();
    for name in ["acl_add_replace", "acl_dump"] {
        let mut wire = Wire::connect(&fake);
        fake.fail(named(name), Fault::DropMidFrame);
        let mut rest = Vec::new();
        let half = if name == "acl_dump" {
            wire.send("acl_dump_ef34fea4", "00000063");
            (16 + 16) / 2
        } else {
            wire.send(
                "acl_add_replace_ee5c2f18",
                &format!("ffffffff {} 00000000", text("a")),
            );
            (16 + 14) / 2
        };
        wire.stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), half, "{name}");
    }
    assert_eq!(fake.state().acls().count(), 1);
}

#[test]
fn a_restart_takes_everything_with_it() {
    let fake = Fake::start(Options::new(5).interface("tap1", "web")).unwrap();
    let (mut wire, mut other) = (Wire::connect(&fake), Wire::connect(&fake));
    let index = wire.new_acl(&[]);
    wire.set_list(1, &[index], &[]);
    fake.add_interface("tap2", "");
    fake.fail(When::After(0), Fault::Restart);
    wire.send("acl_del_ef34fea4", "00000000");
    assert_eq!((wire.read(), other.read()), (None, None));
    let state = fake.state();
    assert_eq!(
        (
            state.acls().count(),
            state.interface("tap1"),
            state.interface("tap2")
        ),
        (0, Some(1), None)
    );
    let again = Wire::connect(&fake);
    assert_ne!(again.ids, wire.ids);
}

#[test]
fn garbage_takes_the_place_of_an_answer() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    fake.fail(named("acl_add_replace"), Fault::Garbage(hex("deadbeef")));
    wire.send(
        "acl_add_replace_ee5c2f18",
        &format!("ffffffff {} 00000000", text("a")),
    );
    let mut bytes = [0; 4];
    wire.stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes.to_vec(), hex("deadbeef"));
    assert_eq!(fake.state().acls().count(), 1);
    wire.until_ping();
}

#[test]
fn what_is_held_waits_and_others_do_not() {
    let fake = fake();
    let (mut wire, mut other) = (Wire::connect(&fake), Wire::connect(&fake));
    fake.fail(named("acl_add_replace"), Fault::Hold);
    wire.send(
        "acl_add_replace_ee5c2f18",
        &format!("ffffffff {} 00000000", text("a")),
    );
    assert!(fake.wait_for(|record| record.iter().any(|received| received.name == "acl_add_replace")));
    other.until_ping();
    assert_eq!(fake.state().acls().count(), 0);
    fake.release();
    assert_eq!(
        wire.receive("acl_add_replace_reply_ac407b0c"),
        hex("00000000 00000000")
    );
    fake.fail(When::After(0), Fault::Delay(Duration::from_millis(1)));
    wire.until_ping();
    assert_eq!(fake.faults(), 0);
}

/// A client that has gone cannot be waited for by who still has to let go what it sent.
#[test]
fn nothing_is_held_while_connections_end() {
    let fake = fake();
    let (mut first, mut second) = (Wire::connect(&fake), Wire::connect(&fake));
    fake.fail(named("control_ping"), Fault::Hold);
    first.send("control_ping_51077d14", "");
    assert!(fake.wait_for(|record| record.len() == 3));
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| fake.let_all_end());
        first.receive("control_ping_reply_f6b0b8ca");
        // It has begun, and waits for both.
        fake.fail(named("control_ping"), Fault::Hold);
        second.until_ping();
        assert_eq!(fake.faults(), 0);
        drop((first, second));
        assert!(ending.join().unwrap());
    });
}

#[test]
fn what_was_held_when_vpp_started_again_is_not_handled() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    fake.fail(named("acl_add_replace"), Fault::Hold);
    wire.send(
        "acl_add_replace_ee5c2f18",
        &format!("ffffffff {} 00000000", text("a")),
    );
    assert!(fake.wait_for(|record| record.len() == 2));
    fake.restart();
    assert_eq!(wire.read(), None);
    assert!(fake.wait_for_connections(0));
    assert_eq!(fake.state().acls().count(), 0);
}

#[test]
fn what_is_held_ends_with_the_fake() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    fake.fail(named("control_ping"), Fault::Hold);
    wire.send("control_ping_51077d14", "");
    assert!(fake.wait_for(|record| record.len() == 2));
    drop(fake);
    assert_eq!(wire.read(), None);
}

#[test]
fn handshakes_fail_too() {
    let fake = fake();
    fake.fail(named("sockclnt_create"), Fault::DropBefore);
    let mut first = std::os::unix::net::UnixStream::connect(fake.socket()).unwrap();
    let hello = format!("0000000000000000 00000046 00000000 000f 00000001 {}", text("a"));
    std::io::Write::write_all(&mut first, &hex(&hello)).unwrap();
    assert_eq!(first.read(&mut [0; 1]).unwrap(), 0);
    drop(Wire::connect(&fake));
    assert_eq!(names(&fake), ["sockclnt_create", "sockclnt_create"]);
}

#[test]
fn an_observer_sees_the_state_after_every_change() {
    let fake = Fake::start(Options::new(5).interface("tap1", "")).unwrap();
    let asked = Packet::new(
        Protocol::TCP,
        ("10.0.0.1".parse().unwrap(), 1),
        ("10.0.0.2".parse().unwrap(), 80),
    );
    fake.observe(move |state, after| match state.judge(1, Direction::In, &asked) {
        (Verdict::Passed, _) => Ok(()),
        (verdict, _) => Err(format!("{after} {verdict:?}")),
    });
    let mut wire = Wire::connect(&fake);
    let empty = wire.new_acl(&[]);
    assert!(fake.findings().is_empty());
    wire.set_list(1, &[empty], &[]);
    wire.acl(empty, &text("a"), &[wide(1, ANY4, ANY4, 0)]);
    wire.until_ping();
    let found = fake.findings();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("after message 3, acl_interface_set_acl_list: acl_interface_set_acl_list"));
    fake.set_up(1, false);
    assert!(fake.findings()[1].contains("an interface is set"));
    fake.change("somebody else", |state| {
        state.set_acl_list(1, &super::super::Lists::default())
    })
    .unwrap();
    assert!(fake.findings()[2].contains("somebody else"));
    fake.restart();
    assert_eq!(fake.findings().len(), 3, "it is up again");
}

#[test]
fn an_observer_that_panics_has_found_something() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    fake.observe(|state, _| {
        assert_eq!(state.acls().count(), 0, "an ACL");
        Ok(())
    });
    wire.new_acl(&[]);
    wire.until_ping();
    let found = fake.findings();
    assert!(
        found[0].starts_with("after message 2, acl_add_replace: the observer panicked: "),
        "{found:?}"
    );
    assert!(found[0].contains("an ACL"));
}

#[test]
fn refused_requests_are_no_changes() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    fake.observe(|_, after| Err(after.to_owned()));
    wire.ask("acl_del_ef34fea4", "00000063");
    wire.dump("acl_dump_ef34fea4", "ffffffff", "acl_details_95babae0");
    fake.fail(named("acl_add_replace"), Fault::Refuse(-1));
    wire.acl(NEW, &text("a"), &[]);
    assert!(fake.findings().is_empty());
}
