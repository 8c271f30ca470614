//! A real etcd, and a client of it that shares nothing with picket's: the gateway that etcd has for HTTP and JSON.
//!
//! Debian's package `etcd-server` brings the program; `cargo xtask test` installs it. A test that finds none fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

/// What a log says of an etcd that can be asked.
const READY: &str = "ready to serve client requests";

/// A member of an etcd on this machine, which has no others unless they are started with it. It ends when this is dropped, and with the thread that started it.
pub struct Etcd {
    child: Option<Child>,
    folder: TempDir,
    ports: [u16; 2],
    scheme: &'static str,
    flags: Vec<String>,
    name: String,
    /// All members, as `--initial-cluster` has them.
    members: String,
}

impl Etcd {
    /// Starts one and waits until it is ready.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with flags of etcd.
    #[must_use]
    pub fn start_with(flags: &[&str]) -> Self {
        let mut etcd = Self::new("default", flags, ports([(); 2]));
        etcd.restart();
        etcd
    }

    /// Starts three that are one etcd, of which any two go on without the third, and waits until all are ready.
    #[must_use]
    pub fn start_three() -> [Self; 3] {
        // All ports are had at once, so that none is had twice.
        let [a, b, c, d, e, f] = ports([(); 6]);
        let named = [("a", [a, b]), ("b", [c, d]), ("c", [e, f])];
        let mut three = named.map(|(name, ports)| Self::new(name, &[], ports));
        let members = three.each_ref().map(|member| member.members.clone()).join(",");
        // None is ready before others are there.
        let logs = three.each_mut().map(|member| {
            member.members.clone_from(&members);
            member.spawn()
        });
        logs.into_iter().for_each(await_ready);
        three
    }

    fn new(name: &str, flags: &[&str], ports: [u16; 2]) -> Self {
        Self {
            child: None,
            folder: tempfile::tempdir().unwrap(),
            ports,
            scheme: "http",
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            name: name.to_owned(),
            members: format!("{name}=http://127.0.0.1:{}", ports[1]),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.ports[0])
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// A folder that lasts as long.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends it without order. It can be started again.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts it again with the keys that it had, at the same address.
    pub fn restart(&mut self) {
        self.kill();
        await_ready(self.spawn());
    }

    /// Starts it; what it says.
    fn spawn(&mut self) -> BufReader<ChildStderr> {
        let [client, peer] = self.ports.map(|port| format!("127.0.0.1:{port}"));
        let (client, peer) = (format!("{}://{client}", self.scheme), format!("http://{peer}"));
        let mut command = Command::new("setpriv");
        let mut child = command
            .args(["--pdeathsig", "KILL", "etcd", "--data-dir"])
            .arg(self.data())
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--name", &self.name, "--initial-cluster", &self.members])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        self.child = Some(child);
        log
    }

    /// Whether it is the one of its members that all changes go through.
    #[must_use]
    pub fn leads(&self) -> bool {
        let status = self.ask("maintenance/status", &json!({}));
        status["leader"] == status["header"]["member_id"]
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts another in its place that knows nothing.
    pub fn replace(&mut self) {
        self.kill();
        fs::remove_dir_all(self.data()).unwrap();
        self.restart();
    }

    /// Copies what it holds, which is not running then for a moment.
    #[must_use]
    pub fn back_up(&mut self) -> TempDir {
        self.kill();
        let copy = tempfile::tempdir().unwrap();
        copy_all(&self.data(), copy.path());
        self.restart();
        copy
    }

    /// Sets it back to what it held then.
    pub fn set_back(&mut self, copy: &TempDir) {
        self.kill();
        fs::remove_dir_all(self.data()).unwrap();
        copy_all(copy.path(), &self.data());
        self.restart();
    }

    /// Stops it (`STOP`), and lets it go on (`CONT`).
    pub fn signal(&self, signal: &str) {
        crate::signal::signal(self.child.as_ref().unwrap().id(), signal);
    }

    /// Starts it again with TLS: it shows a certificate, and wants one. The files are `ca.pem`, `client.pem` and
    /// `client.key` in its folder, and `other.pem` of an authority that it does not know.
    pub fn secure(&mut self) {
        let folder = self.folder.path();
        certificates(folder);
        let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        self.flags.extend([
            format!("--cert-file={}", file("server.pem")),
            format!("--key-file={}", file("server.key")),
            format!("--trusted-ca-file={}", file("ca.pem")),
            "--client-cert-auth".to_owned(),
        ]);
        self.scheme = "https";
        self.restart();
    }

    /// Wants a password from now on: `secret` of each of these users, who has a right (as in `READWRITE`) to all keys that begin
    /// so, and no other.
    pub fn demand_passwords(&self, users: &[(&str, &str, &str)]) {
        self.add_user("root", "root");
        for (user, right, prefix) in users {
            self.add_user(user, "secret");
            let (start, end) = (encode(prefix.as_bytes()), encode(&after(prefix)));
            let right = json!({"permType": right, "key": start, "range_end": end});
            self.ask("auth/role/grant", &json!({"name": user, "perm": right}));
        }
        self.ask("auth/enable", &json!({}));
    }

    /// Knows somebody by a password, in a role that is called the same.
    fn add_user(&self, name: &str, password: &str) {
        self.ask("auth/user/add", &json!({"name": name, "password": password}));
        self.ask("auth/role/add", &json!({"name": name}));
        self.ask("auth/user/grant", &json!({"user": name, "role": name}));
    }

    /// Changes keys in one transaction: each gets a value, or goes.
    pub fn change(&self, keys: &[(&str, Option<&str>)]) {
        let operations = keys.iter().map(|(key, value)| match value {
            Some(value) => {
                json!({"request_put": {"key": encode(key.as_bytes()), "value": encode(value.as_bytes())}})
            }
            None => json!({"request_delete_range": {"key": encode(key.as_bytes())}}),
        });
        let operations: Vec<_> = operations.collect();
        self.ask("kv/txn", &json!({"success": operations}));
    }

    /// Writes a key.
    pub fn put(&self, key: &str, value: &str) {
        self.change(&[(key, Some(value))]);
    }

    /// Deletes a key.
    pub fn delete(&self, key: &str) {
        self.change(&[(key, None)]);
    }

    /// Deletes all keys that begin with this.
    pub fn delete_all(&self, prefix: &str) {
        let question = json!({"key": encode(prefix.as_bytes()), "range_end": encode(&after(prefix))});
        self.ask("kv/deleterange", &question);
    }

    /// All keys that begin with this, with their values.
    #[must_use]
    pub fn all(&self, prefix: &str) -> BTreeMap<String, String> {
        let question = json!({"key": encode(prefix.as_bytes()), "range_end": encode(&after(prefix))});
        let answer = self.ask("kv/range", &question);
        let found = answer["kvs"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| String::from_utf8(decode(value.as_str().unwrap_or_default())).unwrap();
        let pairs = found.iter().map(|kv| (text(&kv["key"]), text(&kv["value"])));
        pairs.collect()
    }

    /// The revision that is now.
    #[must_use]
    pub fn revision(&self) -> i64 {
        let now = self.ask("kv/range", &json!({"key": encode(b"/")}));
        now["header"]["revision"].as_str().unwrap().parse().unwrap()
    }

    /// Forgets everything but what is now.
    pub fn compact(&self) {
        let question = json!({"revision": self.revision(), "physical": true});
        self.ask("kv/compaction", &question);
    }

    /// Asks over HTTP; the answer.
    fn ask(&self, path: &str, question: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports[0])).unwrap();
        let body = question.to_string();
        let length = body.len();
        write!(
            stream,
            "POST /v3/{path} HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(" 200 "), "{path} {question}: {answer}");
        serde_json::from_str(body).unwrap()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Nothing of it is kept, so that it need not end in good order.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ports that nobody listens at.
fn ports<const N: usize>(of: [(); N]) -> [u16; N] {
    let listeners = of.map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// Waits until one can be asked that says this.
fn await_ready(mut log: BufReader<ChildStderr>) {
    let mut said = String::new();
    while !said.contains(READY) {
        assert!(log.read_line(&mut said).unwrap() > 0, "no etcd: {said}");
    }
    // Whoever is not heard cannot speak on.
    thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
}

/// The first key after all that begin so.
fn after(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().unwrap() += 1;
    end
}

fn copy_all(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-aT").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// Makes the certificates of [`Etcd::secure`].
pub(crate) fn certificates(folder: &Path) {
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(folder);
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for name in ["ca", "other"] {
        openssl(&format!(
            "req -x509 {key} -keyout {name}.key -out {name}.pem -days 3650 -subj /CN={name}"
        ));
    }
    let mut extensions = String::new();
    writeln!(extensions, "subjectAltName = IP:127.0.0.1").unwrap();
    writeln!(extensions, "extendedKeyUsage = serverAuth, clientAuth").unwrap();
    fs::write(folder.join("extensions"), extensions).unwrap();
    for name in ["server", "client"] {
        openssl(&format!(
            "req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile extensions -out {name}.pem"
        ));
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 (RFC 4648, section 4).
fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let number = (0..3).fold(0u32, |number, at| {
            number << 8 | u32::from(part.get(at).copied().unwrap_or_default())
        });
        for at in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= part.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in text.trim_end_matches('=').as_bytes().chunks(4) {
        let number = (0..4).fold(0u32, |number, at| {
            let digit = part
                .get(at)
                .map_or(0, |digit| DIGITS.iter().position(|known| known == digit).unwrap());
            number << 6 | u32::try_from(digit).unwrap()
        });
        bytes.extend(number.to_be_bytes()[1..part.len()].iter());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(plain.as_bytes()), encoded);
            assert_eq!(decode(encoded), plain.as_bytes());
        }
    }
}
