//! Blocks that hold addresses which blocks are not made for: those of pods and of Services.

use std::net::IpAddr;

use picket_cluster::Snapshot;
use picket_policy::{Block, Diagnostic, List, ObjectRef, Peer};

use super::{Subject, advice, table};

/// The addresses of pods and of Services, each ascending.
pub(super) struct Taken<'a> {
    pods: Vec<(IpAddr, &'a ObjectRef)>,
    services: Vec<(IpAddr, &'a ObjectRef)>,
}

impl<'a> Taken<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let pods = snapshot
            .live_pods()
            .filter(|pod| !pod.synthetic && !pod.host_network);
        let pods = pods.flat_map(|pod| pod.addresses.iter().map(move |address| (address, &pod.object)));
        let services = snapshot.services.values();
        let services = services.flat_map(|service| {
            service
                .addresses
                .iter()
                .map(|&address| (address, &service.object))
        });
        let (mut pods, mut services): (Vec<_>, Vec<_>) = (pods.collect(), services.collect());
        pods.sort_unstable();
        services.sort_unstable();
        Self { pods, services }
    }
}

pub(super) fn check(about: &Subject<'_>, taken: &Taken<'_>, found: &mut Vec<Diagnostic>) {
    for (direction, rule) in about.rules() {
        let List::Items(peers) = &rule.peers else { continue };
        for (at, peer) in peers.iter().enumerate() {
            let Peer::Block(block) = peer else { continue };
            // Whoever writes every address means everybody.
            if block.prefix.length() == 0 {
                continue;
            }
            let pod = first_within(block, &taken.pods);
            let service = first_within(block, &taken.services);
            let place = || about.peer_place(direction, rule, at);
            match (pod, service) {
                (Some(pod), _) => found.push(holds_pod(about, block, pod, &place())),
                (None, Some(service)) => found.push(holds_service(about, block, service, &place())),
                (None, None) => {}
            }
        }
    }
}

type Owned<'a> = (IpAddr, &'a ObjectRef);

fn holds_pod(
    about: &Subject<'_>,
    block: &Block,
    (address, pod): Owned<'_>,
    place: &super::text::Place,
) -> Diagnostic {
    let message = format!(
        "the block `{}` in {} holds addresses of pods, such as {address} of {pod}",
        block.prefix, about.policy.object
    );
    let note = "addresses of pods change, and whether a block matches them depends on the network plugin";
    let mut diagnostic = about.warning(table::BLOCK_OF_PODS, place, message).note(note);
    let title = "select pods by their labels, and take their addresses out of the block with `except`";
    diagnostic.fixes.push(advice(title));
    diagnostic
}

fn holds_service(
    about: &Subject<'_>,
    block: &Block,
    (address, service): Owned<'_>,
    place: &super::text::Place,
) -> Diagnostic {
    let message = format!(
        "the block `{}` in {} holds the address {address} of {service}, which no policy sees",
        block.prefix, about.policy.object
    );
    let note = "policies are judged with the address of the pod that the Service leads to";
    let mut diagnostic = about.warning(table::BLOCK_OF_SERVICE, place, message).note(note);
    diagnostic
        .fixes
        .push(advice("select the pods of the Service by their labels"));
    diagnostic
}

/// The first of the addresses that is in a block.
fn first_within<'a>(block: &Block, taken: &[Owned<'a>]) -> Option<Owned<'a>> {
    let mut at = taken.partition_point(|(address, _)| *address < block.prefix.first());
    loop {
        let &(address, object) = taken.get(at)?;
        if address > block.prefix.last() {
            return None;
        }
        let Some(except) = block.except.iter().find(|except| except.contains(address)) else {
            return Some((address, object));
        };
        at = taken.partition_point(|(address, _)| *address <= except.last());
    }
}
