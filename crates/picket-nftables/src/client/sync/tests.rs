//! What a client does where a kernel cannot hold a table.

use picket_linux::NetworkNamespace;

use super::super::Refusal;
use super::*;

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
