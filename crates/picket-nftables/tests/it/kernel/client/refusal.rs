//! What the kernel refuses changes nothing and is named.

use std::sync::Arc;

use picket_dataplane::{Objects, Plan};
use picket_linux::NetworkNamespace;
use picket_net::Interval;
use picket_nftables::client::{ApplyError, Client, Object, Observed, SyncError, canonical};
use picket_nftables::diff::Operation;
use picket_nftables::model::*;

use super::{Pair, listed};
use crate::indexed::kernel::hosts::run;
use crate::sample::{self, emptied, name};

const ENOENT: i32 = 2;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;

fn host(number: u8) -> Key {
    Value::address([10, 0, 0, number].into()).into()
}

/// Operations that the kernel refuses of the sample table, and what it says of what.
fn refused() -> Vec<(Operation, Object, i32)> {
    let nothing = || name("nothing");
    let lead = |text: &str| Rule::when([], Verdict::Jump(name(text)));
    let first = |text: &str| Object::Rule(name(text), 0);
    let overlapping = Value::Ipv4(Interval::new(0x0a00_0080, 0x0a00_00ff).expect("an interval"));
    let accept = Rule::when([], Verdict::Accept);
    vec![
        (
            Operation::DeleteSet(name("exact")),
            Object::Container(name("exact")),
            EBUSY,
        ),
        (
            Operation::DeleteMap(name("pods4")),
            Object::Container(name("pods4")),
            EBUSY,
        ),
        (
            Operation::DeleteSet(nothing()),
            Object::Container(nothing()),
            ENOENT,
        ),
        (
            Operation::DeleteChain(name("pod-a")),
            Object::Chain(name("pod-a")),
            EBUSY,
        ),
        (
            Operation::DeleteChain(nothing()),
            Object::Chain(nothing()),
            ENOENT,
        ),
        (
            Operation::DeleteCounter(name("denied-a")),
            Object::Counter(name("denied-a")),
            EBUSY,
        ),
        (Operation::Flush(nothing()), Object::Chain(nothing()), ENOENT),
        (
            Operation::AddRules(nothing(), vec![accept.clone()]),
            first("nothing"),
            ENOENT,
        ),
        (
            Operation::AddRules(name("pod-b"), vec![accept, lead("nothing")]),
            Object::Rule(name("pod-b"), 1),
            ENOENT,
        ),
        (
            Operation::DeleteElements(name("hosts4"), vec![host(77)]),
            Object::Elements(name("hosts4")),
            ENOENT,
        ),
        (
            Operation::AddMapElements(name("pods4"), vec![(host(1), Datum::Verdict(Verdict::Drop))]),
            Object::Elements(name("pods4")),
            EEXIST,
        ),
        (
            Operation::AddElements(name("blocks4"), vec![overlapping.into()]),
            Object::Elements(name("blocks4")),
            EEXIST,
        ),
    ]
}

#[test]
fn a_bad_operation_changes_nothing_and_is_named_with_the_kernel_s_reason() {
    let mut pair = Pair::new();
    let table = sample::table();
    pair.change(None, &table);
    let before = listed(&pair.ours, table.name(), "");
    let good = |number| Operation::AddElements(name("hosts4"), vec![host(number)]);
    for (bad, object, code) in refused() {
        let plan: Plan<_> = [good(50), good(51), bad.clone(), good(52)].into_iter().collect();
        match pair.client.apply(Some(&table), &plan, None) {
            Err(ApplyError::Refused(refusals)) => {
                let found: Vec<_> = refusals
                    .iter()
                    .map(|one| (one.operation, &one.object, one.code))
                    .collect();
                assert_eq!(found, [(2, &object, code)], "{bad:?}");
            }
            other => panic!("{bad:?}: {other:?}"),
        }
        assert_eq!(listed(&pair.ours, table.name(), ""), before, "{bad:?}");
    }
}

#[test]
fn of_what_is_refused_no_portion_stays() {
    let table = sample::table();
    let empty = emptied(&table);
    let base = table.chains().iter().find(|chain| chain.base.is_some());
    let base = base.expect("a base chain").name.clone();
    let regular = table.chains().iter().find(|chain| chain.base.is_none());
    let regular = regular.expect("a chain").name.clone();
    let nowhere = || vec![Rule::when([], Verdict::Jump(name("nothing")))];
    // The last transaction, and one before it.
    for chain in [base, regular] {
        let mut pair = Pair::new();
        pair.change(None, &empty);
        let mut client = Client::open(&pair.ours).expect("a client").in_portions_of(5);
        let before = listed(&pair.ours, table.name(), "");
        let generation = client.generation().expect("a number");
        let bad = Operation::AddRules(chain.clone(), nowhere());
        let operations = Table::difference(Some(&empty), &table).operations().to_vec();
        let plan = operations.into_iter().chain([bad]).collect();
        match client.apply(Some(&empty), &plan, None) {
            Err(ApplyError::Refused(refusals)) => {
                assert_eq!(refusals[0].object, Object::Rule(chain.clone(), 0));
            }
            other => panic!("{chain}: {other:?}"),
        }
        // Something was made, and taken back.
        assert!(client.generation().expect("a number") > generation + 2);
        assert_eq!(listed(&pair.ours, table.name(), ""), before, "{chain}");
    }
}

#[test]
fn what_was_made_first_goes_where_the_rest_is_refused() {
    let mut pair = Pair::new();
    let table = sample::table();
    pair.change(None, &table);
    let before = listed(&pair.ours, table.name(), "");
    let generation = pair.client.generation().expect("a number");
    let (chain, set, counter) = (name("new"), name("new-hosts"), name("new-drops"));
    let hosts = Set::new(set.clone(), vec![Datatype::Ipv4Address], false, [host(1)]).expect("a set");
    let counted = Rule::of(
        [
            Match::is_in(Field::Ipv4Source, set).into(),
            Statement::Count(counter.clone()),
        ],
        End::Verdict(Verdict::Drop),
    );
    let to_it = |key| {
        Operation::AddMapElements(
            name("pods4"),
            vec![(key, Datum::Verdict(Verdict::Goto(chain.clone())))],
        )
    };
    let plan = |key| -> Plan<_> {
        let operations = [
            Operation::AddCounter(Counter {
                name: counter.clone(),
                comment: None,
            }),
            Operation::AddChain {
                name: chain.clone(),
                base: None,
                comment: None,
            },
            Operation::AddSet(hosts.clone()),
            to_it(key),
            Operation::AddRules(chain.clone(), vec![counted.clone()]),
        ];
        operations.into_iter().collect()
    };
    let refused = pair.client.apply(Some(&table), &plan(host(1)), Some(generation));
    let Err(ApplyError::Refused(refusals)) = refused else {
        panic!("there is one for this address: {refused:?}");
    };
    assert_eq!(refusals[0].object, Object::Elements(name("pods4")));
    assert_eq!(listed(&pair.ours, table.name(), ""), before);
    let generation = pair.client.generation().expect("a number");
    let applied = pair.client.apply(Some(&table), &plan(host(9)), Some(generation));
    applied.expect("it is of this generation");
    // Two transactions of ours, and nobody else's.
    assert_eq!(pair.client.generation().expect("a number"), generation + 2);
    assert!(
        listed(&pair.ours, table.name(), "")
            .text
            .contains("10.0.0.9 : goto new")
    );
}

/// The sample table with what no kernel takes: where a packet came from is not known where it leaves.
fn refused_whole() -> Table {
    let mut draft = sample::table().into_draft();
    let base = Base {
        hook: Hook::Output,
        priority: 0,
        policy: Policy::Accept,
    };
    let drop = Rule::when([Match::NoReversePath], Verdict::Drop);
    draft
        .chains
        .push(Chain::base(name("bad"), base).with_rules([drop]));
    draft.check().expect("a table")
}

#[test]
fn what_was_in_force_is_repaired_while_what_should_be_is_refused() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let mut client = Client::open(&namespace).expect("a client");
    let good = Arc::new(sample::table());
    let nothing = Plan::from_iter([]);
    let mut told = 0;
    for is_plan in [false, true] {
        client.sync(&good).expect("it is made");
        let refused = match is_plan {
            false => client.sync(&Arc::new(refused_whole())).map(Some),
            true => client.advance(&Plan::from_iter([Operation::DeleteSet(name("exact"))])),
        };
        assert!(
            matches!(refused, Err(SyncError::Apply(ApplyError::Refused(_)))),
            "{refused:?}"
        );
        assert_eq!(client.table(), Some(&good));
        run(&namespace, "nft", &["flush", "ruleset"], "");
        let repaired = client.advance(&nothing).expect("it is made again");
        told += repaired.map_or(0, |report| report.operations);
        let (_, observed) = client.read(good.name()).expect("a list");
        assert_eq!(observed, Observed::Table(canonical(&good)));
        let again = client.advance(&nothing).expect("it is there");
        assert_eq!(again.map(|report| report.operations), Some(0));
    }
    assert_eq!(told, 2);
}

#[test]
fn every_bad_operation_is_named() {
    let mut pair = Pair::new();
    let table = sample::table();
    pair.change(None, &table);
    let count = 20_000;
    let missing = |index: u32| Operation::DeleteChain(name(&format!("c{index}")));
    let plan: Plan<_> = (0..count).map(missing).collect();
    let Err(ApplyError::Refused(refusals)) = pair.client.apply(Some(&table), &plan, None) else {
        panic!("chains that do not exist cannot be deleted");
    };
    let operations: Vec<usize> = refusals.iter().map(|one| one.operation).collect();
    assert_eq!(operations, (0..count as usize).collect::<Vec<_>>());
    assert_eq!(
        refusals[7].to_string(),
        "operation 7, chain `c7`: No such file or directory (os error 2)"
    );
}

#[test]
fn a_plan_for_another_generation_is_refused() {
    let mut pair = Pair::new();
    let table = sample::table();
    let generation = pair.client.generation().expect("a number");
    run(&pair.ours, "nft", &["add", "table", "inet", "foreign"], "");
    let plan = Table::difference(None, &table);
    let applied = pair.client.apply(None, &plan, Some(generation));
    assert!(matches!(applied, Err(ApplyError::Stale)), "{applied:?}");
    assert_eq!(
        run(&pair.ours, "nft", &["list", "tables"], ""),
        "table inet foreign\n"
    );
    let generation = pair.client.generation().expect("a number");
    let applied = pair.client.apply(None, &plan, Some(generation));
    applied.expect("it is of this generation");
    assert_ne!(pair.client.generation().expect("a number"), generation);
}

#[test]
fn what_is_not_known_is_not_sent() {
    let mut pair = Pair::new();
    let table = sample::table();
    pair.change(None, &table);
    let nothing = name("nothing");
    let looks_up = Rule::when(
        [Match::is_in(Field::Ipv4Source, nothing.clone())],
        Verdict::Accept,
    );
    for unknown in [
        Operation::AddElements(nothing.clone(), vec![host(1)]),
        Operation::DeleteElements(nothing.clone(), vec![host(1)]),
        Operation::AddRules(name("pod-b"), vec![looks_up]),
    ] {
        let plan: Plan<_> = [unknown.clone()].into_iter().collect();
        match pair.client.apply(Some(&table), &plan, None) {
            Err(ApplyError::Unknown { operation: 0, name }) => assert_eq!(name, nothing),
            other => panic!("{unknown:?}: {other:?}"),
        }
        assert!(matches!(
            pair.client.apply(None, &plan, None),
            Err(ApplyError::NoTable { operation: 0 })
        ));
    }
}
