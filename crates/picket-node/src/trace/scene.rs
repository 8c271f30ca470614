//! What is known of two ends, and no more of a cluster than the answer depends on.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Pod, Semantics, Snapshot};
use picket_engine::Program;

use super::TraceQuestion;

/// Two ends and everything that decides between them.
pub(crate) struct Scene {
    /// The pods that are meant, and others with their addresses; all namespaces, nodes, services and policies that are known.
    pub(crate) snapshot: Snapshot,
    pub(crate) semantics: Semantics,
}

impl Scene {
    /// The part of what `program` knows that a question is about.
    pub(crate) fn of(program: &Program, question: &TraceQuestion) -> Self {
        let asked = [question.from.trim(), question.to.trim()];
        let mut addresses: BTreeSet<IpAddr> = asked.iter().filter_map(|text| text.parse().ok()).collect();
        let is_meant = |pod: &Pod| {
            // On a secondary network the name of a pod may be that of several interfaces: who asks is told so.
            let whole = pod.interface.as_ref().map(|interface| &interface.pod);
            let whole = whole.map(|pod| format!("{}/{}", pod.namespace, pod.name));
            asked.contains(&pod.id().as_str()) || whole.is_some_and(|name| asked.contains(&name.as_str()))
        };
        for pod in program.pods().map(|pod| pod.pod()).filter(|pod| is_meant(pod)) {
            addresses.extend(pod.addresses.iter());
        }
        let has_one = |pod: &Pod| pod.addresses.iter().any(|address| addresses.contains(&address));
        let pods = program.pods().map(|pod| pod.pod());
        let pods = pods.filter(|pod| has_one(pod) || is_meant(pod));
        let named = |pod: &Arc<Pod>| (pod.object.clone(), Arc::clone(pod));
        let snapshot = Snapshot {
            namespaces: program
                .namespaces()
                .map(|namespace| (namespace.name.clone(), namespace))
                .collect(),
            nodes: program
                .nodes()
                .map(|node| (node.name.clone(), node.clone()))
                .collect(),
            pods: pods.map(named).collect(),
            services: program
                .services()
                .map(|service| (service.object.clone(), service.clone()))
                .collect(),
            policies: program
                .policies()
                .map(|policy| (policy.object.clone(), Arc::clone(policy)))
                .collect(),
            ..Snapshot::default()
        };
        Self {
            snapshot,
            semantics: program.semantics().clone(),
        }
    }
}
