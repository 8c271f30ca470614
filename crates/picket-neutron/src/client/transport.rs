//! HTTP: one request, one answer of bounded length.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// How long a connection that nobody uses is kept. Proxies in front of Neutron close them after half a minute.
const IDLE: Duration = Duration::from_secs(20);

/// Why certificates of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("`{}` cannot be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It holds none.
    #[error("`{}` holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// TLS does not come about at all.
    #[error("TLS cannot be used: {0}")]
    Unusable(String),
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Why there is none.
pub(super) enum Failure {
    /// No connection came about, so that nothing was asked.
    Unreachable(String),
    /// The connection broke.
    Cut(String),
    /// It is longer than is read.
    TooLong,
}

/// What requests go through.
pub(super) struct Transport {
    client: Client<HttpsConnector<HttpConnector>, Full<std::io::Cursor<Vec<u8>>>>,
    longest: usize,
}

impl Transport {
    /// With the certificates of authorities in a file, or those of the system.
    pub(super) fn new(
        authorities: Option<&Path>,
        connect: Duration,
        longest: usize,
    ) -> Result<Self, TlsError> {
        let roots = match authorities {
            Some(file) => read_roots(file)?,
            None => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                roots
            }
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Unusable(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self { client, longest })
    }

    /// Asks. Redirections are not followed: a token is for who it is given to.
    pub(super) async fn exchange(&self, request: Request<Vec<u8>>) -> Result<Answer, Failure> {
        let request = request.map(|body| Full::new(std::io::Cursor::new(body)));
        let answer = self.client.request(request).await.map_err(|error| {
            let why = cause(&error);
            match error.is_connect() {
                true => Failure::Unreachable(why),
                false => Failure::Cut(why),
            }
        })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, self.longest).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => Failure::TooLong,
            false => Failure::Cut(cause(error.as_ref())),
        })?;
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes().to_vec(),
        })
    }
}

fn read_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let pem = std::fs::read(path).map_err(|source| TlsError::File {
        path: path.to_owned(),
        source,
    })?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .filter_map(Result::ok)
        .collect();
    let mut roots = RootCertStore::empty();
    match roots.add_parsable_certificates(certificates) {
        (0, _) => Err(TlsError::NoCertificate(path.to_owned())),
        _ => Ok(roots),
    }
}

/// What lies at the bottom of an error of the transport.
fn cause(error: &(dyn StdError + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    super::call::line(&deepest.to_string(), 200)
}
