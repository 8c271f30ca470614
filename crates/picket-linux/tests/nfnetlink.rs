//! Transactions of nf_tables in real network namespaces. These need root.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

mod numbers;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use picket_linux::{Batch, BatchError, Monitor, NetworkNamespace, Nfnetlink, Notice, Port, Reply, TableName};

use numbers::{DELTABLE, GETSETELEM, INET, NEWSETELEM, NEWTABLE, count, elements, listed, set};

const GETTABLE: u8 = 1;
const NEWCHAIN: u8 = 3;
const DELSETELEM: u8 = 14;
const NAME: u16 = 1;

fn table(batch: &mut Batch, kind: u8, name: &str) {
    batch.message(kind, if kind == NEWTABLE { Batch::CREATE } else { 0 }, INET);
    batch.text(NAME, name);
}

fn tables(names: &[&str]) -> Batch {
    let mut batch = Batch::default();
    for name in names {
        table(&mut batch, NEWTABLE, name);
    }
    batch
}

fn open() -> Nfnetlink {
    Nfnetlink::open(&NetworkNamespace::create().unwrap()).unwrap()
}

fn text(reply: &Reply) -> String {
    let name = reply.attributes().find(NAME).unwrap();
    String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()
}

fn names(netlink: &mut Nfnetlink) -> Vec<String> {
    let replies = netlink.dump(GETTABLE, INET, &[], "list tables").unwrap();
    replies.iter().map(text).collect()
}

#[test]
fn a_transaction_takes_place_in_the_namespace_that_it_was_opened_in_and_nowhere_else() {
    let (mut here, mut there) = (open(), open());
    here.commit(tables(&["a", "b"]), None).unwrap();
    assert_eq!(names(&mut here), ["a", "b"]);
    assert!(names(&mut there).is_empty());
    let before = here.generation().unwrap();
    let mut batch = Batch::default();
    table(&mut batch, DELTABLE, "a");
    here.commit(batch, Some(before)).unwrap();
    assert_eq!(names(&mut here), ["b"]);
    assert_eq!(here.generation().unwrap(), before + 1);
}

#[test]
fn of_a_list_that_is_kept_which_is_wanted() {
    let mut netlink = open();
    netlink.commit(tables(&["a", "b", "c"]), None).unwrap();
    let mut told = Vec::new();
    let read = netlink.read("list tables", |lister| {
        told.clear();
        lister.list(GETTABLE, INET, &[], "list tables", |reply| {
            told.push(text(reply));
            text(reply) != "b"
        })
    });
    let kept: Vec<_> = read.unwrap().1.iter().map(text).collect();
    assert_eq!(kept, ["a", "c"]);
    assert_eq!(told, ["a", "b", "c"]);
    for (name, is_there) in [(b"b\0", true), (b"d\0", false)] {
        let found = netlink.get(GETTABLE, INET, &[(NAME, name)], "look for a table");
        assert_eq!(found.unwrap().is_some(), is_there);
    }
}

#[test]
fn nothing_is_nothing() {
    let mut netlink = open();
    let before = netlink.generation().unwrap();
    netlink.commit(Batch::default(), None).unwrap();
    assert_eq!(netlink.generation().unwrap(), before);
}

#[test]
fn one_bad_message_undoes_all_and_every_bad_one_is_told() {
    let mut netlink = open();
    let mut batch = tables(&["a"]);
    table(&mut batch, DELTABLE, "missing");
    table(&mut batch, NEWTABLE, "b");
    batch.message(NEWCHAIN, Batch::CREATE, INET);
    batch.text(1, "neither");
    batch.text(3, "c");
    let Err(BatchError::Refused(refused)) = netlink.commit(batch, None) else {
        panic!("there is no such table");
    };
    let found: Vec<_> = refused.iter().map(|one| (one.message, one.code)).collect();
    assert_eq!(found, [(1, libc_enoent()), (3, libc_enoent())]);
    // The header of the message and that of its family come before the attribute with the name.
    assert_eq!(refused[0].offset, Some(20));
    assert!(names(&mut netlink).is_empty());
    // What is left of the answers is not taken for those of the next.
    netlink.commit(tables(&["a"]), None).unwrap();
    assert_eq!(names(&mut netlink), ["a"]);
}

fn libc_enoent() -> i32 {
    rustix::io::Errno::NOENT.raw_os_error()
}

#[test]
fn an_old_generation_is_stale() {
    let mut netlink = open();
    let old = netlink.generation().unwrap();
    netlink.commit(tables(&["a"]), Some(old)).unwrap();
    let outcome = netlink.commit(tables(&["b"]), Some(old));
    assert!(matches!(outcome, Err(BatchError::Stale)), "{outcome:?}");
    assert_eq!(names(&mut netlink), ["a"]);
}

#[test]
fn what_no_message_can_hold_is_not_sent() {
    let mut netlink = open();
    let mut batch = Batch::default();
    set(&mut batch);
    elements(&mut batch, NEWSETELEM, 0..6000);
    let outcome = netlink.commit(batch, None);
    assert!(matches!(outcome, Err(BatchError::TooLong(2))), "{outcome:?}");
    assert!(names(&mut netlink).is_empty());
}

#[test]
fn a_batch_may_have_megabytes() {
    let mut netlink = open();
    let mut batch = Batch::default();
    set(&mut batch);
    for thousand in 0..200 {
        elements(&mut batch, NEWSETELEM, 1000 * thousand..1000 * (thousand + 1));
    }
    assert!(batch.length() > 3_000_000);
    netlink.commit(batch, None).unwrap();
    assert_eq!(count(&mut netlink), 200_000);
}

/// How often to read what changes.
const READINGS: usize = 50;

#[test]
fn a_dump_is_of_one_moment() {
    let namespace = NetworkNamespace::create().unwrap();
    let (mut writer, mut reader) = (
        Nfnetlink::open(&namespace).unwrap(),
        Nfnetlink::open(&namespace).unwrap(),
    );
    // More than fits into one datagram, so that a change comes between two of them.
    let mut batch = Batch::default();
    set(&mut batch);
    for thousand in 0..5 {
        elements(&mut batch, NEWSETELEM, 1000 * thousand..1000 * (thousand + 1));
    }
    writer.commit(batch, None).unwrap();
    let of_set: [(u16, &[u8]); 2] = [(1, b"t\0"), (2, b"s\0")];
    let (mut lists, mut counts, done) = (0, Vec::new(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for reading in 0..READINGS {
                // Changes that come between two lists, and then none until one was read.
                for kind in [DELSETELEM, NEWSETELEM].repeat(5) {
                    let mut batch = Batch::default();
                    elements(&mut batch, kind, 0..1000);
                    writer.commit(batch, None).unwrap();
                }
                while done.load(Ordering::Relaxed) <= reading {
                    std::thread::yield_now();
                }
            }
        });
        for reading in 1..=READINGS {
            let read = reader.read("list", |lister| {
                lists += 1;
                lister.list(GETSETELEM, INET, &of_set, "list", |_| true)
            });
            done.store(reading, Ordering::Relaxed);
            counts.push(read.map(|(_, replies)| listed(&replies)));
        }
    });
    for count in counts {
        let count = count.unwrap();
        assert!(count == 4000 || count == 5000, "{count} elements");
    }
    // Each is two lists that are the same, where nothing comes between.
    assert!(lists > 2 * READINGS, "{lists} lists: no reading was disturbed");
    let undisturbed = reader.dump(GETSETELEM, INET, &of_set, "list");
    assert_eq!(listed(&undisturbed.unwrap()), 5000);
}

/// What a monitor has heard, in short.
fn heard(monitor: &mut Monitor) -> Vec<(u32, Port, Vec<String>)> {
    let notices = monitor.notices().unwrap().into_iter();
    let commits = notices.map(|notice| match notice {
        Notice::Committed(commit) => {
            assert_ne!((commit.thread, commit.program.as_str()), (0, ""));
            let tables = commit.tables.into_iter().map(|table| table.name).collect();
            (commit.generation, commit.port, tables)
        }
        Notice::Missed => (0, Port(0), Vec::new()),
    });
    commits.collect()
}

#[test]
fn each_transaction_is_heard_once_with_its_socket_and_its_tables() {
    let namespace = NetworkNamespace::create().unwrap();
    let mut early = Nfnetlink::open(&namespace).unwrap();
    early.commit(tables(&["before"]), None).unwrap();
    let mut monitor = Monitor::open(&namespace).unwrap();
    assert_eq!(heard(&mut monitor), []);
    let mut late = Nfnetlink::open(&namespace).unwrap();
    assert_ne!(early.port(), late.port());
    let before = early.generation().unwrap();
    early.commit(tables(&["b", "a"]), None).unwrap();
    late.commit(tables(&["c"]), None).unwrap();
    // What does not take place is not heard.
    let mut bad = tables(&["d"]);
    table(&mut bad, DELTABLE, "missing");
    late.commit(bad, None).unwrap_err();
    let expected = [
        (before + 1, early.port(), vec!["a".to_owned(), "b".to_owned()]),
        (before + 2, late.port(), vec!["c".to_owned()]),
    ];
    assert_eq!(heard(&mut monitor), expected);
    assert_eq!(heard(&mut monitor), []);
}

#[test]
fn what_is_too_much_to_hear_is_told() {
    let namespace = NetworkNamespace::create().unwrap();
    let mut netlink = Nfnetlink::open(&namespace).unwrap();
    let mut monitor = Monitor::open(&namespace).unwrap();
    let mut batch = Batch::default();
    set(&mut batch);
    for thousand in 0..200 {
        elements(&mut batch, NEWSETELEM, 1000 * thousand..1000 * (thousand + 1));
    }
    netlink.commit(batch, None).unwrap();
    let notices = monitor.notices().unwrap();
    assert!(notices.contains(&Notice::Missed), "{notices:?}");
    netlink.commit(tables(&["t2"]), None).unwrap();
    let notices = monitor.notices().unwrap();
    let Some(Notice::Committed(last)) = notices.last() else {
        panic!("{notices:?}");
    };
    assert_eq!(last.port, netlink.port());
    assert!(last.tables.iter().any(|table| table.name == "t2"));
}

#[test]
fn one_table_alone_is_heard_of_and_no_more_is_read_than_was_asked() {
    let namespace = NetworkNamespace::create().unwrap();
    let mut netlink = Nfnetlink::open(&namespace).unwrap();
    let table = TableName {
        family: INET,
        name: "own".to_owned(),
    };
    let mut monitor = Monitor::of_table(&namespace, table.clone()).unwrap();
    for names in [["other", "another"], ["other", "own"]] {
        netlink.commit(tables(&names), None).unwrap();
    }
    let mut commits = Vec::new();
    loop {
        // A table is a message, and so is the end of a transaction.
        let heard = monitor.heard(2).unwrap();
        if heard.readings == 0 {
            break;
        }
        assert!(heard.readings <= 2);
        commits.extend(heard.notices.into_iter().map(|notice| match notice {
            Notice::Committed(commit) => commit.tables,
            Notice::Missed => panic!("something is missing"),
        }));
    }
    assert_eq!(commits, [BTreeSet::new(), BTreeSet::from([table])]);
}
