//! Asking an API server.

use std::time::Duration;

use ::kube::Client;
use ::kube::api::{ListParams, PostParams};
use ::kube::client::Body;
use ::kube::core::{Request, Status};
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::KubeError;
use super::item::{Item, mapping};
use super::kind::Resource;
use super::shape::OBJECT;
use crate::files::Text;
use crate::origin::Missing;

/// How many objects are asked for at once.
const PAGE: u32 = 500;

/// How many bytes what a server says of what it was given may have.
const SHORT: usize = 65_536;

/// An API server that answers.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) client: Client,
    /// Its address, for people.
    pub(super) server: String,
    /// How long it may take for an answer.
    pub(super) timeout: Duration,
    /// How long it may say nothing while it is followed.
    pub(super) silence: Duration,
}

/// What it answers when it refuses.
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) message: String,
}

/// An answer, or why there is none although the API server does its work.
pub(super) type Answer<T> = Result<Result<T, Refusal>, KubeError>;

/// A list that is asked for page by page.
pub(super) struct Pages {
    resource: Resource,
    limit: Option<u32>,
    at: Place,
}

enum Place {
    Start,
    After(String),
    End,
}

/// Some objects of a list.
pub(super) struct Page {
    /// Whether the list begins with it. It does so again when the server has forgotten what the list was.
    pub(super) is_first: bool,
    /// The objects.
    pub(super) items: Vec<Box<RawValue>>,
    /// The `resourceVersion` at which the list is right.
    pub(super) version: String,
}

/// A page as the server writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListPage {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "mapping")]
    metadata: ListMetadata,
    items: Vec<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMetadata {
    #[serde(rename = "resourceVersion")]
    version: String,
    #[serde(rename = "continue")]
    rest: String,
}

impl ListPage {
    /// Why it is no page of a list of `resource`, if it is none. What is not in a list is gone: whatever answers in the place of an API server
    /// must not be taken for one that is empty.
    fn wrong(&self, resource: &Resource) -> Option<String> {
        let (api_version, kind) = (&self.api_version, &self.kind);
        if *api_version != resource.api_version() || !resource.kind.has_list(kind) {
            return Some(format!(
                "a list of {}, but of kind `{kind}` in `{api_version}`",
                resource.kind.name
            ));
        }
        let is_nowhere = self.metadata.version.is_empty();
        is_nowhere.then(|| "a list without a `resourceVersion`".to_owned())
    }
}

impl Pages {
    /// The objects of `resource` in all namespaces.
    pub(super) fn of(resource: Resource) -> Self {
        Self {
            resource,
            limit: Some(PAGE),
            at: Place::Start,
        }
    }

    /// The next page; `None` after the last.
    pub(super) async fn next(&mut self, session: &Session) -> Answer<Option<Page>> {
        let what = format!("list {}", self.resource.kind.full_name());
        loop {
            let after = match &self.at {
                Place::Start => None,
                Place::After(token) => Some(token.clone()),
                Place::End => return Ok(Ok(None)),
            };
            let params = ListParams {
                limit: self.limit,
                continue_token: after.clone(),
                ..ListParams::default()
            };
            let page: ListPage = match session.get(&self.resource.path(), &params, &what).await? {
                Ok(page) => page,
                // The objects changed so long ago since the last page that the server forgot what they were.
                Err(refusal) if refusal.code == 410 && self.limit.is_some() => {
                    (self.limit, self.at) = (None, Place::Start);
                    continue;
                }
                Err(refusal) => return Ok(Err(refusal)),
            };
            if let Some(why) = page.wrong(&self.resource) {
                return Err(session.garbage(&what, &why));
            }
            let ListMetadata { version, rest } = page.metadata;
            self.at = match rest.is_empty() {
                true => Place::End,
                false => Place::After(rest),
            };
            return Ok(Ok(Some(Page {
                is_first: after.is_none(),
                items: page.items,
                version,
            })));
        }
    }
}

impl Session {
    /// Every object of a kind in all namespaces, each as a text.
    pub(super) async fn list(&self, resource: &Resource) -> Result<Result<Vec<Text>, Missing>, KubeError> {
        let mut texts = Vec::new();
        let mut pages = Pages::of(*resource);
        loop {
            let page = match pages.next(self).await? {
                Ok(Some(page)) => page,
                Ok(None) => return Ok(Ok(texts)),
                Err(refusal) => return Ok(Err(refusal.of(resource.kind.full_name()))),
            };
            if page.is_first {
                texts.clear();
            }
            for item in &page.items {
                texts.push(text(resource, item, texts.len()));
            }
        }
    }

    /// Whether there is a list of a kind in all namespaces; else what the server says.
    pub(super) async fn has_list(&self, resource: &Resource) -> Answer<()> {
        let one = ListParams::default().limit(1);
        let what = format!("list {}", resource.kind.full_name());
        let answer = self.get::<IgnoredAny>(&resource.path(), &one, &what).await?;
        Ok(answer.map(|_| ()))
    }

    /// The groups of the API with each of their versions.
    pub(super) async fn groups(&self) -> Result<Result<Vec<(String, String)>, Missing>, KubeError> {
        let what = "get /apis";
        let page: Value = match self.get("/apis", &ListParams::default(), what).await? {
            Ok(page) => page,
            Err(refusal) => return Ok(Err(refusal.of("custom resources".to_owned()))),
        };
        let groups = self.array(&page, "groups", what)?;
        let mut found = Vec::new();
        for group in groups {
            for version in self.array(group, "versions", what)? {
                found.push((
                    self.name(group, "name", what)?,
                    self.name(version, "version", what)?,
                ));
            }
        }
        Ok(Ok(found))
    }

    /// The kinds of a version of a group.
    pub(super) async fn kinds(
        &self,
        group: &str,
        version: &str,
    ) -> Result<Result<Vec<String>, Missing>, KubeError> {
        let path = format!("/apis/{group}/{version}");
        let what = format!("get {path}");
        let page: Value = match self.get(&path, &ListParams::default(), &what).await? {
            Ok(page) => page,
            // It went between the two questions.
            Err(refusal) if refusal.code == 404 => return Ok(Ok(Vec::new())),
            Err(refusal) => return Ok(Err(refusal.of(format!("resources of {group}/{version}")))),
        };
        let resources = self.array(&page, "resources", &what)?;
        let kinds = resources
            .iter()
            .map(|resource| self.name(resource, "kind", &what));
        kinds.collect::<Result<_, _>>().map(Ok)
    }

    fn array<'a>(&self, of: &'a Value, field: &str, what: &str) -> Result<&'a Vec<Value>, KubeError> {
        let found = of.get(field).and_then(Value::as_array);
        found.ok_or_else(|| self.garbage(what, &format!("no list `{field}`")))
    }

    fn name(&self, of: &Value, field: &str, what: &str) -> Result<String, KubeError> {
        let found = of.get(field).and_then(Value::as_str).map(str::to_owned);
        found.ok_or_else(|| self.garbage(what, &format!("no text `{field}`")))
    }

    pub(super) fn garbage(&self, what: &str, why: &str) -> KubeError {
        KubeError::Garbage {
            server: self.server.clone(),
            what: what.to_owned(),
            why: why.to_owned(),
        }
    }

    pub(super) fn timed_out(&self, what: &str, timeout: Duration) -> KubeError {
        KubeError::Timeout {
            server: self.server.clone(),
            what: what.to_owned(),
            timeout,
        }
    }

    pub(super) fn unauthorized(&self, what: &str, why: String) -> KubeError {
        KubeError::Unauthorized {
            server: self.server.clone(),
            what: what.to_owned(),
            why,
        }
    }

    /// What the server answers, as JSON.
    async fn get<T: DeserializeOwned>(&self, path: &str, params: &ListParams, what: &str) -> Answer<T> {
        let request = Request::new(path).list(params);
        let request = request.map_err(|error| self.garbage(what, &error.to_string()))?;
        let text = match self.ask(request, what).await? {
            Ok(text) => text,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let parsed = serde_json::from_str(&text);
        parsed
            .map(Ok)
            .map_err(|error| self.garbage(what, &error.to_string()))
    }

    /// Creates an object in the list at `path`. What the server says of it is read no further than anything is worth knowing.
    pub(super) async fn create(&self, path: &str, object: &Value, what: &str) -> Answer<()> {
        let request = Request::new(path).create(&PostParams::default(), object.to_string().into_bytes());
        let request = request.map_err(|error| self.garbage(what, &error.to_string()))?;
        let answer = tokio::time::timeout(self.timeout, self.begin(request));
        let Ok(answer) = answer.await else {
            return Err(self.timed_out(what, self.timeout));
        };
        let (code, said) = answer.map_err(|error| KubeError::unusable(&self.server, &error))?;
        if code.is_success() {
            return Ok(Ok(()));
        }
        let message = match serde_json::from_slice::<Status>(&said) {
            Ok(status) => status.message,
            Err(_) => String::from_utf8_lossy(&said).trim().to_owned(),
        };
        match code.as_u16() {
            401 => Err(self.unauthorized(what, message)),
            code => Ok(Err(Refusal { code, message })),
        }
    }

    /// How the server answers, and what it says, if that is short.
    async fn begin(&self, request: http::Request<Vec<u8>>) -> ::kube::Result<(StatusCode, Vec<u8>)> {
        let response = self.client.send(request.map(Body::from)).await?;
        let code = response.status();
        // Read to its end, so that the connection can be used again.
        let said = Limited::new(response.into_body(), SHORT).collect().await;
        let said = said.map(|said| said.to_bytes().to_vec());
        Ok((code, said.unwrap_or_default()))
    }

    /// What the server answers, as text.
    pub(super) async fn ask(&self, request: http::Request<Vec<u8>>, what: &str) -> Answer<String> {
        let answer = tokio::time::timeout(self.timeout, self.client.request_text(request));
        let Ok(answer) = answer.await else {
            return Err(self.timed_out(what, self.timeout));
        };
        match answer {
            Ok(text) => Ok(Ok(text)),
            Err(::kube::Error::Api(status)) if status.code == 401 => {
                Err(self.unauthorized(what, status.message))
            }
            Err(::kube::Error::Api(status)) => Ok(Err(Refusal {
                code: status.code,
                message: status.message,
            })),
            Err(error) => Err(KubeError::unusable(&self.server, &error)),
        }
    }
}

impl Refusal {
    pub(super) fn of(self, what: String) -> Missing {
        let Self { code, message } = self;
        Missing {
            what,
            why: format!("{message} ({code})"),
        }
    }
}

/// An object as a manifest.
fn text(resource: &Resource, raw: &RawValue, index: usize) -> Text {
    let item = Item::read(resource, raw, OBJECT);
    let name = match (&item.namespace, &item.name) {
        (namespace, Some(name)) => resource.kind.text_name(namespace.as_deref(), name),
        (_, None) => resource.kind.text_name(None, &format!("#{index}")),
    };
    Text {
        name: name.into(),
        bytes: item.pretty(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use serde_json::json;
    use tokio::runtime::Builder;

    use super::super::scripted::{request, session};
    use super::*;

    /// Reads a request, and begins an answer.
    fn begin(client: &mut TcpStream, status: &str) {
        request(client).unwrap();
        super::super::scripted::begin(client, status);
    }

    /// What becomes of an object that is given to a server which answers so.
    fn given(answer: impl FnOnce(TcpStream) + Send + 'static) -> Answer<()> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let answering = thread::spawn(move || answer(listener.accept().unwrap().0));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let created = runtime.block_on(async {
            let session = session(&server);
            session.create("/api/v1/events", &json!({"a": 1}), "create").await
        });
        // With it go its connections.
        drop(runtime);
        answering.join().unwrap();
        created
    }

    /// Says something for as long as anybody listens.
    fn endless(head: &'static str) -> impl FnOnce(TcpStream) + Send {
        move |mut client| {
            begin(&mut client, head);
            while client.write_all(&[b' '; 4096]).is_ok() {}
        }
    }

    #[test]
    fn what_a_server_says_without_end_is_not_read() {
        assert!(matches!(given(endless("201 Created")), Ok(Ok(()))));
        let Ok(Err(refusal)) = given(endless("403 Forbidden")) else {
            panic!("it was refused");
        };
        assert_eq!((refusal.code, refusal.message.as_str()), (403, ""));
    }

    #[test]
    fn what_a_server_says_is_why() {
        let says = |head: &'static str, body: &'static str| {
            move |mut client: TcpStream| {
                begin(&mut client, head);
                client.write_all(body.as_bytes()).unwrap();
            }
        };
        let refused = |head, body| match given(says(head, body)) {
            Ok(Err(refusal)) => (refusal.code, refusal.message),
            _ => panic!("it was refused"),
        };
        let status = r#"{"kind": "Status", "message": "it is there", "code": 409}"#;
        assert_eq!(refused("409 Conflict", status), (409, "it is there".to_owned()));
        assert_eq!(
            refused("502 Bad Gateway", "<p>proxy\n"),
            (502, "<p>proxy".to_owned())
        );
        assert!(matches!(
            given(says("401 Unauthorized", status)),
            Err(KubeError::Unauthorized { .. })
        ));
        assert!(matches!(given(says("201 Created", "{}")), Ok(Ok(()))));
        assert!(given(drop).is_err());
    }
}
