//! What is said on a connection.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use super::flows::{numbers, packet};

/// Bytes of a record.
const LENGTH: usize = 12;

/// A record as it is sent.
pub(super) type Bytes = [u8; LENGTH];

/// What says which way it is sent and when, like a packet, and on which connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) way: usize,
    /// The epoch in which it is sent.
    pub(super) sent: usize,
    /// The epoch in which the connection was asked for.
    pub(super) asked: usize,
}

impl From<Bytes> for Record {
    fn from(bytes: Bytes) -> Self {
        let [way, sent, asked] = numbers(bytes.as_chunks().0);
        Self { way, sent, asked }
    }
}

/// An end of a connection. It waits for nothing.
pub(super) struct Records {
    stream: TcpStream,
    /// What has come of a record.
    rest: Vec<u8>,
    /// What is left of one that found no room.
    unsent: Vec<u8>,
}

impl Records {
    pub(super) fn on(stream: TcpStream) -> Self {
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            rest: Vec::new(),
            unsent: Vec::new(),
        }
    }

    /// Takes what has come; `false` when nothing comes any more.
    pub(super) fn read(&mut self, each: impl FnMut(Bytes)) -> bool {
        let mut bytes = [0; 1024];
        let goes_on = loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => break false,
                Ok(length) => self.rest.extend(&bytes[..length]),
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        let whole = self.rest.len() / LENGTH * LENGTH;
        let (records, _) = self.rest.as_chunks();
        records.iter().copied().for_each(each);
        self.rest.drain(..whole);
        goes_on
    }

    /// Sends a record, or what is left of the one before; `false` when nothing can be sent any more.
    pub(super) fn say(&mut self, record: &Record) -> bool {
        if self.unsent.is_empty() {
            self.unsent.extend(packet(record.way, record.sent));
            self.unsent
                .extend(u32::try_from(record.asked).unwrap().to_le_bytes());
        }
        match self.stream.write(&self.unsent) {
            Ok(length) => {
                self.unsent.drain(..length);
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}
