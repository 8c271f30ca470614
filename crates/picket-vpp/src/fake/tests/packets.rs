//! What becomes of packets, one property of the ACL plugin after the other.

use std::net::IpAddr;

use picket_net::Protocol;

use super::super::{Direction, DroppedBy, Fake, Journey, Options, Packet, Point, Translation, Verdict};
use super::{ANY4, ANY6, NEW, Wire, prefix, rule, text, wide};

use Direction::{In, Out};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn packet(protocol: Protocol, source: &str, sport: u16, destination: &str, dport: u16) -> Packet {
    Packet::new(protocol, (ip(source), sport), (ip(destination), dport))
}

fn tcp(source: &str, destination: &str, port: u16) -> Packet {
    packet(Protocol::TCP, source, 40000, destination, port)
}

/// A fake with the interfaces 1 and 2, up.
fn two() -> (Fake, Wire) {
    let options = Options::new(3).interface("tap1", "").interface("tap2", "");
    let fake = Fake::start(options).unwrap();
    let wire = Wire::connect(&fake);
    (fake, wire)
}

fn dropped(by: DroppedBy) -> Verdict {
    Verdict::Dropped { by }
}

fn by_rule(acl: u32, rule: usize) -> Verdict {
    dropped(DroppedBy::Rule { acl, rule })
}

const END: Verdict = Verdict::Dropped {
    by: DroppedBy::EndOfList,
};

#[test]
fn an_empty_list_passes_and_the_end_of_another_drops() {
    let (fake, mut wire) = two();
    let asked = tcp("10.0.0.1", "10.0.0.2", 80);
    assert_eq!(fake.packet(1, In, &asked), Verdict::Passed);
    let empty = wire.new_acl(&[]);
    wire.set_list(1, &[empty], &[]);
    assert_eq!(fake.packet(1, In, &asked), END, "an ACL without rules in a list");
    assert_eq!(
        fake.packet(1, Out, &asked),
        Verdict::Passed,
        "the other list is empty"
    );
    assert_eq!(fake.packet(2, In, &asked), Verdict::Passed, "another interface");
}

#[test]
fn the_first_rule_that_matches_decides_over_all_acls_in_order() {
    let (fake, mut wire) = two();
    let allow = wire.new_acl(&[wide(1, ANY4, "10.0.0.2/32", 6)]);
    let deny = wire.new_acl(&[wide(0, ANY4, "10.0.0.3/32", 0), wide(0, ANY4, "10.0.0.0/24", 0)]);
    let rest = wire.new_acl(&[wide(1, ANY4, ANY4, 0)]);
    wire.set_list(1, &[allow, deny, rest], &[deny]);
    for (direction, to, expected) in [
        (In, "10.0.0.2", Verdict::Passed),
        (In, "10.0.0.3", by_rule(deny, 0)),
        (In, "10.0.0.4", by_rule(deny, 1)),
        (In, "10.0.1.1", Verdict::Passed),
        (Out, "10.0.0.2", by_rule(deny, 1)),
        (Out, "10.0.1.1", END),
    ] {
        assert_eq!(
            fake.packet(1, direction, &tcp("10.9.0.1", to, 80)),
            expected,
            "{direction:?} {to}"
        );
    }
}

#[test]
fn rules_match_what_they_say() {
    let (fake, mut wire) = two();
    let flags = format!(
        "01 {} {} 06 0000 ffff 0000 ffff 12 02",
        prefix(ANY4),
        prefix(ANY4)
    );
    let web = rule(1, ANY4, "10.0.0.0/24", 6, (0, 65535), (80, 90));
    let from = rule(1, ANY4, ANY4, 17, (53, 53), (0, 65535));
    let echo = rule(1, ANY4, ANY4, 1, (8, 8), (0, 0));
    let (a, b) = ("10.9.0.1", "10.0.0.2");
    let six = packet(Protocol::TCP, "fd00::1", 4, "fd00::2", 80);
    let answer = Packet {
        tcp_flags: 0x12,
        ..tcp(a, b, 80)
    };
    let table = [
        (&web, tcp(a, b, 80), true),
        (&web, tcp(a, b, 90), true),
        (&web, tcp(a, b, 91), false),
        (&web, tcp(a, "10.0.1.2", 80), false),
        (&web, packet(Protocol::UDP, a, 1, b, 80), false),
        (&web, packet(Protocol::SCTP, a, 1, b, 80), false),
        (&from, packet(Protocol::UDP, a, 53, b, 9), true),
        (&from, packet(Protocol::UDP, a, 54, b, 53), false),
        (&echo, packet(Protocol::ICMP, a, 8, b, 0), true),
        (&echo, packet(Protocol::ICMP, a, 0, b, 0), false),
        (&echo, packet(Protocol::ICMP, a, 8, b, 1), false),
        (&flags, tcp(a, b, 80), true),
        (&flags, answer, false),
        (&wide(1, ANY4, ANY4, 0), six, false),
        (&wide(1, ANY6, ANY6, 0), six, true),
        (&wide(1, ANY6, ANY6, 0), tcp(a, b, 80), false),
        (
            &wide(1, ANY4, ANY4, 0),
            packet(Protocol::from_number(47), a, 0, b, 0),
            true,
        ),
        // Protocol 0 ignores the ports that it has.
        (&rule(1, ANY4, ANY4, 0, (1, 1), (2, 2)), tcp(a, b, 80), true),
        // Fragments that are not the first have no ports: the protocol decides.
        (&web, tcp(a, b, 443).fragment(), true),
        (&web, tcp(a, "10.0.1.2", 80).fragment(), false),
        (&web, packet(Protocol::UDP, a, 1, b, 80).fragment(), false),
        (&flags, tcp(a, b, 80).fragment(), true),
    ];
    let acl = wire.new_acl(&[]);
    wire.set_list(1, &[acl], &[]);
    for (rule, packet, passes) in table {
        assert_eq!(wire.acl(acl, &text("one"), std::slice::from_ref(rule)), (acl, 0));
        let expected = if passes { Verdict::Passed } else { END };
        assert_eq!(fake.packet(1, In, &packet), expected, "{packet:?} {rule}");
    }
}

#[test]
fn interfaces_that_are_down_or_gone_pass_nothing() {
    let (fake, _wire) = two();
    let asked = tcp("10.0.0.1", "10.0.0.2", 80);
    fake.set_up(1, false);
    assert_eq!(fake.packet(1, In, &asked), dropped(DroppedBy::InterfaceDown));
    assert_eq!(fake.packet(9, In, &asked), dropped(DroppedBy::NoInterface));
}

/// A rule that reflects what enters, and one that denies what leaves.
fn reflecting(wire: &mut Wire) -> (u32, u32) {
    let reflect = wire.new_acl(&[wide(2, ANY4, ANY4, 0), wide(2, ANY6, ANY6, 0)]);
    let deny = wire.new_acl(&[wide(0, ANY4, ANY4, 0), wide(0, ANY6, ANY6, 0)]);
    assert_eq!(wire.set_list(1, &[reflect], &[deny]), 0);
    (reflect, deny)
}

#[test]
fn a_reflected_flow_lets_its_answers_pass_and_nothing_else() {
    let (fake, mut wire) = two();
    let (_, deny) = reflecting(&mut wire);
    let asked = tcp("10.0.0.1", "10.0.0.2", 80);
    assert_eq!(fake.packet(1, Out, &asked.reply()), by_rule(deny, 0));
    assert_eq!(fake.packet(1, In, &asked), Verdict::Passed);
    assert_eq!(fake.packet(1, Out, &asked.reply()), Verdict::Passed);
    assert_eq!(fake.state().sessions(), 1);
    for other in [
        Packet {
            source_port: 81,
            ..asked.reply()
        },
        Packet {
            destination_port: 1,
            ..asked.reply()
        },
        Packet {
            protocol: Protocol::UDP,
            ..asked.reply()
        },
        Packet {
            source: ip("10.0.0.3"),
            ..asked.reply()
        },
        asked.reply().fragment(),
    ] {
        assert_eq!(fake.packet(1, Out, &other), by_rule(deny, 0), "{other:?}");
    }
    // A session is looked up before the lists of both ways.
    assert_eq!(fake.packet(1, Out, &asked), Verdict::Passed);
    wire.set_list(2, &[deny], &[deny]);
    assert_eq!(
        fake.packet(2, Out, &asked.reply()),
        by_rule(deny, 0),
        "sessions are of one interface"
    );
}

#[test]
fn a_permit_remembers_nothing() {
    let (fake, mut wire) = two();
    let (reflect, deny) = reflecting(&mut wire);
    assert_eq!(
        wire.acl(reflect, &text("permit"), &[wide(1, ANY4, ANY4, 0)]),
        (reflect, 0)
    );
    let asked = tcp("10.0.0.1", "10.0.0.2", 80);
    assert_eq!(fake.packet(1, In, &asked), Verdict::Passed);
    assert_eq!(fake.packet(1, Out, &asked.reply()), by_rule(deny, 0));
    assert_eq!(fake.state().sessions(), 0);
}

#[test]
fn requests_of_icmp_are_answered_by_their_replies() {
    let (fake, mut wire) = two();
    let (_, deny) = reflecting(&mut wire);
    for (protocol, from, to, asked, answered, rule) in [
        (Protocol::ICMP, "10.0.0.1", "10.0.0.2", 8, 0, 0),
        (Protocol::ICMPV6, "fd00::1", "fd00::2", 128, 129, 1),
    ] {
        let request = packet(protocol, from, asked, to, 0);
        assert_eq!(fake.packet(1, In, &request), Verdict::Passed);
        assert_eq!(request.reply(), packet(protocol, to, answered, from, 0));
        assert_eq!(fake.packet(1, Out, &request.reply()), Verdict::Passed);
        let back = packet(protocol, to, asked, from, 0);
        assert_eq!(
            fake.packet(1, Out, &back),
            by_rule(deny, rule),
            "a request the other way"
        );
    }
}

#[test]
fn messages_of_icmp_that_are_no_requests_are_not_answered() {
    let (fake, mut wire) = two();
    let (_, deny) = reflecting(&mut wire);
    let error = packet(Protocol::ICMP, "10.0.0.1", 3, "10.0.0.2", 1);
    assert_eq!(fake.packet(1, In, &error), Verdict::Passed);
    assert_eq!(fake.state().sessions(), 1);
    assert_eq!(fake.packet(1, Out, &error.reply()), by_rule(deny, 0));
    // ICMP in the other version of IP is a protocol without types.
    let odd = packet(Protocol::ICMPV6, "10.0.0.1", 1, "10.0.0.2", 4);
    assert_eq!(fake.packet(1, In, &odd), Verdict::Passed);
    assert_eq!(fake.packet(1, Out, &odd.reply()), Verdict::Passed);
}

#[test]
fn fragments_have_sessions_of_their_own_with_ports_0() {
    let (fake, mut wire) = two();
    let (_, deny) = reflecting(&mut wire);
    let asked = tcp("10.0.0.1", "10.0.0.2", 80);
    let fragment = Packet {
        fragment: true,
        ..asked
    };
    assert_eq!(fake.packet(1, In, &fragment), Verdict::Passed);
    let other = tcp("10.0.0.1", "10.0.0.2", 443);
    assert_eq!(fake.packet(1, Out, &other.reply().fragment()), Verdict::Passed);
    assert_eq!(fake.packet(1, Out, &asked.reply()), by_rule(deny, 0));
}

#[test]
fn ports_of_sctp_are_0_unless_a_test_wants_them_read() {
    let sctp = |port| packet(Protocol::SCTP, "10.0.0.1", 40000, "10.0.0.2", port);
    let web = |action| rule(action, ANY4, ANY4, 132, (0, 65535), (80, 80));
    for (options, allowed, denied, other) in [
        (Options::new(3), END, Verdict::Passed, Verdict::Passed),
        (Options::new(3).reads_sctp(), Verdict::Passed, by_rule(0, 0), END),
    ] {
        let fake = Fake::start(options.interface("tap1", "")).unwrap();
        let mut wire = Wire::connect(&fake);
        let acl = wire.new_acl(&[web(1)]);
        wire.set_list(1, &[acl], &[]);
        assert_eq!(fake.packet(1, In, &sctp(80)), allowed);
        assert_eq!(fake.packet(1, In, &sctp(81)), END);
        let rules = [web(0), wide(1, ANY4, ANY4, 132)];
        assert_eq!(wire.acl(acl, &text("deny"), &rules), (acl, 0));
        assert_eq!(fake.packet(1, In, &sctp(80)), denied);
        // One association that is reflected lets every other between the two hosts be answered.
        assert_eq!(wire.acl(acl, &text("ask"), &[wide(2, ANY4, ANY4, 0)]), (acl, 0));
        let nothing = wire.new_acl(&[]);
        wire.set_list(1, &[acl], &[nothing]);
        assert_eq!(fake.packet(1, In, &sctp(80)), Verdict::Passed);
        assert_eq!(fake.packet(1, Out, &sctp(81).reply()), other);
    }
}

#[test]
fn the_session_comes_before_the_list_in_both_directions() {
    let (fake, mut wire) = two();
    let (reflect, _) = reflecting(&mut wire);
    let asked = tcp("10.0.0.1", "10.0.0.2", 80);
    fake.packet(1, In, &asked);
    // Replacing what an ACL holds leaves the sessions that it made.
    assert_eq!(
        wire.acl(reflect, &text("deny"), &[wide(0, ANY4, ANY4, 0)]),
        (reflect, 0)
    );
    assert_eq!(fake.packet(1, In, &asked), Verdict::Passed);
    assert_eq!(fake.packet(1, Out, &asked.reply()), Verdict::Passed);
    assert_eq!(
        fake.packet(1, In, &tcp("10.0.0.1", "10.0.0.2", 81)),
        by_rule(reflect, 0)
    );
}

#[test]
fn other_acls_in_a_list_forget_the_sessions_of_the_interface() {
    let (fake, mut wire) = two();
    let (reflect, deny) = reflecting(&mut wire);
    wire.set_list(2, &[reflect], &[deny]);
    let more = wire.new_acl(&[]);
    let asked = tcp("10.0.0.1", "10.0.0.2", 80);
    for (input, output, kept) in [
        (vec![reflect], vec![deny], true),
        (vec![reflect, more], vec![deny], false),
        (vec![more, reflect], vec![deny], true),
        (vec![more, reflect], vec![deny, more], false),
        (vec![more, reflect], vec![], false),
    ] {
        fake.packet(1, In, &asked);
        fake.packet(2, In, &asked);
        let before = fake.state().sessions();
        assert_eq!(wire.set_list(1, &input, &output), 0);
        let after = fake.state().sessions();
        assert_eq!(after, if kept { before } else { 1 }, "{input:?} {output:?}");
        if wire.acl(more, &text("on"), &[wide(2, ANY4, ANY4, 0)]) != (more, 0) {
            unreachable!("the ACL is there");
        }
    }
}

#[test]
fn a_full_table_drops_new_flows_and_keeps_old_ones() {
    let options = Options::new(3).interface("tap1", "").max_sessions(2);
    let fake = Fake::start(options).unwrap();
    let mut wire = Wire::connect(&fake);
    reflecting(&mut wire);
    let flow = |port| tcp("10.0.0.1", "10.0.0.2", port);
    assert_eq!(fake.packet(1, In, &flow(1)), Verdict::Passed);
    assert_eq!(fake.packet(1, In, &flow(2)), Verdict::Passed);
    assert_eq!(fake.packet(1, In, &flow(3)), dropped(DroppedBy::SessionTableFull));
    assert_eq!(fake.packet(1, In, &flow(1)), Verdict::Passed);
    assert_eq!(fake.packet(1, Out, &flow(3).reply()), by_rule(1, 0));
}

#[test]
fn a_journey_goes_in_and_out_and_back() {
    let (fake, mut wire) = two();
    let allow = wire.new_acl(&[wide(1, "10.0.0.1/32", ANY4, 0)]);
    let (reflect, deny) = reflecting(&mut wire);
    let asked = tcp("10.0.0.1", "10.0.0.2", 80);
    let lost = |at, by| Journey::Lost { at, by };
    let denied = |acl| DroppedBy::Rule { acl, rule: 0 };
    // Tap 1 reflects what enters: answers come back to it although it denies what leaves.
    assert_eq!(fake.journey(1, 2, &asked, None), Journey::Answered);
    wire.set_list(2, &[], &[deny]);
    let there = fake.journey(1, 2, &asked, None);
    assert_eq!(
        (there, there.reaches()),
        (lost(Point::Leaves, denied(deny)), false)
    );
    wire.set_list(2, &[deny], &[allow]);
    let answer = fake.journey(1, 2, &asked, None);
    assert_eq!(
        (answer, answer.reaches()),
        (lost(Point::AnswerEnters, denied(deny)), true)
    );
    wire.set_list(1, &[allow], &[deny]);
    wire.set_list(2, &[], &[]);
    let back = fake.journey(1, 2, &asked, None);
    assert_eq!(
        (back, back.reaches()),
        (lost(Point::AnswerLeaves, denied(deny)), true)
    );
    wire.set_list(1, &[deny], &[]);
    assert_eq!(
        fake.journey(1, 2, &asked, None),
        lost(Point::Enters, denied(deny))
    );
    wire.set_list(1, &[reflect], &[]);
    let sessions = fake.state().sessions();
    assert!(fake.state().would_reach(1, 2, &asked, None));
    assert_eq!(fake.state().sessions(), sessions, "only a copy was asked");
}

#[test]
fn translation_lies_between_the_lists() {
    let (fake, mut wire) = two();
    let service = tcp("10.0.0.1", "10.96.0.1", 80);
    let to = Translation {
        destination: ip("10.0.0.2"),
        port: 8080,
        source: None,
    };
    // Where it enters the Service is judged, where it leaves the pod behind it, and the answer comes from the Service again.
    let front = wire.new_acl(&[rule(2, ANY4, "10.96.0.1/32", 6, (0, 65535), (80, 80))]);
    let pod = wire.new_acl(&[rule(1, ANY4, "10.0.0.2/32", 6, (0, 65535), (8080, 8080))]);
    let answers = wire.new_acl(&[rule(1, "10.0.0.2/32", ANY4, 6, (8080, 8080), (0, 65535))]);
    let nothing = wire.new_acl(&[]);
    wire.set_list(1, &[front], &[nothing]);
    wire.set_list(2, &[answers], &[pod]);
    assert_eq!(fake.journey(1, 2, &service, Some(to)), Journey::Answered);
    assert_eq!(
        fake.journey(1, 2, &tcp("10.0.0.1", "10.0.0.2", 8080), None),
        Journey::Lost {
            at: Point::Enters,
            by: DroppedBy::EndOfList
        }
    );
    // Who reaches itself through a Service comes from the address of the NAT.
    let hairpin = Translation {
        destination: ip("10.0.0.1"),
        port: 8080,
        source: Some(ip("10.0.0.254")),
    };
    let own = wire.new_acl(&[wide(1, "10.0.0.254/32", "10.0.0.1/32", 0)]);
    wire.set_list(1, &[], &[own]);
    assert!(fake.journey(1, 1, &service, Some(hairpin)).reaches());
    let plain = Translation {
        source: None,
        ..hairpin
    };
    assert!(!fake.journey(1, 1, &service, Some(plain)).reaches());
    assert_eq!(wire.acl(NEW, &text("last"), &[]).1, 0);
}
