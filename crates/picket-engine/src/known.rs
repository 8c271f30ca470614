//! What is known, as what it was compiled from.

use std::sync::Arc;

use picket_cluster::Snapshot;
use picket_policy::ObjectRef;

use crate::program::{ByObject, PodRef, Program};

impl Program {
    /// The endpoints that a pod is: on the cluster network itself, on another each of its interfaces there. In the order of their
    /// objects.
    pub fn endpoints_of(&self, pod: &ObjectRef) -> impl Iterator<Item = PodRef<'_>> {
        // What tells them apart is the uid.
        let first = ObjectRef::new(&pod.kind, &pod.namespace, &pod.name);
        let called = self.pod_ids.range(first..);
        let called = called.take_while(move |(ByObject(found), _)| {
            let found = &found.object;
            (&found.kind, &found.namespace, &found.name) == (&pod.kind, &pod.namespace, &pod.name)
        });
        let own = called.filter(move |(ByObject(found), _)| found.whole() == pod);
        own.map(|(_, &id)| self.pod_ref(id))
    }

    /// How many objects are known.
    pub fn object_count(&self) -> usize {
        let policies = self.policy_ids.len() + self.services.len();
        self.pod_ids.len() + self.node_ids.len() + self.namespaces.len() + policies
    }

    /// Everything that is known, as what it was compiled from.
    pub fn snapshot(&self) -> Snapshot {
        let pods = self.pods().map(|pod| Arc::clone(pod.pod()));
        Snapshot {
            pods: pods.map(|pod| (pod.object.clone(), pod)).collect(),
            ..self.without_pods()
        }
    }

    /// Everything that is known but pods.
    pub fn without_pods(&self) -> Snapshot {
        let policies = self.policies().cloned();
        Snapshot {
            namespaces: self
                .namespaces()
                .map(|namespace| (namespace.name.clone(), namespace))
                .collect(),
            nodes: self
                .nodes()
                .map(|node| (node.name.clone(), node.clone()))
                .collect(),
            services: self.services.clone(),
            policies: policies.map(|policy| (policy.object.clone(), policy)).collect(),
            ..Snapshot::default()
        }
    }
}
