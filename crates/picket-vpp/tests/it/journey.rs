//! Packets on their way through the nodes of a cluster, each with a VPP.

use std::collections::BTreeMap;
use std::net::IpAddr;

use picket_cluster::{Endpoint, Flow, Pod, Semantics, Snapshot};
use picket_engine::{Engine, Program};
use picket_vpp::acl::meaning::{Interpreter, Packet, Way};
use picket_vpp::acl::{Acls, Options, render};
use smol_str::SmolStr;

const UPLINK: &str = "uplink";

/// The lists of a cluster: those of each node, or of one for all pods where there are no nodes.
pub(crate) struct Cluster<'a> {
    snapshot: &'a Snapshot,
    pub(crate) acls: BTreeMap<Option<SmolStr>, Acls>,
}

/// The nodes of a cluster; where there are none, one that runs every pod.
pub(crate) fn nodes(snapshot: &Snapshot) -> Vec<Option<SmolStr>> {
    match snapshot.nodes.is_empty() {
        true => vec![None],
        false => snapshot.nodes.keys().cloned().map(Some).collect(),
    }
}

/// A place that a packet passes.
pub(crate) type Hop = (Option<SmolStr>, SmolStr, Way);

impl<'a> Cluster<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, semantics: &Semantics) -> Self {
        Self::of(snapshot, Engine::compile(snapshot, semantics.clone()).program())
    }

    /// That of a program that knows the snapshot.
    pub(crate) fn of(snapshot: &'a Snapshot, program: &Program) -> Self {
        let lists = |node: &Option<SmolStr>| render(program, node.as_deref(), &Options::default());
        let acls = nodes(snapshot)
            .into_iter()
            .map(|node| (node.clone(), lists(&node)))
            .collect();
        Self { snapshot, acls }
    }

    /// The pod at an end that has an interface of its own.
    fn pod(&self, end: &Endpoint) -> Option<&'a Pod> {
        match end {
            Endpoint::Pod(object) => {
                let pod = self.snapshot.pods.get(object).map(|pod| &**pod);
                pod.filter(|pod| !pod.host_network)
            }
            Endpoint::Node { .. } | Endpoint::External(_) => None,
        }
    }

    fn node(&self, pod: &Pod) -> Option<SmolStr> {
        pod.node.clone().filter(|_| !self.snapshot.nodes.is_empty())
    }

    /// The interface of a pod.
    pub(crate) fn at(&self, pod: &Pod, way: Way) -> Hop {
        (self.node(pod), SmolStr::from(pod.id()), way)
    }

    pub(crate) fn address(&self, end: &Endpoint, flow: &Flow) -> IpAddr {
        match end {
            Endpoint::Node { address, .. } | Endpoint::External(address) => *address,
            Endpoint::Pod(object) => {
                let addresses = self.snapshot.pods[object].addresses;
                addresses.of(flow.family).expect("an address of the family")
            }
        }
    }

    /// The interfaces that a packet from one end to the other passes; `None` where it passes no VPP of a node that is known.
    pub(crate) fn hops(&self, flow: &Flow) -> Option<Vec<Hop>> {
        let (from, to) = (self.pod(&flow.source), self.pod(&flow.destination));
        let known = |pod: Option<&Pod>| pod.is_none_or(|pod| self.acls.contains_key(&self.node(pod)));
        if (from, to) == (None, None) || !known(from) || !known(to) {
            return None;
        }
        let here = |pod: &Pod, way| self.at(pod, way);
        let outside = |pod: &Pod, way| (self.node(pod), SmolStr::new(UPLINK), way);
        let same_node = from
            .zip(to)
            .is_some_and(|(from, to)| self.node(from) == self.node(to));
        let mut hops = Vec::new();
        if let Some(from) = from {
            hops.push(here(from, Way::In));
            hops.extend((!same_node).then(|| outside(from, Way::Out)));
        }
        if let Some(to) = to {
            hops.extend((!same_node).then(|| outside(to, Way::In)));
            hops.push(here(to, Way::Out));
        }
        Some(hops)
    }

    /// One VPP for each node, none of which has seen a packet.
    pub(crate) fn start(&self) -> Running<'_> {
        let nodes = self.acls.iter();
        Running(
            nodes
                .map(|(node, acls)| (node.clone(), Interpreter::new(acls)))
                .collect(),
        )
    }
}

/// The VPPs of a cluster while packets pass.
pub(crate) struct Running<'a>(pub(crate) BTreeMap<Option<SmolStr>, Interpreter<'a>>);

impl Running<'_> {
    /// The same, but that ports of SCTP are 0 to them.
    pub(crate) fn without_ports_of_sctp(self) -> Self {
        let vpps = self.0.into_iter();
        Self(
            vpps.map(|(node, vpp)| (node, vpp.without_ports_of_sctp()))
                .collect(),
        )
    }

    /// Whether a packet gets through, where the first hop sees `before` of it and all others `after`.
    pub(crate) fn translated(&mut self, hops: &[Hop], before: &Packet, after: &Packet) -> bool {
        hops.iter().enumerate().all(|(number, (node, interface, way))| {
            let packet = if number == 0 { before } else { after };
            let vpp = self.0.get_mut(node).expect("a node of the cluster");
            vpp.passes(interface, *way, packet)
        })
    }

    /// Whether a packet gets through.
    pub(crate) fn passes(&mut self, hops: &[Hop], packet: &Packet) -> bool {
        self.translated(hops, packet, packet)
    }

    /// Whether the answer to a packet gets back, where the last hop sees the answer to `before` of it, and all others that
    /// to `after`.
    pub(crate) fn answers(&mut self, hops: &[Hop], before: &Packet, after: &Packet) -> bool {
        let back = |way: &Way| match way {
            Way::In => Way::Out,
            Way::Out => Way::In,
        };
        let last = hops.len() - 1;
        let back: Vec<Hop> = hops
            .iter()
            .rev()
            .map(|(node, interface, way)| (node.clone(), interface.clone(), back(way)))
            .collect();
        back.iter().enumerate().all(|(number, (node, interface, way))| {
            let packet = if number == last {
                before.reply()
            } else {
                after.reply()
            };
            let vpp = self.0.get_mut(node).expect("a node of the cluster");
            vpp.passes(interface, *way, &packet)
        })
    }
}
