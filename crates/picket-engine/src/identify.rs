//! Writes: terms and blocks that come and go, and the identities that follow.

use std::net::IpAddr;

use picket_policy::Block;
use smol_str::SmolStr;

use crate::Identity;
use crate::atom::{Holder, Regrouped, View};
use crate::group::{Groups, Kind};
use crate::identity::{Signature, Terms};
use crate::label::matches;
use crate::multimap::insert_sorted;
use crate::program::{PeerTerm, Program};
use crate::slab::{AtomId, BlockId, ClassId, GroupId, TermId};
use crate::term::PodTerm;

/// Something that has an identity.
#[derive(Clone, Copy, Debug)]
enum Member {
    Held(IpAddr, Holder),
    /// The addresses that nobody has, as blocks see them.
    Region(View),
}

/// Members that are to have another identity.
#[derive(Debug, Default)]
struct Moves {
    /// Each with the identity it had and the one it gets, unless the one it had becomes that.
    members: Vec<(Member, Option<(Identity, Identity)>)>,
    /// What each has, what it is to have, and its place among the members.
    ways: Vec<(Identity, (ClassId, ClassId), usize)>,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "INVARIANT: 2^32 members do not fit into memory"
)]
fn count<T>(members: &[T]) -> u32 {
    members.len() as u32
}

impl Program {
    /// Counts one more use of a peer selector.
    pub(crate) fn acquire_peer(&mut self, term: PeerTerm) -> TermId {
        let (id, new) = self.peer_terms.acquire(term.clone());
        if !new {
            return id;
        }
        let members = match &term {
            PeerTerm::Pods(pods) => {
                let scope = self.namespaces.acquire_scope(&pods.selector.namespaces);
                let terms = &self.peer_terms;
                self.peer_index.insert(scope, id, |term| as_pods(&terms[term]));
                self.groups_selected(pods)
            }
            PeerTerm::Nodes(selector) => {
                let nodes = self.nodes.iter().map(|(_, entry)| entry);
                let matching = nodes.filter(|entry| matches(selector, &entry.node.labels));
                matching.map(|entry| entry.group).collect()
            }
            PeerTerm::Port(port) => self.groups.with_port(port).to_vec(),
        };
        let moved = self.peers.refine(id, members);
        self.reidentify_groups(&moved, true);
        self.identities.set_selector(id, self.peers.with_term(id));
        id
    }

    /// Counts one use less of a peer selector.
    pub(crate) fn release_peer(&mut self, id: TermId) {
        if !self.peer_terms.is_last_use(id) {
            self.peer_terms.release(id);
            return;
        }
        let moved = self.peers.retire(id);
        self.reidentify_groups(&moved, true);
        self.identities.set_selector(id, std::iter::empty());
        if let Some(PeerTerm::Pods(PodTerm { selector, .. })) = self.peer_terms.release(id)
            && let Some(scope) = self.namespaces.find_scope(&selector.namespaces)
        {
            self.peer_index.remove(scope, id, &selector);
            self.namespaces.release_scope(scope);
        }
    }

    /// Counts one more egress rule that uses a port name.
    pub(crate) fn acquire_port_name(&mut self, name: &SmolStr) {
        let entry = self.port_names.entry(name.clone()).or_default();
        entry.uses += 1;
        if entry.uses > 1 {
            return;
        }
        for port in self.groups.ports_named(name) {
            self.acquire_port(port);
        }
    }

    /// Tells those with a port, whose name is in use, from those without.
    pub(crate) fn acquire_port(&mut self, port: picket_cluster::NamedPort) {
        if self.port_terms(&port.name).any(|(_, known)| *known == port) {
            return;
        }
        let id = self.acquire_peer(PeerTerm::Port(port.clone()));
        if let Some(entry) = self.port_names.get_mut(&port.name) {
            insert_sorted(&mut entry.terms, (port, id));
        }
    }

    /// Counts one use less of a port name by an egress rule.
    pub(crate) fn release_port_name(&mut self, name: &SmolStr) {
        let Some(entry) = self.port_names.get_mut(name) else {
            return;
        };
        entry.uses -= 1;
        if entry.uses > 0 {
            return;
        }
        let terms = std::mem::take(&mut entry.terms);
        self.port_names.remove(name);
        for (_, term) in terms {
            self.release_peer(term);
        }
    }

    /// Forgets a port that no group has any more.
    pub(crate) fn release_port(&mut self, port: &picket_cluster::NamedPort) {
        if !self.groups.with_port(port).is_empty() {
            return;
        }
        let Some(entry) = self.port_names.get_mut(&port.name) else {
            return;
        };
        if let Some(at) = entry.terms.iter().position(|(known, _)| known == port) {
            let (_, term) = entry.terms.remove(at);
            self.release_peer(term);
        }
    }

    /// Counts one more use of a block.
    pub(crate) fn acquire_block(&mut self, block: &Block) -> BlockId {
        let (id, regrouped) = self.atoms.acquire(block);
        if let Some(Regrouped { created, moved }) = regrouped {
            for atom in created {
                self.journal_prefix(self.atoms.prefix(atom), None);
                self.enter_region(atom);
            }
            self.reidentify_views(&moved);
            self.identities.set_block(id, self.atoms.classes_with(id));
        }
        id
    }

    /// Counts one use less of a block.
    pub(crate) fn release_block(&mut self, id: BlockId) {
        let Some((block, moved)) = self.atoms.release(id) else {
            return;
        };
        self.reidentify_views(&moved);
        self.identities.set_block(id, std::iter::empty());
        for (atom, prefix) in self.atoms.prune(&block) {
            self.journal_prefix(prefix, self.regions.get(&View::of(atom, false)).copied());
            self.leave_region(atom);
        }
    }

    /// Gives every atom its class and identity after blocks were taken in without.
    pub(crate) fn classify_atoms(&mut self) {
        self.atoms.classify();
        for (atom, _) in self.atoms.iter().collect::<Vec<_>>() {
            self.leave_region(atom);
            self.enter_region(atom);
        }
    }

    fn reidentify_views(&mut self, views: &[View]) {
        let mut moves = Moves::default();
        for &view in views {
            let blocks = self.atoms.class_of(view);
            // What blocks hold an address says nothing about what selects its holder.
            let held = self
                .atoms
                .holders(view.atom())
                .filter(|(_, holder)| match holder {
                    Holder::Node(_) => !view.is_synthetic(),
                    &Holder::Pod(pod) => {
                        self.semantics.ipblock_matches_pods && self.pods[pod].synthetic == view.is_synthetic()
                    }
                });
            let held = held.map(|(address, holder)| Member::Held(address, holder));
            for member in std::iter::once(Member::Region(view)).chain(held) {
                self.consider(&mut moves, member, |(selectors, _)| (selectors, blocks));
            }
        }
        self.reidentify(moves, true);
    }

    /// Gives the addresses of an atom that nobody has their identity, real ones and those that picket made up.
    pub(crate) fn enter_region(&mut self, atom: AtomId) {
        for view in View::both(atom) {
            if let Some((selectors, blocks)) = self.wanted(Member::Region(view)) {
                let id = self.acquire_identity(selectors, blocks, 1);
                self.regions.insert(view, id);
            }
        }
    }

    fn leave_region(&mut self, atom: AtomId) {
        for view in View::both(atom) {
            if let Some(id) = self.regions.remove(&view) {
                self.release_identity(id);
            }
        }
    }

    /// Gives the members of groups whose terms changed their new identities.
    pub(crate) fn reidentify_groups(&mut self, groups: &[GroupId], refined: bool) {
        let mut moves = Moves::default();
        for &group in groups {
            let Some(selectors) = self.peers.class_of(group) else {
                continue;
            };
            let mut consider = |address, holder| {
                // What selects a group says nothing about the blocks that its addresses are in.
                let member = Member::Held(address, holder);
                self.consider(&mut moves, member, |(_, blocks)| (selectors, blocks));
            };
            match &self.groups[group].kind {
                Kind::Pods { .. } => {
                    for &pod in &self.groups[group].pods {
                        let addresses = self.pods[pod].pod.addresses;
                        addresses
                            .iter()
                            .for_each(|address| consider(address, Holder::Pod(pod)));
                    }
                }
                &Kind::Node(node) => {
                    let addresses = self.nodes[node].node.addresses.iter();
                    addresses.for_each(|&address| consider(address, Holder::Node(node)));
                }
                Kind::External => {}
            }
        }
        self.reidentify(moves, refined);
    }

    /// Adds a member that has an identity to those that move, if it is to have other classes of selectors and blocks.
    fn consider(
        &self,
        moves: &mut Moves,
        member: Member,
        wanted: impl Fn((ClassId, ClassId)) -> (ClassId, ClassId),
    ) {
        if let Some(before) = self.current(member)
            && let Some(&Signature::Class(selectors, blocks)) = self.identities.signature(before)
            && let wanted = wanted((selectors, blocks))
            && wanted != (selectors, blocks)
        {
            moves.ways.push((before, wanted, moves.members.len()));
            moves.members.push((member, None));
        }
    }

    /// Gives members their identities. Where a term came or went (`refined`), an identity whose members all go the same
    /// way goes with them: nothing else tells it from what it was.
    fn reidentify(&mut self, mut moves: Moves, refined: bool) {
        moves.ways.sort_unstable();
        let mut left = Vec::new();
        for leaving in moves.ways.chunk_by(|one, other| one.0 == other.0) {
            let (Some(&(before, wanted, _)), Some(&(_, last, _))) = (leaving.first(), leaving.last()) else {
                continue;
            };
            if refined
                && wanted == last
                && self.identities.uses(before) == count(leaving)
                && self.identities.find(wanted.0, wanted.1).is_none()
            {
                self.identities.rename(before, wanted.0, wanted.1);
                continue;
            }
            for together in leaving.chunk_by(|one, other| one.1 == other.1) {
                let Some(&(_, (selectors, blocks), _)) = together.first() else {
                    continue;
                };
                let after = self.acquire_identity(selectors, blocks, count(together));
                for &(_, _, at) in together {
                    if let Some((_, change)) = moves.members.get_mut(at) {
                        *change = Some((before, after));
                    }
                }
            }
            left.push((before, count(leaving)));
        }
        // The last first: taking many out of a sorted set is then fast.
        for (before, members) in left.into_iter().rev() {
            self.release_identities(before, members);
        }
        for (member, change) in moves.members {
            if let Some((before, after)) = change {
                self.set_current(member, before, after);
            }
        }
    }

    /// Gives an address of a pod or node its identity.
    pub(crate) fn hold(&mut self, address: IpAddr, holder: Holder) {
        self.journal_address(address);
        let member = Member::Held(address, holder);
        if let Some((selectors, blocks)) = self.wanted(member) {
            let id = self.acquire_identity(selectors, blocks, 1);
            self.put_current(member, Some(id));
        }
        self.atoms.hold(address, holder);
    }

    /// Takes an address from a pod or node; its identity is still to be released.
    pub(crate) fn detach_address(&mut self, address: IpAddr, holder: Holder) -> Option<Identity> {
        let member = Member::Held(address, holder);
        let id = self.current(member);
        self.journal_holder(address, id, None);
        self.atoms.release_address(address, holder);
        self.put_current(member, None);
        id
    }

    /// Takes an address from a pod or node.
    pub(crate) fn unhold(&mut self, address: IpAddr, holder: Holder) {
        if let Some(id) = self.detach_address(address, holder) {
            self.release_identity(id);
        }
    }

    fn current(&self, member: Member) -> Option<Identity> {
        match member {
            Member::Held(address, holder) => self.holder_identity(holder, address),
            Member::Region(view) => self.regions.get(&view).copied(),
        }
    }

    fn wanted(&self, member: Member) -> Option<(ClassId, ClassId)> {
        let (group, view) = match member {
            Member::Held(address, holder) => (
                self.group_of_holder(holder)?,
                self.view_of_holder(holder, address),
            ),
            Member::Region(view) => (Groups::EXTERNAL, view),
        };
        Some((self.peers.class_of(group)?, self.atoms.class_of(view)))
    }

    fn set_current(&mut self, member: Member, before: Identity, after: Identity) {
        match member {
            Member::Held(address, holder) => self.journal_holder(address, Some(before), Some(holder)),
            Member::Region(view) if !view.is_synthetic() => {
                self.journal_prefix(self.atoms.prefix(view.atom()), Some(before));
            }
            // No address of a packet has it.
            Member::Region(_) => {}
        }
        self.put_current(member, Some(after));
    }

    fn put_current(&mut self, member: Member, id: Option<Identity>) {
        match (member, id) {
            (Member::Held(address, Holder::Pod(pod)), id) => {
                let [v4, v6] = &mut self.pods[pod].identities;
                *(if address.is_ipv4() { v4 } else { v6 }) = id;
            }
            (Member::Held(address, Holder::Node(node)), Some(id)) => {
                self.nodes[node].identities.insert(address, id);
            }
            (Member::Held(address, Holder::Node(node)), None) => {
                self.nodes[node].identities.remove(&address);
            }
            (Member::Region(view), Some(id)) => drop(self.regions.insert(view, id)),
            (Member::Region(view), None) => drop(self.regions.remove(&view)),
        }
    }

    fn group_of_holder(&self, holder: Holder) -> Option<GroupId> {
        match holder {
            Holder::Pod(pod) => self.pods[pod].group,
            Holder::Node(node) => Some(self.nodes[node].group),
        }
    }

    fn view_of_holder(&self, holder: Holder, address: IpAddr) -> View {
        match holder {
            Holder::Pod(pod) => self.view_of(&self.pods[pod].pod, address),
            Holder::Node(_) => View::of(self.atoms.find(address), false),
        }
    }

    fn acquire_identity(&mut self, selectors: ClassId, blocks: ClassId, members: u32) -> Identity {
        let terms = Terms {
            selectors: self.peers.class(selectors).terms(),
            blocks: self.atoms.blocks_of(blocks),
        };
        let (id, new) = self.identities.acquire(selectors, blocks, terms, members);
        if new && self.journal.recording {
            self.journal.identities.add(id);
        }
        id
    }

    pub(crate) fn release_identity(&mut self, id: Identity) {
        self.release_identities(id, 1);
    }

    fn release_identities(&mut self, id: Identity, members: u32) {
        let terms = match self.identities.signature(id) {
            Some(Signature::Class(selectors, blocks)) => Terms {
                selectors: self.peers.class(*selectors).terms(),
                blocks: self.atoms.blocks_of(*blocks),
            },
            Some(Signature::Joint(_)) | None => Terms {
                selectors: &[],
                blocks: &[],
            },
        };
        if self.identities.release(id, terms, members) && self.journal.recording {
            self.journal.identities.remove(id);
        }
    }
}

/// A selector of pods.
pub(crate) fn as_pods(term: &PeerTerm) -> Option<&PodTerm> {
    match term {
        PeerTerm::Pods(pods) => Some(pods),
        PeerTerm::Nodes(_) | PeerTerm::Port(_) => None,
    }
}
