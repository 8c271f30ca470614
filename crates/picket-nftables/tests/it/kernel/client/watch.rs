//! What others do to a table is heard, and what its keeper does is not.

use std::sync::Arc;

use picket_linux::{Epoll, Interest, NetworkNamespace};
use picket_nftables::client::{Change, Client, Observed, Watch, canonical};
use picket_nftables::model::Table;

use crate::indexed::kernel::hosts::run;
use crate::sample;

/// A namespace with the sample table, which a client keeps and a watch listens to.
fn kept(table: &Arc<Table>) -> (NetworkNamespace, Client, Watch) {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let watch = Watch::open(&namespace, table.name()).expect("a watch");
    let mut client = Client::open(&namespace).expect("a client");
    client.sync(table).expect("it is made");
    (namespace, client, watch)
}

#[test]
fn every_foreign_change_of_the_table_is_heard_with_who_made_it() {
    let table = Arc::new(sample::table());
    let (namespace, mut client, mut watch) = kept(&table);
    assert_eq!(watch.changes(client.port()).expect("nothing"), []);
    for command in [
        "flush ruleset",
        "delete table inet picket-sample",
        "delete element inet picket-sample hosts4 { 10.0.0.1 }",
        "add rule inet picket-sample pod-b accept",
        "flush chain inet picket-sample pod-b",
        "add table inet picket-sample { flags dormant; }",
        "add counter inet picket-sample more",
    ] {
        run(&namespace, "nft", &["-f", "-"], command);
        let changes = watch.changes(client.port()).expect("a change");
        let [Change::By { thread, program }] = changes.as_slice() else {
            panic!("{command}: {changes:?}");
        };
        assert_eq!(program, "nft", "{command}");
        assert_ne!(*thread, 0, "{command}");
        assert!(client.sync(&table).expect("it is repaired").operations > 0);
        assert_eq!(watch.changes(client.port()).expect("our own"), [], "{command}");
    }
}

#[test]
fn what_is_done_to_other_tables_is_not_heard() {
    let (namespace, client, mut watch) = kept(&Arc::new(sample::table()));
    let script =
        "add table ip picket-sample; add table inet other; add chain inet other c; delete table inet other";
    run(&namespace, "nft", &["-f", "-"], script);
    assert_eq!(watch.changes(client.port()).expect("nothing"), []);
}

#[test]
fn another_client_of_the_same_process_is_another() {
    let table = Arc::new(sample::table());
    let (namespace, client, mut watch) = kept(&table);
    let mut other = Client::open(&namespace).expect("a client");
    let mut draft = Table::clone(&table).into_draft();
    draft.comment = None;
    other
        .sync(&Arc::new(draft.check().expect("a table")))
        .expect("it is made");
    let changes = watch.changes(client.port()).expect("a change");
    assert!(matches!(changes.as_slice(), [Change::By { .. }]), "{changes:?}");
    assert_eq!(watch.changes(other.port()).expect("nothing more"), []);
}

#[test]
fn whoever_waits_for_a_flush_repairs_it_at_once() {
    let table = Arc::new(sample::table());
    let (namespace, mut client, mut watch) = kept(&table);
    watch.changes(client.port()).expect("our own");
    let epoll = Epoll::new().expect("a set");
    epoll
        .add(watch.monitor(), 0, Interest::Read)
        .expect("it can be waited for");
    std::thread::scope(|scope| {
        scope.spawn(|| run(&namespace, "nft", &["flush", "ruleset"], ""));
        loop {
            epoll.wait(None).expect("something");
            if !watch.changes(client.port()).expect("changes").is_empty() {
                break;
            }
        }
        client.sync(&table).expect("it is repaired");
    });
    let (_, observed) = client.read(table.name()).expect("a table");
    assert_eq!(observed, Observed::Table(canonical(&table)));
}
