//! A pod's table with the rules of every network that it is on.

use std::collections::BTreeMap;

use picket_cluster::{Endpoint, Pod, Semantics, Snapshot};
use picket_engine::Engine;
use picket_nftables::custom::{CustomRules, add};
use picket_nftables::meaning::Interpreter;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::print;
use picket_nftables::render::documented::{Options, OtherEnds, PodView, render};
use picket_policy::{Direction, NetworkName, ObjectRef};
use picket_testing::cases::committed;
use picket_testing::flows::representative_flows;

use crate::reference::packet_over;

/// The cluster as one of its networks sees it, the cluster network (`None`) first.
pub(crate) fn networks(cluster: &Snapshot) -> Vec<(Option<NetworkName>, Snapshot)> {
    networks_with(cluster, &[])
}

/// The same, with custom rules among the policies of each.
pub(crate) fn networks_with(
    cluster: &Snapshot,
    custom: &[CustomRules],
) -> Vec<(Option<NetworkName>, Snapshot)> {
    let secondary = cluster.known_networks().into_iter();
    let secondary = secondary.map(|network| {
        let seen = cluster.on(&network);
        (Some(network), seen)
    });
    let mut networks: Vec<_> = std::iter::once((None, cluster.clone()))
        .chain(secondary)
        .collect();
    if !custom.is_empty() {
        networks
            .iter_mut()
            .for_each(|(_, network)| add(custom, network, "eth0"));
    }
    networks
}

/// Whether an end is on a network itself, and not on another of its wire, whose rules come from what that one sees.
pub(crate) fn is_on(pod: &Pod, network: Option<&NetworkName>) -> bool {
    pod.interface.as_ref().map(|own| &own.network) == network
}

/// The table of every managed pod, and in which directions it means less than the policies say.
fn tables(
    cluster: &Snapshot,
    networks: &[(Option<NetworkName>, Snapshot)],
    semantics: &Semantics,
    custom: &[CustomRules],
) -> BTreeMap<ObjectRef, (Table, [bool; 2])> {
    let options = Options {
        accept_icmp: semantics.accept_icmp,
        accept_icmpv6: semantics.accept_icmpv6,
        custom: custom.to_vec(),
        ..Options::default()
    };
    let engines: Vec<_> = networks
        .iter()
        .map(|(name, network)| (name, Engine::compile(network, semantics.clone())))
        .collect();
    let ((_, first), secondary) = engines.split_first().expect("the cluster network");
    let eth0 = InterfaceName::new("eth0").expect("an interface name");
    let managed = cluster.live_pods().filter(|pod| pod.is_managed());
    managed
        .map(|pod| {
            let mut view = PodView::of(first.program(), &OtherEnds::default(), &pod.object, &eth0)
                .expect("a pod of the cluster");
            for (name, network) in secondary {
                let name = name.as_ref().expect("a secondary network");
                view.attach(network.program(), &OtherEnds::default(), name)
                    .expect("names of interfaces");
            }
            let (table, shortfalls) = render(&view, &options).expect("a table");
            let narrower = Direction::BOTH.map(|side| shortfalls.iter().any(|one| one.direction == side));
            (pod.object.clone(), (table, narrower))
        })
        .collect()
}

/// The pod and the interface that an endpoint is.
fn place(pod: &Pod) -> (&ObjectRef, &str) {
    let interface = pod.interface.as_ref().map_or("eth0", |own| own.name.as_str());
    (pod.whole(), interface)
}

/// Holds every representative flow on every network against the specification; gives how many ends have exactly its
/// verdict.
pub(crate) fn check(cluster: &Snapshot, title: &str, semantics: &Semantics, custom: &[CustomRules]) -> usize {
    let networks = networks_with(cluster, custom);
    let tables = tables(cluster, &networks, semantics, custom);
    let mut judged = 0;
    for (name, network) in &networks {
        for flow in representative_flows(network) {
            let judgement = picket_reference::judge(network, semantics, &flow);
            for (direction, endpoint, end, at) in [
                (Direction::Egress, &flow.source, &judgement.egress, 1),
                (Direction::Ingress, &flow.destination, &judgement.ingress, 0),
            ] {
                let Endpoint::Pod(object) = endpoint else { continue };
                // What a pod sends to itself crosses no interface.
                if end.reason == picket_cluster::Reason::SamePod {
                    continue;
                }
                if !is_on(&network.pods[object], name.as_ref()) {
                    continue;
                }
                let (pod, interface) = place(&network.pods[object]);
                let packet = packet_over(interface, network, &flow, direction);
                let Some((table, narrower)) = tables.get(pod) else {
                    continue;
                };
                let accepted = Interpreter::new(table).pass(&packet).outcome.is_accept();
                if narrower[at] && !accepted {
                    continue;
                }
                assert_eq!(
                    accepted,
                    end.verdict.is_allow(),
                    "{title}: {direction} of {pod} over {interface}: {end:?}\n{flow:?}\n{}",
                    print::block(table)
                );
                judged += 1;
            }
        }
    }
    judged
}

#[test]
fn tables_of_pods_with_several_interfaces_mean_what_each_network_says() {
    let cases = committed().expect("the cases of the project");
    let steps = cases.iter().flat_map(|case| &case.steps);
    let steps = steps.filter(|step| step.network.is_some());
    let judged: usize = steps
        .map(|step| check(&step.cluster(), &step.title, &Semantics::default(), &[]))
        .sum();
    assert!(judged > 5_000, "{judged}");
}
