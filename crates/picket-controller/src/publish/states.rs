//! How far each NetworkPolicy is in force, as a `NetworkPolicyStatus` of its name (`deploy/crd-networkpolicystatus.yaml`).

use std::collections::{BTreeMap, BTreeSet};

use picket_policy::ObjectRef;
use picket_source::ApiServer;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{PublishError, list, text};
use crate::lease::Lease;
use crate::metrics::Metrics;
use crate::status::PolicyState;

const GROUP: &str = "/apis/picket.dev/v1alpha1";
const RESOURCE: &str = "networkpolicystatuses";
const VERSION: &str = "picket.dev/v1alpha1";

/// Who writes it.
const MANAGER: &str = "picket-controller";

/// The most failures that a state names.
const MOST_FAILURES: usize = 20;

/// The states that there are.
#[derive(Default)]
pub(super) struct States {
    /// By namespace and name: the uid of the policy, and what is said of it.
    known: BTreeMap<(SmolStr, SmolStr), (SmolStr, Value)>,
}

impl States {
    /// Reads what there is.
    pub(super) async fn read(&mut self, server: &ApiServer) -> Result<(), PublishError> {
        let mut known = BTreeMap::new();
        let what =
            "the states of policies cannot be listed (is deploy/crd-networkpolicystatus.yaml applied?)";
        list(server, &format!("{GROUP}/{RESOURCE}"), what, |state| {
            let of = |pointer| SmolStr::from(text(state, pointer));
            let status = state.get("status").cloned().unwrap_or_default();
            let owner = of("/metadata/ownerReferences/0/uid");
            known.insert((of("/metadata/namespace"), of("/metadata/name")), (owner, status));
        })
        .await?;
        self.known = known;
        Ok(())
    }

    /// Writes what is another, and deletes what is of no policy any more.
    pub(super) async fn write(
        &mut self,
        server: &ApiServer,
        states: &BTreeMap<ObjectRef, PolicyState>,
        lease: &Lease,
        metrics: &Metrics,
    ) -> Result<(), PublishError> {
        let of_policies = states.iter().filter(|(policy, _)| policy.kind == "NetworkPolicy");
        let mut there = BTreeSet::new();
        for (policy, state) in of_policies {
            let key = (policy.namespace.clone(), policy.name.clone());
            there.insert(key.clone());
            let said = (policy.uid.clone(), said(state));
            if self.known.get(&key) == Some(&said) || lease.term().is_none() {
                continue;
            }
            let has_other_owner = self.known.get(&key).is_none_or(|(uid, _)| *uid != policy.uid);
            put(server, policy, &said.1, has_other_owner, metrics).await?;
            self.known.insert(key, said);
        }
        let gone: Vec<_> = self
            .known
            .keys()
            .filter(|key| !there.contains(*key))
            .cloned()
            .collect();
        for key in gone {
            if lease.term().is_none() {
                break;
            }
            let deleted = server.delete(&path(&key.0, &key.1)).await?;
            if let Err(why) = deleted
                && why.code != 404
            {
                metrics.written("state", "refused");
                let what = "the state of a policy that is gone cannot be deleted";
                return Err(PublishError::Refused { what, why });
            }
            metrics.written("state", "deleted");
            self.known.remove(&key);
        }
        Ok(())
    }
}

async fn put(
    server: &ApiServer,
    policy: &ObjectRef,
    said: &Value,
    is_new: bool,
    metrics: &Metrics,
) -> Result<(), PublishError> {
    let path = path(&policy.namespace, &policy.name);
    let mut requests = Vec::new();
    if is_new {
        let owner = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": policy.kind,
            "name": policy.name,
            "uid": policy.uid,
        });
        let metadata = json!({"name": policy.name, "ownerReferences": [owner]});
        requests.push((path.clone(), json!({"metadata": metadata})));
    }
    let status = json!({"metadata": {"name": policy.name}, "status": said});
    requests.push((format!("{path}/status"), status));
    for (path, mut object) in requests {
        if let Some(object) = object.as_object_mut() {
            object.insert("apiVersion".to_owned(), VERSION.into());
            object.insert("kind".to_owned(), "NetworkPolicyStatus".into());
        }
        match server.apply(&path, MANAGER, &object).await? {
            Ok(_) => metrics.written("state", "done"),
            // Its namespace is going.
            Err(refused) if refused.code == 404 => metrics.written("state", "gone"),
            Err(why) => {
                metrics.written("state", "refused");
                let what = "the state of a policy cannot be written";
                return Err(PublishError::Refused { what, why });
            }
        }
    }
    Ok(())
}

fn path(namespace: &str, name: &str) -> String {
    format!("{GROUP}/namespaces/{namespace}/{RESOURCE}/{name}")
}

/// What is said of a policy.
fn said(state: &PolicyState) -> Value {
    let failures: Vec<_> = state.failures.iter().take(MOST_FAILURES).collect();
    let mut said = json!({
        "ready": state.ready,
        "pods": state.pods,
        "pending": state.pending,
        "failures": failures,
    });
    if let (Some(generation), Some(fields)) = (state.observed_generation, said.as_object_mut()) {
        fields.insert("observedGeneration".to_owned(), generation.into());
    }
    said
}
