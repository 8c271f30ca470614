//! What rules do with connections, as VPP's session layer does it: worked out from its own tables, and not from what made the
//! rules.
//!
//! A table is a tree. A rule stands below another whose mask fits its network addresses and ports, whichever of the two is
//! about more, and rules beside each other are tried in the order of their last addresses. So what a rule means can depend on
//! the order in which rules were added.

use std::net::IpAddr;

use picket_net::{Family, Prefix};

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
    children: Vec<usize>,
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
                children: Vec::new(),
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
        let mut at = 0;
        while let Some(node) = self.nodes.get(at) {
            let captures = |child: &usize| {
                self.nodes
                    .get(*child)
                    .is_some_and(|child| fits(&child.rule, &rule))
            };
            match node.children.iter().copied().find(captures) {
                Some(child) => at = child,
                None => break,
            }
        }
        // Only the lowest rule that captures it is looked at for whether it is there already.
        if let Some(node) = self.nodes.get_mut(at)
            && is_same_place(&node.rule, &rule)
        {
            node.rule = rule;
            return;
        }
        let new = self.nodes.len();
        let children = self
            .nodes
            .get(at)
            .map(|node| node.children.clone())
            .unwrap_or_default();
        let below = |child: &usize| {
            self.nodes
                .get(*child)
                .is_some_and(|child| fits(&rule, &child.rule))
        };
        let (below, mut beside): (Vec<_>, Vec<_>) = children.into_iter().partition(below);
        beside.push(new);
        self.nodes.push(Node {
            rule,
            children: below,
        });
        if let Some(node) = self.nodes.get_mut(at) {
            node.children = beside;
        }
        let key = |&child: &usize| {
            let rule = self.nodes.get(child).map(|node| &node.rule);
            rule.map(|rule| {
                (
                    rule.remote.last(),
                    rule.local.last(),
                    rule.remote_port,
                    rule.local_port,
                )
            })
        };
        let mut children = self
            .nodes
            .get(at)
            .map(|node| node.children.clone())
            .unwrap_or_default();
        children.sort_by_key(|child| key(child));
        if let Some(node) = self.nodes.get_mut(at) {
            node.children = children;
        }
    }

    /// The rules right below another, in the order in which they are tried.
    pub(super) fn children(&self, at: usize) -> impl Iterator<Item = (usize, &SessionRule)> {
        let children = self
            .nodes
            .get(at)
            .map(|node| node.children.as_slice())
            .unwrap_or_default();
        children
            .iter()
            .filter_map(|&child| self.nodes.get(child).map(|node| (child, &node.rule)))
    }

    /// What becomes of what a rule matches and none below it does.
    pub(super) fn action(&self, at: usize) -> Action {
        self.nodes.get(at).map_or(Action::Drop, |node| node.rule.action)
    }

    /// What becomes of a connection.
    pub fn decide(&self, connection: &Connection) -> Action {
        let mut at = 0;
        loop {
            let Some(node) = self.nodes.get(at) else {
                return Action::Drop;
            };
            let matches = |&&child: &&usize| {
                self.nodes
                    .get(child)
                    .is_some_and(|child| matches(&child.rule, connection))
            };
            match node.children.iter().find(matches) {
                Some(&child) => at = child,
                None => return node.rule.action,
            }
        }
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

fn is_same_place(one: &SessionRule, other: &SessionRule) -> bool {
    let place = |rule: &SessionRule| (rule.local, rule.remote, rule.local_port, rule.remote_port);
    place(one) == place(other)
}

fn matches(rule: &SessionRule, connection: &Connection) -> bool {
    let port = |rule: u16, port: u16| rule == 0 || rule == port;
    rule.local.contains(connection.local)
        && rule.remote.contains(connection.remote)
        && port(rule.local_port, connection.local_port)
        && port(rule.remote_port, connection.remote_port)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
