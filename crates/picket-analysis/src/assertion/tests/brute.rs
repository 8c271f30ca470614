//! What the reference says of every packet that policies or assertions tell apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_cluster::{Endpoint, Pod, Semantics, Snapshot};
use picket_net::{Family, Prefix, Protocol};
use picket_policy::ObjectRef;
use picket_testing::build::{accept, block, policy, selector};
use picket_testing::flows;

use crate::lint::matches;

/// A text that names ends, and what it means of an endpoint in a family.
pub(super) type EndCase = (&'static str, fn(&Snapshot, &Endpoint, Family) -> bool);

pub(super) const ENDS: [EndCase; 18] = [
    ("any", |_, _, _| true),
    ("external", |_, end, _| matches!(end, Endpoint::External(_))),
    ("n0/*", |cluster, end, _| {
        pod(cluster, end).is_some_and(|pod| pod.object.namespace == "n0")
    }),
    ("n1/*", |cluster, end, _| {
        pod(cluster, end).is_some_and(|pod| pod.object.namespace == "n1")
    }),
    ("n0/p0", |cluster, end, _| {
        pod(cluster, end).is_some_and(|pod| pod.id() == "n0/p0")
    }),
    ("n2/p1", |cluster, end, _| {
        pod(cluster, end).is_some_and(|pod| pod.id() == "n2/p1")
    }),
    ("n3/Deployment/p2", |cluster, end, _| {
        pod(cluster, end).is_some_and(|pod| pod.id() == "n3/Deployment/p2")
    }),
    ("n1/Deployment/web", |cluster, end, _| {
        let is_owned = |pod: &Pod| pod.owner.as_ref().is_some_and(|owner| owner.name == "web");
        pod(cluster, end)
            .is_some_and(|pod| pod.object.namespace == "n1" && is_owned(pod) && !pod.is_workload())
    }),
    (
        "node-0",
        |_, end, _| matches!(end, Endpoint::Node { name, .. } if name == "node-0"),
    ),
    (
        "node-2@10.9.2.1",
        |_, end, _| matches!(end, Endpoint::Node { name, address } if name == "node-2" && address.to_string() == "10.9.2.1"),
    ),
    ("10.0.0.0/24", |cluster, end, family| {
        in_block(cluster, end, family, "10.0.0.0/24")
    }),
    ("10.9.0.0/16", |cluster, end, family| {
        in_block(cluster, end, family, "10.9.0.0/16")
    }),
    ("\"fd00::/64\"", |cluster, end, family| {
        in_block(cluster, end, family, "fd00::/64")
    }),
    ("0.0.0.0/0", |cluster, end, family| {
        in_block(cluster, end, family, "0.0.0.0/0")
    }),
    (
        "{external: [192.0.2.0/25, 203.0.113.5]}",
        |cluster, end, family| {
            let inside = ["192.0.2.0/25", "203.0.113.5/32"]
                .iter()
                .any(|one| in_block(cluster, end, family, one));
            matches!(end, Endpoint::External(_)) && inside
        },
    ),
    ("{podSelector: {matchLabels: {app: a}}}", |cluster, end, _| {
        pod(cluster, end).is_some_and(|pod| matches(&selector("app=a"), &pod.labels))
    }),
    (
        "{namespaceSelector: {matchLabels: {env: a}}}",
        |cluster, end, _| {
            let labelled = |pod: &Pod| {
                matches(
                    &selector("env=a"),
                    &cluster.namespace(&pod.object.namespace).labels,
                )
            };
            pod(cluster, end).is_some_and(labelled)
        },
    ),
    (
        "{namespaceSelector: {}, podSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}}",
        |cluster, end, _| pod(cluster, end).is_some_and(|pod| pod.labels.get("tier").is_none()),
    ),
];

/// A text that names packets, and which it means towards a destination.
pub(super) type PortCase = (&'static str, fn(&Snapshot, &Endpoint, Protocol, u16) -> bool);

pub(super) const PORTS: [PortCase; 7] = [
    ("80", |_, _, protocol, port| {
        protocol == Protocol::TCP && port == 80
    }),
    ("79-443", |_, _, protocol, port| {
        protocol == Protocol::TCP && (79..=443).contains(&port)
    }),
    ("53/udp", |_, _, protocol, port| {
        protocol == Protocol::UDP && port == 53
    }),
    ("sctp", |_, _, protocol, _| protocol == Protocol::SCTP),
    ("icmp", |_, _, protocol, _| protocol == Protocol::ICMP),
    ("other", |_, _, protocol, _| protocol.number() == 47),
    ("http", |cluster, end, protocol, port| {
        named(cluster, end).any(|own| own == (protocol, port))
    }),
];

pub(super) fn pod<'s>(cluster: &'s Snapshot, end: &Endpoint) -> Option<&'s Pod> {
    match end {
        Endpoint::Pod(object) => cluster.pods.get(object).map(|pod| &**pod),
        Endpoint::Node { .. } | Endpoint::External(_) => None,
    }
}

pub(super) fn named<'s>(cluster: &'s Snapshot, end: &Endpoint) -> impl Iterator<Item = (Protocol, u16)> + 's {
    let ports = pod(cluster, end).into_iter().flat_map(|pod| &*pod.ports);
    let http = ports.filter(|port| port.name == "http" && port.protocol == Protocol::TCP);
    http.map(|port| (port.protocol, port.port))
}

pub(super) fn in_block(cluster: &Snapshot, end: &Endpoint, family: Family, text: &str) -> bool {
    let prefix: Prefix = text.parse().unwrap();
    let address = match end {
        Endpoint::Pod(object) => {
            let pod = &cluster.pods[object];
            pod.addresses
                .of(family)
                .filter(|_| !pod.synthetic || prefix.length() == 0)
        }
        Endpoint::Node { address, .. } | Endpoint::External(address) => Some(*address),
    };
    prefix.family() == family && address.is_some_and(|address| prefix.contains(address))
}

/// Gives each workload a second pod, since a workload and itself are two of its pods. Returns of which workload each of
/// them is.
pub(super) fn add_twins(cluster: &mut Snapshot) -> BTreeMap<ObjectRef, ObjectRef> {
    let workloads: Vec<Arc<Pod>> = cluster
        .live_pods()
        .filter(|pod| pod.is_workload())
        .cloned()
        .collect();
    let mut twins = BTreeMap::new();
    for own in workloads {
        let mut twin = Pod::clone(&own);
        twin.object.name = format!("{}-twin", twin.object.name).into();
        twins.insert(twin.object.clone(), own.object.clone());
        cluster.pods.insert(twin.object.clone(), Arc::new(twin));
    }
    twins
}

/// A packet, and whether it is allowed.
pub(super) type Packet = (Family, Protocol, u16, bool);

/// A cluster, and what the reference says of every packet that policies or assertions tell apart.
pub(super) struct Brute {
    pub(super) cluster: Snapshot,
    pub(super) ends: BTreeMap<Endpoint, BTreeSet<Family>>,
    pub(super) verdicts: BTreeMap<(Endpoint, Endpoint), Vec<Packet>>,
}

impl Brute {
    pub(super) fn new(cluster: &Snapshot, semantics: &Semantics) -> Self {
        let cut = accept()
            .peer(block(
                "0.0.0.0/0",
                &["10.0.0.0/24", "10.9.0.0/16", "192.0.2.0/25", "203.0.113.5/32"],
            ))
            .peer(block("fd00::/64", &[]))
            .ports(Protocol::TCP, 79, 443)
            .port(Protocol::UDP, 53)
            .named("http", Protocol::TCP);
        let cut = policy("n0/cut").selects("app=nobody").ingress(cut).build();
        let mut finer = cluster.clone();
        finer.policies.insert(cut.object.clone(), Arc::new(cut));
        let ends = flows::endpoints(&finer).into_iter().collect();
        let twins = add_twins(&mut finer);
        let mut verdicts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for flow in flows::representative_flows(&finer) {
            let twin_of = |end: &Endpoint| match end {
                Endpoint::Pod(object) => twins.get(object).cloned().map(Endpoint::Pod),
                Endpoint::Node { .. } | Endpoint::External(_) => None,
            };
            let destination = match (twin_of(&flow.source), twin_of(&flow.destination)) {
                (None, None) => flow.destination.clone(),
                // A workload and itself are two of its pods.
                (None, Some(own)) if own == flow.source => own,
                _ => continue,
            };
            let verdict = picket_reference::judge(&finer, semantics, &flow)
                .verdict()
                .is_allow();
            let packet = (flow.family, flow.protocol, flow.port, verdict);
            verdicts
                .entry((flow.source.clone(), destination))
                .or_default()
                .push(packet);
        }
        let same = |one: &Endpoint, other: &Endpoint| match (one, other) {
            (Endpoint::Pod(one), Endpoint::Pod(other)) => one == other && one.kind == "Pod",
            (Endpoint::Node { name: one, .. }, Endpoint::Node { name: other, .. }) => one == other,
            _ => false,
        };
        verdicts.retain(|(from, to), _| !same(from, to));
        Self {
            cluster: cluster.clone(),
            ends,
            verdicts,
        }
    }

    pub(super) fn is_pair(&self, from: &Endpoint, to: &Endpoint) -> bool {
        let both_external = matches!((from, to), (Endpoint::External(_), Endpoint::External(_)));
        let same = match (from, to) {
            (Endpoint::Node { name: one, .. }, Endpoint::Node { name: other, .. }) => one == other,
            (Endpoint::Pod(one), _) => from == to && one.kind == "Pod",
            _ => false,
        };
        !both_external && !same
    }

    fn has_default(&self) -> bool {
        self.cluster
            .policies
            .values()
            .any(|policy| policy.tier == picket_policy::Tier::ClusterDefault)
    }

    /// Whether no policy can keep one from the other.
    pub(super) fn is_beyond(&self, from: &Endpoint, to: &Endpoint) -> bool {
        let node = |end: &Endpoint| match end {
            Endpoint::Node { name, .. } => Some(name.clone()),
            Endpoint::Pod(_) => pod(&self.cluster, end)
                .filter(|pod| pod.host_network)
                .and_then(|pod| pod.node.clone()),
            Endpoint::External(_) => None,
        };
        let managed = |end: &Endpoint| pod(&self.cluster, end).filter(|pod| !pod.host_network);
        let on = managed(to).and_then(|pod| pod.node.clone());
        (managed(from).is_none() && managed(to).is_none())
            || (on.is_some() && node(from) == on && !self.has_default())
    }
}
