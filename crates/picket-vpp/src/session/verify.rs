//! Proof that the rules of a node mean the policies, or connections with which they do not.
//!
//! Worked out for all connections at once, as VPP's own tables treat them when rules are added in the order given: of each
//! local table for everybody at the other end, and of the global table for every pod of the node. What must be allowed
//! comes from the compiled program alone.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_engine::Program;
use picket_net::{Family, Interval, IntervalSet};
use picket_policy::ObjectRef;

use super::meaning::{Connection, Table};
use super::model::{Action, SessionRule, SessionRules, Transport};
use crate::proof::{self, Walk};

/// A connection with which rules do not mean the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The pod in whose namespace it is opened; `None` where it arrives over the network.
    pub namespace: Option<ObjectRef>,
    /// The connection, seen from the pod.
    pub connection: Connection,
    /// Whether it is allowed, and must not be; else it is dropped, and must not be.
    pub passes: bool,
}

/// The pods of which not everything is proved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Except {
    /// Those of which it is only proved that nothing more is allowed than the policies do: their tables have no room.
    pub narrower: BTreeSet<ObjectRef>,
    /// Those of whose namespaces nothing is known: of what they open nothing is proved.
    pub unknown: BTreeSet<ObjectRef>,
}

/// What was found.
pub type Report = proof::Report<Counterexample>;

/// Compares the rules of a node with what a program demands there; with `None`, on one node that runs every pod. Gives up
/// after `limit` connections.
pub fn verify(
    rules: &SessionRules,
    program: &Program,
    node: Option<&str>,
    except: &Except,
    limit: usize,
) -> Report {
    let mut proof = Proof {
        walk: Walk::new(program, node),
        report: Report::up_to(limit),
    };
    let none = Vec::new();
    for pod in proof::pods(program, node) {
        let object = &pod.pod().object;
        let local = rules.local.get(object).unwrap_or(&none);
        for address in pod.pod().addresses.iter() {
            let narrower = except.narrower.contains(object);
            if !except.unknown.contains(object) {
                proof.table(Some(object), local, address, narrower);
            }
            proof.table(None, &rules.global, address, narrower);
        }
    }
    proof.report
}

struct Proof<'a> {
    walk: Walk<'a>,
    report: Report,
}

impl Proof<'_> {
    /// Compares one table, for one address of a pod.
    fn table(&mut self, namespace: Option<&ObjectRef>, rules: &[SessionRule], own: IpAddr, narrower: bool) {
        let family = Family::of(own);
        let tables = Transport::BOTH.map(|transport| Table::new(transport, family, rules));
        let own_end = self.walk.end(own);
        let told_apart = rules.iter().map(|rule| (rule.remote.first(), rule.remote.last()));
        for peer in self.walk.peers(family, told_apart) {
            // Nobody has the address 0, and pods of one node reach each other past the global table.
            let is_local = self.walk.local.contains(&peer);
            if peer.is_unspecified() || namespace.is_none() && is_local {
                continue;
            }
            self.report.pairs += 1;
            let peer_end = self.walk.end(peer);
            let demanded = match namespace {
                Some(_) => self.walk.sent(&own_end, (peer, &peer_end)),
                None => self.walk.received((peer, &peer_end), &own_end),
            };
            let Some(demanded) = demanded else {
                continue;
            };
            for (transport, table) in Transport::BOTH.into_iter().zip(&tables) {
                let ports = demanded.ports(transport.protocol()).into_iter();
                let ranges = ports.flat_map(|ports| ports.ranges().collect::<Vec<_>>());
                let demanded: IntervalSet<u16> = ranges
                    .filter_map(|range| Interval::new(range.first(), range.last()))
                    .collect();
                let asked = Asked {
                    local: own,
                    remote: peer,
                    of_remote: namespace.is_some(),
                };
                let wrong = table.allowed(&asked, false).difference(&demanded);
                self.found(namespace, transport, (own, peer), &wrong, true);
                if !narrower {
                    let wrong = demanded.difference(&table.allowed(&asked, true));
                    self.found(namespace, transport, (own, peer), &wrong, false);
                }
                if self.report.stopped {
                    return;
                }
            }
        }
    }

    fn found(
        &mut self,
        namespace: Option<&ObjectRef>,
        transport: Transport,
        (local, remote): (IpAddr, IpAddr),
        wrong: &IntervalSet<u16>,
        passes: bool,
    ) {
        let Some(port) = wrong.iter().find(|&port| port != 0) else {
            return;
        };
        let (local_port, remote_port) = match namespace {
            Some(_) => (40_000, port),
            None => (port, 40_000),
        };
        self.report.add(Counterexample {
            namespace: namespace.cloned(),
            connection: Connection {
                transport,
                local,
                remote,
                local_port,
                remote_port,
            },
            passes,
        });
    }
}

/// Two addresses, and the end of which ports are asked about.
pub(super) struct Asked {
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    /// The other end; else this one.
    pub(super) of_remote: bool,
}

impl Table {
    /// The ports that are allowed between two addresses: `surely`, whatever the port at the end that is not asked about is, or
    /// else those that some port there may be allowed with.
    pub(super) fn allowed(&self, asked: &Asked, surely: bool) -> IntervalSet<u16> {
        let every = Interval::new(1, u16::MAX).into_iter().collect();
        self.allowed_below(0, asked, surely, &every)
    }

    fn allowed_below(
        &self,
        at: usize,
        asked: &Asked,
        surely: bool,
        open: &IntervalSet<u16>,
    ) -> IntervalSet<u16> {
        let mut open = open.clone();
        let mut allowed = IntervalSet::empty();
        for (child, rule) in self.below(at, asked.local, asked.remote) {
            let (own, other) = match asked.of_remote {
                true => (rule.remote_port, rule.local_port),
                false => (rule.local_port, rule.remote_port),
            };
            let ports = match own {
                0 => open.clone(),
                port if open.contains(port) => Interval::single(port).into(),
                _ => continue,
            };
            if ports.is_empty() {
                break;
            }
            // There may be a rule for nearly each port.
            if own != 0 && other == 0 && self.is_lowest(child) {
                open.remove(own);
                if rule.action == Action::Allow {
                    allowed.insert(own);
                }
                continue;
            }
            let within = self.allowed_below(child, asked, surely, &ports);
            match (other, surely) {
                (0, _) => {
                    allowed = allowed.union(&within);
                    open = open.difference(&ports);
                }
                // With other ports there what follows decides.
                (_, true) => open = open.difference(&ports.difference(&within)),
                (_, false) => allowed = allowed.union(&within),
            }
        }
        match self.action(at) {
            Action::Allow => allowed.union(&open),
            Action::Drop => allowed,
        }
    }
}
