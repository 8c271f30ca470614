//! A standing lab is a process, the keeper: it owns every namespace, so that nothing is left when it ends, however it
//! ends. Commands reach it through an abstract socket, which leaves no file either.
//!
//! The socket's name holds the user's number and the lab's name. Both ends ask the kernel who the other is.

use std::collections::BTreeSet;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::process::Command;

use picket_linux::{
    NetworkNamespace, UserNamespace, die_with_parent, kill, peer_user, receive_line, send_line,
    user_of_process,
};
use serde::{Deserialize, Serialize};

/// What a keeper is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// What do you keep?
    Status,
    /// Probe every pair.
    Probe {
        /// How long a probe waits, in milliseconds; the lab's own when `None`.
        timeout: Option<u64>,
        /// The text of an expectations file.
        expectations: Option<String>,
        /// The secondary network to probe, `namespace/name`; every network when `None`.
        network: Option<String>,
        /// Whether the answer is coloured.
        colour: bool,
    },
    /// Change to what these files say now.
    Apply {
        /// Absolute paths.
        paths: Vec<PathBuf>,
    },
    /// Hand out the namespace of a place. It is meant to be used until the keeper hangs up.
    Enter {
        /// Its name.
        place: String,
    },
    /// End.
    Down,
}

/// What a keeper answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// Whether everything is as it should be.
    pub good: bool,
    /// For people.
    pub text: String,
    /// For machines.
    pub json: serde_json::Value,
}

/// Why a keeper cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is none.
    #[error("no lab is called `{name}`{running}")]
    NotRunning {
        /// The name.
        name: String,
        /// Names of those there are, empty or beginning with a semicolon.
        running: String,
    },
    /// There is one already.
    #[error(
        "a lab called `{name}` is already up; end it with `picket lab down --name {name}`, or choose another name"
    )]
    AlreadyUp {
        /// The name.
        name: String,
    },
    /// A name that no lab can have.
    #[error("`{name}` is no name for a lab: 1 to 60 letters, digits, `-`, `_` and `.` are allowed")]
    Name {
        /// The name.
        name: String,
    },
    /// Somebody else holds the name.
    #[error("the lab called `{name}` belongs to another user")]
    Foreign {
        /// The name.
        name: String,
    },
    /// It said no.
    #[error("{0}")]
    Refused(String),
    /// The connection broke.
    #[error("lost the lab called `{name}`")]
    Lost {
        /// The name.
        name: String,
        /// How.
        source: io::Error,
    },
}

const PREFIX: &str = "picket-lab/";

pub(crate) fn address(name: &str, user: u32) -> Result<SocketAddr, ControlError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let wrong = || ControlError::Name {
        name: name.to_owned(),
    };
    if !(1..=60).contains(&name.len()) || !name.chars().all(allowed) {
        return Err(wrong());
    }
    SocketAddr::from_abstract_name(format!("{PREFIX}{user}/{name}")).map_err(|_| wrong())
}

/// Names of the labs of this user that are up.
pub fn running() -> BTreeSet<String> {
    let own = format!("@{PREFIX}{}/", user_of_process());
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    // The fourth column has the bit of listeners; accepted connections carry the same name.
    let listening = |line: &&str| line.split_whitespace().nth(3) == Some("00010000");
    let names = sockets
        .lines()
        .filter(listening)
        .filter_map(|line| line.split_whitespace().last()?.strip_prefix(&own));
    names.map(str::to_owned).collect()
}

/// Sends one request and waits for the answer.
///
/// # Errors
/// See [`ControlError`].
pub fn send(name: &str, request: &Request) -> Result<Response, ControlError> {
    let mut stream = connect(name)?;
    let (response, _) = ask(name, &mut stream, request)?;
    if *request == Request::Down {
        // The keeper hangs up when it has ended.
        let _ended = receive_line(&mut stream);
    }
    Ok(response)
}

/// Runs `command` in a place of the lab and returns its exit status. It is killed when the lab goes down. The process
/// must have one thread.
///
/// # Errors
/// See [`ControlError`]; a command that cannot be started is [`ControlError::Refused`].
pub fn execute(name: &str, place: &str, command: &mut Command) -> Result<i32, ControlError> {
    let mut stream = connect(name)?;
    let request = Request::Enter {
        place: place.to_owned(),
    };
    let (_, files) = ask(name, &mut stream, &request)?;
    let refused = |error: &dyn std::error::Error| ControlError::Refused(crate::session::chain(error));
    let mut files = files.into_iter();
    let network = files.next().map(NetworkNamespace::from);
    if let Some(user) = files.next().map(UserNamespace::from)
        && !user.is_current()
    {
        user.enter().map_err(|error| refused(&error))?;
    }
    match network {
        Some(network) => network.enter().map_err(|error| refused(&error))?,
        None => {
            return Err(ControlError::Refused(
                "the lab handed out no namespace".to_owned(),
            ));
        }
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = die_with_parent(command)
        .spawn()
        .map_err(|error| ControlError::Refused(format!("cannot start `{program}`: {error}")))?;
    let process = child.id();
    std::thread::spawn(move || {
        let _hung_up = receive_line(&mut stream);
        kill(process);
    });
    match child.wait() {
        Ok(status) => Ok(status.code().unwrap_or_else(|| {
            128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default()
        })),
        Err(error) => Err(refused(&error)),
    }
}

fn connect(name: &str) -> Result<UnixStream, ControlError> {
    let user = user_of_process();
    let Ok(stream) = UnixStream::connect_addr(&address(name, user)?) else {
        let others: Vec<String> = running().into_iter().collect();
        return Err(ControlError::NotRunning {
            name: name.to_owned(),
            running: match others.as_slice() {
                [] => "; start one with `picket lab up -f DIR`".to_owned(),
                others => format!("; these are up: {}", others.join(", ")),
            },
        });
    };
    match peer_user(&stream) {
        Some(peer) if peer == user => Ok(stream),
        _ => Err(ControlError::Foreign {
            name: name.to_owned(),
        }),
    }
}

fn ask(
    name: &str,
    stream: &mut UnixStream,
    request: &Request,
) -> Result<(Response, Vec<std::os::fd::OwnedFd>), ControlError> {
    let lost = |source: io::Error| ControlError::Lost {
        name: name.to_owned(),
        source,
    };
    let line = serde_json::to_string(request).map_err(|error| lost(error.into()))?;
    send_line(stream, &line, &[]).map_err(lost)?;
    let (line, files) = receive_line(stream).map_err(lost)?;
    let answer: Result<Response, String> = serde_json::from_str(&line).map_err(|error| lost(error.into()))?;
    answer
        .map(|response| (response, files))
        .map_err(ControlError::Refused)
}
