//! What each pod of a node may send and receive, by address.

mod compiler;
mod naming;
mod restricted;
mod said;
mod slab;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Family;
use picket_policy::Direction;

use crate::peers::Peers;
use crate::rule::{Action, Rule};
use crate::value::{Value, Values};
pub(crate) use compiler::Compiler;
pub use compiler::Touched;
pub(crate) use restricted::{Restricted, Turn};
pub(crate) use slab::{Number, Slab};

/// What a pod may exchange with whom, of each family that it has an address of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists {
    /// Its addresses, ascending and each once.
    pub addresses: Arc<[IpAddr]>,
    /// What it may receive, IPv4 and IPv6; `None` where it has no such address.
    pub ingress: [Option<Arc<Peers>>; 2],
    /// What it may send.
    pub egress: [Option<Arc<Peers>>; 2],
    /// Whether policies are about what it receives, and about what it sends.
    pub isolated: [bool; 2],
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

    /// Whether it has no known address of a family, so that nobody can say what its policies allow there.
    pub fn lacks(&self, family: Family) -> bool {
        self.addresses
            .iter()
            .all(|&address| Family::of(address) != family)
    }

    /// Whether policies are about it of which nobody can say what they allow in a family.
    pub fn is_unknown(&self) -> bool {
        self.isolated.contains(&true) && Family::BOTH.into_iter().any(|family| self.lacks(family))
    }
}

/// The lists of a pod for which rules were given: `ingress` what it may receive, `egress` what it may send, each deciding by
/// the first that matches. What no rule matches is allowed.
///
/// Lists tell apart the other end and what it is sent, or sends, and nothing else. Rules that tell more apart count where that
/// makes the lists narrower: of those about some source ports, or about some of the pod's addresses of a family, the denials do,
/// and for all of them. Those about none of its addresses do not count.
pub fn of_rules(
    addresses: impl IntoIterator<Item = IpAddr>,
    ingress: &[Rule],
    egress: &[Rule],
    values: &mut Values,
) -> Lists {
    let addresses: BTreeSet<_> = addresses.into_iter().collect();
    let mut lists = |rules: &[Rule], of_source: bool| {
        Family::BOTH.map(|family| {
            let own = addresses.iter().filter(|&&address| Family::of(address) == family);
            let own: Vec<_> = own.copied().collect();
            let counts = |rule: &&Rule| {
                let about = if of_source { rule.destination } else { rule.source };
                let holds = |&address: &IpAddr| about.is_none_or(|net| net.contains(address));
                match rule.action {
                    Action::Permit => own.iter().all(holds),
                    Action::Deny => own.iter().any(holds),
                }
            };
            let rules: Vec<_> = rules.iter().filter(counts).copied().collect();
            (!own.is_empty()).then(|| {
                let peers = Peers::of_rules(family, &rules, of_source, Value::EVERYTHING, values);
                Arc::new(peers)
            })
        })
    };
    let (ingress, egress) = (lists(ingress, true), lists(egress, false));
    Lists {
        addresses: addresses.into_iter().collect(),
        ingress,
        egress,
        isolated: [false; 2],
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

#[cfg(test)]
mod tests {
    use picket_net::{Interval, Prefix, Protocol};

    use super::*;
    use crate::layer4::Layer4;
    use crate::rule::ALL_PORTS;

    fn net(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    /// TCP to port 80 of `destination`, from everybody.
    fn web(action: Action, destination: Option<&str>) -> Rule {
        Rule {
            source: None,
            destination: destination.map(net),
            protocol: Some(Protocol::TCP),
            source_ports: ALL_PORTS,
            destination_ports: Interval::single(80),
            action,
        }
    }

    #[test]
    fn rules_that_tell_more_apart_never_make_lists_wider() {
        let deny = Rule::everything(Action::Deny);
        let from_53 = |action| Rule {
            source_ports: Interval::single(53),
            ..web(action, None)
        };
        let both = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
        let (permit, refuse) = (Action::Permit, Action::Deny);
        for (rules, passes) in [
            (vec![web(permit, None), deny], true),
            (vec![from_53(permit), deny], false),
            (vec![from_53(refuse)], false),
            (vec![web(permit, Some("10.0.0.0/8")), deny], true),
            (vec![web(permit, Some("10.0.0.1/32")), deny], false),
            (vec![web(permit, Some("10.0.0.3/32")), deny], false),
            (vec![web(permit, Some("fd00::/8")), deny], false),
            (vec![web(refuse, Some("10.0.0.1/32"))], false),
            (vec![web(refuse, Some("10.0.0.3/32"))], true),
        ] {
            let mut values = Values::default();
            let lists = of_rules(both, &rules, &[], &mut values);
            let peers = lists.peers(Direction::Ingress, Family::Ipv4).unwrap();
            let allowed = values.set(peers.value("8.8.8.8".parse().unwrap()));
            let asked = Layer4::of(&crate::layer4::Selector::One(Protocol::TCP, Interval::single(80)));
            assert_eq!(allowed.contains_all(&asked), passes, "{rules:?}");
        }
    }
}
