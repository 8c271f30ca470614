//! A table is made as it should be, whatever is there, and nothing is done where it is so already.

use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use picket_cluster::Semantics;
use picket_dataplane::Plan;
use picket_linux::{Monitor, NetworkNamespace, Notice};
use picket_net::{Interval, Protocol};
use picket_nftables::client::{ApplyError, Client, Object, Observed, Place, Report, SyncError};
use picket_nftables::diff::Operation;
use picket_nftables::model::*;
use picket_nftables::render::indexed::closed;
use picket_testing::build;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::{assert_there, runner};
use crate::arbitrary;
use crate::indexed::kernel::hosts::run;
use crate::indexed::{guard, table_with};
use crate::sample::{self, name};

fn open() -> (NetworkNamespace, Client) {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let client = Client::open(&namespace).expect("a client");
    (namespace, client)
}

#[test]
fn nothing_is_done_where_nothing_differs() {
    let (namespace, mut client) = open();
    let table = Arc::new(sample::table());
    let first = client.sync(&table).expect("it is made");
    assert_eq!((first.operations, first.readings), (1, 1));
    let generation = client.generation().expect("a number");
    assert_eq!(client.sync(&table).expect("it is there"), Report::default());
    // Another client knows nothing and must look.
    let mut other = Client::open(&namespace).expect("a client");
    let read = other.sync(&table).expect("it is there");
    assert_eq!((read.operations, read.readings), (0, 1));
    assert_eq!(client.generation().expect("a number"), generation);
    // What others do elsewhere is no difference, but it takes a look to know.
    run(&namespace, "nft", &["add", "table", "inet", "foreign"], "");
    let read = client.sync(&table).expect("it is there");
    assert_eq!((read.operations, read.readings), (0, 1));
    assert_eq!(client.sync(&table).expect("it is there"), Report::default());
}

#[test]
fn what_others_do_to_the_table_is_undone() {
    let (namespace, mut client) = open();
    let table = Arc::new(sample::table());
    client.sync(&table).expect("it is made");
    let of_table = |command: &str| command.replace("TABLE", &format!("inet {}", table.name()));
    for (command, foreign) in [
        ("flush ruleset", vec![]),
        ("delete table TABLE", vec![]),
        ("delete element TABLE hosts4 { 10.0.0.1 }", vec![]),
        ("flush chain TABLE pod-b", vec![]),
        ("insert rule TABLE pod-b accept", vec![]),
        (
            "add chain TABLE more { type filter hook input priority 0; policy drop; }",
            vec![],
        ),
        ("add table TABLE { flags dormant; }", vec![Place::Table]),
        (
            "add quota TABLE q { over 1 mbytes }",
            vec![Place::Object("q".into())],
        ),
    ] {
        run(&namespace, "nft", &["-f", "-"], &of_table(command));
        let report = client.sync(&table).expect("it is repaired");
        let places: Vec<Place> = report.foreign.into_iter().map(|one| one.place).collect();
        assert_eq!(places, foreign, "{command}");
        assert!(report.operations > 0, "{command}");
        assert_there(&namespace, &table);
    }
}

#[test]
fn any_table_becomes_any_other() {
    let ((namespace, mut client), mut runner) = (open(), runner());
    let bytes = prop::collection::vec(any::<u8>(), 160);
    let mut readings = 0;
    for step in 0..60 {
        let bytes = bytes.new_tree(&mut runner).expect("bytes").current();
        let desired = Arc::new(arbitrary::table(&bytes));
        readings += client.sync(&desired).expect("it is made").readings;
        assert_there(&namespace, &desired);
        if step % 10 == 9 {
            run(&namespace, "nft", &["flush", "ruleset"], "");
        }
    }
    assert_eq!(readings, 6, "only what others have changed is read");
}

#[test]
fn what_is_large_comes_in_portions_and_into_force_at_once() {
    let ((namespace, client), mut runner) = (open(), runner());
    let mut client = client.in_portions_of(5);
    let bytes = prop::collection::vec(any::<u8>(), 160);
    let mut most = 0;
    for step in 0..60 {
        let bytes = bytes.new_tree(&mut runner).expect("bytes").current();
        let desired = Arc::new(arbitrary::table(&bytes));
        let before = client.generation().expect("a number");
        client.sync(&desired).expect("it is made");
        most = most.max(client.generation().expect("a number") - before);
        assert_there(&namespace, &desired);
        if step % 5 == 4 {
            run(&namespace, "nft", &["flush", "ruleset"], "");
        }
    }
    assert!(most > 5, "{most} transactions at most");
}

/// The table of a node on which eight pods are restricted.
fn of_a_node() -> Arc<Table> {
    let pods = (1..9).flat_map(|number| {
        let name = format!("x/p{number}");
        let (pod, policy) = (
            build::pod(&name).ip(&format!("10.0.0.{number}")),
            build::policy(&name),
        );
        let rule = build::accept().port(Protocol::TCP, number);
        let policy = policy.selects(&format!("app=p{number}")).ingress(rule);
        let pod = pod.label("app", &format!("p{number}"));
        [build::Object::from(pod), policy.into()]
    });
    let cluster: build::Snapshot = pods.collect();
    Arc::new(table_with(&cluster, &Semantics::default(), None))
}

#[test]
fn what_a_node_is_to_have_comes_in_portions_when_it_is_known_for_the_first_time() {
    let (namespace, client) = open();
    let mut client = client.holding().in_portions_of(20);
    let closed = closed(&guard()).expect("a table");
    client.sync(&Arc::new(closed)).expect("it is made");
    let desired = of_a_node();
    let mut monitor = Monitor::open(&namespace).expect("a monitor");
    client.sync(&desired).expect("it is made");
    let notices = monitor.notices().expect("transactions").into_iter();
    let touched: Vec<_> = notices
        .map(|notice| match notice {
            Notice::Committed(commit) => commit.tables.into_iter().map(|table| table.name).collect(),
            Notice::Missed => Vec::new(),
        })
        .collect();
    assert!(touched.len() > 3, "{touched:?}");
    // Nothing stands in for it meanwhile.
    assert!(
        touched.iter().all(|tables| *tables == [desired.name().as_str()]),
        "{touched:?}"
    );
    assert_there(&namespace, &desired);
}

#[test]
fn portions_are_given_up_where_others_always_come_between() {
    let (namespace, client) = open();
    let mut client = client.in_portions_of(2);
    let desired = Arc::new(arbitrary::table(&[77; 160]));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = Client::open(&namespace).expect("a client");
            while !done.load(Ordering::Relaxed) {
                let foreign = Arc::new(Draft::new(name("foreign")).check().expect("a table"));
                other.sync(&foreign).expect("it is made");
                other.remove(foreign.name()).expect("it is removed");
            }
        });
        while client.sync(&desired).is_err() {}
        done.store(true, Ordering::Relaxed);
    });
    assert_there(&namespace, &desired);
}

/// A table with 20,000 addresses.
fn large(first: u32) -> Arc<Table> {
    let addresses = (0..20_000).map(|index| Value::Ipv4(Interval::single(first + 2 * index)).into());
    let set = Set::new(name("addresses"), vec![Datatype::Ipv4Address], false, addresses);
    let mut draft = Draft::new(name("large"));
    draft.sets = vec![set.expect("a set")];
    Arc::new(draft.check().expect("a table"))
}

/// Does something while somebody else makes one transaction after the other, as fast as can be.
fn beside_others(namespace: &NetworkNamespace, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = Client::open(namespace).expect("a client");
            let tables = ["a", "b"].map(|text| {
                let mut draft = Draft::new(name("foreign"));
                draft.chains = vec![Chain::regular(name(text))];
                draft.check().expect("a table")
            });
            while !done.load(Ordering::Relaxed) {
                for table in &tables {
                    let plan = Plan::from_iter([Operation::Replace(std::sync::Arc::new(table.clone()))]);
                    other.apply(None, &plan, None).expect("it is made");
                }
            }
        });
        work();
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn others_who_change_rulesets_all_the_time_keep_nothing_from_being_made() {
    for holds in [false, true] {
        let (namespace, client) = open();
        let mut client = if holds { client.holding() } else { client };
        let tables = [1, 77].map(|byte| Arc::new(arbitrary::table(&[byte; 160])));
        beside_others(&namespace, || {
            for desired in tables.iter().cycle().take(20) {
                client.sync(desired).expect("it is made");
                assert_eq!(client.table(), Some(desired));
            }
        });
        assert_there(&namespace, &tables[1]);
        assert_eq!(client.sync(&tables[1]).expect("it is").operations, 0);
    }
}

#[test]
fn what_is_large_is_made_whole_where_others_change_rulesets_all_the_time() {
    let (namespace, mut client) = open();
    let (first, second) = (large(0), large(1));
    beside_others(&namespace, || {
        client.sync(&first).expect("it is made");
        client.sync(&second).expect("it is made anew");
    });
    assert_there(&namespace, &second);
}

#[test]
fn what_a_client_holds_comes_in_portions_whatever_others_change_in_between() {
    let (namespace, client) = open();
    let mut client = client.holding().in_portions_of(200);
    let desired = large(0);
    let empty = Draft::new(desired.name().clone()).check().expect("a table");
    client.sync(&Arc::new(empty)).expect("it is made");
    client.forget();
    let mut report = Report::default();
    beside_others(&namespace, || {
        report = client.sync(&desired).expect("it is made");
    });
    assert_eq!(report.readings, 1, "it was begun again");
    assert_there(&namespace, &desired);
}

#[test]
fn a_table_that_belongs_to_somebody_else_stays_and_is_named() {
    let (namespace, mut client) = open();
    let table = Arc::new(sample::table());
    let mut shell = Command::new("nft");
    shell.arg("-i").stdin(Stdio::piped()).stdout(Stdio::null());
    let mut owner = namespace.spawn(&mut shell).expect("nft");
    let mut commands = owner.stdin.take().expect("a pipe");
    let owned = format!("add table inet {} {{ flags owner; }}\n", table.name());
    commands.write_all(owned.as_bytes()).expect("nft reads");
    while client.read(table.name()).expect("a list").1 == Observed::Absent {
        std::thread::yield_now();
    }
    let refused = client.sync(&table);
    drop(commands);
    owner.wait().expect("nft ends");
    const EPERM: i32 = 1;
    let expected = Object::Table(table.name().clone());
    match refused {
        Err(SyncError::Apply(ApplyError::Refused(refusals))) => {
            assert_eq!((&refusals[0].object, refusals[0].code), (&expected, EPERM));
        }
        other => panic!("{other:?}"),
    }
    // With its owner the table goes.
    client.sync(&table).expect("it is made");
    assert_there(&namespace, &table);
}

#[test]
fn a_table_is_read_while_packets_are_counted() {
    let (namespace, mut client) = open();
    // So many that no list is over before the next packet.
    let hosts: Vec<_> = (0..20_000)
        .map(|host| format!("10.0.{}.{}", host / 250, host % 250))
        .collect();
    let table = format!(
        "
        table inet counted {{
            counter seen {{ }}
            set hosts {{ type ipv4_addr; counter; elements = {{ 127.0.0.1, {} }} }}
            chain output {{
                type filter hook output priority 0;
                counter name seen
                ip daddr @hosts accept
            }}
        }}",
        hosts.join(", ")
    );
    run(&namespace, "nft", &["-f", "-"], &table);
    picket_linux::Netlink::open(&namespace)
        .and_then(|mut netlink| netlink.set_up("lo"))
        .expect("a loopback interface");
    let sender = namespace.run(|| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let sender = sender.expect("a namespace");
    let (sent, end) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::SeqCst) {
                // Nobody listens there, which comes back as an error from time to time.
                let _refused = sender.send_to(b"x", "127.0.0.1:9");
                sent.store(true, Ordering::SeqCst);
            }
        });
        while !sent.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        let read = client.read(&name("counted"));
        end.store(true, Ordering::SeqCst);
        let (_, observed) = read.expect("a list");
        assert!(
            matches!(observed, Observed::Altered(_)),
            "a set that counts is none of ours"
        );
    });
}
