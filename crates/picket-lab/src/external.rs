//! Hosts outside the cluster: one for each set of addresses that policies can tell apart.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_cluster::Snapshot;
use picket_net::{AddressRange, AddressSet, Family, Prefix};
use picket_policy::{Block, Direction, List, Peer};

/// Addresses that no interface of the lab can have, or that routers do not forward: this network, loopback,
/// link-local, multicast, reserved; in IPv6 also what embeds IPv4.
pub(crate) fn unusable() -> AddressSet {
    let v4 = [
        ([0, 0, 0, 0], 8),
        ([127, 0, 0, 0], 8),
        ([169, 254, 0, 0], 16),
        ([224, 0, 0, 0], 3),
    ];
    let v6 = [("::", 8), ("fe80::", 10), ("ff00::", 8)];
    let v4 = v4
        .into_iter()
        .filter_map(|(octets, length)| Prefix::new(Ipv4Addr::from(octets).into(), length));
    let v6 = v6
        .into_iter()
        .filter_map(|(base, length)| Prefix::new(base.parse::<Ipv6Addr>().ok()?.into(), length));
    v4.chain(v6).map(|prefix| prefix.range()).collect()
}

/// One address of every class, ascending, for each family that the cluster uses. A class whose addresses are all
/// unusable has none.
pub(crate) fn representatives(snapshot: &Snapshot) -> BTreeSet<IpAddr> {
    let families: BTreeSet<Family> = inside(snapshot).map(Family::of).collect();
    let space = AddressSet::all()
        .difference(&unusable())
        .difference(&inside(snapshot).collect());
    let blocks: BTreeSet<&Block> = blocks(snapshot).collect();
    let mut classes = vec![space];
    for block in blocks {
        let members = members(block);
        classes = classes
            .into_iter()
            .flat_map(|class| [class.intersection(&members), class.difference(&members)])
            .filter(|class| !class.is_empty())
            .collect();
    }
    classes
        .iter()
        .flat_map(|class| families.iter().map(|family| class.of_family(*family)))
        .filter_map(|class| class.ranges().next().map(|range| within(&range)))
        .collect()
}

fn inside(snapshot: &Snapshot) -> impl Iterator<Item = IpAddr> + '_ {
    let pods = snapshot.pods.values().flat_map(|pod| pod.addresses.iter());
    pods.chain(
        snapshot
            .nodes
            .values()
            .flat_map(|node| node.addresses.iter().copied()),
    )
}

fn blocks(snapshot: &Snapshot) -> impl Iterator<Item = &Block> {
    let rules = snapshot
        .policies
        .values()
        .filter(|policy| policy.networks.are_looked_at())
        .flat_map(|policy| Direction::BOTH.map(|direction| policy.side(direction)))
        .flat_map(|side| &side.rules);
    rules
        .flat_map(|rule| match &rule.peers {
            List::Absent => [].as_slice(),
            List::Items(peers) => peers.as_slice(),
        })
        .filter_map(|peer| match peer {
            Peer::Block(block) => Some(block),
            Peer::Pods(_) | Peer::Nodes(_) | Peer::Domain(_) => None,
        })
}

fn members(block: &Block) -> AddressSet {
    let except: AddressSet = block.except.iter().map(Prefix::range).collect();
    AddressSet::from(block.prefix).difference(&except)
}

/// The second address of a range, which looks like a host's where the first looks like a network's.
fn within(range: &AddressRange) -> IpAddr {
    let second = match range.first() {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().saturating_add(1)).into(),
        IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().saturating_add(1)).into(),
    };
    if second <= range.last() {
        second
    } else {
        range.first()
    }
}
