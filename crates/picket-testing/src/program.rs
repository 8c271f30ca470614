//! Programs of others that tests run, built from their sources, which come as modules of Go, files out of such modules, and
//! packages of Python.
//!
//! `cargo xtask programs` builds them, and `cargo xtask test` does so first; a test that finds none fails.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// A program and the folder in `tools` that says what it is built from: a Go module, or packages of Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is called.
    pub name: &'static str,
    /// The folder of its module.
    pub module: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// What of the module it is built from.
    pub source: Source,
    /// The environment variable that says where it is, if not in the cache.
    pub variable: &'static str,
}

/// What a program is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A package in Go, built with tags that leave out what needs libraries in C.
    Go {
        /// The package.
        package: &'static str,
        /// Its build tags, separated by commas.
        tags: &'static str,
    },
    /// The files in C in a folder of a module that the own one requires.
    C {
        /// The module.
        module: &'static str,
        /// The folder in it.
        folder: &'static str,
    },
    /// No program, but files of other modules, one after the other: of each the module with its version, and its path there.
    /// What the modules are is in `go.sum`.
    Files(&'static [(&'static str, &'static str)]),
    /// An environment of Python: the packages that `requirements.txt` names, with the hashes of their files, and in its folder
    /// `templates` what `templates.py` writes. The program is its interpreter.
    Python,
}

/// Leaves out what CRI-O does with libraries in C: signatures by GnuPG, and storage that tests do not use.
const CRIO_TAGS: &str = "containers_image_ostree_stub,containers_image_openpgp,exclude_graphdriver_btrfs";

/// Kubernetes' API server with an etcd in it.
pub const API_SERVER: Program = Program {
    name: "test-apiserver",
    module: "test-apiserver",
    purpose: "the Kubernetes API server for tests",
    source: Source::Go {
        package: ".",
        tags: "",
    },
    variable: "PICKET_TEST_APISERVER",
};

/// What makes services of Kubernetes work on a node.
pub const KUBE_PROXY: Program = Program {
    name: "kube-proxy",
    module: "kube-proxy",
    purpose: "kube-proxy",
    source: Source::Go {
        package: "k8s.io/kubernetes/cmd/kube-proxy",
        tags: "",
    },
    variable: "PICKET_TEST_KUBE_PROXY",
};

/// What renders charts.
pub const HELM: Program = Program {
    name: "helm",
    module: "helm",
    purpose: "Helm",
    source: Source::Go {
        package: "helm.sh/helm/v4/cmd/helm",
        tags: "",
    },
    variable: "PICKET_TEST_HELM",
};

/// A container runtime.
pub const CRIO: Program = Program {
    name: "crio",
    module: "crio",
    purpose: "the container runtime CRI-O",
    source: Source::Go {
        package: "github.com/cri-o/cri-o/cmd/crio",
        tags: CRIO_TAGS,
    },
    variable: "PICKET_TEST_CRIO",
};

/// What gives CRI-O an image that no registry has.
pub const COPYIMG: Program = Program {
    name: "copyimg",
    module: "crio",
    purpose: "what gives CRI-O images",
    source: Source::Go {
        package: "github.com/cri-o/cri-o/test/copyimg",
        tags: CRIO_TAGS,
    },
    variable: "PICKET_TEST_COPYIMG",
};

/// What makes the namespaces of CRI-O's sandboxes.
pub const PINNS: Program = Program {
    name: "pinns",
    module: "crio",
    purpose: "what makes namespaces for CRI-O",
    source: Source::C {
        module: "github.com/cri-o/cri-o",
        folder: "pinns/src",
    },
    variable: "PICKET_TEST_PINNS",
};

/// What defines the kinds of policies and networks that no cluster has by itself, with all fields that anybody may use.
pub const CRDS: Program = Program {
    name: "crds.yaml",
    module: "crds",
    purpose: "the definitions of custom kinds",
    source: Source::Files(&[
        (
            "github.com/k8snetworkplumbingwg/network-attachment-definition-client@v1.7.7",
            "artifacts/networks-crd.yaml",
        ),
        (
            "github.com/k8snetworkplumbingwg/multi-networkpolicy@v1.0.1",
            "scheme.yml",
        ),
        (
            "sigs.k8s.io/network-policy-api@v0.2.0",
            "config/crd/experimental/policy.networking.k8s.io_clusternetworkpolicies.yaml",
        ),
        // Later versions no longer have these two.
        (
            "sigs.k8s.io/network-policy-api@v0.1.7",
            "config/crd/experimental/policy.networking.k8s.io_adminnetworkpolicies.yaml",
        ),
        (
            "sigs.k8s.io/network-policy-api@v0.1.7",
            "config/crd/experimental/policy.networking.k8s.io_baselineadminnetworkpolicies.yaml",
        ),
    ]),
    variable: "PICKET_TEST_CRDS",
};

/// Leaves out what containerd does with storage and measurements that tests do not use.
const CONTAINERD_TAGS: &str = "no_btrfs,no_devmapper,no_zfs,no_tracing";

/// A container runtime, later than that which Debian has.
pub const CONTAINERD: Program = Program {
    name: "containerd",
    module: "containerd",
    purpose: "the container runtime containerd",
    source: Source::Go {
        package: "github.com/containerd/containerd/v2/cmd/containerd",
        tags: CONTAINERD_TAGS,
    },
    variable: "PICKET_TEST_CONTAINERD",
};

/// What holds the sandboxes and containers of that one.
pub const CONTAINERD_SHIM: Program = Program {
    name: "containerd-shim-runc-v2",
    module: "containerd",
    purpose: "what holds sandboxes for containerd",
    source: Source::Go {
        package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        tags: CONTAINERD_TAGS,
    },
    variable: "PICKET_TEST_CONTAINERD_SHIM",
};

/// Neutron, and Keystone beside it.
pub const NEUTRON: Program = Program {
    name: "neutron",
    module: "neutron",
    purpose: "Neutron with Keystone",
    source: Source::Python,
    variable: "PICKET_TEST_NEUTRON",
};

/// What of a folder of `tools` says what is built.
const SOURCES: [&str; 5] = ["go.mod", "go.sum", "main.go", "requirements.txt", "templates.py"];

/// All of them.
pub const PROGRAMS: [Program; 10] = [
    API_SERVER,
    KUBE_PROXY,
    HELM,
    CONTAINERD,
    CONTAINERD_SHIM,
    CRIO,
    COPYIMG,
    PINNS,
    CRDS,
    NEUTRON,
];

/// Where the machine keeps what tests need and take long to make.
///
/// # Panics
/// When there is no home to keep it in.
#[must_use]
pub fn cache() -> PathBuf {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.filter(|path| path.is_absolute());
    let cache = cache.unwrap_or_else(|| env::home_dir().unwrap().join(".cache"));
    cache.join("picket")
}

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
            .join(self.module)
    }

    /// Where it is in the cache of the machine once it has been built from the present sources.
    #[must_use]
    pub fn cached(&self) -> PathBuf {
        match self.source {
            Source::Python => self.built().join("bin/python"),
            _ => self.built(),
        }
    }

    /// What is built, there: a file, or the folder of an environment of Python.
    #[must_use]
    pub fn built(&self) -> PathBuf {
        cache()
            .join(format!("{}-{}", self.name, self.state()))
            .join(self.name)
    }

    /// What stands for the content of the sources.
    fn state(&self) -> String {
        let mut hash = Sha256::new();
        for file in SOURCES.map(|file| self.sources().join(file)) {
            if file.is_file() {
                let text = fs::read(file).unwrap();
                hash.update(text.len().to_be_bytes());
                hash.update(text);
            }
        }
        if let Source::Files(files) = self.source {
            hash.update(format!("{files:?}"));
        }
        let bytes = hash.finalize();
        bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}
