//! The kernel does what it is asked, and nobody hears of it.

use std::process;
use std::sync::Arc;

use picket_linux::{BatchError, NetworkNamespace};
use picket_nftables::client::{ApplyError, Client};
use picket_testing::confined::where_sockets_are_small;
use picket_testing::lost::{LostAnswers, Share};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::{assert_there, runner};
use crate::arbitrary;

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
