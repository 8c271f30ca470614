//! Why the kernel or a tool refuses.

use std::io;

/// What was being done when the kernel or a tool refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A namespace could not be made.
    #[error("cannot create a {kind} namespace{hint}")]
    Create {
        /// `network` or `user`.
        kind: &'static str,
        /// What the user can do about it, empty or beginning with a colon.
        hint: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A namespace could not be entered. Nothing was run.
    #[error("cannot enter the {kind} namespace")]
    Enter {
        /// `network` or `user`.
        kind: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A netlink request was refused.
    #[error("cannot {action}{detail}")]
    Netlink {
        /// What was asked, as in `create the link pair …`.
        action: String,
        /// The kernel's own explanation, empty or beginning with a colon.
        detail: String,
        /// The error code.
        source: io::Error,
    },
    /// A name that no interface can have.
    #[error("`{name}` is no interface name: 1 to 15 bytes without `/` and white space are allowed")]
    InterfaceName {
        /// The name.
        name: String,
    },
    /// A socket could not be made or used.
    #[error("cannot {action}")]
    Socket {
        /// What was being done.
        action: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A kernel setting could not be written.
    #[error("cannot set `{name}`")]
    Setting {
        /// The path below `/proc/sys`.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start `{program}`{hint}")]
    Start {
        /// Its name.
        program: String,
        /// What to install, empty or beginning with a colon.
        hint: String,
        /// Why.
        source: io::Error,
    },
    /// A program failed.
    #[error("`{program}` failed: {message}")]
    Program {
        /// Its name.
        program: String,
        /// What it wrote to standard error.
        message: String,
    },
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether the kernel does not allow what it allows others, or allowed another first (`EPERM`).
    pub fn is_denied(&self) -> bool {
        match self {
            Self::Netlink { source, .. } | Self::Socket { source, .. } => {
                source.raw_os_error() == Some(libc::EPERM)
            }
            _ => false,
        }
    }

    /// Whether what was read changed all the time (`EINTR`).
    pub fn is_interrupted(&self) -> bool {
        let Self::Netlink { source, .. } = self else {
            return false;
        };
        source.raw_os_error() == Some(libc::EINTR)
    }

    pub(crate) fn socket(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Socket {
            action: action.into(),
            source: source.into(),
        }
    }
}
