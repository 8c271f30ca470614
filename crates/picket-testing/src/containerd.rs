//! A real containerd, on a node of its own: with its own processes, mounts and network.
//!
//! `cargo xtask test` installs what it needs; a test that finds none fails. It needs root.

mod image;
mod message;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use http::uri::PathAndQuery;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use message::{
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NODE, NamespaceOption, Nothing, PodSandboxConfig,
    PodSandboxMetadata, RunPodSandboxRequest, RunPodSandboxResponse, SandboxRequest,
};

/// Where containerd listens, seen from its node.
pub const SOCKET: &str = "/run/test/containerd.sock";

/// Removes the control groups of the node when everything in it has ended, however this process did.
const AROUND: &str = r#"
unshare --mount --net --pid --fork --kill-child sh "$1/node.sh" "$1"
find /sys/fs/cgroup -depth -type d -path "*/$2*" -exec rmdir {} + 2>/dev/null
"#;

/// A running containerd. It ends when this is dropped, and with this process, and so do its pods.
pub struct Containerd {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: TempDir,
    group: String,
    node: String,
    executor: Runtime,
}

impl Containerd {
    /// Starts one and waits until it is ready.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let group = format!("picket-test-{}", folder.path().file_name().unwrap().display()).replace('.', "");
        for (name, text) in [
            ("node.sh", include_str!("containerd/node.sh")),
            ("config.toml", include_str!("containerd/config.toml")),
            ("network.conflist", include_str!("containerd/network.conflist")),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        image::write(folder.path());
        let mut child = Command::new("sh")
            .args(["-c", AROUND, "sh"])
            .arg(folder.path())
            .arg(&group)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut containerd = Self {
            orders: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            folder,
            group,
            node: String::new(),
            executor: Builder::new_current_thread().enable_all().build().unwrap(),
        };
        let ready = containerd.answer();
        let node = ready.strip_prefix("READY ");
        let node = node.unwrap_or_else(|| panic!("no containerd: {ready}{}", containerd.log()));
        containerd.node = node.trim().to_owned();
        containerd
    }

    /// The root of its node, seen from here: what agents are given as `--host-prefix`.
    #[must_use]
    pub fn prefix(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.node))
    }

    /// Runs the sandbox of a pod, which is attached to the cluster network; its id.
    pub fn run_pod(&self, namespace: &str, name: &str, uid: &str) -> String {
        self.run(namespace, name, uid, 0)
    }

    /// Runs the sandbox of a pod in the network of its node; its id.
    pub fn run_host_pod(&self, namespace: &str, name: &str, uid: &str) -> String {
        self.run(namespace, name, uid, NODE)
    }

    fn run(&self, namespace: &str, name: &str, uid: &str, network: i32) -> String {
        let metadata = PodSandboxMetadata {
            name: name.to_owned(),
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            attempt: 0,
        };
        let linux = LinuxPodSandboxConfig {
            cgroup_parent: format!("/{}", self.group),
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(NamespaceOption { network }),
            }),
        };
        let config = PodSandboxConfig {
            metadata: Some(metadata),
            // Pods in the network of their node have its name too.
            hostname: if network == NODE {
                String::new()
            } else {
                name.to_owned()
            },
            annotations: HashMap::new(),
            linux: Some(linux),
        };
        let request = RunPodSandboxRequest { config: Some(config) };
        let response: RunPodSandboxResponse = self.call("RunPodSandbox", request);
        response.id
    }

    /// Stops a sandbox and removes it.
    pub fn remove_pod(&self, id: &str) {
        for call in ["StopPodSandbox", "RemovePodSandbox"] {
            let _: Nothing = self.call(call, SandboxRequest { id: id.to_owned() });
        }
    }

    /// Ends the daemon without order. Its pods stay.
    pub fn kill(&mut self) {
        self.order("kill");
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.order("start");
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
        let answer = self.answer();
        assert_eq!(answer.trim(), format!("DONE {order}"), "{}", self.log());
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line
    }

    fn call<Q, A>(&self, call: &str, question: Q) -> A
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let socket = format!("unix:{}{SOCKET}", self.prefix().display());
        let path = PathAndQuery::try_from(format!("/runtime.v1.RuntimeService/{call}")).unwrap();
        let answer = self.executor.block_on(async {
            let endpoint = Endpoint::from_shared(socket)
                .unwrap()
                .timeout(Duration::from_secs(60));
            let mut client = Grpc::new(endpoint.connect().await.unwrap());
            client.ready().await.unwrap();
            client
                .unary(Request::new(question), path, ProstCodec::<Q, A>::default())
                .await
        });
        match answer {
            Ok(answer) => answer.into_inner(),
            Err(status) => panic!("{call}: {status}\n{}", self.log()),
        }
    }

    /// What containerd said.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // The first process of the node ends with its standard input, and takes all others along.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}
