//! Where the identities of a program are: addresses and prefixes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_engine::{Identity, PodRef, Program};
use picket_net::{Family, Prefix};

/// Addresses by what policies make of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The prefixes of each family that decide about addresses that nobody has, outer ones first.
    regions: PerFamily<Vec<(Prefix, Identity)>>,
    /// The addresses of pods and nodes of each family, by their own identity and that of the region around them.
    held: PerFamily<BTreeMap<(Identity, Identity), Vec<IpAddr>>>,
}

impl Places {
    /// Where they are in a program.
    pub(crate) fn of(program: &Program) -> Self {
        let mut places = Self::default();
        for (prefix, identity) in program.prefixes() {
            places.regions.of_mut(prefix.family()).push((prefix, identity));
        }
        let pods = program.pods().filter(|pod| !pod.pod().finished);
        let mut addresses: Vec<_> = pods
            .flat_map(|pod: PodRef<'_>| pod.pod().addresses.iter().collect::<Vec<_>>())
            .collect();
        addresses.extend(program.nodes().flat_map(|node| node.addresses.iter().copied()));
        addresses.sort_unstable();
        addresses.dedup();
        for address in addresses {
            places.hold(program, address);
        }
        places
    }

    fn hold(&mut self, program: &Program, address: IpAddr) {
        let family = Family::of(address);
        let Some(region) = self.region(address) else {
            return;
        };
        let key = (program.identity_of(address), region);
        self.held.of_mut(family).entry(key).or_default().push(address);
    }

    /// The prefixes of a family that decide about addresses of nobody, outer ones first.
    pub(crate) fn regions(&self, family: Family) -> &[(Prefix, Identity)] {
        self.regions.of(family)
    }

    /// The addresses of pods and nodes, by their identity and that of the region around them.
    pub(crate) fn held(&self, family: Family) -> impl Iterator<Item = (Identity, Identity, &[IpAddr])> {
        let held = self.held.of(family).iter();
        held.map(|((own, region), addresses)| (*own, *region, &**addresses))
    }

    /// The identity of the region around an address.
    fn region(&self, address: IpAddr) -> Option<Identity> {
        let regions = self.regions.of(Family::of(address));
        // Outer prefixes stand before inner ones, and all that begin behind the address behind it.
        let end = regions.partition_point(|(prefix, _)| prefix.first() <= address);
        let before = regions.get(..end)?;
        let found = before.iter().rev().find(|(prefix, _)| prefix.contains(address));
        found.map(|(_, identity)| *identity)
    }
}

/// One of something for each family, IPv4 first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerFamily<T>(pub(crate) [T; 2]);

impl<T> PerFamily<T> {
    /// That of a family.
    pub(crate) fn of(&self, family: Family) -> &T {
        let [v4, v6] = &self.0;
        match family {
            Family::Ipv4 => v4,
            Family::Ipv6 => v6,
        }
    }

    /// The same, to change it.
    pub(crate) fn of_mut(&mut self, family: Family) -> &mut T {
        let [v4, v6] = &mut self.0;
        match family {
            Family::Ipv4 => v4,
            Family::Ipv6 => v6,
        }
    }
}

/// The next address of the same family.
pub(crate) fn after(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().checked_add(1)?).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().checked_add(1)?).into(),
    })
}
