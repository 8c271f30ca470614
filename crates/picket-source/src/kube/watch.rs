//! Watching the objects of one kind (Kubernetes API concepts, "Efficient detection of changes").
//!
//! A watch begins with a list: a streaming one, object by object, where the API server has that, else one in pages. Both
//! are consistent reads, so that an API server that lags behind another never takes us back. From there on the server
//! says what changes, until it forgets where we are (410): then a list is made again, and what was known holds until
//! that is complete. A failure costs nothing but time: the next attempt goes on where the last one was.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::kube::api::WatchParams;
use ::kube::core::{Request, WatchEvent};
use futures_util::{Stream, StreamExt};
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout};

use super::backoff::{Backoff, random};
use super::connect::{Connection, Numbered};
use super::error::KubeError;
use super::follow::Message;
use super::item::Item;
use super::kind::Resource;
use super::list::{Pages, Refusal, Session};
use super::listener::Kept;
use super::shape::NAME;
use crate::live::{Name, Step};

/// How many seconds the API server may send events before it ends the answer, and up to how many more.
const DURATION: (u32, f64) = (290, 60.0);

/// How long a connection lasts that the server did not only make to end it.
const STEADY: Duration = Duration::from_secs(10);

/// The annotation of the bookmark that ends a streaming list.
const END_OF_LIST: &str = "k8s.io/initial-events-end";

/// What a watch has to say.
pub(super) enum News<O> {
    /// The server answers.
    Answered,
    /// Something became known.
    Step(Step<O>),
    /// Everything is known up to this `resourceVersion`.
    Reached(String),
    /// It failed and will try again.
    Failed {
        /// Why.
        why: String,
        /// Whether the server says that there is no such kind.
        is_absent: bool,
    },
}

/// A watch of one kind, and which of all that there have been.
pub(super) struct Watch<O> {
    pub(super) resource: Resource,
    pub(super) number: u64,
    pub(super) connection: Arc<Connection>,
    pub(super) news: Sender<Message<O>>,
}

/// Where a watch is.
struct Progress {
    /// The `resourceVersion` up to which everything is known; `None` when a list is needed.
    version: Option<String>,
    /// Whether to ask for streaming lists.
    streams: bool,
    backoff: Backoff,
}

/// Why an attempt ended.
enum Stop {
    /// The server ended an answer, as it does from time to time.
    Ended,
    /// The server no longer knows what changed since.
    Forgotten,
    /// The server gave no streaming list.
    NoStream(String),
    /// The server refuses.
    Refused(Refusal),
    /// There is no sensible answer.
    Failed(KubeError),
    /// Nobody listens any more.
    Unheard,
}

impl From<KubeError> for Stop {
    fn from(error: KubeError) -> Self {
        Self::Failed(error)
    }
}

impl<O: Kept> Watch<O> {
    /// Watches until nobody listens.
    pub(super) async fn run(self) {
        let mut progress = Progress {
            version: None,
            streams: true,
            backoff: Backoff::default(),
        };
        loop {
            let Numbered { number, session } = self.connection.session().await;
            let began = Instant::now();
            let stop = match self.attempt(&session, &mut progress).await {
                Ok(()) => Stop::Ended,
                Err(stop) => stop,
            };
            if began.elapsed() > STEADY {
                progress.backoff.reset();
            }
            let is_end = matches!(stop, Stop::Ended);
            let is_absent = matches!(&stop, Stop::Refused(refusal) if refusal.code == 404);
            let why = match stop {
                Stop::Unheard => return,
                Stop::Ended => "the answer ended".to_owned(),
                Stop::Forgotten => {
                    progress.version = None;
                    "the server forgot what changed since: listing again".to_owned()
                }
                Stop::NoStream(why) => {
                    progress.streams = false;
                    format!("no streaming list: {why}")
                }
                Stop::Refused(Refusal { code, message }) => format!("{message} ({code})"),
                Stop::Failed(error) => error.to_string(),
            };
            let renewed = match is_end {
                true => Ok(()),
                false => self.connection.renew(number).await,
            };
            let why = renewed.map_or_else(|error| error.to_string(), |()| why);
            // An answer that lasted and ended is no failure.
            let failed = !(is_end && progress.backoff.is_fresh());
            if failed && self.tell(News::Failed { why, is_absent }).await.is_err() {
                return;
            }
            sleep(progress.backoff.next()).await;
        }
    }

    async fn tell(&self, news: News<O>) -> Result<(), Stop> {
        let sent = self.news.send(Message::Watched(self.number, news)).await;
        sent.map_err(|_| Stop::Unheard)
    }

    async fn attempt(&self, session: &Session, progress: &mut Progress) -> Result<(), Stop> {
        if progress.version.is_none() && !progress.streams {
            progress.version = Some(self.list(session).await?);
        }
        self.events(session, progress).await
    }

    /// Lists in pages. Returns the version of the list.
    async fn list(&self, session: &Session) -> Result<String, Stop> {
        let mut pages = Pages::of(self.resource);
        let mut version = String::new();
        loop {
            let page = match pages.next(session).await? {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(refusal) => return Err(Stop::Refused(refusal)),
            };
            if page.is_first {
                self.tell(News::Answered).await?;
                self.tell(News::Step(Step::Begin)).await?;
            }
            for raw in &page.items {
                let (found, _) = self.found(session, raw)?;
                self.tell(News::Step(Step::Listed(found))).await?;
            }
            version = page.version;
        }
        self.tell(News::Step(Step::End)).await?;
        self.tell(News::Reached(version.clone())).await?;
        Ok(version)
    }

    /// Takes in events, those of a streaming list first if there is no version yet.
    async fn events(&self, session: &Session, progress: &mut Progress) -> Result<(), Stop> {
        let mut is_list = progress.version.is_none();
        let what = format!("watch {}", self.resource.kind.full_name());
        let mut events = pin!(self.open(session, progress, &what).await?);
        if is_list {
            self.tell(News::Step(Step::Begin)).await?;
        }
        self.tell(News::Answered).await?;
        loop {
            let Ok(event) = timeout(session.silence, events.next()).await else {
                let error = session.timed_out(&what, session.silence);
                // A server that does not know streaming lists may begin one and never say that it is complete.
                return Err(if is_list {
                    Stop::NoStream(error.to_string())
                } else {
                    error.into()
                });
            };
            let event = match event {
                Some(Ok(event)) => event,
                Some(Err(error)) => return Err(stop(session, &what, error)),
                // The next one might end there, too, and so on for ever.
                None if is_list => {
                    return Err(Stop::NoStream("the answer ended before the list".to_owned()));
                }
                None => return Ok(()),
            };
            let (step, version) = self.step(session, event, &mut is_list)?;
            if let Some(step) = step {
                self.tell(News::Step(step)).await?;
            }
            // Until the list is complete, there is nothing to go on from.
            if !is_list {
                self.tell(News::Reached(version.clone())).await?;
                progress.version = Some(version);
            }
        }
    }

    /// What an event says, if anything, and up to which version everything is known with it.
    fn step(
        &self,
        session: &Session,
        event: WatchEvent<Box<RawValue>>,
        is_list: &mut bool,
    ) -> Result<(Option<Step<O>>, String), Stop> {
        Ok(match event {
            WatchEvent::Added(raw) | WatchEvent::Modified(raw) => {
                let (found, version) = self.found(session, &raw)?;
                let step = match is_list {
                    true => Step::Listed(found),
                    false => Step::Apply(found),
                };
                (Some(step), version)
            }
            WatchEvent::Deleted(raw) => {
                let item = Item::read(&self.resource, &raw, NAME);
                let (name, version) = self.name(session, &item)?;
                (Some(Step::Delete(name)), version)
            }
            WatchEvent::Bookmark(bookmark) => {
                let metadata = bookmark.metadata;
                if metadata.resource_version.is_empty() {
                    return Err(self.garbage(session, "a bookmark without a `resourceVersion`"));
                }
                let ends = *is_list && metadata.annotations.contains_key(END_OF_LIST);
                *is_list &= !ends;
                (ends.then_some(Step::End), metadata.resource_version)
            }
            WatchEvent::Error(status) => return Err(refused(status.code, status.message)),
        })
    }

    /// Asks for events.
    async fn open(
        &self,
        session: &Session,
        progress: &Progress,
        what: &str,
    ) -> Result<impl Stream<Item = ::kube::Result<WatchEvent<Box<RawValue>>>> + use<O>, Stop> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is at most a minute"
        )]
        let more = (random() * DURATION.1) as u32;
        let params = WatchParams {
            timeout: Some(DURATION.0 + more),
            bookmarks: true,
            send_initial_events: progress.version.is_none(),
            ..WatchParams::default()
        };
        let version = progress.version.as_deref().unwrap_or_default();
        let request = Request::new(self.resource.path()).watch(&params, version);
        let request = request.map_err(|error| session.garbage(what, &error.to_string()))?;
        let answer = timeout(session.timeout, session.client.request_events(request)).await;
        match answer {
            Err(_) => Err(session.timed_out(what, session.timeout).into()),
            Ok(Ok(events)) => Ok(events),
            Ok(Err(::kube::Error::Api(status)))
                if progress.version.is_none() && [400, 422, 500].contains(&status.code) =>
            {
                Err(Stop::NoStream(status.message))
            }
            Ok(Err(error)) => Err(stop(session, what, error)),
        }
    }

    /// What an object is called, and the version of its last change.
    fn name(&self, session: &Session, item: &Item) -> Result<(Name, String), Stop> {
        let version = item.version.as_ref().filter(|version| !version.is_empty());
        let (Some(name), Some(version)) = (&item.name, version) else {
            return Err(self.garbage(session, "an object without a name or version"));
        };
        let name = Name {
            namespace: item.namespace.as_deref().unwrap_or_default().into(),
            name: name.into(),
        };
        Ok((name, version.clone()))
    }

    /// An object as it is now, and the version of that.
    fn found(&self, session: &Session, raw: &RawValue) -> Result<(O, String), Stop> {
        let item = Item::read(&self.resource, raw, O::shape(self.resource.kind));
        let (name, version) = self.name(session, &item)?;
        let text = text_of(&name);
        let found = O::read(&self.resource, name, item, raw)
            .ok_or_else(|| self.garbage(session, &format!("`{text}` is of another kind")))?;
        Ok((found, version))
    }

    fn garbage(&self, session: &Session, why: &str) -> Stop {
        let what = format!("watch {}", self.resource.kind.full_name());
        session.garbage(&what, why).into()
    }
}

fn text_of(name: &Name) -> String {
    format!("{}/{}", name.namespace, name.name)
}

fn stop(session: &Session, what: &str, error: ::kube::Error) -> Stop {
    match error {
        ::kube::Error::Api(status) if status.code == 401 => session.unauthorized(what, status.message).into(),
        // What is no event is taken for a status, all of whose fields may be missing.
        ::kube::Error::Api(status) if status.code == 0 => {
            session.garbage(what, "a line that is no event").into()
        }
        ::kube::Error::Api(status) => refused(status.code, status.message),
        ::kube::Error::SerdeError(error) => session.garbage(what, &error.to_string()).into(),
        error => KubeError::unusable(&session.server, &error).into(),
    }
}

fn refused(code: u16, message: String) -> Stop {
    match code {
        410 => Stop::Forgotten,
        _ => Stop::Refused(Refusal { code, message }),
    }
}

#[cfg(test)]
mod tests;
