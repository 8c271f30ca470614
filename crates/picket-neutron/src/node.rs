//! Nodes: their addresses, and what a pod exchanges with its own one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_engine::{PodRef, Program, SubjectId};
use picket_net::{AddressSet, TrafficSet};
use picket_policy::Direction;

use crate::builder::Builder;
use crate::digest::Digest;
use crate::model::{Name, SecurityGroup};
use crate::traffic::is_expressible;

/// The addresses of nodes, and of pods that have those of their node.
pub fn node_addresses(program: &Program) -> impl Iterator<Item = IpAddr> {
    let pods = program
        .pods()
        .filter(|pod| !pod.is_managed() && !pod.pod().finished);
    let pods = pods.flat_map(|pod| pod.pod().addresses.iter());
    let nodes = program.nodes().flat_map(|node| node.addresses.iter().copied());
    pods.chain(nodes)
}

impl<'a> Builder<'a> {
    /// The group of what an isolated pod exchanges with its own node all the same; none where that is nothing.
    pub(crate) fn own_node(
        &mut self,
        pod: PodRef<'a>,
        subject: SubjectId,
        direction: Direction,
    ) -> Option<Name> {
        let node = pod.pod().node.as_ref()?;
        let program = self.program;
        let known = self.nodes.entry(node.clone());
        let addresses = known.or_insert_with(|| program.own_addresses(node)).clone();
        let count = addresses.len();
        let allowed = program.own_node_allow_set(subject);
        let mut by_traffic: BTreeMap<TrafficSet, Vec<IpAddr>> = BTreeMap::new();
        for address in addresses {
            if let Some(traffic) = allowed.traffic(program.identity_of(address)) {
                if !is_expressible(traffic) {
                    self.note(subject, direction);
                }
                by_traffic.entry(traffic.clone()).or_default().push(address);
            }
        }
        if by_traffic.is_empty() {
            return None;
        }
        let direction_name = direction.to_string();
        let whole = by_traffic.get(&TrafficSet::all()).map_or(0, Vec::len);
        let name = if whole == count {
            self.name(&["node", node, &direction_name])
        } else {
            let texts = by_traffic
                .iter()
                .map(|(traffic, addresses)| format!("{traffic}: {addresses:?}"));
            let hash = Digest::of("node").texts(texts).digits();
            self.name(&["node", node, &direction_name, &hash])
        };
        Some(self.group(name, |builder| {
            let mut rules = BTreeSet::new();
            for (traffic, addresses) in by_traffic {
                let addresses: AddressSet = addresses.into_iter().collect();
                rules.extend(builder.address_rules(direction, &addresses, &traffic));
            }
            SecurityGroup {
                description: format!("{direction} of isolated pods on node {node} between them and the node"),
                tags: BTreeSet::new(),
                rules,
            }
        }))
    }
}
