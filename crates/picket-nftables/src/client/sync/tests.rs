//! What a client leaves when it ends in the middle, and what it does where a kernel cannot hold a table.

use picket_linux::NetworkNamespace;

use super::super::Refusal;
use super::*;
use crate::render::indexed::{Guard, closed};

#[test]
fn what_stands_in_for_a_table_that_is_made_anew_goes_with_its_client() {
    let table = Arc::new(closed(&Guard::default()).unwrap());
    let meanwhile = guard_of(Table::clone(&table)).unwrap();
    for holds in [true, false] {
        let namespace = NetworkNamespace::create().unwrap();
        let mut other = Client::open(&namespace).unwrap();
        let mut exists = || [&*table, &meanwhile].map(|table| other.exists(table.name()).unwrap());
        let client = Client::open(&namespace).unwrap();
        let mut client = if holds { client.holding() } else { client };
        client.sync(&table).unwrap();
        assert_eq!(exists(), [true, false]);
        client.guard(Some(&table), &whole(&table), None);
        assert_eq!(exists(), [true; 2]);
        drop(client);
        // A process that another test starts has all sockets until it is what it is to be.
        assert!((0..1_000_000).any(|_| exists() == [true, false]));
    }
}

#[test]
fn a_kernel_that_cannot_hold_tables_says_so_of_the_table() {
    let table = Name::new("t").unwrap();
    for (object, code, expected) in [
        (Object::Table(table.clone()), NOT_SUPPORTED, true),
        // Before 5.12.
        (Object::Table(table.clone()), INVALID, true),
        (Object::Table(table.clone()), NOT_PERMITTED, false),
        (Object::Chain(table.clone()), INVALID, false),
        (Object::Chain(table), NOT_SUPPORTED, false),
    ] {
        let refusal = Refusal {
            operation: 0,
            object: object.clone(),
            code,
            explanation: None,
        };
        let error = ApplyError::Refused(vec![refusal]);
        assert_eq!(is_unsupported(&error), expected, "{object} {code}");
    }
}

/// No kernel knows the last flag.
#[test]
fn a_table_that_the_kernel_cannot_hold_is_made_all_the_same() {
    let namespace = NetworkNamespace::create().unwrap();
    let mut client = Client::open(&namespace).unwrap().holding();
    client.held |= 1 << 31;
    let table = Arc::new(Draft::new(Name::new("t").unwrap()).check().unwrap());
    let report = client.sync(&table).unwrap();
    assert_eq!((report.operations, report.readings), (1, 2));
    assert!(!client.is_holding());
    let (_, observed) = client.read(table.name()).unwrap();
    assert_eq!(observed, Observed::Table(Table::clone(&table)));
    assert_eq!(client.sync(&table).unwrap().operations, 0);
}
