//! Connections that the rules in force deny are cut.
//!
//! Rules alone cut nothing: packets of a connection that was accepted once are accepted until connection tracking forgets it.
//! A [`Cutter`] makes it forget those that would not be accepted if they began now. Their next packet is then of no known
//! connection: TCP does not get past the chain `mid-stream`, and everything else is judged as new.

mod judge;
mod severed;

use picket_linux::{Connection, Netlink, NetworkNamespace, Nfnetlink, Which};

use crate::model::Table;
use judge::Judge;
pub use severed::Severed;

/// Up to how many addresses the kernel is asked for the connections of each: a list of those from or to one address takes it
/// about a tenth of the time that one of all takes.
const FEW: usize = 4;

/// How long a line of connections may be of which each was expected because of the one before.
const EXPECTED: usize = 4;

/// Cuts connections in one network namespace.
#[derive(Debug)]
pub struct Cutter {
    tracked: Nfnetlink,
    links: Netlink,
    severed: Severed,
}

/// Connections that a table would not let begin.
#[derive(Debug, Default)]
pub struct Denied {
    /// How many connections the kernel told of, some perhaps twice.
    pub seen: usize,
    connections: Vec<Connection>,
    /// Those of which it is not known, and why.
    unknown: Vec<(Connection, picket_linux::Error)>,
}

/// What was cut.
#[derive(Debug, Default)]
pub struct Cut {
    /// Those that were cut.
    pub cut: Vec<Connection>,
    /// Those that should have been, and why they were not.
    pub failed: Vec<(Connection, picket_linux::Error)>,
}

impl Cutter {
    /// Opens connection tracking in `namespace`; it stays there whatever thread uses it.
    ///
    /// # Errors
    /// When the namespace cannot be entered or no socket made.
    pub fn open(namespace: &NetworkNamespace) -> picket_linux::Result<Self> {
        Ok(Self {
            tracked: Nfnetlink::open(namespace)?,
            links: Netlink::open(namespace)?,
            severed: Severed::default(),
        })
    }

    /// One that knows what another has cut in the same namespace.
    #[must_use]
    pub fn after(self, severed: Severed) -> Self {
        Self { severed, ..self }
    }

    /// What it has cut, for [`Cutter::after`].
    pub fn into_severed(self) -> Severed {
        self.severed
    }

    /// Finds every connection that `table`, which is one of the indexed layout and in force, would not let begin now.
    ///
    /// What is judged is what the rules saw when a connection began: its source before it was translated, and its
    /// destination and port after that. The direction of replies is not judged. What the node itself exchanges with pods is
    /// judged as such, by the addresses that the node has. A connection that a helper of the kernel expected, such as one
    /// for the data of FTP, passed as a part of another, and is judged as that. TCP that was cut before, and taken up when it might
    /// be, is judged by who had opened it, whoever has sent first since.
    ///
    /// A packet that passed the rules from before may become known to connection tracking a moment after this has looked: do
    /// it once more soon after.
    ///
    /// # Errors
    /// When connections or addresses cannot be listed.
    pub fn denied(&mut self, table: &Table) -> picket_linux::Result<Denied> {
        let judge = Judge::on_node(table, self.links.addresses()?);
        self.denied_by(judge)
    }

    /// Finds every connection of a pod that `table`, which is one of the documented layout with
    /// [`refuse_mid_stream`](crate::render::documented::Options::refuse_mid_stream) and in force in the namespace of the pod,
    /// would not let begin now.
    ///
    /// The interface by which a connection goes is the one with its address at this end. Where the other end is no neighbour
    /// there, but one at another interface, the connection may go by either, and is found if one of them would not let it begin.
    ///
    /// # Errors
    /// As [`Cutter::denied`], which says what else is so.
    pub fn denied_in_pod(&mut self, table: &Table) -> picket_linux::Result<Denied> {
        let judge = Judge::in_pod(table, self.links.interface_addresses()?);
        self.denied_by(judge)
    }

    fn denied_by(&mut self, mut judge: Judge<'_>) -> picket_linux::Result<Denied> {
        let mut found = Denied::default();
        if self.tracked.connection_count()? == 0 {
            return Ok(found);
        }
        let mut expected = Vec::new();
        for which in lists(&judge) {
            self.tracked.connections(which, |connection| {
                found.seen += 1;
                match connection.master {
                    _ if !judge.touches(connection) => {}
                    Some(_) => expected.push(*connection),
                    None if judge.denies(connection, &self.severed) => found.connections.push(*connection),
                    None => {}
                }
            })?;
        }
        for connection in expected {
            match self.cause(connection) {
                Ok(cause) if judge.denies(&cause, &self.severed) => found.connections.push(connection),
                Ok(_) => {}
                Err(error) => found.unknown.push((connection, error)),
            }
        }
        Ok(found)
    }

    /// Of connections that [`Cutter::denied`] has found those that this table would not let begin, either.
    ///
    /// # Errors
    /// When addresses cannot be listed.
    pub fn still_denied(&mut self, denied: Denied, table: &Table) -> picket_linux::Result<Denied> {
        let judge = Judge::on_node(table, self.links.addresses()?);
        Ok(self.still_denied_by(denied, judge))
    }

    /// Of connections that [`Cutter::denied_in_pod`] has found those that this table would not let begin, either.
    ///
    /// # Errors
    /// When addresses cannot be listed.
    pub fn still_denied_in_pod(&mut self, denied: Denied, table: &Table) -> picket_linux::Result<Denied> {
        let judge = Judge::in_pod(table, self.links.interface_addresses()?);
        Ok(self.still_denied_by(denied, judge))
    }

    fn still_denied_by(&mut self, denied: Denied, mut judge: Judge<'_>) -> Denied {
        let mut still = Denied {
            seen: denied.seen,
            connections: Vec::new(),
            unknown: denied.unknown,
        };
        for connection in denied.connections {
            if !judge.touches(&connection) {
                continue;
            }
            match self.cause(connection) {
                Ok(cause) if judge.denies(&cause, &self.severed) => still.connections.push(connection),
                Ok(_) => {}
                Err(error) => still.unknown.push((connection, error)),
            }
        }
        still
    }

    /// Cuts connections that were found: these, and none that have begun in their place since.
    ///
    /// They must have been denied by a table that was in force at some time after they were found. That is so if the table by which they
    /// were found was still in force then; otherwise they have perhaps begun by the rules of another, and
    /// [`Cutter::still_denied`] tells of a later one.
    pub fn cut(&mut self, denied: Denied) -> Cut {
        let mut done = Cut {
            cut: Vec::new(),
            failed: denied.unknown,
        };
        for connection in denied.connections {
            match self.tracked.forget(&connection) {
                Ok(true) => {
                    self.severed.note(&connection);
                    done.cut.push(connection);
                }
                Ok(false) => {}
                Err(error) => done.failed.push((connection, error)),
            }
        }
        done
    }

    /// The connection because of which another was expected; itself where that is gone.
    fn cause(&mut self, expected: Connection) -> picket_linux::Result<Connection> {
        let mut cause = expected;
        for _ in 0..EXPECTED {
            let Some(master) = &cause.master else { break };
            match self.tracked.connection(master, cause.zone)? {
                Some(master) => cause = master,
                None => break,
            }
        }
        Ok(cause)
    }
}

/// The lists that have every connection of a restricted pod.
fn lists(judge: &Judge<'_>) -> Vec<Which> {
    let Some(addresses) = judge.restricted().filter(|addresses| addresses.len() <= FEW) else {
        return vec![Which::All];
    };
    let (v4, v6): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| address.is_ipv4());
    let of_v4 = v4
        .into_iter()
        .flat_map(|&address| [Which::From(address), Which::To(address)]);
    // The kernel chooses none by an address of IPv6.
    let of_v6 = (!v6.is_empty()).then_some(Which::Ipv6);
    of_v4.chain(of_v6).collect()
}
