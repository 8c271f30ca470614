//! Network namespaces that have no name: they live as long as something holds them open or runs in them.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};
use std::{fs, io, thread};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::user::creation_hint;
use crate::{Error, Result};

/// An open network namespace. When the last holder is gone, also by `kill -9`, the kernel removes it with every
/// interface, route, table and connection in it.
#[derive(Debug)]
pub struct NetworkNamespace {
    file: OwnedFd,
}

/// What makes two handles the same namespace: device and inode of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceIdentity {
    device: u64,
    inode: u64,
}

impl NetworkNamespace {
    /// A new, empty namespace; its loopback interface is down.
    ///
    /// # Errors
    /// [`Error::Create`] when the process lacks `CAP_SYS_ADMIN` or a limit is reached.
    pub fn create() -> Result<Self> {
        let file = on_new_thread(|| unshare_network().and_then(|()| current_file()).map(OwnedFd::from))
            .map_err(|source| Error::Create {
                kind: "network",
                hint: creation_hint(&source),
                source,
            })?;
        Ok(Self { file })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// [`Error::Enter`] when `/proc` is not there.
    pub fn current() -> Result<Self> {
        match current_file() {
            Ok(file) => Ok(Self { file: file.into() }),
            Err(source) => Err(Error::Enter {
                kind: "network",
                source,
            }),
        }
    }

    /// The same namespace, held once more.
    ///
    /// # Errors
    /// [`Error::Enter`] when no more files can be opened.
    pub fn duplicate(&self) -> Result<Self> {
        match self.file.try_clone() {
            Ok(file) => Ok(Self { file }),
            Err(source) => Err(Error::Enter {
                kind: "network",
                source,
            }),
        }
    }

    /// Which namespace this is.
    ///
    /// # Errors
    /// [`Error::Enter`] when the file cannot be looked at.
    pub fn identity(&self) -> Result<NamespaceIdentity> {
        let file = self.duplicate()?;
        match File::from(file.file).metadata() {
            Ok(metadata) => Ok(NamespaceIdentity {
                device: metadata.dev(),
                inode: metadata.ino(),
            }),
            Err(source) => Err(Error::Enter {
                kind: "network",
                source,
            }),
        }
    }

    /// Whether this is a network namespace at all, and not one of another kind. The file must be of nsfs: others take the
    /// question for one of their own.
    #[cfg(feature = "runtime")]
    #[expect(unsafe_code, reason = "rustix does not ask namespaces for their kind")]
    pub(crate) fn is_one(&self) -> bool {
        use std::os::fd::AsRawFd;

        /// `NS_GET_NSTYPE` of `linux/nsfs.h`.
        const KIND: libc::c_ulong = 0xb703;
        // SAFETY: the file is open, and the question has no argument that the kernel would read or write.
        let kind = unsafe { libc::ioctl(self.file.as_raw_fd(), KIND) };
        kind == libc::CLONE_NEWNET
    }

    /// Runs `work` inside, on a thread made for it. What it opens (sockets, netlink) stays inside whoever uses it
    /// later, and processes that it starts run inside.
    ///
    /// # Errors
    /// [`Error::Enter`] when the namespace cannot be entered; `work` has then not run.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        on_new_thread(|| self.enter().map(|()| work()))
    }

    /// Moves the calling thread inside, for good. Threads and processes that it starts from now on are inside too. A thread
    /// that is inside already needs no right to.
    ///
    /// # Errors
    /// [`Error::Enter`].
    pub fn enter(&self) -> Result<()> {
        if Self::current()?.identity()? == self.identity()? {
            return Ok(());
        }
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|source| {
            Error::Enter {
                kind: "network",
                source: source.into(),
            }
        })
    }

    /// Starts `command` inside.
    ///
    /// # Errors
    /// [`Error::Enter`], or [`Error::Start`] when there is no such program.
    pub fn spawn(&self, command: &mut Command) -> Result<Child> {
        let program = command.get_program().to_string_lossy().into_owned();
        self.run(|| command.spawn())?.map_err(|source| Error::Start {
            program,
            hint: String::new(),
            source,
        })
    }

    /// Writes kernel settings of this namespace, by their paths below `/proc/sys/net`, as in `ipv4/ip_forward`.
    ///
    /// # Errors
    /// [`Error::Enter`], or [`Error::Setting`] for the first that the kernel does not have or refuses.
    pub fn set(&self, settings: &[(&str, &str)]) -> Result<()> {
        // /proc/sys/net shows the namespace of the thread that opens the file.
        self.run(|| {
            settings.iter().try_for_each(|(name, value)| {
                fs::write(format!("/proc/sys/net/{name}"), value).map_err(|source| Error::Setting {
                    name: format!("net/{name}"),
                    source,
                })
            })
        })?
    }
}

impl AsFd for NetworkNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl From<OwnedFd> for NetworkNamespace {
    /// Takes an open namespace file, as another process passes it. What is no network namespace fails at its first
    /// use.
    fn from(file: OwnedFd) -> Self {
        Self { file }
    }
}

fn current_file() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

#[expect(unsafe_code, reason = "rustix marks every unshare unsafe")]
fn unshare_network() -> io::Result<()> {
    // SAFETY: only CLONE_FILES would take file descriptors from other threads; a network namespace belongs to the
    // calling thread alone.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from)
}

/// Runs `work` on a thread of its own, so that the namespace it moves to is left with the thread.
fn on_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
