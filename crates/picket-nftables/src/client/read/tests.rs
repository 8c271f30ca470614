use picket_linux::Reply;

use super::{Observed, Place, canonical, decode};
use crate::client::Oddity;
use crate::model::{Name, Table};

const SAMPLE: &[u8] = include_bytes!("../../../../../fuzz/corpus/kernel_objects/sample");

fn name() -> Name {
    Name::new("picket").expect("a name")
}

fn table(objects: &[Reply]) -> Option<Table> {
    match decode(&name(), objects) {
        Observed::Table(table) => Some(table),
        Observed::Absent | Observed::Altered(_) => None,
    }
}

#[test]
fn what_is_read_is_in_the_words_in_which_it_is_always_read() {
    let table = table(&Reply::all(SAMPLE).expect("whole messages")).expect("one of ours");
    assert_eq!(canonical(&table), table);
}

#[test]
fn no_object_is_passed_over() {
    let objects = Reply::all(SAMPLE).expect("whole messages");
    let whole = table(&objects);
    assert!(whole.is_some());
    for at in 0..objects.len() {
        let mut others = objects.clone();
        let gone = others.remove(at);
        // The kernel ends a list of elements by a message without any.
        if gone.kind != super::message::NEWSETELEM {
            assert_ne!(table(&others), whole, "{gone:?}");
        }
    }
}

#[test]
fn damaged_bytes_are_read_without_panic() {
    for end in (0..SAMPLE.len()).step_by(71) {
        if let Some(objects) = Reply::all(&SAMPLE[..end]) {
            let _ = decode(&name(), &objects);
        }
    }
    for at in (0..SAMPLE.len()).step_by(29) {
        let mut bytes = SAMPLE.to_vec();
        bytes[at] ^= 0x81;
        if let Some(objects) = Reply::all(&bytes) {
            let _ = decode(&name(), &objects);
        }
    }
}

#[test]
fn a_flowtable_is_foreign() {
    let bytes = include_bytes!("../../../../../fuzz/corpus/kernel_objects/flowtable");
    let objects = Reply::all(bytes).expect("whole messages");
    let Observed::Altered(foreign) = decode(&name(), &objects) else {
        panic!("a flowtable takes packets past our rules");
    };
    assert_eq!(foreign.len(), 1);
    assert_eq!(foreign[0].place, Place::Flowtable("fast".into()));
    assert_eq!(foreign[0].oddity, Oddity::Kind(22));
}
