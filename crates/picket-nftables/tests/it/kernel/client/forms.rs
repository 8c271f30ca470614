//! A table with every field in every kind of comparison, set and map.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use picket_dataplane::State;
use picket_net::{Family, Interval};
use picket_nftables::model::*;

use crate::sample::{interface, name};

const FIELDS: [(&str, Field); 17] = [
    ("iifname", Field::InputInterface),
    ("oifname", Field::OutputInterface),
    ("source4", Field::Ipv4Source),
    ("destination4", Field::Ipv4Destination),
    ("source6", Field::Ipv6Source),
    ("destination6", Field::Ipv6Destination),
    ("family", Field::Family),
    ("protocol", Field::Protocol),
    ("port", Field::DestinationPort(Transport::Any)),
    ("tcp-port", Field::DestinationPort(Transport::Tcp)),
    ("udp-port", Field::DestinationPort(Transport::Udp)),
    ("sctp-port", Field::DestinationPort(Transport::Sctp)),
    ("icmp-type", Field::IcmpType),
    ("icmpv6-type", Field::Icmpv6Type),
    ("packet-priority", Field::Priority),
    ("packet-mark", Field::Mark),
    ("connection-mark", Field::ConnectionMark),
];

fn interval<T: picket_net::Bound>(first: T, last: T) -> Interval<T> {
    Interval::new(first, last).expect("an interval")
}

/// Two different values of a type.
fn singles(datatype: Datatype) -> [Value; 2] {
    match datatype {
        Datatype::Ipv4Address => [0x0a00_0001, 0xffff_ffff].map(|bits| Value::Ipv4(Interval::single(bits))),
        Datatype::Ipv6Address => [1, u128::MAX].map(|bits| Value::Ipv6(Interval::single(bits))),
        Datatype::Interface => ["eth0", "a-long-name-123"].map(interface),
        Datatype::Mark => [0, 0x1234].map(|mark| Value::Mark(Interval::single(mark))),
        Datatype::Priority => [7, 0x1_0003].map(|class| Value::Priority(Interval::single(class))),
        Datatype::Protocol => [6, 50].map(|number| Value::Protocol(Interval::single(number))),
        Datatype::Port => [80, 65_535].map(Value::port),
        Datatype::IcmpType => [0, 8].map(|kind| Value::IcmpType(Interval::single(kind))),
        Datatype::Icmpv6Type => [133, 255].map(|kind| Value::Icmpv6Type(Interval::single(kind))),
        Datatype::Family => [Family::Ipv4, Family::Ipv6].map(Value::Family),
    }
}

/// Disjoint intervals of a type in which values have an order, one of them up to the highest.
fn intervals(datatype: Datatype) -> Vec<Value> {
    match datatype {
        Datatype::Ipv4Address => [
            (0x0a00_0000, 0x0aff_ffff),
            (0x0b00_0000, 0x0b7f_ffff),
            (0x0c00_0001, 0x0c00_0009),
            (0xff00_0000, 0xffff_ffff),
        ]
        .map(|(first, last)| Value::Ipv4(interval(first, last)))
        .into(),
        Datatype::Ipv6Address => [
            (0, 5),
            (0xfe80 << 112, (0xfe80 << 112) | u128::MAX >> 16),
            (
                (0xff00 << 112) | 1 << 100,
                (0xff00 << 112) | ((1 << 100) + (1 << 99) - 1),
            ),
        ]
        .map(|(first, last)| Value::Ipv6(interval(first, last)))
        .into(),
        Datatype::Mark => vec![
            Value::Mark(interval(1, 5)),
            Value::Mark(interval(0x1000, u32::MAX)),
        ],
        Datatype::Priority => vec![Value::Priority(interval(1, 0x1_0002))],
        Datatype::Protocol => vec![
            Value::Protocol(interval(1, 5)),
            Value::Protocol(interval(200, 255)),
        ],
        Datatype::Port => vec![Value::Port(interval(0, 79)), Value::Port(interval(8080, 65_535))],
        Datatype::IcmpType => vec![Value::IcmpType(interval(3, 5))],
        Datatype::Icmpv6Type => vec![Value::Icmpv6Type(interval(133, 137))],
        Datatype::Interface | Datatype::Family => vec![],
    }
}

fn keys(datatype: Datatype, ranges: bool) -> BTreeSet<Key> {
    let values = if ranges {
        intervals(datatype)
    } else {
        singles(datatype).into()
    };
    values.into_iter().map(Key::from).collect()
}

/// The keys with a port beside each.
fn with_port(keys: &BTreeSet<Key>, port: &Value) -> Vec<Key> {
    keys.iter()
        .map(|key| Key::of(key.values().iter().cloned().chain([port.clone()])))
        .collect()
}

/// Sets and maps for one field, and rules that look the field up in them.
fn looked_up(draft: &mut Draft, rules: &mut Vec<Rule>, text: &str, field: Field) {
    let datatype = field.datatype();
    for ranges in [false, true] {
        let keys = keys(datatype, ranges);
        let kind = if ranges { "ranges" } else { "exact" };
        let set = name(&format!("{text}-{kind}"));
        draft
            .sets
            .push(Set::new(set.clone(), vec![datatype], ranges, keys.clone()).expect("a set"));
        for relation in [Relation::Is, Relation::IsNot] {
            let found = Match::Lookup {
                key: vec![field],
                relation,
                set: set.clone(),
            };
            rules.push(Rule::when([found], Verdict::Accept));
        }
        let both = name(&format!("{text}-{kind}-port"));
        let port = if ranges {
            Value::Port(interval(1, 9))
        } else {
            Value::port(9)
        };
        let pairs = with_port(&keys, &port);
        draft
            .sets
            .push(Set::new(both.clone(), vec![datatype, Datatype::Port], ranges, pairs).expect("a set"));
        let key = vec![field, Field::DestinationPort(Transport::Any)];
        let found = Match::Lookup {
            key,
            relation: Relation::Is,
            set: both,
        };
        rules.push(Rule::when([found], Verdict::Drop));
        for (gives, slot, datum) in [
            (MapType::Mark, Slot::Mark, Datum::Mark(0x102)),
            (MapType::Priority, Slot::Priority, Datum::Priority(0x1_0002)),
        ] {
            let map = name(&format!("{text}-{kind}-{}", gives.keyword()));
            let pairs = keys.iter().map(|key| (key.clone(), datum.clone()));
            let made = Map::new(map.clone(), vec![datatype], gives, ranges, pairs).expect("a map");
            draft.maps.push(made.commented(Comment::of(text)));
            let given = Assigned::Map {
                key: vec![field],
                map,
            };
            rules.push(Rule::of([Statement::Set(slot, given)], End::Next));
        }
        let map = name(&format!("{text}-{kind}-verdicts"));
        let verdicts = [Verdict::Goto(name("last")), Verdict::Return].into_iter().cycle();
        let pairs = keys.iter().cloned().zip(verdicts.map(Datum::Verdict));
        draft
            .maps
            .push(Map::new(map.clone(), vec![datatype], MapType::Verdict, ranges, pairs).expect("a map"));
        rules.push(Rule::of(
            [],
            End::VerdictMap {
                key: vec![field],
                map,
            },
        ));
    }
}

/// Rules that compare a field with values themselves.
fn compared(rules: &mut Vec<Rule>, field: Field) {
    let (singles, intervals) = (singles(field.datatype()), intervals(field.datatype()));
    for value in singles.iter().chain(&intervals) {
        for relation in [Relation::Is, Relation::IsNot] {
            let value = value.clone();
            rules.push(Rule::when(
                [Match::Compare {
                    field,
                    relation,
                    value,
                }],
                Verdict::Accept,
            ));
        }
    }
    let any_of = |values: &[Value]| Match::AnyOf {
        field,
        values: values.iter().cloned().collect(),
    };
    rules.push(Rule::when([any_of(&singles)], Verdict::Accept));
    if intervals.len() > 1 {
        rules.push(Rule::when([any_of(&intervals), any_of(&singles)], Verdict::Drop));
    }
}

/// Rules in which one comparison says something about the next.
fn combined() -> Vec<Rule> {
    use Field::*;
    let is = |field: Field, at: usize| Match::is(field, singles(field.datatype())[at].clone());
    let protocol = |number| Match::is(Protocol, Value::Protocol(Interval::single(number)));
    let tcp = DestinationPort(Transport::Tcp);
    let rules = [
        vec![is(Ipv4Source, 0), is(Ipv4Destination, 1), is(tcp, 0)],
        vec![is(Family, 0), is(Ipv4Source, 0)],
        vec![is(Ipv4Source, 0), is(Family, 0)],
        vec![protocol(6), is(tcp, 0)],
        vec![protocol(6), is(DestinationPort(Transport::Any), 0)],
        vec![protocol(1), is(IcmpType, 0)],
        vec![is(Ipv4Source, 0), is(IcmpType, 1)],
        vec![is(IcmpType, 1), is(Ipv4Source, 0)],
        vec![is(Family, 1), protocol(58), is(Icmpv6Type, 1)],
        vec![is(Ipv6Source, 0), is(Icmpv6Type, 1)],
        vec![
            is(tcp, 0),
            Match::TcpFlags {
                mask: 0x12,
                relation: Relation::Is,
                value: 2,
            },
        ],
        vec![Match::state([State::Invalid]), Match::NoReversePath],
        vec![Match::LocalSource, is(Ipv4Source, 0)],
        vec![is(Ipv6Source, 0), Match::LocalSource],
        vec![
            Match::state([State::Established, State::Related, State::New, State::Untracked]),
            is(tcp, 1),
        ],
    ];
    rules
        .into_iter()
        .map(|matches| Rule::when(matches, Verdict::Return))
        .collect()
}

fn effects() -> Vec<Rule> {
    let flags = |mask, relation, value| {
        Rule::when(
            [Match::TcpFlags {
                mask,
                relation,
                value,
            }],
            Verdict::Accept,
        )
    };
    let log = |group| {
        let prefix = LogPrefix::new("picket \\ é: ");
        Rule::of([Statement::Log(Log { prefix, group })], End::Reject)
    };
    let limited = |per_second, burst| {
        let [per_second, burst] = [per_second, burst].map(|number| NonZeroU32::new(number).expect("no zero"));
        let log = Log {
            prefix: LogPrefix::new("some"),
            group: Some(7),
        };
        let limit = Statement::Limit(Limit { per_second, burst });
        Rule::of(
            [Statement::Count(name("counted")), limit, Statement::Log(log)],
            End::Next,
        )
    };
    let set = |slot, assigned| Rule::of([Statement::Set(slot, assigned)], End::Next);
    vec![
        flags(0x3f, Relation::Is, 0x12),
        flags(0x3f, Relation::IsNot, 0),
        flags(0x03, Relation::Is, 0),
        flags(0x03, Relation::IsNot, 0),
        flags(0x01, Relation::Is, 1),
        flags(0x07, Relation::IsNot, 3),
        log(None),
        log(Some(0)),
        log(Some(65_535)),
        limited(1, 5),
        limited(u32::MAX / 2, 1_000_000),
        set(Slot::Priority, Assigned::Constant(0x1_0002)),
        set(Slot::Priority, Assigned::Constant(u32::MAX)),
        set(Slot::Mark, Assigned::Constant(0)),
        set(Slot::ConnectionMark, Assigned::Constant(0x8000_0001)),
        set(Slot::Mark, Assigned::Field(Field::ConnectionMark)),
        set(Slot::ConnectionMark, Assigned::Field(Field::Mark)),
        Rule::of([Statement::Count(name("counted"))], End::Next).commented(Comment::of(&"c".repeat(128))),
        Rule::when([], Verdict::Jump(name("last"))).commented(Comment::of("say \"hi\" \\ é $x")),
    ]
}

/// The table.
pub(super) fn table() -> Table {
    let mut draft = Draft::new(name("forms"));
    draft.comment = Some(Comment::of(&"t".repeat(128)));
    draft.counters = vec![Counter {
        name: name("counted"),
        comment: None,
    }];
    let mut rules = Vec::new();
    for (text, field) in FIELDS {
        looked_up(&mut draft, &mut rules, text, field);
        compared(&mut rules, field);
    }
    draft.chains = vec![
        Chain::regular(name("last")),
        Chain::regular(name("lookups")).with_rules(rules),
        Chain::regular(name("combined")).with_rules(combined()),
        Chain::regular(name("effects")).with_rules(effects()),
    ];
    for (text, hook, priority, policy) in [
        ("prerouting", Hook::Prerouting, priority::DSTNAT, Policy::Accept),
        ("input", Hook::Input, i32::MAX, Policy::Drop),
        ("forward", Hook::Forward, i32::MIN, Policy::Drop),
        ("output", Hook::Output, priority::SECURITY, Policy::Accept),
        ("postrouting", Hook::Postrouting, priority::SRCNAT, Policy::Accept),
    ] {
        let base = Base {
            hook,
            priority,
            policy,
        };
        let chain = Chain::base(name(&format!("base-{text}")), base);
        draft.chains.push(chain.commented(Comment::of(text)));
    }
    draft.check().expect("a table")
}
