//! Service.

use std::collections::BTreeSet;

use picket_net::Protocol;
use picket_policy::document::{Node, Value};
use picket_policy::{Labels, ObjectRef, Reader};

use super::field::{Field, Fields};
use crate::{Service, ServicePort, TargetPort};

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
    let written = spec.as_ref().map(|spec| spec.node());
    let field = |key| written.and_then(|spec| spec.get(key));
    Service {
        object,
        addresses,
        selector: field("selector").map(selector).unwrap_or_default(),
        ports: field("ports").map(ports).unwrap_or_default(),
    }
}

/// The labels of a selector. One that cannot be read selects nothing.
fn selector(node: &Node) -> Labels {
    let label =
        |entry: &picket_policy::document::Entry| Some((entry.key.clone(), entry.value.as_str()?.clone()));
    let labels: Option<Labels> = node
        .entries()
        .iter()
        .map(label)
        .collect::<Option<Vec<_>>>()
        .map(|labels| labels.into_iter().collect());
    labels.unwrap_or_default()
}

/// The ports that can be read: nothing about connectivity follows from the others.
fn ports(node: &Node) -> Vec<ServicePort> {
    node.items().iter().filter_map(port).collect()
}

fn port(node: &Node) -> Option<ServicePort> {
    let number = |node: &Node| match node.value {
        Value::Integer(number) => u16::try_from(number).ok().filter(|&number| number > 0),
        _ => None,
    };
    let port = node.get("port").and_then(number)?;
    let protocol = match node.get("protocol") {
        Some(protocol) => Protocol::from_api_name(protocol.as_str()?)?,
        None => Protocol::TCP,
    };
    let target = match node.get("targetPort").filter(|target| !target.is_null()) {
        None => TargetPort::Number(port),
        Some(target) => match target.as_str() {
            Some(name) => TargetPort::Name(name.clone()),
            None => TargetPort::Number(number(target)?),
        },
    };
    Some(ServicePort {
        protocol,
        port,
        target,
    })
}
