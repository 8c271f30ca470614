//! That a node lets nobody pass with the address of somebody else is proved like everything else.

use picket_cluster::Semantics;
use picket_dataplane::State;
use picket_dataplane::demand::{Demands, Required, Why};
use picket_engine::Engine;
use picket_nftables::model::{Draft, InterfaceName, Name, Table};
use picket_nftables::render::indexed::{Options, render, render_with, with_uplinks};
use picket_policy::Direction;
use picket_testing::build::{pod, policy};
use picket_testing::snapshot;

use super::{proof, uplinks};
use crate::indexed::guard;

fn engine(is_restricted: bool) -> Engine {
    let mut cluster = snapshot![
        pod("x/a").ip("10.0.0.1").ip("fd00::1").label("app", "a"),
        pod("x/b").ip("10.0.0.2").ip("fd00::2"),
        policy("x/p").selects("app=a").isolates(Direction::Ingress),
    ];
    if !is_restricted {
        cluster.policies.clear();
    }
    Engine::compile(&cluster, Semantics::default())
}

fn guarded(engine: &Engine) -> Table {
    let options = Options {
        guard: Some(guard()),
        ..Options::default()
    };
    render_with(engine.program(), None, &options).expect("a table")
}

#[test]
fn a_node_that_does_not_look_at_the_way_back_is_refuted() {
    for engine in [true, false].map(engine) {
        let demands = Demands::on_node(engine.program(), None).against_spoofing(uplinks());
        let table = guarded(&engine);
        assert!(proof(&table, &demands).is_proof());
        let without = render(engine.program(), None).expect("a table");
        let found = proof(&without, &demands).counterexamples;
        let found = found.first().expect("a packet that passes");
        assert!(!found.packet.reverse_path, "{found:?}");
        assert_eq!(found.required, Required::Drop);
        assert_eq!(demands.why(&found.packet), Why::NoWayBack);
        assert_ne!(
            found.packet.crossing.input().map(|name| name.as_str()),
            Some("net1")
        );
    }
}

/// Changes the guarded table of a node and gives the first packet that is treated wrongly then.
fn refuted_by(change: impl Fn(&mut Draft)) -> picket_nftables::verify::Counterexample {
    let engine = engine(true);
    let demands = Demands::on_node(engine.program(), None).against_spoofing(uplinks());
    let mut draft = guarded(&engine).into_draft();
    change(&mut draft);
    let report = proof(&draft.check().expect("a table"), &demands);
    report.counterexamples.into_iter().next().expect("a packet")
}

#[test]
fn established_connections_are_no_excuse() {
    let found = refuted_by(|draft| {
        let forward = draft
            .chains
            .iter_mut()
            .find(|chain| chain.name.as_str() == "forward");
        forward.expect("a chain").rules.swap(1, 2);
    });
    assert!(matches!(found.packet.state, State::Established | State::Related));
    assert_eq!(
        (found.packet.reverse_path, found.required),
        (false, Required::Drop)
    );
}

#[test]
fn what_ipv6_cannot_do_without_passes_also_so() {
    let found = refuted_by(|draft| {
        let forward = draft
            .chains
            .iter_mut()
            .find(|chain| chain.name.as_str() == "forward");
        forward.expect("a chain").rules.remove(0);
    });
    assert_eq!(
        (found.packet.reverse_path, found.required),
        (false, Required::Accept)
    );
    assert!(found.packet.icmp_type.is_some());
}

#[test]
fn uplinks_are_those_of_the_node() {
    let engine = engine(true);
    let demands = Demands::on_node(engine.program(), None).against_spoofing(uplinks());
    let table = guarded(&engine);
    // One less, and one more.
    let others = with_uplinks(&table, &Default::default()).expect("a table");
    let found = proof(&others, &demands).counterexamples;
    assert_eq!(found.first().expect("a packet").required, Required::Accept);
    let mut more = guard();
    more.uplinks.extend(InterfaceName::new("p1"));
    let others = with_uplinks(&table, &more).expect("a table");
    let found = proof(&others, &demands).counterexamples;
    let found = found.first().expect("a packet");
    assert_eq!(found.required, Required::Drop);
    assert_eq!(
        found.packet.crossing.input().map(|name| name.as_str()),
        Some("p1")
    );
    let uplinks = Name::new("uplinks").expect("a name");
    assert!(table.sets().iter().any(|set| *set.name() == uplinks));
}
