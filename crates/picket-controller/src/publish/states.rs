//! How far each NetworkPolicy is in force, as a `NetworkPolicyStatus` of its name (`deploy/crd-networkpolicystatus.yaml`).

use std::collections::{BTreeMap, BTreeSet};

use picket_policy::ObjectRef;
use picket_source::{ApiServer, Refused};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::refusals::Refusals;
use super::{PublishError, Turn, list, text};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::status::PolicyState;

const GROUP: &str = "/apis/picket.dev/v1alpha1";
const RESOURCE: &str = "networkpolicystatuses";
const VERSION: &str = "picket.dev/v1alpha1";

/// Who writes it.
const MANAGER: &str = "picket-controller";

/// The most failures that a state names.
const MOST_FAILURES: usize = 20;

/// The namespace and the name of a policy, and of its state.
type Key = (SmolStr, SmolStr);

/// The states that there are.
pub(super) struct States {
    /// The uid of the policy, and what is said of it.
    known: BTreeMap<Key, (SmolStr, Value)>,
    pub(super) refusals: Refusals<Key>,
}

impl States {
    pub(super) fn new(clock: Clock, identity: &str) -> Self {
        Self {
            known: BTreeMap::new(),
            refusals: Refusals::new(clock, identity),
        }
    }

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
        turn: &Turn<'_>,
        metrics: &Metrics,
    ) -> Result<(), PublishError> {
        let of_policies = states.iter().filter(|(policy, _)| policy.kind == "NetworkPolicy");
        let mut there = BTreeSet::new();
        for (policy, state) in of_policies {
            let key = (policy.namespace.clone(), policy.name.clone());
            there.insert(key.clone());
            let said = (policy.uid.clone(), said(state));
            if self.known.get(&key) == Some(&said) || self.refusals.wait(&key) {
                continue;
            }
            let has_other_owner = self.known.get(&key).is_none_or(|(uid, _)| *uid != policy.uid);
            match put(server, policy, &said.1, has_other_owner, turn).await? {
                Ok(outcome) => {
                    metrics.written("state", outcome);
                    self.refusals.done(&key);
                    self.known.insert(key, said);
                }
                Err(why) => {
                    metrics.written("state", "refused");
                    let what = format!("the state of {policy} cannot be written");
                    self.refusals.refused(key, what, why);
                }
            }
        }
        let known = &self.known;
        self.refusals
            .retain(|key| there.contains(key) || known.contains_key(key));
        let gone: Vec<_> = self
            .known
            .keys()
            .filter(|key| !there.contains(*key))
            .cloned()
            .collect();
        for key in gone {
            if self.refusals.wait(&key) {
                continue;
            }
            turn.begin()?;
            let deleted = server.delete(&path(&key.0, &key.1)).await?;
            if let Err(why) = deleted
                && why.code != 404
            {
                metrics.written("state", "refused");
                let what = format!(
                    "the state {}/{}, of no policy any more, cannot be deleted",
                    key.0, key.1
                );
                self.refusals.refused(key, what, why);
                continue;
            }
            metrics.written("state", "deleted");
            self.refusals.done(&key);
            self.known.remove(&key);
        }
        Ok(())
    }
}

/// What became of it.
async fn put(
    server: &ApiServer,
    policy: &ObjectRef,
    said: &Value,
    is_new: bool,
    turn: &Turn<'_>,
) -> Result<Result<&'static str, Refused>, PublishError> {
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
        turn.begin()?;
        if let Some(object) = object.as_object_mut() {
            object.insert("apiVersion".to_owned(), VERSION.into());
            object.insert("kind".to_owned(), "NetworkPolicyStatus".into());
        }
        match server.apply(&path, MANAGER, &object).await? {
            Ok(_) => {}
            // Its namespace is gone.
            Err(refused) if refused.code == 404 => return Ok(Ok("gone")),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok("done"))
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
