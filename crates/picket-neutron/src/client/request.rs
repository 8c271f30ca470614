//! One call: the token it carries, how long it may take, and how often it is made.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, IF_MATCH, RETRY_AFTER, USER_AGENT};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::answer;
use super::call::{Call, Operation, Outcome};
use super::error::{Error, Refusal};
use super::secret::Secret;
use super::session::{Access, Identity, Issued};
use super::transport::{Answer, Failure};
use super::{Inner, Neutron};

/// How often to look whether to wait on.
const LOOK: Duration = Duration::from_millis(200);

/// What Neutron is asked.
pub(super) struct Request {
    pub(super) call: Call,
    /// Behind the version.
    path: String,
    query: String,
    body: Vec<u8>,
    if_match: Option<i64>,
}

impl Request {
    pub(super) fn new(operation: Operation, subject: &str, path: &str) -> Self {
        Self {
            call: Call::new(operation, subject),
            path: path.to_owned(),
            query: String::new(),
            body: Vec::new(),
            if_match: None,
        }
    }

    pub(super) fn query(mut self, query: &str) -> Self {
        query.trim_start_matches('&').clone_into(&mut self.query);
        self
    }

    pub(super) fn body(mut self, body: &Value) -> Self {
        self.body = body.to_string().into_bytes();
        self
    }

    /// Only if this is the revision still.
    pub(super) fn if_match(mut self, revision: Option<i64>) -> Self {
        self.if_match = revision;
        self
    }
}

/// An answer to a call that went well.
pub(super) struct Answered<'a> {
    call: &'a Call,
    body: Vec<u8>,
    inner: &'a Inner,
    token: Option<Secret>,
}

impl Answered<'_> {
    /// What it says.
    pub(super) fn read<T>(&self, read: impl Fn(&[u8]) -> Result<T, String>) -> Result<T, Error> {
        let hidden = |why: String| self.inner.hidden(why, self.token.as_ref());
        read(&self.body).map_err(|why| Error::garbage(self.call, &hidden(why)))
    }
}

impl Neutron {
    /// Makes a call that may be made twice, until it goes well or cannot.
    pub(super) async fn repeated<'a>(&'a self, request: &'a Request) -> Result<Answered<'a>, Error> {
        let mut failures = 0;
        loop {
            match self.once(request).await {
                Err(error) if error.is_temporary() => {
                    failures += 1;
                    self.wait(failures, error).await?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Waits before a call is made again after so many failures, unless there were too many.
    pub(super) async fn wait(&self, failures: u32, error: Error) -> Result<(), Error> {
        let options = &self.0.options;
        if failures >= options.attempts {
            return Err(error);
        }
        let asked = error.refusal().and_then(|refusal| refusal.retry_after);
        let wait = options.backoff.after(failures, fastrand::f64());
        let mut left = asked.unwrap_or_default().min(options.longest_wait).max(wait);
        while !left.is_zero() {
            if !self.0.observer.is_patient() {
                return Err(error);
            }
            let part = left.min(LOOK);
            sleep(part).await;
            left -= part;
        }
        Ok(())
    }

    /// What calls need to know.
    pub(super) async fn access(&self) -> Result<Arc<Access>, Error> {
        let mut failures = 0;
        loop {
            match self.0.session.access(&*self.0).await {
                Err(error) if error.is_temporary() => {
                    failures += 1;
                    self.wait(failures, error).await?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Makes a call once; twice where the token no longer counted the first time, since then nothing was done.
    pub(super) async fn once<'a>(&'a self, request: &'a Request) -> Result<Answered<'a>, Error> {
        let access = self.0.session.access(&*self.0).await?;
        match self.0.send(request, &access).await {
            Err(error) if error.has_status(401) && self.0.session.give_up(&access).await => {
                let access = self.0.session.access(&*self.0).await?;
                self.0.send(request, &access).await
            }
            outcome => outcome,
        }
    }
}

impl Inner {
    async fn send<'a>(&'a self, request: &'a Request, access: &Access) -> Result<Answered<'a>, Error> {
        let mut url = format!("{}/{}", access.endpoint, request.path);
        if !request.query.is_empty() {
            url.push('?');
            url.push_str(&request.query);
        }
        let mut headers = HeaderMap::new();
        if let Some(token) = &access.token {
            let mut value = HeaderValue::from_str(token.expose())
                .map_err(|_| Error::garbage(&request.call, "the token cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert("x-auth-token", value);
        }
        if let Some(revision) = request.if_match {
            let value = HeaderValue::try_from(format!("revision_number={revision}"));
            headers.extend(value.ok().map(|value| (IF_MATCH, value)));
        }
        let answer = self
            .exchange(
                &request.call,
                &url,
                headers,
                request.body.clone(),
                access.token.as_ref(),
            )
            .await?;
        Ok(Answered {
            call: &request.call,
            body: answer.body,
            inner: self,
            token: access.token.clone(),
        })
    }

    /// Asks once, and tells the observer how it went.
    async fn exchange(
        &self,
        call: &Call,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
        token: Option<&Secret>,
    ) -> Result<Answer, Error> {
        let _turn = self.pace.begin().await;
        let limit = self.options.timeout;
        if !call.operation.is_read() && !self.observer.permits(call.operation, limit) {
            return Err(Error::NotPermitted { call: call.clone() });
        }
        let mut request = http::Request::new(body);
        *request.uri_mut() = url
            .parse()
            .map_err(|_| Error::garbage(call, &format!("`{url}` is no address of a server")))?;
        let method = call.operation.method().as_bytes();
        *request.method_mut() = http::Method::from_bytes(method).unwrap_or_default();
        *request.headers_mut() = headers;
        let fixed = [
            (ACCEPT, "application/json"),
            (CONTENT_TYPE, "application/json"),
            (USER_AGENT, concat!("picket/", env!("CARGO_PKG_VERSION"))),
        ];
        let fixed = fixed.map(|(name, value)| (name, HeaderValue::from_static(value)));
        request.headers_mut().extend(fixed);
        let began = Instant::now();
        let answer = timeout(limit, self.transport.exchange(request)).await;
        let outcome = self.judge(call, answer, token);
        let told = outcome.as_ref().err().map_or(Outcome::Done, Error::outcome);
        self.observer.called(call.operation, told, began.elapsed());
        outcome
    }

    fn judge<E>(
        &self,
        call: &Call,
        answer: Result<Result<Answer, Failure>, E>,
        token: Option<&Secret>,
    ) -> Result<Answer, Error> {
        let answer = answer.map_err(|_| Error::TimedOut {
            call: call.clone(),
            limit: self.options.timeout,
        })?;
        let answer = answer.map_err(|failure| match failure {
            Failure::Unreachable(why) => Error::Unreachable {
                call: call.clone(),
                why,
            },
            Failure::Cut(why) => Error::Cut {
                call: call.clone(),
                why,
            },
            Failure::TooLong => Error::TooLong {
                call: call.clone(),
                longest: self.options.longest_answer,
            },
        })?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        let (kind, message) = answer::error(&answer.body);
        let refusal = Refusal::new(
            answer.status.as_u16(),
            &self.hidden(kind, token),
            &self.hidden(message, token),
            retry_after(&answer.headers),
        );
        Err(Error::refused(call, refusal))
    }
}

impl Inner {
    /// The words of a server without any secret: it may repeat what it was sent.
    fn hidden(&self, text: String, token: Option<&Secret>) -> String {
        let secrets = self.secrets.iter().chain(token);
        secrets.fold(text, |text, secret| secret.hide_in(&text))
    }
}

/// How long a server wants to be left alone, where it says so in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

impl Identity for Inner {
    async fn issue(&self, url: &str, body: &Value) -> Result<Issued, Error> {
        let call = Call::new(Operation::Authenticate, "");
        let body = body.to_string().into_bytes();
        let answer = self.exchange(&call, url, HeaderMap::new(), body, None).await?;
        let token = answer.headers.get("x-subject-token");
        let token = token.and_then(|token| token.to_str().ok());
        let token = token.ok_or_else(|| self.garbage("there is no `X-Subject-Token`"))?;
        Ok(Issued {
            token: Secret::new(token),
            body: answer.body,
        })
    }

    fn garbage(&self, why: &str) -> Error {
        let why = self.hidden(why.to_owned(), None);
        Error::garbage(&Call::new(Operation::Authenticate, ""), &why)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}
