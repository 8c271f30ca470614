//! The messages of the Container Runtime Interface, version 1, that picket sends and reads.
//!
//! These are three calls of more than thirty and, of each message, the fields that are used: whoever decodes passes over
//! the others. Numbers and types are those of `api.proto` of `k8s.io/cri-api/pkg/apis/runtime/v1`. Generated code for the
//! whole of it needs `protoc` at build time or is forty times as long.

use std::collections::HashMap;

use prost::Message;

/// `PodSandboxState.SANDBOX_READY`.
pub(super) const READY: i32 = 0;

/// `NamespaceMode.NODE`.
pub(super) const NODE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) filter: Option<PodSandboxFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxFilter {
    #[prost(message, optional, tag = "2")]
    pub(super) state: Option<PodSandboxStateValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxStateValue {
    #[prost(int32, tag = "1")]
    pub(super) state: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListPodSandboxResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) items: Vec<PodSandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandbox {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<PodSandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
    #[prost(int64, tag = "4")]
    pub(super) created_at: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) namespace: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxStatusRequest {
    #[prost(string, tag = "1")]
    pub(super) pod_sandbox_id: String,
    #[prost(bool, tag = "2")]
    pub(super) verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<PodSandboxStatus>,
    #[prost(map = "string, string", tag = "2")]
    pub(super) info: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxStatus {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<PodSandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
    #[prost(message, optional, tag = "6")]
    pub(super) linux: Option<LinuxPodSandboxStatus>,
}

impl PodSandboxStatus {
    /// In whose network the sandbox is, a `NamespaceMode`.
    pub(super) fn network(&self) -> Option<i32> {
        let options = self.linux.as_ref()?.namespaces.as_ref()?.options.as_ref()?;
        Some(options.network)
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LinuxPodSandboxStatus {
    #[prost(message, optional, tag = "1")]
    pub(super) namespaces: Option<Namespace>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Namespace {
    #[prost(message, optional, tag = "2")]
    pub(super) options: Option<NamespaceOption>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub(super) network: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetEventsRequest {}

/// What it says of which container is not read: whatever happens, the sandboxes are listed anew.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerEventResponse {}
