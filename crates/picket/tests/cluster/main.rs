//! `picket --kube` against a real API server.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a wrong literal fails its test"
)]

mod apiserver;
mod client;
mod objects;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a run of picket gave.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}

/// Runs picket where `kubeconfig` is the kubeconfig and nothing else says where a cluster is.
pub(crate) fn picket(kubeconfig: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    for variable in ["HTTPS_PROXY", "https_proxy", "KUBERNETES_SERVICE_HOST"] {
        command.env_remove(variable);
    }
    let output = command
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Ran {
        status: output.status.code().unwrap(),
        stdout,
        stderr,
    }
}
