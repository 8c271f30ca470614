//! What is kept of an object, read by the reader of files.

use std::net::IpAddr;

use picket_cluster::{
    Addresses, Attachment, Extra, Namespace, Network, NetworkConfig, Pod, Service, Spec, Written, WrittenPod,
};
use picket_net::Prefix;
use picket_policy::{Diagnostic, Labels, ObjectRef, Options, Policy, V1beta1};
use serde_json::Value;
use smol_str::SmolStr;

use super::{Packed, Uid, network_config};
use crate::kube::text_name;
use crate::load::read_text;
use crate::{ObjectVersion, Text};

/// The name of an object, which is unique among those of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    /// Its namespace, empty where its kind has none.
    pub(crate) namespace: SmolStr,
    /// Its name.
    pub(crate) name: SmolStr,
}

/// An object as it is now.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) name: Name,
    pub(crate) facts: Facts,
}

/// What an object says, as far as it can be said of it alone.
#[derive(Debug)]
pub(crate) enum Facts {
    /// A namespace.
    Namespace(Namespace),
    /// A node.
    Node(NodeFacts),
    /// A pod.
    Pod(Box<PodFacts>),
    /// A service.
    Service(Box<ServiceFacts>),
    /// A secondary network.
    Network(NetworkFacts),
    /// A policy, which is read only where it is needed, and what that gives if somebody did so before.
    Policy(PolicyText, Option<Box<ReadPolicy>>),
}

/// What a policy says, not yet read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PolicyText {
    /// Its kind as addresses of the API name it.
    pub(crate) plural: &'static str,
    /// Its uid.
    pub(crate) uid: Uid,
    /// In which version it says so.
    pub(crate) version: ObjectVersion,
    /// The object, without spaces.
    pub(crate) object: Packed,
}

/// What a policy says, unless nobody can tell, and what is wrong with it.
pub(crate) type ReadPolicy = (Option<Policy>, Vec<Diagnostic>);

/// What a node says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    pub(crate) uid: SmolStr,
    pub(crate) labels: Labels,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) pod_cidrs: Vec<Prefix>,
    /// What is wrong with it.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// What a service says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServiceFacts {
    /// The service with its addresses.
    pub(crate) service: Service,
    /// What is wrong with it.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// What the definition of a secondary network says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NetworkFacts {
    /// The network, with its wire.
    pub(crate) network: Network,
    /// The type of its plugin, unless nobody can tell.
    pub(crate) plugin: Option<SmolStr>,
}

/// How old an object is, and whether it will live on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// Its `metadata.creationTimestamp`; empty where it has none.
    pub(crate) created: SmolStr,
    /// Whether it is being deleted.
    pub(crate) deleting: bool,
}

/// What a pod says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PodFacts {
    /// The pod with the addresses that it says it has.
    pub(crate) pod: Pod,
    /// The addresses of its node.
    pub(crate) of_node: Vec<IpAddr>,
    /// Which of the pods that claim an address has it.
    pub(crate) life: Life,
    /// What is wrong with it.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Facts {
    /// What the text of an object of the cluster says; `None` when it is none of the cluster's.
    pub(crate) fn read(text: &Text, life: Life) -> Option<Self> {
        let (written, diagnostics) = read(text);
        let Written { object, spec, .. } = written?;
        Some(match spec {
            Spec::Namespace(namespace) => Self::Namespace(Namespace::new(&object.name, &namespace.labels)),
            Spec::Node(node) => Self::Node(NodeFacts {
                uid: object.uid,
                labels: node.labels,
                addresses: node.addresses.into_iter().map(|address| address.value).collect(),
                pod_cidrs: node.pod_cidrs,
                diagnostics,
            }),
            Spec::Pod(pod) => Self::Pod(Box::new(PodFacts::new(object, pod, life, diagnostics))),
            Spec::Network(network) => Self::Network(NetworkFacts {
                network,
                plugin: None,
            }),
            Spec::Service(service) => Self::Service(Box::new(ServiceFacts {
                service: Service {
                    selector: Labels::default(),
                    ports: Vec::new(),
                    ..service
                },
                diagnostics,
            })),
            Spec::Policy(_) => return None,
        })
    }

    /// The same with what only the whole object, as the API server writes it, says: the plugin and wire of a network.
    pub(crate) fn of_whole(mut self, json: &str) -> Self {
        if let Self::Network(facts) = &mut self {
            let NetworkConfig { plugin, wire } = network_config(json);
            (facts.plugin, facts.network.wire) = (plugin, wire);
        }
        self
    }
}

impl Found {
    /// The same, and read if it is a policy: whoever needs it has less to do.
    #[cfg(feature = "etcd")]
    pub(crate) fn read_ahead(mut self) -> Self {
        if let Facts::Policy(text, read) = &mut self.facts {
            *read = Some(Box::new(read_policy(&self.name, text)));
        }
        self
    }
}

/// Reads a policy.
pub(crate) fn read_policy(name: &Name, policy: &PolicyText) -> ReadPolicy {
    let namespace = (!name.namespace.is_empty()).then_some(&*name.namespace);
    let text = policy.object.text();
    // Line by line, as it is shown to people, so that places in it are the same.
    let pretty = serde_json::from_str::<Value>(&text).map(|value| format!("{value:#}\n"));
    let (written, diagnostics) = read(&Text {
        name: text_name(policy.plural, namespace, &name.name).into(),
        bytes: pretty.unwrap_or(text).into_bytes(),
    });
    let policy = written.and_then(|written| match written.spec {
        Spec::Policy(policy) => Some(policy),
        _ => None,
    });
    (policy, diagnostics)
}

fn read(text: &Text) -> (Option<Written>, Vec<Diagnostic>) {
    // API servers that can be watched have no NetworkPolicy of extensions/v1beta1, and nothing isolates as it proposed.
    let options = Options {
        v1beta1: V1beta1::V1,
        ..Options::default()
    };
    let (written, diagnostics) = read_text(text, options);
    (written.into_iter().next(), diagnostics)
}

impl PodFacts {
    fn new(object: ObjectRef, written: WrittenPod, life: Life, diagnostics: Vec<Diagnostic>) -> Self {
        let addresses: Vec<_> = written
            .addresses
            .into_iter()
            .map(|address| address.value)
            .collect();
        let mut of_node = written.host_addresses;
        if written.host_network {
            of_node.extend(&addresses);
        }
        let attachments = written.attachments.into_iter().map(|attachment| Attachment {
            network: attachment.network,
            interface: attachment.interface,
            addresses: attachment
                .addresses
                .into_iter()
                .map(|address| address.value)
                .collect(),
            synthetic: false,
        });
        let extra = Extra {
            static_uid: written.static_uid,
            vpp_interface: written.vpp_interface,
            neutron_ports: written.neutron_ports,
            ..Extra::default()
        };
        let pod = Pod {
            object,
            labels: written.labels,
            node: written.node,
            addresses: addresses.into_iter().collect::<Addresses>(),
            synthetic: false,
            ports: written.ports.into(),
            host_network: written.host_network,
            finished: written.finished,
            owner: None,
            attachments: attachments.collect(),
            interface: None,
            extra: extra.kept(),
        };
        Self {
            pod,
            of_node,
            life,
            diagnostics,
        }
    }
}
