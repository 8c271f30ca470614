//! From what may be exchanged with whom to the rules of one table.

use std::sync::Arc;

use picket_net::{Family, Interval, IntervalSet, Prefix};

use super::model::{Action, SessionRule, Transport};
use crate::layer4::Layer4;
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
}

/// What one transport may do with a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ports {
    All,
    None,
    Some(IntervalSet<u16>),
}

impl Table {
    /// One that may have `most` rules, of so many families.
    pub(super) fn new(most: usize, families: usize) -> Self {
        Self {
            rules: Vec::new(),
            most,
            parts: families * Transport::BOTH.len(),
            missing: 0,
        }
    }

    /// The rules in the order of addition, and how many there was no room for.
    pub(super) fn finish(self) -> (Arc<[SessionRule]>, usize) {
        (self.rules.into(), self.missing)
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
    pub(super) fn add(&mut self, peers: &Peers, own: Prefix, outwards: bool, values: &Values) {
        for transport in Transport::BOTH {
            looked_at(peers.entries().len());
            self.parts = self.parts.saturating_sub(1);
            let everybody = Piece {
                transport,
                own,
                remote: Prefix::all(peers.family()),
                outwards,
            };
            self.add_part(&everybody, pieces(peers, transport, values));
        }
    }

    fn add_part(&mut self, everybody: &Piece, pieces: Vec<(Prefix, Ports)>) {
        let room = self.most.saturating_sub(self.rules.len() + self.parts).max(1);
        let mut pieces = pieces.into_iter();
        let Some((_, rest)) = pieces.next() else { return };
        // What no rule matches is allowed.
        let rest = Needed::new(*everybody, &rest, Action::Allow);
        let others = pieces.flat_map(|(prefix, ports)| {
            let parts = without_nobody(prefix).into_iter();
            parts.map(move |remote| Needed::new(Piece { remote, ..*everybody }, &ports, rest.action))
        });
        let others: Vec<_> = others.collect();
        // Where most pass, each piece takes a rule at least.
        let is_open = rest.action == Action::Allow;
        if rest.count() > room || is_open && others.len() > room {
            let needed = rest.count() + others.iter().map(Needed::count).sum::<usize>();
            self.missing += needed - 1;
            self.rules.push(everybody.rule(Action::Drop));
            return;
        }
        let end = self.rules.len() + room;
        self.rules.extend(rest.rules());
        for (number, piece) in others.iter().enumerate() {
            let still = if is_open { others.len() - number - 1 } else { 0 };
            if self.rules.len() + piece.count() + still <= end {
                self.rules.extend(piece.rules());
            } else if is_open {
                self.missing += piece.count() - 1;
                self.rules.push(piece.piece.rule(Action::Drop));
            } else {
                self.missing += piece.count();
            }
        }
    }
}

/// The rules about one prefix where another action holds by itself.
#[derive(Debug)]
struct Needed {
    piece: Piece,
    /// What becomes of most ports.
    action: Action,
    is_said: bool,
    /// The ports of which the opposite becomes.
    exceptions: Option<IntervalSet<u16>>,
}

impl Needed {
    fn new(piece: Piece, ports: &Ports, default: Action) -> Self {
        let (action, exceptions) = ports.rules();
        Self {
            piece,
            action,
            is_said: action != default,
            exceptions,
        }
    }

    fn count(&self) -> usize {
        self.exceptions.as_ref().map_or(0, count) + usize::from(self.is_said)
    }

    fn rules(&self) -> impl Iterator<Item = SessionRule> {
        let whole = self.is_said.then(|| self.piece.rule(self.action));
        let opposite = match self.action {
            Action::Allow => Action::Drop,
            Action::Drop => Action::Allow,
        };
        let ports = self.exceptions.iter().flat_map(IntervalSet::iter);
        let ports = ports.filter(|&port| port != 0).map(move |port| {
            let (local_port, remote_port) = if self.piece.outwards { (0, port) } else { (port, 0) };
            SessionRule {
                local_port,
                remote_port,
                ..self.piece.rule(opposite)
            }
        });
        whole.into_iter().chain(ports)
    }
}

impl Ports {
    /// What becomes of most ports, and those of which the opposite does: the fewer of the two.
    fn rules(&self) -> (Action, Option<IntervalSet<u16>>) {
        match self {
            Self::All => (Action::Allow, None),
            Self::None => (Action::Drop, None),
            Self::Some(allowed) => {
                let denied = allowed.complement();
                match count(&denied) < count(allowed) {
                    true => (Action::Allow, Some(denied)),
                    false => (Action::Drop, Some(allowed.clone())),
                }
            }
        }
    }
}

/// A prefix without the address 0, which nobody has. A rule about a network with that address would capture every rule about
/// everybody that is added or changed later.
fn without_nobody(prefix: Prefix) -> Vec<Prefix> {
    match prefix.first().is_unspecified() {
        true => subtract(&prefix, &Prefix::host(prefix.first())),
        false => vec![prefix],
    }
}

/// What the rules about one prefix have in common.
#[derive(Clone, Copy, Debug)]
struct Piece {
    transport: Transport,
    own: Prefix,
    remote: Prefix,
    outwards: bool,
}

impl Piece {
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

fn count(ports: &IntervalSet<u16>) -> usize {
    let ports = ports.intervals().iter();
    // Port 0 is none.
    ports
        .map(|range| {
            usize::from(range.last()) + 1 - usize::from(range.first()) - usize::from(range.first() == 0)
        })
        .sum()
}

/// First what holds for everybody else; then disjoint prefixes, each with what one transport may do with its addresses. Only
/// where there are none may the first be about some ports.
fn pieces(peers: &Peers, transport: Transport, values: &Values) -> Vec<(Prefix, Ports)> {
    let any = Prefix::all(peers.family());
    let ports = |value| ports(values.set(value), transport);
    let rest = ports(peers.value_of_everybody_else());
    let different = peers.entries().iter().any(|entry| ports(entry.value) != rest);
    if !different {
        return vec![(any, rest)];
    }
    let default = match &rest {
        Ports::Some(_) => Ports::None,
        whole => whole.clone(),
    };
    let mut found = vec![(any, default.clone())];
    let whole = matches!(rest, Ports::Some(_)).then_some((any, rest));
    let entries = peers
        .entries()
        .iter()
        .map(|entry| (entry.prefix, ports(entry.value)));
    let mut all: Vec<_> = entries
        .filter(|(prefix, _)| *prefix != any)
        .chain(whole)
        .collect();
    all.sort_by_key(|(prefix, _)| *prefix);
    let within = right_within(&all);
    for ((prefix, ports), within) in all.iter().zip(&within) {
        if *ports != default {
            let pieces = without(*prefix, within).into_iter();
            found.extend(pieces.map(|piece| (piece, ports.clone())));
        }
    }
    found
}

/// Of each prefix the longest others within it, but not within those. Outer prefixes stand before those within them.
fn right_within(all: &[(Prefix, Ports)]) -> Vec<Vec<Prefix>> {
    let mut found = vec![Vec::new(); all.len()];
    let mut around: Vec<(usize, Prefix)> = Vec::new();
    for (number, &(prefix, _)) in all.iter().enumerate() {
        while around
            .last()
            .is_some_and(|(_, outer)| !outer.contains_prefix(&prefix))
        {
            around.pop();
        }
        let outer = around.last().and_then(|(outer, _)| found.get_mut(*outer));
        outer.into_iter().for_each(|within| within.push(prefix));
        around.push((number, prefix));
    }
    found
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

fn ports(allowed: &Layer4, transport: Transport) -> Ports {
    let allowed = allowed.ports(transport.protocol());
    let all = Interval::new(1, u16::MAX).into_iter().collect();
    if allowed.contains_all(&all) {
        Ports::All
    } else if !allowed.overlaps(&all) {
        Ports::None
    } else {
        Ports::Some(allowed)
    }
}
