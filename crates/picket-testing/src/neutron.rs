//! A real Neutron, and a real Keystone, and a client of them that shares nothing with picket's.
//!
//! `cargo xtask programs` builds them, and `cargo xtask test` does so first; a test that finds none fails.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::etcd::certificates;
use crate::program::NEUTRON;

/// A Neutron on this machine with a database of its own. It ends when this is dropped, and with the thread that started it.
pub struct Neutron {
    child: Option<Child>,
    folder: TempDir,
    port: u16,
    keystone: Option<Keystone>,
    has_tls: bool,
}

/// The Keystone beside a Neutron that wants tokens.
struct Keystone {
    port: u16,
    token_seconds: u32,
    /// Whether Neutron asks about a token only once.
    is_remembered: bool,
    /// A token of the administrator, for what tests ask themselves.
    token: String,
}

impl Keystone {
    /// Says who asks.
    fn head(&self) -> String {
        format!("x-auth-token: {}\r\n", self.token)
    }
}

/// An answer over HTTP.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The lines before the body.
    pub head: String,
    /// The body, if it is JSON.
    pub body: Value,
}

impl Neutron {
    /// Starts one that lets everybody do everything in the project `fake_project_id`, and waits until it can be asked.
    #[must_use]
    pub fn start() -> Self {
        let mut neutron = Self::new(None);
        neutron.restart();
        neutron
    }

    /// Starts one that wants tokens of a Keystone, which is started with it and gives tokens that last so many seconds.
    ///
    /// `admin` with the password `secret` is administrator in the project `admin`, all in the domain `Default`.
    #[must_use]
    pub fn start_with_keystone(token_seconds: u32) -> Self {
        Self::start_beside(token_seconds, false)
    }

    /// The same with tokens that last for an hour. Neutron does not hear that one counts for nothing any more: asking about it takes
    /// longer than most of what is asked with it.
    #[must_use]
    pub fn start_with_lasting_tokens() -> Self {
        Self::start_beside(3600, true)
    }

    fn start_beside(token_seconds: u32, is_remembered: bool) -> Self {
        let mut neutron = Self::new(Some(Keystone {
            port: 0,
            token_seconds,
            is_remembered,
            token: String::new(),
        }));
        neutron.restart();
        neutron
    }

    /// Starts one that shows a certificate, whose authority is in `ca.pem` in its folder; in `other.pem` there is another. Only
    /// picket can ask it.
    #[must_use]
    pub fn start_with_tls() -> Self {
        let mut neutron = Self::new(None);
        certificates(neutron.folder());
        neutron.has_tls = true;
        neutron.restart();
        neutron
    }

    fn new(keystone: Option<Keystone>) -> Self {
        Self {
            child: None,
            folder: tempfile::tempdir().unwrap(),
            port: 0,
            keystone,
            has_tls: false,
        }
    }

    /// Where Neutron is.
    #[must_use]
    pub fn endpoint(&self) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where Keystone is.
    ///
    /// # Panics
    /// When it has none.
    #[must_use]
    pub fn identity(&self) -> String {
        format!("http://127.0.0.1:{}/v3", self.keystone().port)
    }

    fn keystone(&self) -> &Keystone {
        self.keystone.as_ref().unwrap()
    }

    /// Ends it without order. It can be started again.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts it again with what it had; Neutron at the same address.
    pub fn restart(&mut self) {
        self.kill();
        let python = NEUTRON.path();
        let templates = python.ancestors().nth(2).unwrap().join("templates");
        let state = self.folder.path().join("state");
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(&python)
            .args(["-B", "-W", "ignore"])
            .arg(NEUTRON.sources().join("servers.py"))
            .args([&templates, &state])
            .args(["--port", &self.port.to_string()]);
        if let Some(keystone) = &self.keystone {
            command.args(["--keystone", &keystone.token_seconds.to_string()]);
            command.args(keystone.is_remembered.then_some("--remember"));
        }
        if self.has_tls {
            command.arg("--tls");
            command.args(["server.pem", "server.key"].map(|file| self.folder().join(file)));
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(self.errors()).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = child.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        let Some(ports) = line.strip_prefix("READY ") else {
            let errors = fs::read_to_string(self.errors()).unwrap();
            panic!("no Neutron: {line}{errors}");
        };
        self.child = Some(child);
        let ports: Value = serde_json::from_str(ports).unwrap();
        let port = |name: &str| u16::try_from(ports[name].as_u64().unwrap()).unwrap();
        self.port = port("neutron");
        if let Some(keystone) = &mut self.keystone {
            keystone.port = port("keystone");
            keystone.token = administrator(keystone.port);
        }
    }

    /// What it says before it has a log.
    fn errors(&self) -> PathBuf {
        self.folder.path().join("errors")
    }

    /// What they logged.
    #[must_use]
    pub fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.folder().join("state").join(name));
        ["neutron.log", "keystone.log"]
            .into_iter()
            .filter_map(|name| read(name).ok())
            .collect()
    }

    /// A folder that lasts as long.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Asks Neutron for what must succeed, as an administrator; the answer's body. The path begins behind `/v2.0/`.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.try_ask(method, path, body);
        assert!(
            (200..300).contains(&answer.status),
            "{method} {path} {body}: {} {}",
            answer.status,
            answer.body
        );
        answer.body
    }

    /// The same for what may fail.
    #[must_use]
    pub fn try_ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let head = self.keystone.as_ref().map(Keystone::head);
        ask(
            self.port,
            method,
            &format!("/v2.0/{path}"),
            &head.unwrap_or_default(),
            body,
        )
    }

    /// The same of Keystone, behind `/v3/`.
    pub fn ask_keystone(&self, method: &str, path: &str, body: &Value) -> Value {
        let keystone = self.keystone();
        let path = format!("/v3/{path}");
        let answer = ask(keystone.port, method, &path, &keystone.head(), body);
        assert!(
            (200..300).contains(&answer.status),
            "{path}: {} {}",
            answer.status,
            answer.body
        );
        answer.body
    }

    /// Makes a token count for nothing.
    pub fn revoke(&self, token: &str) {
        let keystone = self.keystone();
        let head = format!("x-auth-token: {}\r\nx-subject-token: {token}\r\n", keystone.token);
        let answer = ask(keystone.port, "DELETE", "/v3/auth/tokens", &head, &Value::Null);
        assert_eq!(answer.status, 204, "{}", answer.body);
    }

    /// All of a list, as `security-groups`.
    #[must_use]
    pub fn list(&self, kind: &str) -> Vec<Value> {
        let answer = self.ask("GET", kind, &Value::Null);
        let kind = kind.split('?').next().unwrap_or_default().replace('-', "_");
        answer[kind].as_array().unwrap().clone()
    }

    /// Makes a network with these subnets; its id.
    pub fn create_network(&self, subnets: &[&str]) -> String {
        let network = self.ask("POST", "networks", &json!({"network": {"name": "pods"}}));
        let network = id(&network["network"]);
        for subnet in subnets {
            let version = if subnet.contains(':') { 6 } else { 4 };
            let subnet =
                json!({"network_id": network, "ip_version": version, "cidr": subnet, "enable_dhcp": false});
            self.ask("POST", "subnets", &json!({"subnet": subnet}));
        }
        network
    }

    /// Makes a port there that has no group; its id.
    pub fn create_port(&self, network: &str, name: &str) -> String {
        let port = json!({"network_id": network, "name": name, "security_groups": []});
        id(&self.ask("POST", "ports", &json!({"port": port}))["port"])
    }
}

impl Drop for Neutron {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Nothing of it is kept, so that it need not end in good order.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn id(object: &Value) -> String {
    object["id"].as_str().unwrap().to_owned()
}

/// A token of the administrator.
fn administrator(keystone: u16) -> String {
    let domain = json!({"id": "default"});
    let user = json!({"name": "admin", "domain": domain, "password": "secret"});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": "admin", "domain": domain}},
    }});
    let answer = ask(keystone, "POST", "/v3/auth/tokens", "", &body);
    let token = answer
        .head
        .lines()
        .find_map(|line| line.strip_prefix("X-Subject-Token: "));
    token
        .unwrap_or_else(|| panic!("no token: {}", answer.head))
        .to_owned()
}

/// Asks over HTTP, with these lines in the head, each with its end.
fn ask(port: u16, method: &str, path: &str, lines: &str, body: &Value) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let request = format!(
        "{method} {path} HTTP/1.0\r\ncontent-type: application/json\r\n{lines}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: serde_json::from_str(body).unwrap_or_default(),
    }
}
