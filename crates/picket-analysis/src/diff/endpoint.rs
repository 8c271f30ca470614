//! The endpoints of both sides, joined by what they are called.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use picket_net::{AddressRange, AddressSet, Family};

use super::Version;
use super::pair::Joint;
use crate::map::class::{Behaviour, Classes};
use crate::map::endpoint::{self, Found};
use crate::map::traffic::Traffics;
use crate::map::{By, EndpointKind, Place};

/// One side on its own.
#[derive(Debug)]
pub(super) struct Side<'a> {
    pub(super) classes: Classes<'a>,
    /// Pods, workloads and nodes.
    inside: Vec<Found>,
    /// Addresses that are neither a pod's nor a node's on either side.
    external: Vec<Found>,
}

impl<'a> Side<'a> {
    pub(super) fn new(version: Version<'a>, taken: &AddressSet, traffics: &RefCell<Traffics>) -> Self {
        let Version { snapshot, program } = version;
        let mut classes = Classes::new(program, traffics);
        let inside = endpoint::of_cluster(snapshot, program, &mut classes);
        let mut external = Vec::new();
        endpoint::add_external(taken, program, &mut classes, &mut external);
        Self {
            classes,
            inside,
            external,
        }
    }

    /// The pods of each top owner.
    fn owned(&self) -> BTreeMap<&str, Vec<&Found>> {
        let mut owned: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for found in &self.inside {
            if let Some(owner) = &found.owner {
                owned.entry(owner.as_str()).or_default().push(found);
            }
        }
        owned
    }
}

/// Every endpoint of either side, by kind and then by id.
pub(super) fn joined(sides: &[Side<'_>; 2], by: By, traffics: &RefCell<Traffics>) -> Vec<Joint> {
    let [old, new] = sides;
    let inside = match by {
        By::Pod => sides.each_ref().map(|side| side.inside.clone()),
        By::Workload => workloads(sides, traffics),
    };
    let mut joined: BTreeMap<(EndpointKind, String), Joint> = BTreeMap::new();
    for (number, found) in inside.into_iter().enumerate() {
        for found in found {
            let key = (found.endpoint.kind, found.endpoint.id.clone());
            let joint = joined.entry(key).or_insert_with(|| Joint {
                endpoint: found.endpoint.clone(),
                places: [None, None],
                external: AddressSet::empty(),
                touched: false,
            });
            joint.endpoint = found.endpoint;
            if let Some(place) = joint.places.get_mut(number) {
                *place = Some(found.place);
            }
        }
    }
    let mut joined: Vec<_> = joined.into_values().collect();
    joined.extend(common_external(&old.external, &new.external));
    sort(&mut joined);
    joined
}

fn sort(joined: &mut [Joint]) {
    joined.sort_by(|one, other| {
        let key = |joint: &Joint| joint.endpoint.kind;
        (key(one), &one.endpoint.id).cmp(&(key(other), &other.endpoint.id))
    });
}

/// Both sides with one endpoint for all pods of a top owner, where they behave alike on each side that has them.
fn workloads(sides: &[Side<'_>; 2], traffics: &RefCell<Traffics>) -> [Vec<Found>; 2] {
    let owned = sides.each_ref().map(Side::owned);
    let mut behaviours: [Option<Vec<Behaviour>>; 2] = [None, None];
    let mut apart = BTreeSet::new();
    for ((side, owned), behaviours) in sides.iter().zip(&owned).zip(&mut behaviours) {
        for (&owner, pods) in owned {
            let classes: BTreeSet<_> = pods.iter().map(|pod| pod.place.class).collect();
            if classes.len() < 2 {
                continue;
            }
            // Different classes may still behave alike, which takes a look at everything: few clusters need it.
            let behaviours = behaviours.get_or_insert_with(|| side.classes.behaviours(traffics));
            let distinct: BTreeSet<_> = classes.iter().map(|&class| behaviours.get(class)).collect();
            if distinct.len() > 1 {
                apart.insert(owner.to_owned());
            }
        }
    }
    let mut number = 0;
    sides.each_ref().map(|side| {
        let owned = owned.get(number).into_iter().flatten();
        number += 1;
        let whole = owned.filter(|(owner, _)| !apart.contains(**owner));
        let merged = whole.filter_map(|(owner, pods)| {
            let pods: Vec<Found> = pods.iter().map(|&pod| pod.clone()).collect();
            let class = pods.first()?.place.class;
            Some(endpoint::workload((*owner).to_owned(), class, &pods))
        });
        let alone = side.inside.iter().filter(|found| {
            let owner = found.owner.as_ref();
            owner.is_none_or(|owner| apart.contains(owner))
        });
        merged.chain(alone.cloned()).collect()
    })
}

/// External addresses, cut where either side tells them apart.
fn common_external(old: &[Found], new: &[Found]) -> Vec<Joint> {
    let mut cut: BTreeMap<(usize, usize), Vec<AddressRange>> = BTreeMap::new();
    let [old_ranges, new_ranges] = [old, new].map(ranges);
    let mut later = new_ranges.iter().peekable();
    for (ours, one) in old_ranges {
        while let Some((theirs, other)) = later.peek() {
            if other.family() == one.family() {
                let first = one.first().max(other.first());
                let last = one.last().min(other.last());
                if let Some(common) = AddressRange::new(first, last) {
                    cut.entry((ours, *theirs)).or_default().push(common);
                }
            }
            // The range that ends first can meet nothing further on the other side.
            if (other.family(), other.last()) > (one.family(), one.last()) {
                break;
            }
            later.next();
        }
    }
    let joints = cut.into_iter().filter_map(|((ours, theirs), ranges)| {
        let (ours, theirs) = (old.get(ours)?, new.get(theirs)?);
        let places = [Some(ours.place.clone()), Some(theirs.place.clone())];
        Some(external(places, ranges.into_iter().collect()))
    });
    joints.collect()
}

/// All ranges with the numbers of their endpoints, IPv4 first, ascending.
fn ranges(found: &[Found]) -> Vec<(usize, AddressRange)> {
    let mut ranges: Vec<_> = found
        .iter()
        .enumerate()
        .flat_map(|(number, found)| found.addresses.ranges().map(move |range| (number, range)))
        .collect();
    ranges.sort_by_key(|(_, range)| (range.family(), range.first()));
    ranges
}

/// What changed for an endpoint: the number of changed pairs, and a hash of 128 bits of all of them.
pub(super) type Signature = (usize, u128);

/// Makes one endpoint of external ones of one family with equal signatures, and drops those that did not change.
pub(super) fn merge_external(endpoints: Vec<Joint>, signatures: &[Signature]) -> Vec<Joint> {
    let mut merged = Vec::new();
    let mut alike: BTreeMap<(Option<Family>, Signature), Vec<Joint>> = BTreeMap::new();
    for (joint, &signature) in endpoints.into_iter().zip(signatures) {
        if joint.endpoint.kind != EndpointKind::External {
            merged.push(joint);
        } else if signature != Signature::default() {
            let family = joint.external.ranges().next().map(|range| range.family());
            alike.entry((family, signature)).or_default().push(joint);
        }
    }
    for joints in alike.into_values() {
        let addresses: AddressSet = joints.iter().flat_map(|joint| joint.external.ranges()).collect();
        let first = joints.first().cloned();
        merged.extend(first.map(|first| external(first.places, addresses)));
    }
    sort(&mut merged);
    merged
}

fn external(places: [Option<Place>; 2], addresses: AddressSet) -> Joint {
    Joint {
        endpoint: endpoint::external(0, addresses.clone()).endpoint,
        places,
        external: addresses,
        touched: false,
    }
}
