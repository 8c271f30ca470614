//! What is said of a pod in its annotations: its groups, so that whoever creates its port can give it these from the first moment, and why
//! its policies are not enforced, where that is so.

use std::collections::{BTreeMap, BTreeSet};

use picket_policy::ObjectRef;
use picket_source::ApiServer;
use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use super::refusals::Refusals;
use super::{PublishError, Turn, list, text};
use crate::clock::Clock;
use crate::metrics::Metrics;

/// The annotation with why policies are not enforced on a pod.
const NOT_ENFORCED: &str = "picket.dev/not-enforced";

/// What is said of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// What the cloud calls its groups; nothing where it does not have all of them yet, so that what was said stays.
    pub(super) groups: Option<String>,
    pub(super) not_enforced: Option<String>,
}

/// What pods have.
pub(super) struct Annotations {
    /// The name of the annotation with the groups.
    name: String,
    /// What is said of the pods of each uid.
    known: BTreeMap<SmolStr, Said>,
    /// By the uids of pods.
    pub(super) refusals: Refusals<SmolStr>,
}

impl Annotations {
    pub(super) fn new(name: String, clock: Clock, identity: &str) -> Self {
        Self {
            name,
            known: BTreeMap::new(),
            refusals: Refusals::new(clock, identity),
        }
    }

    /// Reads what there is.
    pub(super) async fn read(&mut self, server: &ApiServer) -> Result<(), PublishError> {
        let mut known = BTreeMap::new();
        list(server, "/api/v1/pods", "pods cannot be listed", |pod| {
            let annotations = pod.pointer("/metadata/annotations");
            let of = |name: &str| Some(annotations?.get(name)?.as_str()?.to_owned());
            let said = Said {
                groups: of(&self.name),
                not_enforced: of(NOT_ENFORCED),
            };
            if said != Said::default() {
                known.insert(text(pod, "/metadata/uid").into(), said);
            }
        })
        .await?;
        self.known = known;
        Ok(())
    }

    /// The annotations of a pod that are to be others, of which nothing is to be none.
    fn changed(&self, pod: &ObjectRef, said: &Said) -> Map<String, Value> {
        let nothing = Said::default();
        let known = self.known.get(&pod.uid).unwrap_or(&nothing);
        let mut changed = Map::new();
        if said.groups.is_some() && said.groups != known.groups {
            changed.insert(self.name.clone(), said.groups.clone().into());
        }
        if said.not_enforced != known.not_enforced {
            changed.insert(NOT_ENFORCED.to_owned(), said.not_enforced.clone().into());
        }
        changed
    }

    /// Writes what is another.
    pub(super) async fn write(
        &mut self,
        server: &ApiServer,
        all: &BTreeMap<ObjectRef, Said>,
        turn: &Turn<'_>,
        metrics: &Metrics,
    ) -> Result<(), PublishError> {
        let there: BTreeSet<_> = all.keys().map(|pod| &pod.uid).collect();
        self.known.retain(|uid, _| there.contains(uid));
        self.refusals.retain(|uid| there.contains(uid));
        for (pod, said) in all {
            let changed = self.changed(pod, said);
            if changed.is_empty() {
                self.refusals.done(&pod.uid);
                continue;
            }
            if self.refusals.wait(&pod.uid) {
                continue;
            }
            turn.begin()?;
            let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
            // With its uid, so that one of the same name that has come since does not get it.
            let fields = json!({"metadata": {"uid": pod.uid, "annotations": changed}});
            let outcome = match server.merge(&path, &fields).await? {
                Ok(_) => "done",
                // It is gone, or another.
                Err(refused) if matches!(refused.code, 404 | 409) => "gone",
                Err(why) => {
                    metrics.written("annotation", "refused");
                    let what = format!("the annotations of {pod} cannot be written");
                    self.refusals.refused(pod.uid.clone(), what, why);
                    continue;
                }
            };
            metrics.written("annotation", outcome);
            self.refusals.done(&pod.uid);
            let known = self.known.entry(pod.uid.clone()).or_default();
            known.not_enforced.clone_from(&said.not_enforced);
            if said.groups.is_some() {
                known.groups.clone_from(&said.groups);
            }
        }
        Ok(())
    }
}
