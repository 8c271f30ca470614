//! What Neutron has, as its API returned it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::{Family, PortRange, Prefix, Protocol, parse_address};
use picket_policy::Direction;
use smol_str::SmolStr;

use crate::model::{Name, Remote, SecurityGroupRule};

/// What Neutron calls an object.
pub type Id = SmolStr;

/// Everything that a plan depends on: all groups of ours, every group that a port in here has as far as it can be read, and
/// every port that is a pod's or has a group of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Groups of ours and of others.
    pub security_groups: BTreeMap<Id, InstalledGroup>,
    /// Address groups of ours, and those that rules in here are about.
    pub address_groups: BTreeMap<Id, InstalledAddressGroup>,
    /// Ports.
    pub ports: BTreeMap<Id, InstalledPort>,
}

/// A security group that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledGroup {
    /// Names need not be unique.
    pub name: Name,
    /// For people.
    pub description: String,
    /// One of them says that a group is ours.
    pub tags: BTreeSet<SmolStr>,
    /// How often it was changed.
    pub revision: u64,
    /// Whether what answers a connection passes. Ours are.
    pub stateful: bool,
    /// Its rules.
    pub rules: BTreeMap<Id, InstalledRule>,
}

/// A rule that there is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstalledRule {
    /// One that can be compared. Names in it are ids.
    Known(SecurityGroupRule),
    /// One that picket never writes, of this direction. It may let anything pass, or nothing.
    Other(Option<Direction>),
}

/// An address group that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledAddressGroup {
    /// Names need not be unique.
    pub name: Name,
    /// Its addresses.
    pub addresses: BTreeSet<Prefix>,
}

/// A port that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPort {
    /// Its addresses.
    pub fixed_ips: BTreeSet<IpAddr>,
    /// What else it may send from: rules about the ports of a group mean that too.
    pub allowed_address_pairs: BTreeSet<Prefix>,
    /// The groups that it has.
    pub security_groups: BTreeSet<Id>,
    /// How often it was changed.
    pub revision: u64,
    /// What it belongs to.
    pub device_owner: SmolStr,
    /// Without it no group counts, and the port can have none.
    pub port_security_enabled: bool,
    /// How it is attached (`binding:vnic_type`).
    pub vnic_type: SmolStr,
    /// Its tags.
    pub tags: BTreeSet<SmolStr>,
}

impl Installed {
    /// The groups of ours by name. Of several with one name that counts which most ports have.
    pub fn groups_of(&self, cluster: &str) -> BTreeMap<Name, Id> {
        let mut uses: BTreeMap<&Id, usize> = BTreeMap::new();
        for group in self.ports.values().flat_map(|port| &port.security_groups) {
            *uses.entry(group).or_default() += 1;
        }
        let mut ours: Vec<_> = self.security_groups.iter().collect();
        ours.retain(|(_, group)| group.belongs_to(cluster) && group.stateful);
        ours.sort_by_key(|(id, _)| (std::cmp::Reverse(uses.get(id).copied().unwrap_or(0)), *id));
        let mut named = BTreeMap::new();
        for (id, group) in ours {
            named.entry(group.name.clone()).or_insert_with(|| id.clone());
        }
        named
    }
}

impl InstalledGroup {
    /// Whether a group is that of a cluster: by its tag, or by how its name begins where whoever created it did not come to tag it.
    pub fn belongs_to(&self, cluster: &str) -> bool {
        let name = self.name.strip_prefix(cluster);
        let is_called_so = name.is_some_and(|rest| rest.starts_with('/'));
        self.tags.contains(cluster) || self.tags.is_empty() && is_called_so
    }
}

/// The fields of a rule in the API.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the names are Neutron's")]
pub struct RuleFields<'a> {
    pub direction: &'a str,
    pub ethertype: &'a str,
    pub protocol: Option<&'a str>,
    pub port_range_min: Option<i64>,
    pub port_range_max: Option<i64>,
    pub remote_ip_prefix: Option<&'a str>,
    pub remote_group_id: Option<&'a str>,
    pub remote_address_group_id: Option<&'a str>,
}

impl InstalledRule {
    /// A rule that means the same always becomes the same: protocols by name or number, all ports or none said, prefixes with
    /// bits behind their length, addresses without a length.
    pub fn read(fields: &RuleFields<'_>) -> Self {
        let direction = match fields.direction.to_ascii_lowercase().as_str() {
            "ingress" => Some(Direction::Ingress),
            "egress" => Some(Direction::Egress),
            _ => None,
        };
        let known = direction.and_then(|direction| fields.known(direction));
        known.map_or(Self::Other(direction), Self::Known)
    }

    /// The rule, if picket could have written it.
    pub fn known(&self) -> Option<&SecurityGroupRule> {
        match self {
            Self::Known(rule) => Some(rule),
            Self::Other(_) => None,
        }
    }
}

impl RuleFields<'_> {
    fn known(&self, direction: Direction) -> Option<SecurityGroupRule> {
        let ethertype = match self.ethertype.to_ascii_lowercase().as_str() {
            "ipv4" => Family::Ipv4,
            "ipv6" => Family::Ipv6,
            _ => return None,
        };
        let protocol = match self.protocol {
            None => None,
            Some(name) if name.eq_ignore_ascii_case("any") => None,
            Some(name) => Some(protocol(name, ethertype)?),
        };
        Some(SecurityGroupRule {
            direction,
            ethertype,
            protocol,
            ports: self.ports(protocol)?,
            remote: self.remote(ethertype)?,
        })
    }

    fn ports(&self, protocol: Option<Protocol>) -> Option<Option<PortRange>> {
        let (first, last) = match (self.port_range_min, self.port_range_max) {
            (None, None) => return Some(None),
            (Some(first), Some(last)) => (u16::try_from(first).ok()?, u16::try_from(last).ok()?),
            _ => return None,
        };
        protocol.filter(|protocol| protocol.has_ports())?;
        let range = PortRange::new(first, last)?;
        Some(Some(range).filter(|range| *range != PortRange::ALL))
    }

    fn remote(&self, ethertype: Family) -> Option<Remote> {
        match (
            self.remote_ip_prefix,
            self.remote_group_id,
            self.remote_address_group_id,
        ) {
            (None, None, None) => Some(Remote::Anyone),
            (Some(text), None, None) => {
                let prefix = prefix(text).filter(|prefix| prefix.family() == ethertype)?;
                Some(match prefix.length() {
                    0 => Remote::Anyone,
                    _ => Remote::Prefix(prefix),
                })
            }
            (None, Some(group), None) => Some(Remote::Group(group.into())),
            (None, None, Some(group)) => Some(Remote::AddressGroup(group.into())),
            _ => None,
        }
    }
}

/// A prefix as the API returns it. Bits behind its length do not count, and an address alone is a prefix.
pub fn prefix(text: &str) -> Option<Prefix> {
    match text.contains('/') {
        true => Prefix::parse(text).ok().map(|(prefix, _)| prefix),
        false => parse_address(text).map(Prefix::host),
    }
}

fn protocol(name: &str, ethertype: Family) -> Option<Protocol> {
    let number: u8 = match name.to_ascii_lowercase().as_str() {
        "ah" => 51,
        "dccp" => 33,
        "egp" => 8,
        "esp" => 50,
        "gre" => 47,
        "icmp" => 1,
        "icmpv6" | "icmp6" | "ipv6-icmp" => 58,
        "igmp" => 2,
        "ipip" => 4,
        "ipv6-encap" => 41,
        "ipv6-frag" => 44,
        "ipv6-nonxt" => 59,
        "ipv6-opts" => 60,
        "ipv6-route" => 43,
        "ospf" => 89,
        "pgm" => 113,
        "rsvp" => 46,
        "sctp" => 132,
        "tcp" => 6,
        "udp" => 17,
        "udplite" => 136,
        "vrrp" => 112,
        // What 0 means differs from server to server.
        number => number.parse().ok().filter(|number| *number > 0)?,
    };
    let named = Protocol::from_number(number);
    match (ethertype, named) {
        // Neutron takes either name on IPv6, and means the same.
        (Family::Ipv6, Protocol::ICMP) => Some(Protocol::ICMPV6),
        (Family::Ipv4, Protocol::ICMPV6) => None,
        _ => Some(named),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: RuleFields<'_> = RuleFields {
        direction: "ingress",
        ethertype: "IPv4",
        protocol: Some("tcp"),
        port_range_min: None,
        port_range_max: None,
        remote_ip_prefix: None,
        remote_group_id: None,
        remote_address_group_id: None,
    };

    #[test]
    fn rules_that_mean_the_same_are_the_same() {
        let all = RuleFields {
            protocol: None,
            ..TCP
        };
        let v6 = RuleFields {
            ethertype: "IPv6",
            protocol: Some("icmp"),
            ..TCP
        };
        let net = |text| RuleFields {
            remote_ip_prefix: Some(text),
            ..TCP
        };
        let protocol = |protocol, of: RuleFields<'static>| RuleFields {
            protocol: Some(protocol),
            ..of
        };
        let ports = RuleFields {
            port_range_min: Some(1),
            port_range_max: Some(65535),
            ..TCP
        };
        for (one, other) in [
            (TCP, protocol("6", TCP)),
            (TCP, protocol("TCP", TCP)),
            (all, protocol("any", TCP)),
            (TCP, ports),
            (TCP, net("0.0.0.0/0")),
            (net("172.17.2.7/23"), net("172.17.2.0/23")),
            (net("10.0.0.9"), net("10.0.0.9/32")),
            (v6, protocol("ipv6-icmp", v6)),
            (v6, protocol("icmpv6", v6)),
            (v6, protocol("58", v6)),
        ] {
            let read = InstalledRule::read(&one);
            assert!(matches!(read, InstalledRule::Known(_)), "{one:?}");
            assert_eq!(read, InstalledRule::read(&other), "{one:?} and {other:?}");
        }
    }

    #[test]
    fn rules_that_picket_never_writes_keep_their_direction() {
        let strange = [
            RuleFields {
                protocol: Some("icmp"),
                port_range_min: Some(8),
                port_range_max: Some(0),
                ..TCP
            },
            RuleFields {
                protocol: Some("frames"),
                ..TCP
            },
            RuleFields {
                ethertype: "ARP",
                ..TCP
            },
            RuleFields {
                remote_ip_prefix: Some("fd00::/8"),
                ..TCP
            },
            RuleFields {
                remote_ip_prefix: Some("10.0.0.0/8"),
                remote_group_id: Some("g"),
                ..TCP
            },
            RuleFields {
                port_range_min: Some(0),
                port_range_max: Some(9),
                ..TCP
            },
        ];
        for fields in strange {
            let read = InstalledRule::read(&fields);
            assert_eq!(read, InstalledRule::Other(Some(Direction::Ingress)), "{fields:?}");
        }
    }
}
