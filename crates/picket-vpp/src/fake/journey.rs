//! A packet from one interface to another, and what answers it.

use std::net::IpAddr;

use super::packet::{Direction, DroppedBy, Packet, Verdict};
use super::state::State;

/// What the NAT of the node does with a packet between the two interfaces, and undoes for what answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The address behind the Service.
    pub destination: IpAddr,
    /// The port behind the Service.
    pub port: u16,
    /// The address that takes the place of the source, as for a pod that reaches itself.
    pub source: Option<IpAddr>,
}

impl Translation {
    fn of(&self, packet: &Packet) -> Packet {
        Packet {
            source: self.source.unwrap_or(packet.source),
            destination: self.destination,
            destination_port: self.port,
            ..*packet
        }
    }
}

/// Where on its way a packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The input list where it enters.
    Enters,
    /// The output list where it leaves.
    Leaves,
    /// The input list where the answer enters.
    AnswerEnters,
    /// The output list where the answer leaves.
    AnswerLeaves,
}

/// How a connection fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journey {
    /// The packet arrives, and so does what answers it.
    Answered,
    /// One of the two is dropped.
    Lost {
        /// Where.
        at: Point,
        /// Because of what.
        by: DroppedBy,
    },
}

impl Journey {
    /// Whether the packet arrives, answered or not.
    pub fn reaches(self) -> bool {
        let lost = |at| matches!(at, Point::Enters | Point::Leaves);
        !matches!(self, Self::Lost { at, .. } if lost(at))
    }
}

impl State {
    /// Sends a packet in at one interface and out at another, and its answer back. Translation comes after the input list and
    /// is undone before the output list of the way back. Flows that rules reflect are remembered.
    pub fn journey(
        &mut self,
        from: u32,
        to: u32,
        packet: &Packet,
        translation: Option<Translation>,
    ) -> Journey {
        let there = translation.map_or(*packet, |translation| translation.of(packet));
        let steps = [
            (Point::Enters, from, Direction::In, *packet),
            (Point::Leaves, to, Direction::Out, there),
            (Point::AnswerEnters, to, Direction::In, there.reply()),
            (Point::AnswerLeaves, from, Direction::Out, packet.reply()),
        ];
        for (at, interface, direction, packet) in steps {
            if let Verdict::Dropped { by } = self.packet(interface, direction, &packet) {
                return Journey::Lost { at, by };
            }
        }
        Journey::Answered
    }

    /// The same of a copy of the state: whether a connection would begin now, without remembering that it did.
    pub fn would_reach(&self, from: u32, to: u32, packet: &Packet, translation: Option<Translation>) -> bool {
        self.clone().journey(from, to, packet, translation).reaches()
    }
}
