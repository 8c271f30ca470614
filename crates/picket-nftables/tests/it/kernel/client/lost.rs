//! The kernel does what it is asked, and nobody hears of it.

use std::iter;
use std::process;
use std::sync::Arc;

use picket_cluster::Semantics;
use picket_dataplane::Objects;
use picket_engine::Engine;
use picket_linux::{BatchError, NetworkNamespace};
use picket_net::Protocol;
use picket_nftables::client::{ApplyError, Client, Observed, canonical};
use picket_nftables::diff::{PORTION, Stages};
use picket_nftables::model::Table;
use picket_nftables::render::indexed;
use picket_policy::Direction;
use picket_testing::build::{accept, pod, pods_in, policy};
use picket_testing::confined::where_sockets_are_small;
use picket_testing::lost::{LostAnswers, Share};
use picket_testing::snapshot;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::{assert_there, runner};
use crate::arbitrary;
use crate::difference::{numbered, numbers};

/// Answers are lost to all sockets of a process: it is one of its own.
fn alone(test: &str, body: impl FnOnce(Client, &NetworkNamespace)) {
    let test = format!("{}::{test}", module_path!());
    where_sockets_are_small(&test, || {
        let namespace = NetworkNamespace::create().expect("a namespace");
        body(Client::open(&namespace).expect("a client"), &namespace);
    });
}

#[test]
fn what_was_done_without_an_answer_is_read() {
    alone(
        "what_was_done_without_an_answer_is_read",
        |mut client, namespace| {
            let (mut runner, bytes) = (runner(), prop::collection::vec(any::<u8>(), 160));
            for step in 0..10 {
                let bytes = bytes.new_tree(&mut runner).expect("bytes").current();
                let desired = Arc::new(arbitrary::table(&bytes));
                let plan = client.plan(&desired).expect("a plan");
                assert!(!plan.is_empty(), "table {step} is the one before");
                let lost = LostAnswers::of(process::id(), Share::All);
                let report = client.sync(&desired).expect("it is made");
                assert!(report.readings > 0, "{report:?}");
                drop(lost);
                assert_there(namespace, &desired);
            }
        },
    );
}

#[test]
fn a_transaction_without_an_answer_may_have_taken_place() {
    alone(
        "a_transaction_without_an_answer_may_have_taken_place",
        |mut client, namespace| {
            let bytes = prop::collection::vec(any::<u8>(), 160);
            let desired = Arc::new(arbitrary::table(
                &bytes.new_tree(&mut runner()).expect("bytes").current(),
            ));
            let plan = client.plan(&desired).expect("a plan");
            let lost = LostAnswers::of(process::id(), Share::All);
            let outcome = client.apply(None, &plan, None);
            let is_unanswered = matches!(outcome, Err(ApplyError::Transaction(BatchError::Unanswered)));
            assert!(is_unanswered, "{outcome:?}");
            assert_there(namespace, &desired);
            drop(lost);
        },
    );
}

#[test]
fn portions_go_on_where_half_of_them_are_not_answered() {
    alone(
        "portions_go_on_where_half_of_them_are_not_answered",
        |client, namespace| {
            let (mut runner, bytes) = (runner(), prop::collection::vec(any::<u8>(), 160));
            let mut client = client.in_portions_of(5);
            let _lost = LostAnswers::of(process::id(), Share::Half);
            for _ in 0..60 {
                let bytes = bytes.new_tree(&mut runner).expect("bytes").current();
                let desired = Arc::new(arbitrary::table(&bytes));
                client.sync(&desired).expect("it is made");
                assert_there(namespace, &desired);
            }
        },
    );
}

#[test]
fn what_may_be_in_force_is_not_taken_back() {
    alone("what_may_be_in_force_is_not_taken_back", |mut client, _| {
        let mut runner = runner();
        let mut another = || numbered(&numbers().new_tree(&mut runner).expect("numbers").current());
        let mut met = 0;
        for _ in 0..200 {
            let (old, new) = (another(), another());
            client.sync(&Arc::new(old.clone())).expect("a table");
            let plan = Table::difference(Some(&old), &new);
            let Some(stages) = Stages::of(Some(&old), &plan, PORTION) else {
                continue;
            };
            let mut transactions = stages.all();
            let states: Vec<Table> = iter::successors(Some(old.clone()), |state| {
                let transaction = transactions.next()?;
                Some(Table::applied(Some(state), transaction).expect("the kernel takes it"))
            })
            .collect();
            let lost = LostAnswers::of(process::id(), Share::Half);
            let outcome = client.apply(Some(&old), &plan, None);
            drop(lost);
            let (_, observed) = client.read(old.name()).expect("a list");
            let is = |state: &Table| observed == Observed::Table(canonical(state));
            let Some(at) = states.iter().position(is) else {
                panic!("{outcome:?}, and then {observed:?}, which is no stage of {plan:?}");
            };
            met += usize::from(outcome.is_err() && at == stages.first.len() + 1);
        }
        assert!(met > 0, "all that came into force was answered");
    });
}

/// A pod that may send to another, or that may not while the other may receive it. A third is alike to the one or to the other meanwhile, so that
/// numbers change.
fn ends(may_send: bool) -> Arc<Table> {
    let allowed = |peer: &str, may: bool| {
        let rule = accept().peer(pods_in("x", peer)).port(Protocol::UDP, 2000);
        if may { rule.port(Protocol::UDP, 1000) } else { rule }
    };
    let cluster = snapshot![
        pod("x/a").label("name", "a").ip("10.0.0.1").on("n"),
        pod("x/b").label("name", "b").ip("10.0.0.2").on("n"),
        pod("x/c")
            .label("name", if may_send { "a" } else { "b" })
            .ip("10.0.0.3"),
        policy("x/from")
            .selects("name=a")
            .isolates(Direction::Egress)
            .egress(allowed("name=b", may_send)),
        policy("x/to")
            .selects("name=b")
            .isolates(Direction::Ingress)
            .ingress(allowed("name=a", !may_send)),
    ];
    let engine = Engine::compile(&cluster, Semantics::default());
    Arc::new(indexed::render(engine.program(), Some("n")).expect("a table"))
}

#[test]
fn whether_sources_are_judged_twice_is_known_whatever_is_not_answered() {
    let test = "whether_sources_are_judged_twice_is_known_whatever_is_not_answered";
    alone(test, |client, namespace| {
        let mut client = client.patient();
        let tables = [true, false].map(ends);
        client.sync(&tables[0]).expect("a table");
        for [old, new] in [[0, 1], [1, 0]].map(|way| way.map(|at: usize| &tables[at])) {
            let plan = Table::difference(Some(old), new);
            let stages = Stages::of(Some(old), &plan, PORTION).expect("several transactions");
            assert!(!stages.last.is_empty() && !stages.end.is_empty(), "{stages:?}");
        }
        let mut met = [0; 2];
        for turn in 1..=120 {
            let lost = LostAnswers::of(process::id(), Share::Half);
            client.sync(&tables[turn % 2]).expect("it is made");
            if turn % 3 == 0 {
                client.calm().expect("it is ended");
            }
            drop(lost);
            let (_, observed) = Client::open(namespace)
                .and_then(|mut reader| reader.read(tables[0].name()))
                .expect("a list");
            let Observed::Table(table) = observed else {
                panic!("{observed:?}");
            };
            let mut sets = table.sets().iter();
            let is_changing = sets.any(|set| set.name().as_str() == "changing" && !set.elements().is_empty());
            assert_eq!(client.is_calm(), !is_changing, "after {turn} changes");
            met[usize::from(is_changing)] += 1;
        }
        assert!(met.iter().all(|met| *met > 10), "{met:?}");
    });
}
