//! A real Kubernetes API server.
//!
//! `cargo xtask programs` builds the program, and `cargo xtask test` does so first; a test that finds none fails.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::thread::panicking;

use tempfile::TempDir;

use crate::program::API_SERVER;
use crate::signal::signal;

/// What everybody is who asks for nothing else: the tokens, each with its user.
pub const AGENT: (&str, &str) = ("agent-token", "agent");

/// Servers whose tests have ended, for tests to come. As many as have run at once.
static FREE: Mutex<Vec<Process>> = Mutex::new(Vec::new());

/// A running API server with its own certificates and objects. When this is dropped it ends, or another test has it; and with this
/// process it ends in any case.
pub struct Server {
    /// There until this is dropped.
    process: Option<Process>,
    /// Whether it is as good as another that has just been started, but for its objects.
    is_as_new: bool,
}

impl Server {
    /// One that is ready and has nothing but what every cluster has. Who has the token of an [agent](AGENT) is known, and nobody else but
    /// its administrator.
    #[must_use]
    pub fn start() -> Self {
        let free = FREE.lock().unwrap().pop();
        let process = match free {
            Some(mut process) => {
                process.reset();
                process
            }
            None => Process::start(&[AGENT], &[]),
        };
        Self {
            process: Some(process),
            is_as_new: true,
        }
    }

    /// One that nobody has had before. `tokens` are pairs of a token and the user who has it, `flags` those of kube-apiserver.
    #[must_use]
    pub fn start_with(tokens: &[(&str, &str)], flags: &[&str]) -> Self {
        Self {
            process: Some(Process::start(tokens, flags)),
            is_as_new: false,
        }
    }

    fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }

    fn changed(&mut self) -> &mut Process {
        self.is_as_new = false;
        self.process.as_mut().unwrap()
    }

    /// Ends it without order. It can be started again.
    pub fn kill(&mut self) {
        self.changed().kill();
    }

    /// Starts it again with the objects that it had, at the same address, for those with the same tokens.
    pub fn restart(&mut self) {
        self.changed().restart();
    }

    /// The same for those with other tokens.
    pub fn restart_with(&mut self, tokens: &[(&str, &str)]) {
        let process = self.changed();
        process.tokens = token_arguments(tokens);
        process.restart();
    }

    /// A kubeconfig of an administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.process().kubeconfig()
    }

    /// A kubeconfig of whoever has this token.
    #[must_use]
    pub fn kubeconfig_of(&self, token: &str) -> PathBuf {
        let folder = self.process().folder.path();
        let admin = fs::read_to_string(folder.join("admin.token")).unwrap();
        let text = fs::read_to_string(self.kubeconfig()).unwrap();
        // Tokens may be longer than names of files, and differ at their ends.
        let end = &token[token.len().saturating_sub(64)..];
        let path = folder.join(format!("kubeconfig-{end}"));
        fs::write(&path, text.replace(&admin, token)).unwrap();
        path
    }

    /// The certificate of its authority.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.process().folder.path().join("certs").join("ca.crt")
    }

    /// Has it stand still (`STOP`), or go on (`CONT`).
    pub fn signal(&self, name: &str) {
        signal(self.process().child.id(), name);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let process = self.process.take();
        // Of a test that fails nobody knows what it has done to it.
        if self.is_as_new && !panicking() {
            FREE.lock().unwrap().extend(process);
        }
    }
}

struct Process {
    child: Child,
    /// What it prints.
    told: Lines<BufReader<ChildStdout>>,
    folder: TempDir,
    tokens: Vec<String>,
    flags: Vec<String>,
}

impl Process {
    fn start(tokens: &[(&str, &str)], flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = token_arguments(tokens);
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let (child, told) = spawn(folder.path(), &[], &tokens, &flags);
        let mut process = Self {
            child,
            told,
            folder,
            tokens,
            flags,
        };
        process.await_ready();
        process
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        let kubeconfig = fs::read_to_string(self.kubeconfig()).unwrap();
        let (_, address) = kubeconfig.split_once("https://127.0.0.1:").unwrap();
        let port: String = address.chars().take_while(char::is_ascii_digit).collect();
        (self.child, self.told) = spawn(self.folder.path(), &["-port", &port], &self.tokens, &self.flags);
        self.await_ready();
    }

    /// Makes its objects those that it began with.
    fn reset(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap(), "reset").unwrap();
        self.await_line("RESET");
    }

    fn await_ready(&mut self) {
        self.await_line("READY ");
    }

    fn await_line(&mut self, begins: &str) {
        let line = self.told.next().map(Result::unwrap);
        let is_it = line.as_ref().is_some_and(|line| line.starts_with(begins));
        assert!(is_it, "{line:?} and not {begins}: {}", self.log());
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing of it is kept, so that it need not end in good order.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn token_arguments(tokens: &[(&str, &str)]) -> Vec<String> {
    let arguments = tokens.iter();
    arguments
        .flat_map(|(token, user)| ["-token".to_owned(), format!("{token}={user}")])
        .collect()
}

fn spawn(
    folder: &Path,
    more: &[&str],
    tokens: &[String],
    flags: &[String],
) -> (Child, Lines<BufReader<ChildStdout>>) {
    let log = fs::File::create(folder.join("log")).unwrap();
    let mut command = Command::new(API_SERVER.path());
    command.arg("-exit-on-stdin-close").arg("-dir").arg(folder);
    // A third of what it takes to start is the collection of garbage, of which there is little.
    command.env("GOGC", "off").env("GOMEMLIMIT", "1GiB");
    let mut child = command
        .args(more)
        .args(tokens)
        .arg("--")
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let told = child.stdout.take().unwrap();
    (child, BufReader::new(told).lines())
}
