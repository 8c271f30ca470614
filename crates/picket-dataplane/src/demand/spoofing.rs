//! Source addresses that those who send with them cannot have.

use std::collections::BTreeSet;

use smol_str::SmolStr;

use super::place::Place;
use super::side::NOTHING;
use super::{Demand, Demands, Traffic};
use crate::Crossing;

impl Demand {
    /// Nothing passes but what IPv6 does not work without.
    const NOTHING: Self = Self::Traffic(Traffic {
        egress: Some(NOTHING),
        ..Traffic::EVERYTHING
    });

    /// The same, but that everything may be dropped.
    fn at_most(self) -> Self {
        match self {
            Self::Accept => Self::Traffic(Traffic {
                at_most: true,
                ..Traffic::EVERYTHING
            }),
            Self::Traffic(traffic) => Self::Traffic(Traffic {
                at_most: true,
                ..traffic
            }),
            Self::Anything => Self::Anything,
        }
    }

    /// Whether nothing passes but what IPv6 does not work without, whoever sends it to whom.
    pub fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }
}

impl Demands<'_> {
    /// The same demands on a node that lets nothing pass with a source to which the way back does not lead through the
    /// interface where it arrived, unless it arrived by one of the node's `uplinks`.
    #[must_use]
    pub fn against_spoofing(mut self, uplinks: BTreeSet<SmolStr>) -> Self {
        self.uplinks = Some(uplinks);
        self
    }

    /// The uplinks of the node, where it is known that it looks at the way back.
    pub fn uplinks(&self) -> impl Iterator<Item = &str> {
        self.uplinks.iter().flatten().map(SmolStr::as_str)
    }

    /// What is demanded of a packet to whose source the way back does not lead through the interface where it arrived,
    /// where `demand` is of others.
    pub fn without_way_back(&self, crossing: &Crossing, demand: Demand) -> Demand {
        let (Place::Node, Crossing::Forward { input, .. }) = (&self.place, crossing) else {
            return demand;
        };
        match &self.uplinks {
            Some(uplinks) if uplinks.contains(input) => demand,
            Some(_) => Demand::NOTHING,
            // A node may look at it.
            None => demand.at_most(),
        }
    }
}
