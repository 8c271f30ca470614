//! User namespaces: how an ordinary user may administer networks of their own.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::{Error, Result};

/// Bits of a capability set, `linux/capability.h`.
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_NET_RAW: u64 = 1 << 13;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// An open user namespace.
#[derive(Debug)]
pub struct UserNamespace {
    file: OwnedFd,
}

impl UserNamespace {
    /// The namespace of this process.
    ///
    /// # Errors
    /// [`Error::Enter`] when `/proc` is not there.
    pub fn current() -> Result<Self> {
        File::open("/proc/self/ns/user").map_or_else(
            |source| Err(entering(source)),
            |file| Ok(Self { file: file.into() }),
        )
    }

    /// Whether this process is in it.
    pub fn is_current(&self) -> bool {
        let number = |file: io::Result<File>| {
            file.and_then(|file| file.metadata())
                .map(|metadata| metadata.ino())
        };
        let own = number(File::open("/proc/self/ns/user"));
        let this = number(self.file.try_clone().map(File::from));
        matches!((own, this), (Ok(own), Ok(this)) if own == this)
    }

    /// Moves this process inside. Needs a process with one thread, of the user who made the namespace.
    ///
    /// # Errors
    /// [`Error::Enter`].
    pub fn enter(&self) -> Result<()> {
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(|source| entering(source.into()))
    }
}

impl AsFd for UserNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl From<OwnedFd> for UserNamespace {
    /// Takes an open namespace file, as another process passes it.
    fn from(file: OwnedFd) -> Self {
        Self { file }
    }
}

/// Whether this process may make network namespaces and raw sockets where it is.
pub fn can_administer_network() -> bool {
    let needed = CAP_NET_ADMIN | CAP_NET_RAW | CAP_SYS_ADMIN;
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return false;
    };
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & needed == needed)
}

/// Moves this process into a new user namespace in which it is root, and only there.
///
/// Needs a process with one thread: call it before any other is started.
///
/// # Errors
/// [`Error::Create`], with what to change when the system forbids it.
pub fn enter_user_namespace() -> Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare_user()
        .and_then(|()| fs::write("/proc/self/setgroups", "deny"))
        .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {user} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {group} 1")))
        .map_err(|source| Error::Create {
            kind: "user",
            hint: creation_hint(&source),
            source,
        })
}

fn entering(source: io::Error) -> Error {
    Error::Enter { kind: "user", source }
}

#[expect(unsafe_code, reason = "rustix marks every unshare unsafe")]
fn unshare_user() -> io::Result<()> {
    // SAFETY: only CLONE_FILES would take file descriptors from other threads, and the kernel refuses CLONE_NEWUSER
    // to a process that has any.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(io::Error::from)
}

/// What a person can do about a namespace that could not be made: settings that forbid it, by name.
pub(crate) fn creation_hint(error: &io::Error) -> String {
    let zero = |path: &str| fs::read_to_string(path).is_ok_and(|value| value.trim() == "0");
    let one = |path: &str| fs::read_to_string(path).is_ok_and(|value| value.trim() == "1");
    let hint = if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) {
        "the process has more than one thread, or the kernel lacks this kind of namespace"
    } else if one("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") {
        "AppArmor restricts user namespaces; run as root, or set `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    } else if zero("/proc/sys/kernel/unprivileged_userns_clone") {
        "ordinary users may not; run as root, or set `sysctl kernel.unprivileged_userns_clone=1`"
    } else if zero("/proc/sys/user/max_user_namespaces") {
        "none are allowed; run as root, or raise `sysctl user.max_user_namespaces`"
    } else if zero("/proc/sys/user/max_net_namespaces") {
        "none are allowed; raise `sysctl user.max_net_namespaces`"
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "this needs root, or a system (and container) that lets ordinary users make user namespaces"
    } else {
        return String::new();
    };
    format!(": {hint}")
}
