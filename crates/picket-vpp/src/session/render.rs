//! From what each pod may exchange to rules of the session layer.
//!
//! The local table of a pod's namespace judges what is opened in it, and the global table what arrives over the network.
//! Pods of one node reach each other past the global table, so that local tables hold also what other pods of the node may
//! receive.
//!
//! VPP's tables are trees in which a rule captures every other whose network address fits its mask, whichever is longer, so
//! that the order of addition can decide. Here it cannot: the prefixes of a table are disjoint, rules about ports are only
//! inside the prefix that they are about, and what holds for everybody else is the rule about everything.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_dataplane::Shortfall;
use picket_engine::Program;
use picket_net::{Family, Interval, IntervalSet, Prefix};
use picket_policy::{Direction, ObjectRef};

use super::model::{Action, SessionRule, SessionRules, Transport};
use crate::combine::Others;
use crate::layer4::Layer4;
use crate::lists::{Compiler, Lists};
use crate::peers::{Peers, subtract};
use crate::place::Places;
use crate::value::{Value, Values};

/// What rules depend on besides the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many rules a table may have. Of ranges of ports that would need more nothing is allowed.
    pub most_rules: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { most_rules: 100_000 }
    }
}

/// A table that would have needed more rules than it may have, and allows less instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TooMany {
    /// The pod that is allowed less.
    pub pod: ObjectRef,
    /// The direction in which it is.
    pub direction: Direction,
    /// How many rules are missing.
    pub missing: usize,
}

/// What the policies of pods ask for that their tables have no room for.
pub fn shortfalls(program: &Program, missing: &[TooMany]) -> Vec<Shortfall> {
    let mut found = Vec::new();
    for missing in missing {
        let subject = program.subject(&missing.pod, missing.direction);
        let policies = subject
            .into_iter()
            .flat_map(|subject| program.deciding_policies(subject));
        found.extend(policies.map(|policy| Shortfall {
            target: "vpp-session",
            policy: policy.object.clone(),
            direction: missing.direction,
            what: format!("{} more rules than a table may have", missing.missing),
            instead: format!(
                "what they would allow is denied for pod {}; `--max-session-rules` sets how many there may be",
                missing.pod
            ),
        }));
    }
    found
}

/// The rules of one node, or with `None` of one node that runs every pod.
pub fn render(program: &Program, node: Option<&str>, options: &Options) -> (SessionRules, Vec<TooMany>) {
    let mut values = Values::default();
    let places = Places::of(program);
    let pods = Compiler::new(program, &places, node).pods(node, &mut values);
    let floor = Family::BOTH.map(|family| values.number(Layer4::necessary(family)));
    rules(&pods, floor, options, &mut values)
}

/// The rules of pods of which it is known what each may receive and send.
pub fn render_lists(
    pods: &BTreeMap<ObjectRef, Lists>,
    options: &Options,
    values: &mut Values,
) -> (SessionRules, Vec<TooMany>) {
    rules(pods, [Value::NOTHING; 2], options, values)
}

fn rules(
    pods: &BTreeMap<ObjectRef, Lists>,
    floor: [Value; 2],
    options: &Options,
    values: &mut Values,
) -> (SessionRules, Vec<TooMany>) {
    let mut made = SessionRules::default();
    let mut missing = Vec::new();
    let others = Others::of(pods, Direction::Egress, floor);
    let mut received: BTreeMap<IpAddr, (&ObjectRef, &Arc<Peers>)> = BTreeMap::new();
    for (pod, lists) in pods {
        let mut table = Table::new(options.most_rules);
        for family in Family::BOTH {
            match others.combined(pod, lists, family, values) {
                Some(peers) => table.add(&peers, Prefix::all(family), true, values),
                None if lists.is_unknown => table.close(family),
                None => {}
            }
        }
        missing.extend(table.missing(pod, Direction::Egress));
        made.local.insert(pod.clone(), table.rules);
        for &address in &lists.addresses {
            let peers = lists.peers(Direction::Ingress, Family::of(address));
            if let Some(peers) = peers.filter(|peers| !peers.is_everything()) {
                received.insert(address, (pod, peers));
            }
        }
    }
    let mut table = Table::new(options.most_rules);
    for (address, (pod, peers)) in received {
        table.add(peers, Prefix::host(address), false, values);
        missing.extend(table.missing(pod, Direction::Ingress));
    }
    made.global = table.rules;
    (made, missing)
}

/// A table that is being filled.
#[derive(Debug)]
struct Table {
    rules: Vec<SessionRule>,
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
    fn new(most: usize) -> Self {
        Self {
            rules: Vec::new(),
            most,
            missing: 0,
        }
    }

    fn missing(&mut self, pod: &ObjectRef, direction: Direction) -> Option<TooMany> {
        let missing = std::mem::take(&mut self.missing);
        (missing > 0).then(|| TooMany {
            pod: pod.clone(),
            direction,
            missing,
        })
    }

    /// Nothing of a family.
    fn close(&mut self, family: Family) {
        let any = Prefix::all(family);
        for transport in Transport::BOTH {
            self.rules.push(rule(transport, any, any, Action::Drop));
        }
    }

    /// What `peers` say, where the addresses at this end are `own`. `outwards` when the ports at the other end count.
    fn add(&mut self, peers: &Peers, own: Prefix, outwards: bool, values: &Values) {
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
    // Longer prefixes stand first: each takes its addresses from those around it.
    all.sort_by(|one, other| crate::rule::compare_prefixes(&one.0, &other.0));
    for (number, (prefix, ports)) in all.iter().enumerate() {
        if *ports == default {
            continue;
        }
        let within = all
            .get(..number)
            .unwrap_or_default()
            .iter()
            .map(|(inner, _)| inner);
        let within: Vec<_> = within.filter(|inner| prefix.contains_prefix(inner)).collect();
        for piece in without(*prefix, &within) {
            found.push((piece, ports.clone()));
        }
    }
    found
}

/// `outer` without the addresses of others within it, as disjoint prefixes.
fn without(outer: Prefix, inner: &[&Prefix]) -> Vec<Prefix> {
    let mut rest = vec![outer];
    for inner in inner {
        rest = rest.iter().flat_map(|piece| subtract(piece, inner)).collect();
    }
    rest
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
