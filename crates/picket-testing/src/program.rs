//! Programs of others that tests run, built from their sources in Go.
//!
//! `cargo xtask programs` builds them, and `cargo xtask test` does so first; a test that finds none fails.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// A program and the Go module in `tools` that it is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it and the folder of its module are called.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Its package in the module.
    pub package: &'static str,
    /// The environment variable that says where it is, if not in the cache.
    pub variable: &'static str,
}

/// Kubernetes' API server with an etcd in it.
pub const API_SERVER: Program = Program {
    name: "test-apiserver",
    purpose: "the Kubernetes API server for tests",
    package: ".",
    variable: "PICKET_TEST_APISERVER",
};

/// What makes services of Kubernetes work on a node.
pub const KUBE_PROXY: Program = Program {
    name: "kube-proxy",
    purpose: "kube-proxy",
    package: "k8s.io/kubernetes/cmd/kube-proxy",
    variable: "PICKET_TEST_KUBE_PROXY",
};

/// What renders charts.
pub const HELM: Program = Program {
    name: "helm",
    purpose: "Helm",
    package: "helm.sh/helm/v4/cmd/helm",
    variable: "PICKET_TEST_HELM",
};

/// All of them.
pub const PROGRAMS: [Program; 3] = [API_SERVER, KUBE_PROXY, HELM];

impl Program {
    /// Where it is.
    ///
    /// # Panics
    /// When it has not been built.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let path = env::var_os(self.variable).map_or_else(|| self.cached(), PathBuf::from);
        assert!(
            path.is_file(),
            "no {} at {}: run `cargo xtask programs` first",
            self.purpose,
            path.display()
        );
        path
    }

    /// The folder of its module.
    #[must_use]
    pub fn sources(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tools")
            .join(self.name)
    }

    /// Where it is in the cache of the machine once it has been built from the present sources.
    #[must_use]
    pub fn cached(&self) -> PathBuf {
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache
            .filter(|path| path.is_absolute())
            .unwrap_or_else(|| env::home_dir().unwrap().join(".cache"));
        cache
            .join("picket")
            .join(format!("{}-{}", self.name, self.state()))
            .join(self.name)
    }

    /// What stands for the content of the sources.
    fn state(&self) -> String {
        let mut hash = Sha256::new();
        for file in ["go.mod", "go.sum", "main.go"].map(|file| self.sources().join(file)) {
            if file.is_file() {
                let text = fs::read(file).unwrap();
                hash.update(text.len().to_be_bytes());
                hash.update(text);
            }
        }
        let bytes = hash.finalize();
        bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}
