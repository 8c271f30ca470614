//! Pods that may not exchange everything, by address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Family;
use picket_policy::Direction;

use super::Lists;
use crate::peers::Peers;
use crate::work::looked_at;

/// What an address is restricted to because of one pod: before and now. `None` where nothing restricts it.
pub(crate) type Turn = [Option<Arc<Peers>>; 2];

/// What restricts pods in one direction, by address.
#[derive(Debug)]
pub(crate) struct Restricted<K> {
    direction: Direction,
    at: BTreeMap<IpAddr, BTreeMap<K, Arc<Peers>>>,
}

impl<K: Ord + Clone> Restricted<K> {
    /// Nobody.
    pub(crate) fn new(direction: Direction) -> Self {
        Self {
            direction,
            at: BTreeMap::new(),
        }
    }

    /// Takes in the lists of a pod, before and now. At which addresses something else restricts it, `turned` learns.
    pub(crate) fn follow(
        &mut self,
        pod: &K,
        [before, now]: [Option<&Lists>; 2],
        turned: &mut Vec<(IpAddr, Turn)>,
    ) {
        let direction = self.direction;
        looked_at(1);
        let own = [before, now].map(|lists| lists.map(|lists| (lists.of(direction), &lists.addresses)));
        let [was, is] = own;
        if was == is {
            return;
        }
        let restricting = |lists: Option<&Lists>, address: IpAddr| {
            let lists = lists.filter(|lists| lists.addresses.contains(&address))?;
            let peers = lists.peers(direction, Family::of(address));
            peers.filter(|peers| !peers.is_everything()).cloned()
        };
        let was = before.into_iter().flat_map(|lists| &*lists.addresses);
        let is = now.into_iter().flat_map(|lists| &*lists.addresses);
        let has_had = |address: &IpAddr| before.is_some_and(|lists| lists.addresses.contains(address));
        for &address in was.chain(is.filter(|address| !has_had(address))) {
            looked_at(1);
            let turn = [before, now].map(|lists| restricting(lists, address));
            let [old, new] = &turn;
            if old == new {
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
            turned.push((address, [known, new]));
        }
    }

    /// The addresses from one to another at which something restricts somebody, ascending.
    pub(crate) fn between(&self, first: IpAddr, last: IpAddr) -> impl Iterator<Item = IpAddr> {
        let between = self.at.range(first..=last).inspect(|_| looked_at(1));
        between.map(|(&address, _)| address)
    }

    /// What restricts each pod that has an address.
    pub(crate) fn each_at(&self, address: IpAddr) -> impl Iterator<Item = (&K, &Arc<Peers>)> {
        let here = self.at.get(&address).into_iter().flatten();
        here.inspect(|_| looked_at(1))
    }

    /// What restricts an address, and a pod that has it. Where several have one, all are held to the same.
    pub(crate) fn at(&self, address: IpAddr) -> Option<(&K, &Arc<Peers>)> {
        self.at.get(&address)?.last_key_value()
    }
}
