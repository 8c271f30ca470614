//! Endpoints as people look for them: by namespace, and there by workload.

use std::collections::BTreeMap;
use std::net::IpAddr;

use picket_net::{AddressRange, parse_address};

use super::{EndpointKind, Map, MapEndpoint};

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SectionKind {
    /// The pods of a namespace.
    Namespace,
    /// The nodes of the cluster.
    Nodes,
    /// The addresses outside the cluster.
    Outside,
}

impl SectionKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Nodes => "nodes",
            Self::Outside => "outside",
        }
    }
}

/// A namespace, the nodes, or the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) kind: SectionKind,
    pub(super) title: String,
    /// By name, and for outside addresses in their own order.
    pub(super) workloads: Vec<Workload>,
}

/// A workload with its pods, or an endpoint that has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) name: String,
    /// `Deployment` and the like; empty for what is no workload.
    pub(super) kind: String,
    /// Its endpoints, by number.
    pub(super) members: Vec<usize>,
}

/// The endpoints of each workload, by its name and kind.
type Workloads = BTreeMap<(String, String), Vec<usize>>;

impl Map<'_> {
    /// The endpoints by section and workload: namespaces by name, then nodes, then what is outside.
    pub(super) fn sections(&self) -> Vec<Section> {
        let mut found: BTreeMap<(SectionKind, &str), Workloads> = BTreeMap::new();
        for (number, (endpoint, members)) in self.endpoints.iter().zip(&self.members).enumerate() {
            let (section, workload) = match endpoint.kind {
                EndpointKind::Node => (
                    (SectionKind::Nodes, "Nodes"),
                    (endpoint.id.clone(), String::new()),
                ),
                EndpointKind::External => {
                    let section = (SectionKind::Outside, "Outside the cluster");
                    (section, (format!("{number:08}"), String::new()))
                }
                EndpointKind::Pod | EndpointKind::Workload => {
                    let owner = members.owner.as_deref().unwrap_or(&endpoint.id);
                    let (namespace, rest) = owner.split_once('/').unwrap_or(("", owner));
                    let (kind, name) = rest.split_once('/').unwrap_or(("", rest));
                    (
                        (SectionKind::Namespace, namespace),
                        (name.to_owned(), kind.to_owned()),
                    )
                }
            };
            found
                .entry(section)
                .or_default()
                .entry(workload)
                .or_default()
                .push(number);
        }
        let sections = found.into_iter().map(|((kind, title), workloads)| Section {
            kind,
            title: title.to_owned(),
            workloads: workloads
                .into_iter()
                .map(|((name, owner), members)| Workload {
                    name: match (kind, members.first().and_then(|&first| self.endpoints.get(first))) {
                        (SectionKind::Outside, Some(endpoint)) => outside_name(endpoint),
                        _ => name,
                    },
                    kind: owner,
                    members,
                })
                .collect(),
        });
        sections.collect()
    }
}

/// What people would call some addresses: a prefix, the first range and how many more there are, or the rest.
fn outside_name(endpoint: &MapEndpoint) -> String {
    let ranges: Vec<_> = endpoint.addresses.iter().filter_map(|text| range(text)).collect();
    let Some(first) = ranges.first() else {
        return endpoint.id.clone();
    };
    let prefixes = ranges.iter().flat_map(AddressRange::prefixes);
    let share: f64 = prefixes.map(|prefix| 0.5f64.powi(prefix.length().into())).sum();
    let short = match first.prefixes().as_slice() {
        [only] => only.to_string(),
        _ => endpoint.id.clone(),
    };
    match ranges.len() {
        // More than half of all addresses: whatever policies do not name.
        _ if share > 0.5 => match first.first() {
            IpAddr::V4(_) => "any other IPv4".to_owned(),
            IpAddr::V6(_) => "any other IPv6".to_owned(),
        },
        1 => short,
        several => format!("{short} and {} more", several - 1),
    }
}

fn range(text: &str) -> Option<AddressRange> {
    let (first, last) = text.split_once('-')?;
    AddressRange::new(parse_address(first)?, parse_address(last)?)
}
