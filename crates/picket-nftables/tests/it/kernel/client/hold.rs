//! A table that a client holds is its own while it lives, and outlives it.

use std::process::Command;
use std::sync::Arc;

use picket_dataplane::{Objects, Plan};
use picket_linux::NetworkNamespace;
use picket_nftables::client::{Client, Observed, SyncError, canonical};
use picket_nftables::diff::Operation;
use picket_nftables::model::{Name, Set, Table};
use picket_nftables::parse;

use crate::let_go::{once_free, once_held_by_none};
use crate::sample;

fn nft(namespace: &NetworkNamespace, command: &str) -> Result<String, String> {
    let output = namespace
        .run(|| {
            Command::new("nft")
                .args(command.split(' ').filter(|word| !word.is_empty()))
                .output()
                .expect("nft")
        })
        .expect("a namespace");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

fn holding(namespace: &NetworkNamespace) -> Client {
    Client::open(namespace).expect("a client").holding()
}

/// The same table with another comment, so that it has to be made anew.
fn renamed(table: &Table) -> Arc<Table> {
    let mut draft = table.clone().into_draft();
    draft.comment = None;
    Arc::new(draft.check().expect("a table"))
}

#[test]
fn nobody_else_changes_a_held_table() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = Arc::new(sample::table());
    let mut client = holding(&namespace);
    client.sync(&table).expect("it is made");
    for anew in [renamed(&table), Arc::clone(&table)] {
        client.sync(&anew).expect("it is made anew");
        let listed = nft(&namespace, "list table inet picket-sample").expect("a table");
        nft(&namespace, "flush ruleset").expect("others are flushed");
        for command in [
            "delete table inet picket-sample",
            "flush chain inet picket-sample pod-b",
            "insert rule inet picket-sample pod-b accept",
            "delete element inet picket-sample hosts4 { 10.0.0.1 }",
            "add table inet picket-sample { flags dormant; }",
        ] {
            let refusal = nft(&namespace, command).expect_err("nobody else may");
            assert!(
                refusal.contains("Operation not permitted"),
                "{command}: {refusal}"
            );
        }
        assert_eq!(nft(&namespace, "list table inet picket-sample"), Ok(listed));
        assert_eq!(client.sync(&anew).expect("it is there").operations, 0);
    }
}

/// The plans from one table to the other and back.
fn ways(one: &Table, other: &Table) -> [Plan<Operation>; 2] {
    [
        Table::difference(Some(one), other),
        Table::difference(Some(other), one),
    ]
}

/// The same table without one of its elements.
fn fewer(table: &Table) -> Table {
    let mut draft = table.clone().into_draft();
    let without = |set: Set| {
        let elements = set.elements().iter().skip(1).cloned();
        Set::new(set.name().clone(), set.key().to_vec(), set.interval(), elements).expect("a set")
    };
    draft.sets = draft.sets.into_iter().map(without).collect();
    draft.check().expect("a table")
}

#[test]
fn only_who_holds_the_table_needs_not_look_what_others_did() {
    let table = sample::table();
    let few = fewer(&table);
    let ways = ways(&table, &few);
    for holds in [true, false] {
        let namespace = NetworkNamespace::create().expect("a namespace");
        let client = Client::open(&namespace).expect("a client");
        let mut client = if holds { client.holding() } else { client };
        assert_eq!(client.advance(&ways[0]).expect("nothing is done"), None);
        client.sync(&Arc::new(table.clone())).expect("it is made");
        for (plan, now) in ways.iter().zip([&few, &table]) {
            nft(&namespace, "add table inet foreign").expect("a table of others");
            let report = client
                .advance(plan)
                .expect("it is made")
                .expect("what was there is known");
            assert_eq!(
                (report.operations > 0, report.readings),
                (true, usize::from(!holds))
            );
            let (_, observed) = client.read(table.name()).expect("it can be read");
            assert_eq!(observed, Observed::Table(canonical(now)));
            nft(&namespace, "flush ruleset").expect("what nobody holds is flushed");
            let nothing = Plan::from_iter([]);
            let report = client
                .advance(&nothing)
                .expect("it is there")
                .expect("it is known");
            assert_eq!(report.operations > 0, !holds, "what was flushed is made again");
            let (_, observed) = client.read(table.name()).expect("it can be read");
            assert_eq!(observed, Observed::Table(canonical(now)));
        }
    }
}

/// What a listing of nft says of the table.
fn listed(namespace: &NetworkNamespace, arguments: &str) -> Option<Table> {
    let listing = nft(namespace, &format!("{arguments} list ruleset")).expect("a listing");
    parse::listing(&listing, "picket-sample")
        .expect("a ruleset")
        .table
}

#[test]
fn the_next_keeper_takes_it_when_the_first_has_gone() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = Arc::new(sample::table());
    let mut first = holding(&namespace);
    first.sync(&table).expect("it is made");
    let mut second = holding(&namespace);
    let error = second.sync(&table).expect_err("it is another's");
    assert!(matches!(error, SyncError::Held { .. }), "{error}");
    let text = listed(&namespace, "").expect("a table");
    drop(first);
    assert_eq!(listed(&namespace, "").as_ref(), Some(&text));
    assert!(listed(&namespace, "-j").is_some());
    let (_, observed) = second.read(table.name()).expect("it can be read");
    assert_eq!(observed, Observed::Table(canonical(&table)));
    assert_eq!(once_held_by_none(|| second.sync(&table)).operations, 0);
    nft(&namespace, "delete table inet picket-sample").expect_err("it is held again");
    drop(second);
    once_free(
        |error: &String| error.contains("Operation not permitted"),
        || nft(&namespace, "delete table inet picket-sample"),
    );
}

#[test]
fn a_table_that_was_everybodys_is_held_from_then_on() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = Arc::new(sample::table());
    let mut open = Client::open(&namespace).expect("a client");
    open.sync(&table).expect("it is made");
    let mut client = holding(&namespace);
    assert_eq!(client.sync(&table).expect("it is made anew").operations, 1);
    nft(&namespace, "flush ruleset").expect("others are flushed");
    assert_eq!(client.sync(&table).expect("it is there").operations, 0);
    let error = open.sync(&renamed(&table)).expect_err("it is another's");
    assert!(matches!(error, SyncError::Apply(_)), "{error}");
}

#[test]
fn a_table_that_is_made_anew_is_never_alone() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = Arc::new(sample::table());
    let other = renamed(&table);
    let mut client = Client::open(&namespace).expect("a client");
    let became = |client: &mut Client, table: &Arc<Table>| {
        let before = client.generation().expect("a generation");
        let report = client.sync(table).expect("it is made");
        assert!(report.operations > 0);
        let tables = nft(&namespace, "list tables").expect("a listing");
        assert_eq!(tables.trim(), "table inet picket-sample");
        client.generation().expect("a generation") - before
    };
    let took = |client: &mut Client| became(client, &table);
    assert_eq!(took(&mut client), 1, "there is nothing to replace");
    assert_eq!(
        became(&mut client, &other),
        3,
        "another is replaced that is known"
    );
    assert_eq!(took(&mut client), 3, "and so is that");
    // Another table has the rules while the one is exchanged for the other.
    nft(
        &namespace,
        "add chain inet picket-sample foreign { type nat hook prerouting priority 7; }",
    )
    .expect("a chain of others");
    assert_eq!(took(&mut client), 3, "what others have changed is replaced");
    let mut client = holding(&namespace);
    assert_eq!(took(&mut client), 3, "what is to be held is replaced");
    assert_eq!(became(&mut client, &other), 3, "what is held is replaced");
    assert_eq!(client.sync(&other).expect("it is there").operations, 0);
}

#[test]
fn where_the_rules_cannot_be_in_another_table_meanwhile_they_are_made_all_the_same() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let mut client = Client::open(&namespace).expect("a client");
    client.sync(&Arc::new(sample::table())).expect("it is made");
    // Somebody else holds a table of this name.
    let mut draft = sample::table().into_draft();
    draft.name = Name::new("picket-sample-meanwhile").expect("a name");
    let mut other = holding(&namespace);
    let theirs = Arc::new(draft.check().expect("a table"));
    other.sync(&theirs).expect("it is made");
    nft(
        &namespace,
        "add chain inet picket-sample foreign { type nat hook prerouting priority 7; }",
    )
    .expect("a chain of others");
    let report = client.sync(&Arc::new(sample::table())).expect("it is made anew");
    assert_eq!(report.foreign.len(), 1);
    let (_, observed) = other.read(theirs.name()).expect("it can be read");
    assert!(matches!(observed, Observed::Table(_)), "it is as it was");
}

#[test]
fn what_stands_in_for_a_table_that_is_made_anew_goes_where_that_is_refused() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = Arc::new(sample::table());
    let mut holder = holding(&namespace);
    holder.sync(&table).expect("it is made");
    let mut other = Client::open(&namespace).expect("a client");
    let refused = other.sync(&renamed(&table));
    assert!(
        matches!(&refused, Err(SyncError::Apply(error)) if error.to_string().contains("not permitted")),
        "{refused:?}"
    );
    assert_eq!(
        nft(&namespace, "list tables"),
        Ok("table inet picket-sample\n".to_owned())
    );
}
