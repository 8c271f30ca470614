//! The sets and the chain of one policy.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_net::{AddressRange, AddressSet, Family, Protocol, TrafficSet};
use picket_policy::{Action, Direction, Tier};

use super::{MAX_ANONYMOUS_SETS, Options, Peers, PodView, PolicyOnPod, ResolvedRule, Targets, name, title};
use crate::model::{
    Chain, Comment, Datatype, End, Field, InterfaceName, Key, Match, ModelError, Name, NameHash, Rule, Set,
    Statement, Transport, Value, Verdict,
};
use crate::render::drops::spoofed_counter;

/// The name of a policy's chain.
pub(super) fn chain_name(hash: NameHash) -> Name {
    name(&format!("cnp-{hash}"))
}

/// The name of the set of interfaces that a policy acts on.
pub(super) fn interfaces_name(hash: NameHash) -> Name {
    name(&format!("smi-{hash}"))
}

/// Builds the sets and rules of one policy.
pub(super) struct Parts<'a> {
    policy: &'a PolicyOnPod,
    hash: NameHash,
    options: &'a Options,
    /// Rules of the pod that have an anonymous set, so far.
    anonymous_sets: &'a mut usize,
    sets: Vec<Set>,
    rules: Vec<Rule>,
}

impl<'a> Parts<'a> {
    /// The sets of `policy`, the set of its interfaces first, and its chain.
    pub(super) fn of(
        view: &PodView,
        policy: &'a PolicyOnPod,
        hash: NameHash,
        options: &'a Options,
        anonymous_sets: &'a mut usize,
    ) -> Result<(Vec<Set>, Chain), ModelError> {
        let mut parts = Self {
            policy,
            hash,
            options,
            anonymous_sets,
            sets: Vec::new(),
            rules: Vec::new(),
        };
        let interfaces = policy
            .interfaces
            .iter()
            .map(|one| Key::from(Value::Interface(one.clone())));
        let set = Set::new(
            interfaces_name(hash),
            vec![Datatype::Interface],
            false,
            interfaces,
        )?;
        parts.add_set(set, "Managed interfaces set for");
        if policy.tier == Tier::NetworkPolicy {
            parts.reverse_rules(view);
            for direction in Direction::BOTH {
                let accepts = policy
                    .side(direction)
                    .rules
                    .iter()
                    .filter(|rule| rule.action == Action::Accept);
                for rule in accepts {
                    parts.rule(direction, rule)?;
                }
            }
        }
        let comment = parts.comment(&policy.object.kind);
        let chain = Chain::regular(chain_name(hash))
            .commented(comment)
            .with_rules(parts.rules);
        Ok((parts.sets, chain))
    }

    fn comment(&self, what: &str) -> Comment {
        Comment::new(&format!("{what} {}", title(&self.policy.object)), self.hash)
    }

    fn add_set(&mut self, set: Set, what: &str) {
        let comment = self.comment(what);
        self.sets.push(set.commented(comment));
    }

    /// What arrives from the network with the pod's own address as its source is spoofed: what a pod sends to itself
    /// goes over `lo`.
    fn reverse_rules(&mut self, view: &PodView) {
        if !self.policy.ingress.isolates && self.policy.ingress.rules.is_empty() {
            return;
        }
        let own = view
            .interfaces
            .iter()
            .filter(|one| self.policy.interfaces.contains(&one.name));
        for interface in own {
            for &address in &interface.addresses {
                let source = Match::is(source(Family::of(address)), Value::address(address));
                let count = self
                    .options
                    .count_drops
                    .then(|| Statement::Count(spoofed_counter()));
                let spoofed = [enters(&interface.name).into(), source.into()];
                let statements = spoofed.into_iter().chain(count);
                self.rules.push(Rule::of(statements, End::Verdict(Verdict::Drop)));
            }
        }
    }

    fn rule(&mut self, direction: Direction, rule: &ResolvedRule) -> Result<(), ModelError> {
        for interface in &self.policy.interfaces {
            match &rule.peers {
                Peers::Anyone => self.accept(direction, interface, None, &rule.traffic),
                Peers::Some { hosts, blocks } => {
                    let hosts = hosts.get(interface).cloned().unwrap_or_default();
                    for family in Family::BOTH {
                        let place = Place {
                            direction,
                            family,
                            interface,
                            index: rule.index,
                        };
                        if let Some(set) = self.hosts(place, None, &hosts, &rule.traffic)? {
                            self.accept(direction, interface, Some((family, set)), &rule.traffic);
                        }
                        if let Some(set) = self.blocks(place, blocks, &rule.traffic)? {
                            self.accept(direction, interface, Some((family, set)), &rule.traffic);
                        }
                    }
                }
            }
            for (number, (traffic, targets)) in (1..).zip(&rule.named) {
                let hosts = targets.get(interface).cloned().unwrap_or_default();
                for family in Family::BOTH {
                    let place = Place {
                        direction,
                        family,
                        interface,
                        index: rule.index,
                    };
                    if let Some(set) = self.hosts(place, Some(number), &hosts, traffic)? {
                        self.accept(direction, interface, Some((family, set)), traffic);
                    }
                }
            }
        }
        Ok(())
    }

    /// The set of the hosts of one family, made unless it would be empty or unused.
    fn hosts(
        &mut self,
        place: Place<'_>,
        group: Option<u32>,
        hosts: &AddressSet,
        traffic: &TrafficSet,
    ) -> Result<Option<Name>, ModelError> {
        let elements: Vec<Key> = match place.family {
            Family::Ipv4 => hosts
                .v4
                .iter()
                .map(|bits| host(Ipv4Addr::from_bits(bits).into()))
                .collect(),
            Family::Ipv6 => hosts
                .v6
                .iter()
                .map(|bits| host(Ipv6Addr::from_bits(bits).into()))
                .collect(),
        };
        if elements.is_empty() || traffic.is_empty() {
            return Ok(None);
        }
        let set = place.set(self.hash, &name_part(place.interface), group);
        self.add_set(
            Set::new(set.clone(), vec![datatype(place.family)], false, elements)?,
            "Addresses for",
        );
        Ok(Some(set))
    }

    /// The set of the blocks of one family, which all interfaces share for which it holds the same addresses.
    fn blocks(
        &mut self,
        place: Place<'_>,
        blocks: &Targets,
        traffic: &TrafficSet,
    ) -> Result<Option<Name>, ModelError> {
        let over = |interface: &InterfaceName| {
            let blocks = blocks.get(interface);
            blocks
                .map(|blocks| blocks.of_family(place.family))
                .unwrap_or_default()
        };
        let wanted = over(place.interface);
        let ranges: Vec<AddressRange> = wanted.ranges().collect();
        if ranges.is_empty() || traffic.is_empty() {
            return Ok(None);
        }
        let mut distinct: Vec<(&InterfaceName, AddressSet)> = Vec::new();
        for interface in &self.policy.interfaces {
            let addresses = over(interface);
            if !distinct.iter().any(|(_, known)| *known == addresses) {
                distinct.push((interface, addresses));
            }
        }
        let number = distinct.iter().position(|(_, known)| *known == wanted);
        let part = match number {
            None | Some(0) => "cidr".to_owned(),
            Some(number) => format!("cidr-{}", number + 1),
        };
        let set = place.set(self.hash, &part, None);
        if distinct.iter().any(|(first, _)| *first == place.interface) {
            // As prefixes, like the document; the ranges are maximal, so that no two prefixes overlap.
            let prefixes = ranges.iter().flat_map(AddressRange::prefixes);
            let elements = prefixes.map(|prefix| Key::from(Value::addresses(prefix.range())));
            self.add_set(
                Set::new(set.clone(), vec![datatype(place.family)], true, elements)?,
                "CIDRs for",
            );
        }
        Ok(Some(set))
    }

    /// Accepts `traffic` over `interface`, with the addresses of a set or with anyone.
    fn accept(
        &mut self,
        direction: Direction,
        interface: &InterfaceName,
        peer: Option<(Family, Name)>,
        traffic: &TrafficSet,
    ) {
        let mut matches = vec![match direction {
            Direction::Ingress => enters(interface),
            Direction::Egress => Match::is(Field::OutputInterface, Value::Interface(interface.clone())),
        }];
        matches.extend(peer.map(|(family, set)| match direction {
            Direction::Ingress => Match::is_in(source(family), set),
            Direction::Egress => Match::is_in(destination(family), set),
        }));
        if traffic.is_all() {
            self.rules.push(Rule::when(matches, Verdict::Accept));
            return;
        }
        for last in self.traffic(traffic) {
            let matches = matches.iter().cloned().chain([last]);
            self.rules.push(Rule::when(matches, Verdict::Accept));
        }
    }

    /// One match for each rule that `traffic` needs.
    fn traffic(&mut self, traffic: &TrafficSet) -> Vec<Match> {
        let mut matches = Vec::new();
        let whole = |protocol| Match::is(Field::Protocol, Value::protocol(protocol));
        for protocol in Protocol::WITH_PORTS {
            let Some(ports) = traffic.ports(protocol).filter(|ports| !ports.is_empty()) else {
                continue;
            };
            if ports.is_all() {
                matches.push(whole(protocol));
                continue;
            }
            let field = Field::DestinationPort(match protocol {
                Protocol::TCP => Transport::Tcp,
                Protocol::UDP => Transport::Udp,
                _ => Transport::Sctp,
            });
            let values: BTreeSet<Value> = ports.ranges().map(Value::ports).collect();
            if values.len() > 1 && *self.anonymous_sets < MAX_ANONYMOUS_SETS {
                *self.anonymous_sets += 1;
                matches.push(Match::AnyOf { field, values });
            } else {
                matches.extend(values.into_iter().map(|value| Match::is(field, value)));
            }
        }
        matches.extend(traffic.portless.iter().map(whole));
        matches
    }
}

/// Where a set of addresses is used: what its name says.
#[derive(Clone, Copy)]
struct Place<'a> {
    direction: Direction,
    family: Family,
    interface: &'a InterfaceName,
    index: u32,
}

impl Place<'_> {
    /// `snp-<hash>_<direction>_<family>_<interface>_<index>`, with `-<group>` behind the index where a rule needs more
    /// than one set because ports by name mean different numbers to its peers.
    fn set(&self, hash: NameHash, interface: &str, group: Option<u32>) -> Name {
        let Self {
            direction,
            family,
            index,
            ..
        } = self;
        let group = group.map(|number| format!("-{number}")).unwrap_or_default();
        name(&format!(
            "snp-{hash}_{direction}_{family}_{interface}_{index}{group}"
        ))
    }
}

/// An interface as a part of a name: itself, or its hash where it has characters that nft's grammar refuses.
fn name_part(interface: &InterfaceName) -> String {
    let text = interface.as_str();
    if text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    {
        text.to_owned()
    } else {
        format!("if-{}", NameHash::of(text))
    }
}

fn host(address: IpAddr) -> Key {
    Key::from(Value::address(address))
}

pub(super) fn datatype(family: Family) -> Datatype {
    match family {
        Family::Ipv4 => Datatype::Ipv4Address,
        Family::Ipv6 => Datatype::Ipv6Address,
    }
}

pub(super) fn source(family: Family) -> Field {
    match family {
        Family::Ipv4 => Field::Ipv4Source,
        Family::Ipv6 => Field::Ipv6Source,
    }
}

pub(super) fn destination(family: Family) -> Field {
    match family {
        Family::Ipv4 => Field::Ipv4Destination,
        Family::Ipv6 => Field::Ipv6Destination,
    }
}

fn enters(interface: &InterfaceName) -> Match {
    Match::is(Field::InputInterface, Value::Interface(interface.clone()))
}
