//! A table that uses every part of the model.

use picket_dataplane::State;
use picket_net::Interval;
use picket_nftables::model::*;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

pub(crate) fn interface(text: &str) -> Value {
    Value::Interface(InterfaceName::new(text).expect("an interface name"))
}

fn v4(first: [u8; 4], last: [u8; 4]) -> Value {
    Value::Ipv4(Interval::new(u32::from_be_bytes(first), u32::from_be_bytes(last)).expect("an interval"))
}

fn v6(text: &str) -> Value {
    Value::address(text.parse().expect("an address"))
}

fn sets() -> Vec<Set> {
    use Datatype::*;
    let set = |text, key: &[Datatype], interval, elements: Vec<Key>| {
        Set::new(name(text), key.to_vec(), interval, elements).expect("a set")
    };
    let allowed = |class, protocol, first, last| {
        let ports = Value::Port(Interval::new(first, last).expect("an interval"));
        Key::of([Value::priority(class), Value::protocol(protocol), ports])
    };
    vec![
        set(
            "interfaces",
            &[Interface],
            false,
            vec![interface("eth0").into(), interface("net1").into()],
        )
        .commented(Comment::of("say \"hi\" $x \\ é")),
        set(
            "hosts4",
            &[Ipv4Address],
            false,
            vec![v4([10, 0, 0, 1], [10, 0, 0, 1]).into()],
        ),
        set(
            "blocks4",
            &[Ipv4Address],
            true,
            vec![
                v4([10, 0, 0, 0], [10, 0, 0, 255]).into(),
                v4([10, 0, 2, 0], [10, 0, 9, 7]).into(),
                v4([10, 1, 0, 1], [10, 1, 0, 1]).into(),
            ],
        ),
        set(
            "everything4",
            &[Ipv4Address],
            true,
            vec![Value::Ipv4(Interval::ALL).into()],
        ),
        set(
            "everything6",
            &[Ipv6Address],
            true,
            vec![Value::Ipv6(Interval::ALL).into()],
        ),
        set("empty", &[Ipv6Address], true, vec![]),
        set(
            "hosts6",
            &[Ipv6Address],
            false,
            vec![v6("2001:db8::1").into(), v6("fe80::1").into()],
        ),
        set(
            "exact",
            &[Priority, Protocol, Port],
            false,
            vec![
                allowed(2, picket_net::Protocol::TCP, 80, 80),
                allowed(0x1_0003, picket_net::Protocol::SCTP, 80, 80),
            ],
        ),
        set(
            "ranges",
            &[Priority, Protocol, Port],
            true,
            vec![
                allowed(2, picket_net::Protocol::TCP, 80, 90),
                allowed(2, picket_net::Protocol::UDP, 1, 65535),
            ],
        ),
    ]
}

fn maps() -> Vec<Map> {
    use Datatype::{Ipv4Address, Ipv6Address, Mark, Priority};
    let jump = |chain| Datum::Verdict(Verdict::Jump(name(chain)));
    vec![
        Map::new(
            name("identity4"),
            vec![Ipv4Address],
            MapType::Priority,
            true,
            [
                (v4([10, 0, 0, 0], [10, 0, 0, 255]).into(), Datum::Priority(2)),
                (v4([10, 0, 1, 0], [10, 0, 1, 3]).into(), Datum::Priority(0x1_0003)),
            ],
        )
        .expect("a map"),
        Map::new(
            name("identity6"),
            vec![Ipv6Address],
            MapType::Mark,
            false,
            [(v6("2001:db8::1").into(), Datum::Mark(7))],
        )
        .expect("a map"),
        Map::new(
            name("classes"),
            vec![Priority, Mark],
            MapType::Priority,
            false,
            [(Key::of([Value::priority(2), Value::mark(7)]), Datum::Priority(9))],
        )
        .expect("a map"),
        Map::new(
            name("pods4"),
            vec![Ipv4Address],
            MapType::Verdict,
            false,
            [
                (v4([10, 0, 0, 1], [10, 0, 0, 1]).into(), jump("pod-a")),
                (
                    v4([10, 0, 0, 2], [10, 0, 0, 2]).into(),
                    Datum::Verdict(Verdict::Goto(name("pod-b"))),
                ),
                (
                    v4([10, 0, 0, 3], [10, 0, 0, 3]).into(),
                    Datum::Verdict(Verdict::Accept),
                ),
                (
                    v4([10, 0, 0, 4], [10, 0, 0, 4]).into(),
                    Datum::Verdict(Verdict::Drop),
                ),
            ],
        )
        .expect("a map")
        .commented(Comment::of("pods of this node")),
    ]
}

fn chains() -> Vec<Chain> {
    use Field::*;
    let any_of = |field, values: Vec<Value>| Match::AnyOf {
        field,
        values: values.into_iter().collect(),
    };
    let allowed_by = |set| Match::Lookup {
        key: vec![Priority, Protocol, DestinationPort(Transport::Any)],
        relation: Relation::Is,
        set: name(set),
    };
    let lookup = |slot, key: &[Field], map| {
        Statement::Set(
            slot,
            Assigned::Map {
                key: key.to_vec(),
                map: name(map),
            },
        )
    };
    let ports = |first, last| Value::Port(Interval::new(first, last).expect("an interval"));
    let pod_a = vec![
        Rule::of([lookup(Slot::Priority, &[Ipv4Source], "identity4")], End::Next),
        Rule::of([lookup(Slot::Mark, &[Ipv6Source], "identity6")], End::Next),
        Rule::of([lookup(Slot::Priority, &[Priority, Mark], "classes")], End::Next),
        Rule::when([allowed_by("exact")], Verdict::Accept),
        Rule::when([allowed_by("ranges")], Verdict::Accept),
        Rule::of(
            [
                Statement::Count(name("denied-a")),
                Statement::Log(Log {
                    prefix: LogPrefix::new("picket: "),
                    group: Some(3),
                }),
            ],
            End::Verdict(Verdict::Drop),
        )
        .commented(Comment::of("Drop rule")),
    ];
    let pod_b = vec![
        Rule::when(
            [Match::is(DestinationPort(Transport::Tcp), Value::port(80))],
            Verdict::Accept,
        ),
        Rule::when(
            [any_of(
                DestinationPort(Transport::Udp),
                vec![ports(53, 53), ports(60, 70)],
            )],
            Verdict::Accept,
        ),
        Rule::when(
            [Match::is(DestinationPort(Transport::Sctp), ports(1, 9))],
            Verdict::Return,
        ),
        Rule::when(
            [Match::is(Protocol, Value::protocol(picket_net::Protocol::ICMPV6))],
            Verdict::Accept,
        ),
        Rule::when(
            [Match::is(Protocol, Value::Protocol(Interval::single(50)))],
            Verdict::Accept,
        ),
        Rule::when(
            [Match::is(IcmpType, Value::IcmpType(Interval::single(8)))],
            Verdict::Accept,
        ),
        Rule::when(
            [any_of(
                Icmpv6Type,
                vec![
                    Value::Icmpv6Type(Interval::single(2)),
                    Value::Icmpv6Type(Interval::new(133, 137).expect("an interval")),
                ],
            )],
            Verdict::Accept,
        ),
    ];
    let base = |hook, priority, policy| Base {
        hook,
        priority,
        policy,
    };
    let forward = vec![
        Rule::when(
            [Match::state([State::Established, State::Related])],
            Verdict::Accept,
        ),
        Rule::when(
            [
                Match::state([State::New]),
                Match::TcpFlags {
                    mask: 0x17,
                    relation: Relation::IsNot,
                    value: 2,
                },
            ],
            Verdict::Drop,
        ),
        Rule::when([Match::NoReversePath], Verdict::Drop),
        Rule::when([Match::LocalSource], Verdict::Accept),
        Rule::of([Statement::Set(Slot::Priority, Assigned::Constant(0))], End::Next),
        Rule::of(
            [Statement::Set(Slot::Mark, Assigned::Constant(0x4000))],
            End::Next,
        ),
        Rule::of(
            [Statement::Set(Slot::ConnectionMark, Assigned::Field(Mark))],
            End::Next,
        ),
        Rule::of(
            [Statement::Set(Slot::Mark, Assigned::Field(ConnectionMark))],
            End::Next,
        ),
        Rule::when(
            [Match::is_in(InputInterface, name("interfaces"))],
            Verdict::Jump(name("pod-b")),
        ),
        Rule::when(
            [
                Match::is(OutputInterface, interface("eth0")),
                Match::is(Ipv6Destination, v6("fe80::1")),
            ],
            Verdict::Accept,
        ),
        Rule::when(
            [
                Match::Lookup {
                    key: vec![Ipv4Source],
                    relation: Relation::IsNot,
                    set: name("blocks4"),
                },
                Match::is(Ipv4Source, v4([10, 0, 0, 0], [10, 255, 255, 255])),
                Match::is(Ipv4Destination, v4([10, 0, 0, 1], [10, 0, 0, 5])),
            ],
            Verdict::Goto(name("pod-b")),
        ),
        Rule::when(
            [Match::is(Family, Value::Family(picket_net::Family::Ipv6))],
            Verdict::Accept,
        ),
        Rule::of(
            [],
            End::VerdictMap {
                key: vec![Ipv4Destination],
                map: name("pods4"),
            },
        ),
    ];
    vec![
        Chain::base(name("forward"), base(Hook::Forward, -5, Policy::Drop)).with_rules(forward),
        Chain::base(name("input"), base(Hook::Input, priority::FILTER, Policy::Accept))
            .commented(Comment::of("Input Dispatcher")),
        Chain::base(
            name("early"),
            base(Hook::Prerouting, priority::RAW, Policy::Accept),
        ),
        Chain::regular(name("pod-a"))
            .with_rules(pod_a)
            .commented(Comment::of("a")),
        Chain::regular(name("pod-b")).with_rules(pod_b),
    ]
}

/// A table of which nothing is there yet but itself.
pub(crate) fn emptied(table: &Table) -> Table {
    let mut draft = Draft::new(table.name().clone());
    draft.comment = table.comment().cloned();
    draft.check().expect("a table")
}

/// The table.
pub(crate) fn table() -> Table {
    let mut draft = Draft::new(name("picket-sample"));
    draft.comment = Some(Comment::of("sample"));
    draft.counters = vec![Counter {
        name: name("denied-a"),
        comment: Some(Comment::of("dropped for a")),
    }];
    draft.sets = sets();
    draft.maps = maps();
    draft.chains = chains();
    draft.check().expect("a table")
}
