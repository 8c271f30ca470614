//! What a subject allows, in the numbers of the packets.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_engine::{AllowSet, Identity, Program, SubjectId};
use picket_net::{Family, Prefix};

use crate::layer4::Layer4;
use crate::peers::Peers;
use crate::place::{Moves, PerFamily, Places};
use crate::value::{Value, Values};
use crate::work::looked_at;

/// What a subject allows with everybody, and with its own node.
#[derive(Clone, Debug)]
pub(super) struct Said {
    everybody: Numbered,
    own_node: Numbered,
}

/// An allow set with the numbers of what its entries allow.
#[derive(Clone, Debug)]
struct Numbered {
    set: Arc<AllowSet>,
    values: PerFamily<Vec<Value>>,
    /// What is allowed with identities that no entry holds.
    floor: PerFamily<Value>,
}

impl Said {
    /// What a program says of a subject.
    pub(super) fn of(program: &Program, subject: SubjectId, values: &mut Values) -> Self {
        Self {
            everybody: Numbered::of(program.allow_set(subject), values),
            own_node: Numbered::of(program.own_node_allow_set(subject), values),
        }
    }

    /// Whether that is what a program says now.
    pub(super) fn is_current(&self, program: &Program, subject: SubjectId) -> bool {
        Arc::ptr_eq(&self.everybody.set, &program.allow_set(subject))
            && Arc::ptr_eq(&self.own_node.set, &program.own_node_allow_set(subject))
    }

    /// Whether something else is allowed with addresses whose identities are others now.
    pub(super) fn tells_apart(&self, moves: &Moves) -> bool {
        let entry = |identity| self.everybody.entry(identity);
        let mut moves = moves.iter().inspect(|_| looked_at(1));
        moves.any(|&(before, now)| entry(before) != entry(now))
    }

    /// The identities of which it says something, if these are no more than so many.
    pub(super) fn named(&self, most: usize) -> Option<Vec<Identity>> {
        let entries = self.everybody.set.entries().iter();
        let named = entries.flat_map(|(_, peers)| peers.iter());
        let named: Vec<_> = named.take(most + 1).map(Identity::from_number).collect();
        looked_at(named.len());
        (named.len() <= most).then_some(named)
    }

    /// What is allowed with an identity at addresses of no node.
    pub(super) fn value(&self, identity: Identity, family: Family) -> Value {
        self.everybody.value(identity, family)
    }

    /// What it allows with whom, where a node has these addresses.
    pub(super) fn peers(&self, family: Family, places: &Places, own_node: &[(IpAddr, Identity)]) -> Peers {
        let mut entries = self.everybody.entries(family, places);
        let own = own_node
            .iter()
            .filter(|(address, _)| Family::of(*address) == family);
        entries.extend(
            own.map(|&(address, identity)| (Prefix::host(address), self.own_node.value(identity, family))),
        );
        Peers::new(family, entries)
    }
}

impl Numbered {
    fn of(set: Arc<AllowSet>, values: &mut Values) -> Self {
        let mut numbers = |family| -> Vec<Value> {
            let entries = set.entries().iter();
            entries
                .map(|(traffic, _)| values.number(Layer4::allowed(traffic, family)))
                .collect()
        };
        let each = Family::BOTH.map(&mut numbers);
        Self {
            set,
            values: PerFamily(each),
            floor: PerFamily(Family::BOTH.map(|family| values.number(Layer4::necessary(family)))),
        }
    }

    fn entry(&self, identity: Identity) -> Option<usize> {
        let mut entries = self.set.entries().iter().inspect(|_| looked_at(1));
        entries.position(|(_, peers)| peers.contains(identity.number()))
    }

    fn value(&self, identity: Identity, family: Family) -> Value {
        let entry = self.entry(identity);
        let known = entry.and_then(|entry| self.values.of(family).get(entry));
        known.copied().unwrap_or(*self.floor.of(family))
    }

    /// Prefixes that together say everything; of one that is there twice, the last counts.
    fn entries(&self, family: Family, places: &Places) -> Vec<(Prefix, Value)> {
        let (any, regions) = (Prefix::all(family), places.regions(family));
        let floor = *self.floor.of(family);
        let rest = regions.around(&any).map(|identity| self.value(identity, family));
        let mut found = vec![(any, rest.unwrap_or(floor))];
        // A region can be one address: what its holder is counts, and so comes last.
        let mut held: Vec<(Prefix, Value)> = Vec::new();
        for ((_, peers), &value) in self.set.entries().iter().zip(self.values.of(family)) {
            // Then nothing else is said about anybody.
            if peers.is_all() {
                return vec![(any, value)];
            }
            for identity in peers.iter().map(Identity::from_number) {
                for outer in regions.with(identity) {
                    found.push((outer, value));
                    let within = regions.right_within(outer);
                    let within = within.map(|(inner, identity)| (inner, self.value(identity, family)));
                    found.extend(within.filter(|(_, inner)| *inner != value));
                }
                let mut hold = |addresses: &BTreeSet<IpAddr>, value| {
                    held.extend(addresses.iter().map(|&address| (Prefix::host(address), value)));
                };
                for (region, addresses) in places.held_by(family, identity) {
                    if self.value(region, family) != value {
                        hold(addresses, value);
                    }
                }
                for (own, addresses) in places.held_within(family, identity) {
                    if value != floor && self.entry(own).is_none() {
                        hold(addresses, floor);
                    }
                }
            }
        }
        found.extend(held);
        looked_at(found.len());
        found
    }
}
