//! What one transport may do with a peer, by the number of what is allowed with it.

use picket_net::{Interval, IntervalSet};
use rustc_hash::FxHashMap;

use super::model::{Action, Transport};
use crate::layer4::Layer4;
use crate::value::{Value, Values};

/// The number of what becomes of the ports of one transport, in one [`PortSets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports(usize);

impl Ports {
    /// All are allowed.
    pub(super) const ALL: Self = Self(0);
    /// None is.
    pub(super) const NONE: Self = Self(1);

    /// Whether it is all or none.
    pub(super) fn is_whole(self) -> bool {
        self == Self::ALL || self == Self::NONE
    }
}

/// What one transport may do.
pub(super) fn of_transport([tcp, udp]: [Ports; 2], transport: Transport) -> Ports {
    match transport {
        Transport::Tcp => tcp,
        Transport::Udp => udp,
    }
}

/// What becomes of the ports of a transport: of most one thing, and of the fewest the opposite.
#[derive(Debug)]
pub(super) struct Said {
    /// What becomes of most.
    pub(super) action: Action,
    /// The ports of which the opposite becomes. Port 0 is none, whether it is here or not.
    pub(super) exceptions: IntervalSet<u16>,
    /// How many these are.
    pub(super) count: usize,
    /// The only one of them.
    pub(super) only: Option<u16>,
}

/// Sets of ports, each once. All values must be of the same [`Values`].
#[derive(Debug)]
pub(super) struct PortSets {
    said: Vec<Said>,
    /// By the ports that are allowed, where these are some.
    numbers: FxHashMap<IntervalSet<u16>, Ports>,
    /// For each transport.
    by_value: FxHashMap<Value, [Ports; 2]>,
}

impl Default for PortSets {
    fn default() -> Self {
        let whole = |action| Said {
            action,
            exceptions: IntervalSet::default(),
            count: 0,
            only: None,
        };
        // INVARIANT: in the order of `Ports::ALL` and `Ports::NONE`.
        Self {
            said: vec![whole(Action::Allow), whole(Action::Drop)],
            numbers: FxHashMap::default(),
            by_value: FxHashMap::default(),
        }
    }
}

impl PortSets {
    /// What each transport may do where a value is allowed.
    pub(super) fn of(&mut self, value: Value, values: &Values) -> [Ports; 2] {
        if let Some(&known) = self.by_value.get(&value) {
            return known;
        }
        let ports = Transport::BOTH.map(|transport| self.number(values.set(value), transport));
        self.by_value.insert(value, ports);
        ports
    }

    /// What a number stands for.
    pub(super) fn said(&self, ports: Ports) -> &Said {
        // INVARIANT: numbers are given out by `number` alone, and the first two are there from the beginning.
        #[expect(clippy::indexing_slicing, reason = "every number is an index")]
        &self.said[ports.0]
    }

    fn number(&mut self, allowed: &Layer4, transport: Transport) -> Ports {
        let allowed = allowed.ports(transport.protocol());
        let all = Interval::new(1, u16::MAX).into_iter().collect();
        if allowed.contains_all(&all) {
            return Ports::ALL;
        }
        if !allowed.overlaps(&all) {
            return Ports::NONE;
        }
        if let Some(&known) = self.numbers.get(&allowed) {
            return known;
        }
        let denied = allowed.complement();
        let (action, exceptions) = match count(&denied) < count(&allowed) {
            true => (Action::Allow, denied),
            false => (Action::Drop, allowed.clone()),
        };
        let number = Ports(self.said.len());
        let count = count(&exceptions);
        let only = exceptions.iter().find(|&port| port != 0 && count == 1);
        self.said.push(Said {
            action,
            count,
            only,
            exceptions,
        });
        self.numbers.insert(allowed, number);
        number
    }
}

fn count(ports: &IntervalSet<u16>) -> usize {
    let ports = ports.intervals().iter();
    // Port 0 is none.
    ports
        .map(|range| {
            usize::from(range.last()) + 1 - usize::from(range.first()) - usize::from(range.first() == 0)
        })
        .sum()
}
