//! Asking an API server.

use std::time::Duration;

use ::kube::Client;
use ::kube::api::ListParams;
use ::kube::core::Request;
use serde_json::{Map, Value};

use super::error::KubeError;
use super::kind::Resource;
use crate::files::Text;
use crate::origin::Missing;

/// How many objects are asked for at once.
const PAGE: u32 = 500;

/// An API server that answers.
pub(super) struct Session {
    pub(super) client: Client,
    /// Its address, for people.
    pub(super) server: String,
    /// How long it may take for an answer.
    pub(super) timeout: Duration,
}

/// What it answers when it refuses.
struct Refusal {
    code: u16,
    message: String,
}

/// An answer, or why there is none although the API server does its work.
type Answer<T> = Result<Result<T, Refusal>, KubeError>;

impl Session {
    /// Every object of a kind in all namespaces, each as a text.
    pub(super) async fn list(&self, resource: &Resource) -> Result<Result<Vec<Text>, Missing>, KubeError> {
        let what = format!("list {}", resource.kind.full_name());
        let mut limit = Some(PAGE);
        'list: loop {
            let mut texts = Vec::new();
            let mut at = None;
            loop {
                let params = ListParams {
                    limit,
                    continue_token: at,
                    ..ListParams::default()
                };
                let mut page = match self.get(&resource.path(), &params, &what).await? {
                    Ok(page) => page,
                    // The objects changed so long ago since the last page that the server forgot what they were.
                    Err(refusal) if refusal.code == 410 && limit.is_some() => {
                        limit = None;
                        continue 'list;
                    }
                    Err(refusal) => return Ok(Err(refusal.of(resource.kind.full_name()))),
                };
                let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) else {
                    return Err(self.garbage(&what, "a list without `items`"));
                };
                for item in items {
                    texts.push(text(resource, item, texts.len()));
                }
                at = page
                    .pointer("/metadata/continue")
                    .and_then(Value::as_str)
                    .filter(|token| !token.is_empty())
                    .map(str::to_owned);
                if at.is_none() {
                    return Ok(Ok(texts));
                }
            }
        }
    }

    /// The groups of the API with each of their versions.
    pub(super) async fn groups(&self) -> Result<Result<Vec<(String, String)>, Missing>, KubeError> {
        let what = "get /apis";
        let page = match self.get("/apis", &ListParams::default(), what).await? {
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
        let page = match self.get(&path, &ListParams::default(), &what).await? {
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

    fn garbage(&self, what: &str, why: &str) -> KubeError {
        KubeError::Garbage {
            server: self.server.clone(),
            what: what.to_owned(),
            why: why.to_owned(),
        }
    }

    /// What the server answers, as JSON.
    async fn get(&self, path: &str, params: &ListParams, what: &str) -> Answer<Value> {
        let request = Request::new(path).list(params);
        let request = request.map_err(|error| self.garbage(what, &error.to_string()))?;
        let answer = tokio::time::timeout(self.timeout, self.client.request_text(request));
        let Ok(answer) = answer.await else {
            return Err(KubeError::Timeout {
                server: self.server.clone(),
                what: what.to_owned(),
                timeout: self.timeout,
            });
        };
        match answer {
            Ok(text) => serde_json::from_str(&text)
                .map(Ok)
                .map_err(|error| self.garbage(what, &error.to_string())),
            Err(::kube::Error::Api(status)) if status.code == 401 => Err(KubeError::Unauthorized {
                server: self.server.clone(),
                what: what.to_owned(),
                why: status.message,
            }),
            Err(::kube::Error::Api(status)) => Ok(Err(Refusal {
                code: status.code,
                message: status.message,
            })),
            Err(error) => Err(KubeError::unusable(&self.server, &error)),
        }
    }
}

impl Refusal {
    fn of(self, what: String) -> Missing {
        let Self { code, message } = self;
        Missing {
            what,
            why: format!("{message} ({code})"),
        }
    }
}

/// An object as a manifest. Lists leave out what all their items share.
fn text(resource: &Resource, item: Value, index: usize) -> Text {
    let part = |path| item.pointer(path).and_then(Value::as_str);
    let name = match (part("/metadata/namespace"), part("/metadata/name")) {
        (Some(namespace), Some(name)) => resource.kind.text_name(Some(namespace), name),
        (None, Some(name)) => resource.kind.text_name(None, name),
        (_, None) => resource.kind.text_name(None, &format!("#{index}")),
    };
    let item = match item {
        Value::Object(fields) => Value::Object(complete(resource, fields)),
        other => other,
    };
    Text {
        name: name.into(),
        bytes: format!("{item:#}\n").into_bytes(),
    }
}

fn complete(resource: &Resource, fields: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("apiVersion".to_owned(), resource.api_version().into());
    all.insert("kind".to_owned(), resource.kind.name.into());
    all.extend(fields);
    // Who wrote which field last: as long as the object, and nothing about connectivity.
    if let Some(Value::Object(metadata)) = all.get_mut("metadata") {
        metadata.shift_remove("managedFields");
    }
    all
}
