//! Endpoints on both sides, and what may pass between two of them on each.

use picket_net::AddressSet;

use crate::diff::Only;
use crate::map::class::Pair;
use crate::map::traffic::{TrafficId, Traffics};
use crate::map::{MapEndpoint, Place};

/// An endpoint of either side.
#[derive(Clone, Debug)]
pub(super) struct Joint {
    /// As the new side has it, or else the old one.
    pub(super) endpoint: MapEndpoint,
    /// Where it stands on the old and on the new side; `None` where it does not exist.
    pub(super) places: [Option<Place>; 2],
    /// The addresses of an external one.
    pub(super) external: AddressSet,
    /// Whether a connection of it changed.
    pub(super) touched: bool,
}

impl Joint {
    /// The only side that has it.
    pub(super) fn only(&self) -> Option<Only> {
        match &self.places {
            [Some(_), None] => Some(Only::Old),
            [None, Some(_)] => Some(Only::New),
            _ => None,
        }
    }

    /// Its class on each side.
    pub(super) fn classes(&self) -> JointClass {
        self.places
            .each_ref()
            .map(|place| place.as_ref().map(|place| place.class))
    }
}

/// The classes of an endpoint on the old and on the new side.
pub(super) type JointClass = [Option<usize>; 2];

/// What may pass from one endpoint to another on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Delta {
    pub(super) old: Pair,
    pub(super) new: Pair,
}

/// How what may pass changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nothing could pass before.
    Added,
    /// Nothing may pass any more.
    Removed,
    /// More may pass than before.
    Widened,
    /// Less may pass than before.
    Narrowed,
    /// Something more may pass and something less.
    Replaced,
}

impl Kind {
    /// `added`, `removed`, `widened`, `narrowed` or `replaced`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Widened => "widened",
            Self::Narrowed => "narrowed",
            Self::Replaced => "replaced",
        }
    }
}

impl Delta {
    /// Whether the same may pass on both sides. A family that does not exist lets nothing pass.
    pub(super) fn is_none(self) -> bool {
        families(self.old) == families(self.new)
    }

    /// What may pass on one side only, in the families that either side has.
    pub(super) fn only(self, only: Only, traffics: &mut Traffics) -> Pair {
        let (this, other) = match only {
            Only::Old => (self.old, self.new),
            Only::New => (self.new, self.old),
        };
        let mut rest = |this: Option<TrafficId>, other: Option<TrafficId>| {
            if this.is_none() && other.is_none() {
                return None;
            }
            let [this, other] = [this, other].map(|traffic| traffic.unwrap_or(TrafficId::NONE));
            Some(traffics.difference(this, other))
        };
        Pair {
            v4: rest(this.v4, other.v4),
            v6: rest(this.v6, other.v6),
        }
    }

    /// How it changed.
    pub(super) fn kind(self, traffics: &mut Traffics) -> Kind {
        let nothing = [TrafficId::NONE; 2];
        let more = families(self.only(Only::New, traffics)) != nothing;
        let less = families(self.only(Only::Old, traffics)) != nothing;
        if families(self.old) == nothing {
            Kind::Added
        } else if families(self.new) == nothing {
            Kind::Removed
        } else {
            match (more, less) {
                (true, false) => Kind::Widened,
                (false, _) => Kind::Narrowed,
                (true, true) => Kind::Replaced,
            }
        }
    }
}

fn families(pair: Pair) -> [TrafficId; 2] {
    [pair.v4, pair.v6].map(|traffic| traffic.unwrap_or(TrafficId::NONE))
}
