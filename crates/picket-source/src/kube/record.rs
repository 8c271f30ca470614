//! Events of Kubernetes: what is wrong with an object, where people look for it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use picket_policy::ObjectRef;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::Kube;
use super::connect::{Connection, Numbered};
use super::error::KubeError;
use super::kind;
use super::list::{Refusal, Session};

/// Who says it.
const COMPONENT: &str = "picket";

/// The namespace of Events on objects that are in none.
const NO_NAMESPACE: &str = "default";

/// Something that went wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// What the Event is called, which nothing else in the namespace of the object may be that is another.
    pub name: String,
    /// The object; with its uid, where that is known.
    pub object: ObjectRef,
    /// Why, in one word for programs.
    pub reason: &'static str,
    /// Why, for people. API servers take 1024 bytes.
    pub message: String,
    /// The node on which it went wrong; none where it does on all.
    pub node: Option<SmolStr>,
    /// When.
    pub at: Timestamp,
}

/// What became of an [`Occurrence`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is an Event now.
    Created,
    /// There is an Event of this name already.
    Known,
    /// The API server does not want it, and says why.
    Refused(String),
}

/// Writes Events into a cluster.
pub struct Recorder {
    connection: Connection,
    /// The `apiVersion` of each kind, as far as it has been asked for.
    versions: BTreeMap<&'static str, String>,
}

impl Recorder {
    /// Finds the way to the cluster.
    ///
    /// # Errors
    /// When nothing says where it is.
    pub async fn open(kube: &Kube) -> Result<Self, KubeError> {
        Ok(Self {
            connection: Connection::open(kube).await?,
            versions: BTreeMap::new(),
        })
    }

    /// Writes an Event, unless it is there.
    ///
    /// # Errors
    /// When nobody knows what became of it: the same may be tried again.
    pub async fn record(&mut self, occurrence: &Occurrence) -> Result<Recorded, KubeError> {
        let Numbered { number, session } = self.connection.session().await;
        let recorded = self.write(&session, occurrence).await;
        if recorded.is_err() {
            self.connection.renew(number).await?;
        }
        recorded
    }

    async fn write(&mut self, session: &Session, occurrence: &Occurrence) -> Result<Recorded, KubeError> {
        let version = self.version(session, &occurrence.object.kind).await?;
        let path = format!("/api/v1/namespaces/{}/events", namespace(occurrence));
        let what = "create events";
        match session.create(&path, &event(occurrence, version), what).await? {
            Ok(()) => Ok(Recorded::Created),
            Err(Refusal { code: 409, .. }) => Ok(Recorded::Known),
            Err(Refusal { code, message }) if code == 429 || code >= 500 => Err(KubeError::Failing {
                server: session.server.clone(),
                what: what.to_owned(),
                code,
                why: message,
            }),
            Err(refusal) => Ok(Recorded::Refused(refusal.message)),
        }
    }

    /// The `apiVersion` of a kind, if the cluster serves it.
    async fn version(&mut self, session: &Session, kind: &str) -> Result<Option<&str>, KubeError> {
        if !self.versions.contains_key(kind) {
            let (resources, _) = kind::served(session, |known| known.name == kind).await?;
            let versions = resources.iter();
            self.versions
                .extend(versions.map(|resource| (resource.kind.name, resource.api_version())));
        }
        Ok(self.versions.get(kind).map(String::as_str))
    }
}

fn namespace(occurrence: &Occurrence) -> &str {
    match occurrence.object.namespace.as_str() {
        "" => NO_NAMESPACE,
        namespace => namespace,
    }
}

/// The Event, as in core/v1.
fn event(occurrence: &Occurrence, version: Option<&str>) -> Value {
    let object = &occurrence.object;
    let at = format!("{:.0}", occurrence.at);
    let node = occurrence.node.as_deref().unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": occurrence.name, "namespace": namespace(occurrence)},
        "involvedObject": {
            "apiVersion": version.unwrap_or_default(),
            "kind": object.kind,
            "namespace": object.namespace,
            "name": object.name,
            "uid": object.uid,
        },
        "type": "Warning",
        "reason": occurrence.reason,
        "message": occurrence.message,
        "source": {"component": COMPONENT, "host": node},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    })
}
