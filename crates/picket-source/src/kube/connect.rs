//! The way to the API server.

use ::kube::Client;
use tokio::sync::Mutex;

use super::Kube;
use super::config;
use super::error::KubeError;
use super::list::Session;

/// A way to the cluster. With `retries`, a server that is too busy is asked again within the time that it has.
pub(super) async fn connect(kube: &Kube, retries: bool) -> Result<Session, KubeError> {
    let mut config = config::load(kube.kubeconfig.as_deref(), kube.context.as_deref()).await?;
    // The whole answer has a bound.
    config.connect_timeout = None;
    config.default_retry = retries;
    let server = config.cluster_url.to_string();
    let client = Client::try_from(config).map_err(|error| KubeError::unusable(&server, &error))?;
    Ok(Session {
        client,
        server,
        timeout: kube.timeout,
        silence: kube.silence,
    })
}

/// A way to the cluster that is found anew when it fails: kubeconfigs, tokens and authorities change while a process runs.
pub(super) struct Connection {
    kube: Kube,
    current: Mutex<Numbered>,
}

/// A session, and which it is.
#[derive(Clone)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) session: Session,
}

impl Connection {
    /// Finds the way; it has not been gone yet.
    pub(super) async fn open(kube: &Kube) -> Result<Self, KubeError> {
        let session = connect(kube, false).await?;
        Ok(Self {
            kube: kube.clone(),
            current: Mutex::new(Numbered { number: 0, session }),
        })
    }

    /// The present one.
    pub(super) async fn session(&self) -> Numbered {
        self.current.lock().await.clone()
    }

    /// Finds it anew unless that has been done since session `failed`. Where that is impossible the old one stays.
    pub(super) async fn renew(&self, failed: u64) -> Result<(), KubeError> {
        let mut current = self.current.lock().await;
        if current.number == failed {
            current.session = connect(&self.kube, false).await?;
            current.number += 1;
        }
        Ok(())
    }
}
