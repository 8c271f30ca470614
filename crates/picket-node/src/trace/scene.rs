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
            let is_whole = |name: &str| {
                let whole = pod.whole();
                name.split_once('/') == Some((whole.namespace.as_str(), whole.name.as_str()))
            };
            let is_interface = pod.interface.is_some();
            asked.contains(&pod.id().as_str()) || is_interface && asked.iter().any(|name| is_whole(name))
        };
        for pod in program.pods().map(|pod| pod.pod()).filter(|pod| is_meant(pod)) {
            addresses.extend(pod.addresses.iter());
        }
        let has_one = |pod: &Pod| pod.addresses.iter().any(|address| addresses.contains(&address));
        let pods = program.pods().map(|pod| pod.pod());
        let pods = pods.filter(|pod| has_one(pod) || is_meant(pod));
        let named = |pod: &Arc<Pod>| (pod.object.clone(), Arc::clone(pod));
        let snapshot = Snapshot {
            pods: pods.map(named).collect(),
            ..program.without_pods()
        };
        Self {
            snapshot,
            semantics: program.semantics().clone(),
        }
    }
}
