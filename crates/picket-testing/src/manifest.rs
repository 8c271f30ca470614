//! Objects as the manifests that say them, so that reading and lowering take part in random tests.
//!
//! Whatever can be written in several ways is written in one of them, chosen by a [`Style`]: YAML or JSON, a list or
//! documents, `matchLabels` or `matchExpressions`, fields that may be left out or not, and each form of annotation.
//! Reading gives the same policies (`crates/picket-nftables/tests/it/mixture.rs`).

mod pod;
mod policy;
mod style;
mod tiered;
mod yaml;

use picket_cluster::{Namespace, Node, Snapshot, Wire};
use picket_policy::{
    ClusterDefault, Labels, MODE, Mode, NetworkName, ObjectRef, Options, Policy, Severity, Tier, V1beta1,
};
use picket_source::Text;
use serde_json::{Map, Value, json};
use smol_str::SmolStr;

pub use style::Style;

/// Everything of a snapshot that manifests can say, as one file. Policies must be such as a dialect lowers to
/// ([`Shape::Dialects`](crate::generate::Shape::Dialects)); services, custom rules and the cluster
/// default are left out.
///
/// A workload says no addresses, and neither does a pod whose addresses are made up.
pub fn file(snapshot: &Snapshot, style: &mut Style) -> String {
    let isolated: Vec<_> = snapshot
        .policies
        .values()
        .filter(|policy| isolates_namespace(policy))
        .collect();
    let mut objects = Vec::new();
    for own in snapshot.namespaces.values() {
        let is_isolated = isolated.iter().any(|policy| policy.object.name == own.name);
        objects.push(namespace(own, is_isolated, style));
    }
    for policy in isolated {
        if !snapshot.namespaces.contains_key(&policy.object.name) {
            objects.push(namespace(&Namespace::implied(&policy.object.name), true, style));
        }
    }
    objects.extend(snapshot.nodes.values().map(node));
    let networks = snapshot.networks.iter();
    objects.extend(networks.map(|(name, wire)| network(name, wire.as_ref(), style)));
    objects.extend(snapshot.pods.values().map(|pod| pod::manifest(pod, style)));
    let policies = snapshot.policies.values();
    let policies = policies.filter(|policy| !matches!(policy.tier, Tier::Custom | Tier::ClusterDefault));
    let policies = policies.filter(|policy| !isolates_namespace(policy));
    objects.extend(policies.map(|policy| self::policy(policy, style)));
    style.shuffle(&mut objects);
    yaml::file(&objects, style)
}

/// What a file says, NetworkPolicy of extensions/v1beta1 read as it was proposed with this cluster default, with the
/// addresses that `hosts` has for domain names.
///
/// # Panics
/// When the file has an error.
pub fn read(file: &str, hosts: &str, default: ClusterDefault) -> Snapshot {
    let text = |name: &str, content: &str| Text {
        name: name.into(),
        bytes: content.as_bytes().to_vec(),
    };
    let options = Options {
        v1beta1: V1beta1::Proposal,
        v1beta1_default: default,
        ..Options::default()
    };
    let mut loaded = picket_source::load_texts(&[text("random.yaml", file)], options);
    loaded.resolve(Some(&text("hosts", hosts)));
    let error = loaded
        .diagnostics
        .iter()
        .find(|found| found.severity == Severity::Error);
    match error {
        Some(error) => panic!("{error:#?}\n{file}"),
        None => loaded.snapshot,
    }
}

/// Whether it is what a namespace says in the words of the proposal of NetworkPolicy.
fn isolates_namespace(policy: &Policy) -> bool {
    policy.object.kind == "Namespace"
}

/// A policy of any dialect, by its kind; a NetworkPolicy that isolates nothing is one of extensions/v1beta1.
pub fn policy(policy: &Policy, style: &mut Style) -> Value {
    let proposed = !policy.ingress.isolates && !policy.egress.isolates;
    match policy.object.kind.as_str() {
        "NetworkPolicy" if proposed => policy::proposed(policy, style),
        "NetworkPolicy" => policy::network_policy(policy, style),
        "MultiNetworkPolicy" => policy::multi_network_policy(policy, style),
        "ClusterNetworkPolicy" => tiered::cluster_network_policy(policy, style),
        "AdminNetworkPolicy" => tiered::admin_network_policy(policy, style),
        "BaselineAdminNetworkPolicy" => tiered::baseline_admin_network_policy(policy, style),
        kind => panic!("{kind} is no kind of policy that manifests have"),
    }
}

/// An object of a kind and version, with the rest of its fields.
fn object(
    version: &str,
    kind: &str,
    metadata: Value,
    rest: impl IntoIterator<Item = (&'static str, Value)>,
) -> Value {
    let head = [
        ("apiVersion", json!(version)),
        ("kind", json!(kind)),
        ("metadata", metadata),
    ];
    fields(head.into_iter().chain(rest))
}

fn fields<K: Into<String>>(entries: impl IntoIterator<Item = (K, Value)>) -> Value {
    let entries: Map<String, Value> = entries
        .into_iter()
        .map(|(key, value)| (key.into(), value))
        .collect();
    Value::Object(entries)
}

/// `metadata` with the name and the namespace, if there is one.
fn metadata(object: &ObjectRef) -> Value {
    if object.namespace.is_empty() {
        json!({"name": object.name.as_str()})
    } else {
        json!({"name": object.name.as_str(), "namespace": object.namespace.as_str()})
    }
}

/// `metadata` of a policy: also whether it is audited.
fn policy_metadata(policy: &Policy) -> Value {
    let mut metadata = metadata(&policy.object);
    if policy.mode == Mode::Audit {
        metadata["annotations"][MODE] = json!("audit");
    }
    metadata
}

fn labels(labels: &Labels) -> Value {
    fields(
        labels
            .iter()
            .map(|(key, value)| (key.as_str(), json!(value.as_str()))),
    )
}

fn namespace(namespace: &Namespace, isolated: bool, style: &mut Style) -> Value {
    let mut metadata = json!({"name": namespace.name.as_str(), "labels": labels(&namespace.labels)});
    let mut spec = None;
    if isolated {
        let said = json!({"ingress": {"isolation": "DefaultDeny"}});
        if style.choose() {
            let annotation = said.to_string();
            metadata["annotations"] = json!({"net.beta.kubernetes.io/network-policy": annotation});
        } else {
            spec = Some(("spec", json!({"networkPolicy": said})));
        }
    }
    object("v1", "Namespace", metadata, spec)
}

fn node(node: &Node) -> Value {
    let metadata = json!({"name": node.name.as_str(), "labels": labels(&node.labels)});
    let addresses = node
        .addresses
        .iter()
        .map(|own| json!({"type": "InternalIP", "address": own.to_string()}));
    let name = json!({"type": "Hostname", "address": node.name.as_str()});
    let addresses: Vec<_> = addresses.chain([name]).collect();
    let cidrs = node.pod_cidrs.iter().map(ToString::to_string);
    let spec = json!({"podCIDRs": cidrs.collect::<Vec<_>>()});
    let status = json!({"addresses": addresses});
    object("v1", "Node", metadata, [("spec", spec), ("status", status)])
}

fn network(network: &NetworkName, wire: Option<&Wire>, style: &mut Style) -> Value {
    let plugin = plugin(wire);
    let config = match style.choose() {
        true => json!({"cniVersion": "1.0.0", "plugins": [plugin, {"type": "tuning", "master": "eth9"}]}),
        false => plugin,
    };
    let object = ObjectRef::new("NetworkAttachmentDefinition", &network.namespace, &network.name);
    self::object(
        "k8s.cni.cncf.io/v1",
        "NetworkAttachmentDefinition",
        metadata(&object),
        [("spec", json!({"config": config.to_string()}))],
    )
}

/// The configuration of a plugin that brings interfaces onto a wire, or onto one that nobody else knows of.
fn plugin(wire: Option<&Wire>) -> Value {
    let Some(wire) = wire else {
        return json!({"type": "sriov"});
    };
    let wire = wire.to_string();
    let mut parts = wire.split('/');
    let (plugin, link) = (parts.next(), parts.next());
    let vlan: Option<u16> = parts.next().and_then(|vlan| vlan.parse().ok());
    let (link_field, vlan_field) = match plugin {
        Some("bridge") => ("bridge", "vlan"),
        Some("vlan") => ("master", "vlanId"),
        _ => ("master", "vlan"),
    };
    let mut config = json!({"type": plugin, link_field: link});
    if let Some(vlan) = vlan {
        config[vlan_field] = json!(vlan);
    }
    config
}

/// The name of a network as an annotation of an object in `namespace` has it.
fn network_name(network: &NetworkName, namespace: &SmolStr, style: &mut Style) -> String {
    match network.namespace == *namespace && style.choose() {
        true => network.name.to_string(),
        false => network.to_string(),
    }
}
