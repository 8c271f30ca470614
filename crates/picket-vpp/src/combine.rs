//! Both directions of the pods of a node in one, as targets need it that can only judge what goes to a pod, or what comes
//! from one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{Family, Prefix};
use picket_policy::{Direction, ObjectRef};

use crate::lists::Lists;
use crate::peers::Peers;
use crate::place::PerFamily;
use crate::value::{Value, Values};

/// What the pods of a node may exchange with each other, seen from the other end.
#[derive(Debug)]
pub(crate) struct Others<'a> {
    /// The pods that something restricts in the other direction, by address.
    restricted: PerFamily<Vec<(IpAddr, &'a ObjectRef, &'a Arc<Peers>)>>,
    /// What always passes: nothing that has more to it is looked at.
    floor: PerFamily<Value>,
    /// The direction that both are brought into.
    direction: Direction,
}

impl<'a> Others<'a> {
    /// What keeps the pods of a node from each other besides what a pod's own list of `direction` says. No list allows less
    /// than `floor` of its family.
    pub(crate) fn of(pods: &'a BTreeMap<ObjectRef, Lists>, direction: Direction, floor: [Value; 2]) -> Self {
        let mut restricted = PerFamily([const { Vec::new() }; 2]);
        for (pod, lists) in pods {
            for &address in &lists.addresses {
                let family = Family::of(address);
                let peers = lists.peers(opposite(direction), family);
                if let Some(peers) = peers.filter(|peers| !peers.is_everything()) {
                    restricted.of_mut(family).push((address, pod, peers));
                }
            }
        }
        for found in &mut restricted.0 {
            found.sort_unstable_by_key(|(address, pod, _)| (*address, *pod));
        }
        Self {
            restricted,
            floor: PerFamily(floor),
            direction,
        }
    }

    /// What `pod` may exchange with whom when what other pods of its node may exchange with it counts too.
    pub(crate) fn combined(
        &self,
        pod: &ObjectRef,
        lists: &Lists,
        family: Family,
        values: &mut Values,
    ) -> Option<Arc<Peers>> {
        let own = lists.peers(self.direction, family)?;
        let addresses = lists.addresses.iter();
        let address = addresses
            .copied()
            .find(|&address| Family::of(address) == family)?;
        let (others, floor) = (self.restricted.of(family), *self.floor.of(family));
        let mut entries: BTreeMap<IpAddr, Value> = BTreeMap::new();
        for number in admitted(own, others, floor) {
            let Some((other, name, theirs)) = others.get(number) else {
                continue;
            };
            if *name == pod {
                continue;
            }
            // Where pods share an address, what each may do counts.
            let known = entries.get(other).copied().unwrap_or_else(|| own.value(*other));
            let value = values.common(known, theirs.value(address));
            entries.insert(*other, value);
        }
        entries.retain(|&other, value| own.value(other) != *value);
        if entries.is_empty() {
            return Some(Arc::clone(own));
        }
        let entries = entries
            .into_iter()
            .map(|(other, value)| (Prefix::host(other), value));
        Some(Arc::new(own.with(entries)))
    }
}

/// What each pod of a node may exchange with whom in one direction when what other pods of the node may exchange with it in
/// the other direction counts too: IPv4 and IPv6, where it has such an address.
pub fn tables(
    pods: &BTreeMap<ObjectRef, Lists>,
    direction: Direction,
    values: &mut Values,
) -> BTreeMap<ObjectRef, [Option<Arc<Peers>>; 2]> {
    let others = Others::of(pods, direction, [Value::NOTHING; 2]);
    let of_pod = |(pod, lists): (&ObjectRef, &Lists)| {
        let both = Family::BOTH.map(|family| others.combined(pod, lists, family, values));
        (pod.clone(), both)
    };
    pods.iter().map(of_pod).collect()
}

/// The numbers of those with whom more than the floor is allowed.
fn admitted(own: &Peers, others: &[(IpAddr, &ObjectRef, &Arc<Peers>)], floor: Value) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for entry in own.entries() {
        if entry.value == floor || entry.value == Value::NOTHING {
            continue;
        }
        let first = others.partition_point(|(address, ..)| *address < entry.prefix.first());
        let end = others.partition_point(|(address, ..)| *address <= entry.prefix.last());
        found.extend(first..end);
    }
    found
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Ingress => Direction::Egress,
        Direction::Egress => Direction::Ingress,
    }
}
