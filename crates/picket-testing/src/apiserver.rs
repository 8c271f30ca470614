//! A real Kubernetes API server.
//!
//! `cargo xtask programs` builds the program, and `cargo xtask test` does so first; a test that finds none fails.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::program::API_SERVER;

/// A running API server with its own certificates and objects. It ends when this is dropped, and with this process.
pub struct Server {
    child: Child,
    folder: TempDir,
    arguments: Vec<String>,
}

impl Server {
    /// Starts one and waits until it is ready. `tokens` are pairs of a token and the user who has it.
    #[must_use]
    pub fn start(tokens: &[(&str, &str)]) -> Self {
        Self::start_with(tokens, &[])
    }

    /// The same with flags of kube-apiserver.
    #[must_use]
    pub fn start_with(tokens: &[(&str, &str)], flags: &[&str]) -> Self {
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let arguments: Vec<_> = token_arguments(tokens)
            .chain(["--".to_owned()])
            .chain(flags)
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self {
            child: spawn(folder.path(), &[], &arguments),
            folder,
            arguments,
        };
        server.await_ready();
        server
    }

    /// Ends it without order. It can be started again.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again with the objects that it had, at the same address. `tokens` are those that count from now on.
    pub fn restart(&mut self, tokens: &[(&str, &str)]) {
        let kubeconfig = fs::read_to_string(self.kubeconfig()).unwrap();
        let (_, address) = kubeconfig.split_once("https://127.0.0.1:").unwrap();
        let port: String = address.chars().take_while(char::is_ascii_digit).collect();
        let flags = self
            .arguments
            .iter()
            .position(|argument| argument == "--")
            .unwrap();
        let flags = self.arguments.split_off(flags);
        self.arguments = token_arguments(tokens).chain(flags).collect();
        self.child = spawn(self.folder.path(), &["-port", &port], &self.arguments);
        self.await_ready();
    }

    fn await_ready(&mut self) {
        let mut line = String::new();
        let stdout = self.child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(line.starts_with("READY "), "{line}{}", self.log());
    }

    /// A kubeconfig of an administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A kubeconfig of whoever has this token.
    #[must_use]
    pub fn kubeconfig_of(&self, token: &str) -> PathBuf {
        let admin = fs::read_to_string(self.folder.path().join("admin.token")).unwrap();
        let text = fs::read_to_string(self.kubeconfig()).unwrap();
        // Tokens may be longer than names of files, and differ at their ends.
        let end = &token[token.len().saturating_sub(64)..];
        let path = self.folder.path().join(format!("kubeconfig-{end}"));
        fs::write(&path, text.replace(&admin, token)).unwrap();
        path
    }

    /// The certificate of its authority.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("certs").join("ca.crt")
    }

    /// The process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it said.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

fn token_arguments(tokens: &[(&str, &str)]) -> impl Iterator<Item = String> {
    tokens
        .iter()
        .flat_map(|(token, user)| ["-token".to_owned(), format!("{token}={user}")])
}

fn spawn(folder: &Path, more: &[&str], arguments: &[String]) -> Child {
    let log = fs::File::create(folder.join("log")).unwrap();
    let mut command = Command::new(API_SERVER.path());
    command.arg("-exit-on-stdin-close").arg("-dir").arg(folder);
    // A third of what it takes to start is the collection of garbage, of which there is little.
    command.env("GOGC", "off").env("GOMEMLIMIT", "1GiB");
    command
        .args(more)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing of it is kept, so that it need not end in good order.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
