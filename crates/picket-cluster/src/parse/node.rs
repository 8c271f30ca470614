//! Node.

use picket_net::Prefix;
use picket_policy::{Labels, Reader};

use super::field::{Field, Fields};
use crate::written::WrittenNode;

pub(super) fn parse<'a>(reader: &mut Reader<'a>, root: &Field<'a>, labels: Labels) -> WrittenNode {
    let status = reader.mapping(root, "status");
    let mut addresses = Vec::new();
    for address in reader.mappings(&status, "addresses") {
        // The other types are names.
        let kind = reader.string(&address, "type");
        if kind.is_some_and(|kind| kind == "InternalIP" || kind == "ExternalIP") {
            addresses.extend(reader.address(&address, "address"));
        }
    }
    WrittenNode {
        labels,
        addresses,
        pod_cidrs: pod_cidrs(reader, root),
    }
}

/// `spec.podCIDRs`, or else `spec.podCIDR`. What cannot be read of it is left out: no policy depends on it.
fn pod_cidrs<'a>(reader: &mut Reader<'a>, root: &Field<'a>) -> Vec<Prefix> {
    let spec = reader.mapping(root, "spec");
    let mut items = reader.items(&spec, "podCIDRs");
    if items.is_empty() {
        items.extend(reader.field(&spec, "podCIDR"));
    }
    let texts = items.iter().filter_map(|item| item.string(reader).ok());
    texts.filter_map(|text| text.parse().ok()).collect()
}
