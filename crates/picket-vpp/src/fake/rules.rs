//! Session rules of one table and transport: both trees and the tags.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_net::Prefix;

use super::retval;
use super::tree::{Added, Node, Tree, Tuple};

/// What the session layer does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It may go on: a rule allows it (0xfffffffd), or none says anything.
    Allowed,
    /// A rule drops it (0xfffffffe).
    Dropped,
    /// A rule gives it to the application with this index.
    Redirected(u32),
}

impl Connection {
    pub(super) fn of(action: u32) -> Self {
        match action {
            0xffff_ffff | 0xffff_fffd => Self::Allowed,
            0xffff_fffe => Self::Dropped,
            index => Self::Redirected(index),
        }
    }
}

/// A session rule as VPP keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRule {
    /// The own side; everything in local tables.
    pub local: Prefix,
    /// Port of the own side, 0 for any.
    pub local_port: u16,
    /// The other side.
    pub remote: Prefix,
    /// Port of the other side, 0 for any.
    pub remote_port: u16,
    /// The number of what it does.
    pub action: u32,
    /// Its tag, as VPP itself knows it; none if empty.
    pub tag: Option<String>,
}

/// A rule that is added or removed: host bits are masked, as VPP does.
#[derive(Clone, Debug)]
pub(super) struct RuleChange {
    pub(super) ipv4: bool,
    pub(super) network: Tuple,
    pub(super) mask: Tuple,
    pub(super) action: u32,
    pub(super) tag: String,
}

impl RuleChange {
    pub(super) fn new(local: (IpAddr, u8, u16), remote: (IpAddr, u8, u16), action: u32, tag: String) -> Self {
        let ipv4 = remote.0.is_ipv4();
        let bits = bits(ipv4);
        let mask = Tuple {
            remote: prefix_mask(remote.1, bits),
            local: prefix_mask(local.1, bits),
            remote_port: port_mask(remote.2),
            local_port: port_mask(local.2),
        };
        let network = Tuple {
            remote: number(remote.0) & mask.remote,
            local: number(local.0) & mask.local,
            remote_port: remote.2,
            local_port: local.2,
        };
        Self {
            ipv4,
            network,
            mask,
            action,
            tag,
        }
    }

    /// The rule of a local table, which has no own side.
    pub(super) fn without_local_side(mut self) -> Self {
        for tuple in [&mut self.network, &mut self.mask] {
            tuple.local = 0;
            tuple.local_port = 0;
        }
        self
    }
}

/// One `session_rules_table_t`: a table of one scope and transport. A table of the global scope is about one family and has no
/// rules of the other.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    ipv4: Tree,
    ipv6: Tree,
    by_tag: BTreeMap<String, u32>,
    tags: BTreeMap<(u32, bool), String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            ipv4: Tree::new(32),
            ipv6: Tree::new(128),
            by_tag: BTreeMap::new(),
            tags: BTreeMap::new(),
        }
    }
}

/// VPP would read what it has freed, and die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crash;

impl Rules {
    pub(super) fn tree(&self, ipv4: bool) -> &Tree {
        if ipv4 { &self.ipv4 } else { &self.ipv6 }
    }

    fn tree_mut(&mut self, ipv4: bool) -> &mut Tree {
        if ipv4 { &mut self.ipv4 } else { &mut self.ipv6 }
    }

    /// Adds a rule, or overwrites the action of the one with its tuple.
    pub(super) fn add(&mut self, change: RuleChange) -> Result<(), i32> {
        if self.by_tag.contains_key(&change.tag) {
            return Err(retval::UNSPECIFIED);
        }
        let ipv4 = change.ipv4;
        let index = match self
            .tree_mut(ipv4)
            .add(change.network, change.mask, change.action)
        {
            Added::New(index) => index,
            Added::Overwritten(index) => {
                // Of a rule of IPv6 the old tag is looked for among those of IPv4, so that it stays taken.
                if let Some(tag) = self.tags.get(&(index, ipv4)).cloned() {
                    self.forget(&tag, true);
                }
                index
            }
        };
        if !change.tag.is_empty() {
            self.by_tag.insert(change.tag.clone(), index);
            self.tags.insert((index, ipv4), change.tag);
        }
        Ok(())
    }

    /// Removes the rule that has the tag, whatever the tuple; else the one with the tuple, whose own tag then stays taken.
    pub(super) fn remove(&mut self, change: &RuleChange) -> Result<(), Crash> {
        let Some(index) = self.by_tag.get(&change.tag).copied() else {
            self.tree_mut(change.ipv4).remove(change.network, change.mask);
            return Ok(());
        };
        let node = self.tree(change.ipv4).get(index).ok_or(Crash)?;
        let (network, mask) = (node.network, node.mask);
        self.tree_mut(change.ipv4).remove(network, mask);
        self.forget(&change.tag, change.ipv4);
        Ok(())
    }

    /// `session_rules_table_del_tag`, which does nothing when the rule has no tag in this family.
    fn forget(&mut self, tag: &str, ipv4: bool) {
        let Some(index) = self.by_tag.get(tag).copied() else {
            return;
        };
        if self.tags.remove(&(index, ipv4)).is_some() {
            self.by_tag.remove(tag);
        }
    }

    pub(super) fn action(&self, local: (IpAddr, u16), remote: (IpAddr, u16)) -> u32 {
        let key = Tuple {
            remote: number(remote.0),
            local: number(local.0),
            remote_port: remote.1,
            local_port: local.1,
        };
        self.tree(remote.0.is_ipv4()).action(key)
    }

    /// The rules of a family. `as_dumped`: with the tags that dumps have, which look those of IPv6 up among those of IPv4.
    pub(super) fn list(&self, ipv4: bool, as_dumped: bool) -> impl Iterator<Item = SessionRule> {
        self.tree(ipv4).iter().map(move |(index, node)| SessionRule {
            tag: self.tags.get(&(index, ipv4 || as_dumped)).cloned(),
            ..rule(node, ipv4)
        })
    }
}

fn rule(node: &Node, ipv4: bool) -> SessionRule {
    let prefix = |bits: u128, mask: u128| {
        // INVARIANT: a mask has at most as many bits as its family has.
        let length = u8::try_from(mask.count_ones()).unwrap_or_default();
        let address = address(bits, ipv4);
        Prefix::new(address, length).unwrap_or_else(|| Prefix::host(address))
    };
    SessionRule {
        local: prefix(node.network.local, node.mask.local),
        local_port: node.network.local_port,
        remote: prefix(node.network.remote, node.mask.remote),
        remote_port: node.network.remote_port,
        action: node.action,
        tag: None,
    }
}

fn bits(ipv4: bool) -> u32 {
    if ipv4 { 32 } else { 128 }
}

/// The mask of a prefix as a number; what is too long is the longest.
fn prefix_mask(length: u8, bits: u32) -> u128 {
    let length = u32::from(length).min(bits);
    let all = u128::MAX >> (128 - bits);
    all & !all.checked_shr(length).unwrap_or_default()
}

fn port_mask(port: u16) -> u16 {
    if port == 0 { 0 } else { u16::MAX }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(number: u128, ipv4: bool) -> IpAddr {
    if ipv4 {
        Ipv4Addr::from_bits(u32::try_from(number).unwrap_or_default()).into()
    } else {
        Ipv6Addr::from_bits(number).into()
    }
}
