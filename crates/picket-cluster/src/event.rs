//! Changes to what exists.

use std::sync::Arc;

use picket_policy::{NetworkName, ObjectRef, Policy};

use crate::network::{NETWORK_KIND, Network};
use crate::{Namespace, Node, Pod, Service};

/// One change, as every source emits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A complete list follows: everything not applied before [`Event::InitDone`] no longer exists.
    Init,
    /// The object exists and is now like this.
    Apply(Object),
    /// The object no longer exists.
    Delete(ObjectRef),
    /// The list that [`Event::Init`] began is complete.
    InitDone,
}

/// An object of any kind that picket looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A namespace.
    Namespace(Namespace),
    /// A node.
    Node(Node),
    /// A pod, or a workload that stands for its pods. Whoever emits it and all who keep it may share it.
    Pod(Arc<Pod>),
    /// A service.
    Service(Service),
    /// A secondary network.
    Network(Network),
    /// A policy of any dialect, lowered.
    Policy(Policy),
}

impl From<Pod> for Object {
    fn from(pod: Pod) -> Self {
        Self::Pod(Arc::new(pod))
    }
}

impl Object {
    /// What identifies it.
    pub fn object_ref(&self) -> ObjectRef {
        match self {
            Self::Namespace(namespace) => ObjectRef::new("Namespace", "", &namespace.name),
            Self::Node(node) => ObjectRef::new("Node", "", &node.name),
            Self::Pod(pod) => pod.object.clone(),
            Self::Service(service) => service.object.clone(),
            Self::Network(network) => network_ref(&network.name),
            Self::Policy(policy) => policy.object.clone(),
        }
    }
}

/// What identifies the definition of a secondary network.
pub(crate) fn network_ref(network: &NetworkName) -> ObjectRef {
    ObjectRef::new(NETWORK_KIND, &network.namespace, &network.name)
}
