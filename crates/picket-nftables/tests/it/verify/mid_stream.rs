//! That TCP of connections which nobody knows is refused is proved like everything else.

use picket_cluster::Semantics;
use picket_dataplane::State;
use picket_dataplane::demand::{Demands, Required};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_nftables::render::{documented, indexed};
use picket_policy::Direction;
use picket_testing::build::{accept, pod, pods_in, policy};
use picket_testing::snapshot;

use super::{pod_tables, proof};

/// Removes one rule after the other, of those that refuse what is in the middle of a connection.
#[test]
fn a_node_that_takes_up_connections_in_their_middle_is_refuted() {
    let cluster = snapshot![
        pod("x/a").ip("10.0.0.1").ip("fd00::1").label("app", "a"),
        pod("x/b").ip("10.0.0.2").ip("fd00::2"),
        // Policies allow TCP both ways: only what is in the middle of a connection is wrong.
        policy("x/p")
            .selects("app=a")
            .isolates(Direction::Ingress)
            .ingress(accept().peer(pods_in("x", "")).protocol(Protocol::TCP)),
    ];
    let engine = Engine::compile(&cluster, Semantics::default());
    let demands = Demands::on_node(engine.program(), None);
    let table = indexed::render(engine.program(), None).expect("a table");
    assert!(proof(&table, &demands).is_proof());
    let whole = table.clone().into_draft();
    let rules: Vec<(usize, usize)> = (0..)
        .zip(&whole.chains)
        .filter(|(_, chain)| chain.name.as_str() == "mid-stream")
        .flat_map(|(at, chain)| (0..chain.rules.len()).map(move |rule| (at, rule)))
        .collect();
    assert_eq!(rules.len(), 4, "both ends of both families");
    let mut sources = Vec::new();
    for (chain, rule) in rules {
        let mut draft = table.clone().into_draft();
        draft.chains[chain].rules.remove(rule);
        let report = proof(&draft.check().expect("a table"), &demands);
        let found = report.counterexamples.first().expect("a packet that passes");
        assert!(found.packet.is_mid_stream() && found.packet.state == State::New);
        assert_eq!(found.required, Required::Drop);
        sources.push(found.packet.source);
    }
    let a = ["10.0.0.1", "fd00::1"].map(|address| address.parse().expect("an address"));
    let from_a = sources.iter().map(|source| a.contains(source));
    assert_eq!(from_a.filter(|&from_a| from_a).count(), 2);
}

/// A pod that is restricted in both directions has a rule for each of them.
#[test]
fn a_pod_that_takes_up_connections_in_their_middle_is_refuted() {
    let peers = || accept().peer(pods_in("x", "")).protocol(Protocol::TCP);
    let cluster = snapshot![
        pod("x/a").ip("10.0.0.1").ip("fd00::1").label("app", "a"),
        pod("x/b").ip("10.0.0.2").ip("fd00::2"),
        policy("x/in")
            .selects("app=a")
            .isolates(Direction::Ingress)
            .ingress(peers()),
        policy("x/out")
            .selects("app=a")
            .isolates(Direction::Egress)
            .egress(peers()),
    ];
    let engine = Engine::compile(&cluster, Semantics::default());
    let (_, table, demands) = pod_tables(&cluster, &engine, &[], true)
        .into_iter()
        .find(|(pod, ..)| pod.name == "a")
        .expect("the pod");
    assert!(documented::refuses_mid_stream(&table));
    assert!(proof(&table, &demands).is_proof());
    let chain = table
        .chains()
        .iter()
        .position(|chain| chain.name.as_str() == "mid-stream");
    let mut crossings = Vec::new();
    for rule in [0, 1] {
        let mut draft = table.clone().into_draft();
        draft.chains[chain.expect("the chain")].rules.remove(rule);
        let report = proof(&draft.check().expect("a table"), &demands);
        let found = report.counterexamples.first().expect("a packet that passes");
        assert!(found.packet.is_mid_stream() && found.packet.state == State::New);
        assert_eq!(found.required, Required::Drop);
        crossings.push(found.packet.crossing.input().is_some());
    }
    // What policies for ingress need is refused where the pod sends.
    assert_eq!(crossings, [false, true]);
}
