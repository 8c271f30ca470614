//! Which connections a table would not let begin.

mod pod;

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_dataplane::{Crossing, Meaning, Packet};
use picket_linux::{Carried, Connection, InterfaceAddress};
use picket_net::Protocol;
use rustc_hash::FxHashMap;

use super::Severed;
use crate::meaning::Interpreter;
use crate::model::Table;
use crate::render::indexed;
use pod::Interfaces;

/// Judges connections by the rules of a table.
pub(super) struct Judge<'t> {
    interpreter: Interpreter<'t>,
    place: Place,
    /// Whether what begins so is denied: a thousand clients of one service are one here.
    known: FxHashMap<Beginning, bool>,
}

/// Where the table is.
enum Place {
    Node {
        /// The addresses of own pods that something restricts.
        restricted: BTreeSet<IpAddr>,
        /// The addresses of the node.
        own: BTreeSet<IpAddr>,
    },
    Pod(Interfaces),
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

    /// That of the same connection if the other end has opened it.
    fn other_way(connection: &Connection) -> Self {
        Self::of(&Connection {
            original: connection.reply,
            reply: connection.original,
            ..*connection
        })
    }

    /// How the packet crosses a node.
    fn crossing(&self, is_own: impl Fn(IpAddr) -> bool) -> Crossing {
        if is_own(self.destination) {
            Crossing::Receive { input: "".into() }
        } else if is_own(self.source) {
            Crossing::Send { output: "".into() }
        } else {
            Crossing::Forward {
                input: "".into(),
                output: "".into(),
            }
        }
    }

    /// The packet, where it meets the rules.
    fn packet(&self, crossing: Crossing) -> Packet {
        let protocol = Protocol::from_number(self.protocol);
        Packet {
            icmp_type: self.icmp_type,
            ..Packet::opening(crossing, self.source, self.destination, protocol, self.port)
        }
    }
}

impl<'t> Judge<'t> {
    /// By the rules of `table`, at a node with these addresses.
    pub(super) fn on_node(table: &'t Table, own: BTreeSet<IpAddr>) -> Self {
        let restricted = indexed::restricted_addresses(table).collect();
        Self::new(table, Place::Node { restricted, own })
    }

    /// By the rules of `table`, in a pod that has these addresses.
    pub(super) fn in_pod(table: &'t Table, addresses: Vec<InterfaceAddress>) -> Self {
        Self::new(table, Place::Pod(Interfaces::new(addresses)))
    }

    fn new(table: &'t Table, place: Place) -> Self {
        Self {
            interpreter: Interpreter::new(table),
            place,
            known: FxHashMap::default(),
        }
    }

    /// The addresses of which anything is denied, unless it can be any.
    pub(super) fn restricted(&self) -> Option<&BTreeSet<IpAddr>> {
        match &self.place {
            Place::Node { restricted, .. } => Some(restricted),
            Place::Pod(_) => None,
        }
    }

    /// Whether a connection has an end of which anything is denied.
    pub(super) fn touches(&self, connection: &Connection) -> bool {
        let ends = [connection.original.source, connection.reply.source];
        self.restricted()
            .is_none_or(|restricted| ends.iter().any(|end| restricted.contains(end)))
    }

    /// Whether a connection could not begin now. One that was severed is judged by who had opened it.
    pub(super) fn denies(&mut self, connection: &Connection, severed: &Severed) -> bool {
        self.denies_beginning(match severed.has_turned(connection) {
            true => Beginning::other_way(connection),
            false => Beginning::of(connection),
        })
    }

    fn denies_beginning(&mut self, beginning: Beginning) -> bool {
        if let Some(&known) = self.known.get(&beginning) {
            return known;
        }
        let crossings = match &self.place {
            Place::Node { own, .. } => {
                vec![beginning.crossing(|address| address.is_loopback() || own.contains(&address))]
            }
            Place::Pod(interfaces) => interfaces.crossings(beginning.source, beginning.destination),
        };
        let is_denied = |crossing| {
            let packet = beginning.packet(crossing);
            !self.interpreter.outcome(&packet).is_accept()
        };
        let denied = crossings.into_iter().any(is_denied);
        self.known.insert(beginning, denied);
        denied
    }
}

#[cfg(test)]
mod tests;
