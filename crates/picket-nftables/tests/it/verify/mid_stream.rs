//! That TCP of connections which nobody knows is refused is proved like everything else.

use picket_cluster::{Object, Semantics};
use picket_dataplane::demand::{Demands, Required, Why};
use picket_dataplane::{Crossing, State};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_nftables::model::{End, Rule, Verdict};
use picket_nftables::render::{documented, indexed};
use picket_policy::{ClusterDefault, Direction};
use picket_testing::build::{accept, admin_policy, deny, node, nodes_where, pod, pods_in, policy};
use picket_testing::snapshot;

use super::{pod_tables, proof};

/// The rules of a chain, each once: some are there a second time, for packets that are judged while they change.
fn distinct(rules: &[Rule]) -> Vec<&Rule> {
    let mut distinct: Vec<&Rule> = Vec::new();
    for rule in rules {
        if !distinct.contains(&rule) {
            distinct.push(rule);
        }
    }
    distinct
}

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
    let at = whole
        .chains
        .iter()
        .position(|chain| chain.name.as_str() == "mid-stream");
    let at = at.expect("the chain");
    let rules = distinct(&whole.chains[at].rules);
    assert_eq!(rules.len(), 4, "both ends of both families");
    let mut sources = Vec::new();
    for rule in rules {
        let mut draft = table.clone().into_draft();
        draft.chains[at].rules.retain(|other| other != rule);
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

/// The same between a pod and its own node, of which something is denied in one direction.
#[test]
fn a_node_that_takes_up_connections_with_its_own_pods_in_their_middle_is_refuted() {
    let udp = deny().peer(nodes_where("")).protocol(Protocol::UDP);
    let default = ClusterDefault::Deny.policy().expect("a policy");
    for (policy, chain) in [
        (Object::from(admin_policy("no-udp", 1).egress(udp)), "from-itself"),
        (Object::Policy(default), "input"),
    ] {
        let cluster = snapshot![
            node("n").ip("192.0.2.1").ip("2001:db8::1"),
            pod("x/a").ip("10.0.0.1").ip("fd00::1").on("n"),
            policy,
        ];
        let engine = Engine::compile(&cluster, Semantics::default());
        let demands = Demands::on_node(engine.program(), Some("n"));
        let table = indexed::render(engine.program(), Some("n")).expect("a table");
        assert!(proof(&table, &demands).is_proof());
        let whole = table.clone().into_draft();
        let at = whole.chains.iter().position(|found| found.name.as_str() == chain);
        let at = at.expect("the chain");
        let rules = distinct(&whole.chains[at].rules).into_iter();
        let refusing: Vec<_> = rules
            .filter(|rule| rule.end == End::Verdict(Verdict::Drop))
            .collect();
        assert_eq!(refusing.len(), 2, "both families");
        for rule in refusing {
            let mut draft = table.clone().into_draft();
            draft.chains[at].rules.retain(|other| other != rule);
            let report = proof(&draft.check().expect("a table"), &demands);
            let found = report.counterexamples.first().expect("a packet that passes");
            assert!(found.packet.is_mid_stream() && found.packet.state == State::New);
            assert_eq!(found.required, Required::Drop);
            let is_sent = matches!(found.packet.crossing, Crossing::Send { .. });
            assert_eq!(is_sent, chain == "from-itself");
            assert_eq!(demands.why(&found.packet), Why::MidStream);
        }
    }
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
