//! The `picket` command as its users meet it: the built program over small manifests.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a wrong literal fails its test")]

mod audit;
mod bad_input;
mod check;
mod complete_example;
mod custom_rules;
mod diff;
mod eval;
mod explain;
mod fix;
mod hostile;
mod matrix;
mod network;
mod neutron;
mod picture;
mod render;
mod schema;
mod surface;
mod test;
mod tiers;
mod v1beta1;
mod verify;
mod vpp;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) use picket_testing::ran::Ran;
use tempfile::TempDir;

/// A directory of manifests.
pub(crate) struct Manifests(TempDir);

impl Manifests {
    /// A directory with these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        Self(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `picket COMMAND -f . ARGUMENTS` in the directory.
    pub(crate) fn picket(&self, command: &str, arguments: &[&str]) -> Ran {
        let all = [&[command, "-f", "."], arguments].concat();
        run(self.path(), &all, "")
    }
}

/// Runs `picket ARGUMENTS` in `directory`.
pub(crate) fn run(directory: &Path, arguments: &[&str], stdin: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_picket"))
        .args(arguments)
        .current_dir(directory)
        .env_remove("NO_COLOR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that ends early does not read it all.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap().into()
}

/// A small cluster: two nodes, dual-stack and single-stack pods, a workload, a finished pod, a Service.
pub(crate) const CLUSTER: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 10.9.0.1}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {addresses: [{type: InternalIP, address: 10.9.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
status: {podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {nodeName: n2, containers: [{name: c, ports: [{name: sql, containerPort: 5432}]}]}
status: {podIPs: [{ip: 10.0.0.2}, {ip: "fd00::2"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done, namespace: shop}
spec: {containers: []}
status: {phase: Succeeded, podIP: 10.0.0.9}
---
apiVersion: v1
kind: Pod
metadata: {name: agent, namespace: shop}
spec: {nodeName: n1, hostNetwork: true, containers: []}
status: {podIP: 10.9.0.1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec: {template: {metadata: {labels: {app: api}}, spec: {containers: []}}}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: 10.96.0.7, ports: [{port: 5432}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
"#;

/// Policies of the cluster above.
pub(crate) const POLICIES: &str = r#"apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - from:
    - podSelector: {matchLabels: {app: web}}
    ports:
    - {port: sql}
  - from:
    - ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.128/25]}
    ports:
    - {port: 5432}
    - {port: 9000, endPort: 9010, protocol: UDP}
"#;

/// The cluster and its policies.
pub(crate) fn shop() -> Manifests {
    Manifests::new(&[("cluster.yaml", CLUSTER), ("policies.yaml", POLICIES)])
}
