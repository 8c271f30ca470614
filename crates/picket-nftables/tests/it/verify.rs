//! Rendered rulesets are proved, and wrong ones refuted.

use std::cell::Cell;
use std::collections::BTreeSet;

use picket_cluster::{Object, Pod, Semantics, Snapshot};
use picket_dataplane::demand::Demands;
use picket_engine::Engine;
use picket_net::Protocol;
use picket_nftables::custom::{CustomRules, add, own_addresses};
use picket_nftables::meaning::Interpreter;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::print;
use picket_nftables::render::documented::{Options, OtherEnds, PodView, render};
use picket_nftables::verify::{Report, verify, verify_while};
use picket_policy::{Direction, NetworkName, ObjectRef};
use picket_testing::build::{accept, pod, pods_in, policy};
use picket_testing::generate::{Shape, semantics, snapshot};
use proptest::prelude::*;
use smol_str::SmolStr;

use crate::custom::custom_rules;
use crate::networks::{is_on, networks_with};

/// Every node's table, and with no nodes that of one node that runs every pod.
fn nodes(snapshot: &Snapshot) -> Vec<Option<String>> {
    if snapshot.nodes.is_empty() {
        return vec![None];
    }
    snapshot.nodes.keys().map(|name| Some(name.to_string())).collect()
}

fn proof(table: &Table, demands: &Demands<'_>) -> Report {
    proof_over("eth0", table, demands)
}

/// The report on one interface of a pod, each of its packets tried.
fn proof_over(interface: &str, table: &Table, demands: &Demands<'_>) -> Report {
    let report = verify(table, demands, interface, 1).expect("the proof agrees with the interpreter");
    for found in &report.counterexamples {
        let passage = Interpreter::new(table).pass(&found.packet);
        assert_eq!(passage, found.passage);
        assert!(!demands.required(&found.packet).is_met_by(&passage.outcome));
    }
    report
}

pub(crate) fn check_nodes(snapshot: &Snapshot, semantics: &Semantics) {
    let engine = Engine::compile(snapshot, semantics.clone());
    for node in nodes(snapshot) {
        let table = crate::indexed::table_with(snapshot, semantics, node.as_deref());
        let demands = Demands::on_node(engine.program(), node.as_deref());
        // Who does not know that the node looks at the way back takes it as well.
        for demands in [
            demands.against_spoofing(uplinks()),
            Demands::on_node(engine.program(), node.as_deref()),
        ] {
            let report = proof(&table, &demands);
            assert!(report.is_proof(), "{report:#?}\n{}", print::block(&table));
        }
    }
}

/// Those of the tables that are proved.
fn uplinks() -> BTreeSet<SmolStr> {
    BTreeSet::from(["net1".into()])
}

/// The pods' tables with what is demanded of them.
fn pod_tables<'e>(
    snapshot: &Snapshot,
    engine: &'e Engine,
    custom: &[CustomRules],
    refuse_mid_stream: bool,
) -> Vec<(ObjectRef, Table, Demands<'e>)> {
    let program = engine.program();
    let eth0 = InterfaceName::new("eth0").expect("an interface name");
    let options = Options {
        accept_icmp: program.semantics().accept_icmp,
        accept_icmpv6: program.semantics().accept_icmpv6,
        custom: custom.to_vec(),
        refuse_mid_stream,
        count_drops: refuse_mid_stream,
        log_denied: refuse_mid_stream.then_some(7),
    };
    let table = |pod: &Pod| {
        let view =
            PodView::of(program, &OtherEnds::default(), &pod.object, &eth0).expect("a pod of the snapshot");
        let (table, shortfalls) = render(&view, &options).expect("a table");
        let narrower =
            Direction::BOTH.map(|side| shortfalls.iter().any(|shortfall| shortfall.direction == side));
        let demands = Demands::in_pod(program, &pod.object, "eth0", BTreeSet::new(), narrower);
        let demands = demands.expect("a pod of the snapshot");
        let mut demands = demands.about_own_addresses(own_addresses(custom));
        if refuse_mid_stream {
            demands = demands.without_mid_stream();
        }
        (pod.object.clone(), table, demands)
    };
    let managed = snapshot.live_pods().filter(|pod| pod.is_managed());
    managed.map(|pod| table(pod)).collect()
}

/// A pod's table with the rules of every network, and what each network demands of it: the interface, and the network's
/// place in `engines`, the cluster network first.
fn pod_on_networks(
    networks: &[(Option<NetworkName>, Snapshot)],
    engines: &[Engine],
    pod: &Pod,
    custom: &[CustomRules],
    mut each: impl FnMut(&str, &Snapshot, &Table, &Demands<'_>),
) {
    let eth0 = InterfaceName::new("eth0").expect("an interface name");
    let semantics = engines[0].program().semantics();
    let options = Options {
        accept_icmp: semantics.accept_icmp,
        accept_icmpv6: semantics.accept_icmpv6,
        custom: custom.to_vec(),
        refuse_mid_stream: true,
        count_drops: true,
        log_denied: Some(7),
    };
    let mut view = PodView::of(engines[0].program(), &OtherEnds::default(), &pod.object, &eth0)
        .expect("a pod of the cluster");
    for ((name, _), engine) in networks.iter().zip(engines).skip(1) {
        let name = name.as_ref().expect("a secondary network");
        view.attach(engine.program(), &OtherEnds::default(), name)
            .expect("names of interfaces");
    }
    let (table, shortfalls) = render(&view, &options).expect("a table");
    let narrower = Direction::BOTH.map(|side| shortfalls.iter().any(|shortfall| shortfall.direction == side));
    let all: BTreeSet<SmolStr> = pod
        .attachments
        .iter()
        .map(|own| own.interface.clone())
        .chain(["eth0".into()])
        .collect();
    for ((name, network), engine) in networks.iter().zip(engines) {
        for endpoint in network.pods.values().filter(|pod| is_on(pod, name.as_ref())) {
            let interface = endpoint
                .interface
                .as_ref()
                .map_or("eth0", |own| own.name.as_str());
            if *endpoint.whole() != pod.object {
                continue;
            }
            let others = all.iter().filter(|other| *other != interface).cloned().collect();
            let demands = Demands::in_pod(engine.program(), &endpoint.object, interface, others, narrower);
            each(
                interface,
                network,
                &table,
                &demands
                    .expect("a pod of the network")
                    .about_own_addresses(own_addresses(custom))
                    .without_mid_stream(),
            );
        }
    }
}

/// Proves the table of every pod on each of its interfaces.
pub(crate) fn check_pods_everywhere(cluster: &Snapshot, semantics: &Semantics, custom: &[CustomRules]) {
    let networks = networks_with(cluster, custom);
    let compile = |network: &Snapshot| Engine::compile(network, semantics.clone());
    let engines: Vec<_> = networks.iter().map(|(_, network)| compile(network)).collect();
    for pod in cluster.live_pods().filter(|pod| pod.is_managed()) {
        pod_on_networks(
            &networks,
            &engines,
            pod,
            custom,
            |interface, _, table, demands| {
                let report = proof_over(interface, table, demands);
                assert!(
                    report.is_proof(),
                    "{} over {interface} {report:#?}\n{}",
                    pod.object,
                    print::block(table)
                );
            },
        );
    }
}

fn check_pods(snapshot: &Snapshot, semantics: &Semantics, custom: &[CustomRules]) {
    let engine = Engine::compile(snapshot, semantics.clone());
    for refuse_mid_stream in [false, true] {
        for (pod, table, demands) in pod_tables(snapshot, &engine, custom, refuse_mid_stream) {
            let report = proof(&table, &demands);
            assert!(report.is_proof(), "{pod} {report:#?}\n{}", print::block(&table));
        }
    }
}

#[test]
fn a_proof_that_is_given_up_proves_and_refutes_nothing() {
    let admit = accept().peer(pods_in("a", "app=x")).port(Protocol::TCP, 80);
    let snapshot: Snapshot = [
        Object::from(pod("a/x").label("app", "x").ip("10.0.0.1")),
        Object::from(pod("a/y").ip("10.0.0.2")),
        Object::from(policy("a/admit").selects("").ingress(admit)),
    ]
    .into_iter()
    .collect();
    let semantics = Semantics::default();
    let engine = Engine::compile(&snapshot, semantics.clone());
    let table = crate::indexed::table_with(&snapshot, &semantics, None);
    let demands = Demands::on_node(engine.program(), None);
    let after = |questions: usize| {
        let left = Cell::new(questions);
        let goes_on = || left.replace(left.get().saturating_sub(1)) > 0;
        verify_while(&table, &demands, "", 1, &goes_on).unwrap()
    };
    let open = (0..).take_while(|&questions| after(questions).is_open()).count();
    assert!(open > 10, "it is asked again and again");
    let report = after(open);
    assert!(report.is_proof() && !report.is_open());
    assert!(!after(open - 1).is_proof());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rendered_nodes_are_proved(
        snapshot in prop_oneof![snapshot(Shape::V1, 5), snapshot(Shape::Tiered, 4)], semantics in semantics(),
    ) {
        check_nodes(&snapshot, &semantics);
    }

    #[test]
    fn rendered_pods_are_proved(
        snapshot in prop_oneof![snapshot(Shape::V1, 5), snapshot(Shape::Tiered, 4)], semantics in semantics(),
    ) {
        check_pods(&snapshot, &semantics, &[]);
    }

    #[test]
    fn rendered_pods_with_custom_rules_are_proved(
        mut snapshot in prop_oneof![2 => snapshot(Shape::V1, 5), 1 => snapshot(Shape::Tiered, 4)],
        semantics in semantics(),
        custom in custom_rules(),
    ) {
        // Only with this choice are custom rules, which match addresses as they are written, policies like others.
        let semantics = Semantics { ipblock_matches_pods: true, ..semantics };
        add(&custom, &mut snapshot, "eth0");
        check_pods(&snapshot, &semantics, &custom);
    }
}

mod listing;
mod mid_stream;
mod mutation;
mod pairs;
mod spoofing;
