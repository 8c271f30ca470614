//! Numbers for the scratch field: classes of peers, and classes of traffic.
//!
//! Two identities that no subject of the node tells apart share a peer class, so a node's maps hold what its own pods
//! need and no more. The two kinds of classes have disjoint numbers: a peer class left in the scratch field by a
//! lookup that found nothing is no traffic class, and matches nothing.
//!
//! Classes follow the node from one state to the next: what has changed is all that is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_engine::IdentitySet;
use picket_net::{AddressRange, Family, TrafficSet};
use rustc_hash::FxHashMap;

use super::group::{Groups, Moved, Patches, SideKey};
use super::traffic::{ANY_TRAFFIC, Uses, traffic_classes};
use super::view::{LocalSide, NodeView, SideId, next};

/// The peer class of addresses with which no subject may exchange anything. nft prints it as `none`.
pub(super) const NOBODY: u32 = 0;

/// What one side allows, in classes.
#[derive(Clone, Debug)]
struct SideClasses {
    id: SideId,
    /// Which traffic is allowed with which identities; no identity twice.
    allowed: Arc<[(TrafficSet, IdentitySet)]>,
    /// The class of the traffic of each.
    traffic: Vec<u32>,
    /// Peer class to traffic class.
    elements: BTreeMap<u32, u32>,
}

/// Every class that one node's table uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    /// Classes of traffic other than all.
    pub(super) traffic: BTreeMap<TrafficSet, u32>,
    uses: Uses,
    /// Those of each side.
    sides: BTreeMap<SideKey, SideClasses>,
    keys: BTreeMap<SideId, SideKey>,
    /// Every key that was given is lower.
    next_key: SideKey,
    /// The peer class of addresses by range, ascending, without [`NOBODY`]; adjacent ranges differ.
    pub(super) blocks: Vec<(AddressRange, u32)>,
    /// The peer class of single addresses where `blocks` says something else.
    pub(super) peers: BTreeMap<IpAddr, u32>,
    groups: Groups,
    /// The addresses of pods and nodes with each identity.
    addresses: FxHashMap<u32, BTreeSet<IpAddr>>,
    /// The identities of other addresses.
    elsewhere: BTreeSet<u32>,
    /// The identities that any address has.
    live: IdentitySet,
}

/// A side before and now; `None` where there was none or is none any more.
pub(super) type Pair<'a> = (Option<&'a LocalSide>, Option<&'a LocalSide>);

/// From one state of a node to the next.
pub(super) struct Transition<'a> {
    /// The sides that differ.
    pub(super) sides: &'a [Pair<'a>],
    /// Everything as it is now.
    pub(super) view: &'a NodeView,
    /// Addresses of pods and nodes that came, went or have another identity now.
    pub(super) addresses: &'a BTreeMap<IpAddr, Option<u32>>,
    /// What they were before.
    pub(super) addresses_before: &'a BTreeMap<IpAddr, u32>,
    /// The numbers of the subjects of which anything may be said now. Others say what they said, but about `identities`.
    pub(super) subjects: &'a BTreeSet<u32>,
    /// Identities of which anything may be allowed now.
    pub(super) identities: &'a BTreeSet<u32>,
    /// Whether other addresses may have another identity now.
    pub(super) regions: bool,
}

/// What of the classes has changed. What is in both is what it was.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// What is allowed at each side, where it changed: before and now.
    pub(super) sides: BTreeMap<SideId, [BTreeMap<u32, u32>; 2]>,
    /// The blocks before, if they changed.
    pub(super) blocks: Option<Vec<(AddressRange, u32)>>,
    /// The peers that changed: before and now.
    pub(super) peers: [BTreeMap<IpAddr, u32>; 2],
    /// The classes of traffic before, if they changed.
    pub(super) traffic: Option<BTreeMap<TrafficSet, u32>>,
}

/// The number of some traffic has changed, which happens when two kinds of traffic have one hash and one of them goes.
#[derive(Debug)]
pub(super) struct Renumbered;

impl Classes {
    /// The classes of a node.
    pub(super) fn of(view: &NodeView) -> Self {
        let mut classes = Self::default();
        let addresses = view
            .endpoints
            .iter()
            .map(|(&address, &identity)| (address, Some(identity)));
        let sides: Vec<Pair<'_>> = view.sides.iter().map(|side| (None, Some(side))).collect();
        let transition = Transition {
            sides: &sides,
            view,
            addresses: &addresses.collect(),
            addresses_before: &BTreeMap::new(),
            subjects: &BTreeSet::new(),
            identities: &BTreeSet::new(),
            regions: true,
        };
        // INVARIANT: nothing had a number before.
        let _ = classes.advance(&transition);
        classes
    }

    /// What a side allows: peer class to traffic class.
    pub(super) fn of_side(&self, side: &LocalSide) -> &BTreeMap<u32, u32> {
        const NOTHING: &BTreeMap<u32, u32> = &BTreeMap::new();
        self.side(&side.id()).map_or(NOTHING, |side| &side.elements)
    }

    /// Whether a side allows anything, and whether it did before.
    pub(super) fn allows(&self, side: &SideId, changed: &Changed) -> [bool; 2] {
        let now = self.side(side).map_or(0, |side| side.elements.len());
        let [gone, new] = changed
            .sides
            .get(side)
            .map_or([0, 0], |sides| sides.each_ref().map(BTreeMap::len));
        [now + gone > new, now > 0]
    }

    fn side(&self, id: &SideId) -> Option<&SideClasses> {
        self.sides.get(self.keys.get(id)?)
    }

    /// The key of a side, which gets one if it has none.
    fn key(&mut self, id: SideId) -> SideKey {
        let key = *self.keys.entry(id.clone()).or_insert(self.next_key);
        if key == self.next_key {
            self.next_key += 1;
            let nothing = SideClasses {
                id,
                allowed: Arc::default(),
                traffic: Vec::new(),
                elements: BTreeMap::new(),
            };
            self.sides.insert(key, nothing);
        }
        key
    }

    /// Follows the node. After an error nothing of it is of use.
    pub(super) fn advance(&mut self, transition: &Transition<'_>) -> Result<Changed, Renumbered> {
        let mut changed = Changed::default();
        self.uses.follow(transition.sides);
        if !self.uses.traffic().eq(self.traffic.keys()) {
            let before = std::mem::replace(&mut self.traffic, traffic_classes(self.uses.traffic()));
            if before
                .iter()
                .any(|(traffic, class)| self.traffic.get(traffic).is_some_and(|now| now != class))
            {
                return Err(Renumbered);
            }
            changed.traffic = Some(before);
        }
        let (fresh, gone) = self.follow_addresses(transition);
        let mut patches = Patches::default();
        self.follow_sides(transition, &fresh, &mut patches);
        self.enter(&fresh, &mut patches);
        let moved = self.groups.advance(patches, &gone);
        self.follow_groups(&moved, &mut changed);
        self.follow_classes(transition, &moved, &mut changed);
        Ok(changed)
    }

    /// Learns which identities have addresses now: those of which everything must be found out, and those that have none
    /// any more.
    fn follow_addresses(&mut self, transition: &Transition<'_>) -> (IdentitySet, IdentitySet) {
        let mut touched: Vec<_> = transition.identities.iter().copied().collect();
        for (address, now) in transition.addresses {
            if let Some(before) = transition.addresses_before.get(address) {
                touched.push(*before);
                if let Some(addresses) = self.addresses.get_mut(before) {
                    addresses.remove(address);
                }
            }
            if let Some(now) = now {
                touched.push(*now);
                self.addresses.entry(*now).or_default().insert(*address);
            }
        }
        if transition.regions {
            let now = transition
                .view
                .regions
                .iter()
                .map(|&(_, identity)| identity)
                .collect();
            touched.extend(self.elsewhere.symmetric_difference(&now));
            self.elsewhere = now;
        }
        touched.sort_unstable();
        touched.dedup();
        let (mut fresh, mut gone) = (Vec::new(), Vec::new());
        for identity in touched {
            let has_addresses = self
                .addresses
                .get(&identity)
                .is_some_and(|addresses| !addresses.is_empty());
            if !has_addresses {
                self.addresses.remove(&identity);
            }
            let was_live = self.live.contains(identity);
            match has_addresses || self.elsewhere.contains(&identity) {
                true if !was_live || transition.identities.contains(&identity) => fresh.push(identity),
                false if was_live => gone.push(identity),
                _ => {}
            }
        }
        let (fresh, gone): (IdentitySet, IdentitySet) =
            (fresh.into_iter().collect(), gone.into_iter().collect());
        self.live = self.live.difference(&gone).union(&fresh);
        (fresh, gone)
    }

    /// Notes what the sides that say something else now say about the identities that were there before.
    fn follow_sides(&mut self, transition: &Transition<'_>, fresh: &IdentitySet, patches: &mut Patches) {
        let staying = self.live.difference(fresh);
        for &(before, now) in transition.sides {
            let Some(side) = now.or(before) else {
                continue;
            };
            if before.zip(now).is_some_and(|(before, now)| before.says_as(now)) {
                continue;
            }
            let key = self.key(side.id());
            let allowed = now.map_or_else(Arc::default, |side| Arc::clone(&side.allowed));
            let traffic = allowed.iter().map(|(traffic, _)| self.traffic_class(traffic));
            let traffic: Vec<_> = traffic.collect();
            let Some(classes) = self.sides.get_mut(&key) else {
                continue;
            };
            let old = std::mem::replace(&mut classes.allowed, allowed);
            let old_traffic = std::mem::replace(&mut classes.traffic, traffic);
            let is_named = side
                .subject
                .iter()
                .any(|subject| transition.subjects.contains(subject));
            if !staying.is_empty() && (is_named || before.is_none() || now.is_none()) {
                let old = with_classes(&old, &old_traffic);
                patches.side(
                    key,
                    &old,
                    &with_classes(&classes.allowed, &classes.traffic),
                    &staying,
                );
            }
        }
    }

    /// Finds out everything about identities that are new.
    fn enter(&self, fresh: &IdentitySet, patches: &mut Patches) {
        if fresh.is_empty() {
            return;
        }
        let mut allowed: FxHashMap<u32, Vec<(SideKey, u32)>> = FxHashMap::default();
        let mut allow = |identity, side, class| allowed.entry(identity).or_default().push((side, class));
        for (&key, side) in &self.sides {
            for (class, peers) in with_classes(&side.allowed, &side.traffic) {
                for identity in peers.intersection(fresh).iter() {
                    allow(identity, key, class);
                }
            }
        }
        for identity in fresh.iter() {
            patches.anew(identity, allowed.remove(&identity).unwrap_or_default());
        }
    }

    fn traffic_class(&self, traffic: &TrafficSet) -> u32 {
        self.traffic.get(traffic).copied().unwrap_or(ANY_TRAFFIC)
    }

    /// What sides allow follows the groups of identities.
    fn follow_groups(&mut self, moved: &Moved, changed: &mut Changed) {
        let mut sides: FxHashMap<SideKey, [Vec<(u32, u32)>; 2]> = FxHashMap::default();
        for (signature, class) in &moved.before {
            for (side, traffic) in signature.iter() {
                let [before, _] = sides.entry(side).or_default();
                before.push((*class, traffic));
            }
        }
        for (signature, class) in &moved.after {
            for (side, traffic) in signature.iter() {
                let [_, after] = sides.entry(side).or_default();
                after.push((*class, traffic));
            }
        }
        let mut sides: Vec<_> = sides.into_iter().collect();
        sides.sort_unstable_by_key(|&(key, _)| key);
        for (key, lists) in sides {
            let Some(side) = self.sides.get_mut(&key) else {
                continue;
            };
            let [before, after] = lists.map(BTreeMap::from_iter);
            for class in before.keys() {
                side.elements.remove(class);
            }
            take_in(&mut side.elements, &after);
            changed.sides.insert(side.id.clone(), [before, after]);
        }
    }

    /// What addresses are follows the classes of identities.
    fn follow_classes(&mut self, transition: &Transition<'_>, moved: &Moved, changed: &mut Changed) {
        let mut candidates: Vec<IpAddr> = transition.addresses.keys().copied().collect();
        for identity in &moved.identities {
            candidates.extend(self.addresses.get(identity).into_iter().flatten());
        }
        if transition.regions
            || moved
                .identities
                .iter()
                .any(|identity| self.elsewhere.contains(identity))
        {
            let regions = transition.view.regions.iter();
            let now = merged(regions.map(|&(range, identity)| (range, self.groups.class(identity))));
            if now != self.blocks {
                let before = std::mem::replace(&mut self.blocks, now);
                for range in differing(&before, &self.blocks) {
                    let inside = transition.view.endpoints.range(range.first()..=range.last());
                    candidates.extend(inside.map(|(&address, _)| address));
                }
                changed.blocks = Some(before);
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for address in candidates {
            let identity = transition.view.endpoints.get(&address);
            let now = identity
                .map(|&identity| self.groups.class(identity))
                .filter(|&class| class != class_at(&self.blocks, address));
            let old = self.peers.get(&address).copied();
            if old != now {
                before.extend(old.map(|class| (address, class)));
                after.extend(now.map(|class| (address, class)));
            }
        }
        for (address, _) in &before {
            self.peers.remove(address);
        }
        changed.peers = [before, after].map(BTreeMap::from_iter);
        let [_, after] = &changed.peers;
        take_in(&mut self.peers, after);
    }

    /// Forgets a side, which allows nothing any more.
    pub(super) fn leave(&mut self, side: &SideId) {
        if let Some(key) = self.keys.remove(side) {
            self.sides.remove(&key);
        }
    }
}

/// Takes in what is new: merged where it is most of what there will be, which is faster than one by one.
fn take_in<K: Copy + Ord>(known: &mut BTreeMap<K, u32>, new: &BTreeMap<K, u32>) {
    if new.len() > known.len() {
        known.append(&mut new.clone());
    } else {
        known.extend(new);
    }
}

/// What is allowed at a side, with the classes of the traffic.
fn with_classes<'a>(
    allowed: &'a [(TrafficSet, IdentitySet)],
    traffic: &[u32],
) -> Vec<(u32, &'a IdentitySet)> {
    let peers = allowed.iter().map(|(_, peers)| peers);
    traffic.iter().copied().zip(peers).collect()
}

/// The ranges in which two lists of ascending ranges do not say the same.
fn differing(one: &[(AddressRange, u32)], other: &[(AddressRange, u32)]) -> Vec<AddressRange> {
    let (one, other): (BTreeSet<_>, BTreeSet<_>) = (one.iter().collect(), other.iter().collect());
    one.symmetric_difference(&other)
        .map(|(range, _)| *range)
        .collect()
}

/// Ascending ranges with their class: neighbours of one class become one range, and those of [`NOBODY`] go.
fn merged(ranges: impl Iterator<Item = (AddressRange, u32)>) -> Vec<(AddressRange, u32)> {
    let mut merged: Vec<(AddressRange, u32)> = Vec::new();
    for (range, class) in ranges.filter(|&(_, class)| class != NOBODY) {
        let joined = merged
            .last()
            .filter(|(last, last_class)| *last_class == class && next(last.last()) == Some(range.first()))
            .and_then(|(last, _)| AddressRange::new(last.first(), range.last()));
        match (joined, merged.last_mut()) {
            (Some(joined), Some(last)) => last.0 = joined,
            _ => merged.push((range, class)),
        }
    }
    merged
}

/// The class that sorted ranges give an address.
fn class_at(ranges: &[(AddressRange, u32)], address: IpAddr) -> u32 {
    let after = ranges.partition_point(|(range, _)| range.first() <= address);
    after
        .checked_sub(1)
        .and_then(|at| ranges.get(at))
        .filter(|(range, _)| range.family() == Family::of(address) && address <= range.last())
        .map_or(NOBODY, |&(_, class)| class)
}

#[cfg(test)]
mod tests;
