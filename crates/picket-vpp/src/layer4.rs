//! Everything that rules can look at behind the addresses, as numbers.

use std::sync::LazyLock;

use picket_net::{Family, Interval, IntervalSet, Protocol, TrafficSet};

/// A set of packets. Each is one number, its protocol and the 16 bits that VPP compares with the second
/// pair of a rule's ports. Those are the destination port, or for ICMP and ICMPv6 the type and the code.
///
/// Protocol 0 is never a member: VPP reads it as every protocol. Canonical: equal sets hold the same packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layer4(IntervalSet<u32>);

/// ICMPv6 without which IPv6 does not work: packet too big (RFC 8201) and neighbour discovery (RFC 4861).
pub const NECESSARY_ICMPV6: [u8; 6] = [2, 133, 134, 135, 136, 137];

/// What a rule looks at behind the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// Of one protocol, never 0, these destination ports; of ICMP and ICMPv6 these types and codes, each the high and the low
    /// byte of a number. Of every other protocol it is all of it.
    One(Protocol, Interval<u16>),
    /// Every packet.
    Any,
}

/// What becomes of the packets that a [`Selector`] holds.
pub type Step = (Selector, bool);

static EVERYTHING: LazyLock<IntervalSet<u32>> =
    LazyLock::new(|| Interval::new(0x1_0000, 0xff_ffff).into_iter().collect());

static NECESSARY: LazyLock<Layer4> = LazyLock::new(|| {
    let kinds = NECESSARY_ICMPV6.iter();
    let codes = |kind: u8| Interval::new(u16::from_be_bytes([kind, 0]), u16::from_be_bytes([kind, u8::MAX]));
    let kinds = kinds.filter_map(|&kind| within(Protocol::ICMPV6, codes(kind)?));
    Layer4(kinds.collect())
});

impl Layer4 {
    /// No packet.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Every packet.
    pub fn all() -> Self {
        Self(EVERYTHING.clone())
    }

    /// What policies allow, with what always passes in `family`.
    ///
    /// All ports of a protocol are also port 0, as nothing else can be meant by a rule without ports.
    pub fn allowed(traffic: &TrafficSet, family: Family) -> Self {
        let mut found: Vec<Interval<u32>> = Vec::new();
        for protocol in Protocol::WITH_PORTS {
            match traffic.ports(protocol) {
                Some(ports) if ports.is_all() => found.extend(whole(protocol)),
                Some(ports) => {
                    let ranges = ports
                        .ranges()
                        .filter_map(|range| Interval::new(range.first(), range.last()));
                    found.extend(ranges.filter_map(|range| within(protocol, range)));
                }
                None => {}
            }
        }
        let portless = traffic.portless.iter();
        found.extend(
            portless
                .filter(|protocol| !protocol.has_ports())
                .filter_map(whole),
        );
        let allowed = Self(found.into_iter().collect());
        match family {
            Family::Ipv4 => allowed,
            Family::Ipv6 => allowed.union(&NECESSARY),
        }
    }

    /// What always passes in a family.
    pub fn necessary(family: Family) -> Self {
        match family {
            Family::Ipv4 => Self::empty(),
            Family::Ipv6 => NECESSARY.clone(),
        }
    }

    /// What a selector holds.
    pub fn of(selector: &Selector) -> Self {
        match selector {
            Selector::Any => Self::all(),
            Selector::One(protocol, ports) if is_icmp(*protocol) || protocol.has_ports() => {
                Self(within(*protocol, *ports).into_iter().collect())
            }
            Selector::One(protocol, _) => Self(whole(*protocol).into_iter().collect()),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is every packet.
    pub fn is_all(&self) -> bool {
        self.0 == *EVERYTHING
    }

    /// Whether a packet is among them, by protocol and port (or type and code).
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        self.0.contains(number(protocol, port))
    }

    /// Whether all of `other` are among them.
    pub fn contains_all(&self, other: &Self) -> bool {
        self.0.contains_all(&other.0)
    }

    /// The packets in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0))
    }

    /// The packets in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0))
    }

    /// The packets of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0))
    }

    /// The destination ports of a protocol (or types and codes).
    pub fn ports(&self, protocol: Protocol) -> IntervalSet<u16> {
        let all = whole(protocol).into_iter().collect();
        let here = self.0.intersection(&all);
        let port = |number| split(number).1;
        let ranges = here.intervals().iter();
        ranges
            .filter_map(|range| Interval::new(port(range.first()), port(range.last())))
            .collect()
    }

    /// One of them that people know best: its protocol and port (or type and code).
    pub fn preferred(&self) -> Option<(Protocol, u16)> {
        let usual = [
            (Protocol::TCP, 80),
            (Protocol::UDP, 53),
            (Protocol::ICMP, 0x800),
            (Protocol::ICMPV6, 0x8000),
        ];
        let with_ports = Protocol::WITH_PORTS.into_iter().filter_map(|protocol| {
            let ports = self.ports(protocol);
            ports.iter().find(|&port| port != 0).map(|port| (protocol, port))
        });
        let usual = usual
            .into_iter()
            .filter(|&(protocol, port)| self.contains(protocol, port));
        usual
            .chain(with_ports)
            .next()
            .or_else(|| self.0.first().map(split))
    }

    /// Steps that let exactly these pass, the first that holds a packet deciding; in the order of [`crate::rule::Rule`].
    /// What no step holds does not pass.
    ///
    /// Ports are only ever allowed by rules and not denied: VPP compares of a fragment that is not the first nothing but
    /// its protocol, and fragments of what is allowed must get through.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let by_default = self.passes_by_default();
        let mut protocols = self.protocols();
        if by_default {
            let others = Self::all().difference(self);
            protocols.extend(others.protocols());
            protocols.sort_unstable();
            protocols.dedup();
        }
        for protocol in protocols {
            let all = whole(protocol).into_iter().collect();
            let mut here = self.0.intersection(&all);
            if by_default && here == all {
                continue;
            }
            if protocol == Protocol::SCTP && here != all {
                // To VPP every packet of SCTP has port 0: a rule about that and some others would be about all.
                here = here.difference(&Interval::single(number(protocol, 0)).into());
            }
            let mut allowed = here.intervals().to_vec();
            allowed.sort_by_key(|interval| (interval.last() - interval.first(), interval.first()));
            steps.extend(allowed.into_iter().map(|interval| (selector(interval), true)));
            if by_default {
                steps.push((Selector::whole(protocol), false));
            }
        }
        if by_default {
            steps.push((Selector::Any, true));
        }
        steps
    }

    /// Whether [`Self::steps`] let exactly these pass: not where they are some packets of SCTP with port 0 among them.
    pub(crate) fn is_exact(&self) -> bool {
        !self.contains(Protocol::SCTP, 0) || self.ports(Protocol::SCTP) == Interval::ALL.into()
    }

    /// Whether most protocols pass, so that the others are the exceptions.
    fn passes_by_default(&self) -> bool {
        let full = self.0.intervals().iter().map(|interval| {
            let (first, last) = (
                interval.first().div_ceil(0x1_0000),
                (interval.last() + 1) / 0x1_0000,
            );
            last.saturating_sub(first)
        });
        full.sum::<u32>() > 127
    }

    /// The protocols of which there are packets, where those of which there are all count only if they are few.
    fn protocols(&self) -> Vec<Protocol> {
        let by_default = self.passes_by_default();
        let mut found = Vec::new();
        for interval in self.0.intervals() {
            let (first, last) = (split(interval.first()).0, split(interval.last()).0);
            if by_default && first != last {
                found.extend([first, last]);
            } else {
                found.extend((first.number()..=last.number()).map(Protocol::from_number));
            }
        }
        found.dedup();
        found
    }
}

impl Selector {
    /// Every packet of a protocol.
    pub fn whole(protocol: Protocol) -> Self {
        Self::One(protocol, Interval::ALL)
    }
}

/// Whether types and codes stand where others have ports.
pub(crate) fn is_icmp(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::ICMP | Protocol::ICMPV6)
}

fn number(protocol: Protocol, port: u16) -> u32 {
    (u32::from(protocol.number()) << 16) | u32::from(port)
}

fn split(number: u32) -> (Protocol, u16) {
    let [_, protocol, high, low] = number.to_be_bytes();
    (Protocol::from_number(protocol), u16::from_be_bytes([high, low]))
}

fn whole(protocol: Protocol) -> Option<Interval<u32>> {
    let all = Interval::new(number(protocol, 0), number(protocol, u16::MAX));
    all.filter(|_| protocol.number() != 0)
}

fn within(protocol: Protocol, ports: Interval<u16>) -> Option<Interval<u32>> {
    Interval::new(number(protocol, ports.first()), number(protocol, ports.last()))
}

/// What holds exactly the packets of one interval within one protocol.
fn selector(interval: Interval<u32>) -> Selector {
    let ((protocol, first), (_, last)) = (split(interval.first()), split(interval.last()));
    match Interval::new(first, last) {
        Some(ports) if is_icmp(protocol) || protocol.has_ports() => Selector::One(protocol, ports),
        _ => Selector::whole(protocol),
    }
}

#[cfg(test)]
mod tests {
    use picket_net::{PortRange, PortSet};
    use proptest::prelude::*;

    use super::*;

    fn decided(steps: &[Step], packet: &Layer4) -> bool {
        let step = steps
            .iter()
            .find(|(selector, _)| Layer4::of(selector).contains_all(packet));
        step.is_some_and(|(_, passes)| *passes)
    }

    fn sets() -> impl Strategy<Value = Layer4> {
        let protocols = prop_oneof![Just(1u32), Just(6), Just(17), Just(58), Just(132), 1..256u32];
        let ends = prop_oneof![Just(0u32), Just(255), Just(256), Just(0xffff), 0..0x1_0000u32];
        let one = (protocols, ends.clone(), ends).prop_filter_map("ordered", |(protocol, first, last)| {
            Interval::new(protocol << 16 | first, protocol << 16 | last)
        });
        let some = prop::collection::vec(one, 0..6).prop_map(|some| Layer4(some.into_iter().collect()));
        (some, any::<bool>()).prop_map(|(some, inverted)| match inverted {
            true => Layer4::all().difference(&some),
            false => some,
        })
    }

    /// Packets of protocols that rules see no ports of are one; what stands for all of SCTP is not in a part of it.
    fn is_expressible(set: &Layer4) -> Layer4 {
        let mut found = set.0.clone();
        for protocol in (1..=255).map(Protocol::from_number) {
            let all: IntervalSet<u32> = whole(protocol).into_iter().collect();
            if found.contains_all(&all) {
                continue;
            }
            if !protocol.has_ports() && !is_icmp(protocol) {
                found = found.difference(&all);
            } else if protocol == Protocol::SCTP {
                found = found.difference(&Interval::single(number(protocol, 0)).into());
            }
        }
        Layer4(found)
    }

    proptest! {
        #[test]
        fn steps_let_exactly_the_set_pass(set in sets(), protocol in 1u8.., port: u16) {
            let set = is_expressible(&set);
            let steps = set.steps();
            let packet = Layer4(Interval::single(number(Protocol::from_number(protocol), port)).into());
            prop_assert_eq!(decided(&steps, &packet), set.contains_all(&packet), "{:?}", steps);
            for interval in set.0.intervals() {
                for end in [interval.first(), interval.last()] {
                    prop_assert!(decided(&steps, &Layer4(Interval::single(end).into())));
                }
            }
            prop_assert!(steps.len() < 40);
        }
    }

    fn ports(first: u16, last: u16) -> Selector {
        Selector::One(Protocol::TCP, Interval::new(first, last).unwrap())
    }

    #[test]
    fn ports_are_allowed_and_not_denied() {
        let but_80 = TrafficSet::all().difference(&TrafficSet::of(Protocol::TCP, port_set(80, 80)));
        let steps = Layer4::allowed(&but_80, Family::Ipv4).steps();
        assert_eq!(
            steps,
            [
                (ports(1, 79), true),
                (ports(81, 65535), true),
                (Selector::whole(Protocol::TCP), false),
                (Selector::Any, true),
            ]
        );
    }

    #[test]
    fn some_ports_of_sctp_are_not_all() {
        let some = |first, last| {
            let some = within(Protocol::SCTP, Interval::new(first, last).unwrap());
            Layer4(some.into_iter().collect())
        };
        let from_one = Selector::One(Protocol::SCTP, Interval::new(1, 99).unwrap());
        assert_eq!(some(0, 99).steps(), [(from_one, true)]);
        assert_eq!(some(0, 0).steps(), []);
        let but_80 = Layer4::all().difference(&some(80, 80));
        let steps = but_80.steps();
        assert!(
            steps.contains(&(Selector::One(Protocol::SCTP, Interval::new(1, 79).unwrap()), true)),
            "{steps:?}"
        );
    }

    #[test]
    fn all_ports_are_also_port_0() {
        let web = TrafficSet::of(Protocol::TCP, PortSet::all());
        let allowed = Layer4::allowed(&web, Family::Ipv4);
        assert!(allowed.contains(Protocol::TCP, 0));
        assert_eq!(allowed.steps(), [(Selector::whole(Protocol::TCP), true)]);
    }

    #[test]
    fn neighbours_are_always_found() {
        let steps = Layer4::allowed(&TrafficSet::empty(), Family::Ipv6).steps();
        let kinds = |first: u16, last: u16| {
            Selector::One(
                Protocol::ICMPV6,
                Interval::new(first << 8, last << 8 | 0xff).unwrap(),
            )
        };
        assert_eq!(steps, [(kinds(2, 2), true), (kinds(133, 137), true)]);
        assert!(Layer4::allowed(&TrafficSet::empty(), Family::Ipv4).is_empty());
    }

    fn port_set(first: u16, last: u16) -> PortSet {
        PortRange::new(first, last).unwrap().into()
    }
}
