//! What the page knows, in the shape of its JSON.
//!
//! Endpoints of one class share everything that is said about them. Pairs are therefore numbers in tables over classes,
//! with equal neighbours written once: `[value, count, value, count, …]`.

use std::collections::BTreeMap;

use picket_net::TrafficSet;
use serde::Serialize;
use serde_json::Value;

use super::circle::{Circle, circle};
use super::pairs::{Pairs, PerFamily, Runs};
use crate::eval::{CauseAnswer, Evaluator};
use crate::map::tree::Section;
use crate::map::why::Interned;
use crate::map::{EndpointKind, Map, MapEndpoint, pod_of, traffic};

/// The whole.
#[derive(Debug, Serialize)]
pub(super) struct Data<'a> {
    endpoints: Vec<EndpointData<'a>>,
    sections: Vec<SectionData>,
    traffic: Vec<TrafficData>,
    /// What a pair may exchange: numbers of `traffic`.
    cells: Vec<PerFamily>,
    /// What an end says: numbers of `ends`.
    sayings: Vec<PerFamily>,
    /// The parts of the traffic (numbers of `traffic`; `null` for what no other part names), and the judgements on them.
    ends: Vec<Vec<(Option<usize>, usize)>>,
    judgements: Vec<JudgementData>,
    causes: Vec<CauseAnswer>,
    /// For each class what it may send to each: numbers of `cells`.
    rows: Vec<Runs>,
    /// For each class what its egress says about connections to each: numbers of `sayings`.
    egress: Vec<Runs>,
    /// For each class what its ingress says about connections from each: numbers of `sayings`.
    ingress: Vec<Runs>,
    /// Pairs of classes of which one endpoint is the other's node: from, to, cell, and what egress and ingress say.
    own: Vec<[usize; 5]>,
    circle: Circle,
}

#[derive(Debug, Serialize)]
struct EndpointData<'a> {
    id: &'a str,
    kind: EndpointKind,
    addresses: &'a [String],
    class: usize,
    /// The number of the pod whose interface it is, if the pod has others on the network: these are no pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<usize>,
    /// The number of the node that it is on.
    on: Option<usize>,
    /// The number of the node that it is.
    node: Option<usize>,
}

#[derive(Debug, Serialize)]
struct SectionData {
    kind: &'static str,
    title: String,
    workloads: Vec<WorkloadData>,
}

#[derive(Debug, Serialize)]
struct WorkloadData {
    name: String,
    kind: String,
    members: Vec<usize>,
}

#[derive(Debug, Serialize)]
struct TrafficData {
    text: String,
    /// As in `-o json`.
    allow: Value,
}

#[derive(Debug, Serialize)]
struct JudgementData {
    verdict: picket_cluster::Verdict,
    reason: picket_cluster::Reason,
    causes: Vec<usize>,
}

pub(super) fn data<'a>(map: &'a Map<'_>, evaluator: &Evaluator<'_>) -> Data<'a> {
    let sections = map.sections();
    let circle = circle(&sections);
    let pairs = Pairs::new(map, evaluator);
    let mut traffic = Interned::new();
    let cells = pairs.cells.values().iter().map(|&(four, six)| {
        let mut number = |id: Option<_>| id.map(|id| traffic.number(map.traffics.borrow().get(id).clone()));
        (number(four), number(six))
    });
    let cells: Vec<_> = cells.collect();
    let ends = pairs.why.ends.values().iter().map(|end| {
        let parts = end.iter();
        let parts = parts.map(|(part, said)| (part.as_ref().map(|part| traffic.number(part.clone())), *said));
        parts.collect()
    });
    let ends = ends.collect();
    Data {
        endpoints: endpoints(map, &pairs.numbers),
        sections: sections.into_iter().map(SectionData::from).collect(),
        traffic: traffic.values().iter().map(TrafficData::from).collect(),
        cells,
        sayings: pairs.sayings.values().to_vec(),
        ends,
        judgements: pairs.why.said.values().iter().map(JudgementData::from).collect(),
        causes: pairs.why.causes.values().to_vec(),
        rows: pairs.rows,
        egress: pairs.egress,
        ingress: pairs.ingress,
        own: pairs.own,
        circle,
    }
}

/// The endpoints, with `numbers` of their classes.
fn endpoints<'a>(map: &'a Map<'_>, numbers: &[usize]) -> Vec<EndpointData<'a>> {
    let places = map.endpoints.iter().zip(&map.places);
    let mut pods = BTreeMap::new();
    let mut pod = |endpoint: &'a MapEndpoint| {
        let number = pods.len();
        Some(*pods.entry(pod_of(endpoint)?).or_insert(number))
    };
    let data = places.map(|(endpoint, place)| EndpointData {
        pod: pod(endpoint),
        id: &endpoint.id,
        kind: endpoint.kind,
        addresses: &endpoint.addresses,
        class: numbers.get(place.class).copied().unwrap_or_default(),
        on: place.on,
        node: place.node,
    });
    data.collect()
}

impl From<Section> for SectionData {
    fn from(section: Section) -> Self {
        let workloads = section.workloads.into_iter().map(|workload| WorkloadData {
            name: workload.name,
            kind: workload.kind,
            members: workload.members,
        });
        Self {
            kind: section.kind.as_str(),
            title: section.title,
            workloads: workloads.collect(),
        }
    }
}

impl From<&TrafficSet> for TrafficData {
    fn from(set: &TrafficSet) -> Self {
        Self {
            text: set.to_string(),
            // A text that this crate writes is JSON.
            allow: serde_json::from_str(&traffic::json(set)).unwrap_or_default(),
        }
    }
}

impl From<&crate::map::why::Said> for JudgementData {
    fn from(said: &crate::map::why::Said) -> Self {
        Self {
            verdict: said.verdict,
            reason: said.reason,
            causes: said.causes.clone(),
        }
    }
}
