//! Service.

use std::collections::BTreeSet;

use picket_policy::{ObjectRef, Reader};

use super::field::{Field, Fields};
use crate::Service;

pub(super) fn parse<'a>(reader: &mut Reader<'a>, root: &Field<'a>, object: ObjectRef) -> Service {
    let spec = reader.mapping(root, "spec");
    let mut addresses = BTreeSet::new();
    // A headless service says `None` instead of an address.
    let headless = reader
        .string(&spec, "clusterIP")
        .is_some_and(|address| address == "None");
    if !headless {
        addresses.extend(reader.address(&spec, "clusterIP").map(|address| address.value));
        addresses.extend(
            reader
                .addresses(&spec, "clusterIPs")
                .into_iter()
                .map(|address| address.value),
        );
    }
    addresses.extend(
        reader
            .addresses(&spec, "externalIPs")
            .into_iter()
            .map(|address| address.value),
    );
    let status = reader.mapping(root, "status");
    let balancer = reader.mapping(&status, "loadBalancer");
    for ingress in reader.mappings(&balancer, "ingress") {
        addresses.extend(reader.address(&ingress, "ip").map(|address| address.value));
    }
    Service { object, addresses }
}
