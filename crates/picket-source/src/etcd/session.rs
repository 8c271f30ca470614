//! The way to one member of etcd, and asking it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::error::{EtcdError, cause};
use super::message::{
    AuthenticateRequest, AuthenticateResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    WatchCreateRequest, WatchRequest, WatchResponse,
};
use super::{Etcd, Tls};

/// The most bytes of one answer. Pages that would be longer are asked for in parts.
const LONGEST_ANSWER: usize = 32 << 20;

/// How often to make sure that a member is still there while it says nothing. etcd takes no more than one in 5 s.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A call: its words for people, and its path.
#[derive(Clone, Copy)]
pub(super) struct Call(&'static str, &'static str);

pub(super) const RANGE: Call = Call("read keys", "/etcdserverpb.KV/Range");
pub(super) const TXN: Call = Call("write keys", "/etcdserverpb.KV/Txn");
pub(super) const GRANT: Call = Call("grant a lease", "/etcdserverpb.Lease/LeaseGrant");
pub(super) const REVOKE: Call = Call("end a lease", "/etcdserverpb.Lease/LeaseRevoke");
const WATCH: Call = Call("watch keys", "/etcdserverpb.Watch/Watch");
const KEEP: Call = Call("keep a lease", "/etcdserverpb.Lease/LeaseKeepAlive");
const AUTHENTICATE: Call = Call("authenticate", "/etcdserverpb.Auth/Authenticate");

/// A member of etcd that answered.
pub(super) struct Session {
    endpoint: String,
    channel: Channel,
    timeout: Duration,
    login: Option<(String, String)>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
}

/// What becomes of keys.
pub(super) struct Watch {
    stream: Streaming<WatchResponse>,
    endpoint: String,
}

impl Session {
    /// Connects to the member whose turn it is, as the files of certificates and passwords say at this moment.
    pub(super) async fn open(etcd: &Etcd, turn: usize) -> Result<Self, EtcdError> {
        let count = etcd.endpoints.len().max(1);
        let endpoint = etcd.endpoints.get(turn % count).ok_or(EtcdError::NoEndpoint)?;
        let target = target(endpoint, etcd)?;
        let login = match &etcd.login {
            Some(login) => Some((login.user.clone(), password(&login.password)?)),
            None => None,
        };
        let unreachable = |why| EtcdError::Unreachable {
            endpoint: endpoint.clone(),
            why,
        };
        let connected = timeout(etcd.timeout, target.connect()).await;
        let channel = connected
            .map_err(|_| unreachable("no connection came about in time".to_owned()))?
            .map_err(|error| unreachable(cause(&error)))?;
        let session = Self {
            endpoint: endpoint.clone(),
            channel,
            timeout: etcd.timeout,
            login,
            token: Mutex::new(None),
        };
        session.authenticate().await?;
        Ok(session)
    }

    /// Says who asks, where that is known.
    async fn authenticate(&self) -> Result<(), EtcdError> {
        let Some((name, password)) = self.login.clone() else {
            return Ok(());
        };
        *self.token.lock().await = None;
        let question = AuthenticateRequest { name, password };
        let answer: AuthenticateResponse = self.ask_once(AUTHENTICATE, question).await?;
        let token = MetadataValue::try_from(answer.token);
        let token = token.map_err(|_| self.garbage(AUTHENTICATE, "the token is no text"))?;
        *self.token.lock().await = Some(token);
        Ok(())
    }

    /// Asks, and waits for the answer. Where the token has become too old, there is a new one.
    pub(super) async fn ask<Q, A>(&self, call: Call, question: Q) -> Result<A, EtcdError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        match self.ask_once(call, question.clone()).await {
            Err(error) if error.is_about_token() && self.login.is_some() => {
                self.authenticate().await?;
                self.ask_once(call, question).await
            }
            answer => answer,
        }
    }

    async fn ask_once<Q, A>(&self, call: Call, question: Q) -> Result<A, EtcdError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let request = self.request(question).await;
        let answer = timeout(self.timeout, async {
            let mut client = self.client().await?;
            let codec = ProstCodec::<Q, A>::default();
            client
                .unary(request, PathAndQuery::from_static(call.1), codec)
                .await
        });
        let answer = answer.await.map_err(|_| self.late(call))?;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| EtcdError::refused(&self.endpoint, call.0, &status))
    }

    /// What becomes of the keys from `key` to `end` from a revision on.
    pub(super) async fn watch(&self, key: &str, end: &str, from: i64) -> Result<Watch, EtcdError> {
        let create = WatchCreateRequest {
            key: key.into(),
            range_end: end.into(),
            start_revision: from,
            progress_notify: true,
            fragment: true,
        };
        let question = WatchRequest { create: Some(create) };
        // The watch lasts as long as more questions might follow.
        let questions = stream::once(std::future::ready(question)).chain(stream::pending());
        let mut request = self.request(questions).await;
        // A member that has lost the others ends it, so that another can be asked.
        let wanted = MetadataValue::from_static("true");
        request.metadata_mut().insert("hasleader", wanted);
        let answer = timeout(self.timeout, async {
            let mut client = self.client().await?;
            let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
            let path = PathAndQuery::from_static(WATCH.1);
            client.streaming(request, path, codec).await
        });
        let answer = answer.await.map_err(|_| self.late(WATCH))?;
        let answer = answer.map_err(|status| EtcdError::refused(&self.endpoint, WATCH.0, &status))?;
        Ok(Watch {
            stream: answer.into_inner(),
            endpoint: self.endpoint.clone(),
        })
    }

    /// How many seconds a lease lasts that is kept from now on.
    pub(super) async fn keep(&self, lease: i64) -> Result<i64, EtcdError> {
        let question = LeaseKeepAliveRequest { id: lease };
        let request = self.request(stream::once(std::future::ready(question))).await;
        let answer = timeout(self.timeout, async {
            let mut client = self.client().await?;
            let codec = ProstCodec::<LeaseKeepAliveRequest, LeaseKeepAliveResponse>::default();
            let path = PathAndQuery::from_static(KEEP.1);
            let mut stream = client.streaming(request, path, codec).await?.into_inner();
            stream.message().await
        });
        let answer = answer.await.map_err(|_| self.late(KEEP))?;
        let answer = answer.map_err(|status| EtcdError::refused(&self.endpoint, KEEP.0, &status))?;
        Ok(answer.map_or(0, |answer| answer.ttl))
    }

    async fn request<T>(&self, question: T) -> Request<T> {
        let mut request = Request::new(question);
        if let Some(token) = &*self.token.lock().await {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    async fn client(&self) -> Result<Grpc<Channel>, Status> {
        let mut client = Grpc::new(self.channel.clone()).max_decoding_message_size(LONGEST_ANSWER);
        let ready = client.ready().await;
        ready.map_err(|error| Status::unavailable(cause(&error)))?;
        Ok(client)
    }

    fn late(&self, Call(call, _): Call) -> EtcdError {
        EtcdError::Timeout {
            endpoint: self.endpoint.clone(),
            call,
            timeout: self.timeout,
        }
    }

    /// What it is called when a watch does not say what it should.
    pub(super) fn silent(&self, why: &str) -> EtcdError {
        EtcdError::refused(&self.endpoint, WATCH.0, &Status::aborted(why))
    }

    pub(super) fn garbage(&self, Call(call, _): Call, why: &str) -> EtcdError {
        EtcdError::Garbage {
            endpoint: self.endpoint.clone(),
            call,
            why: why.to_owned(),
        }
    }
}

impl Watch {
    /// The next answer, if it comes by then.
    pub(super) async fn next(&mut self, by: Instant) -> Result<Option<WatchResponse>, EtcdError> {
        let refused = |status: &Status| EtcdError::refused(&self.endpoint, WATCH.0, status);
        match timeout_at(by, self.stream.message()).await {
            Err(_) => Ok(None),
            Ok(Err(status)) => Err(refused(&status)),
            Ok(Ok(Some(answer))) => Ok(Some(answer)),
            Ok(Ok(None)) => Err(refused(&Status::unavailable("the watch ended"))),
        }
    }

    /// What it is called when etcd ends a watch.
    pub(super) fn canceled(&self, why: &str) -> EtcdError {
        EtcdError::refused(&self.endpoint, WATCH.0, &Status::aborted(why))
    }
}

/// Whether an endpoint is one, and the files of certificates and passwords can be read.
pub(super) fn check(endpoint: &str, etcd: &Etcd) -> Result<(), EtcdError> {
    target(endpoint, etcd)?;
    if let Some(login) = &etcd.login {
        password(&login.password)?;
    }
    Ok(())
}

fn target(endpoint: &str, etcd: &Etcd) -> Result<Endpoint, EtcdError> {
    let refused = |why: String| EtcdError::Endpoint {
        endpoint: endpoint.to_owned(),
        why,
    };
    let is_tls = endpoint.starts_with("https://");
    if !is_tls && !endpoint.starts_with("http://") {
        return Err(refused(
            "it begins with neither `https://` nor `http://`".to_owned(),
        ));
    }
    if !is_tls && etcd.tls != Tls::default() {
        return Err(refused(
            "there are certificates for it, and it is no `https://`".to_owned(),
        ));
    }
    let target = Endpoint::from_shared(endpoint.to_owned()).map_err(|error| refused(cause(&error)))?;
    let target = target
        .connect_timeout(etcd.timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(etcd.timeout)
        // etcd hangs up on whoever asks whether it is there while nothing goes on.
        .keep_alive_while_idle(false);
    if !is_tls {
        return Ok(target);
    }
    let tls = tls(&etcd.tls)?;
    target.tls_config(tls).map_err(|error| refused(cause(&error)))
}

fn tls(files: &Tls) -> Result<ClientTlsConfig, EtcdError> {
    let mut config = ClientTlsConfig::new();
    config = match &files.authority {
        Some(authority) => config.ca_certificate(Certificate::from_pem(read(authority)?)),
        None => config.with_native_roots(),
    };
    if let Some((certificate, key)) = &files.identity {
        config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(config)
}

fn password(path: &Path) -> Result<String, EtcdError> {
    let text = String::from_utf8(read(path)?).unwrap_or_default();
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(EtcdError::Password(path.to_owned())),
        password => Ok(password.to_owned()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, EtcdError> {
    fs::read(path).map_err(|source| EtcdError::File {
        path: path.to_owned(),
        source,
    })
}
