//! What rules do with connections, as VPP's session layer does it: worked out from its own tables, and not from what made the
//! rules.
//!
//! A table is a tree. A rule stands below another whose mask fits its network addresses and ports, whichever of the two is
//! about more, and rules beside each other are tried in the order of their last addresses. So what a rule means can depend on
//! the order in which rules were added.

mod siblings;

use std::net::IpAddr;

use picket_net::{Family, Prefix};

use self::siblings::Siblings;
use super::model::{Action, SessionRule, Transport};

/// A connection that is opened, as rules look at it: seen from the end whose table it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its transport.
    pub transport: Transport,
    /// The address at this end.
    pub local: IpAddr,
    /// The address at the other end.
    pub remote: IpAddr,
    /// The port at this end.
    pub local_port: u16,
    /// The port at the other end.
    pub remote_port: u16,
}

/// One table of one transport and family, as VPP builds it.
#[derive(Clone, Debug)]
pub struct Table {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Node {
    rule: SessionRule,
    below: Siblings,
}

impl Table {
    /// The table that adding these rules in this order gives; those of other transports and families do not count.
    pub fn new<'a>(
        transport: Transport,
        family: Family,
        rules: impl IntoIterator<Item = &'a SessionRule>,
    ) -> Self {
        let any = Prefix::all(family);
        let root = SessionRule {
            transport,
            local: any,
            remote: any,
            local_port: 0,
            remote_port: 0,
            action: Action::Allow,
        };
        let mut table = Self {
            nodes: vec![Node {
                rule: root,
                below: Siblings::default(),
            }],
        };
        for rule in rules {
            if rule.transport == transport && rule.family() == family {
                table.add(*rule);
            }
        }
        table
    }

    fn add(&mut self, rule: SessionRule) {
        let ends = (rule.local.first(), rule.remote.first());
        let at = self.lowest(ends, (rule.local_port, rule.remote_port));
        let new = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else {
            return;
        };
        // Only the lowest rule that captures it is looked at for whether it is there already.
        if is_same_place(&node.rule, &rule) {
            node.rule = rule;
            return;
        }
        let mut siblings = std::mem::take(&mut node.below);
        let mut below = Siblings::default();
        for child in siblings.begun_within(&rule) {
            if let Some(child_rule) = self.rule(child).filter(|child| fits(&rule, child)) {
                siblings.remove(child, child_rule);
                below.add(child, child_rule);
            }
        }
        siblings.add(new, &rule);
        if let Some(node) = self.nodes.get_mut(at) {
            node.below = siblings;
        }
        self.nodes.push(Node { rule, below });
    }

    fn rule(&self, at: usize) -> Option<&SessionRule> {
        self.nodes.get(at).map(|node| &node.rule)
    }

    /// The lowest rule that captures what is between two ends, each way the first that is tried. The local end stands before
    /// the remote one.
    fn lowest(&self, ends: (IpAddr, IpAddr), ports: (u16, u16)) -> usize {
        let mut at = 0;
        while let Some(node) = self.nodes.get(at) {
            let captures = node.below.about(ends, Some(ports)).into_iter();
            match self.in_order(captures).first() {
                Some(&(child, _)) => at = child,
                None => break,
            }
        }
        at
    }

    /// Rules beside each other in the order in which they are tried.
    fn in_order(&self, siblings: impl Iterator<Item = usize>) -> Vec<(usize, &SessionRule)> {
        let rules = siblings.filter_map(|at| self.rule(at).map(|rule| (at, rule)));
        let mut rules: Vec<_> = rules.collect();
        rules.sort_by_key(|(at, rule)| {
            (
                rule.remote.last(),
                rule.local.last(),
                last(rule.remote_port),
                last(rule.local_port),
                // Of equals those that are there already stand first.
                *at,
            )
        });
        rules
    }

    /// The rules right below another that are about two addresses, whatever the ports, in the order in which they are tried.
    pub(super) fn below(&self, at: usize, local: IpAddr, remote: IpAddr) -> Vec<(usize, &SessionRule)> {
        let about = self
            .nodes
            .get(at)
            .map(|node| node.below.about((local, remote), None));
        self.in_order(about.unwrap_or_default().into_iter())
    }

    /// Whether there are rules below one.
    pub(super) fn is_lowest(&self, at: usize) -> bool {
        self.nodes.get(at).is_none_or(|node| node.below.is_empty())
    }

    /// What becomes of what a rule matches and none below it does.
    pub(super) fn action(&self, at: usize) -> Action {
        self.rule(at).map_or(Action::Drop, |rule| rule.action)
    }

    /// What becomes of a connection.
    pub fn decide(&self, connection: &Connection) -> Action {
        let ends = (connection.local, connection.remote);
        self.action(self.lowest(ends, (connection.local_port, connection.remote_port)))
    }
}

/// Whether `child` stands below `parent`: what `parent` looks at is in `child` as `parent` has it, whether `child` looks at
/// it or not.
fn fits(parent: &SessionRule, child: &SessionRule) -> bool {
    let port = |parent: u16, child: u16| parent == 0 || parent == child;
    parent.local.contains(child.local.first())
        && parent.remote.contains(child.remote.first())
        && port(parent.local_port, child.local_port)
        && port(parent.remote_port, child.remote_port)
}

/// The last port that a rule is about.
fn last(port: u16) -> u16 {
    if port == 0 { u16::MAX } else { port }
}

fn is_same_place(one: &SessionRule, other: &SessionRule) -> bool {
    let place = |rule: &SessionRule| (rule.local, rule.remote, rule.local_port, rule.remote_port);
    place(one) == place(other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::session::verify::Asked;

    fn rule(remote: &str, remote_port: u16, action: Action) -> SessionRule {
        SessionRule {
            transport: Transport::Tcp,
            local: Prefix::all(Family::Ipv4),
            remote: remote.parse().unwrap(),
            local_port: 0,
            remote_port,
            action,
        }
    }

    fn decide(rules: &[SessionRule], remote: &str, port: u16) -> Action {
        let connection = Connection {
            transport: Transport::Tcp,
            local: "10.0.0.1".parse().unwrap(),
            remote: remote.parse().unwrap(),
            local_port: 40_000,
            remote_port: port,
        };
        Table::new(Transport::Tcp, Family::Ipv4, rules).decide(&connection)
    }

    #[test]
    fn a_shorter_prefix_added_later_is_captured() {
        let (wide, narrow) = (
            rule("10.0.0.0/8", 0, Action::Drop),
            rule("10.0.0.0/16", 0, Action::Allow),
        );
        assert_eq!(decide(&[wide, narrow], "10.9.9.9", 80), Action::Drop);
        // Nothing reaches the shorter one.
        assert_eq!(decide(&[narrow, wide], "10.9.9.9", 80), Action::Allow);
        assert_eq!(decide(&[narrow, wide], "10.0.9.9", 80), Action::Drop);
    }

    #[test]
    fn a_port_of_a_shorter_prefix_is_captured_in_every_order() {
        let rules = [
            rule("0.0.0.0/0", 0, Action::Drop),
            rule("10.0.0.0/8", 80, Action::Allow),
            rule("10.0.0.0/16", 0, Action::Drop),
        ];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let rules = order.map(|number| rules[number]);
            assert_eq!(decide(&rules, "10.9.9.9", 80), Action::Drop, "{order:?}");
            assert_eq!(decide(&rules, "10.0.1.1", 80), Action::Allow, "{order:?}");
        }
    }

    /// VPP's way with rules, literally: lists of children that are looked through from their beginning.
    struct Literal(Vec<(SessionRule, Vec<usize>)>);

    impl Literal {
        fn new(rules: &[SessionRule]) -> Self {
            let mut tree = Self(vec![(rule("0.0.0.0/0", 0, Action::Allow), Vec::new())]);
            rules.iter().for_each(|rule| tree.add(*rule));
            tree
        }

        fn lowest(&self, is_within: impl Fn(&SessionRule) -> bool) -> usize {
            let mut at = 0;
            while let Some(child) = self.0[at].1.iter().find(|child| is_within(&self.0[**child].0)) {
                at = *child;
            }
            at
        }

        fn add(&mut self, rule: SessionRule) {
            let at = self.lowest(|other| fits(other, &rule));
            if is_same_place(&self.0[at].0, &rule) {
                self.0[at].0 = rule;
                return;
            }
            let children = std::mem::take(&mut self.0[at].1);
            let (below, mut beside): (Vec<_>, Vec<_>) = children
                .into_iter()
                .partition(|child| fits(&rule, &self.0[*child].0));
            beside.push(self.0.len());
            self.0.push((rule, below));
            beside.sort_by_key(|child| {
                let rule = &self.0[*child].0;
                let ports = [rule.remote_port, rule.local_port].map(last);
                (rule.remote.last(), rule.local.last(), ports)
            });
            self.0[at].1 = beside;
        }

        fn decide(&self, connection: &Connection) -> Action {
            let host = SessionRule {
                transport: connection.transport,
                local: Prefix::host(connection.local),
                remote: Prefix::host(connection.remote),
                local_port: connection.local_port,
                remote_port: connection.remote_port,
                action: Action::Allow,
            };
            self.0[self.lowest(|rule| fits(rule, &host))].0.action
        }
    }

    /// Prefixes of a few nets of which some are in others, begin where others begin, or end where others end.
    fn prefixes() -> impl Strategy<Value = Prefix> {
        let lengths = prop::sample::select(vec![0, 1, 8, 9, 15, 16, 17, 31, 32]);
        let addresses = prop::sample::select(vec![
            "10.0.0.0",
            "10.0.0.1",
            "10.0.255.255",
            "10.1.0.0",
            "10.255.255.255",
            "11.0.0.0",
        ]);
        (addresses, lengths).prop_map(|(address, length)| {
            let address: IpAddr = address.parse().unwrap();
            Prefix::new(address, length).unwrap()
        })
    }

    fn rules() -> impl Strategy<Value = SessionRule> {
        let (port, action) = (0u16..4, prop::sample::select(vec![Action::Allow, Action::Drop]));
        (prefixes(), prefixes(), port.clone(), port, action).prop_map(
            |(local, remote, local_port, remote_port, action)| SessionRule {
                transport: Transport::Tcp,
                local,
                remote,
                local_port,
                remote_port,
                action,
            },
        )
    }

    proptest! {
        #[test]
        fn the_tree_is_that_of_vpp(rules in prop::collection::vec(rules(), 0..40), asked in prop::collection::vec(rules(), 40)) {
            let (table, literal) = (Table::new(Transport::Tcp, Family::Ipv4, &rules), Literal::new(&rules));
            for rule in asked.iter().chain(&rules) {
                let connection = Connection {
                    transport: Transport::Tcp,
                    local: rule.local.last(),
                    remote: rule.remote.last(),
                    local_port: rule.local_port + 1,
                    remote_port: rule.remote_port + 1,
                };
                prop_assert_eq!(table.decide(&connection), literal.decide(&connection), "{:?}", connection);
            }
        }
    }

    proptest! {
        /// What is worked out for all ports at once is what becomes of a connection to each, and where rules are about the ports
        /// at the other end too, no less and no more than it.
        #[test]
        fn the_ports_that_are_allowed_are_those_that_are_decided_so(
            rules in prop::collection::vec(rules(), 0..30),
            asked in prop::collection::vec((prefixes(), prefixes()), 10),
            of_remote: bool,
            of_one_end: bool,
        ) {
            let of_one_end = |rule: &SessionRule| match (of_one_end, of_remote) {
                (false, _) => *rule,
                (true, true) => SessionRule { local_port: 0, ..*rule },
                (true, false) => SessionRule { remote_port: 0, ..*rule },
            };
            let rules: Vec<_> = rules.iter().map(of_one_end).collect();
            let table = Table::new(Transport::Tcp, Family::Ipv4, &rules);
            for (local, remote) in asked {
                let asked = Asked { local: local.last(), remote: remote.last(), of_remote };
                let [least, most] = [true, false].map(|surely| table.allowed(&asked, surely));
                for (port, other) in (1..6).chain([u16::MAX]).flat_map(|port| [(port, 2), (port, 40_000)]) {
                    let (local_port, remote_port) = if of_remote { (other, port) } else { (port, other) };
                    let connection = Connection {
                        transport: Transport::Tcp,
                        local: asked.local,
                        remote: asked.remote,
                        local_port,
                        remote_port,
                    };
                    let decided = table.decide(&connection) == Action::Allow;
                    prop_assert!(decided || !least.contains(port), "{:?}", connection);
                    prop_assert!(!decided || most.contains(port), "{:?}", connection);
                }
                let is_about_others = rules.iter().any(|rule| {
                    let other = if of_remote { rule.local_port } else { rule.remote_port };
                    other != 0
                });
                prop_assert!(is_about_others || least == most);
            }
        }
    }

    #[test]
    fn a_hundred_thousand_rules_beside_each_other_are_told_apart() {
        let hosts = (0..50_000u32).map(|index| {
            let remote = IpAddr::from((0x0a00_0000 + 2 * index).to_be_bytes());
            SessionRule {
                remote: Prefix::host(remote),
                ..rule("0.0.0.0/0", 0, Action::Drop)
            }
        });
        let ports = (1..=50_000).map(|port| rule("172.16.0.0/16", port, Action::Drop));
        let rules: Vec<_> = hosts.chain(ports).collect();
        let table = Table::new(Transport::Tcp, Family::Ipv4, rules.iter().rev());
        let decide = |remote: &str, remote_port| {
            table.decide(&Connection {
                transport: Transport::Tcp,
                local: "10.9.9.9".parse().unwrap(),
                remote: remote.parse().unwrap(),
                local_port: 40_000,
                remote_port,
            })
        };
        for (remote, port, action) in [
            ("10.0.0.0", 80, Action::Drop),
            ("10.0.0.1", 80, Action::Allow),
            ("10.1.134.158", 80, Action::Drop),
            ("10.1.134.160", 80, Action::Allow),
            ("172.16.3.4", 50_000, Action::Drop),
            ("172.16.3.4", 50_001, Action::Allow),
        ] {
            assert_eq!(decide(remote, port), action, "{remote} {port}");
        }
    }
}
