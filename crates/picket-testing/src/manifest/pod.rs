//! Pods and workloads, with their interfaces on secondary networks.

use picket_cluster::{Attachment, Pod};
use serde_json::{Value, json};

use super::style::Style;
use super::{fields, labels, metadata, network_name, object};

/// A pod, or the workload that stands for it.
pub(super) fn manifest(pod: &Pod, style: &mut Style) -> Value {
    let mut own = metadata(&pod.object);
    let mut written = json!({"labels": labels(&pod.labels)});
    let ports = pod.neutron_ports();
    let ports = (!ports.is_empty()).then(|| ("picket.dev/neutron-ports", json!(ports.join(","))));
    let annotations = attachments(pod, style).map(|(annotation, value)| (annotation, json!(value)));
    let annotations: Vec<_> = annotations.into_iter().chain(ports).collect();
    if !annotations.is_empty() {
        written["annotations"] = fields(annotations);
    }
    let spec = spec(pod);
    if pod.object.kind != "Pod" {
        let template = json!({"metadata": written, "spec": spec});
        let spec = json!({"selector": {"matchLabels": labels(&pod.labels)}, "template": template});
        return object("apps/v1", &pod.object.kind, own, [("spec", spec)]);
    }
    if let (Some(own), Value::Object(written)) = (own.as_object_mut(), written) {
        own.extend(written);
    }
    if let Some(owner) = &pod.owner {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": owner.kind.as_str(), "name": owner.name.as_str(), "uid": "1",
            "controller": true,
        });
        own["ownerReferences"] = json!([owner]);
    }
    object("v1", "Pod", own, [("spec", spec), ("status", status(pod))])
}

/// Every port stands in a container of its own: a name may stand for several.
fn spec(pod: &Pod) -> Value {
    let named = pod.ports.iter().map(|port| {
        json!({"name": port.name.as_str(), "protocol": port.protocol.to_string(), "containerPort": port.port})
    });
    let is_named = |declared: &(picket_net::Protocol, u16)| {
        pod.ports
            .iter()
            .any(|port| (port.protocol, port.port) == *declared)
    };
    let unnamed = pod.declared_ports().iter().filter(|declared| !is_named(declared));
    let unnamed =
        unnamed.map(|(protocol, port)| json!({"protocol": protocol.to_string(), "containerPort": port}));
    let containers: Vec<_> = named
        .chain(unnamed)
        .zip(0..)
        .map(|(port, number)| json!({"name": format!("c{number}"), "image": "example", "ports": [port]}))
        .collect();
    let mut spec = json!({"containers": containers});
    if let Some(node) = &pod.node {
        spec["nodeName"] = json!(node.as_str());
    }
    if pod.host_network {
        spec["hostNetwork"] = json!(true);
    }
    spec
}

fn status(pod: &Pod) -> Value {
    let mut status = json!({"phase": if pod.finished { "Succeeded" } else { "Running" }});
    if !pod.synthetic {
        let addresses: Vec<_> = pod
            .addresses
            .iter()
            .map(|own| json!({"ip": own.to_string()}))
            .collect();
        status["podIPs"] = json!(addresses);
        if let Some(first) = pod.addresses.iter().next() {
            status["podIP"] = json!(first.to_string());
        }
    }
    status
}

/// The annotation that says on which networks a pod is, in one of the forms that can say it.
fn attachments(pod: &Pod, style: &mut Style) -> Option<(&'static str, String)> {
    let attachments = &pod.attachments;
    if attachments.is_empty() {
        return None;
    }
    let is_list = attachments.iter().all(|own| own.synthetic);
    match style.below(if is_list { 4 } else { 3 }) {
        0 => Some(("k8s.v1.cni.cncf.io/network-status", network_status(pod, style))),
        1 => Some(("k8s.v1.cni.cncf.io/networks-status", network_status(pod, style))),
        2 => Some(("k8s.v1.cni.cncf.io/networks", selections(pod, style))),
        _ => Some(("k8s.v1.cni.cncf.io/networks", list(pod, style))),
    }
}

/// What Multus says that it did, the cluster network included.
fn network_status(pod: &Pod, style: &mut Style) -> String {
    let cluster =
        json!({"name": "cluster", "interface": "eth0", "ips": ["10.255.0.1"], "default": true, "dns": {}});
    let mut items = vec![cluster];
    for own in &pod.attachments {
        let name = network_name(&own.network, &pod.object.namespace, style);
        let mut item = json!({"name": name, "interface": own.interface.as_str(), "mac": "02:00:00:00:00:01"});
        if !own.synthetic || style.choose() {
            item["ips"] = json!(addresses(own, style));
        }
        items.push(item);
    }
    match style.choose() {
        true => json!(items).to_string(),
        false => format!("{:#}", json!(items)),
    }
}

/// What was asked for, as JSON.
fn selections(pod: &Pod, style: &mut Style) -> String {
    let items = pod.attachments.iter().zip(1..).map(|(own, number)| {
        let mut item = json!({"name": own.network.name.as_str()});
        if own.network.namespace != pod.object.namespace || style.choose() {
            item["namespace"] = json!(own.network.namespace.as_str());
        }
        if own.interface != format!("net{number}") || style.choose() {
            item["interface"] = json!(own.interface.as_str());
        }
        if !own.synthetic {
            item["ips"] = json!(addresses(own, style));
        }
        item
    });
    items.collect::<Value>().to_string()
}

/// What was asked for, as names.
fn list(pod: &Pod, style: &mut Style) -> String {
    let items = pod.attachments.iter().zip(1..).map(|(own, number)| {
        let name = network_name(&own.network, &pod.object.namespace, style);
        match own.interface != format!("net{number}") || style.choose() {
            true => format!("{name}@{}", own.interface),
            false => name,
        }
    });
    items.collect::<Vec<_>>().join(", ")
}

/// The addresses, with or without the length of a prefix; none when they are made up.
fn addresses(own: &Attachment, style: &mut Style) -> Vec<String> {
    let known = own.addresses.iter().filter(|_| !own.synthetic);
    let text = known.map(|address| match (style.choose(), address.is_ipv4()) {
        (true, _) => address.to_string(),
        (false, true) => format!("{address}/24"),
        (false, false) => format!("{address}/64"),
    });
    text.collect()
}
