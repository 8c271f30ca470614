//! An API server for tests that says what a script has it say.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ::kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Kube;
use super::list::Session;

/// How long anything may take before a test fails.
pub(super) const BOUND: Duration = Duration::from_secs(60);

/// What it says to a request.
pub(super) struct Reply {
    status: &'static str,
    body: String,
    /// Whether the answer ends with it. Otherwise nothing follows, and nobody says so.
    ends: bool,
}

/// An answer.
pub(super) fn says(body: impl ToString) -> Reply {
    Reply {
        status: "200 OK",
        body: body.to_string(),
        ends: true,
    }
}

/// A refusal.
pub(super) fn refuses(status: &'static str) -> Reply {
    Reply {
        status,
        body: json!({"kind": "Status", "code": status[..3].parse::<u16>().unwrap()}).to_string(),
        ends: true,
    }
}

/// Events, line by line.
pub(super) fn events(events: &[Value]) -> Reply {
    says(
        events
            .iter()
            .map(|event| format!("{event}\n"))
            .collect::<String>(),
    )
}

/// A namespace as events show it.
pub(super) fn namespace(name: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "resourceVersion": version}})
}

/// The event that it is there.
pub(super) fn added(name: &str, version: &str) -> Value {
    json!({"type": "ADDED", "object": namespace(name, version)})
}

/// The event that nothing else changed.
pub(super) fn bookmark(version: &str) -> Value {
    bookmark_with(version, &json!({}))
}

/// The event that ends a streaming list.
pub(super) fn end_of_list(version: &str) -> Value {
    bookmark_with(version, &json!({"k8s.io/initial-events-end": "true"}))
}

fn bookmark_with(version: &str, annotations: &Value) -> Value {
    let metadata = json!({"resourceVersion": version, "annotations": annotations});
    json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Any", "metadata": metadata}})
}

impl Reply {
    /// The same, after which it is silent.
    pub(super) fn and_stalls(self) -> Self {
        Self { ends: false, ..self }
    }
}

/// The server. It lasts as long as the process.
pub(super) struct Scripted {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    folder: TempDir,
}

impl Scripted {
    /// One that says to each request, which is its path with its query, what `script` does.
    pub(super) fn new(mut script: impl FnMut(&str) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        thread::spawn(move || {
            let mut stalled = Vec::new();
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let Some(request) = request(&client) else { continue };
                heard.lock().unwrap().push(request.clone());
                let reply = script(&request);
                begin(&mut client, reply.status);
                let _ = client.write_all(reply.body.as_bytes());
                if !reply.ends {
                    stalled.push(client);
                }
            }
        });
        Self {
            address,
            asked,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// What it was asked so far.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// The cluster that it serves, which may be silent for as long.
    pub(super) fn kube(&self, silence: Duration) -> Kube {
        let kubeconfig = self.folder.path().join("kubeconfig");
        let text = json!({
            "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": self.address}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        });
        fs::write(&kubeconfig, text.to_string()).unwrap();
        Kube {
            kubeconfig: Some(kubeconfig),
            silence,
            ..Kube::new(None, BOUND)
        }
    }
}

/// The way to a server at an address, in a runtime.
pub(super) fn session(server: &str) -> Session {
    Session {
        client: Client::try_from(Config::new(server.parse().unwrap())).unwrap(),
        server: server.to_owned(),
        timeout: BOUND,
        silence: BOUND,
    }
}

/// Reads a request, and returns its path with its query; `None` when there is none.
pub(super) fn request(client: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(client);
    let (mut first, mut length) = (String::new(), 0);
    lines.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        if let Some(count) = line.to_lowercase().strip_prefix("content-length:") {
            length = count.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    lines.read_exact(&mut vec![0; length]).ok()?;
    Some(first.split(' ').nth(1)?.to_owned())
}

/// Begins an answer.
pub(super) fn begin(client: &mut TcpStream, status: &str) {
    let _ = write!(client, "HTTP/1.1 {status}\r\nconnection: close\r\n\r\n");
}
