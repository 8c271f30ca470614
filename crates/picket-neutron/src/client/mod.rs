//! Speaking to Neutron: lists of what there is, and the few calls that change groups and ports.
//!
//! - [`Neutron`]: the client. Each of its functions is one operation, repeated where that is safe until it goes well or cannot.
//! - [`Cloud`]: where Keystone or Neutron is, and as whom it is asked.
//! - [`SecurityGroup`], [`AddressGroup`], [`Port`]: what Neutron has, with its ids; rules as [`SecurityGroupRule`], in which ids
//!   stand where [`Objects`] has names.
//! - [`Observer`]: sees every call, and may keep calls from being made.
//!
//! What may have been done although nothing was heard is looked up before it is asked for again, so that nothing is made twice.
//! Secrets are in no error and not shown by `Debug`.
//!
//! [`SecurityGroupRule`]: crate::SecurityGroupRule
//! [`Objects`]: crate::Objects

mod address_groups;
pub mod answer;
mod backoff;
mod call;
mod cloud;
mod error;
mod filter;
mod pace;
mod ports;
mod request;
mod rule;
mod secret;
mod security_groups;
mod session;
mod transport;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use smol_str::SmolStr;

pub use answer::{AddressGroup, Port, Quota, SecurityGroup};
pub use backoff::Backoff;
pub use call::{Call, Observer, Operation, Outcome};
pub use cloud::{Auth, Cloud, CloudError, Domain, Interface, Person, Project, Sources, User};
pub use error::{Error, Refusal};
pub use filter::Filter;
pub use rule::{Rule, normalised};
pub use secret::Secret;
pub use transport::TlsError;

use answer::{Listed, Page};
use pace::Pace;
use request::Request;
use session::Session;
use transport::Transport;

/// The most objects of one list. A server that says that there is always more is believed no longer.
const LONGEST_LIST: usize = 1_000_000;

/// How Neutron is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long one call may take.
    pub timeout: Duration,
    /// How often a call that may go well in a moment is made, the first time counted.
    pub attempts: u32,
    /// How long to wait in between.
    pub backoff: Backoff,
    /// The longest that Neutron may have us wait (`Retry-After`).
    pub longest_wait: Duration,
    /// How many calls there are at once.
    pub at_once: usize,
    /// How many calls begin in a second.
    pub per_second: u32,
    /// How many objects a page of a list has.
    pub page: usize,
    /// How many rules one call makes.
    pub bulk: usize,
    /// The most bytes of one answer.
    pub longest_answer: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            attempts: 5,
            backoff: Backoff::default(),
            longest_wait: Duration::from_secs(60),
            at_once: 8,
            per_second: 50,
            page: 200,
            bulk: 100,
            longest_answer: 32 << 20,
        }
    }
}

/// A client of one Neutron. It may be shared and used at once.
#[derive(Clone)]
pub struct Neutron(Arc<Inner>);

struct Inner {
    options: Options,
    transport: Transport,
    session: Session,
    pace: Pace,
    observer: Arc<dyn Observer>,
    began: Instant,
    /// Which no error may show.
    secrets: Vec<Secret>,
}

impl std::fmt::Debug for Neutron {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Neutron")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

impl Neutron {
    /// A client of the Neutron of a cloud. Nothing is asked yet.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub fn new(cloud: Cloud, options: Options, observer: Arc<dyn Observer>) -> Result<Self, TlsError> {
        let transport = Transport::new(cloud.authorities(), options.timeout, options.longest_answer)?;
        Ok(Self(Arc::new(Inner {
            options,
            transport,
            secrets: cloud.secrets(),
            session: Session::new(cloud),
            pace: Pace::new(options.at_once, options.per_second),
            observer,
            began: Instant::now(),
        })))
    }

    /// The project that the token is for; `None` where nobody asks for one and nobody says which.
    ///
    /// # Errors
    /// When no token is had.
    pub async fn project(&self) -> Result<Option<SmolStr>, Error> {
        let access = self.access().await?;
        Ok(access.project.clone())
    }

    /// The aliases of the extensions that there are.
    ///
    /// # Errors
    /// When they are not had.
    pub async fn extensions(&self) -> Result<BTreeSet<SmolStr>, Error> {
        let request = Request::new(Operation::ListExtensions, "", "extensions").query("fields=alias");
        self.repeated(&request).await?.read(answer::extensions)
    }

    /// Limits of a project, and how much of them is used, by what they are of, as `security_group_rule`.
    ///
    /// # Errors
    /// When they are not had.
    pub async fn quotas(&self, project: &str) -> Result<BTreeMap<SmolStr, Quota>, Error> {
        let path = format!("quotas/{}/details", filter::escaped(project));
        let request = Request::new(Operation::ShowQuotas, project, &path);
        self.repeated(&request).await?.read(answer::quotas)
    }

    /// All of a list, page by page, by id. What is there all the time is in it once; what comes or goes meanwhile may be.
    async fn list<T: Listed>(&self, operation: Operation, path: &str, query: &str) -> Result<Vec<T>, Error> {
        let mut all: Vec<T> = Vec::new();
        let mut page = self.0.options.page.max(1);
        loop {
            let marker = all
                .last()
                .map_or_else(String::new, |last| format!("&marker={}", last.id()));
            let query = format!("{query}&limit={page}&sort_key=id&sort_dir=asc{marker}");
            let request = Request::new(operation, "", path).query(&query);
            let Page { items, has_next } = match self.repeated(&request).await {
                Ok(answer) => answer.read(answer::page::<T>)?,
                Err(Error::TooLong { .. }) if page > 1 => {
                    page /= 2;
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Neutron may have a limit of its own below ours.
            let is_last = items.is_empty() || (!has_next && items.len() < page);
            let is_ascending = |from: Option<&T>| {
                let ids = from.into_iter().chain(&items).map(Listed::id);
                ids.is_sorted_by(|a, b| a < b)
            };
            if !is_ascending(all.last()) || all.len() + items.len() > LONGEST_LIST {
                return Err(Error::garbage(
                    &request.call,
                    "the list is in no order, or has no end",
                ));
            }
            all.extend(items);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// One object, if it is there.
    async fn show<T: Listed>(&self, operation: Operation, path: &str, id: &str) -> Result<Option<T>, Error> {
        let path = format!("{path}/{}", filter::escaped(id));
        let request = Request::new(operation, id, &path);
        match self.repeated(&request).await {
            Ok(answer) => answer.read(answer::one::<T>).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes; whether it was there. Who does not hear the answer the first time learns the second time that it is gone.
    async fn delete(&self, operation: Operation, path: &str, id: &str) -> Result<bool, Error> {
        let path = format!("{path}/{}", filter::escaped(id));
        match self.repeated(&Request::new(operation, id, &path)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives an object exactly these tags.
    ///
    /// # Errors
    /// When it does not have them then, or nobody knows.
    pub async fn replace_tags(&self, of: Tagged, id: &str, tags: &BTreeSet<SmolStr>) -> Result<(), Error> {
        let path = format!("{}/{}/tags", of.path(), filter::escaped(id));
        let body = serde_json::json!({"tags": tags});
        let request = Request::new(Operation::ReplaceTags, id, &path).body(&body);
        self.repeated(&request).await.map(drop)
    }
}

/// What has tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagged {
    /// A security group.
    SecurityGroup,
    /// A port.
    Port,
}

impl Tagged {
    fn path(self) -> &'static str {
        match self {
            Self::SecurityGroup => "security-groups",
            Self::Port => "ports",
        }
    }
}
