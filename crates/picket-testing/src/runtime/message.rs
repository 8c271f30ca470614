//! What of the Container Runtime Interface runs, stops and removes sandboxes, and starts and ends containers.

use std::collections::HashMap;

use prost::Message;

/// `NamespaceMode.POD`.
pub(super) const POD: i32 = 0;

/// `NamespaceMode.CONTAINER`: what the kubelet says of processes, unless containers of the pod are to see each other's.
pub(super) const CONTAINER: i32 = 1;

/// `NamespaceMode.NODE`.
pub(super) const NODE: i32 = 2;

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
    #[prost(map = "string, string", tag = "9")]
    pub(super) labels: HashMap<String, String>,
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
    #[prost(message, optional, tag = "3")]
    pub(super) namespace_options: Option<NamespaceOption>,
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
/// `StopContainer` and `RemoveContainer` ask.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Id {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Nothing {}
