//! What VPP says without being asked.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::peer::{Peer, connected, frame, greeting, number};
use super::wire::label;
use crate::client::connection::{Connection, Limits};
use crate::client::definition::Message;
use crate::client::error::Error;
use crate::client::message::*;
use crate::client::value::{Event, LinkState};

const UP: LinkState = LinkState {
    is_up: true,
    has_link: false,
};
const NOTHING: Duration = Duration::ZERO;
/// Longer than anybody waits for a test.
const PATIENT: Duration = Duration::from_secs(60 * 60);

fn happens(peer: &mut Peer, interface: u32, deleted: bool) {
    let event = SwInterfaceEvent {
        pid: 1,
        sw_if_index: interface,
        flags: UP,
        deleted,
    };
    peer.say(0, &event);
}

fn changed(interface: u32) -> Event {
    Event::Changed { interface, state: UP }
}

#[test]
fn events_between_answers_are_kept_in_their_order() {
    let (mut vpp, served) = connected(|peer| {
        let (context, want) = peer.expect::<WantInterfaceEvents>();
        assert_eq!((want.enable_disable, want.pid), (1, std::process::id()));
        happens(peer, 1, false);
        peer.say(context, &WantInterfaceEventsReply { retval: 0 });
        let (dump, asked) = peer.expect::<AclDump>();
        assert_eq!(asked.acl_index, u32::MAX);
        happens(peer, 2, false);
        let acl = AclDetails {
            acl_index: 3,
            tag: Default::default(),
            r: Vec::new(),
        };
        peer.say(dump, &acl);
        happens(peer, 2, true);
        peer.pong();
    });
    vpp.watch_interfaces().unwrap();
    assert_eq!(vpp.acls().unwrap().into_keys().collect::<Vec<_>>(), [3]);
    let deleted = Event::Deleted { interface: 2 };
    assert_eq!(vpp.events(NOTHING).unwrap(), [changed(1), changed(2), deleted]);
    assert_eq!(vpp.events(NOTHING).unwrap(), []);
    drop(vpp);
    served.finish();
}

/// A client that has been greeted and waits so long for answers, and the other end.
fn greeted(answer: Duration) -> (Connection, UnixStream) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(&greeting()).unwrap();
    let limits = Limits { answer, window: 1 };
    (Connection::open(ours, &label("picket"), limits).unwrap(), theirs)
}

/// An event of interface 7, as it is sent.
fn event() -> Vec<u8> {
    let event = SwInterfaceEvent {
        pid: 1,
        sw_if_index: 7,
        flags: UP,
        deleted: false,
    };
    frame(number(&SwInterfaceEvent::DEFINITION), 0, &event)
}

#[test]
fn what_has_come_is_told_without_waiting() {
    let (mut connection, mut theirs) = greeted(PATIENT);
    for count in [3, 1] {
        theirs.write_all(&event().repeat(count)).unwrap();
        assert_eq!(connection.events(NOTHING).unwrap(), vec![changed(7); count]);
        assert_eq!(connection.events(NOTHING).unwrap(), []);
    }
}

#[test]
fn events_make_the_wait_for_an_answer_no_longer() {
    let (mut connection, mut theirs) = greeted(NOTHING);
    let reply = ControlPingReply {
        retval: 0,
        client_index: 1,
        vpe_pid: 1,
    };
    let reply = frame(number(&ControlPingReply::DEFINITION), 2, &reply);
    theirs.write_all(&[event(), reply].concat()).unwrap();
    let error = connection.call(ControlPing {}).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[test]
fn a_message_that_comes_piece_by_piece_is_not_waited_for() {
    let (mut connection, mut theirs) = greeted(PATIENT);
    let long = AppNamespaceAddDelV4 {
        secret: 0,
        is_add: false,
        sw_if_index: 0,
        ip4_fib_id: 0,
        ip6_fib_id: 0,
        namespace_id: Default::default(),
        sock_name: vec![0; 100_000],
    };
    let long = frame(number(&AppNamespaceAddDelV4::DEFINITION), 9, &long);
    theirs.write_all(&long).unwrap();
    // It has more bytes than are read at once.
    assert_eq!(connection.events(NOTHING).unwrap(), []);
    let error = connection.events(NOTHING).unwrap_err();
    assert!(matches!(error, Error::Unexpected { .. }), "{error}");
}

#[test]
fn events_are_waited_for() {
    let (mut vpp, served) = connected(|peer| {
        peer.pong();
        happens(peer, 7, false);
    });
    vpp.ping().unwrap();
    assert_eq!(vpp.events(PATIENT).unwrap(), [changed(7)]);
    drop(vpp);
    served.finish();
}

#[test]
fn the_end_of_vpp_is_noticed_while_nothing_is_asked() {
    let (mut vpp, served) = connected(|peer| peer.0.shutdown(Shutdown::Write).unwrap());
    let error = vpp.events(PATIENT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "VPP closed the connection before it sent `sw_interface_event`"
    );
    drop(vpp);
    served.finish();
}

#[test]
fn what_nobody_asked_for_is_no_event() {
    let (mut vpp, served) = connected(|peer| peer.say(4, &AclDelReply { retval: 0 }));
    let id = number(&AclDelReply::DEFINITION);
    assert_eq!(
        vpp.events(PATIENT).unwrap_err().to_string(),
        format!("VPP sends message {id} with context 4 where `sw_interface_event` is due")
    );
    drop(vpp);
    served.finish();
}

#[test]
fn more_events_than_are_kept_are_told_to_be_lost() {
    const MOST: usize = 1 << 16;
    let (mut vpp, served) = connected(|peer| {
        let (context, _) = peer.expect::<ControlPing>();
        let events = event().repeat(MOST + 9);
        peer.0.write_all(&events).unwrap();
        let reply = ControlPingReply {
            retval: 0,
            client_index: 1,
            vpe_pid: 1,
        };
        peer.say(context, &reply);
    });
    vpp.ping().unwrap();
    let events = vpp.events(NOTHING).unwrap();
    assert_eq!((events.len(), events.last()), (MOST + 1, Some(&Event::Lost)));
    assert!(events[..MOST].iter().all(|event| *event == changed(7)));
    drop(vpp);
    served.finish();
}
