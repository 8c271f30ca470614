//! Calls to a runtime over its socket.

use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::runtime::{Builder, Runtime as Executor};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::RuntimeError;

/// How long an answer may take. A runtime that is busy pulling images or starting pods answers within a second.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most bytes of an answer, as the kubelet has it. A list holds every annotation of every pod of a node.
const LONGEST_ANSWER: usize = 16 << 20;

/// The most characters of a runtime's own words that an error repeats.
const LONGEST_WORDS: usize = 300;

/// A connection that is made when it is needed, and again when it broke.
pub(super) struct Caller {
    executor: Executor,
    channel: Channel,
    endpoint: String,
}

/// What a stream of events has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Something happened.
    Event,
    /// Nothing, for as long as one wanted to wait.
    Nothing,
    /// The runtime knows no such call.
    Unknown,
    /// It is over, whyever.
    End,
}

/// Events as they come, those that nobody has heard yet taken as one.
pub(super) struct Events {
    receiver: Receiver<Heard>,
    task: AbortHandle,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Caller {
    /// Connects to the socket at `endpoint`, a path with or without `unix://`, below `prefix`.
    pub(super) fn new(endpoint: &str, prefix: &Path) -> Result<Self, RuntimeError> {
        let refused = |problem| RuntimeError::Endpoint {
            endpoint: endpoint.to_owned(),
            problem,
        };
        let path = match endpoint.split_once("://") {
            Some(("unix", path)) => path,
            Some(_) => return Err(refused("only sockets of the kind `unix` are known")),
            None => endpoint,
        };
        let relative = path
            .strip_prefix('/')
            .ok_or_else(|| refused("the path must begin with `/`"))?;
        let socket = prefix.join(relative);
        let socket = socket.to_str().ok_or_else(|| refused("the prefix is no text"))?;
        let socket = match prefix.as_os_str().is_empty() {
            true => format!("/{socket}"),
            false => socket.to_owned(),
        };
        // With a thread of its own, which takes events whatever others do: a runtime has room for some, and then waits with everything.
        let executor = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("picket-events")
            .enable_all()
            .build();
        let executor = executor.map_err(RuntimeError::Start)?;
        let target = Endpoint::from_shared(format!("unix:{socket}"));
        let target = target.map_err(|_| refused("it is no path of a socket"))?;
        let channel = {
            let _inside = executor.enter();
            target.connect_timeout(PATIENCE).connect_lazy()
        };
        Ok(Self {
            executor,
            channel,
            endpoint: socket,
        })
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask<Q, A>(&self, call: &'static str, question: Q) -> Result<A, RuntimeError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let answer = self.within_patience(async {
            let mut client = self.client().await?;
            let codec = ProstCodec::<Q, A>::default();
            client.unary(Request::new(question), path(call), codec).await
        });
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| self.error(call, &status))
    }

    /// Asks for events.
    pub(super) fn listen<Q, A>(&self, call: &'static str, question: Q) -> Events
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let (sender, receiver) = channel(1);
        let client = Grpc::new(self.channel.clone());
        // Runtimes say that they listen no sooner than with the first event: nobody may wait for that.
        let task = self.executor.spawn(async move {
            let last = pass_on::<Q, A>(client, path(call), question, &sender).await;
            let _nobody_listens = sender.send(last).await;
        });
        Events {
            receiver,
            task: task.abort_handle(),
        }
    }

    /// Waits for the next event, for at most `time`.
    pub(super) fn hear(&self, events: &mut Events, time: Duration) -> Heard {
        self.executor.block_on(async {
            match tokio::time::timeout(time, events.receiver.recv()).await {
                Err(_) => Heard::Nothing,
                Ok(heard) => heard.unwrap_or(Heard::End),
            }
        })
    }

    /// Waits, while what is going on goes on.
    pub(super) fn pause(&self, time: Duration) {
        self.executor.block_on(async { tokio::time::sleep(time).await });
    }

    async fn client(&self) -> Result<Grpc<Channel>, Status> {
        let mut client = Grpc::new(self.channel.clone()).max_decoding_message_size(LONGEST_ANSWER);
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(client)
    }

    fn within_patience<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let answer = self
            .executor
            .block_on(async { tokio::time::timeout(PATIENCE, call).await });
        answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")))
    }

    fn error(&self, call: &'static str, status: &Status) -> RuntimeError {
        RuntimeError::Call {
            endpoint: self.endpoint.clone(),
            call,
            problem: words(status),
        }
    }
}

/// Passes events on until they end, and says how they ended.
async fn pass_on<Q, A>(
    mut client: Grpc<Channel>,
    path: PathAndQuery,
    question: Q,
    sender: &Sender<Heard>,
) -> Heard
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    if client.ready().await.is_err() {
        return Heard::End;
    }
    let codec = ProstCodec::<Q, A>::default();
    let stream = client.server_streaming(Request::new(question), path, codec).await;
    let mut stream = match stream {
        Ok(answer) => answer.into_inner(),
        Err(status) if status.code() == Code::Unimplemented => return Heard::Unknown,
        Err(_) => return Heard::End,
    };
    loop {
        match stream.message().await {
            // One that waits to be heard stands for all.
            Ok(Some(_)) => drop(sender.try_send(Heard::Event)),
            Err(status) if status.code() == Code::Unimplemented => return Heard::Unknown,
            Ok(None) | Err(_) => return Heard::End,
        }
    }
}

/// What a runtime says, in one line that ends.
fn words(status: &Status) -> String {
    let code = status.code().description();
    let source = std::error::Error::source(status).map(ToString::to_string);
    let text = match (status.message(), source) {
        ("", None) => return code.to_owned(),
        (message, None) => message.to_owned(),
        (message, Some(source)) => format!("{message}: {source}"),
    };
    let text: String = text.escape_debug().take(LONGEST_WORDS).collect();
    format!("{text} ({code})")
}

fn path(call: &'static str) -> PathAndQuery {
    PathAndQuery::try_from(format!("/runtime.v1.RuntimeService/{call}"))
        .unwrap_or_else(|_| PathAndQuery::from_static("/"))
}
