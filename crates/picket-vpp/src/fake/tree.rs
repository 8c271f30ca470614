//! The table in which the session layer keeps its rules: a tree of masks, with its defect.
//!
//! After `vnet/session/mma_template.c`. A rule is looked for below every rule that holds its network address and ports,
//! whatever its own mask: so a rule that is wider than one which was there before can end up below it, where only what the
//! narrower one matches gets to it.

use super::pool::Pool;

/// What a rule is compared by, or a mask for it. Addresses of IPv4 are the lower 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tuple {
    // INVARIANT: the order of the fields is the one in which VPP compares siblings.
    pub(super) remote: u128,
    pub(super) local: u128,
    pub(super) remote_port: u16,
    pub(super) local_port: u16,
}

impl Tuple {
    fn masked(self, mask: Self) -> Self {
        Self {
            remote: self.remote & mask.remote,
            local: self.local & mask.local,
            remote_port: self.remote_port & mask.remote_port,
            local_port: self.local_port & mask.local_port,
        }
    }

    /// The highest tuple that a rule with this network part and this mask matches.
    fn highest(self, mask: Self, bits: u32) -> Self {
        let all = u128::MAX >> (128 - bits);
        Self {
            remote: self.remote | (all & !mask.remote),
            local: self.local | (all & !mask.local),
            remote_port: self.remote_port | !mask.remote_port,
            local_port: self.local_port | !mask.local_port,
        }
    }
}

/// A rule in its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) network: Tuple,
    pub(super) mask: Tuple,
    pub(super) action: u32,
    highest: Tuple,
    children: Vec<u32>,
}

/// The rules of one family and transport. The one that matches everything is always there, with index 0.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Pool<Node>,
    bits: u32,
}

/// Where nothing is said: the rule above decides.
pub(super) const NONE: u32 = u32::MAX;
const ROOT: u32 = 0;

/// What became of a rule that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It is a new one with this index.
    New(u32),
    /// The rule with this index had the same tuple and has its action now.
    Overwritten(u32),
}

impl Tree {
    /// A table for addresses of so many bits.
    pub(super) fn new(bits: u32) -> Self {
        let mut nodes = Pool::default();
        nodes.insert(Node {
            network: Tuple::default(),
            mask: Tuple::default(),
            action: NONE,
            highest: Tuple::default().highest(Tuple::default(), bits),
            children: Vec::new(),
        });
        Self { nodes, bits }
    }

    /// The action for a packet: of the deepest rule first, and of the rule above where that says nothing.
    pub(super) fn action(&self, key: Tuple) -> u32 {
        self.action_below(key, ROOT)
    }

    fn action_below(&self, key: Tuple, index: u32) -> u32 {
        let Some(node) = self.matching(key, index) else {
            return NONE;
        };
        let mut below = node.children.iter().map(|child| self.action_below(key, *child));
        below.find(|action| *action != NONE).unwrap_or(node.action)
    }

    fn matching(&self, key: Tuple, index: u32) -> Option<&Node> {
        self.nodes
            .get(index)
            .filter(|node| key.masked(node.mask) == node.network)
    }

    /// The first and deepest rule that holds a tuple.
    fn holder(&self, key: Tuple, index: u32) -> Option<u32> {
        let node = self.matching(key, index)?;
        let below = node.children.iter().find_map(|child| self.holder(key, *child));
        Some(below.unwrap_or(index))
    }

    /// Adds a rule, or gives the one with its tuple another action.
    pub(super) fn add(&mut self, network: Tuple, mask: Tuple, action: u32) -> Added {
        let parent = self.holder(network, ROOT).unwrap_or(ROOT);
        if let Some(node) = self.nodes.get_mut(parent)
            && (node.network, node.mask) == (network, mask)
        {
            node.action = action;
            return Added::Overwritten(parent);
        }
        let highest = network.highest(mask, self.bits);
        let siblings = self
            .nodes
            .get_mut(parent)
            .map(|node| std::mem::take(&mut node.children));
        let (mut kept, mut children, mut place) = (Vec::new(), Vec::new(), None);
        for sibling in siblings.unwrap_or_default() {
            let Some(node) = self.nodes.get(sibling) else {
                continue;
            };
            if node.network.masked(mask) == network {
                place.get_or_insert(kept.len());
                children.push(sibling);
            } else {
                if highest < node.highest {
                    place.get_or_insert(kept.len());
                }
                kept.push(sibling);
            }
        }
        let index = self.nodes.insert(Node {
            network,
            mask,
            action,
            highest,
            children,
        });
        kept.insert(place.unwrap_or(kept.len()), index);
        if let Some(node) = self.nodes.get_mut(parent) {
            node.children = kept;
        }
        Added::New(index)
    }

    /// Removes the rule with a tuple, wherever it hangs; its children take its place. Of the rule for everything only the
    /// action goes. Nothing happens where there is none, which VPP does not say.
    pub(super) fn remove(&mut self, network: Tuple, mask: Tuple) {
        if (network, mask) == (Tuple::default(), Tuple::default()) {
            if let Some(root) = self.nodes.get_mut(ROOT) {
                root.action = NONE;
            }
            return;
        }
        let Some((parent, place, index)) = self.find(network, mask, ROOT) else {
            return;
        };
        let orphans = self.nodes.remove(index).map(|node| node.children);
        if let Some(node) = self.nodes.get_mut(parent) {
            node.children.splice(place..=place, orphans.unwrap_or_default());
        }
    }

    /// The parent of the rule with a tuple, its place there, and its index.
    fn find(&self, network: Tuple, mask: Tuple, below: u32) -> Option<(u32, usize, u32)> {
        let node = self.matching(network, below)?;
        node.children.iter().enumerate().find_map(|(place, child)| {
            let found = self.nodes.get(*child)?;
            if (found.network, found.mask) == (network, mask) {
                Some((below, place, *child))
            } else {
                self.find(network, mask, *child)
            }
        })
    }

    pub(super) fn get(&self, index: u32) -> Option<&Node> {
        self.nodes.get(index)
    }

    /// Every rule, in the order in which dumps have them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Node)> {
        self.nodes.iter()
    }
}
