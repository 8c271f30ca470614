//! Sockets that cannot be given the room that answers take: what is lost is never taken for success, nor a part for all.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

mod numbers;

use std::env;
use std::process::Command;

use picket_linux::{Batch, BatchError, NetworkNamespace, Nfnetlink};

use numbers::{DELTABLE, INET, NEWSETELEM, NEWTABLE, count, elements, set};

/// Says that a test runs where it is to be.
const INSIDE: &str = "PICKET_TEST_INSIDE";

/// Runs a test in a process of its own that is root of a user namespace alone, in a new network namespace. There nobody may give a
/// socket more room than everybody has: some 200 kB in each direction.
fn where_sockets_are_small(test: &str, body: impl FnOnce(&mut Nfnetlink)) {
    if env::var_os(INSIDE).is_some() {
        return body(&mut Nfnetlink::open(&NetworkNamespace::current().unwrap()).unwrap());
    }
    let mut process = Command::new("unshare");
    process.args(["--user", "--map-root-user", "--net"]);
    process.arg(env::current_exe().unwrap()).args(["--exact", test]);
    let ran = process.env(INSIDE, "yes").output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && told.contains("1 passed"), "{told}");
}

fn table(batch: &mut Batch, kind: u8, flags: u16, name: &str) {
    batch.message(kind, flags, INET);
    batch.text(1, name);
}

/// A transaction that makes a table, and deletes so many others that do not exist.
fn refused(name: &str, count: usize) -> Batch {
    let mut batch = Batch::default();
    table(&mut batch, NEWTABLE, Batch::CREATE, name);
    for _ in 0..count {
        table(&mut batch, DELTABLE, 0, "m");
    }
    batch
}

#[test]
fn a_transaction_with_more_refusals_than_find_room_has_not_taken_place() {
    let test = "a_transaction_with_more_refusals_than_find_room_has_not_taken_place";
    where_sockets_are_small(test, |netlink| {
        let before = netlink.generation().unwrap();
        // Every refusal takes more room than the message did: most are lost, and the last answer with them.
        match netlink.commit(refused("a", 5_000), None) {
            Err(BatchError::Refused(told)) => {
                assert!((1..5_000).contains(&told.len()), "{} were told", told.len());
                assert_eq!(told[0].message, 1);
            }
            other => panic!("{other:?}"),
        }
        // So many cannot even be sent.
        let outcome = netlink.commit(refused("a", 20_000), None);
        assert!(matches!(outcome, Err(BatchError::Socket(_))), "{outcome:?}");
        assert_eq!(netlink.generation().unwrap(), before);
        // What is left of the answers is not taken for those of the next.
        netlink.commit(refused("a", 0), None).unwrap();
        assert_eq!(netlink.generation().unwrap(), before + 1);
    });
}

#[test]
fn a_list_that_is_larger_than_the_buffer_is_whole() {
    let test = "a_list_that_is_larger_than_the_buffer_is_whole";
    where_sockets_are_small(test, |netlink| {
        let mut batch = Batch::default();
        set(&mut batch);
        netlink.commit(batch, None).unwrap();
        for number in 0..50u32 {
            let mut batch = Batch::default();
            elements(&mut batch, NEWSETELEM, 1_000 * number..1_000 * (number + 1));
            netlink.commit(batch, None).unwrap();
        }
        assert_eq!(count(netlink), 50_000);
    });
}
