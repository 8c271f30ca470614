//! Who changes the rulesets of a network namespace, told by the kernel at the end of each transaction.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, netlink, sockopt};

use crate::message::{HEADER, u16_at, u32_at};
use crate::nfnetlink::Port;
use crate::receive::{Datagram, Room, receive};
use crate::reply::{Reply, split_message};
use crate::{Error, NetworkNamespace, Result};

/// The bit of `NFNLGRP_NFTABLES`, of which the number is 7.
const GROUPS: u32 = 1 << 6;
const NFT_MSG_NEWGEN: u8 = 15;
const NFTA_GEN_ID: u16 = 1;
const NFTA_GEN_PROC_PID: u16 = 2;
const NFTA_GEN_PROC_NAME: u16 = 3;
/// In every object of nf_tables, the name of its table.
const TABLE: u16 = 1;

/// What may wait to be read. The kernel tells each object of a transaction, and what finds no room is lost.
const BUFFER_BYTES: usize = 8 << 20;

/// The same where one table of many namespaces matters, in which others may fill it on purpose.
const SMALL_BUFFER_BYTES: usize = 128 << 10;

/// Listens to the transactions of everybody in one network namespace.
#[derive(Debug)]
pub struct Monitor {
    socket: OwnedFd,
    /// The only table that matters, if that is so.
    only: Option<TableName>,
    /// What the transaction that is being told has changed so far.
    tables: BTreeSet<TableName>,
}

/// A table by its family (`NFPROTO_*`) and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    /// Its family.
    pub family: u8,
    /// Its name.
    pub name: String,
}

/// What was heard in one go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// What there was.
    pub notices: Vec<Notice>,
    /// How many messages were read for that, those of others than the kernel included.
    pub readings: usize,
}

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A transaction took place.
    Committed(Commit),
    /// There was too much to tell; only reading the rulesets tells what they are.
    Missed,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The generation that it made.
    pub generation: u32,
    /// Whose socket it came by, see [`crate::Nfnetlink::port`].
    pub port: Port,
    /// The number of the thread that sent it, in the first namespace of processes. The first thread of a process has the
    /// number of the process.
    pub thread: u32,
    /// The first 15 bytes of the name of that thread, which is that of the program unless it was given one.
    pub program: String,
    /// The tables that it changed; after [`Notice::Missed`] perhaps some more, which one before it changed.
    pub tables: BTreeSet<TableName>,
}

impl Monitor {
    /// Listens in `namespace` from now on.
    ///
    /// # Errors
    /// [`Error::Enter`] or [`Error::Socket`].
    pub fn open(namespace: &NetworkNamespace) -> Result<Self> {
        Self::with(namespace, BUFFER_BYTES, None)
    }

    /// Listens in `namespace` for changes of one table from now on. No other is named, and it takes little room: a transaction of
    /// more than some hundred objects is [`Notice::Missed`].
    ///
    /// # Errors
    /// As [`Monitor::open`].
    pub fn of_table(namespace: &NetworkNamespace, table: TableName) -> Result<Self> {
        Self::with(namespace, SMALL_BUFFER_BYTES, Some(table))
    }

    fn with(namespace: &NetworkNamespace, bytes: usize, only: Option<TableName>) -> Result<Self> {
        let socket = crate::netlink::open(namespace, Some(netlink::NETFILTER), GROUPS)?;
        // Where it may not have so much, more is lost, and that is noticed.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, bytes);
        Ok(Self {
            socket,
            only,
            tables: BTreeSet::new(),
        })
    }

    /// What there was since the last time; it does not wait. To wait, ask [`crate::Epoll`] about this.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn notices(&mut self) -> Result<Vec<Notice>> {
        self.heard(usize::MAX).map(|heard| heard.notices)
    }

    /// The same, but no more than so many messages are read, however fast others send them. What is left comes next time.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn heard(&mut self, most: usize) -> Result<Notices> {
        let (mut all, mut room) = (Notices::default(), Room::of_thread());
        while all.readings < most {
            let received = receive(&self.socket, &mut room, RecvFlags::DONTWAIT);
            if matches!(received, Err(Errno::AGAIN)) {
                break;
            }
            all.readings += 1;
            let length = match received {
                Ok(Datagram::Whole(length)) => length,
                Ok(Datagram::Cut) | Err(Errno::NOBUFS) => {
                    all.notices.push(Notice::Missed);
                    continue;
                }
                Ok(Datagram::Foreign) => continue,
                Err(source) => return Err(Error::socket("hear of changes of rulesets", source)),
            };
            let mut rest = room.get(..length).unwrap_or_default();
            while let Some((message, after)) = split_message(rest) {
                rest = after;
                let notice = heard(&mut self.tables, self.only.as_ref(), message);
                all.notices.extend(notice);
            }
        }
        Ok(all)
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Takes one message: notes the table that it is about, or tells the transaction that it ends.
fn heard(tables: &mut BTreeSet<TableName>, only: Option<&TableName>, message: &[u8]) -> Option<Notice> {
    let reply = Reply::of(message)?;
    let number = |kind| {
        let bytes = reply.attributes().find(kind)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    };
    let text = |kind| {
        let bytes = reply.attributes().find(kind).unwrap_or_default();
        String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
    };
    if reply.kind != NFT_MSG_NEWGEN {
        let [family, _version] = u16_at(message, HEADER)?.to_ne_bytes();
        let table = TableName {
            family,
            name: text(TABLE),
        };
        if only.is_none_or(|only| table == *only) {
            tables.insert(table);
        }
        return None;
    }
    Some(Notice::Committed(Commit {
        generation: number(NFTA_GEN_ID)?,
        port: Port(u32_at(message, 12)?),
        thread: number(NFTA_GEN_PROC_PID).unwrap_or_default(),
        program: text(NFTA_GEN_PROC_NAME),
        tables: std::mem::take(tables),
    }))
}
