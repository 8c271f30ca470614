//! What applies to one pod, what it can reach, and who can reach it.

use std::collections::BTreeMap;

use picket_cluster::Pod;
use picket_net::TrafficSet;
use picket_policy::{Action, Direction, Mode, Policy, Tier};
use serde::Serialize;
use smol_str::SmolStr;

use super::Explainer;
use super::answer::Place;
use super::words;
use crate::map::{By, Connection, ConnectionFamily, EndpointKind, Map, MapEndpoint};

/// Everything about one pod, in the shape of its JSON (`docs/schema/explain-pod.schema.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    /// `namespace/name`, or `namespace/Kind/name` for a workload.
    pub pod: String,
    /// Its addresses, IPv4 first.
    pub addresses: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<SmolStr, SmolStr>,
    /// Whether it shares its node's network, so that no policy selects it.
    pub host_network: bool,
    /// Connections to it.
    pub ingress: PodDirection,
    /// Connections from it.
    pub egress: PodDirection,
    /// How many other endpoints there are in each namespace.
    #[serde(skip)]
    pub(super) others: BTreeMap<SmolStr, usize>,
    /// The ranges of addresses that no pod and no node has.
    #[serde(skip)]
    pub(super) external: Vec<String>,
}

/// What applies to a pod in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodDirection {
    /// Whether a policy isolates it.
    pub isolated: bool,
    /// The policies that select it and say something about the direction, in the order in which they are judged.
    pub policies: Vec<PodPolicy>,
    /// What may pass, by the ids of the other ends.
    pub connections: Vec<PodConnection>,
}

/// A policy that applies to a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodPolicy {
    /// The kind.
    pub kind: SmolStr,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: SmolStr,
    /// The name.
    pub name: SmolStr,
    /// Its place.
    #[serde(flatten)]
    pub place: Place,
    /// When it is judged.
    pub tier: Tier,
    /// Its place among the policies of its tier; `None` in a tier without an order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// Whether it isolates the pod.
    pub isolates: bool,
    /// Whether it denies, or is only audited.
    pub mode: Mode,
    /// Its rules.
    pub rules: Vec<PodRule>,
}

/// A rule in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodRule {
    /// Its index as written, from 0.
    pub rule: u32,
    /// Its place.
    #[serde(flatten)]
    pub place: Place,
    /// What it does with connections that match.
    pub action: Action,
    /// Which connections match.
    pub text: String,
}

/// What may pass between the pod and another end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodConnection {
    /// The other end.
    #[serde(flatten)]
    pub end: MapEndpoint,
    /// In which families.
    pub family: ConnectionFamily,
    /// What may pass.
    pub allow: serde_json::Value,
    /// The same, for people.
    #[serde(skip)]
    pub(super) traffic: TrafficSet,
}

impl Explainer<'_> {
    /// Everything about a pod of the snapshot.
    pub fn explain_pod(&self, pod: &Pod) -> PodExplanation {
        let snapshot = self.evaluator.directory().snapshot();
        let map = Map::new(snapshot, self.evaluator.program(), By::Pod);
        let id = pod.id();
        let connections = map.connections_of(&id);
        let mut others = BTreeMap::new();
        for other in snapshot.live_pods().filter(|other| other.object != pod.object) {
            *others.entry(other.object.namespace.clone()).or_default() += 1;
        }
        let external = map
            .endpoints()
            .iter()
            .filter(|end| end.kind == EndpointKind::External);
        PodExplanation {
            addresses: pod.addresses.iter().map(|address| address.to_string()).collect(),
            labels: pod
                .labels
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            host_network: pod.host_network,
            ingress: self.direction(pod, &id, Direction::Ingress, &connections),
            egress: self.direction(pod, &id, Direction::Egress, &connections),
            pod: id,
            others,
            external: external.flat_map(|end| end.addresses.clone()).collect(),
        }
    }

    fn direction(
        &self,
        pod: &Pod,
        id: &str,
        direction: Direction,
        connections: &[Connection<'_>],
    ) -> PodDirection {
        let mut policies = self.policies_of(pod, direction);
        let isolated = policies.iter().any(|policy| policy.isolates(direction));
        if isolated {
            policies.retain(|policy| policy.tier != Tier::ClusterDefault);
        }
        let ends = connections.iter().filter_map(|connection| {
            let (own, other) = match direction {
                Direction::Egress => (connection.from, connection.to),
                Direction::Ingress => (connection.to, connection.from),
            };
            (own.id == id).then(|| PodConnection {
                end: other.clone(),
                family: connection.family,
                allow: crate::map::allow_json(&connection.allow),
                traffic: connection.allow.clone(),
            })
        });
        PodDirection {
            isolated,
            policies: policies
                .iter()
                .map(|policy| described(policy, direction))
                .collect(),
            connections: ends.collect(),
        }
    }

    /// The policies that select a pod and say something about a direction, in the order in which they are judged.
    fn policies_of(&self, pod: &Pod, direction: Direction) -> Vec<&Policy> {
        if !pod.is_managed() {
            return Vec::new();
        }
        let snapshot = self.evaluator.directory().snapshot();
        let own = self.of_namespace.get(&pod.object.namespace).into_iter().flatten();
        let mut found: Vec<&Policy> = own
            .chain(&self.of_any)
            .map(|policy| &***policy)
            .filter(|policy| {
                let side = policy.side(direction);
                (side.isolates || !side.rules.is_empty()) && super::miss::selects(snapshot, policy, pod)
            })
            .collect();
        found.sort_by_key(|policy| (policy.tier, policy.priority, &policy.object));
        found
    }
}

fn described(policy: &Policy, direction: Direction) -> PodPolicy {
    let side = policy.side(direction);
    PodPolicy {
        kind: policy.object.kind.clone(),
        namespace: policy.object.namespace.clone(),
        name: policy.object.name.clone(),
        place: Place::from(&policy.position),
        tier: policy.tier,
        priority: policy.tier.is_ordered().then_some(policy.priority),
        isolates: policy.isolates(direction),
        mode: policy.mode,
        rules: side
            .rules
            .iter()
            .map(|rule| PodRule {
                rule: rule.index,
                place: Place::from(&rule.position),
                action: rule.action,
                text: words::rule(direction, rule),
            })
            .collect(),
    }
}

/// The namespace of a pod or workload.
pub(super) fn namespace_of(end: &MapEndpoint) -> Option<&str> {
    match end.kind {
        EndpointKind::Pod | EndpointKind::Workload => Some(end.id.split_once('/')?.0),
        EndpointKind::External | EndpointKind::Node => None,
    }
}
