//! Which connections a table would not let begin.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_dataplane::{Crossing, Meaning, Packet};
use picket_linux::{Carried, Connection};
use picket_net::Protocol;
use rustc_hash::FxHashMap;

use crate::meaning::Interpreter;
use crate::model::Table;
use crate::render::indexed;

/// Judges connections by the rules of a table.
pub(super) struct Judge<'t> {
    interpreter: Interpreter<'t>,
    /// The addresses of own pods that something restricts.
    restricted: BTreeSet<IpAddr>,
    /// The addresses of the node.
    own: BTreeSet<IpAddr>,
    /// Whether what begins so is denied: a thousand clients of one service are one here.
    known: FxHashMap<Beginning, bool>,
}

/// All that rules can tell about the first packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Beginning {
    /// Before it was translated.
    source: IpAddr,
    /// After it was translated.
    destination: IpAddr,
    protocol: u8,
    /// The destination port after translation; 0 where there are none.
    port: u16,
    icmp_type: Option<u8>,
}

impl Beginning {
    pub(super) fn of(connection: &Connection) -> Self {
        let (original, reply) = (&connection.original, &connection.reply);
        Self {
            source: original.source,
            destination: reply.source,
            protocol: original.protocol,
            port: match reply.carried {
                Carried::Ports { source, .. } => source,
                Carried::Icmp { .. } | Carried::Nothing => 0,
            },
            icmp_type: match original.carried {
                Carried::Icmp { kind, .. } => Some(kind),
                Carried::Ports { .. } | Carried::Nothing => None,
            },
        }
    }

    /// The packet, where it meets the rules.
    fn packet(&self, is_own: impl Fn(IpAddr) -> bool) -> Packet {
        let crossing = if is_own(self.destination) {
            Crossing::Receive { input: "".into() }
        } else if is_own(self.source) {
            Crossing::Send { output: "".into() }
        } else {
            Crossing::Forward {
                input: "".into(),
                output: "".into(),
            }
        };
        let protocol = Protocol::from_number(self.protocol);
        Packet {
            icmp_type: self.icmp_type,
            ..Packet::opening(crossing, self.source, self.destination, protocol, self.port)
        }
    }
}

impl<'t> Judge<'t> {
    /// By the rules of `table`, at a node with these addresses.
    pub(super) fn new(table: &'t Table, own: BTreeSet<IpAddr>) -> Self {
        Self {
            interpreter: Interpreter::new(table),
            restricted: indexed::restricted_addresses(table).collect(),
            own,
            known: FxHashMap::default(),
        }
    }

    /// The addresses of which anything is denied.
    pub(super) fn restricted(&self) -> &BTreeSet<IpAddr> {
        &self.restricted
    }

    /// Whether a connection has an end of which anything is denied.
    pub(super) fn touches(&self, connection: &Connection) -> bool {
        let ends = [connection.original.source, connection.reply.source];
        ends.iter().any(|end| self.restricted.contains(end))
    }

    /// Whether a connection could not begin now.
    pub(super) fn denies(&mut self, connection: &Connection) -> bool {
        let beginning = Beginning::of(connection);
        if let Some(&known) = self.known.get(&beginning) {
            return known;
        }
        let is_own = |address: IpAddr| address.is_loopback() || self.own.contains(&address);
        let denied = !self.interpreter.outcome(&beginning.packet(is_own)).is_accept();
        self.known.insert(beginning, denied);
        denied
    }
}

#[cfg(test)]
mod tests;
