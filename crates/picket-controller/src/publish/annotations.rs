//! The groups of each pod, in an annotation: whoever creates its port can give it these from the first moment.

use std::collections::{BTreeMap, BTreeSet};

use picket_policy::ObjectRef;
use picket_source::ApiServer;
use serde_json::json;
use smol_str::SmolStr;

use super::{PublishError, list, text};
use crate::lease::Lease;
use crate::metrics::Metrics;

/// What pods have.
pub(super) struct Annotations {
    /// The name of the annotation.
    name: String,
    /// What the pods of each uid have.
    known: BTreeMap<SmolStr, String>,
}

impl Annotations {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            known: BTreeMap::new(),
        }
    }

    /// Reads what there is.
    pub(super) async fn read(&mut self, server: &ApiServer) -> Result<(), PublishError> {
        let mut known = BTreeMap::new();
        list(server, "/api/v1/pods", "pods cannot be listed", |pod| {
            let annotations = pod.pointer("/metadata/annotations");
            let has = annotations.and_then(|all| all.get(&self.name)?.as_str());
            if let Some(has) = has {
                known.insert(text(pod, "/metadata/uid").into(), has.to_owned());
            }
        })
        .await?;
        self.known = known;
        Ok(())
    }

    /// Writes what is another.
    pub(super) async fn write(
        &mut self,
        server: &ApiServer,
        groups: &BTreeMap<ObjectRef, String>,
        lease: &Lease,
        metrics: &Metrics,
    ) -> Result<(), PublishError> {
        let there: BTreeSet<_> = groups.keys().map(|pod| &pod.uid).collect();
        self.known.retain(|uid, _| there.contains(uid));
        for (pod, groups) in groups {
            if self.known.get(&pod.uid) == Some(groups) {
                continue;
            }
            if lease.term().is_none() {
                break;
            }
            let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
            // With its uid, so that one of the same name that has come since does not get it.
            let fields = json!({"metadata": {"uid": pod.uid, "annotations": {&self.name: groups}}});
            let outcome = match server.merge(&path, &fields).await? {
                Ok(_) => "done",
                // It is gone, or another.
                Err(refused) if matches!(refused.code, 404 | 409) => "gone",
                Err(why) => {
                    metrics.written("annotation", "refused");
                    return Err(PublishError::Refused {
                        what: "the annotation of a pod cannot be written",
                        why,
                    });
                }
            };
            metrics.written("annotation", outcome);
            self.known.insert(pod.uid.clone(), groups.clone());
        }
        Ok(())
    }
}
