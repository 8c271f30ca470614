//! When others change a table.

use picket_linux::{Monitor, NetworkNamespace, Notice, Port, TableName};

use super::uapi::NFPROTO_INET;
use crate::model::Name;

/// Listens for changes of one table in one network namespace.
#[derive(Debug)]
pub struct Watch {
    monitor: Monitor,
    table: TableName,
}

/// A change of the table that did not come from the client which keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Somebody changed it.
    By {
        /// The number of the thread that did; the first thread of a process has the number of the process.
        thread: u32,
        /// The first 15 bytes of its name, which is that of the program unless it was given one.
        program: String,
    },
    /// There was too much to hear, so that the table may have been changed.
    Perhaps,
}

/// What was heard in one go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// What others have done.
    pub changes: Vec<Change>,
    /// How many messages were read for that.
    pub readings: usize,
}

impl Watch {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the namespace cannot be entered or no socket made.
    pub fn open(namespace: &NetworkNamespace, table: &Name) -> picket_linux::Result<Self> {
        Ok(Self {
            monitor: Monitor::open(namespace)?,
            table: name_of(table),
        })
    }

    /// The same with as little room as many need of which each may be filled on purpose: a change of more than some hundred
    /// objects is [`Change::Perhaps`].
    ///
    /// # Errors
    /// As [`Watch::open`].
    pub fn open_small(namespace: &NetworkNamespace, table: &Name) -> picket_linux::Result<Self> {
        let table = name_of(table);
        Ok(Self {
            monitor: Monitor::of_table(namespace, table.clone())?,
            table,
        })
    }

    /// What to wait for, with [`picket_linux::Epoll`].
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// What others than the client of this [`Client::port`](super::Client::port) have done to the table since the last time. It does not wait.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn changes(&mut self, keeper: Port) -> picket_linux::Result<Vec<Change>> {
        self.heard(keeper, usize::MAX).map(|heard| heard.changes)
    }

    /// The same, but no more than so many messages are read, however fast others make them.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn heard(&mut self, keeper: Port, most: usize) -> picket_linux::Result<Heard> {
        let heard = self.monitor.heard(most)?;
        let table = &self.table;
        let changes = heard.notices.into_iter().filter_map(|notice| match notice {
            Notice::Committed(commit) => {
                let by_other = commit.port != keeper && commit.tables.contains(table);
                by_other.then_some(Change::By {
                    thread: commit.thread,
                    program: commit.program,
                })
            }
            Notice::Missed => Some(Change::Perhaps),
        });
        Ok(Heard {
            changes: changes.collect(),
            readings: heard.readings,
        })
    }
}

fn name_of(table: &Name) -> TableName {
    TableName {
        family: NFPROTO_INET,
        name: table.to_string(),
    }
}
