//! Rules that stand beside each other, found by what they look at. A table may have a hundred thousand of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use picket_net::Prefix;
use rustc_hash::FxHashMap;

use super::SessionRule;

/// How many bits of the address at this end a rule looks at, and how many of that at the other.
type Lengths = (u8, u8);

/// The networks of a rule at this end and at the other.
type Networks = (Prefix, Prefix);

/// The ports of a rule at this end and at the other, 0 for any.
type Ports = (u16, u16);

/// Rules by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Siblings {
    /// Those of each pair of networks. No two of them have the same ports.
    exact: FxHashMap<Networks, BTreeMap<Ports, usize>>,
    /// The pairs of lengths that there are, and how many pairs of networks have them.
    lengths: BTreeMap<Lengths, usize>,
    /// By the first address at this end and at the other.
    addresses: [BTreeSet<(IpAddr, usize)>; 2],
    /// By the port at this end and at the other.
    ports: [BTreeSet<(u16, usize)>; 2],
}

impl Siblings {
    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty()
    }

    pub(super) fn add(&mut self, at: usize, rule: &SessionRule) {
        let networks = (rule.local, rule.remote);
        let of_networks = self.exact.entry(networks).or_default();
        if of_networks.is_empty() {
            *self.lengths.entry(lengths(networks)).or_default() += 1;
        }
        of_networks.insert((rule.local_port, rule.remote_port), at);
        for (index, value) in self.addresses.iter_mut().zip(firsts(rule)) {
            index.insert((value, at));
        }
        for (index, value) in self.ports.iter_mut().zip([rule.local_port, rule.remote_port]) {
            index.insert((value, at));
        }
    }

    pub(super) fn remove(&mut self, at: usize, rule: &SessionRule) {
        let networks = (rule.local, rule.remote);
        if let Some(of_networks) = self.exact.get_mut(&networks) {
            of_networks.remove(&(rule.local_port, rule.remote_port));
            if of_networks.is_empty() {
                self.exact.remove(&networks);
                let lengths = lengths(networks);
                if let Some(count) = self.lengths.get_mut(&lengths) {
                    *count -= 1;
                    if *count == 0 {
                        self.lengths.remove(&lengths);
                    }
                }
            }
        }
        for (index, value) in self.addresses.iter_mut().zip(firsts(rule)) {
            index.remove(&(value, at));
        }
        for (index, value) in self.ports.iter_mut().zip([rule.local_port, rule.remote_port]) {
            index.remove(&(value, at));
        }
    }

    /// Those whose networks have two addresses, this end's first; with ports only those that look at no other ports.
    pub(super) fn about(&self, (local, remote): (IpAddr, IpAddr), ports: Option<Ports>) -> Vec<usize> {
        let mut found = Vec::new();
        for &(of_local, of_remote) in self.lengths.keys() {
            let networks = Prefix::new(local, of_local).zip(Prefix::new(remote, of_remote));
            let Some(of_networks) = networks.and_then(|networks| self.exact.get(&networks)) else {
                continue;
            };
            match ports {
                None => found.extend(of_networks.values()),
                Some((local, remote)) => {
                    let all = [(local, remote), (local, 0), (0, remote), (0, 0)];
                    let all: BTreeSet<Ports> = all.into();
                    found.extend(all.iter().filter_map(|ports| of_networks.get(ports)));
                }
            }
        }
        found
    }

    /// Those among which are all whose networks begin in those of a rule and that look at its ports, where it looks at any.
    pub(super) fn begun_within(&self, rule: &SessionRule) -> Vec<usize> {
        let addresses = self.addresses.iter().zip([rule.local, rule.remote]);
        let addresses = addresses.map(|(index, prefix)| {
            let all = index.range((prefix.first(), 0)..=(prefix.last(), usize::MAX));
            Box::new(all.map(|&(_, at)| at)) as Box<dyn Iterator<Item = usize>>
        });
        let ports = self.ports.iter().zip([rule.local_port, rule.remote_port]);
        let ports = ports.filter(|&(_, port)| port != 0).map(|(index, port)| {
            let all: RangeInclusive<_> = (port, 0)..=(port, usize::MAX);
            Box::new(index.range(all).map(|&(_, at)| at)) as Box<dyn Iterator<Item = usize>>
        });
        let mut ways: Vec<_> = addresses.chain(ports).map(|way| (way, Vec::new())).collect();
        // Whichever is the shortest: all of them go on together until one ends.
        loop {
            for (way, found) in &mut ways {
                match way.next() {
                    Some(at) => found.push(at),
                    None => return std::mem::take(found),
                }
            }
        }
    }
}

fn lengths((local, remote): Networks) -> Lengths {
    (local.length(), remote.length())
}

fn firsts(rule: &SessionRule) -> [IpAddr; 2] {
    [rule.local.first(), rule.remote.first()]
}
