//! What one end of a connection allows: traffic by the address of the other end.

use picket_net::{AddressSet, TrafficSet};

/// All addresses, in pieces with all of which the same traffic passes.
#[derive(Clone, Debug)]
pub(super) struct Half(Vec<(AddressSet, TrafficSet)>);

impl Half {
    /// What any of these allows.
    pub(super) fn of(allowed: impl IntoIterator<Item = (AddressSet, TrafficSet)>) -> Self {
        let mut half = Self(vec![(AddressSet::all(), TrafficSet::empty())]);
        for (addresses, traffic) in allowed {
            half.allow(&addresses, &traffic);
        }
        half
    }

    fn allow(&mut self, addresses: &AddressSet, traffic: &TrafficSet) {
        let mut pieces: Vec<(AddressSet, TrafficSet)> = Vec::with_capacity(self.0.len() + 1);
        let mut add = |addresses: AddressSet, traffic: TrafficSet| {
            if addresses.is_empty() {
                return;
            }
            match pieces.iter_mut().find(|(_, known)| *known == traffic) {
                Some((known, _)) => *known = known.union(&addresses),
                None => pieces.push((addresses, traffic)),
            }
        };
        for (known, passing) in self.0.drain(..) {
            let both = known.intersection(addresses);
            if both.is_empty() {
                add(known, passing);
                continue;
            }
            add(known.difference(addresses), passing.clone());
            add(both, passing.union(traffic));
        }
        self.0 = pieces;
    }

    /// Whether all of `traffic` passes with each of `addresses`.
    pub(super) fn covers(&self, addresses: &AddressSet, traffic: &TrafficSet) -> bool {
        let lacking = |(_, passing): &&(AddressSet, TrafficSet)| !traffic.difference(passing).is_empty();
        let mut lacking = self.0.iter().filter(lacking);
        lacking.all(|(known, _)| known.intersection(addresses).is_empty())
    }

    /// Whether some of `traffic` passes with some of `addresses`.
    pub(super) fn meets(&self, addresses: &AddressSet, traffic: &TrafficSet) -> bool {
        let passes = |(_, passing): &&(AddressSet, TrafficSet)| !traffic.intersection(passing).is_empty();
        let mut passing = self.0.iter().filter(passes);
        passing.any(|(known, _)| !known.intersection(addresses).is_empty())
    }

    /// The addresses with which not the same passes.
    pub(super) fn differing(&self, other: &Self) -> AddressSet {
        let mut differing = AddressSet::empty();
        for (known, passing) in &self.0 {
            for (others, _) in other.0.iter().filter(|(_, theirs)| theirs != passing) {
                differing = differing.union(&known.intersection(others));
            }
        }
        differing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use picket_net::{PortRange, Prefix, Protocol};

    fn net(text: &str) -> AddressSet {
        let prefix: Prefix = text.parse().unwrap();
        prefix.into()
    }

    fn tcp(first: u16, last: u16) -> TrafficSet {
        TrafficSet::of(Protocol::TCP, PortRange::new(first, last).unwrap().into())
    }

    #[test]
    fn what_several_allow_together_is_covered() {
        let half = Half::of([(net("10.0.0.0/8"), tcp(1, 10)), (net("10.1.0.0/16"), tcp(11, 20))]);
        for (addresses, traffic, covered) in [
            ("10.0.0.0/8", tcp(3, 4), true),
            ("10.1.2.0/24", tcp(3, 14), true),
            ("10.0.0.0/8", tcp(3, 14), false),
            ("0.0.0.0/0", tcp(3, 4), false),
            ("fd00::/8", tcp(3, 4), false),
        ] {
            assert_eq!(
                half.covers(&net(addresses), &traffic),
                covered,
                "{addresses} {traffic}"
            );
        }
    }

    #[test]
    fn addresses_differ_where_not_the_same_passes() {
        let one = Half::of([(net("10.0.0.0/8"), tcp(1, 10))]);
        let other = Half::of([(net("10.0.0.0/8"), tcp(1, 10)), (net("10.1.0.0/16"), tcp(5, 20))]);
        assert_eq!(one.differing(&other), net("10.1.0.0/16"));
        assert!(one.differing(&one).is_empty());
    }
}
