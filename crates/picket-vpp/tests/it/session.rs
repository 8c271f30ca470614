//! Rules of the session layer mean what the reference says, in whatever order they are added.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{Endpoint, Pod, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::{Family, Protocol};
use picket_policy::ObjectRef;
use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, semantics, snapshot};
use picket_vpp::session::meaning::{Connection, Table};
use picket_vpp::session::verify::verify;
use picket_vpp::session::{Action, Options, SessionRule, SessionRules, Transport, render, text};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use smol_str::SmolStr;

/// The tables of one list of rules, each rule added in the order that `shuffle` gives.
struct Tables(BTreeMap<(Transport, Family), Table>);

impl Tables {
    fn new(rules: &[SessionRule], seed: u64) -> Self {
        let mut rules: Vec<_> = rules.iter().collect();
        shuffle(&mut rules, seed);
        let kinds = Transport::BOTH
            .into_iter()
            .flat_map(|transport| Family::BOTH.map(|family| (transport, family)));
        Self(
            kinds
                .map(|(transport, family)| {
                    (
                        (transport, family),
                        Table::new(transport, family, rules.iter().copied()),
                    )
                })
                .collect(),
        )
    }

    fn decide(&self, connection: &Connection) -> bool {
        self.0[&(connection.transport, Family::of(connection.remote))].decide(connection) == Action::Allow
    }
}

/// Another order for every seed; for 0 that in which they are.
fn shuffle<T>(items: &mut [T], mut seed: u64) {
    if seed == 0 {
        return;
    }
    for end in (1..items.len()).rev() {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        items.swap(end, usize::try_from(seed >> 33).expect("31 bits") % (end + 1));
    }
}

fn check(
    snapshot: &Snapshot,
    semantics: &Semantics,
    options: &Options,
    seed: u64,
) -> Result<(), TestCaseError> {
    let engine = Engine::compile(snapshot, semantics.clone());
    let nodes: Vec<Option<SmolStr>> = match snapshot.nodes.is_empty() {
        true => vec![None],
        false => snapshot.nodes.keys().cloned().map(Some).collect(),
    };
    let rules: BTreeMap<_, (SessionRules, BTreeSet<ObjectRef>)> = nodes
        .iter()
        .map(|node| {
            let (rules, missing) = render(engine.program(), node.as_deref(), options);
            let narrower = missing.into_iter().map(|missing| missing.pod).collect();
            (node.clone(), (rules, narrower))
        })
        .collect();
    let tables: BTreeMap<_, _> = rules
        .iter()
        .map(|(node, (rules, _))| {
            let local = rules
                .local
                .iter()
                .map(|(pod, rules)| (pod.clone(), Tables::new(rules, seed)));
            (
                node.clone(),
                (
                    local.collect::<BTreeMap<_, _>>(),
                    Tables::new(&rules.global, seed),
                ),
            )
        })
        .collect();
    for (node, (rules, narrower)) in &rules {
        let report = verify(rules, engine.program(), node.as_deref(), narrower, 3);
        prop_assert!(
            report.is_proof(),
            "{node:?}: {:?}\n{}",
            report.counterexamples,
            text(rules)
        );
    }
    let pod = |end: &Endpoint| match end {
        Endpoint::Pod(object) => snapshot.pods.get(object).filter(|pod| !pod.host_network),
        _ => None,
    };
    let node = |pod: &Pod| pod.node.clone().filter(|_| !snapshot.nodes.is_empty());
    for flow in representative_flows(snapshot) {
        let transport = match flow.protocol {
            Protocol::TCP => Transport::Tcp,
            Protocol::UDP => Transport::Udp,
            _ => continue,
        };
        let (from, to) = (pod(&flow.source), pod(&flow.destination));
        let runs = |pod: Option<&std::sync::Arc<Pod>>| pod.is_none_or(|pod| tables.contains_key(&node(pod)));
        if flow.source == flow.destination || (from, to) == (None, None) || !runs(from) || !runs(to) {
            continue;
        }
        let address = |end: &Endpoint| match end {
            Endpoint::Pod(object) => snapshot.pods[object]
                .addresses
                .of(flow.family)
                .expect("an address"),
            Endpoint::Node { address, .. } | Endpoint::External(address) => *address,
        };
        let (source, destination) = (address(&flow.source), address(&flow.destination));
        // The address that nobody has is in no rule about parts of all addresses.
        if source.is_unspecified() || destination.is_unspecified() {
            continue;
        }
        let mut passes = true;
        let mut narrower = false;
        if let Some(from) = from {
            let here = node(from);
            narrower |= rules[&here].1.contains(&from.object);
            passes &= tables[&here].0[&from.object].decide(&Connection {
                transport,
                local: source,
                remote: destination,
                local_port: 40_000,
                remote_port: flow.port,
            });
        }
        let same_node = from.zip(to).is_some_and(|(from, to)| node(from) == node(to));
        if let Some(to) = to.filter(|_| !same_node) {
            let here = node(to);
            narrower |= rules[&here].1.contains(&to.object);
            passes &= tables[&here].1.decide(&Connection {
                transport,
                local: destination,
                remote: source,
                local_port: flow.port,
                remote_port: 40_000,
            });
        }
        let allowed = picket_reference::judge(snapshot, semantics, &flow)
            .verdict()
            .is_allow();
        prop_assert!(
            passes == allowed || narrower && !passes,
            "{passes}: {flow:?}\n{}",
            rules.values().map(|(rules, _)| text(rules)).collect::<String>()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rules_mean_what_the_specification_says(
        snapshot in snapshot(Shape::Dialects, 5),
        semantics in semantics(),
        seed in prop_oneof![Just(0), any::<u64>()],
    ) {
        // Adding to a tree takes VPP, and this, a time that grows with the square of the rules.
        check(&snapshot, &semantics, &Options { most_rules: 600 }, seed)?;
    }

    #[test]
    fn less_is_allowed_where_there_may_be_no_more_rules(
        snapshot in snapshot(Shape::Dialects, 5),
        most_rules in 0..40usize,
        seed: u64,
    ) {
        check(&snapshot, &Semantics::default(), &Options { most_rules }, seed)?;
    }
}
