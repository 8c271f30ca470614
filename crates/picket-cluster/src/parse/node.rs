//! Node.

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
    WrittenNode { labels, addresses }
}
