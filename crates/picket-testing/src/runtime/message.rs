//! What of the Container Runtime Interface runs, stops and removes sandboxes, starts and ends containers, and runs programs in them.

use std::collections::HashMap;

use prost::Message;

/// `NamespaceMode.POD`.
pub(super) const POD: i32 = 0;

/// `NamespaceMode.CONTAINER`: what the kubelet says of processes, unless containers of the pod are to see each other's.
pub(super) const CONTAINER: i32 = 1;

/// `NamespaceMode.NODE`.
pub(super) const NODE: i32 = 2;

/// `MountPropagation.PROPAGATION_PRIVATE`.
pub(super) const PRIVATE: i32 = 0;

/// `MountPropagation.PROPAGATION_HOST_TO_CONTAINER`.
pub(super) const FOLLOWING: i32 = 1;

/// `ContainerState.CONTAINER_EXITED`.
pub(super) const EXITED: i32 = 2;

/// `SecurityProfile.ProfileType.RuntimeDefault`.
pub(super) const RUNTIME_DEFAULT: i32 = 0;

/// `SecurityProfile.ProfileType.Unconfined`.
pub(super) const UNCONFINED: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<PodSandboxMetadata>,
    #[prost(string, tag = "2")]
    pub(super) hostname: String,
    #[prost(string, tag = "3")]
    pub(super) log_directory: String,
    #[prost(map = "string, string", tag = "7")]
    pub(super) annotations: HashMap<String, String>,
    #[prost(message, optional, tag = "8")]
    pub(super) linux: Option<LinuxPodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) namespace: String,
    #[prost(uint32, tag = "4")]
    pub(super) attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LinuxPodSandboxConfig {
    #[prost(string, tag = "1")]
    pub(super) cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub(super) security_context: Option<LinuxSandboxSecurityContext>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LinuxSandboxSecurityContext {
    #[prost(message, optional, tag = "1")]
    pub(super) namespace_options: Option<NamespaceOption>,
    /// Whether containers in it may have all rights.
    #[prost(bool, tag = "6")]
    pub(super) privileged: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub(super) network: i32,
    #[prost(int32, tag = "2")]
    pub(super) pid: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub(super) sandbox: String,
    #[prost(message, optional, tag = "2")]
    pub(super) config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub(super) sandbox_config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub(super) image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub(super) command: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(super) args: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub(super) envs: Vec<KeyValue>,
    #[prost(message, repeated, tag = "7")]
    pub(super) mounts: Vec<Mount>,
    #[prost(map = "string, string", tag = "9")]
    pub(super) labels: HashMap<String, String>,
    #[prost(string, tag = "11")]
    pub(super) log_path: String,
    #[prost(message, optional, tag = "15")]
    pub(super) linux: Option<LinuxContainerConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LinuxContainerConfig {
    #[prost(message, optional, tag = "2")]
    pub(super) security_context: Option<LinuxContainerSecurityContext>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LinuxContainerSecurityContext {
    #[prost(message, optional, tag = "1")]
    pub(super) capabilities: Option<Capabilities>,
    #[prost(bool, tag = "2")]
    pub(super) privileged: bool,
    #[prost(message, optional, tag = "3")]
    pub(super) namespace_options: Option<NamespaceOption>,
    #[prost(message, optional, tag = "5")]
    pub(super) run_as_user: Option<Number>,
    #[prost(bool, tag = "7")]
    pub(super) readonly_rootfs: bool,
    #[prost(int64, repeated, tag = "8")]
    pub(super) supplemental_groups: Vec<i64>,
    #[prost(bool, tag = "11")]
    pub(super) no_new_privs: bool,
    #[prost(message, optional, tag = "12")]
    pub(super) run_as_group: Option<Number>,
    #[prost(string, repeated, tag = "13")]
    pub(super) masked_paths: Vec<String>,
    #[prost(string, repeated, tag = "14")]
    pub(super) readonly_paths: Vec<String>,
    #[prost(message, optional, tag = "15")]
    pub(super) seccomp: Option<SecurityProfile>,
    #[prost(message, optional, tag = "16")]
    pub(super) apparmor: Option<SecurityProfile>,
}

/// `Capability`; the names are without `CAP_`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Capabilities {
    #[prost(string, repeated, tag = "1")]
    pub(super) add: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) drop: Vec<String>,
}

/// `Int64Value`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Number {
    #[prost(int64, tag = "1")]
    pub(super) value: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SecurityProfile {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mount {
    #[prost(string, tag = "1")]
    pub(super) container_path: String,
    #[prost(string, tag = "2")]
    pub(super) host_path: String,
    #[prost(bool, tag = "3")]
    pub(super) readonly: bool,
    #[prost(int32, tag = "5")]
    pub(super) propagation: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecSyncRequest {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) command: Vec<String>,
    /// In seconds.
    #[prost(int64, tag = "3")]
    pub(super) timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecSyncResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) stdout: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) stderr: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub(super) status: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStatus {
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
    /// In nanoseconds since 1970.
    #[prost(int64, tag = "5")]
    pub(super) started_at: i64,
    #[prost(int32, tag = "7")]
    pub(super) exit_code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StopContainerRequest {
    #[prost(string, tag = "1")]
    pub(super) container: String,
    /// In seconds, after which it is killed.
    #[prost(int64, tag = "2")]
    pub(super) timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(super) image: String,
    /// What the pod says, where `image` is what that was found to be.
    #[prost(string, tag = "18")]
    pub(super) user_specified_image: String,
}

/// What `RunPodSandbox` and `CreateContainer` answer, and what `StopPodSandbox`, `RemovePodSandbox`, `StartContainer`,
/// `StopContainer`, `RemoveContainer` and `ContainerStatus` ask.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Id {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Nothing {}
