//! What a client leaves when it ends in the middle.

use picket_linux::NetworkNamespace;

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
