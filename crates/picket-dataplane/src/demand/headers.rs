//! Many packets at once, as far as the headers behind the addresses go.

use picket_net::{Family, Interval, IntervalSet, Protocol, TrafficSet};

use super::{ALWAYS, Demand, Demands, Traffic};

/// Stands among ports for a packet too short to have one.
pub const ABSENT_PORT: u32 = 0x1_0000;

/// Stands among ICMP types for a packet too short to have one.
pub const ABSENT_TYPE: u32 = 0x100;

/// Every combination of a protocol, a destination port and an ICMP type of these sets. Protocols other than ICMP and
/// ICMPv6 have no type.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    /// Protocol numbers; not empty.
    pub protocols: &'a IntervalSet<u32>,
    /// Ports, [`ABSENT_PORT`] among them; not empty.
    pub ports: &'a IntervalSet<u32>,
    /// ICMP types, [`ABSENT_TYPE`] among them; not empty.
    pub types: &'a IntervalSet<u32>,
}

/// One of them: protocol, port, ICMP type.
type Header = (Protocol, Option<u16>, Option<u8>);

impl Headers<'_> {
    /// A combination with one of `protocols`, and of this port and type where they are given.
    fn one(&self, protocol: u32, port: Option<u32>, kind: Option<u32>) -> Option<Header> {
        let protocol = Protocol::from_number(u8::try_from(protocol).ok()?);
        let port = port.or_else(|| preferred(self.ports, 80))?;
        let kind = kind.or_else(|| preferred(self.types, echo_request(protocol)))?;
        let has_type = matches!(protocol, Protocol::ICMP | Protocol::ICMPV6);
        Some((
            protocol,
            u16::try_from(port).ok(),
            u8::try_from(kind).ok().filter(|_| has_type),
        ))
    }

    fn any(&self) -> Option<Header> {
        let usual = [Protocol::TCP, Protocol::UDP].map(|protocol| u32::from(protocol.number()));
        let usual = usual.into_iter().find(|&number| self.protocols.contains(number));
        self.one(usual.or_else(|| self.protocols.first())?, None, None)
    }
}

fn echo_request(protocol: Protocol) -> u32 {
    if protocol == Protocol::ICMPV6 { 128 } else { 8 }
}

/// `wanted` if it is in the set, else the lowest.
fn preferred(set: &IntervalSet<u32>, wanted: u32) -> Option<u32> {
    Some(wanted)
        .filter(|&wanted| set.contains(wanted))
        .or_else(|| set.first())
}

impl Demands<'_> {
    /// One of `headers` for which `demand` is not met when all of them pass, or none does.
    pub fn broken(
        &self,
        demand: Demand,
        family: Family,
        headers: &Headers<'_>,
        pass: bool,
    ) -> Option<Header> {
        match demand {
            Demand::Anything => None,
            Demand::Accept if pass => None,
            Demand::Accept => headers.any(),
            Demand::Traffic(traffic) if pass && traffic.is_everything() => None,
            Demand::Traffic(traffic) => {
                let allowed = self.allowed(traffic);
                self.with_ports(&allowed, traffic, headers, pass)
                    .or_else(|| icmpv6(&allowed, traffic, family, headers, pass))
                    .or_else(|| portless(&allowed, traffic, headers, pass))
            }
        }
    }

    fn with_ports(
        &self,
        allowed: &TrafficSet,
        traffic: Traffic,
        headers: &Headers<'_>,
        pass: bool,
    ) -> Option<Header> {
        let protocols = Protocol::WITH_PORTS.into_iter();
        let mut found = protocols.filter_map(|protocol| {
            let number = u32::from(protocol.number());
            let ports = allowed
                .ports(protocol)
                .filter(|_| headers.protocols.contains(number))?;
            let mut listed: IntervalSet<u32> = ports
                .ranges()
                .filter_map(|range| Interval::new(range.first().into(), range.last().into()))
                .collect();
            let wrong = if pass {
                if ports.is_all() || self.tolerates_missing_ports() {
                    listed.insert(0);
                    listed.insert(ABSENT_PORT);
                }
                headers.ports.difference(&listed)
            } else if traffic.at_most {
                return None;
            } else {
                headers.ports.intersection(&listed)
            };
            if wrong.is_empty() {
                return None;
            }
            // Port 0 last: nobody has seen such a packet.
            let ordinary = wrong.intersection(&Interval::new(1, u32::from(u16::MAX)).into_iter().collect());
            let port = preferred(&ordinary, 80).or_else(|| wrong.first())?;
            headers.one(number, Some(port), None)
        });
        found.next()
    }
}

fn icmpv6(
    allowed: &TrafficSet,
    traffic: Traffic,
    family: Family,
    headers: &Headers<'_>,
    pass: bool,
) -> Option<Header> {
    let number = u32::from(Protocol::ICMPV6.number());
    if !headers.protocols.contains(number) {
        return None;
    }
    let always = || -> IntervalSet<u32> {
        let kinds = ALWAYS.iter();
        kinds.map(|&kind| Interval::single(u32::from(kind))).collect()
    };
    let necessary = !pass && family == Family::Ipv6;
    let necessary = necessary.then(|| headers.types.intersection(&always()).first());
    let kind = necessary.flatten().or_else(|| {
        let is_wrong = match (pass, allowed.portless.contains(Protocol::ICMPV6)) {
            (true, false) => true,
            (false, true) => !traffic.at_most,
            _ => false,
        };
        let others = is_wrong.then(|| headers.types.difference(&always()))?;
        preferred(&others, 128)
    })?;
    headers.one(number, None, Some(kind))
}

fn portless(allowed: &TrafficSet, traffic: Traffic, headers: &Headers<'_>, pass: bool) -> Option<Header> {
    if !pass && (traffic.at_most || allowed.portless.is_empty()) {
        return None;
    }
    let wrong = |number: &u32| {
        let protocol = Protocol::from_number(u8::try_from(*number).unwrap_or_default());
        let judged_here = !protocol.has_ports() && protocol != Protocol::ICMPV6;
        judged_here && allowed.portless.contains(protocol) != pass
    };
    let icmp = u32::from(Protocol::ICMP.number());
    let found = Some(icmp)
        .filter(|&icmp| headers.protocols.contains(icmp))
        .filter(wrong)
        .or_else(|| headers.protocols.iter().find(wrong))?;
    headers.one(found, None, None)
}
