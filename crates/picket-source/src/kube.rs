//! A live cluster.
//!
//! Objects are listed as JSON and handed to the reader of files, one text for each: what picket says about an object does
//! not depend on where it came from, and no field is lost on the way because some type does not know it.

mod config;
mod error;
mod kind;
mod list;
mod overlay;

use std::time::Duration;

use ::kube::Client;
use tokio::runtime::Builder;

pub use error::KubeError;
pub use overlay::overlay;

use crate::files::Text;
use crate::origin::{Missing, Origin};

/// The objects of a live cluster that say something about connectivity.
///
/// Each kind is listed by itself, so that an object that changes meanwhile may be seen before and another after.
#[derive(Clone, Debug)]
pub struct Kube {
    /// The context of the kubeconfig, its current one unless given.
    pub context: Option<String>,
    /// How long the API server may take for one answer.
    pub timeout: Duration,
    missing: Vec<Missing>,
}

impl Kube {
    /// The cluster of a context, of the current one without.
    #[must_use]
    pub fn new(context: Option<String>, timeout: Duration) -> Self {
        Self {
            context,
            timeout,
            missing: Vec::new(),
        }
    }

    async fn read(&mut self) -> Result<Vec<Text>, KubeError> {
        let mut config = config::load(self.context.as_deref()).await?;
        // The whole answer has a bound.
        config.connect_timeout = None;
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).map_err(|error| KubeError::unusable(&server, &error))?;
        let session = list::Session {
            client,
            server,
            timeout: self.timeout,
        };
        let mut texts = Vec::new();
        let (resources, missing) = kind::served(&session).await?;
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
