//! Where Neutron is, and who asks: tokens of Keystone, and the catalogue that comes with them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::sync::Mutex;

use super::answer;
use super::cloud::{Auth, Cloud, Domain, Project, User};
use super::error::Error;
use super::secret::Secret;

/// A token is renewed when a quarter of its time is left, or this.
const EARLY: Duration = Duration::from_secs(300);

/// How long a token that could not be renewed is used on before Keystone is asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a call needs to know.
pub(super) struct Access {
    /// Where Neutron is, with its version, as `http://neutron:9696/v2.0`.
    pub(super) endpoint: String,
    /// The project that the token is for, where it is known.
    pub(super) project: Option<SmolStr>,
    /// `None` where nobody asks for one.
    pub(super) token: Option<Secret>,
    /// When to renew it and when it ends, as [`Identity::now`] says.
    renew_at: Option<Duration>,
    ends_at: Option<Duration>,
}

/// What Keystone answers to who asks for a token.
pub(super) struct Issued {
    pub(super) token: Secret,
    pub(super) body: Vec<u8>,
}

/// What asks Keystone.
pub(super) trait Identity {
    /// Asks `POST {url}` with this body.
    async fn issue(&self, url: &str, body: &Value) -> Result<Issued, Error>;

    /// What an answer that is none is called.
    fn garbage(&self, why: &str) -> Error;

    /// How long it is since some moment.
    fn now(&self) -> Duration;
}

/// Keeps a token that counts.
pub(super) struct Session {
    cloud: Cloud,
    access: Mutex<Option<Arc<Access>>>,
}

impl Session {
    pub(super) fn new(cloud: Cloud) -> Self {
        Self {
            cloud,
            access: Mutex::new(None),
        }
    }

    /// What counts now, gotten anew where its time is nearly over. Whoever asks meanwhile waits for the same.
    pub(super) async fn access(&self, identity: &impl Identity) -> Result<Arc<Access>, Error> {
        let mut access = self.access.lock().await;
        let now = identity.now();
        if let Some(known) = &*access {
            if known.renew_at.is_none_or(|at| now < at) {
                return Ok(Arc::clone(known));
            }
            match self.obtain(identity).await {
                Ok(renewed) => return Ok(Arc::clone(access.insert(Arc::new(renewed)))),
                // It counts for a while yet.
                Err(error)
                    if error.is_temporary() && known.ends_at.is_some_and(|end| now + PATIENCE < end) =>
                {
                    let later = Access {
                        endpoint: known.endpoint.clone(),
                        project: known.project.clone(),
                        token: known.token.clone(),
                        renew_at: Some(now + PATIENCE),
                        ends_at: known.ends_at,
                    };
                    return Ok(Arc::clone(access.insert(Arc::new(later))));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Arc::clone(access.insert(Arc::new(self.obtain(identity).await?))))
    }

    /// Gives up what no longer counts, unless somebody has done so before. Whether asking again may help.
    pub(super) async fn give_up(&self, stale: &Arc<Access>) -> bool {
        if stale.token.is_none() {
            return false;
        }
        let mut access = self.access.lock().await;
        if access.as_ref().is_some_and(|known| Arc::ptr_eq(known, stale)) {
            *access = None;
        }
        true
    }

    async fn obtain(&self, identity: &impl Identity) -> Result<Access, Error> {
        let Auth::Keystone { url, user, project } = &self.cloud.auth else {
            return Ok(self.open());
        };
        let asked = identity.now();
        let url = format!("{}/v3/auth/tokens", without_version(url));
        let issued = identity.issue(&url, &question(user, project.as_ref())).await?;
        let token: Answer =
            answer::json(&String::from_utf8_lossy(&issued.body)).map_err(|why| identity.garbage(&why))?;
        let token = token.token;
        let endpoint = match &self.cloud.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => token.endpoint(&self.cloud)?,
        };
        // By Keystone's own clock, which may go otherwise than ours.
        let lasts = token.issued_at.and_then(|issued| {
            let lasts = token.expires_at.as_ref()?.duration_since(issued);
            Duration::try_from(lasts).ok()
        });
        Ok(Access {
            endpoint: with_version(&endpoint),
            project: token.project.map(|project| project.id),
            token: Some(issued.token),
            renew_at: lasts.map(|lasts| asked + lasts - EARLY.min(lasts / 4)),
            ends_at: lasts.map(|lasts| asked + lasts),
        })
    }

    /// Where nobody asks for a token.
    fn open(&self) -> Access {
        let (endpoint, project) = match &self.cloud.auth {
            Auth::None { endpoint, project } => (endpoint.as_str(), project.clone()),
            Auth::Keystone { url, .. } => (url.as_str(), None),
        };
        Access {
            endpoint: with_version(self.cloud.endpoint.as_deref().unwrap_or(endpoint)),
            project,
            token: None,
            renew_at: None,
            ends_at: None,
        }
    }
}

/// What Keystone is asked (Identity API v3, `POST /v3/auth/tokens`).
fn question(user: &User, project: Option<&Project>) -> Value {
    let identity = match user {
        User::Password { user, password } => json!({
            "methods": ["password"],
            "password": {"user": named(user, "password", password)},
        }),
        User::ApplicationCredential { id, secret } => json!({
            "methods": ["application_credential"],
            "application_credential": {"id": id, "secret": secret.expose()},
        }),
        User::NamedApplicationCredential { name, user, secret } => json!({
            "methods": ["application_credential"],
            "application_credential": {"name": name, "user": user_json(user), "secret": secret.expose()},
        }),
    };
    match project {
        None => json!({"auth": {"identity": identity}}),
        Some(Project::Id(id)) => json!({"auth": {"identity": identity, "scope": {"project": {"id": id}}}}),
        Some(Project::Name { name, domain }) => {
            let project = json!({"name": name, "domain": domain_json(domain)});
            json!({"auth": {"identity": identity, "scope": {"project": project}}})
        }
    }
}

fn named(user: &super::cloud::Person, key: &str, secret: &Secret) -> Value {
    let mut user = user_json(user);
    if let Some(user) = user.as_object_mut() {
        user.insert(key.to_owned(), secret.expose().into());
    }
    user
}

fn user_json(user: &super::cloud::Person) -> Value {
    match user {
        super::cloud::Person::Id(id) => json!({"id": id}),
        super::cloud::Person::Name { name, domain } => json!({"name": name, "domain": domain_json(domain)}),
    }
}

fn domain_json(domain: &Domain) -> Value {
    match domain {
        Domain::Id(id) => json!({"id": id}),
        Domain::Name(name) => json!({"name": name}),
    }
}

#[derive(Deserialize)]
struct Answer {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    issued_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    project: Option<Scope>,
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Deserialize)]
struct Scope {
    id: SmolStr,
}

#[derive(Deserialize)]
struct Service {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: String,
    url: String,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

impl Token {
    /// Where Neutron is.
    fn endpoint(&self, cloud: &Cloud) -> Result<String, Error> {
        let interface = cloud.interface.name();
        let of_neutron = self.catalog.iter().filter(|service| service.kind == "network");
        let mut endpoints = of_neutron.flat_map(|service| &service.endpoints);
        let is_in = |endpoint: &Endpoint, region: &str| {
            ["region_id", "region"]
                .iter()
                .any(|key| endpoint.rest.get(*key).and_then(Value::as_str) == Some(region))
        };
        let found = endpoints.find(|endpoint| {
            let region = cloud.region.as_deref();
            endpoint.interface == interface && region.is_none_or(|region| is_in(endpoint, region))
        });
        found
            .map(|endpoint| endpoint.url.clone())
            .ok_or_else(|| Error::NoEndpoint {
                interface,
                region: cloud.region.clone(),
            })
    }
}

/// An address of Keystone without the version at its end.
fn without_version(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    let version = ["/v3", "/v2.0"]
        .into_iter()
        .find_map(|version| url.strip_suffix(version));
    version.unwrap_or(url).trim_end_matches('/')
}

/// An address of Neutron with the version at its end.
fn with_version(url: &str) -> String {
    let url = url.trim_end_matches('/');
    match url.ends_with("/v2.0") {
        true => url.to_owned(),
        false => format!("{url}/v2.0"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::runtime::Builder;

    use super::*;
    use crate::client::call::{Call, Operation};

    #[test]
    fn addresses_have_their_versions() {
        for (given, keystone, neutron) in [
            ("http://a", "http://a", "http://a/v2.0"),
            ("http://a/", "http://a", "http://a/v2.0"),
            (
                "http://a/identity/v3/",
                "http://a/identity",
                "http://a/identity/v3/v2.0",
            ),
            ("http://a/v2.0/", "http://a", "http://a/v2.0"),
        ] {
            assert_eq!(without_version(given), keystone);
            assert_eq!(with_version(given), neutron);
        }
    }

    /// A Keystone that answers what it is told, and counts how often it is asked. Time passes when it is told to.
    struct Fake {
        seconds: u32,
        is_away: Cell<bool>,
        asked: Cell<u32>,
        now: Cell<Duration>,
    }

    impl Fake {
        /// One whose tokens last so many seconds.
        fn lasting(seconds: u32) -> Self {
            Self {
                seconds,
                is_away: Cell::new(false),
                asked: Cell::new(0),
                now: Cell::new(Duration::ZERO),
            }
        }

        fn pass(&self, seconds: u64) {
            self.now.set(self.now.get() + Duration::from_secs(seconds));
        }
    }

    impl Identity for Fake {
        async fn issue(&self, url: &str, _: &Value) -> Result<Issued, Error> {
            assert_eq!(url, "http://keystone/v3/auth/tokens");
            self.asked.set(self.asked.get() + 1);
            let call = Call::new(Operation::Authenticate, "");
            if self.is_away.get() {
                let why = "away".to_owned();
                return Err(Error::Unreachable { call, why });
            }
            let body = json!({"token": {
                "issued_at": "2001-01-01T00:00:00.000000Z",
                "expires_at": format!("2001-01-01T00:{:02}:{:02}.000000Z", self.seconds / 60, self.seconds % 60),
                "project": {"id": "p"},
                "catalog": [{"type": "network", "endpoints": [{"interface": "public", "url": "http://neutron/"}]}],
            }});
            Ok(Issued {
                token: Secret::new(self.asked.get().to_string()),
                body: body.to_string().into_bytes(),
            })
        }

        fn garbage(&self, why: &str) -> Error {
            Error::garbage(&Call::new(Operation::Authenticate, ""), why)
        }

        fn now(&self) -> Duration {
            self.now.get()
        }
    }

    fn session() -> Session {
        let user = User::ApplicationCredential {
            id: "i".to_owned(),
            secret: Secret::new("s"),
        };
        let url = "http://keystone/v3/".to_owned();
        Session::new(Cloud {
            auth: Auth::Keystone {
                url,
                user,
                project: None,
            },
            ..Cloud::open("")
        })
    }

    fn run(test: impl Future<Output = ()>) {
        Builder::new_current_thread().build().unwrap().block_on(test);
    }

    #[test]
    fn a_token_is_had_anew_before_it_ends() {
        run(async {
            let (session, keystone) = (session(), Fake::lasting(1000));
            // A quarter of its time before.
            for (seconds, asked) in [(0, 1), (749, 1), (2, 2), (700, 2), (60, 3)] {
                keystone.pass(seconds);
                let access = session.access(&keystone).await.ok().unwrap();
                assert_eq!(keystone.asked.get(), asked);
                assert_eq!(access.token, Some(Secret::new(asked.to_string())));
                assert_eq!(access.endpoint, "http://neutron/v2.0");
                assert_eq!(access.project.as_deref(), Some("p"));
            }
            // And at once where it counts no longer, once for all who learn that.
            let stale = session.access(&keystone).await.ok().unwrap();
            assert!(session.give_up(&stale).await);
            session.access(&keystone).await.ok().unwrap();
            assert!(session.give_up(&stale).await);
            session.access(&keystone).await.ok().unwrap();
            assert_eq!(keystone.asked.get(), 4);
        });
    }

    #[test]
    fn a_token_that_cannot_be_renewed_counts_as_long_as_it_lasts() {
        run(async {
            let (session, keystone) = (session(), Fake::lasting(100));
            session.access(&keystone).await.ok().unwrap();
            keystone.is_away.set(true);
            for (seconds, asked, counts) in [(76, 2, true), (5, 2, true), (5, 3, true), (10, 4, false)] {
                keystone.pass(seconds);
                let access = session.access(&keystone).await;
                assert_eq!(keystone.asked.get(), asked);
                let token = access.ok().and_then(|access| access.token.clone());
                assert_eq!(token, counts.then(|| Secret::new("1")));
            }
            keystone.is_away.set(false);
            let access = session.access(&keystone).await.ok().unwrap();
            assert_eq!(access.token, Some(Secret::new("5")));
        });
    }
}
