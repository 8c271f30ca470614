//! Plans carried out over netlink: the kernel has then what the same plans leave when nft reads them as text, and that is
//! what is read back over netlink.

mod contents;
mod foreign;
mod forms;
mod hold;
mod lost;
mod refusal;
mod sync;
mod wary;
mod watch;

use std::collections::BTreeMap;

use picket_cluster::{Semantics, Snapshot};
use picket_dataplane::{Objects, Plan};
use picket_linux::{NetworkNamespace, Nfnetlink};
use picket_net::Interval;
use picket_nftables::client::{Client, Observed, canonical};
use picket_nftables::diff::{Operation, PORTION, Stages};
use picket_nftables::model::*;
use picket_nftables::{parse, print};
use picket_testing::cases::committed;
use picket_testing::generate::{self, Shape, snapshot};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value as Json;

use contents::Contents;

use crate::indexed::kernel::hosts::run;
use crate::sample::name;
use crate::{arbitrary, indexed, reference, sample};

/// A namespace whose rulesets a client of ours writes, and one whose rulesets nft writes.
struct Pair {
    ours: NetworkNamespace,
    client: Client,
    theirs: NetworkNamespace,
}

impl Pair {
    fn new() -> Self {
        let ours = NetworkNamespace::create().expect("a namespace");
        let client = Client::open(&ours).expect("a client");
        let theirs = NetworkNamespace::create().expect("a namespace");
        Self { ours, client, theirs }
    }

    /// Carries out the way to `desired` in both, and holds what nft lists and what the kernel has against each other.
    fn change(&mut self, observed: Option<&Table>, desired: &Table) {
        let plan = Table::difference(observed, desired);
        let commands = print::commands(desired.name(), &plan);
        let applied = self.client.apply(observed, &plan, None);
        assert!(applied.is_ok(), "{applied:?}\n{commands}");
        if let Some(stages) = Stages::of(observed, &plan, PORTION) {
            for stage in stages.all() {
                listed(
                    &self.theirs,
                    desired.name(),
                    &print::commands(desired.name(), stage),
                );
            }
        } else {
            listed(&self.theirs, desired.name(), &commands);
        }
        let expected = listed(&self.theirs, desired.name(), "");
        let found = listed(&self.ours, desired.name(), "");
        let differing: Vec<_> = (found.text.lines().zip(expected.text.lines()))
            .filter(|(ours, theirs)| ours != theirs)
            .collect();
        assert!(differing.is_empty(), "{differing:#?}\n{commands}");
        assert_eq!(found, expected, "\n{commands}");
        let table = desired.name().as_str();
        let (found, expected) = (Contents::of(&self.ours, table), Contents::of(&self.theirs, table));
        assert_eq!(found, expected, "\n{commands}");
        self.read_back(desired);
    }

    /// Holds what is read over netlink against `table`, whoever wrote it.
    fn read_back(&mut self, table: &Table) {
        let expected = Observed::Table(canonical(table));
        let mut theirs = Client::open(&self.theirs).expect("a client");
        for client in [&mut self.client, &mut theirs] {
            let (generation, observed) = client.read(table.name()).expect("a table");
            assert!(!matches!(observed, Observed::Altered(_)), "{observed:#?}");
            assert_eq!(observed, expected);
            assert_eq!(client.generation().expect("a number"), generation);
        }
    }

    /// Holds what is read over netlink against what is read of nft's listing.
    fn read_as_nft_lists(&mut self, table: &Name) {
        let (_, observed) = self.client.read(table).expect("a table");
        let arguments = ["-n", "-j", "list", "table", "inet", table.as_str()];
        let listing = run(&self.ours, "nft", &arguments, "");
        let listed = parse::table(&listing).expect("one of our tables");
        let observed = match observed {
            Observed::Table(read) => Observed::Table(parse::shown(&read)),
            other => other,
        };
        assert_eq!(observed, Observed::Table(canonical(&listed)));
    }
}

/// What nft prints of a table.
#[derive(Debug, PartialEq)]
struct Listing {
    text: String,
    json: Json,
}

/// What nft lists of a table after it has read `commands`.
fn listed(namespace: &NetworkNamespace, table: &Name, commands: &str) -> Listing {
    const END: &str = "%%end%%";
    let script = format!("nft -f -; nft list table inet {table}; echo {END}; nft -j list table inet {table}");
    let printed = run(namespace, "sh", &["-ec", &script], commands);
    let (text, json) = printed.split_once(END).expect("both listings");
    let mut json = serde_json::from_str(json).expect("JSON");
    forget_handles(&mut json);
    Listing {
        text: text.to_owned(),
        json,
    }
}

/// The kernel numbers objects as they come, so that replacing leaves other numbers than making.
fn forget_handles(json: &mut Json) {
    match json {
        Json::Object(fields) => {
            fields.remove("handle");
            fields.values_mut().for_each(forget_handles);
        }
        Json::Array(items) => items.iter_mut().for_each(forget_handles),
        _ => {}
    }
}

/// Asserts that the kernel has this table.
fn assert_there(namespace: &NetworkNamespace, table: &Table) {
    let mut other = Client::open(namespace).expect("a client");
    let (_, observed) = other.read(table.name()).expect("a list");
    assert_eq!(observed, Observed::Table(canonical(table)));
}

fn runner() -> TestRunner {
    TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    )
}

#[test]
fn every_form_of_the_model_is_written_as_nft_writes_it() {
    let mut pair = Pair::new();
    // In the other, nft lists bytes of ICMP as fields of which it has the names, and cannot read them back.
    for table in [sample::table(), super::documented()] {
        pair.change(None, &table);
        pair.read_as_nft_lists(table.name());
    }
    pair.change(None, &forms::table());
}

#[test]
fn random_plans_leave_what_they_leave_as_text() {
    let (mut pair, mut runner) = (Pair::new(), runner());
    let bytes = prop::collection::vec(any::<u8>(), 160);
    let mut observed: Option<Table> = None;
    for _ in 0..40 {
        let bytes = bytes.new_tree(&mut runner).expect("bytes").current();
        let mut near = bytes.clone();
        near[40] ^= 1;
        near[90] ^= 3;
        for desired in [arbitrary::table(&bytes), arbitrary::table(&near)] {
            pair.change(observed.as_ref(), &desired);
            pair.read_as_nft_lists(desired.name());
            observed = Some(desired);
        }
    }
}

/// The tables of both layouts for a cluster.
fn tables(snapshot: &Snapshot, semantics: &Semantics) -> Vec<Table> {
    let nodes: Vec<Option<&str>> = if snapshot.nodes.is_empty() {
        vec![None]
    } else {
        snapshot.nodes.keys().map(|node| Some(node.as_str())).collect()
    };
    let mut tables: Vec<Table> = nodes
        .into_iter()
        .map(|node| indexed::table_with(snapshot, semantics, node))
        .collect();
    let inside = reference::tables(snapshot, semantics);
    tables.extend(inside.into_values().map(|(table, _)| table));
    tables
}

/// Goes from each table to the next of the same name.
fn change_to_each(pair: &mut Pair, tables: impl IntoIterator<Item = Table>) -> usize {
    let mut observed: BTreeMap<Name, Table> = BTreeMap::new();
    let mut count = 0;
    for desired in tables {
        pair.change(observed.get(desired.name()), &desired);
        pair.read_as_nft_lists(desired.name());
        observed.insert(desired.name().clone(), desired);
        count += 1;
    }
    count
}

#[test]
fn tables_of_random_clusters_are_those_of_their_text() {
    let (mut pair, mut runner) = (Pair::new(), runner());
    let mut rendered = Vec::new();
    for _ in 0..12 {
        let cluster = snapshot(Shape::Tiered, 6)
            .new_tree(&mut runner)
            .expect("a cluster");
        let semantics = generate::semantics().new_tree(&mut runner).expect("semantics");
        rendered.extend(tables(&cluster.current(), &semantics.current()));
    }
    let count = change_to_each(&mut pair, rendered);
    assert!(count > 40, "{count} tables");
}

#[test]
fn tables_of_the_cases_are_those_of_their_text() {
    let cases = committed().expect("the cases of the project");
    let steps = cases.iter().flat_map(|case| case.steps.first());
    // A tenth of them: each table takes nft as long as a hundred take us.
    let rendered = steps
        .step_by(10)
        .flat_map(|step| tables(&step.snapshot(), &Semantics::default()));
    let count = change_to_each(&mut Pair::new(), rendered);
    assert!(count > 20, "{count} tables");
}

/// A table with a set of `count` addresses of every second number, and one with as many intervals.
fn large(count: u32) -> Table {
    let hosts = (0..count).map(|index| Value::Ipv4(Interval::single(0x0a00_0000 + 2 * index)).into());
    let blocks = (0..count).map(|index| {
        let first = 0x2000_0000 + 16 * index;
        Value::Ipv4(Interval::new(first, first + 9).expect("an interval")).into()
    });
    let mut draft = Draft::new(name("large"));
    let key = || vec![Datatype::Ipv4Address];
    draft.sets = vec![
        Set::new(name("hosts"), key(), false, hosts).expect("a set"),
        Set::new(name("blocks"), key(), true, blocks).expect("a set"),
    ];
    draft.check().expect("a table")
}

/// How many elements the kernel has in a set of that table.
fn count(socket: &mut Nfnetlink, set: &str) -> usize {
    const GETSETELEM: u8 = 13;
    const INET: u8 = 1;
    let set = format!("{set}\0");
    let replies = socket.dump(
        GETSETELEM,
        INET,
        &[(1, b"large\0"), (2, set.as_bytes())],
        "list elements",
    );
    let replies = replies.expect("a dump");
    let lists = replies.iter().filter_map(|reply| reply.attributes().find(3));
    lists.map(|list| picket_linux::Attributes::of(list).count()).sum()
}

#[test]
fn a_hundred_thousand_elements_go_in_and_out() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let mut client = Client::open(&namespace).expect("a client");
    let mut socket = Nfnetlink::open(&namespace).expect("a socket");
    let mut go = |observed: Option<&Table>, desired: &Table, hosts: usize| {
        let plan = Table::difference(observed, desired);
        client.apply(observed, &plan, None).expect("it is applied");
        assert_eq!(count(&mut socket, "hosts"), hosts);
        assert_eq!(count(&mut socket, "blocks"), 2 * hosts, "starts and ends");
    };
    let (full, half) = (large(100_000), large(50_000));
    go(None, &full, 100_000);
    go(Some(&full), &half, 50_000);
    go(Some(&half), &full, 100_000);
}

#[test]
fn a_client_writes_where_it_was_opened() {
    let mut pair = Pair::new();
    let table = sample::table();
    let plan = Table::difference(None, &table);
    // The thread is in neither namespace.
    pair.client.apply(None, &plan, None).expect("it is applied");
    assert!(run(&pair.ours, "nft", &["list", "tables"], "").contains("picket-sample"));
    assert_eq!(run(&pair.theirs, "nft", &["list", "tables"], ""), "");
    let delete = Plan::from_iter([Operation::Delete(table.name().clone())]);
    let applied = pair.client.apply(Some(&table), &delete, None);
    applied.expect("it is deleted");
    assert_eq!(run(&pair.ours, "nft", &["list", "tables"], ""), "");
}
