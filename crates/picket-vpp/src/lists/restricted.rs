//! Pods that may not exchange everything, by address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Family;
use picket_policy::{Direction, ObjectRef};

use super::Lists;
use crate::peers::Peers;

/// What an address is restricted to because of one pod: before and now. `None` where nothing restricts it.
pub(crate) type Turn = [Option<Arc<Peers>>; 2];

/// What restricts pods in one direction, by address.
#[derive(Debug)]
pub(crate) struct Restricted {
    direction: Direction,
    at: BTreeMap<IpAddr, BTreeMap<ObjectRef, Arc<Peers>>>,
}

impl Restricted {
    /// Nobody.
    pub(crate) fn new(direction: Direction) -> Self {
        Self {
            direction,
            at: BTreeMap::new(),
        }
    }

    /// Takes in the lists of a pod, before and now, as far as they are about addresses of `families`. Those at which something
    /// else restricts it.
    pub(crate) fn follow(
        &mut self,
        pod: &ObjectRef,
        [before, now]: [Option<&Lists>; 2],
        families: &[Family],
    ) -> Vec<(IpAddr, Turn)> {
        let direction = self.direction;
        let own = [before, now].map(|lists| lists.map(|lists| (&lists.addresses, lists.of(direction))));
        let [was, is] = own;
        if was == is {
            return Vec::new();
        }
        let restricting = |lists: Option<&Lists>, address: IpAddr| {
            let lists = lists.filter(|lists| lists.addresses.contains(&address))?;
            let peers = lists.peers(direction, Family::of(address));
            peers.filter(|peers| !peers.is_everything()).cloned()
        };
        let lists = before.into_iter().chain(now);
        let addresses: BTreeSet<_> = lists.flat_map(|lists| &lists.addresses).copied().collect();
        let mut turns = Vec::new();
        for address in addresses {
            let turn = [before, now].map(|lists| restricting(lists, address));
            let [old, new] = &turn;
            if old == new || !families.contains(&Family::of(address)) {
                continue;
            }
            let here = self.at.entry(address).or_default();
            // What is known of before says the same as `old`, and is what others were told of then.
            let known = match new {
                Some(peers) => here.insert(pod.clone(), Arc::clone(peers)),
                None => here.remove(pod),
            };
            if here.is_empty() {
                self.at.remove(&address);
            }
            let [_, new] = turn;
            turns.push((address, [known, new]));
        }
        turns
    }

    /// The addresses from one to another at which something restricts somebody, ascending.
    pub(crate) fn between(&self, first: IpAddr, last: IpAddr) -> impl Iterator<Item = IpAddr> {
        self.at.range(first..=last).map(|(&address, _)| address)
    }

    /// What restricts each pod that has an address.
    pub(crate) fn each_at(&self, address: IpAddr) -> impl Iterator<Item = (&ObjectRef, &Arc<Peers>)> {
        self.at.get(&address).into_iter().flatten()
    }

    /// What restricts an address, and a pod that has it. Where several have one, all are held to the same.
    pub(crate) fn at(&self, address: IpAddr) -> Option<(&ObjectRef, &Arc<Peers>)> {
        self.at.get(&address)?.last_key_value()
    }
}
