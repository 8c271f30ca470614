//! What Neutron makes of groups: a port lets a new connection pass, and what answers it, if any rule of any of its groups
//! holds it; the rest is dropped. A connection passes where both of its ends let it, and an end that is no port lets
//! everything. Neighbour discovery and DHCP always pass, and so does what belongs to a connection that passed, errors about it
//! among that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::{AddressSet, Family, TrafficSet};
use picket_policy::{Direction, ObjectRef};

use crate::model::{Name, Objects, Port, Remote, SecurityGroupRule};
use crate::traffic::of_rule;

/// Groups, and the addresses that they stand for.
#[derive(Debug)]
pub struct Meaning<'a> {
    objects: &'a Objects,
    /// The fixed addresses of the ports that have a group.
    members: BTreeMap<&'a Name, AddressSet>,
}

impl<'a> Meaning<'a> {
    /// Of `objects`.
    pub fn of(objects: &'a Objects) -> Self {
        let mut members: BTreeMap<&Name, Vec<IpAddr>> = BTreeMap::new();
        for port in objects.ports.values() {
            for group in &port.security_groups {
                members.entry(group).or_default().extend(&port.fixed_ips);
            }
        }
        let members = members.into_iter();
        Self {
            objects,
            members: members
                .map(|(group, all)| (group, all.into_iter().collect()))
                .collect(),
        }
    }

    /// The same, where ports that have a group send from other addresses too, and rules about the group mean these.
    pub(crate) fn with_addresses(mut self, more: impl IntoIterator<Item = (&'a Name, AddressSet)>) -> Self {
        for (group, addresses) in more {
            let known = self.members.entry(group).or_default();
            *known = known.union(&addresses);
        }
        self
    }

    /// The groups of a port by which a new connection passes to or from one address.
    pub fn groups_that_allow(
        &self,
        port: &Port,
        direction: Direction,
        peer: IpAddr,
        (protocol, number): (picket_net::Protocol, u16),
    ) -> BTreeSet<Name> {
        let holds = |rule: &SecurityGroupRule| {
            rule.direction == direction
                && rule.ethertype == Family::of(peer)
                && of_rule(rule.protocol, rule.ports).contains(protocol, number)
                && self.remote(rule).contains(peer)
        };
        let groups = port.security_groups.iter();
        let groups = groups.filter(|name| {
            let group = self.objects.security_groups.get(*name);
            group.is_some_and(|group| group.rules.iter().any(holds))
        });
        groups.cloned().collect()
    }

    /// What a port lets pass to or from one address.
    pub fn allowed(&self, port: &Port, direction: Direction, peer: IpAddr) -> TrafficSet {
        let rules = self.rules(port, direction, Family::of(peer));
        let holding = rules
            .into_iter()
            .filter(|(addresses, _)| addresses.contains(peer));
        holding.fold(TrafficSet::empty(), |all, (_, traffic)| all.union(&traffic))
    }

    /// Whether a new connection passes from one end to another. `None` stands for an end that is no port.
    pub fn passes(
        &self,
        (source, source_port): (IpAddr, Option<&ObjectRef>),
        (destination, destination_port): (IpAddr, Option<&ObjectRef>),
        (protocol, number): (picket_net::Protocol, u16),
    ) -> bool {
        let lets = |pod: Option<&ObjectRef>, direction, peer| {
            let port = pod.and_then(|pod| self.objects.ports.get(pod));
            port.is_none_or(|port| self.allowed(port, direction, peer).contains(protocol, number))
        };
        // What a port sends to itself never reaches it.
        let stays = source_port.is_some() && source_port == destination_port;
        stays
            || lets(source_port, Direction::Egress, destination)
                && lets(destination_port, Direction::Ingress, source)
    }

    /// What a port lets pass in one direction: addresses of the other end, and the traffic that passes with them.
    pub fn rules(&self, port: &Port, direction: Direction, family: Family) -> Vec<(AddressSet, TrafficSet)> {
        let mut by_traffic: BTreeMap<TrafficSet, AddressSet> = BTreeMap::new();
        let groups = port.security_groups.iter();
        let groups = groups.filter_map(|name| self.objects.security_groups.get(name));
        let rules = groups.flat_map(|group| &group.rules);
        for rule in rules.filter(|rule| rule.direction == direction && rule.ethertype == family) {
            let addresses = by_traffic.entry(of_rule(rule.protocol, rule.ports)).or_default();
            *addresses = addresses.union(&self.remote(rule));
        }
        by_traffic
            .into_iter()
            .map(|(traffic, addresses)| (addresses, traffic))
            .collect()
    }

    fn remote(&self, rule: &SecurityGroupRule) -> AddressSet {
        let all = match &rule.remote {
            Remote::Anyone => AddressSet::all(),
            Remote::Prefix(prefix) => AddressSet::from(*prefix),
            Remote::Group(group) => self.members.get(group).cloned().unwrap_or_default(),
            Remote::AddressGroup(group) => {
                let group = self.objects.address_groups.get(group);
                let prefixes = group.into_iter().flat_map(|group| &group.addresses);
                prefixes.map(|prefix| prefix.range()).collect()
            }
        };
        all.of_family(rule.ethertype)
    }
}
