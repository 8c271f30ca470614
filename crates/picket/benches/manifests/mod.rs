//! Clusters of a size, as files.

use std::env;
use std::path::Path;
use std::process::Command;

/// Writes a cluster's manifests into a directory.
pub(crate) fn write(directory: &Path, [pods, namespaces, policies]: [u32; 3]) {
    let mut command = Command::new(env::var_os("CARGO").unwrap());
    command.args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "xtask",
        "--",
        "cluster",
    ]);
    for (option, value) in [("pods", pods), ("namespaces", namespaces), ("policies", policies)] {
        command.arg(format!("--{option}={value}"));
    }
    assert!(command.arg("--out").arg(directory).status().unwrap().success());
}
