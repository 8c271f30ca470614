//! Packets that are judged while one table takes the place of another: old rules, and new elements of sets and maps.

use picket_dataplane::{Objects, Packet, Plan};
use picket_nftables::diff::{Operation, PORTION, Stages};
use picket_nftables::meaning::Interpreter;
use picket_nftables::model::Table;
use picket_nftables::print;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// No packet asks the sets and maps of a table more often.
const LOOKUPS: usize = 40;

/// The flag of TCP in the middle of a connection.
const ACK: u8 = 0x10;

/// The same packet in the middle of a connection that nobody knows.
pub(crate) fn mid_stream(packet: Packet) -> Packet {
    Packet {
        tcp_flags: Some(ACK),
        ..packet
    }
}

/// The tables on the way from one to another, each with the transaction that makes it.
pub(crate) fn way(old: &Table, new: &Table) -> Vec<(Table, Plan<Operation>)> {
    let plan = Table::difference(Some(old), new);
    let stages = Stages::of(Some(old), &plan, PORTION);
    let transactions: Vec<_> = match &stages {
        Some(stages) => stages.all().cloned().collect(),
        None => vec![plan],
    };
    let mut now = old.clone();
    let after = |transaction: Plan<Operation>| {
        now = Table::applied(Some(&now), &transaction).expect("the kernel takes it");
        (now.clone(), transaction)
    };
    transactions.into_iter().map(after).collect()
}

/// Nobody passes on a way from one table to another who does so neither before nor after it, after whichever lookup a transaction
/// comes into force. `judging` is what of a table judges, which `what` says.
pub(crate) fn nobody_slips_through(
    old: &Table,
    way: &[(Table, Plan<Operation>)],
    packets: &[Packet],
    what: &str,
    judging: impl Fn(&Table) -> Table,
) -> Result<(), TestCaseError> {
    let tables = std::iter::once(old).chain(way.iter().map(|(table, _)| table));
    let tables: Vec<Table> = tables.map(judging).collect();
    let passes = |table: &Table, packet: &Packet| Interpreter::new(table).pass(packet).outcome.is_accept();
    let passes_by_none = |packet: &&Packet| {
        let mut ends = [&tables[0], &tables[tables.len() - 1]].into_iter();
        !ends.any(|table| passes(table, packet))
    };
    for packet in packets.iter().filter(passes_by_none) {
        for (at, pair) in tables.windows(2).enumerate() {
            for lookups in 0..LOOKUPS {
                let between = Interpreter::overtaken(&pair[0], &pair[1], lookups).pass(packet);
                prop_assert!(
                    !between.outcome.is_accept(),
                    "after {} lookups of transaction {} {}, {:?}:\n{}\nbefore:\n{}",
                    lookups,
                    at,
                    what,
                    packet,
                    print::commands(old.name(), &way[at].1),
                    print::text(&pair[0])
                );
            }
        }
    }
    Ok(())
}
