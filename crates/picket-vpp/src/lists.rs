//! What each pod of a node may send and receive, by address.

mod compiler;
mod restricted;
mod said;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Family;
use picket_policy::Direction;

use crate::peers::Peers;
use crate::value::{Value, Values};
pub(crate) use compiler::Compiler;
pub use compiler::Touched;
pub(crate) use restricted::{Restricted, Turn};

/// What a pod may exchange with whom, of each family that it has an address of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists {
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// What it may receive, IPv4 and IPv6; `None` where it has no such address.
    pub ingress: [Option<Arc<Peers>>; 2],
    /// What it may send.
    pub egress: [Option<Arc<Peers>>; 2],
    /// Whether something restricts it of which no address is known.
    pub is_unknown: bool,
}

impl Lists {
    /// What it may exchange with whom in one direction.
    pub fn of(&self, direction: Direction) -> &[Option<Arc<Peers>>; 2] {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    /// Whether it may not exchange something in that direction with somebody.
    pub fn is_restricted(&self, direction: Direction) -> bool {
        self.of(direction)
            .iter()
            .flatten()
            .any(|peers| !peers.is_everything())
    }
}

/// The lists of a pod for which rules were given: `ingress` what it may receive, `egress` what it may send, each deciding by
/// the first that matches. What no rule matches is allowed.
pub fn of_rules(
    addresses: impl IntoIterator<Item = IpAddr>,
    ingress: &[crate::rule::Rule],
    egress: &[crate::rule::Rule],
    values: &mut Values,
) -> Lists {
    let addresses: BTreeSet<_> = addresses.into_iter().collect();
    let mut lists = |rules: &[crate::rule::Rule], of_source| {
        Family::BOTH.map(|family| {
            let has = addresses.iter().any(|&address| Family::of(address) == family);
            has.then(|| {
                Arc::new(Peers::of_rules(
                    family,
                    rules,
                    of_source,
                    Value::EVERYTHING,
                    values,
                ))
            })
        })
    };
    let (ingress, egress) = (lists(ingress, true), lists(egress, false));
    Lists {
        addresses,
        ingress,
        egress,
        is_unknown: false,
    }
}

impl Lists {
    /// What it may send or receive, where it has an address of the family.
    pub(crate) fn peers(&self, direction: Direction, family: Family) -> Option<&Arc<Peers>> {
        let [v4, v6] = self.of(direction);
        match family {
            Family::Ipv4 => v4.as_ref(),
            Family::Ipv6 => v6.as_ref(),
        }
    }
}
