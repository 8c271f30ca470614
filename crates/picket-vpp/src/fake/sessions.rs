//! The flows that rules have reflected.

use std::collections::BTreeSet;

use super::packet::Packet;

/// One direction of a flow on an interface: the interface, and the packet without its flags. Which way that goes through the
/// interface does not matter: VPP looks a session up before the lists of both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    sw_if_index: u32,
    packet: Packet,
}

impl Flow {
    pub(super) fn new(sw_if_index: u32, packet: &Packet) -> Self {
        let packet = Packet {
            tcp_flags: 0,
            ..*packet
        };
        Self { sw_if_index, packet }
    }

    /// What answers.
    fn answered_by(&self) -> Option<Self> {
        Some(Self {
            sw_if_index: self.sw_if_index,
            packet: self.packet.answered_by()?,
        })
    }
}

/// The table of sessions. Nothing in it grows old: time does not pass in the fake.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    begun: BTreeSet<Flow>,
    /// What answers them.
    answers: BTreeSet<Flow>,
    max: usize,
}

impl Sessions {
    pub(super) fn new(max: usize) -> Self {
        Self {
            begun: BTreeSet::new(),
            answers: BTreeSet::new(),
            max,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.begun.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.max
    }

    pub(super) fn contains(&self, flow: &Flow) -> bool {
        self.begun.contains(flow) || self.answers.contains(flow)
    }

    pub(super) fn insert(&mut self, flow: Flow) {
        self.begun.insert(flow);
        self.answers.extend(flow.answered_by());
    }

    /// Forgets the flows of an interface.
    pub(super) fn forget(&mut self, sw_if_index: u32) {
        for flows in [&mut self.begun, &mut self.answers] {
            flows.retain(|flow| flow.sw_if_index != sw_if_index);
        }
    }
}
