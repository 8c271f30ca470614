//! Opening the network namespace of a sandbox, and nobody else's.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatfs, openat, openat2};

use super::SandboxId;
use super::error::Problem;
use super::place::Place;
use crate::{NamespaceIdentity, NetworkNamespace};

/// `NSFS_MAGIC` of `linux/magic.h`: the file system whose files are namespaces.
const NSFS: u64 = 0x6e73_6673;

/// The most of `/proc/PID/cgroup` that is read. There are a dozen lines of at most a path each.
const LONGEST_CGROUPS: u64 = 64 << 10;

/// Opens what is at a place of a sandbox. When the runtime names a path and a process, both must be the same.
pub(super) fn open(sandbox: &SandboxId, place: &Place, prefix: &Path) -> Result<NetworkNamespace, Problem> {
    let by_process = place.process.map(|process| of_process(sandbox, process, prefix));
    let Some(path) = &place.path else {
        let nothing = || {
            Err(Problem::Unknown(
                "neither a path nor a process is there".to_owned(),
            ))
        };
        return by_process.unwrap_or_else(nothing);
    };
    match (at_path_of_node(path, prefix), by_process) {
        // A path that is seen from here as the file that was mounted over says nothing: mounts of the node do not
        // always reach the agent.
        (Err(_), Some(Ok(namespace))) => Ok(namespace),
        (Ok(namespace), Some(Ok(other))) if identity(&namespace)? != identity(&other)? => {
            Err(Problem::Contradiction)
        }
        (found, _) => found,
    }
}

/// The network namespace of the node: that of its first process.
pub(super) fn of_node(prefix: &Path) -> Result<NetworkNamespace, Problem> {
    let path = below(prefix, "proc/1/ns/net");
    let file = openat(CWD, &path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    namespace(file.map_err(|error| unopened(&path, error))?, &path)
}

pub(super) fn identity(namespace: &NetworkNamespace) -> Result<NamespaceIdentity, Problem> {
    let identity = namespace.identity();
    identity.map_err(|error| Problem::Open("the namespace".to_owned(), io::Error::other(error)))
}

/// The namespace that a path of the node stands for. Where mounts of the node do not reach the prefix, its first process sees them.
fn at_path_of_node(path: &str, prefix: &Path) -> Result<NetworkNamespace, Problem> {
    at_path(path, &below(prefix, "")).or_else(|problem| match prefix.as_os_str().is_empty() {
        true => Err(problem),
        false => at_path(path, &below(prefix, "proc/1/root")).map_err(|_| problem),
    })
}

/// The namespace that a path stands for below a root, which is looked up as who has this root does: its symbolic links begin
/// there.
fn at_path(path: &str, root: &Path) -> Result<NetworkNamespace, Problem> {
    let shown = root.join(path.trim_start_matches('/'));
    let open = || {
        let root = openat(
            CWD,
            root,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
    };
    namespace(open().map_err(|error| unopened(&shown, error))?, &shown)
}

/// The namespace of a process, if it is one of the sandbox: runtimes name control groups after sandboxes. What is opened
/// by the folder of a process in `/proc` is of that process, also when its number becomes that of another.
fn of_process(sandbox: &SandboxId, process: u32, prefix: &Path) -> Result<NetworkNamespace, Problem> {
    let folder = below(prefix, &format!("proc/{process}"));
    let at = openat(
        CWD,
        &folder,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let at = at.map_err(|error| unopened(&folder, error))?;
    let groups = cgroups(at.as_fd()).map_err(|error| unopened(&folder.join("cgroup"), error))?;
    if !groups.contains(sandbox.as_str()) {
        return Err(Problem::OtherProcess(process));
    }
    let file = openat(&at, "ns/net", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let path = folder.join("ns/net");
    namespace(file.map_err(|error| unopened(&path, error))?, &path)
}

fn cgroups(process: impl AsFd) -> io::Result<String> {
    let file = openat(process, "cgroup", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = Vec::new();
    File::from(file).take(LONGEST_CGROUPS).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Opens for entering what has been opened only for looking at it: a pipe would keep whoever opens it, and a device do
/// who knows what.
fn namespace(looked_at: OwnedFd, path: &Path) -> Result<NetworkNamespace, Problem> {
    let none = || Problem::NoNamespace(path.display().to_string());
    let filesystem = fstatfs(&looked_at).map_err(|error| unopened(path, error))?;
    if u64::try_from(filesystem.f_type) != Ok(NSFS) {
        return Err(none());
    }
    let again = format!("/proc/self/fd/{}", looked_at.as_raw_fd());
    let file = openat(CWD, again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let namespace = NetworkNamespace::from(file.map_err(|error| unopened(path, error))?);
    match namespace.is_one() {
        true => Ok(namespace),
        false => Err(none()),
    }
}

fn unopened(path: &Path, error: impl Into<io::Error>) -> Problem {
    Problem::Open(path.display().to_string(), error.into())
}

/// A path of the node, seen from the agent.
fn below(prefix: &Path, path: &str) -> PathBuf {
    match prefix.as_os_str().is_empty() {
        true => Path::new("/").join(path),
        false => prefix.join(path),
    }
}
