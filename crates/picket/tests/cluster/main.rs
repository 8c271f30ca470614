//! `picket --kube` against a real API server.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a wrong literal fails its test"
)]

mod agents;
mod apiserver;
mod client;
mod datagrams;
mod following;
mod node;
mod objects;
mod pods;
mod prober;
mod proxy;
mod published;
mod random;
mod reflectors;
mod streams;
mod watched;

use std::path::Path;
use std::process::{Command, Stdio};

use picket_testing::ran::Ran;

/// Runs picket where `kubeconfig` is the kubeconfig and nothing else says where a cluster is.
pub(crate) fn picket(kubeconfig: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    for variable in ["HTTPS_PROXY", "https_proxy", "KUBERNETES_SERVICE_HOST"] {
        command.env_remove(variable);
    }
    command
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap()
        .into()
}
