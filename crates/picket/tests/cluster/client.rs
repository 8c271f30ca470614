//! A client of the API server for tests, which shares nothing with what is tested but the transport.

use std::path::{Path, PathBuf};

use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{Request, Status};
use kube::{Client, Config};
use picket_testing::apiserver::Server;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

pub(crate) struct Api {
    runtime: Runtime,
    client: Client,
}

/// A server that has nothing but what every cluster has, and a client of an administrator.
pub(crate) fn serve() -> (Server, PathBuf, Api) {
    let server = Server::start();
    let kubeconfig = server.kubeconfig();
    let api = Api::new(&kubeconfig);
    (server, kubeconfig, api)
}

/// Lists that are never empty, and how much of them every server makes.
const OWN: [(&str, usize); 2] = [("/api/v1/namespaces", 4), ("/api/v1/services", 1)];

/// What the server answers to an object that it takes, or does not.
pub(crate) type Answer = Result<Value, Box<Status>>;

fn answered(answer: kube::Result<Value>) -> Answer {
    match answer {
        Ok(object) => Ok(object),
        Err(kube::Error::Api(status)) => Err(status),
        Err(error) => panic!("{error}"),
    }
}

impl Api {
    /// Who the kubeconfig says, once the server has made what it makes by itself after it is ready.
    pub(crate) fn new(kubeconfig: &Path) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .unwrap();
            config.proxy_url = None;
            Client::try_from(config).unwrap()
        });
        let api = Self { runtime, client };
        while OWN.iter().any(|(path, count)| api.list(path).len() < *count) {}
        api
    }

    /// Creates an object in the list at `path`.
    pub(crate) fn try_create(&self, path: &str, object: &Value) -> Answer {
        let body = serde_json::to_vec(object).unwrap();
        let request = Request::new(path).create(&PostParams::default(), body).unwrap();
        answered(self.runtime.block_on(self.client.request(request)))
    }

    /// Replaces some fields of an object, or of a subresource of it.
    pub(crate) fn try_patch(
        &self,
        path: &str,
        name: &str,
        subresource: Option<&str>,
        fields: &Value,
    ) -> Answer {
        let (request, params) = (Request::new(path), PatchParams::default());
        let patch = Patch::Merge(fields);
        let request = match subresource {
            Some(subresource) => request.patch_subresource(subresource, name, &params, &patch),
            None => request.patch(name, &params, &patch),
        };
        answered(self.runtime.block_on(self.client.request(request.unwrap())))
    }

    pub(crate) fn create(&self, path: &str, object: &Value) -> Value {
        self.try_create(path, object)
            .unwrap_or_else(|status| panic!("{path}: {}\n{object}", status.message))
    }

    /// Creates an object that may be too deep to be read here.
    pub(crate) fn create_unread(&self, path: &str, object: &str) {
        let request = Request::new(path)
            .create(&PostParams::default(), object.into())
            .unwrap();
        self.runtime.block_on(self.client.request_text(request)).unwrap();
    }

    /// Creates an object that is written in YAML, with no field that the server does not know.
    pub(crate) fn create_yaml(&self, path: &str, object: &str) -> Value {
        let created = self.try_create_yaml(path, object);
        created.unwrap_or_else(|status| panic!("{path}: {}\n{object}", status.message))
    }

    /// The same of what the server may refuse.
    pub(crate) fn try_create_yaml(&self, path: &str, object: &str) -> Answer {
        let strictly = format!("{path}?fieldValidation=Strict");
        self.send("POST", &strictly, "application/yaml", object.into())
    }

    /// Makes an object what is written in YAML, with no field that the server does not know, as `kubectl apply --server-side` does.
    pub(crate) fn apply_yaml(&self, path: &str, name: &str, object: &str) -> Value {
        let by_force = format!("{path}/{name}?fieldManager=test&force=true&fieldValidation=Strict");
        self.send("PATCH", &by_force, "application/apply-patch+yaml", object.into())
            .unwrap_or_else(|status| panic!("{path}: {}\n{object}", status.message))
    }

    /// Sends what the client has no request for.
    fn send(&self, method: &str, uri: &str, content_type: &str, body: Vec<u8>) -> Answer {
        let mut request = Request::new("/").create(&PostParams::default(), body).unwrap();
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = uri.parse().unwrap();
        let content_type = content_type.parse().unwrap();
        request.headers_mut().insert("content-type", content_type);
        answered(self.runtime.block_on(self.client.request(request)))
    }

    /// Sets fields of an object's status, as a kubelet does.
    pub(crate) fn set_status(&self, path: &str, name: &str, status: &Value) -> Value {
        self.try_patch(path, name, Some("status"), &json!({ "status": status }))
            .unwrap_or_else(|status| panic!("{path}: {}", status.message))
    }

    /// Replaces some fields of an object.
    pub(crate) fn patch(&self, path: &str, name: &str, fields: &Value) -> Value {
        self.try_patch(path, name, None, fields)
            .unwrap_or_else(|status| panic!("{path}: {}", status.message))
    }

    /// Changes an object by operations (RFC 6902).
    pub(crate) fn patch_by(&self, path: &str, name: &str, operations: &Value) -> Value {
        let (uri, body) = (format!("{path}/{name}"), operations.to_string());
        self.send("PATCH", &uri, "application/json-patch+json", body.into())
            .unwrap_or_else(|status| panic!("{path}: {}", status.message))
    }

    /// Reads an object and puts it back with another `spec`, as `kubectl edit` and `kubectl replace` do.
    pub(crate) fn replace_spec(&self, path: &str, name: &str, spec: &Value) {
        let read = Request::new(path).get(name, &GetParams::default()).unwrap();
        let mut object: Value = self.runtime.block_on(self.client.request(read)).unwrap();
        object["spec"] = spec.clone();
        let body = serde_json::to_vec(&object).unwrap();
        let write = Request::new(path)
            .replace(name, &PostParams::default(), body)
            .unwrap();
        self.runtime
            .block_on(self.client.request::<Value>(write))
            .unwrap();
    }

    /// Deletes an object at once.
    pub(crate) fn delete(&self, path: &str, name: &str) {
        let request = Request::new(path)
            .delete(name, &DeleteParams::default().grace_period(0))
            .unwrap();
        self.runtime.block_on(self.client.request_text(request)).unwrap();
    }

    /// Waits until the server no longer knows what changed since `version`.
    pub(crate) fn await_forgotten(&self, path: &str, version: &str) {
        let watch = WatchParams::default().timeout(1);
        loop {
            let request = Request::new(path).watch(&watch, version).unwrap();
            let answer = self.runtime.block_on(self.client.request_text(request));
            match answer {
                Ok(events) if events.contains("\"code\":410") => return,
                Err(kube::Error::Api(status)) if status.code == 410 => return,
                Ok(_) => {}
                Err(error) => panic!("{path}: {error}"),
            }
        }
    }

    /// The objects of the list at `path`, in any order.
    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        self.list_where(path, "")
    }

    /// Those of which fields are as a selector says, as in `metadata.name=web`.
    pub(crate) fn list_where(&self, path: &str, fields: &str) -> Vec<Value> {
        let request = Request::new(path)
            .list(&ListParams::default().fields(fields))
            .unwrap();
        let list: Value = self.runtime.block_on(self.client.request(request)).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Waits until the list at `path` is served.
    pub(crate) fn await_list(&self, path: &str) {
        while !self.is_served(path) {}
    }

    /// Waits until the list at `path` is not served any more.
    pub(crate) fn await_no_list(&self, path: &str) {
        while self.is_served(path) {}
    }

    fn is_served(&self, path: &str) -> bool {
        let request = Request::new(path).list(&ListParams::default()).unwrap();
        let answer = self.runtime.block_on(self.client.request::<Value>(request));
        answer.is_ok()
    }
}
