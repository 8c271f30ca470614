//! From what may be exchanged with whom to the rules of one table.

use std::sync::Arc;

use picket_net::{Family, Interval, IntervalSet, Prefix};

use super::model::{Action, SessionRule, Transport};
use crate::layer4::Layer4;
use crate::peers::{Peers, subtract};
use crate::value::Values;

/// A table that is being filled.
#[derive(Debug)]
pub(super) struct Table {
    rules: Vec<SessionRule>,
    /// How many rules there may be here.
    most: usize,
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
    /// One that may have `most` rules.
    pub(super) fn new(most: usize) -> Self {
        Self {
            rules: Vec::new(),
            most,
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
            self.rules.push(rule(transport, any, any, Action::Drop));
        }
    }

    /// What `peers` say, where the addresses at this end are `own`. `outwards` when the ports at the other end count.
    pub(super) fn add(&mut self, peers: &Peers, own: Prefix, outwards: bool, values: &Values) {
        for transport in Transport::BOTH {
            let mut pieces = pieces(peers, transport, values).into_iter();
            let Some((any, rest)) = pieces.next() else {
                continue;
            };
            let everybody = Piece {
                transport,
                own,
                remote: any,
                outwards,
            };
            // What no rule matches is allowed.
            let default = self.add_piece(&everybody, &rest, Action::Allow);
            let parts = pieces.flat_map(|(prefix, ports)| {
                let parts = without_nobody(prefix).into_iter();
                parts.map(move |part| (part, ports.clone()))
            });
            for (remote, ports) in parts {
                self.add_piece(&Piece { remote, ..everybody }, &ports, default);
            }
        }
    }

    /// What may be done with one prefix, where what no rule decides is `default`. Gives what of it no rule about ports decides.
    fn add_piece(&mut self, piece: &Piece, ports: &Ports, default: Action) -> Action {
        let (action, exceptions) = ports.rules();
        let base = rule(piece.transport, piece.own, piece.remote, Action::Drop);
        let needed = exceptions.as_ref().map_or(0, count) + usize::from(action != default);
        if needed > 0 && self.rules.len() + needed > self.most {
            self.missing += needed;
            // That nothing passes takes one rule, which there always is.
            if default == Action::Allow {
                self.rules.push(base);
            }
            return Action::Drop;
        }
        if action != default {
            self.rules.push(SessionRule { action, ..base });
        }
        let opposite = match action {
            Action::Allow => Action::Drop,
            Action::Drop => Action::Allow,
        };
        for port in exceptions
            .iter()
            .flat_map(IntervalSet::iter)
            .filter(|&port| port != 0)
        {
            let (local_port, remote_port) = if piece.outwards { (0, port) } else { (port, 0) };
            self.rules.push(SessionRule {
                local_port,
                remote_port,
                action: opposite,
                ..base
            });
        }
        action
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
