//! Single objects of a cluster: reading one, and writing one.

use http::{Method, Request};
use serde_json::Value;

use super::Kube;
use super::connect::{Connection, Numbered};
use super::error::KubeError;

/// What speaks to the API server about single objects. No request is repeated.
pub struct ApiServer {
    connection: Connection,
}

/// Why the API server does not do what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Refused {
    /// The status of HTTP: 404 where there is no such object, 409 where it is another than was thought.
    pub code: u16,
    /// What it says.
    pub message: String,
}

/// What the API server answers, or why it does not do what it is asked although it does its work.
pub type Answered = Result<Result<Value, Refused>, KubeError>;

impl ApiServer {
    /// Finds the way to the cluster; it has not been gone yet.
    ///
    /// # Errors
    /// When nothing says where it is.
    pub async fn open(kube: &Kube) -> Result<Self, KubeError> {
        let connection = Connection::open(kube).await?;
        Ok(Self { connection })
    }

    /// The object, or the list, at a path, as in `/api/v1/namespaces/default/pods/web`.
    ///
    /// # Errors
    /// When no answer comes.
    pub async fn get(&self, path: &str) -> Answered {
        self.ask(Method::GET, path, "", None).await
    }

    /// Creates an object in the list at a path.
    ///
    /// # Errors
    /// When nobody knows what became of it.
    pub async fn create(&self, list: &str, object: &Value) -> Answered {
        self.ask(Method::POST, list, "application/json", Some(object))
            .await
    }

    /// Makes an object another; only if it has the `resourceVersion` that `object` has, where it has one.
    ///
    /// # Errors
    /// When nobody knows what became of it.
    pub async fn replace(&self, path: &str, object: &Value) -> Answered {
        self.ask(Method::PUT, path, "application/json", Some(object))
            .await
    }

    /// Changes some fields of an object (RFC 7386).
    ///
    /// # Errors
    /// When nobody knows what became of it.
    pub async fn merge(&self, path: &str, fields: &Value) -> Answered {
        self.ask(Method::PATCH, path, "application/merge-patch+json", Some(fields))
            .await
    }

    /// Makes fields of an object what `object` says, and creates it if it is not there (server-side apply), by force.
    ///
    /// # Errors
    /// When nobody knows what became of it.
    pub async fn apply(&self, path: &str, manager: &str, object: &Value) -> Answered {
        let path = format!("{path}?fieldManager={manager}&force=true");
        self.ask(Method::PATCH, &path, "application/apply-patch+yaml", Some(object))
            .await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// When nobody knows what became of it.
    pub async fn delete(&self, path: &str) -> Answered {
        self.ask(Method::DELETE, path, "", None).await
    }

    async fn ask(&self, method: Method, path: &str, kind: &str, body: Option<&Value>) -> Answered {
        let Numbered { number, session } = self.connection.session().await;
        let what = format!("{} {path}", method.as_str().to_lowercase());
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, kind);
        }
        let body = body.map(|body| body.to_string().into_bytes());
        let request = request.body(body.unwrap_or_default());
        let request = request.map_err(|error| session.garbage(&what, &error.to_string()))?;
        let answer = session.ask(request, &what).await;
        if answer.is_err() {
            self.connection.renew(number).await?;
        }
        Ok(match answer? {
            Ok(text) => {
                let parsed = serde_json::from_str(&text);
                Ok(parsed.map_err(|error| session.garbage(&what, &error.to_string()))?)
            }
            Err(refusal) => Err(Refused {
                code: refusal.code,
                message: refusal.message,
            }),
        })
    }
}
