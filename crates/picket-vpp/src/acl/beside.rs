//! What a pod sends to other pods of its node that may not receive all of it.
//!
//! VPP looks sessions up before its lists, both ways. So what another pod must not receive may leave no session where it was
//! sent: by that the other could send what the pod must not receive, and two pods that are kept apart would reach each other as soon
//! as both send between the same ports.

use std::collections::BTreeMap;
use std::net::IpAddr;

use picket_net::{Family, Prefix};

use super::model::{AclAction, AclRule};
use crate::layer4::{Layer4, Selector};
use crate::peers::Peers;
use crate::rule::compare_prefixes;
use crate::value::{Value, Values};
use crate::work::looked_at;

/// What becomes of which packets, the first that holds a packet deciding.
type Steps = Vec<(Selector, AclAction)>;

/// Other pods of the node, by address, with what becomes of all that a pod may send to them.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// What becomes of what is sent to pods that are alike.
    steps: Vec<Steps>,
    /// Their addresses, each prefix with the place of its steps. No two share an address.
    prefixes: Vec<(Prefix, usize)>,
}

impl Beside {
    /// Of a pod that may send what `peers` say, with what may be received of it at some addresses.
    pub(super) fn new<'b>(
        peers: &Peers,
        received: impl Iterator<Item = &'b (IpAddr, Value)>,
        values: &Values,
    ) -> Self {
        let family = peers.family();
        let mut alike: BTreeMap<[Value; 2], Vec<(Prefix, Value)>> = BTreeMap::new();
        for &(address, both) in received {
            looked_at(1);
            let hosts = alike.entry([peers.value(address), both]).or_default();
            hosts.push((Prefix::host(address), Value::EVERYTHING));
        }
        let mut beside = Self::default();
        for ([sent, both], hosts) in alike {
            let joined = Peers::new(family, hosts);
            let prefixes = joined
                .entries()
                .iter()
                .map(|entry| (entry.prefix, beside.steps.len()));
            beside.prefixes.extend(prefixes);
            let [sent, both] = [sent, both].map(|value| values.set(value));
            beside.steps.push(steps(sent, both, family));
        }
        beside.prefixes.sort_unstable_by_key(|(prefix, _)| prefix.first());
        beside
    }

    /// Whether all that a prefix holds is decided here.
    pub(super) fn holds(&self, prefix: &Prefix) -> bool {
        let at = self
            .prefixes
            .partition_point(|(known, _)| known.last() < prefix.first());
        let known = self.prefixes.get(at);
        known.is_some_and(|(known, _)| known.contains_prefix(prefix))
    }

    /// Adds the rules of what is sent from `own`.
    pub(super) fn add(&self, rules: &mut Vec<AclRule>, own: Prefix) {
        let mut prefixes = self.prefixes.clone();
        prefixes.sort_by(|(one, _), (other, _)| compare_prefixes(one, other));
        for (prefix, place) in prefixes {
            for (selector, action) in self.steps.get(place).into_iter().flatten() {
                AclRule::add(rules, *action, (own, prefix), selector);
            }
        }
    }
}

/// Of what is sent, what is received too is reflected; what is not passes alone, as the list to who must not receive it drops it.
fn steps(sent: &Layer4, received: &Layer4, family: Family) -> Steps {
    // What always passes is answered without a session.
    let reflected = match Layer4::necessary(family).contains_all(received) {
        true => Vec::new(),
        false => received.steps(),
    };
    let is_whole = reflected.last() == Some(&(Selector::Any, true));
    let rest = (!is_whole).then_some((Selector::Any, false));
    let mut steps = Steps::new();
    for (selector, passes) in reflected.into_iter().chain(rest) {
        if passes {
            steps.push((selector, AclAction::PermitReflect));
            continue;
        }
        let about = Layer4::of(&selector);
        if sent.contains_all(&about) {
            steps.push((selector, AclAction::Permit));
            continue;
        }
        for (selector, passes) in sent.intersection(&about).steps() {
            let all = Layer4::of(&selector);
            let is_decided = steps
                .iter()
                .any(|(before, _)| Layer4::of(before).contains_all(&all));
            let action = match passes {
                true => AclAction::Permit,
                false => AclAction::Deny,
            };
            steps.extend((!is_decided).then_some((selector, action)));
        }
        if steps.last().is_none_or(|(last, _)| *last != selector) {
            steps.push((selector, AclAction::Deny));
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use picket_net::{Interval, Protocol};
    use proptest::prelude::*;

    use super::*;

    /// Ports of three protocols, and all of the others or none.
    fn packets() -> impl Strategy<Value = Layer4> {
        let ports = (0..3_usize, 79..83_u16, 0..4_u16).prop_map(|(protocol, first, more)| {
            let protocol = [Protocol::TCP, Protocol::UDP, Protocol::ICMP][protocol];
            let all = Interval::new(first, first + more).unwrap();
            Layer4::of(&Selector::One(protocol, all))
        });
        let sets = prop::collection::vec(ports, 0..4);
        (sets, any::<bool>()).prop_map(|(sets, is_rest)| {
            let some = sets.iter().fold(Layer4::empty(), |all, set| all.union(set));
            if is_rest {
                Layer4::all().difference(&some)
            } else {
                some
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_received_is_reflected_and_what_is_only_sent_passes(sent in packets(), allowed in packets()) {
            let received = sent.intersection(&allowed);
            let steps = steps(&sent, &received, Family::Ipv4);
            for protocol in [Protocol::TCP, Protocol::UDP, Protocol::ICMP, Protocol::SCTP, Protocol::from_number(99)] {
                for port in [0, 1, 79, 80, 81, 82, 83, 84, 85, 86, 443] {
                    let packet = Layer4::of(&Selector::One(protocol, Interval::single(port)));
                    let mut deciding = steps.iter().filter(|(selector, _)| Layer4::of(selector).contains_all(&packet));
                    let action = deciding.next().map_or(AclAction::Deny, |(_, action)| *action);
                    let expected = match (sent.contains_all(&packet), received.contains_all(&packet)) {
                        (_, true) => AclAction::PermitReflect,
                        (true, false) => AclAction::Permit,
                        (false, false) => AclAction::Deny,
                    };
                    prop_assert_eq!(action, expected, "{:?} {}: {:?}", protocol, port, steps);
                }
            }
        }
    }
}
