//! What one node's table must know, free of everything else that a cluster holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use picket_engine::IdentitySet;
use picket_net::{AddressRange, Prefix, TrafficSet};
use picket_policy::{Direction, ObjectRef};

use super::chains::looked_up;
use super::name;
use crate::model::Name;

/// A node's own pods that something restricts, and everybody at the other end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeView {
    /// What restricts the node's pods. An address stands in one side of each role at most.
    pub(super) sides: Vec<LocalSide>,
    /// The identity of every address of a pod or node.
    pub(super) endpoints: BTreeMap<IpAddr, u32>,
    /// The identity of every other address; ranges ascending and disjoint. They may hold addresses of `endpoints`, which
    /// then count as those.
    pub(super) regions: Vec<(AddressRange, u32)>,
}

/// Which packets a side judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Role {
    /// Forwarded packets from the subject.
    Egress,
    /// Forwarded packets to the subject.
    Ingress,
    /// Packets from the subject to its own node.
    OwnNode,
    /// Packets to the subject from its own node.
    FromOwnNode,
    /// What [`Role::Egress`] let pass, judged again as if policies that are only audited were enforced.
    AuditEgress,
    /// The same of [`Role::Ingress`].
    AuditIngress,
    /// The same of [`Role::OwnNode`].
    AuditOwnNode,
}

impl Role {
    pub(super) const ALL: [Self; 7] = [
        Self::Egress,
        Self::Ingress,
        Self::OwnNode,
        Self::FromOwnNode,
        Self::AuditEgress,
        Self::AuditIngress,
        Self::AuditOwnNode,
    ];

    /// The direction of the policies that decide.
    pub(super) fn direction(self) -> Direction {
        match self {
            Self::Egress | Self::OwnNode | Self::AuditEgress | Self::AuditOwnNode => Direction::Egress,
            Self::Ingress | Self::FromOwnNode | Self::AuditIngress => Direction::Ingress,
        }
    }

    /// Whether it drops nothing, and only counts and logs what it would drop.
    pub(super) fn audits(self) -> bool {
        matches!(self, Self::AuditEgress | Self::AuditIngress | Self::AuditOwnNode)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Egress => "egress",
            Self::Ingress => "ingress",
            Self::OwnNode => "own-node",
            Self::FromOwnNode => "from-own-node",
            Self::AuditEgress => "audit-egress",
            Self::AuditIngress => "audit-ingress",
            Self::AuditOwnNode => "audit-own-node",
        })
    }
}

/// What restricts some pods in one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalSide {
    /// The name of its chain, and of its map from peer classes to traffic classes: [`side_name`].
    pub(super) name: Name,
    /// Which packets are judged.
    pub(super) role: Role,
    /// The number of the engine's subject, the lowest when several are restricted alike; several numbers where pods of
    /// several subjects have one address.
    pub(super) subject: Arc<[u32]>,
    /// The pods' addresses.
    pub(super) addresses: Arc<BTreeSet<IpAddr>>,
    /// What is allowed, and with which identities. An identity stands in one entry at most, and no traffic is empty.
    pub(super) allowed: Arc<[(TrafficSet, IdentitySet)]>,
    /// The policies that a dropped packet is counted for, or one that is only audited.
    pub(super) denying: Arc<BTreeSet<ObjectRef>>,
}

/// What tells the sides of a node apart.
pub(super) type SideId = (Role, Arc<[u32]>);

impl LocalSide {
    /// What tells it from the other sides of its node.
    pub(super) fn id(&self) -> SideId {
        (self.role, Arc::clone(&self.subject))
    }

    /// Whether both allow the same, and count for the same policies.
    pub(super) fn says_as(&self, other: &Self) -> bool {
        same(&self.allowed, &other.allowed) && same(&self.denying, &other.denying)
    }

    /// Whether both have the same chain if they have one name: look packets up in the same sets, with whomever, and count for
    /// the same policies.
    pub(super) fn acts_as(&self, other: &Self) -> bool {
        let mut traffic = self.allowed.iter().zip(other.allowed.iter());
        same(&self.denying, &other.denying)
            && (self.allowed.len() == other.allowed.len()
                && traffic.all(|((one, _), (other, _))| one == other)
                || looked_up(&self.allowed) == looked_up(&other.allowed))
    }
}

/// How a side is named, whose pods these subjects apply to.
pub(super) fn side_name(role: Role, subject: &[u32]) -> Name {
    let numbers: Vec<_> = subject.iter().map(u32::to_string).collect();
    name(&format!("{role}-{}", numbers.join(".")))
}

/// Whether both are equal; mostly they are the same.
pub(super) fn same<T: Eq + ?Sized>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl NodeView {
    /// Whether packets are judged in this role: in those of both ends where in any, and in both of what a node exchanges with its pods where in
    /// one, so that those which are just judged meet the first policies in the one when the last in the other go.
    pub(super) fn judges(&self, role: Role) -> bool {
        judge(&self.sides, role)
    }
}

/// The same of these sides.
pub(super) fn judge(sides: &[LocalSide], role: Role) -> bool {
    let has = |role: Role| sides.iter().any(|side| side.role == role);
    match role {
        Role::Egress | Role::Ingress => !sides.is_empty(),
        Role::OwnNode | Role::FromOwnNode => has(Role::OwnNode) || has(Role::FromOwnNode),
        Role::AuditEgress | Role::AuditIngress | Role::AuditOwnNode => has(role),
    }
}

/// Cuts nested prefixes, outer ones first, into disjoint ranges: the longest prefix decides.
pub(super) fn regions(prefixes: impl Iterator<Item = (Prefix, u32)>) -> Vec<(AddressRange, u32)> {
    let mut ranges = Vec::new();
    let mut open: Vec<(Prefix, u32)> = Vec::new();
    // The first address of the innermost open prefix that no range holds yet.
    let mut rest = None;
    let mut emit = |rest: Option<IpAddr>, last: Option<IpAddr>, identity| {
        let range = rest
            .zip(last)
            .and_then(|(first, last)| AddressRange::new(first, last));
        ranges.extend(range.map(|range| (range, identity)));
    };
    for (prefix, identity) in prefixes {
        while let Some(&(outer, outer_identity)) = open.last() {
            if outer.contains_prefix(&prefix) {
                emit(rest, previous(prefix.first()), outer_identity);
                break;
            }
            emit(rest, Some(outer.last()), outer_identity);
            rest = next(outer.last());
            open.pop();
        }
        rest = Some(prefix.first());
        open.push((prefix, identity));
    }
    while let Some((prefix, identity)) = open.pop() {
        emit(rest, Some(prefix.last()), identity);
        rest = next(prefix.last());
    }
    ranges
}

/// The next higher address of the same family.
pub(super) fn next(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().checked_add(1)?).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().checked_add(1)?).into(),
    })
}

/// The next lower address of the same family.
fn previous(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().checked_sub(1)?).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().checked_sub(1)?).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(prefixes: &[(&str, u32)]) -> Vec<(String, u32)> {
        let prefixes = prefixes
            .iter()
            .map(|(text, identity)| (text.parse().unwrap(), *identity));
        let ranges = regions(prefixes).into_iter();
        ranges
            .map(|(range, identity)| (range.to_string(), identity))
            .collect()
    }

    #[test]
    fn the_longest_prefix_decides() {
        let nested = [
            ("0.0.0.0/0", 1),
            ("0.0.0.0/8", 2),
            ("10.0.0.0/8", 3),
            ("10.0.0.0/31", 4),
            ("10.255.255.255/32", 5),
            ("255.0.0.0/8", 6),
            ("255.255.255.255/32", 7),
            ("::/0", 8),
            ("fd00::/16", 9),
        ];
        let expected = [
            ("0.0.0.0-0.255.255.255", 2),
            ("1.0.0.0-9.255.255.255", 1),
            ("10.0.0.0-10.0.0.1", 4),
            ("10.0.0.2-10.255.255.254", 3),
            ("10.255.255.255-10.255.255.255", 5),
            ("11.0.0.0-254.255.255.255", 1),
            ("255.0.0.0-255.255.255.254", 6),
            ("255.255.255.255-255.255.255.255", 7),
            ("::-fcff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 8),
            ("fd00::-fd00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 9),
            ("fd01::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 8),
        ];
        assert_eq!(
            cut(&nested),
            expected.map(|(range, identity)| (range.to_owned(), identity))
        );
    }
}
