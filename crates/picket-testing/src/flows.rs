//! The packets that tell the policies of a snapshot apart.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_cluster::{Endpoint, Flow, Snapshot};
use picket_net::{Family, PortRange, Prefix, Protocol};
use picket_policy::{Direction, List, Peer, PortMatch, Rule};

/// Every ordered pair of live pods, addresses of nodes and external addresses, in every family that both have, with every protocol
/// and port at which an answer can change.
///
/// - One external address for each range that the prefixes of the policies cut the address space into.
/// - Each end of each port range that a policy names or a port name stands for, and the ports next to it; ICMP or
///   ICMPv6 by family, and GRE for every other protocol.
/// - A pod with itself is a pair, a workload with itself is not: one endpoint there stands for two pods.
/// - Two external addresses are no pair.
pub fn representative_flows(snapshot: &Snapshot) -> Vec<Flow> {
    let endpoints = endpoints(snapshot);
    let traffic = traffic(snapshot);
    let mut flows = Vec::new();
    for (source, from) in &endpoints {
        for (destination, to) in &endpoints {
            if !is_pair(source, destination) {
                continue;
            }
            for family in Family::BOTH {
                if from.contains(&family) && to.contains(&family) {
                    flows.extend(traffic_of(&traffic, family).map(|(protocol, port)| Flow {
                        source: source.clone(),
                        destination: destination.clone(),
                        family,
                        protocol,
                        port,
                    }));
                }
            }
        }
    }
    flows
}

fn is_pair(source: &Endpoint, destination: &Endpoint) -> bool {
    match (source, destination) {
        (Endpoint::External(_), Endpoint::External(_)) => false,
        (Endpoint::Pod(one), Endpoint::Pod(other)) => one != other || one.kind == "Pod",
        _ => true,
    }
}

/// Live pods, every address of every node, and one external address per elementary range, with the families of their
/// addresses.
pub fn endpoints(snapshot: &Snapshot) -> Vec<(Endpoint, BTreeSet<Family>)> {
    let pods = snapshot.live_pods().map(|pod| {
        (
            Endpoint::Pod(pod.object.clone()),
            pod.addresses.iter().map(Family::of).collect(),
        )
    });
    let nodes = snapshot.nodes.values().flat_map(|node| {
        node.addresses.iter().map(|&address| {
            let name = node.name.clone();
            (
                Endpoint::Node { name, address },
                BTreeSet::from([Family::of(address)]),
            )
        })
    });
    let external = external_addresses(snapshot)
        .into_iter()
        .map(|address| (Endpoint::External(address), BTreeSet::from([Family::of(address)])));
    pods.chain(nodes).chain(external).collect()
}

/// The first address that is no pod's and no node's of each range that the prefixes of the policies cut the address
/// space into; ranges that hold only addresses of pods and nodes have none.
pub fn external_addresses(snapshot: &Snapshot) -> Vec<IpAddr> {
    let pods = snapshot.live_pods().flat_map(|pod| pod.addresses.iter());
    let nodes = snapshot
        .nodes
        .values()
        .flat_map(|node| node.addresses.iter().copied());
    let taken: BTreeSet<IpAddr> = pods.chain(nodes).collect();
    let mut starts = BTreeSet::from([
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    ]);
    for prefix in prefixes(snapshot) {
        starts.insert(prefix.first());
        starts.extend(next(prefix.last()));
    }
    let starts: Vec<_> = starts.into_iter().collect();
    let mut found = Vec::new();
    for (at, &start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied();
        let mut candidate = Some(start);
        while let Some(address) = candidate.filter(|&address| Some(address) != end) {
            if !taken.contains(&address) {
                found.push(address);
                break;
            }
            candidate = next(address);
        }
    }
    found
}

/// The next address of the same family.
fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => address
            .to_bits()
            .checked_add(1)
            .map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(address) => address
            .to_bits()
            .checked_add(1)
            .map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

fn rules(snapshot: &Snapshot) -> impl Iterator<Item = &Rule> {
    snapshot
        .policies
        .values()
        .flat_map(|policy| Direction::BOTH.map(|direction| policy.side(direction)))
        .flat_map(|side| &side.rules)
}

fn prefixes(snapshot: &Snapshot) -> Vec<Prefix> {
    let mut prefixes = Vec::new();
    for rule in rules(snapshot) {
        if let List::Items(peers) = &rule.peers {
            for peer in peers {
                if let Peer::Block(block) = peer {
                    prefixes.push(block.prefix);
                    prefixes.extend(&block.except);
                }
            }
        }
    }
    prefixes
}

/// For each protocol the ports at which an answer can change; 0 for protocols without ports.
fn traffic(snapshot: &Snapshot) -> BTreeMap<Protocol, BTreeSet<u16>> {
    let mut traffic: BTreeMap<Protocol, BTreeSet<u16>> = Protocol::WITH_PORTS
        .into_iter()
        .map(|protocol| (protocol, [80].into()))
        .collect();
    let mut add = |protocol, range: PortRange| {
        let around = [
            range.first().checked_sub(1),
            Some(range.first()),
            Some(range.last()),
            range.last().checked_add(1),
        ];
        let ports = around.into_iter().flatten().filter(|&port| port != 0);
        traffic.entry(protocol).or_default().extend(ports);
    };
    for rule in rules(snapshot) {
        let List::Items(ports) = &rule.ports else { continue };
        for port in ports {
            match port {
                PortMatch::Protocol(_) => {}
                PortMatch::Range(protocol, range) => add(*protocol, *range),
                PortMatch::Named { protocol, name } => {
                    for declared in snapshot.live_pods().flat_map(|pod| &*pod.ports) {
                        if declared.name == *name && protocol.is_none_or(|one| one == declared.protocol) {
                            PortRange::single(declared.port)
                                .into_iter()
                                .for_each(|range| add(declared.protocol, range));
                        }
                    }
                }
            }
        }
    }
    for portless in [Protocol::ICMP, Protocol::ICMPV6, Protocol::from_number(47)] {
        traffic.insert(portless, [0].into());
    }
    traffic
}

fn traffic_of(
    traffic: &BTreeMap<Protocol, BTreeSet<u16>>,
    family: Family,
) -> impl Iterator<Item = (Protocol, u16)> + '_ {
    let foreign = match family {
        Family::Ipv4 => Protocol::ICMPV6,
        Family::Ipv6 => Protocol::ICMP,
    };
    traffic
        .iter()
        .filter(move |&(&protocol, _)| protocol != foreign)
        .flat_map(|(&protocol, ports)| ports.iter().map(move |&port| (protocol, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{accept, block, ip, node, pod, policy};
    use crate::snapshot;

    #[test]
    fn each_range_between_prefix_ends_has_one_external_address() {
        let rule = accept().peer(block("10.0.0.0/8", &["10.0.0.0/31", "10.1.0.0/16"]));
        let cluster = snapshot![
            pod("x/a").ip("10.0.0.0"),
            node("n").ip("10.0.0.1"),
            policy("x/p").ingress(rule),
        ];
        let expected = ["0.0.0.0", "10.0.0.2", "10.1.0.0", "10.2.0.0", "11.0.0.0", "::"].map(ip);
        assert_eq!(external_addresses(&cluster), expected);
    }

    #[test]
    fn ports_around_every_boundary_are_asked_for() {
        let cluster = snapshot![
            pod("x/a").ip("10.0.0.1").port("web", Protocol::TCP, 8080),
            policy("x/p").ingress(accept().ports(Protocol::UDP, 1, 90).named("web", Protocol::TCP)),
        ];
        let traffic = traffic(&cluster);
        assert_eq!(traffic[&Protocol::TCP], [80, 8079, 8080, 8081].into());
        assert_eq!(traffic[&Protocol::UDP], [1, 80, 90, 91].into());
        assert_eq!(traffic[&Protocol::SCTP], [80].into());
    }

    #[test]
    fn pairs_share_a_family_and_are_not_both_external() {
        let cluster = snapshot![
            pod("x/a").ip("10.0.0.1"),
            pod("x/b").ip("fd00::1"),
            pod("x/Job/c").ip("10.0.0.3")
        ];
        let pairs: BTreeSet<_> = representative_flows(&cluster)
            .into_iter()
            .map(|flow| (flow.source, flow.destination))
            .collect();
        // a and c with each other and 0.0.0.0, a and b each with itself, b with ::.
        assert_eq!(pairs.len(), 2 + 4 + 2 + 2);
    }
}
