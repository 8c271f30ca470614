//! A real container runtime, on a node of its own: with its own processes, mounts and network.
//!
//! `cargo xtask test` installs and builds what it needs; a test that finds none fails. It needs root.

mod container;
mod image;
mod message;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use http::uri::PathAndQuery;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::program::{CONTAINERD, CONTAINERD_SHIM, COPYIMG, CRIO, PINNS, Program};
pub use container::{Container, Mount};
use message::{
    CONTAINER, ContainerConfig, ContainerMetadata, CreateContainerRequest, Id, ImageSpec,
    LinuxContainerConfig, LinuxContainerSecurityContext, LinuxPodSandboxConfig, LinuxSandboxSecurityContext,
    NODE, NamespaceOption, Nothing, POD, PodSandboxConfig, PodSandboxMetadata, RunPodSandboxRequest,
};

/// How long the name of a host may be.
const HOSTNAME: usize = 63;

/// Where a runtime listens, seen from its node.
pub const SOCKET: &str = "/run/test/runtime.sock";

/// Which runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// containerd 1.6, as Debian has it: it tells no events, and sandboxes have a process.
    Containerd,
    /// containerd 2, built from its sources: it tells events, and sandboxes have a process.
    Containerd2,
    /// CRI-O, built from its sources: it tells events, and sandboxes have no process of their own.
    Crio,
    /// The same CRI-O with `drop_infra_ctr = false`: sandboxes have a process.
    CrioWithProcesses,
}

/// What CRI-O is told about processes of sandboxes, by itself and otherwise.
const NO_PROCESSES: &str = "drop_infra_ctr = true";
const PROCESSES: &str = "drop_infra_ctr = false";

/// What stands for the programs of runtimes in the files that start them.
const PLACES: [(&str, Program); 5] = [
    ("@CONTAINERD@", CONTAINERD),
    ("@SHIM@", CONTAINERD_SHIM),
    ("@CRIO@", CRIO),
    ("@COPYIMG@", COPYIMG),
    ("@PINNS@", PINNS),
];

impl Kind {
    /// All of them as they are by themselves.
    pub const ALL: [Self; 3] = [Self::Containerd, Self::Containerd2, Self::Crio];

    /// Whether it tells when something happens to a sandbox.
    #[must_use]
    pub fn has_events(self) -> bool {
        self != Self::Containerd
    }

    /// The files that say how it is started and what it does.
    fn files(self) -> Vec<(&'static str, String)> {
        let files: &[(&str, &str)] = match self {
            Self::Containerd => &[
                ("daemon.sh", include_str!("runtime/containerd/daemon.sh")),
                ("config.toml", include_str!("runtime/containerd/config.toml")),
            ],
            Self::Containerd2 => &[
                ("daemon.sh", include_str!("runtime/containerd2/daemon.sh")),
                ("config.toml", include_str!("runtime/containerd2/config.toml")),
            ],
            Self::Crio | Self::CrioWithProcesses => &[
                ("daemon.sh", include_str!("runtime/crio/daemon.sh")),
                ("config.toml", include_str!("runtime/crio/config.toml")),
                ("policy.json", include_str!("runtime/crio/policy.json")),
                ("runc.sh", include_str!("runtime/crio/runc.sh")),
            ],
        };
        let files = files.iter();
        let files = files.map(|(name, text)| (*name, with_programs(text)));
        let with_processes = |(name, text): (&'static str, String)| match self {
            Self::CrioWithProcesses => (name, text.replace(NO_PROCESSES, PROCESSES)),
            Self::Containerd | Self::Containerd2 | Self::Crio => (name, text),
        };
        files.map(with_processes).collect()
    }
}

/// A text with the programs in it at their places.
fn with_programs(text: &str) -> String {
    PLACES
        .iter()
        .filter(|(place, _)| text.contains(place))
        .fold(text.to_owned(), |text, (place, program)| {
            text.replace(place, program.path().to_str().unwrap())
        })
}

/// Makes of functions that take a [`Kind`] tests with containerd as Debian has it and with CRI-O: `containerd::NAME` and `crio::NAME`.
#[macro_export]
macro_rules! with_each_runtime {
    ($($name:ident),+ $(,)?) => {
        mod containerd {
            $(
                #[test]
                fn $name() {
                    super::$name($crate::runtime::Kind::Containerd);
                }
            )+
        }

        mod crio {
            $(
                #[test]
                fn $name() {
                    super::$name($crate::runtime::Kind::Crio);
                }
            )+
        }
    };
}

/// The same, with a later containerd, and with CRI-O where sandboxes have processes: `containerd2::NAME` and `crio_with_processes::NAME`.
/// For what depends on how a runtime tells of its sandboxes, and of what is in them.
#[macro_export]
macro_rules! with_every_runtime {
    ($($name:ident),+ $(,)?) => {
        $crate::with_each_runtime!($($name),+);

        mod containerd2 {
            $(
                #[test]
                fn $name() {
                    super::$name($crate::runtime::Kind::Containerd2);
                }
            )+
        }

        mod crio_with_processes {
            $(
                #[test]
                fn $name() {
                    super::$name($crate::runtime::Kind::CrioWithProcesses);
                }
            )+
        }
    };
}

/// Removes the control groups of the node when everything in it has ended, however this process did.
const AROUND: &str = r#"
unshare --mount --net --uts --pid --fork --kill-child sh "$1/node.sh" "$1"
find /sys/fs/cgroup -depth -type d -path "*/$2*" -exec rmdir {} + 2>/dev/null
"#;

/// A running runtime. It ends when this is dropped, and with this process, and so do its pods.
pub struct ContainerRuntime {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: TempDir,
    group: String,
    node: String,
    executor: Runtime,
}

impl ContainerRuntime {
    /// Starts one and waits until it is ready.
    #[must_use]
    pub fn start(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let group = format!("picket-test-{}", folder.path().file_name().unwrap().display()).replace('.', "");
        let of_every_node = [
            ("node.sh", include_str!("runtime/node.sh").to_owned()),
            (
                "network.conflist",
                include_str!("runtime/network.conflist").to_owned(),
            ),
        ];
        for (name, text) in of_every_node.into_iter().chain(kind.files()) {
            let text = text
                .replace("@FOLDER@", folder.path().to_str().unwrap())
                // A profile stays in the kernel: only one that goes afterwards is given any.
                .replace("@UNCONFINED@", &(!crate::machine::is_here()).to_string());
            fs::write(folder.path().join(name), text).unwrap();
        }
        image::write(folder.path());
        fs::create_dir(folder.path().join("logs")).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", AROUND, "sh"])
            .arg(folder.path())
            .arg(&group)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut runtime = Self {
            orders: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            folder,
            group,
            node: String::new(),
            executor: Builder::new_current_thread().enable_all().build().unwrap(),
        };
        let ready = runtime.answer();
        let node = ready.strip_prefix("READY ");
        let node = node.unwrap_or_else(|| panic!("no {kind:?}: {ready}{}", runtime.log()));
        runtime.node = node.trim().to_owned();
        runtime.await_ready();
        runtime
    }

    /// The root of its node, seen from here: what agents are given as `--host-prefix`.
    #[must_use]
    pub fn prefix(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.node))
    }

    /// The network namespace of its node, as a file.
    #[must_use]
    pub fn network(&self) -> File {
        File::open(format!("/proc/{}/ns/net", self.node)).unwrap()
    }

    /// Runs the sandbox of a pod, which is attached to the cluster network; its id.
    pub fn run_pod(&self, namespace: &str, name: &str, uid: &str) -> String {
        self.run(self.config(namespace, name, uid, POD))
    }

    /// Runs the sandbox of a pod that has an annotation, attached to the cluster network; its id.
    pub fn run_annotated_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        annotation: (&str, &str),
    ) -> String {
        let mut config = self.config(namespace, name, uid, POD);
        let (key, value) = annotation;
        config.annotations.insert(key.to_owned(), value.to_owned());
        self.run(config)
    }

    /// Runs the sandbox of a pod in the network of its node; its id.
    pub fn run_host_pod(&self, namespace: &str, name: &str, uid: &str) -> String {
        self.run(self.config(namespace, name, uid, NODE))
    }

    fn run(&self, config: PodSandboxConfig) -> String {
        let request = RunPodSandboxRequest { config: Some(config) };
        let response: Id = self.call("RunPodSandbox", request);
        response.id
    }

    /// Makes the container of a pod ready to start, from the image that sandboxes have; its id.
    pub fn create_container(&self, sandbox: &str, namespace: &str, name: &str, uid: &str) -> String {
        let labels = [
            ("container.name", "main"),
            ("pod.name", name),
            ("pod.namespace", namespace),
            ("pod.uid", uid),
        ];
        let labels = labels.map(|(key, value)| (format!("io.kubernetes.{key}"), value.to_owned()));
        let config = ContainerConfig {
            labels: labels.into(),
            linux: Some(LinuxContainerConfig {
                security_context: Some(LinuxContainerSecurityContext {
                    namespace_options: Some(namespaces(POD)),
                    ..LinuxContainerSecurityContext::default()
                }),
            }),
            ..ContainerConfig::default()
        };
        self.create(sandbox, self.config(namespace, name, uid, POD), config)
    }

    /// Makes a container of a pod, called `main`, from the image that sandboxes have unless it names another; its id.
    fn create(&self, sandbox: &str, of_pod: PodSandboxConfig, container: ContainerConfig) -> String {
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata {
                name: "main".to_owned(),
            }),
            image: container.image.or_else(|| Some(named(image::NAME))),
            ..container
        };
        let request = CreateContainerRequest {
            sandbox: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: Some(of_pod),
        };
        let Id { id } = self.call("CreateContainer", request);
        id
    }

    /// Starts a container.
    pub fn start_container(&self, id: &str) {
        let _: Nothing = self.call("StartContainer", Id { id: id.to_owned() });
    }

    /// Ends a container without waiting, and removes it.
    pub fn remove_container(&self, id: &str) {
        for call in ["StopContainer", "RemoveContainer"] {
            let _: Nothing = self.call(call, Id { id: id.to_owned() });
        }
    }

    /// What the kubelet says of a pod.
    fn config(&self, namespace: &str, name: &str, uid: &str, network: i32) -> PodSandboxConfig {
        let metadata = PodSandboxMetadata {
            name: name.to_owned(),
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            attempt: 0,
        };
        let linux = LinuxPodSandboxConfig {
            cgroup_parent: format!("/{}", self.group),
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces(network)),
                privileged: false,
            }),
        };
        PodSandboxConfig {
            metadata: Some(metadata),
            // Pods in the network of their node have its name too. A name that is too long for a host is cut as kubelets do.
            hostname: if network == NODE {
                String::new()
            } else {
                let longest = name.get(..HOSTNAME).unwrap_or(name);
                longest.trim_end_matches(['-', '.']).to_owned()
            },
            log_directory: self.logs().to_str().unwrap().to_owned(),
            annotations: HashMap::new(),
            linux: Some(linux),
        }
    }

    /// Where containers write what they print.
    fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    /// Stops a sandbox and removes it.
    pub fn remove_pod(&self, id: &str) {
        for call in ["StopPodSandbox", "RemovePodSandbox"] {
            let _: Nothing = self.call(call, Id { id: id.to_owned() });
        }
    }

    /// Ends the daemon without order. Its pods stay.
    pub fn kill(&mut self) {
        self.order("kill");
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.order("start");
        self.await_ready();
    }

    /// Waits until it takes calls: whoever listens may still have to read what it knew before.
    fn await_ready(&self) {
        while self.ask::<_, Nothing>("Status", Nothing {}).is_err() {}
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
        match self.ask(call, question) {
            Ok(answer) => answer,
            Err(status) => panic!("{call}: {status}\n{}", self.log()),
        }
    }

    fn ask<Q, A>(&self, call: &str, question: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let socket = format!("unix:{}{SOCKET}", self.prefix().display());
        let path = PathAndQuery::try_from(format!("/runtime.v1.RuntimeService/{call}")).unwrap();
        let answer = self.executor.block_on(async {
            let endpoint = Endpoint::from_shared(socket)
                .unwrap()
                .timeout(Duration::from_secs(180));
            let mut client = Grpc::new(endpoint.connect().await.unwrap());
            client.ready().await.unwrap();
            client
                .unary(Request::new(question), path, ProstCodec::<Q, A>::default())
                .await
        });
        answer.map(Response::into_inner)
    }

    /// What it said.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for ContainerRuntime {
    fn drop(&mut self) {
        // The first process of the node ends with its standard input, and takes all others along.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

/// An image by its name.
fn named(image: &str) -> ImageSpec {
    ImageSpec {
        image: image.to_owned(),
        user_specified_image: image.to_owned(),
    }
}

/// The namespaces that the kubelet asks for a pod, and for its containers.
fn namespaces(network: i32) -> NamespaceOption {
    NamespaceOption {
        network,
        pid: CONTAINER,
    }
}
