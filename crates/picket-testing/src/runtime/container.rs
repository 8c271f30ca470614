//! A container as a manifest asks for it, in the network of its node.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::message::{
    Capabilities, ContainerConfig, ContainerStatus, ContainerStatusResponse, EXITED, ExecSyncRequest,
    ExecSyncResponse, FOLLOWING, Id, KeyValue, LinuxContainerConfig, LinuxContainerSecurityContext, NODE,
    Nothing, Number, PRIVATE, RUNTIME_DEFAULT, SecurityProfile, StopContainerRequest, UNCONFINED,
};
use super::{ContainerRuntime, SOCKET, named, namespaces};

/// What the kubelet hides of `/proc` and `/sys` unless a manifest says otherwise.
const MASKED: [&str; 11] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

/// What it lets nobody write then.
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// A container. Its root has an image, and what is mounted.
#[derive(Clone, Debug, Default)]
pub struct Container {
    /// The image; none for that of sandboxes, which is one small program.
    pub image: Option<String>,
    /// The program and its arguments; nothing for that of the image.
    pub command: Vec<String>,
    /// Arguments, in the place of those of the image.
    pub arguments: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// What is mounted.
    pub mounts: Vec<Mount>,
    /// The `securityContext` of the container.
    pub security: Value,
    /// That of its pod. Without a `seccompProfile` it may make every system call.
    pub of_pod: Value,
}

/// Something of the node that a container sees.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Where it is on the node.
    pub from: PathBuf,
    /// Where it is in the container.
    pub to: String,
    /// Whether the container may only read it.
    pub read_only: bool,
    /// Whether what is mounted below it on the node afterwards is seen, as with `HostToContainer`.
    pub follows: bool,
}

impl ContainerRuntime {
    /// Runs a pod in the network of its node with one container; the id of that. What it prints is [`ContainerRuntime::printed`].
    pub fn run_container(&self, namespace: &str, name: &str, uid: &str, container: &Container) -> String {
        let mut of_pod = self.config(namespace, name, uid, NODE);
        let rights = of_pod
            .linux
            .as_mut()
            .and_then(|linux| linux.security_context.as_mut());
        rights.unwrap().privileged = container.is_privileged();
        let sandbox = self.run(of_pod.clone());
        let config = ContainerConfig {
            image: container.image.as_deref().map(named),
            command: container.command.clone(),
            args: container.arguments.clone(),
            envs: container
                .environment
                .iter()
                .map(|(key, value)| KeyValue {
                    key: key.clone(),
                    value: value.clone(),
                })
                .collect(),
            mounts: container.mounts.iter().map(Mount::message).collect(),
            log_path: "main.log".to_owned(),
            linux: Some(LinuxContainerConfig {
                security_context: Some(container.security_context()),
            }),
            ..ContainerConfig::default()
        };
        let id = self.create(&sandbox, of_pod, config);
        self.start_container(&id);
        id
    }

    /// Gives a containerd the images of an archive that `docker save` or the like wrote.
    pub fn import(&self, archive: &Path) {
        let mut import = Command::new("ctr");
        import
            .arg("--address")
            .arg(format!("{}{SOCKET}", self.prefix().display()))
            .args(["--namespace", "k8s.io", "images", "import"])
            .arg(archive);
        let output = import.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Runs a program in a container, as `kubectl exec` does: its status, and what it printed.
    pub fn execute(&self, container: &str, command: &[&str]) -> (i32, String) {
        let request = ExecSyncRequest {
            container: container.to_owned(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            timeout: 60,
        };
        let answer: ExecSyncResponse = self.call("ExecSync", request);
        let printed = [answer.stdout, answer.stderr].concat();
        (answer.status, String::from_utf8(printed).unwrap())
    }

    /// Waits until a container has ended by itself.
    pub fn await_end(&self, container: &str) {
        while self.status(container).state != EXITED {}
    }

    /// When a container that was started did so, in nanoseconds since 1970.
    #[must_use]
    pub fn started(&self, container: &str) -> i64 {
        self.status(container).started_at
    }

    /// Asks a container to end, as kubelets do, and waits until it has; how it ended.
    pub fn stop_container(&self, id: &str) -> i32 {
        let request = StopContainerRequest {
            container: id.to_owned(),
            timeout: 30,
        };
        let _: Nothing = self.call("StopContainer", request);
        self.status(id).exit_code
    }

    fn status(&self, container: &str) -> ContainerStatus {
        let id = container.to_owned();
        let answer: ContainerStatusResponse = self.call("ContainerStatus", Id { id });
        answer.status.unwrap()
    }

    /// What the containers have printed that were run as manifests ask.
    #[must_use]
    pub fn printed(&self) -> String {
        std::fs::read_to_string(self.logs().join("main.log")).unwrap_or_default()
    }
}

impl Container {
    fn is_privileged(&self) -> bool {
        self.security["privileged"] == true
    }

    fn security_context(&self) -> LinuxContainerSecurityContext {
        let security = &self.security;
        let words = |value: &Value| -> Vec<String> {
            let words = value.as_array().into_iter().flatten();
            words.map(|word| word.as_str().unwrap().to_owned()).collect()
        };
        let profile = |field: &str| {
            let said = security[field]["type"].as_str();
            let kind = match said.or_else(|| self.of_pod[field]["type"].as_str())? {
                "RuntimeDefault" => RUNTIME_DEFAULT,
                "Unconfined" => UNCONFINED,
                other => panic!("no test has the profile {other}"),
            };
            Some(SecurityProfile { kind })
        };
        // What the container does not say its pod does.
        let number = |field: &str| security[field].as_i64().or_else(|| self.of_pod[field].as_i64());
        let is_privileged = self.is_privileged();
        // From who may do everything nothing is hidden.
        let hidden = |paths: &[&str]| match is_privileged {
            true => Vec::new(),
            false => paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        LinuxContainerSecurityContext {
            capabilities: Some(Capabilities {
                add: words(&security["capabilities"]["add"]),
                drop: words(&security["capabilities"]["drop"]),
            }),
            privileged: is_privileged,
            namespace_options: Some(namespaces(NODE)),
            run_as_user: number("runAsUser").map(|value| Number { value }),
            run_as_group: number("runAsGroup").map(|value| Number { value }),
            supplemental_groups: number("fsGroup").into_iter().collect(),
            readonly_rootfs: security["readOnlyRootFilesystem"] == true,
            no_new_privs: security["allowPrivilegeEscalation"] == false,
            masked_paths: hidden(&MASKED),
            readonly_paths: hidden(&READ_ONLY),
            seccomp: profile("seccompProfile").or(Some(SecurityProfile { kind: UNCONFINED })),
            // Nothing said is what the runtime has by itself.
            apparmor: profile("appArmorProfile"),
        }
    }
}

impl Mount {
    fn message(&self) -> super::message::Mount {
        super::message::Mount {
            container_path: self.to.clone(),
            host_path: self.from.to_str().unwrap().to_owned(),
            readonly: self.read_only,
            propagation: if self.follows { FOLLOWING } else { PRIVATE },
        }
    }
}
