//! What Neutron's API returns, which flows pass by it, and which the specification allows.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_cluster::{Endpoint, Flow, Pod, Semantics, Snapshot};
use picket_net::Protocol;
use picket_neutron::meaning::Meaning;
use picket_neutron::plan::{InstalledRule, RuleFields, prefix};
use picket_neutron::{AddressGroup, Name, Objects, Port, SecurityGroup};
use picket_policy::ObjectRef;
use picket_testing::flows::representative_flows;
use picket_testing::neutron::Neutron as Server;
use serde_json::{Value, json};

/// The flows that pass.
pub(super) type Passing = BTreeSet<usize>;

/// What the API returns: ids in the place of names, and of ports those that groups count for.
pub(super) fn objects(server: &Server) -> Objects {
    let mut objects = Objects::default();
    for group in server.list("security-groups") {
        let rules = group["security_group_rules"].as_array().unwrap().iter();
        let rules = rules.map(|rule| match read(rule) {
            InstalledRule::Known(rule) => rule,
            InstalledRule::Other(_) => panic!("a strange rule: {rule}"),
        });
        let kept = SecurityGroup {
            rules: rules.collect(),
            ..SecurityGroup::default()
        };
        objects.security_groups.insert(text(&group, "id"), kept);
    }
    for group in server.list("address-groups") {
        let all = group["addresses"].as_array().unwrap().iter();
        let kept = AddressGroup {
            addresses: all.map(|one| prefix(one.as_str().unwrap()).unwrap()).collect(),
        };
        objects.address_groups.insert(text(&group, "id"), kept);
    }
    for port in server.list("ports") {
        let name = text(&port, "name");
        let Some((namespace, name)) = name.split_once('/') else {
            continue;
        };
        let groups = port["security_groups"].as_array().unwrap().iter();
        let kept = Port {
            fixed_ips: addresses(&port),
            security_groups: groups.map(|id| id.as_str().unwrap().into()).collect(),
        };
        if port["port_security_enabled"] == json!(true) {
            objects.ports.insert(ObjectRef::new("Pod", namespace, name), kept);
        }
    }
    objects
}

pub(super) fn text(of: &Value, field: &str) -> Name {
    of[field].as_str().unwrap().into()
}

pub(super) fn addresses(port: &Value) -> BTreeSet<IpAddr> {
    let fixed = port["fixed_ips"].as_array().unwrap().iter();
    fixed
        .map(|fixed| fixed["ip_address"].as_str().unwrap().parse().unwrap())
        .collect()
}

fn read(rule: &Value) -> InstalledRule {
    let text = |field: &str| rule[field].as_str();
    InstalledRule::read(&RuleFields {
        direction: text("direction").unwrap(),
        ethertype: text("ethertype").unwrap(),
        protocol: text("protocol"),
        port_range_min: rule["port_range_min"].as_i64(),
        port_range_max: rule["port_range_max"].as_i64(),
        remote_ip_prefix: text("remote_ip_prefix"),
        remote_group_id: text("remote_group_id"),
        remote_address_group_id: text("remote_address_group_id"),
    })
}

/// Some of the flows, from all over, at most so many.
pub(super) fn some(snapshot: &Snapshot, most: usize) -> Vec<Flow> {
    let all = flows(snapshot);
    let step = all.len().div_ceil(most).max(1);
    // Flows come in groups of one pair: another step each time would miss some pairs always.
    let odd = step | 1;
    all.into_iter().step_by(odd).collect()
}

/// Whether a pod is one of a cluster, with addresses that it really has.
pub(super) fn has_port(pod: &Pod) -> bool {
    pod.object.kind == "Pod" && !pod.host_network && !pod.synthetic
}

/// The flows that tell policies apart, between pods with a port and addresses, at what rules of Neutron can say.
pub(super) fn flows(snapshot: &Snapshot) -> Vec<Flow> {
    let is_there = |end: &Endpoint| match end {
        Endpoint::Pod(object) => {
            let pod = &snapshot.pods[object];
            pod.host_network || has_port(pod)
        }
        _ => true,
    };
    let is_said =
        |protocol: Protocol| protocol.has_ports() || ["ICMP", "ICMPv6"].contains(&&*protocol.to_string());
    let mut flows = representative_flows(snapshot);
    flows.retain(|flow| is_there(&flow.source) && is_there(&flow.destination) && is_said(flow.protocol));
    flows
}

/// An end as Neutron meets it: an address, and the pod whose port has it.
pub(super) fn end(snapshot: &Snapshot, end: &Endpoint, flow: &Flow) -> (IpAddr, Option<ObjectRef>) {
    match end {
        Endpoint::Node { address, .. } | Endpoint::External(address) => (*address, None),
        Endpoint::Pod(object) => {
            let pod = &snapshot.pods[object];
            let named = ObjectRef::new("Pod", &object.namespace, &object.name);
            let address = pod.addresses.of(flow.family).unwrap();
            (address, (!pod.host_network).then_some(named))
        }
    }
}

/// The addresses that several pods or nodes have, and those that were made up for pods in the network of a node that nobody knows.
pub(super) fn unsure(snapshot: &Snapshot) -> BTreeSet<IpAddr> {
    let pods = snapshot.live_pods().flat_map(|pod| pod.addresses.iter());
    let nodes = snapshot
        .nodes
        .values()
        .flat_map(|node| node.addresses.iter().copied());
    let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for address in pods.chain(nodes) {
        if !seen.insert(address) {
            shared.insert(address);
        }
    }
    let of_unknown = snapshot
        .live_pods()
        .filter(|pod| pod.host_network && pod.synthetic);
    shared.extend(of_unknown.flat_map(|pod| pod.addresses.iter()));
    shared
}

/// Which flows pass, by what the API returns.
pub(super) fn passing(objects: &Objects, flows: &[Flow], snapshot: &Snapshot) -> Passing {
    let meaning = Meaning::of(objects);
    let passes = |flow: &Flow| {
        let [(source, from), (destination, to)] =
            [&flow.source, &flow.destination].map(|at| end(snapshot, at, flow));
        meaning.passes(
            (source, from.as_ref()),
            (destination, to.as_ref()),
            (flow.protocol, flow.port),
        )
    };
    let passing = flows.iter().enumerate().filter(|(_, flow)| passes(flow));
    passing.map(|(at, _)| at).collect()
}

/// Which flows the specification allows.
pub(super) fn allowed(flows: &[Flow], snapshot: &Snapshot) -> Passing {
    let semantics = Semantics::default();
    let judge = |flow: &Flow| {
        picket_reference::judge(snapshot, &semantics, flow)
            .verdict()
            .is_allow()
    };
    let allowed = flows.iter().enumerate().filter(|(_, flow)| judge(flow));
    allowed.map(|(at, _)| at).collect()
}
