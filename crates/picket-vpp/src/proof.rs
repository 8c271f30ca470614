//! What the proofs of lists and of session rules have in common: the addresses that are alike, what the policies demand
//! between two of them, and what is reported.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_dataplane::demand::{Demands, End};
use picket_dataplane::{Crossing, State};
use picket_engine::{PodRef, Program};
use picket_net::{Family, TrafficSet, next_address};

/// What was found: `C` is a packet or a connection with which what was looked at does not mean the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<C> {
    /// With what it does not mean the policies.
    pub counterexamples: Vec<C>,
    /// How many pairs of an address and a range of addresses were compared.
    pub pairs: usize,
    /// Whether there would be more counter-examples than were to be shown.
    pub stopped: bool,
    limit: usize,
}

impl<C> Report<C> {
    /// One that stops after `limit` counter-examples.
    pub(crate) fn up_to(limit: usize) -> Self {
        Self {
            counterexamples: Vec::new(),
            pairs: 0,
            stopped: false,
            limit,
        }
    }

    /// Whether what was looked at means the policies.
    pub fn is_proof(&self) -> bool {
        self.counterexamples.is_empty()
    }

    pub(crate) fn add(&mut self, found: C) {
        if self.counterexamples.len() < self.limit {
            self.counterexamples.push(found);
        } else {
            self.stopped = true;
        }
    }
}

/// The managed pods of a node, or with `None` of every node.
pub(crate) fn pods<'a>(program: &'a Program, node: Option<&str>) -> Vec<PodRef<'a>> {
    match node {
        Some(node) => program.pods_on(node),
        None => program.pods().filter(PodRef::is_managed).collect(),
    }
}

/// The addresses of a cluster, as the pods of one node meet them.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    demands: Demands<'a>,
    /// The first addresses of ranges that are alike for the policies.
    ends: Vec<(IpAddr, End)>,
    /// The addresses of the pods of the node.
    pub(crate) local: BTreeSet<IpAddr>,
    /// The addresses of the node.
    pub(crate) own_node: BTreeSet<IpAddr>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(program: &'a Program, node: Option<&str>) -> Self {
        let demands = Demands::on_node(program, node);
        let pods = pods(program, node).into_iter();
        let own_node = node.and_then(|node| program.node(node));
        Self {
            ends: demands.ends().collect(),
            demands,
            local: pods
                .flat_map(|pod| pod.pod().addresses.iter().collect::<Vec<_>>())
                .collect(),
            own_node: own_node.map(|node| node.addresses.clone()).unwrap_or_default(),
        }
    }

    /// What there is to an address.
    pub(crate) fn end(&self, address: IpAddr) -> End {
        self.demands.end(address)
    }

    /// The first addresses of ranges of a family that nothing tells apart: not the policies, not what is local, and none of
    /// `ranges`, each given by its first and its last address.
    pub(crate) fn peers(
        &self,
        family: Family,
        ranges: impl IntoIterator<Item = (IpAddr, IpAddr)>,
    ) -> BTreeSet<IpAddr> {
        let mut found: BTreeSet<_> = self.ends.iter().map(|(address, _)| *address).collect();
        let local = self.local.iter().map(|&address| (address, address));
        for (first, last) in ranges.into_iter().chain(local) {
            found.insert(first);
            found.extend(next_address(last));
        }
        found.retain(|&address| Family::of(address) == family);
        found
    }

    /// What a pod may be sent by a peer; `None` where nothing is demanded.
    pub(crate) fn received(&self, peer: (IpAddr, &End), own: &End) -> Option<TrafficSet> {
        let crossing = match self.own_node.contains(&peer.0) {
            true => Crossing::Send { output: "pod".into() },
            false => forward(),
        };
        let demand = self.demands.demand(&crossing, peer.1, own, State::New);
        self.demands.passing(demand)
    }

    /// What a pod may send to a peer; `None` where nothing is demanded.
    pub(crate) fn sent(&self, own: &End, peer: (IpAddr, &End)) -> Option<TrafficSet> {
        let crossing = match self.own_node.contains(&peer.0) {
            true => Crossing::Receive { input: "pod".into() },
            false => forward(),
        };
        let demand = self.demands.demand(&crossing, own, peer.1, State::New);
        self.demands.passing(demand)
    }
}

fn forward() -> Crossing {
    Crossing::Forward {
        input: "pod".into(),
        output: "pod".into(),
    }
}
