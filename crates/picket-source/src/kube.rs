//! A live cluster.
//!
//! Objects are listed as JSON and handed to the reader of files, one text for each: what picket says about an object does
//! not depend on where it came from, and no field is lost on the way because some type does not know it.
//!
//! [`Kube`] lists what is there, for the command line. [`Kube::follow`] knows what is there from then on, for the agent that
//! runs on each node. A [`watch`] of each kind says what
//! becomes known, [`follow`] sees to it that there is one for every kind that the cluster serves, and
//! [`live`](crate::live) makes events of it. Whoever follows may `list` and `watch` namespaces, nodes, pods,
//! networkpolicies and, in the groups `k8s.cni.cncf.io` and `policy.networking.k8s.io`, the kinds of [`kind::CUSTOM`].
//! What is wrong with an object a [`Recorder`] writes where people look for it, for which it may `create` events.
//!
//! The watches are our own and not those of kube-runtime, whose streaming lists may be older than what is known, which
//! never falls back to pages, and which goes on after a line that it cannot read as if nothing had been lost.

pub(crate) mod backoff;
mod config;
mod connect;
mod error;
pub(crate) mod follow;
pub(crate) mod health;
pub(crate) mod item;
pub(crate) mod kind;
mod list;
pub(crate) mod listener;
mod overlay;
mod record;
#[cfg(test)]
mod scripted;
pub(crate) mod shape;
mod single;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime::Builder;

pub use error::KubeError;
pub use follow::{Change, Interest};
pub use health::{Health, KindHealth};
pub use overlay::overlay;
pub(crate) use overlay::text_name;
pub use record::{Occurrence, Recorded, Recorder};
pub use single::{Answered, ApiServer, Refused};

use crate::files::Text;
use crate::origin::{Missing, Origin};

/// [`Kube::silence`] unless set.
const SILENCE: Duration = Duration::from_secs(150);

/// The objects of a live cluster that say something about connectivity.
///
/// Each kind is listed by itself, so that an object that changes meanwhile may be seen before and another after.
#[derive(Clone, Debug)]
pub struct Kube {
    /// The kubeconfig, where it is another than that of KUBECONFIG or the home directory.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, its current one unless given.
    pub context: Option<String>,
    /// How long the API server may take for one answer.
    pub timeout: Duration,
    /// How long it may say nothing while it is followed, before it is taken to be out of reach: 150 s unless set. It sends a bookmark of each
    /// kind every minute.
    pub silence: Duration,
    missing: Vec<Missing>,
}

impl Kube {
    /// The cluster of a context, of the current one without.
    #[must_use]
    pub fn new(context: Option<String>, timeout: Duration) -> Self {
        Self {
            kubeconfig: None,
            context,
            timeout,
            silence: SILENCE,
            missing: Vec::new(),
        }
    }

    async fn read(&mut self) -> Result<Vec<Text>, KubeError> {
        let session = connect::connect(self, true).await?;
        let mut texts = Vec::new();
        let (resources, missing) = kind::served(&session, |_| true).await?;
        self.missing = missing;
        for resource in &resources {
            match session.list(resource).await? {
                Ok(found) => texts.extend(found),
                Err(missing) => self.missing.push(missing),
            }
        }
        Ok(texts)
    }
}

impl Origin for Kube {
    type Error = KubeError;

    fn texts(&mut self) -> Result<Vec<Text>, KubeError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.map_err(KubeError::Runtime)?.block_on(self.read())
    }

    fn missing(&self) -> &[Missing] {
        &self.missing
    }
}
