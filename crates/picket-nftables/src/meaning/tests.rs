use picket_net::PortRange;

use super::*;
use crate::model::{Comment, Counter, Datatype, Draft, MapType};

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn host(text: &str) -> Value {
    Value::address(text.parse().expect("an address"))
}

fn input(priority: i32, policy: Policy) -> Base {
    Base {
        hook: Hook::Input,
        priority,
        policy,
    }
}

fn packet() -> Packet {
    let crossing = Crossing::Receive { input: "eth0".into() };
    let (source, destination) = ("10.0.0.1", "10.0.0.2");
    Packet::opening(
        crossing,
        source.parse().unwrap(),
        destination.parse().unwrap(),
        Protocol::TCP,
        80,
    )
}

fn tcp(port: u16) -> Match {
    Match::is(Field::DestinationPort(Transport::Tcp), Value::port(port))
}

fn priority_is(priority: u32) -> Match {
    Match::is(Field::Priority, Value::priority(priority))
}

/// A table of one base chain with `rules`, and chains `a` and `b`.
fn table(rules: Vec<Rule>, a: Vec<Rule>, b: Vec<Rule>) -> Table {
    let map = |text, gives, elements: Vec<(Key, Datum)>| {
        Map::new(name(text), vec![Datatype::Ipv4Address], gives, false, elements).expect("a map")
    };
    let mut draft = Draft::new(name("t1"));
    draft.counters = vec![Counter {
        name: name("dropped"),
        comment: None,
    }];
    draft.maps = vec![
        map(
            "classes",
            MapType::Priority,
            vec![(host("10.0.0.1").into(), Datum::Priority(7))],
        ),
        map(
            "verdicts",
            MapType::Verdict,
            vec![(host("10.0.0.1").into(), Datum::Verdict(Verdict::Goto(name("a"))))],
        ),
        map("none1", MapType::Verdict, vec![]),
    ];
    draft.chains = vec![
        Chain::base(name("base1"), input(0, Policy::Accept))
            .with_rules(rules)
            .commented(Comment::of("x")),
        Chain::regular(name("a")).with_rules(a),
        Chain::regular(name("b")).with_rules(b),
    ];
    draft.check().expect("a table")
}

fn drop_all() -> Rule {
    Rule::when([], Verdict::Drop)
}

fn accepts(table: &Table, packet: &Packet) -> bool {
    Interpreter::new(table).outcome(packet).is_accept()
}

fn to(chain: &str, verdict: fn(Name) -> Verdict) -> Rule {
    Rule::when([], verdict(name(chain)))
}

#[test]
fn chains_end_as_their_verdicts_say() {
    let drop = || vec![drop_all()];
    let accept = || vec![Rule::when([], Verdict::Accept)];
    let back = || vec![Rule::when([], Verdict::Return), drop_all()];
    for (sentence, rules, a, b, expected) in [
        (
            "the policy decides what no rule does",
            vec![],
            vec![],
            vec![],
            true,
        ),
        ("a drop is final", drop(), vec![], vec![], false),
        (
            "a jump comes back",
            vec![to("a", Verdict::Jump), drop_all()],
            vec![],
            vec![],
            false,
        ),
        (
            "a return comes back",
            vec![to("a", Verdict::Jump), drop_all()],
            back(),
            vec![],
            false,
        ),
        (
            "an accept does not",
            vec![to("a", Verdict::Jump), drop_all()],
            accept(),
            vec![],
            true,
        ),
        (
            "a goto from a base chain ends in the policy",
            vec![to("a", Verdict::Goto), drop_all()],
            vec![],
            vec![],
            true,
        ),
        (
            "a goto comes back to the jump before it",
            vec![to("a", Verdict::Jump), drop_all()],
            vec![to("b", Verdict::Goto), Rule::when([], Verdict::Accept)],
            vec![],
            false,
        ),
        (
            "a return in a base chain ends in the policy",
            back(),
            vec![],
            vec![],
            true,
        ),
    ] {
        assert_eq!(accepts(&table(rules, a, b), &packet()), expected, "{sentence}");
    }
}

#[test]
fn lookups_that_miss_end_the_rule_without_effect() {
    let classify = |field| {
        Statement::Set(
            Slot::Priority,
            Assigned::Map {
                key: vec![field],
                map: name("classes"),
            },
        )
    };
    let verdicts = |field, map| {
        Rule::of(
            [],
            End::VerdictMap {
                key: vec![field],
                map: name(map),
            },
        )
    };
    for (sentence, rules, expected) in [
        (
            "a found value is there for the next rule",
            vec![
                Rule::of([classify(Field::Ipv4Source)], End::Next),
                Rule::when([priority_is(7)], Verdict::Accept),
                drop_all(),
            ],
            true,
        ),
        (
            "a missing value leaves the old one",
            vec![
                Rule::of([Statement::Set(Slot::Priority, Assigned::Constant(5))], End::Next),
                Rule::of([classify(Field::Ipv4Destination)], End::Verdict(Verdict::Drop)),
                Rule::when([priority_is(5)], Verdict::Accept),
                drop_all(),
            ],
            true,
        ),
        (
            "a verdict that is found counts",
            vec![verdicts(Field::Ipv4Source, "verdicts"), drop_all()],
            true,
        ),
        (
            "a verdict that is not found does not",
            vec![verdicts(Field::Ipv4Source, "none1"), drop_all()],
            false,
        ),
        (
            "a field of the other family ends the rule, also for inequality",
            vec![
                Rule::when(
                    [Match::Compare {
                        field: Field::Ipv6Source,
                        relation: Relation::IsNot,
                        value: host("fe80::1"),
                    }],
                    Verdict::Drop,
                ),
                Rule::when([], Verdict::Accept),
            ],
            true,
        ),
        (
            "an interface that is not there equals nothing",
            vec![
                Rule::when(
                    [Match::Compare {
                        field: Field::OutputInterface,
                        relation: Relation::IsNot,
                        value: Value::Interface(InterfaceName::new("lo").expect("a name")),
                    }],
                    Verdict::Accept,
                ),
                drop_all(),
            ],
            true,
        ),
    ] {
        assert_eq!(
            accepts(&table(rules, vec![], vec![]), &packet()),
            expected,
            "{sentence}"
        );
    }
}

#[test]
fn tcp_ports_are_only_those_of_tcp_but_th_reads_whatever_is_there() {
    let range = Value::ports(PortRange::new(80, 90).expect("a range"));
    let rules = |transport| {
        vec![Rule::when(
            [Match::is(Field::DestinationPort(transport), range.clone())],
            Verdict::Drop,
        )]
    };
    let mut icmp = packet();
    icmp.protocol = Protocol::ICMP;
    for (transport, packet, accepted) in [
        (Transport::Tcp, packet(), false),
        (Transport::Udp, packet(), true),
        (Transport::Any, packet(), false),
        (Transport::Tcp, icmp.clone(), true),
        (Transport::Any, icmp, false),
    ] {
        assert_eq!(
            accepts(&table(rules(transport), vec![], vec![]), &packet),
            accepted,
            "{transport:?}"
        );
    }
}

#[test]
fn an_accept_leads_to_the_next_base_chain_and_a_drop_does_not() {
    for (first, second, expected) in [
        (Verdict::Accept, Verdict::Drop, false),
        (Verdict::Accept, Verdict::Accept, true),
        (Verdict::Drop, Verdict::Accept, false),
    ] {
        let chain = |text, priority, verdict| {
            Chain::base(name(text), input(priority, Policy::Drop)).with_rules([Rule::when([], verdict)])
        };
        let mut draft = Draft::new(name("t1"));
        draft.chains = vec![
            chain("late", 10, second.clone()),
            chain("early", -10, first.clone()),
        ];
        assert_eq!(
            accepts(&draft.check().expect("a table"), &packet()),
            expected,
            "{first:?} then {second:?}"
        );
    }
}

#[test]
fn a_drop_names_its_place_and_the_counter_of_its_rule() {
    let counted = Rule::of(
        [tcp(80).into(), Statement::Count(name("dropped"))],
        End::Verdict(Verdict::Drop),
    );
    let outcome =
        Interpreter::new(&table(vec![to("a", Verdict::Jump)], vec![counted], vec![])).outcome(&packet());
    let place = "rule 0 of chain a".to_owned();
    assert_eq!(
        outcome,
        Outcome::Drop {
            place,
            counter: Some("dropped".into())
        }
    );
}

#[test]
fn connection_state_is_unknown_before_conntrack_and_its_mark_needs_a_connection() {
    let chain = |priority, rules: Vec<Rule>| {
        let mut draft = Draft::new(name("t1"));
        let base = Base {
            hook: Hook::Prerouting,
            priority,
            policy: Policy::Accept,
        };
        draft.chains = vec![Chain::base(name("base1"), base).with_rules(rules)];
        draft.check().expect("a table")
    };
    let new_is_dropped = || vec![Rule::when([Match::state([State::New])], Verdict::Drop)];
    assert!(accepts(&chain(-300, new_is_dropped()), &packet()));
    assert!(!accepts(&chain(0, new_is_dropped()), &packet()));
    let marked = vec![Rule::when(
        [Match::is(Field::ConnectionMark, Value::mark(0))],
        Verdict::Drop,
    )];
    let untracked = Packet {
        state: State::Untracked,
        ..packet()
    };
    assert!(!accepts(&chain(0, marked.clone()), &packet()));
    assert!(accepts(&chain(0, marked), &untracked));
}
