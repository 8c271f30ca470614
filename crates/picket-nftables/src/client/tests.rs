//! No packet meets more than one transaction that it might notice.

use std::net::Ipv4Addr;
use std::sync::Arc;

use picket_dataplane::Objects;
use picket_linux::{NetworkNamespace, Passing};

use super::*;
use crate::diff::{PORTION, Stages, mixes};
use crate::model::{
    Assigned, Base, Chain, Datatype, Datum, Draft, End, Field, Hook, Key, Map, MapType, Match, Name, Policy,
    Relation, Rule, Set, Slot, Statement, Table, Value, Verdict,
};

/// How often each change is made: one wait may have begun before, for others, and be over soon.
const TIMES: usize = 20;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A table whose base chain has these rules.
fn table(rules: Vec<Rule>, chains: Vec<Chain>, sets: Vec<Set>, maps: Vec<Map>) -> Arc<Table> {
    let base = Base {
        hook: Hook::Forward,
        priority: 0,
        policy: Policy::Drop,
    };
    let mut draft = Draft::new(name("waits"));
    (draft.sets, draft.maps) = (sets, maps);
    draft.chains = vec![Chain::base(name("forward"), base).with_rules(rules)];
    draft.chains.extend(chains);
    Arc::new(draft.check().unwrap())
}

fn destination(host: u8) -> Key {
    Key::from(Value::address(Ipv4Addr::new(10, 0, 0, host).into()))
}

/// What one address sends is judged by one chain or the other, and the first of them says of a number that it means something, or not.
fn led(to: &str, means: bool) -> Arc<Table> {
    let lead = |to: &str| Datum::Verdict(Verdict::Jump(name(to)));
    let leads = [(destination(1), lead(to)), (destination(2), lead("first"))];
    let means = means.then(|| (Key::from(Value::priority(1)), Datum::Priority(7)));
    let map = |text, of, gives, elements: Vec<(Key, Datum)>| {
        Map::new(name(text), vec![of], gives, false, elements).unwrap()
    };
    let given = [(destination(3), Datum::Priority(1))];
    let maps = vec![
        map("numbers", Datatype::Ipv4Address, MapType::Priority, given.into()),
        map(
            "means",
            Datatype::Priority,
            MapType::Priority,
            means.into_iter().collect(),
        ),
        map("leads", Datatype::Ipv4Address, MapType::Verdict, leads.into()),
    ];
    let ask = |map, key| {
        let (map, key) = (name(map), vec![key]);
        let found = Assigned::Map { key, map };
        Rule::of([Statement::Set(Slot::Priority, found)], End::Next)
    };
    let lead = End::VerdictMap {
        key: vec![Field::Ipv4Source],
        map: name("leads"),
    };
    let rules = vec![ask("numbers", Field::Ipv4Destination), Rule::of([], lead)];
    let first = Chain::regular(name("first")).with_rules([ask("means", Field::Priority)]);
    let chains = vec![first, Chain::regular(name("second"))];
    table(rules, chains, Vec::new(), maps)
}

/// Other addresses are let in, and others are not.
fn listed(hosts: [u8; 2]) -> Arc<Table> {
    let set = |text, host| {
        Set::new(
            name(text),
            vec![Datatype::Ipv4Address],
            false,
            [destination(host)],
        )
        .unwrap()
    };
    let sets = vec![set("denied", hosts[0]), set("allowed", hosts[1])];
    let rule = |set, verdict| {
        let lookup = Match::Lookup {
            key: vec![Field::Ipv4Destination],
            relation: Relation::Is,
            set: name(set),
        };
        Rule::when([lookup], verdict)
    };
    let rules = vec![rule("denied", Verdict::Drop), rule("allowed", Verdict::Accept)];
    table(rules, Vec::new(), sets, Vec::new())
}

/// Makes the second table of the first, time and again; each time, whatever packets were on their way before that have come meanwhile.
#[track_caller]
fn packets_come(client: &mut Client, [old, new]: &[Arc<Table>; 2]) {
    for turn in 1..=TIMES {
        client.sync(old).unwrap();
        client.await_packets();
        let before = Passing::begin();
        client.sync(new).unwrap();
        assert!(before.is_over(), "after {turn} changes");
    }
}

fn open() -> Client {
    Client::open(&NetworkNamespace::create().unwrap()).unwrap()
}

#[test]
fn between_two_changes_packets_come() {
    let mut client = open();
    let tables = [1, 2].map(|host| listed([3, host]));
    client.sync(&tables[0]).unwrap();
    for turn in 1..=TIMES {
        client.await_packets();
        let before = Passing::begin();
        client.sync(&tables[1]).unwrap();
        client.sync(&tables[0]).unwrap();
        assert!(before.is_over(), "after {turn} changes");
    }
}

#[test]
fn between_what_prepares_a_change_and_the_change_packets_come() {
    let tables = [led("first", false), led("second", true)];
    let plan = Table::difference(Some(&tables[0]), &tables[1]);
    let stages = Stages::of(Some(&tables[0]), &plan, PORTION).unwrap();
    assert_eq!((stages.first.len(), stages.unmet), (2, 1));
    assert!(stages.last.is_empty());
    packets_come(&mut open(), &tables);
}

#[test]
fn between_a_table_that_stands_in_and_the_change_packets_come() {
    let tables = [[1, 2], [2, 1]].map(listed);
    let plan = Table::difference(Some(&tables[0]), &tables[1]);
    assert!(mixes(&tables[0], &plan));
    assert_eq!(Stages::of(Some(&tables[0]), &plan, PORTION), None);
    packets_come(&mut open().wary(), &tables);
}
