//! The prefixes that policies name, as a tree: the ranges they cut the address space into, and who lives there.
//!
//! Prefixes nest or are disjoint, so each node of the tree stands for one *atom*: the addresses of its prefix that no
//! prefix below it holds. All addresses of an atom are in the same blocks.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use picket_net::{AddressSet, Family, Prefix};
use picket_policy::Block;

use crate::multimap::{insert_sorted, remove_sorted};
use crate::partition::Partition;
use crate::slab::{AtomId, BlockId, ClassId, Interner, Key, NodeId, PodId, Slab, keys};

/// Whose address it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Holder {
    Node(NodeId),
    Pod(PodId),
}

keys! {
    /// An atom as policies see it from one kind of address: real ones, or those that picket made up, which only blocks
    /// of every address can mean.
    pub(crate) struct View;
}

impl View {
    pub(crate) fn of(atom: AtomId, synthetic: bool) -> Self {
        Self(atom.index() * 2 + u32::from(synthetic))
    }

    /// An atom from real addresses, and from made-up ones.
    pub(crate) fn both(atom: AtomId) -> [Self; 2] {
        [Self::of(atom, false), Self::of(atom, true)]
    }

    pub(crate) fn atom(self) -> AtomId {
        AtomId(self.0 / 2)
    }

    pub(crate) fn is_synthetic(self) -> bool {
        self.0 % 2 == 1
    }
}

#[derive(Clone, Debug)]
struct Atom {
    prefix: Prefix,
    parent: Option<AtomId>,
    /// The prefixes directly below, by their first address.
    children: Vec<(IpAddr, AtomId)>,
    /// The blocks of this prefix.
    blocks: Vec<BlockId>,
    /// The blocks that this prefix is taken out of.
    excepted: Vec<BlockId>,
    /// The pods and nodes at addresses of the atom.
    holders: Holders,
}

type Holders = BTreeSet<(IpAddr, Holder)>;

/// Moving less than one in so many holders, one by one is faster than all at once.
const FEW: usize = 8;

/// The tree of both families, the blocks in use, and the class of every atom.
#[derive(Clone, Debug)]
pub(crate) struct Atoms {
    tree: Slab<AtomId, Atom>,
    blocks: Interner<BlockId, Block>,
    /// Members are views of atoms, terms are blocks.
    classes: Partition<View, BlockId>,
    /// The addresses that several have.
    contested: BTreeSet<IpAddr>,
    /// Whether the tree grows without classes until [`Atoms::classify`].
    bulk: bool,
}

/// What one block more did.
#[derive(Debug)]
pub(crate) struct Regrouped {
    /// Atoms that are new; their addresses were their parents'.
    pub(crate) created: Vec<AtomId>,
    /// Views whose class changed.
    pub(crate) moved: Vec<View>,
}

impl Atoms {
    /// The atom of no address, for those that blocks shall not match.
    pub(crate) const NOWHERE: AtomId = AtomId(0);

    const V4: AtomId = AtomId(1);
    const V6: AtomId = AtomId(2);

    pub(crate) fn new() -> Self {
        let (v4, v6) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
        let mut atoms = Self {
            tree: Slab::default(),
            blocks: Interner::default(),
            classes: Partition::default(),
            contested: BTreeSet::new(),
            bulk: false,
        };
        // INVARIANT: in the order of the constants above.
        for (address, length) in [(v4, 32), (v4, 0), (v6, 0)] {
            let prefix = Prefix::new(address, length).unwrap_or(Prefix::host(address));
            let atom = atoms.tree.insert(Atom {
                prefix,
                parent: None,
                children: Vec::new(),
                blocks: Vec::new(),
                excepted: Vec::new(),
                holders: BTreeSet::new(),
            });
            for synthetic in [false, true] {
                atoms.classes.place(View::of(atom, synthetic), &[]);
            }
        }
        atoms
    }

    /// The atom of an address.
    pub(crate) fn find(&self, address: IpAddr) -> AtomId {
        let mut at = root(address);
        while let Some(below) = self.child_towards(at, address) {
            if !self.tree[below].prefix.contains(address) {
                break;
            }
            at = below;
        }
        at
    }

    pub(crate) fn class_of(&self, view: View) -> ClassId {
        // INVARIANT: every view of every atom has a class outside of `bulk`.
        self.classes.class_of(view).unwrap_or(ClassId(0))
    }

    /// The blocks of a class, sorted.
    pub(crate) fn blocks_of(&self, class: ClassId) -> &[BlockId] {
        self.classes.class(class).terms()
    }

    pub(crate) fn classes_with(&self, block: BlockId) -> impl Iterator<Item = ClassId> + '_ {
        self.classes.with_term(block)
    }

    pub(crate) fn views_in(&self, class: ClassId) -> &[View] {
        self.classes.class(class).members()
    }

    /// Every atom but [`Atoms::NOWHERE`] with its prefix, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (AtomId, Prefix)> {
        let real = self.tree.iter().filter(|(id, _)| *id != Self::NOWHERE);
        real.map(|(id, atom)| (id, atom.prefix))
    }

    pub(crate) fn prefix(&self, atom: AtomId) -> Prefix {
        self.tree[atom].prefix
    }

    /// The addresses of an atom: its prefix without those below it.
    pub(crate) fn addresses(&self, atom: AtomId) -> AddressSet {
        let atom = &self.tree[atom];
        let below = atom
            .children
            .iter()
            .map(|&(_, child)| self.tree[child].prefix.range());
        AddressSet::from(atom.prefix).difference(&below.collect())
    }

    pub(crate) fn hold(&mut self, address: IpAddr, holder: Holder) {
        let atom = self.find(address);
        let holders = &mut self.tree[atom].holders;
        holders.insert((address, holder));
        if holders.range(all_at(address)).nth(1).is_some() {
            self.contested.insert(address);
        }
    }

    pub(crate) fn release_address(&mut self, address: IpAddr, holder: Holder) {
        let atom = self.find(address);
        let holders = &mut self.tree[atom].holders;
        holders.remove(&(address, holder));
        if self.contested.contains(&address) && holders.range(all_at(address)).nth(1).is_none() {
            self.contested.remove(&address);
        }
    }

    /// Who has an address; nodes first.
    pub(crate) fn holders_at(&self, address: IpAddr) -> impl Iterator<Item = Holder> + '_ {
        let holders = &self.tree[self.find(address)].holders;
        holders.range(all_at(address)).map(|&(_, holder)| holder)
    }

    /// Every address that somebody has, with each who has it.
    pub(crate) fn held(&self) -> impl Iterator<Item = (IpAddr, Holder)> {
        let holders = self.tree.iter().flat_map(|(_, atom)| &atom.holders);
        holders.copied()
    }

    /// Addresses that several have, ascending.
    pub(crate) fn contested(&self) -> Vec<IpAddr> {
        self.contested.iter().copied().collect()
    }

    pub(crate) fn is_contested(&self, address: IpAddr) -> bool {
        self.contested.contains(&address)
    }

    /// Who lives in an atom.
    pub(crate) fn holders(&self, atom: AtomId) -> impl Iterator<Item = (IpAddr, Holder)> + '_ {
        self.tree[atom].holders.iter().copied()
    }

    /// Until [`Atoms::classify`], blocks only grow the tree.
    pub(crate) fn begin_bulk(&mut self) {
        self.bulk = true;
    }

    /// Gives every atom its class, in one walk.
    pub(crate) fn classify(&mut self) {
        self.bulk = false;
        for root in [Self::V4, Self::V6] {
            let mut waiting = vec![(root, Vec::new())];
            while let Some((id, mut within)) = waiting.pop() {
                let atom = &self.tree[id];
                for &block in &atom.blocks {
                    insert_sorted(&mut within, block);
                }
                within.retain(|block| !atom.excepted.contains(block));
                self.classes.place(View::of(id, false), &within);
                let of_everything: Vec<_> = within
                    .iter()
                    .copied()
                    .filter(|&block| is_of_everything(&self.blocks[block]))
                    .collect();
                self.classes.place(View::of(id, true), &of_everything);
                waiting.extend(
                    atom.children
                        .iter()
                        .rev()
                        .map(|&(_, child)| (child, within.clone())),
                );
            }
        }
    }

    /// Counts one more use of a block. The first says what it did, but not before [`Atoms::classify`].
    pub(crate) fn acquire(&mut self, block: &Block) -> (BlockId, Option<Regrouped>) {
        let (id, new) = self.blocks.acquire(block.clone());
        if !new {
            return (id, None);
        }
        let mut created = Vec::new();
        let top = self.ensure(block.prefix, &mut created);
        insert_sorted(&mut self.tree[top].blocks, id);
        for &except in &block.except {
            let atom = self.ensure(except, &mut created);
            insert_sorted(&mut self.tree[atom].excepted, id);
        }
        if self.bulk {
            return (id, None);
        }
        let covered = self.cover(top, id, is_of_everything(block));
        let moved = self.classes.refine(id, covered);
        (id, Some(Regrouped { created, moved }))
    }

    /// Counts one use less of a block; after the last, returns it and the views whose class changed. Its prefixes stay
    /// until [`Atoms::prune`].
    pub(crate) fn release(&mut self, id: BlockId) -> Option<(Block, Vec<View>)> {
        let block = self.blocks.release(id)?;
        let moved = self.classes.retire(id);
        for &except in &block.except {
            if let Some(atom) = self.exact(except) {
                remove_sorted(&mut self.tree[atom].excepted, id);
            }
        }
        if let Some(atom) = self.exact(block.prefix) {
            remove_sorted(&mut self.tree[atom].blocks, id);
        }
        Some((block, moved))
    }

    /// Takes prefixes that nothing names any more out of the tree.
    pub(crate) fn prune(&mut self, block: &Block) -> Vec<(AtomId, Prefix)> {
        let mut removed = Vec::new();
        for &prefix in block.except.iter().chain([&block.prefix]) {
            if let Some(atom) = self.exact(prefix)
                && self.remove_if_unused(atom)
            {
                removed.push((atom, prefix));
            }
        }
        removed
    }

    pub(crate) fn sweep(&mut self) {
        self.classes.sweep();
    }

    pub(crate) fn find_block(&self, block: &Block) -> Option<BlockId> {
        self.blocks.find(block)
    }

    /// The views of the atoms in a block, from `atom` downwards.
    fn cover(&self, atom: AtomId, block: BlockId, of_everything: bool) -> Vec<View> {
        let mut views = Vec::new();
        let mut waiting = vec![atom];
        while let Some(id) = waiting.pop() {
            let atom = &self.tree[id];
            if atom.excepted.binary_search(&block).is_ok() {
                continue;
            }
            views.push(View::of(id, false));
            if of_everything {
                views.push(View::of(id, true));
            }
            waiting.extend(atom.children.iter().map(|&(_, child)| child));
        }
        views
    }

    /// The last child of `atom` that begins at or before `address`.
    fn child_towards(&self, atom: AtomId, address: IpAddr) -> Option<AtomId> {
        let children = &self.tree[atom].children;
        let after = children.partition_point(|&(first, _)| first <= address);
        let (_, child) = children.get(after.checked_sub(1)?)?;
        Some(*child)
    }

    /// The deepest atom whose prefix holds all of `prefix`.
    fn around(&self, prefix: Prefix) -> AtomId {
        let mut at = root(prefix.first());
        while let Some(below) = self.child_towards(at, prefix.first()) {
            if !self.tree[below].prefix.contains_prefix(&prefix) {
                break;
            }
            at = below;
        }
        at
    }

    /// The atom of exactly this prefix.
    pub(crate) fn exact(&self, prefix: Prefix) -> Option<AtomId> {
        let around = self.around(prefix);
        (self.tree[around].prefix == prefix).then_some(around)
    }

    /// The atom of exactly this prefix, made when it is new.
    fn ensure(&mut self, prefix: Prefix, created: &mut Vec<AtomId>) -> AtomId {
        let parent = self.around(prefix);
        if self.tree[parent].prefix == prefix {
            return parent;
        }
        let (first, last) = (prefix.first(), prefix.last());
        let outer = &mut self.tree[parent];
        let from = outer.children.partition_point(|&(child, _)| child < first);
        let to = outer.children.partition_point(|&(child, _)| child <= last);
        let children: Vec<_> = outer.children.drain(from..to).collect();
        let holders = take_range(&mut outer.holders, first, last);
        let id = self.tree.insert(Atom {
            prefix,
            parent: Some(parent),
            children,
            blocks: Vec::new(),
            excepted: Vec::new(),
            holders,
        });
        self.tree[parent].children.insert(from, (first, id));
        for (_, child) in self.tree[id].children.clone() {
            self.tree[child].parent = Some(id);
        }
        if !self.bulk {
            for synthetic in [false, true] {
                let outer = self.class_of(View::of(parent, synthetic));
                let terms = self.blocks_of(outer).to_vec();
                self.classes.place(View::of(id, synthetic), &terms);
            }
        }
        created.push(id);
        id
    }

    /// Takes an atom that no block names out of the tree; its addresses and holders fall to its parent.
    fn remove_if_unused(&mut self, id: AtomId) -> bool {
        let atom = &self.tree[id];
        let (Some(parent), true, true) = (atom.parent, atom.blocks.is_empty(), atom.excepted.is_empty())
        else {
            return false;
        };
        let Some(atom) = self.tree.remove(id) else {
            return false;
        };
        for &(_, child) in &atom.children {
            self.tree[child].parent = Some(parent);
        }
        let outer = &mut self.tree[parent];
        if let Ok(at) = outer
            .children
            .binary_search_by_key(&atom.prefix.first(), |&(first, _)| first)
        {
            outer.children.splice(at..=at, atom.children);
        }
        unite(&mut outer.holders, atom.holders);
        for synthetic in [false, true] {
            self.classes.remove(View::of(id, synthetic));
        }
        true
    }
}

fn root(address: IpAddr) -> AtomId {
    match Family::of(address) {
        Family::Ipv4 => Atoms::V4,
        Family::Ipv6 => Atoms::V6,
    }
}

/// Whatever holds an address.
fn all_at(address: IpAddr) -> RangeInclusive<(IpAddr, Holder)> {
    (address, Holder::Node(NodeId(0)))..=(address, Holder::Pod(PodId(u32::MAX)))
}

/// Takes the holders of addresses from `first` to `last` out of `outer`.
fn take_range(outer: &mut Holders, first: IpAddr, last: IpAddr) -> Holders {
    let inside = (first, Holder::Node(NodeId(0)))..=(last, Holder::Pod(PodId(u32::MAX)));
    let within = outer.range(inside.clone());
    if within.clone().nth(outer.len() / FEW).is_none() {
        let taken: Holders = within.copied().collect();
        for holder in &taken {
            outer.remove(holder);
        }
        return taken;
    }
    let mut taken = outer.split_off(inside.start());
    if taken.last().is_some_and(|holder| holder > inside.end()) {
        let after = taken.split_off(&(last, Holder::Pod(PodId(u32::MAX))));
        unite(outer, after);
    }
    taken
}

/// Adds `more` to `holders`, in time by the smaller of the two where they differ much.
fn unite(holders: &mut Holders, mut more: Holders) {
    if holders.len() < more.len() {
        std::mem::swap(holders, &mut more);
    }
    if more.len() < holders.len() / FEW {
        holders.extend(more);
    } else {
        holders.append(&mut more);
    }
}

/// Whether a block means every address, made-up ones included.
fn is_of_everything(block: &Block) -> bool {
    block.prefix.length() == 0
}
