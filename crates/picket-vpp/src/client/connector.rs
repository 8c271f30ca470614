//! How VPP is reached.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::connection::{Connection, Limits};
use super::error::Error;
use super::stream::LONGEST_WAIT;
use super::table::Feature;
use super::value::Label;
use super::vpp::Vpp;

/// Where VPP listens, and how patient its clients are.
///
/// A VPP that hangs does not even refuse: calling it is left to a thread, of which each of these has one at most.
#[derive(Debug)]
pub struct Connector {
    path: PathBuf,
    name: Label,
    limits: Limits,
    /// The call that had no end when it was given up.
    pending: Option<Receiver<io::Result<UnixStream>>>,
}

impl Connector {
    /// For the socket at `path`, which is `/run/vpp/api.sock` unless VPP is configured otherwise.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            name: Label::new("picket").unwrap_or_default(),
            limits: Limits {
                answer: Duration::from_secs(10),
                window: 64,
            },
            pending: None,
        }
    }

    /// The same, and VPP lists its clients by this name.
    #[must_use]
    pub fn named(mut self, name: Label) -> Self {
        self.name = name;
        self
    }

    /// The same, and it may take so long until VPP listens, and until it answers each request; 10 seconds otherwise.
    #[must_use]
    pub fn patient_for(mut self, limit: Duration) -> Self {
        self.limits.answer = limit;
        self
    }

    /// The same, and so many requests may be without an answer at once, at least 1; 64 otherwise.
    #[must_use]
    pub fn with_window(mut self, requests: usize) -> Self {
        self.limits.window = requests.max(1);
        self
    }

    /// Connects, and makes sure that VPP has the messages of these features as they are known.
    ///
    /// # Errors
    /// All of [`Error`] but [`Error::Refused`] of anything else than the client itself.
    pub fn connect(&mut self, features: &[Feature]) -> Result<Vpp, Error> {
        let socket = self.call().map_err(|source| Error::Connect {
            path: self.path.display().to_string(),
            source,
        })?;
        let connection = Connection::open(socket, &self.name, self.limits)?;
        let lacks = connection.table().lacks(features);
        if !lacks.is_empty() {
            return Err(Error::Incompatible(lacks));
        }
        Ok(Vpp::new(connection))
    }

    /// Calls VPP, or waits on for an earlier call.
    fn call(&mut self) -> io::Result<UnixStream> {
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => call(self.path.clone())?,
        };
        match pending.recv_timeout(self.limits.answer.min(LONGEST_WAIT)) {
            Ok(called) => called,
            Err(RecvTimeoutError::Timeout) => {
                self.pending = Some(pending);
                Err(io::ErrorKind::TimedOut.into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

/// Calls in a thread of its own: while nobody accepts, `connect` waits, and cannot be told for how long.
fn call(path: PathBuf) -> io::Result<Receiver<io::Result<UnixStream>>> {
    let (sender, receiver) = channel();
    thread::Builder::new()
        .name("vpp-connect".to_owned())
        .spawn(move || {
            // Whoever has given up does not hear it, and the socket is closed.
            let _ = sender.send(UnixStream::connect(path));
        })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_an_end_is_waited_for_again() {
        let (sender, receiver) = channel();
        let mut connector = Connector::new("never called").patient_for(Duration::from_millis(1));
        connector.pending = Some(receiver);
        for _ in 0..2 {
            assert_eq!(connector.call().unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        let (ours, _theirs) = UnixStream::pair().unwrap();
        sender.send(Ok(ours)).unwrap();
        assert!(connector.call().is_ok() && connector.pending.is_none());
    }

    #[test]
    fn the_socket_is_named_when_nobody_listens() {
        let error = Connector::new("/nowhere/api.sock").connect(&[]).unwrap_err();
        assert_eq!(error.to_string(), "cannot connect to VPP at `/nowhere/api.sock`");
        assert!(error.ends_connection());
    }
}
