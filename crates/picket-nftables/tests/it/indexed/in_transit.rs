//! Packets that are on their way while one table takes the place of another: who may pass by neither does not pass in between.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use picket_cluster::{Endpoint, Event, Object, Semantics, Snapshot};
use picket_dataplane::{Crossing, Packet};
use picket_engine::{Engine, Program};
use picket_net::{AddressRange, Protocol};
use picket_nftables::model::*;
use picket_nftables::render::indexed::{self, Guard, Options, until_known};
use picket_policy::{Direction, Peer};
use picket_testing::build::{
    RuleBuilder, accept, admin_policy, baseline_policy, block, deny, node, nodes_where, pass, pod, pods_in,
    policy,
};
use picket_testing::flows::representative_flows;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::overtaken::{self, mid_stream, way};
use crate::sample::name;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

const ADDRESSES: [&str; 8] = [
    "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8",
];

/// That of the tables, and another.
const NODES: [(&str, &str); 2] = [("node-0", "10.0.1.1"), ("node-1", "10.0.1.2")];

/// Addresses of nobody.
const OUTSIDE: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

/// At most so many packets that begin connections, and so many others, are sent over each transaction.
const PACKETS: [usize; 2] = [150, 50];

/// The maps that lead packets from own pods, and those that lead packets to them, to the chains of these.
const ENDS: [[&str; 4]; 2] = [
    ["egress4", "egress6", "audit-egress4", "audit-egress6"],
    ["ingress4", "ingress6", "audit-ingress4", "audit-ingress6"],
];

/// A table that judges one end of a packet alone.
fn without(maps: [&str; 4], table: &Table) -> Table {
    let mut draft = table.clone().into_draft();
    for map in draft
        .maps
        .iter_mut()
        .filter(|map| maps.contains(&map.name().as_str()))
    {
        let nothing = Map::new(
            map.name().clone(),
            map.key().to_vec(),
            map.gives(),
            map.interval(),
            [],
        );
        *map = nothing.expect("a map");
    }
    draft.check().expect("a table")
}

/// Packets that pods, nodes and others would begin connections with, and the same of TCP in the middle of one.
fn packets(clusters: [&Snapshot; 2]) -> Vec<Packet> {
    let (mut opening, mut going_on) = (BTreeSet::new(), BTreeSet::new());
    for cluster in clusters {
        let address = |end: &Endpoint, family| match end {
            Endpoint::Node { address, .. } | Endpoint::External(address) => Some(*address),
            Endpoint::Pod(object) => cluster.pods.get(object)?.addresses.of(family),
        };
        for flow in representative_flows(cluster) {
            let ends: [Option<IpAddr>; 2] =
                [&flow.source, &flow.destination].map(|end| address(end, flow.family));
            if let [Some(source), Some(destination)] = ends {
                let between = |protocol, port| {
                    Packet::opening(crossing(source, destination), source, destination, protocol, port)
                };
                opening.insert(between(flow.protocol, flow.port));
                going_on.insert(mid_stream(between(Protocol::TCP, 80)));
            }
        }
    }
    let some = |packets: BTreeSet<Packet>, most: usize| {
        let step = packets.len().div_ceil(most).max(1);
        packets.into_iter().step_by(step)
    };
    let [most, others] = PACKETS;
    some(opening, most).chain(some(going_on, others)).collect()
}

/// How a packet crosses the node.
fn crossing(source: IpAddr, destination: IpAddr) -> Crossing {
    let node: IpAddr = NODES[0].1.parse().expect("an address");
    let (input, output) = ("one".into(), "other".into());
    match (source == node, destination == node) {
        (true, _) => Crossing::Send { output },
        (_, true) => Crossing::Receive { input },
        _ => Crossing::Forward { input, output },
    }
}

/// Nobody passes on the way from one table to another who does not before or after it, by each end alone and by both.
fn nobody_slips_through(old: &Table, new: &Table, packets: &[Packet]) -> Result<(), TestCaseError> {
    let way = way(old, new);
    for maps in [Some(ENDS[0]), Some(ENDS[1]), None] {
        let judging = |table: &Table| maps.map_or_else(|| table.clone(), |maps| without(maps, table));
        overtaken::nobody_slips_through(old, &way, packets, &format!("without {maps:?}"), judging)?;
    }
    Ok(())
}

/// The table of a node that knows its pods, and from which one interface leads away.
fn table(program: &Program, node: Option<&str>) -> Table {
    let options = Options {
        guard: Some(guard()),
        ..Options::default()
    };
    indexed::render_with(program, node, &options).expect("a table")
}

/// The same until an agent that begins knows the cluster.
fn unknown(table: &Table) -> Table {
    let unknown = until_known(table, &guard()).expect("a table");
    unknown.expect("pods are listed")
}

fn guard() -> Guard {
    let uplink = InterfaceName::new("one").expect("a name");
    Guard {
        uplinks: [uplink].into(),
        anti_spoof: false,
    }
}

/// Several events in one step, and at last an agent that begins anew where that many more have happened.
fn follow(
    events: &[Event],
    at_once: usize,
    semantics: &Semantics,
    node: Option<&str>,
) -> Result<(), TestCaseError> {
    let mut engine = Engine::new(semantics.clone());
    let mut before = (table(engine.program(), node), engine.program().snapshot());
    for events in events.chunks(at_once) {
        for event in events {
            engine.apply(event.clone());
        }
        let now = (table(engine.program(), node), engine.program().snapshot());
        let fresh = Engine::compile(&now.1, semantics.clone());
        let packets = packets([&before.1, &now.1]);
        for new in [&now.0, &table(fresh.program(), node)] {
            nobody_slips_through(&before.0, new, &packets)?;
        }
        nobody_slips_through(&unknown(&before.0), &now.0, &packets)?;
        before = now;
    }
    Ok(())
}

/// A pod with one of two teams and one of some addresses, on one of two nodes.
fn some_pod() -> impl Strategy<Value = Object> {
    (0..NAMES.len(), any::<bool>(), 0..12_usize, 0..4_usize).prop_map(|(name, is_red, address, node)| {
        let team = if is_red { "red" } else { "blue" };
        let at = ADDRESSES[if address < 8 {
            name
        } else {
            address % ADDRESSES.len()
        }];
        let node = if node == 0 { "node-1" } else { "node-0" };
        let id = format!("x/{}", NAMES[name]);
        pod(&id)
            .label("name", NAMES[name])
            .label("team", team)
            .ip(at)
            .on(node)
            .into()
    })
}

/// All pods, a team, or one pod.
fn some_pods() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("team=red".to_owned()),
        (0..NAMES.len()).prop_map(|name| format!("name={}", NAMES[name])),
    ]
}

fn some_peer() -> impl Strategy<Value = Peer> {
    let address = 0..ADDRESSES.len() + OUTSIDE.len();
    let place = |at: usize| {
        ADDRESSES
            .iter()
            .chain(&OUTSIDE)
            .nth(at)
            .map(|address| format!("{address}/32"))
    };
    let place = move |at| place(at).expect("an address");
    prop_oneof![
        some_pods().prop_map(|pods| pods_in("x", &pods)),
        address.clone().prop_map(move |at| block(&place(at), &[])),
        address.prop_map(move |at| block("0.0.0.0/0", &[&place(at)])),
        Just(block("10.0.0.0/29", &[])),
        Just(nodes_where("")),
    ]
}

fn some_rules() -> impl Strategy<Value = Vec<(usize, Peer, u16)>> {
    prop::collection::vec((0..4_usize, some_peer(), 79..82_u16), 0..3)
}

/// A rule of a policy that can do what `kinds` say.
fn rule(kinds: [fn() -> RuleBuilder; 4], (kind, peer, last): (usize, Peer, u16)) -> RuleBuilder {
    let rule = kinds[kind]().peer(peer);
    match last {
        79 => rule,
        last => rule.ports(Protocol::UDP, 80, last),
    }
}

/// One of a few policies, as it may be at one time.
fn some_policy() -> impl Strategy<Value = Object> {
    (0..6_usize, some_pods(), any::<bool>(), some_rules()).prop_map(|(name, pods, is_egress, rules)| {
        let direction = if is_egress {
            Direction::Egress
        } else {
            Direction::Ingress
        };
        let policy = match name {
            0 => admin_policy("admin", 7).selects_in("").selects(&pods),
            1 => baseline_policy("baseline", 7).selects_in("").selects(&pods),
            _ => policy(&format!("x/p{name}")).selects(&pods).isolates(direction),
        };
        let kinds: [fn() -> RuleBuilder; 4] = if name < 2 {
            [accept, accept, deny, pass]
        } else {
            [accept; 4]
        };
        let rules = rules.into_iter().map(|one| rule(kinds, one));
        rules
            .fold(policy, |policy, rule| policy.rule(direction, rule))
            .into()
    })
}

fn some_events() -> impl Strategy<Value = Vec<Event>> {
    let change = prop_oneof![
        2 => some_pod().prop_map(Event::Apply),
        4 => some_policy().prop_map(Event::Apply),
        2 => some_policy().prop_map(|policy| Event::Delete(policy.object_ref())),
    ];
    let nodes = NODES.map(|(name, address)| Event::Apply(node(name).ip(address).into()));
    let begin = prop::collection::vec(some_pod().prop_map(Event::Apply), 12);
    let changes = prop::collection::vec(change, 1..40);
    (begin, changes)
        .prop_map(move |(begin, changes)| nodes.iter().cloned().chain(begin).chain(changes).collect())
}

/// The numbers of three blocks of two addresses, those of the six addresses, and what each number means; 0 is none, and nothing.
type Numbers = ([u32; 3], [u32; 6], [u32; 5]);

fn some_numbers() -> impl Strategy<Value = Numbers> {
    let number = 0..6_u32;
    let means = prop::array::uniform5(0..3_u32);
    (
        prop::array::uniform3(number.clone()),
        prop::array::uniform6(number),
        means,
    )
}

/// A table that lets pass what has a number which means 1.
fn numbered((blocks, singles, means): &Numbers) -> Table {
    let address = |host: u32| Ipv4Addr::from_bits(0x0a00_0000 + host).into();
    let block = |first: u32| AddressRange::new(address(first), address(first + 1)).expect("a range");
    let given = |key: Value, number: u32| (number > 0).then(|| (Key::from(key), Datum::Priority(number)));
    let blocks = (0..)
        .zip(blocks)
        .filter_map(|(at, number)| given(Value::addresses(block(2 * at)), *number));
    let singles = (0..)
        .zip(singles)
        .filter_map(|(host, number)| given(Value::address(address(host)), *number));
    let means = (1..)
        .zip(means)
        .filter(|(_, meaning)| **meaning > 0)
        .map(|(number, meaning)| {
            (
                Key::from(Value::priority(number)),
                Datum::Priority(0x8000_0000 + meaning),
            )
        });
    let map = |text, of, is_interval, elements: Vec<_>| {
        Map::new(name(text), vec![of], MapType::Priority, is_interval, elements).expect("a map")
    };
    let mut draft = Draft::new(name("numbered"));
    draft.maps = vec![
        map("blocks", Datatype::Ipv4Address, true, blocks.collect()),
        map("singles", Datatype::Ipv4Address, false, singles.collect()),
        map("means", Datatype::Priority, false, means.collect()),
    ];
    let ask = |map: &str, key| {
        let found = Assigned::Map {
            key: vec![key],
            map: name(map),
        };
        Rule::of([Statement::Set(Slot::Priority, found)], End::Next)
    };
    let base = Base {
        hook: Hook::Forward,
        priority: 0,
        policy: Policy::Drop,
    };
    let rules = [
        ask("blocks", Field::Ipv4Destination),
        ask("singles", Field::Ipv4Destination),
        ask("means", Field::Priority),
        Rule::when(
            [Match::is(Field::Priority, Value::priority(0x8000_0001))],
            Verdict::Accept,
        ),
    ];
    draft.chains = vec![Chain::base(name("forward"), base).with_rules(rules)];
    draft.check().expect("a table")
}

fn to_numbered() -> Vec<Packet> {
    let to = |host: u8| {
        let (source, destination) = ([10, 0, 0, 9].into(), [10, 0, 0, host].into());
        Packet::opening(
            crossing(source, destination),
            source,
            destination,
            Protocol::UDP,
            80,
        )
    };
    (0..6).map(to).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_judged_by_a_number_of_others(old in some_numbers(), new in some_numbers()) {
        nobody_slips_through(&numbered(&old), &numbered(&new), &to_numbered())?;
    }
}

/// Two pods, and policies about them.
fn two_pods(policies: Vec<Object>) -> Program {
    let at = |id: &str, address: &str| {
        let name = id.trim_start_matches("x/").to_owned();
        Object::from(pod(id).label("name", &name).ip(address).on("node-0"))
    };
    let nodes = NODES.map(|(name, address)| Object::from(node(name).ip(address)));
    let pods = [at("x/a", "10.0.0.1"), at("x/b", "10.0.0.2")];
    let cluster: Snapshot = nodes.into_iter().chain(pods).chain(policies).collect();
    Engine::compile(&cluster, Semantics::default()).program().clone()
}

/// In the middle of a connection nobody passes whose other end restricts it, whichever of them that is before and after.
#[test]
fn tcp_that_is_cut_does_not_come_back_while_other_pods_are_restricted() -> Result<(), TestCaseError> {
    let restricted = |name: &str| {
        let policy = policy("x/p").selects(&format!("name={name}"));
        two_pods(vec![policy.isolates(Direction::Egress).into()])
    };
    let [one, other] = ["a", "b"].map(|name| table(&restricted(name), Some("node-0")));
    let addresses = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().expect("an address"));
    let between = |source, destination| {
        let crossing = crossing(source, destination);
        mid_stream(Packet::opening(crossing, source, destination, Protocol::TCP, 80))
    };
    let [a, b] = addresses;
    nobody_slips_through(&one, &other, &[between(a, b), between(b, a)])
}

/// A pod that came while no agent ran, and whom a policy isolates.
#[test]
fn whom_nobody_knew_is_not_open_for_a_moment_once_it_is_known() -> Result<(), TestCaseError> {
    let before = unknown(&table(
        Engine::new(Semantics::default()).program(),
        Some("node-0"),
    ));
    let isolated = policy("x/p").selects("name=b").isolates(Direction::Ingress);
    let after = table(&two_pods(vec![isolated.into()]), Some("node-0"));
    let ends = ["192.0.2.1", "10.0.0.2"].map(|address| address.parse().expect("an address"));
    let [outside, b] = ends;
    let sent_on = Crossing::Send {
        output: "other".into(),
    };
    let packet = |crossing| Packet::opening(crossing, outside, b, Protocol::UDP, 80);
    let packets = [packet(crossing(outside, b)), packet(sent_on)];
    nobody_slips_through(&before, &after, &packets)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nobody_passes_in_between(events in some_events(), at_once in 1..8_usize) {
        follow(&events, at_once, &Semantics::default(), Some("node-0"))?;
    }
}
