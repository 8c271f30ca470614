//! Where the identities of a program are: addresses and prefixes.

mod regions;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_engine::{Identity, Program};
use picket_net::{Family, Prefix};

use crate::changes::Changes;
use crate::work::looked_at;
pub(crate) use regions::Regions;

/// Addresses by what policies make of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    regions: PerFamily<Regions>,
    held: PerFamily<Held>,
}

/// The addresses of pods and nodes, each with its own identity and that of the region around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    at: BTreeMap<IpAddr, (Identity, Identity)>,
    by_own: BTreeMap<(Identity, Identity), BTreeSet<IpAddr>>,
    /// The keys of the same, the other way round.
    by_region: BTreeSet<(Identity, Identity)>,
}

/// The identities that some addresses had, each with what they have now.
pub(crate) type Moves = BTreeSet<(Identity, Identity)>;

impl Places {
    /// Where they are in a program.
    pub(crate) fn of(program: &Program) -> Self {
        let mut places = Self::default();
        for (prefix, identity) in program.prefixes() {
            places.regions.of_mut(prefix.family()).set(prefix, Some(identity));
        }
        let endpoints: BTreeMap<_, _> = program.endpoints().collect();
        for (address, identity) in endpoints {
            places.hold(address, Some(identity));
        }
        places
    }

    /// Follows a program, and says which identities addresses had, each with what it has now.
    pub(crate) fn advance(&mut self, changes: &Changes) -> Moves {
        looked_at(changes.addresses.len() + changes.prefixes.len());
        let seen = |places: &Self| -> Vec<Option<Identity>> {
            let addresses = changes.addresses.keys();
            let prefixes = changes.prefixes.keys();
            let addresses = addresses.map(|&address| places.identity(address));
            let prefixes = prefixes.map(|prefix| places.regions.of(prefix.family()).around(prefix));
            addresses.chain(prefixes).collect()
        };
        let before = seen(self);
        for (&prefix, &identity) in &changes.prefixes {
            self.regions.of_mut(prefix.family()).set(prefix, identity);
        }
        // Outer ones come before those within them, whose addresses are theirs.
        let mut outer: Option<&Prefix> = None;
        for prefix in changes.prefixes.keys() {
            if outer.is_none_or(|outer| !outer.contains_prefix(prefix)) {
                self.look_again(prefix);
                outer = Some(prefix);
            }
        }
        for (&address, &identity) in &changes.addresses {
            self.hold(address, identity);
        }
        let pairs = before.into_iter().zip(seen(self));
        let moves = pairs.filter(|(before, now)| before != now);
        moves.filter_map(|(before, now)| before.zip(now)).collect()
    }

    /// The prefixes of a family that decide about addresses that nobody has.
    pub(crate) fn regions(&self, family: Family) -> &Regions {
        self.regions.of(family)
    }

    /// The addresses of pods and nodes with an identity, by that of the region around them.
    pub(crate) fn held_by(
        &self,
        family: Family,
        own: Identity,
    ) -> impl Iterator<Item = (Identity, &BTreeSet<IpAddr>)> {
        let range = (own, FIRST)..=(own, LAST);
        let held = self.held.of(family).by_own.range(range);
        held.map(|((_, region), addresses)| (*region, addresses))
    }

    /// The addresses of pods and nodes in regions of an identity, by their own.
    pub(crate) fn held_within(
        &self,
        family: Family,
        region: Identity,
    ) -> impl Iterator<Item = (Identity, &BTreeSet<IpAddr>)> {
        let held = self.held.of(family);
        let owners = held.by_region.range((region, FIRST)..=(region, LAST));
        owners.filter_map(move |&(_, own)| Some((own, held.by_own.get(&(own, region))?)))
    }

    /// The identity of a pod or node with an address, and that of the region around it.
    pub(crate) fn held(&self, address: IpAddr) -> Option<(Identity, Identity)> {
        self.held.of(Family::of(address)).at.get(&address).copied()
    }

    /// What identity an address has, whoever has it.
    pub(crate) fn identity(&self, address: IpAddr) -> Option<Identity> {
        let own = self.held(address).map(|(own, _)| own);
        let regions = self.regions.of(Family::of(address));
        own.or_else(|| regions.around(&Prefix::host(address)))
    }

    /// A pod or node has an address now, or with `None` nobody.
    fn hold(&mut self, address: IpAddr, identity: Option<Identity>) {
        let family = Family::of(address);
        let region = self.regions.of(family).around(&Prefix::host(address));
        self.held.of_mut(family).set(address, identity.zip(region));
    }

    /// Finds out in which regions the addresses of a prefix are.
    fn look_again(&mut self, prefix: &Prefix) {
        let within = self
            .held
            .of(prefix.family())
            .at
            .range(prefix.first()..=prefix.last())
            .inspect(|_| looked_at(1));
        let held: Vec<_> = within.map(|(&address, &(own, _))| (address, own)).collect();
        for (address, own) in held {
            self.hold(address, Some(own));
        }
    }
}

impl Held {
    fn set(&mut self, address: IpAddr, now: Option<(Identity, Identity)>) {
        let before = match now {
            Some(now) => self.at.insert(address, now),
            None => self.at.remove(&address),
        };
        if before == now {
            return;
        }
        if let Some((own, region)) = before
            && let Some(addresses) = self.by_own.get_mut(&(own, region))
        {
            addresses.remove(&address);
            if addresses.is_empty() {
                self.by_own.remove(&(own, region));
                self.by_region.remove(&(region, own));
            }
        }
        if let Some((own, region)) = now {
            self.by_own.entry((own, region)).or_default().insert(address);
            self.by_region.insert((region, own));
        }
    }
}

const FIRST: Identity = Identity::from_number(0);
const LAST: Identity = Identity::from_number(u32::MAX);

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
