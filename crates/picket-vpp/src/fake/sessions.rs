//! The flows that rules have reflected.

use std::collections::BTreeSet;

use super::packet::{Direction, Packet};

/// One direction of a flow on an interface: the interface, which way, and the packet without its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    sw_if_index: u32,
    direction: Direction,
    packet: Packet,
}

impl Flow {
    pub(super) fn new(sw_if_index: u32, direction: Direction, packet: &Packet) -> Self {
        // A fragment without ports is a flow of its own to VPP, which is one of ports 0.
        let packet = Packet {
            tcp_flags: 0,
            fragment: false,
            ..*packet
        };
        Self {
            sw_if_index,
            direction,
            packet,
        }
    }

    /// What answers: the ends exchanged, the other way through the interface.
    fn turned(&self) -> Self {
        Self {
            sw_if_index: self.sw_if_index,
            direction: self.direction.opposite(),
            packet: self.packet.turned(),
        }
    }
}

/// The table of sessions. Nothing in it grows old: time does not pass in the fake.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    /// Every flow and what answers it.
    ways: BTreeSet<Flow>,
    max: usize,
}

impl Sessions {
    pub(super) fn new(max: usize) -> Self {
        Self {
            ways: BTreeSet::new(),
            max,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ways.len().div_ceil(2)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.max
    }

    pub(super) fn contains(&self, flow: &Flow) -> bool {
        self.ways.contains(flow)
    }

    pub(super) fn insert(&mut self, flow: Flow) {
        self.ways.insert(flow);
        self.ways.insert(flow.turned());
    }

    /// Forgets the flows of an interface.
    pub(super) fn forget(&mut self, sw_if_index: u32) {
        self.ways.retain(|flow| flow.sw_if_index != sw_if_index);
    }
}
