//! A set `s` of numbers in the table `t`.

use picket_linux::{Attributes, Batch, Nfnetlink, Reply};

pub(crate) const NEWTABLE: u8 = 0;
pub(crate) const DELTABLE: u8 = 2;
const NEWSET: u8 = 9;
pub(crate) const NEWSETELEM: u8 = 12;
pub(crate) const GETSETELEM: u8 = 13;
pub(crate) const INET: u8 = 1;
/// Elements of a list of elements, and their keys, have these numbers too.
const ELEMENTS: u16 = 3;

/// Makes the table and the set.
pub(crate) fn set(batch: &mut Batch) {
    batch.message(NEWTABLE, Batch::CREATE, INET);
    batch.text(1, "t");
    batch.message(NEWSET, Batch::CREATE, INET);
    batch.text(1, "t");
    batch.text(2, "s");
    for (attribute, number) in [(3, 0), (4, 19), (5, 4), (10, 1)] {
        batch.number(attribute, number);
    }
}

/// Adds numbers, or takes them away.
pub(crate) fn elements(batch: &mut Batch, kind: u8, numbers: impl Iterator<Item = u32>) {
    batch.message(kind, if kind == NEWSETELEM { Batch::CREATE } else { 0 }, INET);
    batch.text(1, "t");
    batch.text(2, "s");
    batch.nest(ELEMENTS, |batch| {
        for number in numbers {
            batch.nest(1, |batch| batch.nest(1, |batch| batch.number(1, number)));
        }
    });
}

/// How many there are.
pub(crate) fn count(netlink: &mut Nfnetlink) -> usize {
    let attributes: [(u16, &[u8]); 2] = [(1, b"t\0"), (2, b"s\0")];
    let replies = netlink
        .dump(GETSETELEM, INET, &attributes, "list elements")
        .unwrap();
    listed(&replies)
}

/// How many elements a dump lists.
pub(crate) fn listed(replies: &[Reply]) -> usize {
    let lists = replies
        .iter()
        .filter_map(|reply| reply.attributes().find(ELEMENTS));
    lists.map(|list| Attributes::of(list).count()).sum()
}
