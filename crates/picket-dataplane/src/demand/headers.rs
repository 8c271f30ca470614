//! Many packets at once, as far as the headers behind the addresses go.

use std::sync::LazyLock;

use picket_net::{Family, Interval, IntervalSet, Protocol, TrafficSet};

use super::{ALWAYS, Demand, Demands, Traffic};
use crate::packet::{BEGINNING, begins_connection};

/// Stands among ports for a packet too short to have one.
pub const ABSENT_PORT: u32 = 0x1_0000;

/// Stands among ICMP types for a packet too short to have one.
pub const ABSENT_TYPE: u32 = 0x100;

/// Stands among TCP flags for a packet too short to have them.
pub const ABSENT_FLAGS: u32 = 0x40;

/// Every combination of a protocol, a destination port, an ICMP type and TCP flags of these sets. Protocols other than ICMP
/// and ICMPv6 have no type, and those other than TCP have no flags.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    /// Protocol numbers; not empty.
    pub protocols: &'a IntervalSet<u32>,
    /// Ports, [`ABSENT_PORT`] among them; not empty.
    pub ports: &'a IntervalSet<u32>,
    /// ICMP types, [`ABSENT_TYPE`] among them; not empty.
    pub types: &'a IntervalSet<u32>,
    /// TCP flags, [`ABSENT_FLAGS`] among them; not empty.
    pub flags: &'a IntervalSet<u32>,
}

/// [`Headers`], with those apart that are in the middle of connections of TCP.
#[derive(Clone, Debug)]
pub struct Split<'a> {
    all: Headers<'a>,
    /// The flags in the middle of connections, if there is TCP.
    mid_stream: IntervalSet<u32>,
    /// The other flags.
    flags: IntervalSet<u32>,
    /// The protocols that the other flags are with: without TCP when there are none.
    protocols: IntervalSet<u32>,
}

impl<'a> Split<'a> {
    /// Splits them.
    pub fn of(all: Headers<'a>) -> Self {
        let tcp = u32::from(Protocol::TCP.number());
        let mid_stream = match all.protocols.contains(tcp) {
            true => all.flags.intersection(&MID_STREAM),
            false => IntervalSet::default(),
        };
        let flags = all.flags.difference(&mid_stream);
        let protocols = match flags.is_empty() {
            true => all.protocols.difference(&Interval::single(tcp).into()),
            false => all.protocols.clone(),
        };
        Self {
            all,
            mid_stream,
            flags,
            protocols,
        }
    }

    /// What is demanded of these headers: nothing special where none is in the middle of a connection.
    pub fn demanded(&self, demand: Demand) -> Demand {
        match demand {
            Demand::Traffic(traffic) if self.mid_stream.is_empty() => Demand::traffic(Traffic {
                from_its_beginning: false,
                ..traffic
            }),
            demand => demand,
        }
    }

    /// Those that are not in the middle of a connection.
    fn rest(&self) -> Headers<'_> {
        Headers {
            protocols: &self.protocols,
            flags: if self.flags.is_empty() {
                self.all.flags
            } else {
                &self.flags
            },
            ..self.all
        }
    }
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its destination port.
    pub port: Option<u16>,
    /// Its type, for ICMP and ICMPv6.
    pub icmp_type: Option<u8>,
    /// Its flags, for TCP.
    pub tcp_flags: Option<u8>,
}

impl Headers<'_> {
    /// A combination with one of `protocols`, and of this port and type where they are given.
    fn one(&self, protocol: u32, port: Option<u32>, kind: Option<u32>) -> Option<Header> {
        let protocol = Protocol::from_number(u8::try_from(protocol).ok()?);
        let port = port.or_else(|| preferred(self.ports, 80))?;
        let kind = kind.or_else(|| preferred(self.types, echo_request(protocol)))?;
        let flags = preferred(self.flags, BEGINNING.into())?;
        let has_type = matches!(protocol, Protocol::ICMP | Protocol::ICMPV6);
        let has_flags = protocol == Protocol::TCP && flags < ABSENT_FLAGS;
        Some(Header {
            protocol,
            port: u16::try_from(port).ok(),
            icmp_type: u8::try_from(kind).ok().filter(|_| has_type),
            tcp_flags: u8::try_from(flags).ok().filter(|_| has_flags),
        })
    }

    fn any(&self) -> Option<Header> {
        let usual = [Protocol::TCP, Protocol::UDP].map(|protocol| u32::from(protocol.number()));
        let usual = usual.into_iter().find(|&number| self.protocols.contains(number));
        self.one(usual.or_else(|| self.protocols.first())?, None, None)
    }
}

/// The flags of TCP in the middle of connections.
static MID_STREAM: LazyLock<IntervalSet<u32>> = LazyLock::new(|| {
    let flags = (0..).take_while(|&flags| u32::from(flags) < ABSENT_FLAGS);
    flags
        .filter(|&flags: &u8| !begins_connection(flags))
        .map(|flags| Interval::single(flags.into()))
        .collect()
});

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
    pub fn broken(&self, demand: Demand, family: Family, headers: &Split<'_>, pass: bool) -> Option<Header> {
        match demand {
            Demand::Anything => None,
            Demand::Accept if pass => None,
            Demand::Accept => headers.all.any(),
            Demand::Traffic(traffic) if pass && traffic.is_everything() => None,
            Demand::Traffic(traffic) if traffic.from_its_beginning => {
                self.broken_from_its_beginning(traffic, family, headers, pass)
            }
            Demand::Traffic(traffic) => self.broken_traffic(traffic, family, &headers.all, pass),
        }
    }

    /// Holds TCP in the middle of connections, which must not pass, and everything else apart from each other.
    fn broken_from_its_beginning(
        &self,
        traffic: Traffic,
        family: Family,
        headers: &Split<'_>,
        pass: bool,
    ) -> Option<Header> {
        if pass && !headers.mid_stream.is_empty() {
            let wrong = Headers {
                protocols: &Interval::single(u32::from(Protocol::TCP.number())).into(),
                flags: &headers.mid_stream,
                ..headers.all
            };
            return wrong.any();
        }
        self.broken_traffic(traffic, family, &headers.rest(), pass)
    }

    fn broken_traffic(
        &self,
        traffic: Traffic,
        family: Family,
        headers: &Headers<'_>,
        pass: bool,
    ) -> Option<Header> {
        let allowed = self.allowed(traffic);
        self.with_ports(&allowed, traffic, headers, pass)
            .or_else(|| icmpv6(&allowed, traffic, family, headers, pass))
            .or_else(|| portless(&allowed, traffic, headers, pass))
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
