//! Whether the tables that the kernel has mean what a cluster says.

use std::collections::BTreeSet;

use picket_cluster::{Semantics, Snapshot};
use picket_dataplane::demand::Demands;
use picket_engine::Engine;
use picket_linux::NetworkNamespace;
use picket_nftables::client::{Client, Observed};
use picket_nftables::model::{Draft, Name, Table};
use picket_nftables::render::documented;
use picket_nftables::verify::{Report, verify};
use picket_policy::{NetworkName, ObjectRef};

/// The most packets that a failed proof names.
const EXAMPLES: usize = 3;

/// The table of a network namespace, as somebody reads it who is not the agent; an empty one where there is none.
pub(crate) fn installed(namespace: &NetworkNamespace, name: Name) -> Table {
    let (_, observed) = Client::open(namespace).unwrap().read(&name).unwrap();
    match observed {
        Observed::Table(table) => table,
        Observed::Absent => Draft::new(name).check().unwrap(),
        Observed::Altered(_) => panic!("a table that no agent makes: {observed:?}"),
    }
}

/// Holds the table of a node against what a cluster says.
pub(crate) fn on_node(table: &Table, cluster: &Snapshot, node: &str) -> Report {
    let engine = Engine::compile(cluster, Semantics::default());
    let demands = Demands::on_node(engine.program(), Some(node));
    verify(table, &demands, "", EXAMPLES).unwrap()
}

/// Holds the tables of pods against what a cluster says about a network that each of them is on: those that are refuted.
pub(crate) fn in_pods<'p>(
    tables: &'p [(ObjectRef, Table)],
    cluster: &Snapshot,
    network: &NetworkName,
) -> Vec<(&'p ObjectRef, Report)> {
    let seen = cluster.on(network);
    let engine = Engine::compile(&seen, Semantics::default());
    let mut refuted = Vec::new();
    for (pod, table) in tables {
        let mut endpoints = seen.pods.values().filter_map(|endpoint| {
            let interface = endpoint.interface.as_ref()?;
            (endpoint.whole() == pod).then(|| (&endpoint.object, interface.name.as_str()))
        });
        let (endpoint, interface) = endpoints.next().unwrap();
        let narrower = [false; 2];
        let demands = Demands::in_pod(engine.program(), endpoint, interface, BTreeSet::new(), narrower);
        let mut demands = demands.unwrap();
        if documented::refuses_mid_stream(table) {
            demands = demands.without_mid_stream();
        }
        let report = verify(table, &demands, interface, EXAMPLES).unwrap();
        if !report.is_proof() {
            refuted.push((pod, report));
        }
    }
    refuted
}
