//! Traffic as security group rules say it.

use picket_net::{Family, PortRange, Protocol, ProtocolSet, TrafficSet};

/// The protocol and the ports of one rule.
pub(crate) type Selected = (Option<Protocol>, Option<PortRange>);

/// What of `traffic` rules of one family say: one pair for each rule. Of protocols without ports that is ICMP, unless
/// everything is allowed: see [`is_expressible`].
pub(crate) fn selected(traffic: &TrafficSet, family: Family) -> Vec<Selected> {
    if traffic.is_all() {
        return vec![(None, None)];
    }
    let mut found = Vec::new();
    for protocol in Protocol::WITH_PORTS {
        match traffic.ports(protocol) {
            Some(ports) if ports.is_all() => found.push((Some(protocol), None)),
            Some(ports) => found.extend(ports.ranges().map(|range| (Some(protocol), Some(range)))),
            None => {}
        }
    }
    let icmp = icmp_of(family);
    if traffic.portless.contains(icmp) {
        found.push((Some(icmp), None));
    }
    found
}

/// The ICMP of a family.
pub(crate) fn icmp_of(family: Family) -> Protocol {
    match family {
        Family::Ipv4 => Protocol::ICMP,
        Family::Ipv6 => Protocol::ICMPV6,
    }
}

/// Whether rules can say all of `traffic`. A rule is about one protocol or about all of them: that all are allowed but
/// some ports of one would take a rule for each of 250 protocols.
pub(crate) fn is_expressible(traffic: &TrafficSet) -> bool {
    traffic.is_all() || traffic.portless.difference(icmps()).is_empty()
}

/// `traffic` without what is not met in packets of a family, nor said by rules.
pub(crate) fn expressed(traffic: &TrafficSet, family: Family) -> TrafficSet {
    let mut expressed = traffic.clone();
    let own: ProtocolSet = icmp_of(family).into();
    expressed.portless = match traffic.is_all() {
        true => traffic.portless.difference(icmps()).union(own),
        false => traffic.portless.intersection(own),
    };
    expressed
}

fn icmps() -> ProtocolSet {
    [Protocol::ICMP, Protocol::ICMPV6].into_iter().collect()
}

/// What one rule holds.
pub(crate) fn of_rule(protocol: Option<Protocol>, ports: Option<PortRange>) -> TrafficSet {
    match (protocol, ports) {
        (None, _) => TrafficSet::all(),
        (Some(protocol), None) => TrafficSet::from(protocol),
        (Some(protocol), Some(ports)) => TrafficSet::of(protocol, ports.into()),
    }
}
