//! Pod, and the pod template of workloads.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_net::Protocol;

use picket_policy::{Labels, Reader, name};
use smol_str::SmolStr;

use super::field::{Field, Fields};
use crate::written::{Located, WrittenPod};
use crate::{NamedPort, codes};

pub(super) fn parse<'a>(reader: &mut Reader<'a>, root: &Field<'a>, labels: Labels) -> WrittenPod {
    let status = reader.mapping(root, "status");
    WrittenPod {
        finished: is_finished(reader, &status),
        addresses: addresses(reader, &status, "podIPs", "podIP"),
        host_addresses: addresses(reader, &status, "hostIPs", "hostIP")
            .into_iter()
            .map(|address| address.value)
            .collect(),
        labels,
        ..spec(reader, root)
    }
}

/// The uid that the kubelet gave a static pod, as the annotations of its mirror have it.
pub(super) fn static_uid<'a>(reader: &mut Reader<'a>, metadata: &Field<'a>) -> Option<Box<str>> {
    let (_, uid) = reader.annotation(metadata, "kubernetes.io/config.hash")?;
    (!uid.is_empty()).then(|| uid.into())
}

fn is_finished<'a>(reader: &mut Reader<'a>, status: &Field<'a>) -> bool {
    const PHASES: [&str; 5] = ["Failed", "Pending", "Running", "Succeeded", "Unknown"];
    let Some(phase) = reader.string(status, "phase").filter(|phase| !phase.is_empty()) else {
        return false;
    };
    if !PHASES.contains(&phase.as_str())
        && let Some(field) = reader.field(status, "phase")
    {
        reader.unsupported(codes::PHASE, &field, &phase, &PHASES);
    }
    phase == "Succeeded" || phase == "Failed"
}

/// What the `spec` of a pod or pod template says.
pub(super) fn spec<'a>(reader: &mut Reader<'a>, template: &Field<'a>) -> WrittenPod {
    let spec = reader.mapping(template, "spec");
    let mut pod = WrittenPod {
        node: text(reader, &spec, "nodeName"),
        host_network: reader.boolean(&spec, "hostNetwork"),
        ..WrittenPod::default()
    };
    for container in reader.mappings(&spec, "containers") {
        ports(reader, &container, &mut pod);
    }
    for container in reader.mappings(&spec, "initContainers") {
        // Sidecars run as long as the pod does; other init containers are gone before it serves.
        let restarts = reader.string(&container, "restartPolicy");
        if restarts.is_some_and(|restarts| restarts == "Always") {
            ports(reader, &container, &mut pod);
        }
    }
    pod.ports.sort();
    pod.ports.dedup();
    pod.declared_ports.sort();
    pod.declared_ports.dedup();
    pod
}

/// A list `[{ip: …}]` and the older single field, which repeats its first item.
fn addresses<'a>(
    reader: &mut Reader<'a>,
    status: &Field<'a>,
    list: &'static str,
    single: &'static str,
) -> Vec<Located<IpAddr>> {
    let mut addresses = Vec::new();
    for item in reader.mappings(status, list) {
        addresses.extend(reader.address(&item, "ip"));
    }
    let single = reader.address(status, single);
    addresses.extend(single.filter(|single| addresses.iter().all(|address| address.value != single.value)));
    addresses
}

fn ports<'a>(reader: &mut Reader<'a>, container: &Field<'a>, pod: &mut WrittenPod) {
    let mut names = BTreeSet::new();
    for port in reader.mappings(container, "ports") {
        let Some(number) = number(reader, &port) else {
            continue;
        };
        let Some(protocol) = protocol(reader, &port) else {
            continue;
        };
        pod.declared_ports.push((protocol, number));
        if let Some(name) = text(reader, &port, "name") {
            check_name(reader, &port, &name, names.insert(name.clone()));
            pod.ports.push(NamedPort {
                name,
                protocol,
                port: number,
            });
        }
    }
}

fn check_name<'a>(reader: &mut Reader<'a>, port: &Field<'a>, text: &str, first: bool) {
    let Some(field) = reader.field(port, "name") else {
        return;
    };
    for problem in name::port_name(text) {
        reader.error(
            codes::PORT_NAME,
            &field,
            format!("Invalid value: {text:?}: {problem}"),
        );
    }
    if !first {
        reader.error(codes::PORT_NAME, &field, format!("Duplicate value: {text:?}"));
    }
}

/// A name that is written and not empty.
fn text<'a>(reader: &mut Reader<'a>, parent: &Field<'a>, key: &'static str) -> Option<SmolStr> {
    let name = reader.string(parent, key).filter(|name| !name.is_empty());
    name.as_ref().map(name::printable)
}

fn number<'a>(reader: &mut Reader<'a>, port: &Field<'a>) -> Option<u16> {
    let Some(field) = reader.field(port, "containerPort") else {
        let at = port.as_ref()?;
        reader.missing(codes::PORT, at, "containerPort", "Required value");
        return None;
    };
    let number = field.integer(reader).ok()?;
    let valid = u16::try_from(number).ok().filter(|&number| number != 0);
    if valid.is_none() {
        let message = format!("Invalid value: {number}: must be between 1 and 65535, inclusive");
        reader.error(codes::PORT, &field, message);
    }
    valid
}

fn protocol<'a>(reader: &mut Reader<'a>, port: &Field<'a>) -> Option<Protocol> {
    let Some(field) = reader.field(port, "protocol") else {
        return Some(Protocol::TCP);
    };
    let name = field.string(reader).ok()?;
    let protocol = Protocol::from_api_name(name);
    if protocol.is_none() {
        let message = format!("Unsupported value: {name:?}: supported values: \"SCTP\", \"TCP\", \"UDP\"");
        reader.error(codes::PORT, &field, message);
    }
    protocol
}
