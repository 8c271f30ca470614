//! Sets of addresses as remotes of rules.

use std::collections::BTreeSet;

use picket_net::{AddressRange, AddressSet, Family, Prefix};

use crate::digest::Digest;
use crate::model::{AddressGroup, Name, Objects, Remote};
use crate::name::name;

/// The fewest prefixes that hold exactly the addresses of a family.
pub(crate) fn prefixes(addresses: &AddressSet, family: Family) -> BTreeSet<Prefix> {
    let own = addresses.of_family(family);
    own.ranges()
        .flat_map(|range| AddressRange::prefixes(&range))
        .collect()
}

impl Objects {
    /// What rules of one family have to say so that they are about these addresses. Several prefixes are one address group
    /// if Neutron has them.
    pub(crate) fn remotes(
        &mut self,
        addresses: &AddressSet,
        family: Family,
        cluster: &str,
        address_groups: bool,
    ) -> Vec<Remote> {
        let prefixes = prefixes(addresses, family);
        if prefixes.len() > 1 && address_groups {
            return vec![Remote::AddressGroup(self.address_group(prefixes, cluster))];
        }
        let remotes = prefixes.into_iter().map(|prefix| match prefix.length() {
            0 => Remote::Anyone,
            _ => Remote::Prefix(prefix),
        });
        remotes.collect()
    }

    fn address_group(&mut self, addresses: BTreeSet<Prefix>, cluster: &str) -> Name {
        let texts = addresses.iter().map(Prefix::to_string);
        let hash = Digest::of("addresses").texts(texts).digits();
        let name = name(cluster, &["addresses", &hash]);
        self.address_groups
            .entry(name.clone())
            .or_insert(AddressGroup { addresses });
        name
    }
}
