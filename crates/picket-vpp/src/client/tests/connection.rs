//! Connecting, asking and being left alone.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::spawn;
use std::time::Duration;

use super::peer::{ALL, CLIENT, Peer, connected, frame, greeting, listen, number, numbers};
use super::wire::label;
use crate::client::connection::{Connection, Limits};
use crate::client::definition::Message;
use crate::client::error::Error;
use crate::client::field::MessageNumbers;
use crate::client::message::*;
use crate::client::stream::{LONGEST, Stream};
use crate::client::value::{AclAction, AclRule};

/// Long enough for a test to notice, and short enough to wait for.
const SHORT: Duration = Duration::from_millis(30);

/// A client of `window` requests, and the peer that has greeted it already and does this.
fn pair(
    window: usize,
    answer: Duration,
    part: impl FnOnce(&mut Peer) + Send + 'static,
) -> (Connection, std::thread::JoinHandle<()>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(&greeting()).unwrap();
    let connection = Connection::open(ours, &label("picket"), Limits { answer, window }).unwrap();
    let thread = spawn(move || {
        let mut peer = Peer(theirs);
        peer.meet();
        part(&mut peer);
    });
    (connection, thread)
}

fn rules(count: usize) -> Vec<AclRule> {
    let rule = AclRule {
        action: AclAction::Deny,
        source: "10.0.0.0/8".parse().unwrap(),
        destination: "10.0.0.0/8".parse().unwrap(),
        protocol: 0,
        source_ports: (0, 65535),
        destination_ports: (0, 65535),
        tcp_flags: (0, 0),
    };
    vec![rule; count]
}

const PATIENT: Duration = Duration::from_secs(60);

#[test]
fn a_client_says_who_it_is_and_uses_the_numbers_it_hears() {
    let mut served = listen(vec![Box::new(|mut peer: Peer| {
        let heard = peer.hear().unwrap();
        // Eight zeros, 70 bytes, four zeros; number 15, a context, `picket` and 58 zeros.
        let (header, body) = heard.split_at(16);
        assert_eq!(header, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 70, 0, 0, 0, 0]);
        assert_eq!((&body[..2], body.len()), (&[0, 15][..], 70));
        assert_eq!(&body[6..14], b"picket\0\0");
        let reply = SockclntCreateReply {
            response: 0,
            index: CLIENT,
            message_table: numbers(),
        };
        let context = u32::from_be_bytes(body[2..6].try_into().unwrap());
        peer.0.write_all(&frame(16, context, &reply)).unwrap();
        peer.pong();
        let (context, leave) = peer.expect::<SockclntDelete>();
        assert_eq!(leave.index, CLIENT);
        peer.say(context, &SockclntDeleteReply { retval: 0 });
        peer.end();
    })]);
    let mut vpp = served.connector.connect(&ALL).unwrap();
    vpp.ping().unwrap();
    vpp.close().unwrap();
    served.finish();
}

#[test]
fn a_vpp_with_other_messages_is_refused_before_anything_is_asked() {
    let mut other = numbers();
    for (_, name) in &mut other.0 {
        match name.as_str() {
            Some("acl_add_replace_ee5c2f18") => *name = label("acl_add_replace_1cabdeab"),
            Some("acl_dump_ef34fea4") => *name = label("acl_dump_00000001"),
            _ => {}
        }
    }
    let mut served = listen(vec![Box::new(|mut peer: Peer| {
        peer.greet(other);
        peer.end();
    })]);
    let error = served.connector.connect(&ALL).unwrap_err();
    assert_eq!(
        error.to_string(),
        "VPP has `acl_add_replace` with CRC 1cabdeab, as release 20.05 had, and ee5c2f18 is needed: VPP is too \
         old; VPP has `acl_dump` with CRC 00000001, and ef34fea4 is needed"
    );
    served.finish();
}

#[test]
fn what_answers_the_first_message_must_be_its_answer() {
    let reply = |response| SockclntCreateReply {
        response,
        index: CLIENT,
        message_table: MessageNumbers::default(),
    };
    for (said, expected) in [
        (
            frame(CREATE_REPLY_ID, 1, &reply(-1)),
            "VPP refuses `sockclnt_create` of this client: unspecified error (-1)",
        ),
        (
            frame(17, 1, &reply(0)),
            "VPP sends message 17 with context 0 where `sockclnt_create_reply` is due",
        ),
        (
            frame(CREATE_REPLY_ID, 2, &reply(0)),
            "VPP sends message 16 with context 2 where `sockclnt_create_reply` is due",
        ),
        (
            vec![0xff; 16],
            "VPP sends a message of 4294967295 bytes, at most 67108864 are read",
        ),
        (
            vec![0; 16],
            "`_vl_msg_id` of `sockclnt_create_reply` from VPP is cut off",
        ),
        (
            Vec::new(),
            "VPP closed the connection before it sent `sockclnt_create_reply`",
        ),
    ] {
        let mut served = listen(vec![Box::new(move |mut peer: Peer| {
            peer.hear().unwrap();
            peer.0.write_all(&said).unwrap();
        })]);
        assert_eq!(served.connector.connect(&[]).unwrap_err().to_string(), expected);
        served.finish();
    }
}

#[test]
fn many_requests_are_sent_before_the_first_answer_and_matched_in_any_order() {
    const ASKED: u32 = 1001;
    const WINDOW: usize = 8;
    let begun = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&begun);
    let (mut connection, thread) = pair(WINDOW, PATIENT, move |peer| {
        let mut open = Vec::new();
        let mut answered = 0;
        for heard in 1..=ASKED {
            open.push(peer.expect::<AclDel>());
            if open.len() == WINDOW || heard == ASKED {
                // One more may have been begun, which is held back.
                assert!(counter.load(Ordering::SeqCst) <= answered + WINDOW + 1);
                answered += open.len();
                for (context, asked) in open.drain(..).rev() {
                    let retval = if asked.acl_index % 2 == 0 { 0 } else { -6 };
                    peer.say(context, &AclDelReply { retval });
                }
            }
        }
    });
    let requests = (0..ASKED).map(|acl_index| {
        begun.fetch_add(1, Ordering::SeqCst);
        AclDel { acl_index }
    });
    let answers = connection.call_all(requests).unwrap();
    thread.join().unwrap();
    assert_eq!(answers.len(), 1001);
    for (index, answer) in answers.iter().enumerate() {
        let refused = answer.as_ref().err().map(ToString::to_string);
        let expected = format!("VPP refuses `acl_del` of ACL {index}: there is no such entry (-6)");
        assert_eq!(refused, (index % 2 == 1).then_some(expected));
    }
}

#[test]
fn no_more_than_a_mebibyte_is_sent_before_answers() {
    // 82 + 48 * 6,000 bytes, of which four are more than a mebibyte.
    let r = rules(6000);
    let (mut connection, thread) = pair(64, SHORT, move |peer| {
        let heard = std::iter::from_fn(|| peer.hear()).count();
        assert!(heard <= 4, "{heard}");
    });
    let requests = (0..20).map(|acl_index| {
        let (tag, r) = (label("large"), r.clone());
        AclAddReplace { acl_index, tag, r }
    });
    assert!(connection.call_all(requests).is_err());
    drop(connection);
    thread.join().unwrap();
}

#[test]
fn a_large_request_is_sent_whole() {
    let r = rules(50_000);
    let sent = r.clone();
    let (mut connection, thread) = pair(64, PATIENT, move |peer| {
        for acl_index in [7, 8] {
            let (context, asked) = peer.expect::<AclAddReplace>();
            assert!(asked.acl_index == acl_index && asked.r == r);
            peer.say(context, &AclAddReplaceReply { acl_index, retval: 0 });
        }
    });
    let requests = [7, 8].map(|acl_index| AclAddReplace {
        acl_index,
        tag: label("large"),
        r: sent.clone(),
    });
    let answers = connection.call_all(requests).unwrap();
    thread.join().unwrap();
    assert!(answers.iter().all(Result::is_ok));
}

#[test]
fn an_answer_that_comes_byte_by_byte_is_one() {
    let (mut vpp, served) = connected(|peer| {
        let (context, _) = peer.expect::<AclPluginGetVersion>();
        let reply = AclPluginGetVersionReply { major: 1, minor: 4 };
        let bytes = frame(number(&AclPluginGetVersionReply::DEFINITION), context, &reply);
        for byte in bytes {
            peer.0.write_all(&[byte]).unwrap();
        }
    });
    assert_eq!(vpp.version().unwrap().to_string(), "1.4");
    drop(vpp);
    served.finish();
}

#[test]
fn an_answer_to_something_else_ends_the_connection() {
    let ping = ControlPingReply {
        retval: 0,
        client_index: CLIENT,
        vpe_pid: 1,
    };
    let other = number(&AclDelReply::DEFINITION);
    let due = number(&ControlPingReply::DEFINITION);
    for (said, expected) in [
        (
            frame(due, 99, &ping),
            format!("VPP sends message {due} with context 99 where `control_ping_reply` is due"),
        ),
        (
            frame(other, 2, &AclDelReply { retval: 0 }),
            format!("VPP sends message {other} with context 2 where `control_ping_reply` is due"),
        ),
        (
            frame(due, 2, &AclDelReply { retval: 0 }),
            "`client_index` of `control_ping_reply` from VPP is cut off".to_owned(),
        ),
    ] {
        let (mut vpp, served) = connected(move |peer| {
            peer.expect::<ControlPing>();
            peer.0.write_all(&said).unwrap();
        });
        let error = vpp.ping().unwrap_err();
        assert!(error.ends_connection());
        assert_eq!(error.to_string(), expected);
        assert_eq!(
            vpp.ping().unwrap_err().to_string(),
            "the connection to VPP was given up before"
        );
        drop(vpp);
        served.finish();
    }
}

#[test]
fn a_vpp_that_says_nothing_is_given_up() {
    let (mut connection, thread) = pair(8, SHORT, |peer| {
        peer.expect::<ControlPing>();
        assert_eq!(peer.hear(), None);
    });
    let error = connection.call(ControlPing {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "VPP did not send `control_ping_reply` within 30ms"
    );
    assert!(matches!(connection.call(ControlPing {}), Err(Error::GivenUp)));
    drop(connection);
    thread.join().unwrap();
}

#[test]
fn bytes_and_events_without_end_are_no_answer() {
    let event = SwInterfaceEvent {
        pid: 1,
        sw_if_index: 2,
        flags: Default::default(),
        deleted: false,
    };
    let events = frame(number(&SwInterfaceEvent::DEFINITION), 0, &event);
    // The header of the longest frame, and then a few bytes of it at a time.
    let long = [
        &[0; 8][..],
        &u32::try_from(LONGEST).unwrap().to_be_bytes(),
        &[0; 4],
    ]
    .concat();
    for (first, again) in [(Vec::new(), events.repeat(3000)), (long, vec![0; 64])] {
        let (mut connection, thread) = pair(8, SHORT, move |peer| {
            peer.expect::<ControlPing>();
            // The client may have gone before anything is said.
            let _ = peer.0.write_all(&first);
            while peer.0.write_all(&again).is_ok() {}
        });
        let error = connection.call(ControlPing {}).unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        drop(connection);
        thread.join().unwrap();
    }
}

#[test]
fn a_vpp_that_reads_nothing_is_given_up() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let mut stream = Stream::new(ours, SHORT);
    let sent = stream.send("control_ping_reply", |bytes| bytes.resize(8 << 20, 0));
    assert_eq!(
        sent.unwrap_err().to_string(),
        "VPP did not read its requests within 30ms"
    );
}

#[test]
fn nothing_of_what_is_too_long_is_sent() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut stream = Stream::new(ours, PATIENT);
    let long = |bytes: &mut Vec<u8>| bytes.resize(bytes.len() + LONGEST + 1, 0);
    assert_eq!(stream.send("anything", long).unwrap(), Err(LONGEST + 1));
    assert_eq!(stream.send("anything", |bytes| bytes.push(7)).unwrap(), Ok(1));
    stream.flush("anything").unwrap();
    drop(stream);
    let heard = Peer(theirs).hear().unwrap();
    assert_eq!(heard[16..], [7]);
}

#[test]
fn a_connection_that_drops_in_a_batch_is_made_again() {
    let mut served = listen(vec![
        Box::new(|mut peer: Peer| {
            peer.greet(numbers());
            for _ in 0..3 {
                let (context, _) = peer.expect::<AclDel>();
                peer.say(context, &AclDelReply { retval: 0 });
            }
        }),
        Box::new(|mut peer: Peer| {
            peer.greet(numbers());
            peer.pong();
            peer.end();
        }),
    ]);
    let mut vpp = served.connector.connect(&ALL).unwrap();
    let error = vpp.delete_acls(0..10).unwrap_err();
    assert!(error.ends_connection());
    assert_eq!(
        error.to_string(),
        "VPP closed the connection before it sent `acl_del_reply`"
    );
    assert!(matches!(vpp.ping(), Err(Error::GivenUp)));
    let mut vpp = served.connector.connect(&ALL).unwrap();
    vpp.ping().unwrap();
    drop(vpp);
    served.finish();
}
