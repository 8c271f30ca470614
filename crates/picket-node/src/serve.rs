//! Answers about how it goes: metrics and health over HTTP, everything else at a socket that only root may use.
//!
//! | path | at | answer |
//! |---|---|---|
//! | `/healthz` | both | 200 while the agent works, 503 when it, or the thread of a target, has not come round for long |
//! | `/readyz` | both | 200 once the policies have been in force with every target and in every pod, 503 before |
//! | `/metrics` | both | numbers for Prometheus |
//! | `/status` | the socket | [`Status`] as JSON |
//! | `/trace` | the socket | to a [`TraceQuestion`] as JSON a [`Trace`] as JSON |

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::http::request;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use smol_str::SmolStr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};

use crate::AgentError;
use crate::drops::{Dropped, Reading};
use crate::metrics::Metrics;
use crate::status::{Shared, Status};
use crate::trace::{Answering, Trace, TraceQuestion};

/// How long the agent may be busy with one thing before it counts as stuck. The largest first compilation takes seconds.
const STUCK: Duration = Duration::from_secs(120);

/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an answer about a connection may take.
const LONGEST_TRACE: Duration = Duration::from_secs(60);

/// The most bytes of a question.
const LONGEST_QUESTION: usize = 1 << 14;

/// The most pods that are named as those in which policies are not in force.
const MOST_TOLD: usize = 10;

/// Where to answer.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Metrics and health, if anywhere.
    pub address: Option<SocketAddr>,
    /// Everything.
    pub socket: PathBuf,
}

/// What there is to answer from.
#[derive(Clone)]
pub(crate) struct Answers {
    pub(crate) shared: Shared,
    pub(crate) metrics: Metrics,
    pub(crate) pulse: Pulse,
    /// When the threads of other targets last came round.
    pub(crate) targets: Vec<(SmolStr, Pulse)>,
    /// What was dropped, where the agent has rules that count it.
    pub(crate) drops: Option<Reading>,
    /// Who answers questions about connections, where the agent enforces tables of the kernel.
    pub(crate) tracer: Option<Answering>,
}

/// When what is to come round last did. Clones show the same.
#[derive(Clone)]
pub struct Pulse {
    began: Instant,
    last: Arc<AtomicU64>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self::new()
    }
}

impl Pulse {
    /// One that begins to.
    #[must_use]
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
            last: Arc::default(),
        }
    }

    /// It comes round.
    pub fn beat(&self) {
        self.last.store(self.began.elapsed().as_secs(), Ordering::Relaxed);
    }

    /// That of a thread that came round when it began, as long ago as one may at most be busy, and never since.
    #[cfg(test)]
    pub(crate) fn of_busy() -> Self {
        let pulse = Self::new();
        let began = pulse.began.checked_sub(STUCK).unwrap_or(pulse.began);
        Self { began, ..pulse }
    }

    /// Forgets that it came round.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// Whether it has come round lately.
    #[must_use]
    pub fn beats(&self) -> bool {
        // It may have come round since the time was asked for.
        let since = self.began.elapsed().as_secs();
        since.saturating_sub(self.last.load(Ordering::Relaxed)) < STUCK.as_secs()
    }
}

/// Where a question came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// An address, where anybody may ask.
    Network,
    /// A socket, where only its owner may.
    Socket,
}

/// Answers in a thread of its own, until the process ends.
///
/// # Errors
/// When somebody else listens there, or there is no such thread to be had.
pub fn serve(listen: &Listen, answers: impl Respond) -> Result<(), AgentError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(AgentError::Start)?;
    let (network, socket) = bind(&runtime, listen)?;
    let answering = move || {
        runtime.block_on(async {
            tokio::join!(serve_network(network, &answers), serve_socket(socket, &answers));
        });
    };
    let thread = thread::Builder::new().name("picket-serve".to_owned());
    thread.spawn(answering).map_err(AgentError::Start)?;
    Ok(())
}

/// Answers on the network alone, as long as the runtime runs in which this is.
///
/// # Errors
/// When somebody else listens there.
pub async fn answer_at(address: SocketAddr, answers: impl Respond) -> Result<Infallible, AgentError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| AgentError::Listen {
        at: address.to_string(),
        source,
    })?;
    serve_network(Some(listener), &answers).await;
    // INVARIANT: with a listener, serving does not end.
    std::future::pending().await
}

/// Listens before anything else is done, so that whoever starts the agent learns at once that it cannot.
fn bind(runtime: &Runtime, listen: &Listen) -> Result<(Option<TcpListener>, UnixListener), AgentError> {
    let failed = |at: String| move |source| AgentError::Listen { at, source };
    runtime.block_on(async {
        let network = match listen.address {
            Some(address) => Some(
                TcpListener::bind(address)
                    .await
                    .map_err(failed(address.to_string()))?,
            ),
            None => None,
        };
        let path = &listen.socket;
        let socket = bind_socket(path)
            .await
            .map_err(failed(format!("`{}`", path.display())))?;
        Ok((network, socket))
    })
}

/// Takes the place of an agent that has ended; of one that answers it does not.
async fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    if UnixStream::connect(path).await.is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another agent answers there",
        ));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let socket = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}

async fn serve_network(listener: Option<TcpListener>, answers: &impl Respond) {
    let Some(listener) = listener else {
        return;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => converse(stream, Door::Network, answers.clone()),
            Err(error) => wait_after(&error).await,
        }
    }
}

async fn serve_socket(listener: UnixListener, answers: &impl Respond) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => converse(stream, Door::Socket, answers.clone()),
            Err(error) => wait_after(&error).await,
        }
    }
}

/// Too many open files, mostly: others have to end first.
async fn wait_after(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, door: Door, answers: impl Respond) {
    tokio::spawn(async move {
        let service = service_fn(move |request| {
            let answers = answers.clone();
            async move { Ok::<_, Infallible>(answers.respond(door, request).await) }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        // Whoever goes away in the middle has no more questions.
        let _ = connection.await;
    });
}

/// An answer of HTTP.
pub type Answer = Response<Full<Bytes>>;

/// Who answers.
pub trait Respond: Clone + Send + Sync + 'static {
    /// The answer to a request.
    fn respond(&self, door: Door, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

impl Respond for Answers {
    async fn respond(&self, door: Door, request: Request<Incoming>) -> Answer {
        if request.uri().path() == "/trace" && request.method() == Method::POST && door == Door::Socket {
            return match self.trace(request.into_body()).await {
                Ok(trace) => json(&trace),
                Err(why) => plain(StatusCode::UNPROCESSABLE_ENTITY, &why),
            };
        }
        if request.method() != Method::GET {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        match request.uri().path() {
            "/healthz" => self.health(),
            "/readyz" => self.ready(),
            "/metrics" => self.metrics(),
            "/status" if door == Door::Socket => self.status(),
            _ => plain(StatusCode::NOT_FOUND, "not found\n"),
        }
    }
}

impl Answers {
    /// Whether every thread comes round. What VPP or the API server do not say is no reason to begin anew.
    fn health(&self) -> Answer {
        let stuck = self.targets.iter().filter(|(_, pulse)| !pulse.beats());
        let stuck: Vec<_> = stuck.map(|(target, _)| target.as_str()).collect();
        match (self.pulse.beats(), stuck.as_slice()) {
            (true, []) => plain(StatusCode::OK, "ok\n"),
            (false, _) => plain(StatusCode::SERVICE_UNAVAILABLE, "stuck\n"),
            (true, targets) => {
                let text = format!("stuck: {}\n", targets.join(", "));
                plain(StatusCode::SERVICE_UNAVAILABLE, &text)
            }
        }
    }

    fn ready(&self) -> Answer {
        let status = self.shared.status();
        if status.ready {
            return plain(StatusCode::OK, "ok\n");
        }
        let kinds = status.source.iter().map(|(kind, state)| (kind, state.complete));
        let why = not_listed(kinds).map_or_else(|| not_ready(&status), |why| why + "\n");
        plain(StatusCode::SERVICE_UNAVAILABLE, &why)
    }

    fn metrics(&self) -> Answer {
        match self.metrics.text(&self.shared.status(), self.dropped()) {
            Ok(text) => typed(
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                text.into_bytes(),
            ),
            Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        }
    }

    /// What was dropped, as far as the kernel says it now.
    fn dropped(&self) -> Option<Dropped> {
        let read = (self.drops.as_ref()?)();
        read.inspect_err(|error| tracing::warn!(%error, "the counters cannot be read"))
            .ok()
    }

    fn status(&self) -> Answer {
        let mut status = self.shared.status();
        if let Some(dropped) = self.dropped() {
            let place = match &mut status.pods {
                Some(pods) => &mut pods.dropped,
                None => &mut status.host.dropped,
            };
            *place = dropped.into();
        }
        json(&status)
    }

    /// # Errors
    /// Why there is no answer.
    async fn trace(&self, body: Incoming) -> Result<Trace, String> {
        let tracer = self.tracer.clone();
        let tracer = tracer.ok_or("this agent enforces no rules of the kernel")?;
        let body = Limited::new(body, LONGEST_QUESTION).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        let question: TraceQuestion = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        let answer = tokio::task::spawn_blocking(move || tracer(&question)).await;
        answer.map_err(|error| error.to_string())?
    }
}

/// Which kinds, each with whether all of it is known, are not; `None` where all are.
pub fn not_listed<'k>(kinds: impl IntoIterator<Item = (&'k String, bool)>) -> Option<String> {
    let kinds = kinds.into_iter();
    let waiting: Vec<_> = kinds
        .filter(|(_, complete)| !complete)
        .map(|(kind, _)| kind.as_str())
        .collect();
    (!waiting.is_empty()).then(|| format!("not listed yet: {}", waiting.join(", ")))
}

/// By which targets, or in which pods, the policies are not in force yet, and why.
fn not_ready(status: &Status) -> String {
    let mut text = "the policies are not in force yet\n".to_owned();
    for (target, vpp) in status.vpp.iter().filter(|(_, vpp)| !vpp.ready) {
        let why = vpp.trouble.as_ref().map(|trouble| format!(": {}", trouble.why));
        text.push_str(&format!("{target}{}\n", why.unwrap_or_default()));
    }
    if let Some(pods) = &status.pods {
        let sandboxes = pods.sandboxes.iter();
        let troubled = sandboxes.filter_map(|sandbox| Some((&sandbox.pod, sandbox.trouble.as_ref()?)));
        let troubled = troubled.map(|(pod, why)| format!("{pod}: {why}\n"));
        let others = pods.runtime.iter().chain(&pods.custom_rules);
        text.extend(
            others
                .map(|why| format!("{why}\n"))
                .chain(troubled.take(MOST_TOLD)),
        );
    }
    text
}

/// A value as JSON.
pub fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(json) => typed("application/json", json),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

/// A text for people.
#[must_use]
pub fn plain(status: StatusCode, text: &str) -> Answer {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = status;
    response
}

/// Something of a media type.
#[must_use]
pub fn typed(kind: &'static str, body: Vec<u8>) -> Answer {
    let mut response = Response::new(Full::from(body));
    let kind = hyper::header::HeaderValue::from_static(kind);
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    response
}

/// Asks the agent at `socket` how it goes.
///
/// # Errors
/// When none answers there, or something else than a status.
pub fn ask(socket: &Path) -> Result<Status, AgentError> {
    fetch_status(socket)
}

/// Asks at `socket` how it goes, whatever the process is that answers there.
///
/// # Errors
/// When none answers there, or something else.
pub fn fetch_status<T: DeserializeOwned>(socket: &Path) -> Result<T, AgentError> {
    fetch(socket, Request::get("/status"), Bytes::default(), PATIENCE)
}

/// Asks the agent at `socket` what becomes of a connection.
///
/// # Errors
/// When none answers there, or it says why it has no answer.
pub fn trace(socket: &Path, question: &TraceQuestion) -> Result<Trace, AgentError> {
    let body = serde_json::to_vec(question).map_err(|error| AgentError::Answer(error.to_string()))?;
    fetch(socket, Request::post("/trace"), body.into(), LONGEST_TRACE)
}

fn fetch<T: DeserializeOwned>(
    socket: &Path,
    request: request::Builder,
    body: Bytes,
    patience: Duration,
) -> Result<T, AgentError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let answer = runtime.map_err(AgentError::Start)?.block_on(async {
        tokio::time::timeout(patience, send(socket, request, body))
            .await
            .map_err(|_| AgentError::Answer(format!("nothing came within {} s", patience.as_secs())))?
    })?;
    serde_json::from_slice(&answer).map_err(|error| AgentError::Answer(error.to_string()))
}

async fn send(socket: &Path, request: request::Builder, body: Bytes) -> Result<Bytes, AgentError> {
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|source| AgentError::NoAgent {
            path: socket.to_owned(),
            source,
        })?;
    let odd = |error: hyper::Error| AgentError::Answer(error.to_string());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(odd)?;
    tokio::spawn(connection);
    let request = request
        .header(hyper::header::HOST, "picket")
        .body(Full::new(body));
    let request = request.map_err(|error| AgentError::Answer(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(odd)?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(odd)?.to_bytes();
    match status {
        StatusCode::OK => Ok(body),
        StatusCode::UNPROCESSABLE_ENTITY => {
            Err(AgentError::NoAnswer(String::from_utf8_lossy(&body).into_owned()))
        }
        _ => Err(AgentError::Answer(format!("status {status}"))),
    }
}

#[cfg(test)]
mod tests;
