//! Where others may put into rulesets what they like, no more is read of a table than picket wants there, and some.

use std::fmt::Write;
use std::sync::Arc;

use picket_linux::NetworkNamespace;
use picket_nftables::client::{Client, Counters, Foreign, Observed, Oddity, Place, SyncError, canonical};
use picket_nftables::model::Table;
use picket_nftables::parse;

use crate::indexed::kernel::hosts::run;
use crate::let_go::once_held_by_none;
use crate::sample::{self, name};

fn wary(namespace: &NetworkNamespace) -> Client {
    Client::open(namespace).expect("a client").wary()
}

/// What others do to the sample table, many times with a number.
fn many(count: usize, command: &str) -> String {
    let mut script = String::new();
    for number in 0..count {
        let command = command.replace("NUMBER", &number.to_string());
        writeln!(script, "{}", command.replace("TABLE", "inet picket-sample")).expect("room");
    }
    script
}

/// That a table is altered, as has been found out from how much of something it has.
fn altered(what: &'static str) -> Observed {
    Observed::Altered(vec![Foreign {
        place: Place::Table,
        oddity: Oddity::Value(what),
    }])
}

/// A table of others with a counter, a set with elements, a chain and a rule.
pub(super) const FOREIGN: &str = "
table inet everything {
  counter seen { }
  set hosts { type ipv4_addr; elements = { 10.0.0.1, 10.0.0.2 }; }
  chain rules { ip saddr @hosts counter name seen accept; }
}
";

/// A table that lets somebody reach a port.
fn letting(host: &str, port: u16) -> Arc<Table> {
    let text = format!(
        "table inet t {{\n\tset hosts {{\n\t\ttype ipv4_addr\n\t\telements = {{ {host} }}\n\t}}\n\n\
         \tchain input {{\n\t\ttype filter hook input priority filter; policy drop;\n\
         \t\tip saddr @hosts udp dport {port} accept\n\t}}\n}}\n"
    );
    let listing = parse::listing(&text, "t").expect("a listing");
    Arc::new(listing.table.expect("a table"))
}

/// A packet that is just judged goes on by the rule that was and finds the addresses that are: one from the new host to the old port
/// would pass by neither table.
#[test]
fn a_rule_and_the_addresses_that_it_looks_up_change_behind_another_table() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let mut client = wary(&namespace);
    client.sync(&letting("10.0.0.1", 80)).expect("it is made");
    for (host, port, transactions) in [
        ("10.0.0.2", 80, 1),
        ("10.0.0.2", 81, 1),
        ("10.0.0.3", 82, 3),
        ("10.0.0.4", 82, 1),
    ] {
        let desired = letting(host, port);
        let (before, _) = client.read(desired.name()).expect("it is listed");
        client.sync(&desired).expect("it is changed");
        let (now, observed) = client.read(desired.name()).expect("it is listed");
        assert_eq!(observed, Observed::Table(canonical(&desired)));
        assert_eq!(now, before + transactions, "{host} {port}");
        assert!(!client.exists(&name("t-meanwhile")).expect("an answer"));
    }
}

#[test]
fn what_is_expected_is_read_whatever_others_have_in_tables_of_their_own() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = Arc::new(sample::table());
    let mut client = wary(&namespace);
    client.sync(&table).expect("it is made");
    let script = many(
        100,
        "add chain inet others cNUMBER\nadd set inet others sNUMBER { type mark; }",
    );
    run(
        &namespace,
        "nft",
        &["-f", "-"],
        &format!("add table inet others\n{script}{FOREIGN}"),
    );
    for command in [
        "",
        "delete element TABLE hosts4 { 10.0.0.1 }",
        "flush chain TABLE pod-b",
        "insert rule TABLE pod-b accept",
        "add rule TABLE pod-b tcp dport { 1, 2, 3 } accept",
    ] {
        run(&namespace, "nft", &["-f", "-"], &many(1, command));
        let observed = client.observe(&table).expect("it is read");
        assert_eq!(
            observed,
            client.read(table.name()).expect("it is read").1,
            "{command}"
        );
        assert!(matches!(observed, Observed::Table(_)), "{observed:?}");
        let report = client.sync(&table).expect("it is repaired");
        assert_eq!(report.operations == 0, command.is_empty(), "{command}");
        assert_eq!(report.foreign, [], "it is not made anew");
    }
    // One that knows nothing yet finds out what is there.
    assert_eq!(wary(&namespace).sync(&table).expect("it is there").operations, 0);
}

#[test]
fn a_table_with_far_more_than_picket_wants_is_made_anew_and_not_read_to_the_end() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = Arc::new(sample::table());
    let mut client = wary(&namespace);
    client.sync(&table).expect("it is made");
    let elements =
        (0..70_000).map(|number| format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255));
    let elements: Vec<_> = elements.collect();
    let hosts = format!(
        "flush set TABLE hosts4\nadd element TABLE hosts4 {{ {} }}",
        elements.join(", ")
    );
    for (script, what) in [
        (many(5_000, "add chain TABLE more-NUMBER"), "number of objects"),
        (many(5_000, "add counter TABLE more-NUMBER"), "number of objects"),
        (many(20_000, "add rule TABLE pod-b accept"), "number of rules"),
        (many(1, &hosts), "number of elements"),
    ] {
        run(&namespace, "nft", &["-f", "-"], &script);
        let known = client.observe(&table).expect("it is read");
        let new = wary(&namespace).observe(&table).expect("it is read");
        assert_eq!((known, new), (altered(what), altered(what)));
        let report = client.sync(&table).expect("it is made anew");
        assert_eq!(Observed::Altered(report.foreign), altered(what));
        let (_, observed) = client.read(table.name()).expect("it is read");
        assert_eq!(observed, Observed::Table(canonical(&table)));
    }
}

#[test]
fn chains_of_others_are_listed_by_those_alone_who_do_not_know_what_the_table_had() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = Arc::new(sample::table());
    let mut client = wary(&namespace);
    client.sync(&table).expect("it is made");
    let add = many(1, "add chain TABLE more");
    run(&namespace, "nft", &["-f", "-"], &add);
    assert_eq!(client.observe(&table).expect("it is read"), altered("chains"));
    let report = wary(&namespace).sync(&table).expect("it is repaired");
    assert_eq!((report.operations, report.foreign), (1, vec![]));
    run(&namespace, "nft", &["-f", "-"], &add);
    let report = client.sync(&table).expect("it is made anew");
    assert_eq!(Observed::Altered(report.foreign), altered("chains"));
    // What it was is known as what it should be.
    let mut draft = sample::table().into_draft();
    draft.chains.retain(|chain| chain.base.is_none());
    let less = Arc::new(draft.check().expect("a table"));
    assert_eq!(client.sync(&less).expect("it is changed").foreign, []);
    let (_, observed) = client.read(less.name()).expect("it is read");
    assert_eq!(observed, Observed::Table(canonical(&less)));
}

#[test]
fn of_counters_those_are_read_that_are_asked_for() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = Arc::new(sample::table());
    let mut counters = Counters::open(&namespace, table.name().clone()).expect("a socket");
    let own = || table.counters().iter().map(|counter| counter.name.clone());
    let none = counters.packets_of(own()).expect("no table");
    assert!(none.is_empty(), "{none:?}");
    wary(&namespace).sync(&table).expect("it is made");
    let script = many(
        100,
        "add counter TABLE more-NUMBER\nadd quota TABLE quota-NUMBER { over 1 mbytes }",
    );
    run(&namespace, "nft", &["-f", "-"], &script);
    let all = counters.packets().expect("they are read");
    assert_eq!(all.len(), 100 + own().count());
    let asked = own().chain(["more-7", "quota-7", "absent"].map(name));
    let read = counters.packets_of(asked).expect("they are read");
    let expected = own().chain([name("more-7")]);
    assert_eq!(read, expected.map(|name| (name, 0)).collect());
}

#[test]
fn nobody_tries_to_change_a_table_that_another_holds() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = Arc::new(sample::table());
    let mut thief = Client::open(&namespace).expect("a client").holding();
    thief.sync(&table).expect("it is made");
    let mut draft = sample::table().into_draft();
    draft.chains.retain(|chain| chain.base.is_none());
    let less = Arc::new(draft.check().expect("a table"));
    // Who is to hold it cannot, even though it is as it should be; for others that is enough.
    for (mut client, desired) in [
        (wary(&namespace).holding(), &table),
        (wary(&namespace), &less),
        (wary(&namespace).holding(), &less),
    ] {
        let error = client.sync(desired).expect_err("it is held");
        assert!(
            matches!(error, SyncError::Held { socket } if socket == thief.port().0),
            "{error}"
        );
    }
    assert_eq!(wary(&namespace).sync(&table).expect("it is there").operations, 0);
    drop(thief);
    // The same of one that has made the table itself, and to whom nothing says that it has changed hands.
    let mut client = wary(&namespace);
    assert_eq!(client.sync(&table).expect("it is there").operations, 0);
    let mut thief = Client::open(&namespace).expect("a client").holding();
    once_held_by_none(|| thief.sync(&table));
    assert_eq!(client.sync(&table).expect("it is there").operations, 0);
    let error = client.sync(&less).expect_err("it is held");
    assert!(
        matches!(error, SyncError::Held { socket } if socket == thief.port().0),
        "{error}"
    );
    drop(thief);
    assert_ne!(once_held_by_none(|| wary(&namespace).sync(&less)).operations, 0);
}
