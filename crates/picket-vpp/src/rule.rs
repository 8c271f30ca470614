//! Six-tuple rules and their order.

use std::cmp::Ordering;
use std::fmt;

use picket_net::{Interval, Prefix, Protocol};

use crate::layer4::{Layer4, Selector};

/// What becomes of what a rule matches. A denial stands before a permission of the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It is dropped.
    Deny,
    /// It passes.
    Permit,
}

/// An inclusive range of ports.
pub type Ports = Interval<u16>;

/// Every port.
pub const ALL_PORTS: Ports = Ports::ALL;

/// A six-tuple: the form that the policies of a pod have before they become a target's own.
///
/// Rules are ordered such that whatever matches a part of another's traffic stands before it: source network, destination
/// network, protocol, source ports, destination ports, action, each with what is narrower first. Where neither is part of
/// the other the order is that of lengths and then of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The source network; `None` for every address of both families.
    pub source: Option<Prefix>,
    /// The destination network; `None` for every address of both families.
    pub destination: Option<Prefix>,
    /// The protocol; `None` for every protocol, with all ports.
    pub protocol: Option<Protocol>,
    /// Source ports.
    pub source_ports: Ports,
    /// Destination ports, or for ICMP and ICMPv6 the types in the high and the codes in the low 8 bits.
    pub destination_ports: Ports,
    /// What becomes of what it matches.
    pub action: Action,
}

impl Rule {
    /// A rule about everything.
    pub fn everything(action: Action) -> Self {
        Self {
            source: None,
            destination: None,
            protocol: None,
            source_ports: ALL_PORTS,
            destination_ports: ALL_PORTS,
            action,
        }
    }

    /// What it looks at behind the addresses, but for source ports.
    pub(crate) fn selected(&self) -> Layer4 {
        match self.protocol {
            None => Layer4::all(),
            Some(protocol) => Layer4::of(&Selector::One(protocol, self.destination_ports)),
        }
    }

    /// Whether source ports do not matter to it.
    pub fn any_source_port(&self) -> bool {
        self.source_ports == ALL_PORTS || self.protocol.is_none_or(|protocol| !protocol.has_ports())
    }

    /// Whether everything that `self` matches is matched by `other` too, whatever becomes of it.
    pub fn is_part_of(&self, other: &Self) -> bool {
        let within =
            |inner: Ports, outer: Ports| outer.contains(inner.first()) && outer.contains(inner.last());
        net_is_part_of(self.source, other.source)
            && net_is_part_of(self.destination, other.destination)
            && match (self.protocol, other.protocol) {
                (_, None) => true,
                (protocol, outer) => {
                    protocol == outer
                        && within(self.source_ports, other.source_ports)
                        && within(self.destination_ports, other.destination_ports)
                }
            }
    }
}

impl Ord for Rule {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_protocol = |protocol: Option<Protocol>| (protocol.is_none(), protocol);
        compare_nets(self.source, other.source)
            .then_with(|| compare_nets(self.destination, other.destination))
            .then_with(|| by_protocol(self.protocol).cmp(&by_protocol(other.protocol)))
            .then_with(|| compare_ports(self.source_ports, other.source_ports))
            .then_with(|| compare_ports(self.destination_ports, other.destination_ports))
            .then_with(|| self.action.cmp(&other.action))
    }
}

impl PartialOrd for Rule {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            Action::Deny => "deny",
            Action::Permit => "permit",
        };
        let net = |net: Option<Prefix>| net.map_or_else(|| "any".to_owned(), |net| net.to_string());
        write!(f, "{action} {} → {}", net(self.source), net(self.destination))?;
        match self.protocol {
            None => Ok(()),
            Some(protocol) => write!(f, " {protocol} {}", shown(self.destination_ports)),
        }
    }
}

fn shown(ports: Ports) -> String {
    match (ports.first(), ports.last()) {
        (0, u16::MAX) => "all ports".to_owned(),
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}

/// How networks are ordered: longer prefixes first, IPv4 before IPv6, then by address; every address is last.
pub(crate) fn compare_nets(one: Option<Prefix>, other: Option<Prefix>) -> Ordering {
    match (one, other) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => compare_prefixes(&one, &other),
    }
}

/// [`compare_nets`] for two networks.
pub(crate) fn compare_prefixes(one: &Prefix, other: &Prefix) -> Ordering {
    (one.family().cmp(&other.family()))
        .then_with(|| other.length().cmp(&one.length()))
        .then_with(|| one.first().cmp(&other.first()))
}

fn net_is_part_of(inner: Option<Prefix>, outer: Option<Prefix>) -> bool {
    match (inner, outer) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(inner), Some(outer)) => outer.contains_prefix(&inner),
    }
}

fn compare_ports(one: Ports, other: Ports) -> Ordering {
    let width = |ports: Ports| ports.last() - ports.first();
    width(one)
        .cmp(&width(other))
        .then_with(|| one.first().cmp(&other.first()))
}

#[cfg(test)]
mod tests {
    use picket_net::Interval;
    use proptest::prelude::*;

    use super::*;

    /// Few values, so that one rule is often part of another.
    fn rules() -> impl Strategy<Value = Rule> {
        let nets = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.3/32",
            "11.0.0.0/8",
            "fd00::/8",
            "fd00::1/128",
        ];
        let net = prop_oneof![
            Just(None),
            prop::sample::select(nets.to_vec()).prop_map(|net| Some(net.parse().unwrap())),
        ];
        let ports = (
            prop_oneof![Just(0u16), Just(80), Just(443)],
            prop_oneof![Just(80u16), Just(443), Just(u16::MAX)],
        )
            .prop_filter_map("ordered", |(first, last)| Interval::new(first, last));
        let protocol = prop_oneof![
            Just(None),
            Just(Some(Protocol::TCP)),
            Just(Some(Protocol::UDP)),
            Just(Some(Protocol::SCTP))
        ];
        let action = prop_oneof![Just(Action::Deny), Just(Action::Permit)];
        (net.clone(), net, protocol, ports.clone(), ports, action).prop_map(
            |(source, destination, protocol, source_ports, destination_ports, action)| {
                // Ports say nothing where every protocol is meant.
                let of = |ports| if protocol.is_none() { ALL_PORTS } else { ports };
                Rule {
                    source,
                    destination,
                    protocol,
                    source_ports: of(source_ports),
                    destination_ports: of(destination_ports),
                    action,
                }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn what_is_part_of_another_stands_before_it(one in rules(), other in rules(), third in rules()) {
            if one.is_part_of(&other) && !other.is_part_of(&one) {
                prop_assert!(one < other, "{one} and {other}");
            }
            prop_assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
            prop_assert_eq!(one == other, one.cmp(&other).is_eq());
            prop_assert!(one > other || other > third || one <= third, "{one}, {other} and {third}");
        }
    }
}
