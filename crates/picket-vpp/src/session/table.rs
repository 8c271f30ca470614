//! From what may be exchanged with whom to the rules of one table.

use std::ops::RangeInclusive;
use std::sync::Arc;

use picket_net::{Family, Prefix};

use super::model::{Action, SessionRule, Transport};
use super::ports::{PortSets, Ports, Said, of_transport};
use crate::peers::{Peers, subtract};
use crate::value::Values;
use crate::work::looked_at;

/// A table that is being filled, part by part: one transport of one family each. Where there is no room for a part it has one
/// rule, by which nothing passes.
#[derive(Debug)]
pub(super) struct Table {
    rules: Vec<SessionRule>,
    /// How many rules there may be here.
    most: usize,
    /// How many parts are still to come.
    parts: usize,
    missing: usize,
    /// How much less room would have been enough for the same.
    less: usize,
    /// How much more it takes until there may be more.
    more: usize,
}

/// The rules of a table, those of one part after those of another, and those of each part in their own order.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// In the order of addition.
    pub(super) rules: Arc<[SessionRule]>,
    /// How many there was no room for.
    pub(super) missing: usize,
}

impl Made {
    /// Whether a table would have room for everything if it had so many rules. It may be said not to where it has just enough.
    pub(super) fn fits(count: usize, most: usize) -> bool {
        // Of each part that is still to come one rule is kept free, whether it has any or not.
        count + 2 * Transport::BOTH.len() <= most
    }

    /// How many rules there are with those for which there was no room.
    pub(super) fn needed(&self) -> usize {
        self.rules.len() + self.missing
    }
}

impl Table {
    /// One that may have `most` rules, of so many families.
    pub(super) fn new(most: usize, families: usize) -> Self {
        Self {
            rules: Vec::new(),
            most,
            parts: families * Transport::BOTH.len(),
            missing: 0,
            less: usize::MAX,
            more: usize::MAX,
        }
    }

    /// In which rooms there would be the same.
    pub(super) fn rooms(&self) -> RangeInclusive<usize> {
        self.most.saturating_sub(self.less)..=self.most.saturating_add(self.more - 1)
    }

    /// What there is of it.
    pub(super) fn finish(self) -> Made {
        Made {
            rules: self.rules.into(),
            missing: self.missing,
        }
    }

    /// Nothing of a family.
    pub(super) fn close(&mut self, family: Family) {
        let any = Prefix::all(family);
        for transport in Transport::BOTH {
            self.parts = self.parts.saturating_sub(1);
            self.rules.push(rule(transport, any, any, Action::Drop));
        }
    }

    /// What `peers` say, where the addresses at this end are `own`. `outwards` when the ports at the other end count.
    pub(super) fn add(
        &mut self,
        peers: &Peers,
        own: Prefix,
        outwards: bool,
        sets: &mut PortSets,
        values: &Values,
    ) {
        let pieces = Pieces::new(peers, sets, values);
        self.rules.reserve(peers.entries().len() + Transport::BOTH.len());
        for transport in Transport::BOTH {
            looked_at(peers.entries().len());
            self.parts = self.parts.saturating_sub(1);
            let everybody = Piece {
                transport,
                own,
                remote: Prefix::all(peers.family()),
                outwards,
            };
            let (rest, pieces) = pieces.of(transport);
            self.add_part(&everybody, rest, &pieces, sets);
        }
    }

    /// What holds for everybody else, and for the addresses of some prefixes.
    fn add_part(&mut self, everybody: &Piece, rest: Ports, pieces: &[(Prefix, Ports)], sets: &PortSets) {
        let room = self.most.saturating_sub(self.rules.len() + self.parts).max(1);
        let rest = sets.said(rest);
        // What no rule matches is allowed.
        let rest_count = rest.count + usize::from(rest.action != Action::Allow);
        let needed = |ports: Ports| {
            let said = sets.said(ports);
            said.count + usize::from(said.action != rest.action)
        };
        // Where most pass, each piece takes a rule at least.
        let is_open = rest.action == Action::Allow;
        let fewest = if is_open {
            rest_count.max(pieces.len())
        } else {
            rest_count
        };
        if !self.fits(fewest, room) {
            let all = pieces.iter().map(|(_, ports)| needed(*ports)).sum::<usize>();
            self.missing += rest_count + all - 1;
            self.rules.push(everybody.rule(Action::Drop));
            return;
        }
        let end = self.rules.len() + room;
        everybody.push_rules(rest, Action::Allow, &mut self.rules);
        for (number, &(remote, ports)) in pieces.iter().enumerate() {
            let still = if is_open { pieces.len() - number - 1 } else { 0 };
            let needed = needed(ports);
            let piece = Piece { remote, ..*everybody };
            if self.fits(self.rules.len() + needed + still, end) {
                piece.push_rules(sets.said(ports), rest.action, &mut self.rules);
            } else if is_open {
                self.missing += needed - 1;
                self.rules.push(piece.rule(Action::Drop));
            } else {
                self.missing += needed;
            }
        }
    }

    /// Whether there is room for so many rules.
    fn fits(&mut self, count: usize, room: usize) -> bool {
        match room.checked_sub(count) {
            Some(left) => self.less = self.less.min(left),
            None => self.more = self.more.min(count - room),
        }
        count <= room
    }
}

/// Appends a prefix without the address 0, which nobody has. A rule about a network with that address would capture every rule about
/// everybody that is added or changed later.
fn push_without_nobody(prefix: Prefix, ports: Ports, found: &mut Vec<(Prefix, Ports)>) {
    if prefix.first().is_unspecified() {
        let parts = subtract(&prefix, &Prefix::host(prefix.first())).into_iter();
        found.extend(parts.map(|part| (part, ports)));
    } else {
        found.push((prefix, ports));
    }
}

/// What the rules about one prefix have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) transport: Transport,
    pub(super) own: Prefix,
    pub(super) remote: Prefix,
    /// Whether the ports at the other end count.
    pub(super) outwards: bool,
}

impl Piece {
    /// Appends the rules about it where `default` holds by itself.
    pub(super) fn push_rules(&self, said: &Said, default: Action, rules: &mut Vec<SessionRule>) {
        if said.action != default {
            rules.push(self.rule(said.action));
        }
        if said.count == 0 {
            return;
        }
        let opposite = match said.action {
            Action::Allow => Action::Drop,
            Action::Drop => Action::Allow,
        };
        let of_port = |port| {
            let (local_port, remote_port) = if self.outwards { (0, port) } else { (port, 0) };
            SessionRule {
                local_port,
                remote_port,
                ..self.rule(opposite)
            }
        };
        if let Some(only) = said.only {
            rules.push(of_port(only));
        } else {
            let ports = said.exceptions.iter().filter(|&port| port != 0);
            rules.extend(ports.map(of_port));
        }
    }

    fn rule(&self, action: Action) -> SessionRule {
        rule(self.transport, self.own, self.remote, action)
    }
}

fn rule(transport: Transport, local: Prefix, remote: Prefix, action: Action) -> SessionRule {
    SessionRule {
        transport,
        local,
        remote,
        local_port: 0,
        remote_port: 0,
        action,
    }
}

/// What each transport may do with whom.
#[derive(Debug)]
struct Pieces {
    everybody: Prefix,
    /// What holds for everybody else.
    rest: [Ports; 2],
    /// What holds for prefixes, outer ones before those within them.
    entries: Vec<(Prefix, [Ports; 2])>,
    /// Of each prefix the longest others within it, but not within those. Of those behind the last one here, nothing is within.
    within: Vec<Vec<Prefix>>,
    /// The prefixes that are within no other.
    outermost: Vec<Prefix>,
}

impl Pieces {
    fn new(peers: &Peers, sets: &mut PortSets, values: &Values) -> Self {
        let everybody = Prefix::all(peers.family());
        let entries = peers.entries().iter();
        let entries = entries.filter(|entry| entry.prefix != everybody);
        let mut pieces = Self {
            everybody,
            rest: sets.of(peers.value_of_everybody_else(), values),
            within: Vec::new(),
            outermost: Vec::new(),
            entries: Vec::with_capacity(peers.entries().len()),
        };
        let mut last = None;
        for entry in entries {
            // Most say what the one before them says.
            let ports = match last {
                Some((value, ports)) if value == entry.value => ports,
                _ => sets.of(entry.value, values),
            };
            last = Some((entry.value, ports));
            pieces.entries.push((entry.prefix, ports));
        }
        // Those of one length are in order, and none is within another.
        if !peers.has_one_length() {
            pieces.entries.sort_by_key(|(prefix, _)| *prefix);
        }
        if !peers.has_one_length() && pieces.are_nested() {
            pieces.find_within();
        } else if !pieces.rest.into_iter().all(Ports::is_whole) {
            let prefixes = pieces.entries.iter().map(|(prefix, _)| *prefix);
            pieces.outermost = prefixes.collect();
        }
        pieces
    }

    /// Whether any prefix is within another, where they are in order: then one is within that before it.
    fn are_nested(&self) -> bool {
        let following = self.entries.iter().skip(1);
        let mut pairs = self.entries.iter().zip(following);
        pairs.any(|((outer, _), (inner, _))| outer.contains_prefix(inner))
    }

    fn find_within(&mut self) {
        self.within.resize(self.entries.len(), Vec::new());
        let mut around: Vec<(usize, Prefix)> = Vec::new();
        for (number, &(prefix, _)) in self.entries.iter().enumerate() {
            while around
                .last()
                .is_some_and(|(_, outer)| !outer.contains_prefix(&prefix))
            {
                around.pop();
            }
            let outer = around.last().and_then(|(outer, _)| self.within.get_mut(*outer));
            outer.unwrap_or(&mut self.outermost).push(prefix);
            around.push((number, prefix));
        }
    }

    /// What holds for everybody else; and disjoint prefixes in order, each with what one transport may do with its addresses. Only
    /// where there are none may the first be about some ports.
    fn of(&self, transport: Transport) -> (Ports, Vec<(Prefix, Ports)>) {
        let of = |ports| of_transport(ports, transport);
        let rest = of(self.rest);
        if self.entries.iter().all(|(_, ports)| of(*ports) == rest) {
            return (rest, Vec::new());
        }
        let mut found = Vec::with_capacity(self.entries.len());
        let default = if rest.is_whole() { rest } else { Ports::NONE };
        let mut add = |prefix, ports, within: &[Prefix]| {
            if within.is_empty() {
                push_without_nobody(prefix, ports, &mut found);
            } else {
                for piece in without(prefix, within) {
                    push_without_nobody(piece, ports, &mut found);
                }
            }
        };
        if rest != default {
            add(self.everybody, rest, &self.outermost);
        }
        let mut within = self.within.iter();
        for &(prefix, ports) in &self.entries {
            let within = within.next().map_or(&[][..], Vec::as_slice);
            let ports = of(ports);
            if ports != default {
                add(prefix, ports, within);
            }
        }
        found.sort_by_key(|(prefix, _)| *prefix);
        (default, found)
    }
}

/// `outer` without the addresses of others within it, as disjoint prefixes. All are ascending.
fn without(outer: Prefix, inner: &[Prefix]) -> Vec<Prefix> {
    let [first, ..] = inner else { return vec![outer] };
    let longer = outer.length() + 1;
    let halves = [outer.first(), outer.last()].map(|address| Prefix::new(address, longer));
    let [Some(lower), Some(upper)] = halves else {
        return Vec::new();
    };
    if *first == outer {
        return Vec::new();
    }
    let (below, above) = inner.split_at(inner.partition_point(|inner| lower.contains_prefix(inner)));
    let mut pieces = without(lower, below);
    pieces.extend(without(upper, above));
    pieces
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::Ipv4Addr;

    use picket_net::{Interval, Protocol};
    use proptest::prelude::*;

    use super::*;
    use crate::layer4::{Layer4, Selector};
    use crate::value::Value;

    /// Nothing, everything, and a port of each transport.
    pub(in crate::session) fn four(values: &mut Values) -> [Value; 4] {
        let [tcp, udp] = [Protocol::TCP, Protocol::UDP].map(|protocol| {
            let one = Selector::One(protocol, Interval::single(80));
            values.number(Layer4::of(&one))
        });
        [Value::NOTHING, Value::EVERYTHING, tcp, udp]
    }

    proptest! {
        #[test]
        fn prefixes_of_one_length_are_cut_as_others_are(
            rest in 0..4usize,
            shortest in 29..=32u8,
            entries in proptest::collection::vec((0..16u32, 0..=3u8, 0..4usize), 0..12),
        ) {
            let mut values = Values::default();
            let four = four(&mut values);
            let entries = entries.into_iter().map(|(last, longer, value)| {
                let address = Ipv4Addr::from_bits(last).into();
                (Prefix::new(address, (shortest + longer).min(32)).unwrap(), four[value])
            });
            let everybody = (Prefix::all(Family::Ipv4), four[rest]);
            let peers = Peers::new(Family::Ipv4, std::iter::once(everybody).chain(entries));
            let mut sets = PortSets::default();
            let made = Pieces::new(&peers, &mut sets, &values);
            let mut expected = Pieces {
                within: Vec::new(),
                outermost: Vec::new(),
                entries: made.entries.clone(),
                ..made
            };
            expected.entries.sort_by_key(|(prefix, _)| *prefix);
            expected.find_within();
            for transport in Transport::BOTH {
                prop_assert_eq!(made.of(transport), expected.of(transport));
            }
        }
    }
}
