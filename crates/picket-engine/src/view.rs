//! The policies of a pod, and who their peers are, for targets whose objects are per policy.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{AddressSet, TrafficSet};
use picket_policy::{Block, Direction, List, ObjectRef, Peer, Policy, Rule};

use crate::fold::one_port;
use crate::group::{Group, Kind};
use crate::policy::{LoweredRule, PeerMatch, PolicyEntry, PortName, lower_ports};
use crate::program::{PodRef, Program};
use crate::slab::{GroupId, TermId};

/// A policy that selects a pod. What its selectors mean now is found out when it is asked.
#[derive(Clone, Debug)]
pub struct PolicyView<'a> {
    /// The policy.
    pub policy: &'a Arc<Policy>,
    /// What it says about connections to the pod.
    pub ingress: SideView<'a>,
    /// What it says about connections from the pod.
    pub egress: SideView<'a>,
}

/// What a policy says about one direction.
#[derive(Clone, Debug)]
pub struct SideView<'a> {
    /// Whether it isolates the pod.
    pub isolates: bool,
    /// Its rules, in the order written.
    pub rules: Vec<RuleView<'a>>,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct RuleView<'a> {
    /// As it was written.
    pub rule: &'a Rule,
    /// Who is at the other end, in the order written.
    pub peers: List<PeerView<'a>>,
    /// The traffic that it means with all its peers. For ingress that includes the pod's own named ports.
    pub traffic: TrafficSet,
    /// The names of ports that mean what those at the other end call so.
    names: Vec<PortName>,
    lowered: &'a LoweredRule,
    program: &'a Program,
}

/// One kind of other end, and who that is now.
#[derive(Clone, Copy, Debug)]
pub struct PeerView<'a> {
    /// As it was written. A [`Peer::Block`] says all there is to say; a [`Peer::Domain`] means nobody.
    pub peer: &'a Peer,
    /// What a selector is found by.
    term: Option<TermId>,
    program: &'a Program,
}

impl<'a> RuleView<'a> {
    /// Egress: what it means beyond [`RuleView::traffic`] with peers whose ports have the names that it uses; sorted.
    pub fn named(&self) -> Vec<(TrafficSet, Vec<PodRef<'a>>)> {
        let mut named = Vec::new();
        for name in &self.names {
            for (term, port) in self.program.port_terms(&name.name) {
                if name.means(&port.name, port.protocol) {
                    let pods = self.program.pods_matching(term, self.lowered.peers.as_deref());
                    if !pods.is_empty() {
                        named.push((one_port(port.protocol, port.port), pods));
                    }
                }
            }
        }
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        named
    }

    /// The managed pods that selectors of its peers mean.
    pub fn selected(&self) -> BTreeSet<&'a ObjectRef> {
        let peers = match &self.peers {
            List::Absent => &[],
            List::Items(peers) => peers.as_slice(),
        };
        let pods = peers.iter().flat_map(PeerView::pods);
        pods.map(|pod| &pod.pod().object).collect()
    }
}

impl<'a> PeerView<'a> {
    /// The managed pods that a [`Peer::Pods`] means, in the order of their objects.
    pub fn pods(&self) -> Vec<PodRef<'a>> {
        let term = self.term.into_iter();
        let pods = term.flat_map(|term| self.program.pods_matching(term, None));
        pods.collect()
    }

    /// The addresses of these pods, or of the nodes that a [`Peer::Nodes`] means.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<'a> {
        let program = self.program;
        self.groups().flat_map(move |group| {
            let node = match group.kind {
                Kind::Node(node) => Some(&program.nodes[node].node),
                Kind::External | Kind::Pods { .. } => None,
            };
            let pods = group.pods.iter().map(|&id| &program.pods[id].pod);
            let of_pods = pods.flat_map(|pod| pod.addresses.iter());
            of_pods.chain(node.into_iter().flat_map(|node| node.addresses.iter().copied()))
        })
    }

    fn groups(&self) -> impl Iterator<Item = &'a Group> + use<'a> {
        let program = self.program;
        let classes = self
            .term
            .into_iter()
            .flat_map(|term| program.peers.with_term(term));
        let members = classes.flat_map(|class| program.peers.class(class).members());
        members.map(|&group| &program.groups[group])
    }
}

/// Which addresses blocks hold: not those of all pods that lie in them.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Addresses that picket made up: only blocks of every address hold them.
    made_up: AddressSet,
    /// Those of pods, where blocks are not about pods.
    hidden: AddressSet,
}

impl Blocks {
    /// The addresses of one block: the exceptions are its own, they take nothing from other blocks.
    pub fn addresses(&self, block: &Block) -> AddressSet {
        let exceptions = block.except.iter().map(|prefix| prefix.range()).collect();
        let all = AddressSet::from(block.prefix).difference(&exceptions);
        let held = all.difference(&self.hidden);
        match block.prefix.length() {
            0 => held,
            _ => held.difference(&self.made_up),
        }
    }

    /// Whether a block holds an address.
    pub fn hold(&self, block: &Block, address: IpAddr) -> bool {
        block.prefix.contains(address)
            && !block.except.iter().any(|except| except.contains(address))
            && !self.hidden.contains(address)
            && (block.prefix.length() == 0 || !self.made_up.contains(address))
    }
}

impl Program {
    /// Which addresses blocks hold.
    pub fn blocks(&self) -> Blocks {
        let live = || self.pods().map(|pod| pod.pod()).filter(|pod| !pod.finished);
        let is_about_pods = self.semantics.ipblock_matches_pods;
        let made_up = live().filter(|pod| pod.synthetic);
        let hidden = live().filter(|pod| !pod.host_network && !is_about_pods);
        Blocks {
            made_up: made_up.flat_map(|pod| pod.addresses.iter()).collect(),
            hidden: hidden.flat_map(|pod| pod.addresses.iter()).collect(),
        }
    }

    /// The policies on the cluster network that select a pod, in the order in which they are judged.
    pub fn policy_views(&self, pod: &ObjectRef) -> Vec<PolicyView<'_>> {
        let Some(group) = self.pod_ids.get(pod).and_then(|&id| self.pods[id].group) else {
            return Vec::new();
        };
        let mut entries = self.policies_selecting(group);
        entries.sort_by(|one, other| one.rank().cmp(&other.rank()));
        entries
            .into_iter()
            .map(|entry| PolicyView {
                policy: &entry.policy,
                ingress: self.side_view(entry, Direction::Ingress, Some(group)),
                egress: self.side_view(entry, Direction::Egress, Some(group)),
            })
            .collect()
    }

    /// A policy on the cluster network as it is for a pod that gives none of its ports a name.
    pub fn policy_view(&self, policy: &ObjectRef) -> Option<PolicyView<'_>> {
        let entry = &self.policies[*self.policy_ids.get(policy)?];
        Some(PolicyView {
            policy: &entry.policy,
            ingress: self.side_view(entry, Direction::Ingress, None),
            egress: self.side_view(entry, Direction::Egress, None),
        })
    }

    fn policies_selecting(&self, group: GroupId) -> Vec<&PolicyEntry> {
        let class = self.subject_classes.class_of(group);
        let terms = class
            .into_iter()
            .flat_map(|class| self.subject_classes.class(class).terms());
        let policies = terms.filter_map(|term| self.policies_of.get(term)).flatten();
        let own = policies.map(|&id| &self.policies[id]);
        own.chain(self.universal_policies()).collect()
    }

    fn side_view<'a>(
        &'a self,
        entry: &'a PolicyEntry,
        direction: Direction,
        group: Option<GroupId>,
    ) -> SideView<'a> {
        let written = entry.policy.side(direction);
        let lowered = &entry.side(direction).rules;
        SideView {
            isolates: written.isolates,
            rules: written
                .rules
                .iter()
                .zip(lowered)
                .map(|(rule, lowered)| self.rule_view(entry, (rule, lowered), direction, group))
                .collect(),
        }
    }

    fn rule_view<'a>(
        &'a self,
        entry: &PolicyEntry,
        (rule, lowered): (&'a Rule, &'a LoweredRule),
        direction: Direction,
        group: Option<GroupId>,
    ) -> RuleView<'a> {
        let peers = match &rule.peers {
            List::Absent => List::Absent,
            List::Items(peers) => {
                let peers = peers.iter().map(|peer| self.peer_view_of(entry, peer));
                List::Items(peers.collect())
            }
        };
        let (mut traffic, mut names) = lower_ports(rule);
        if direction == Direction::Ingress {
            for port in group.into_iter().flat_map(|group| self.groups[group].ports()) {
                if names.iter().any(|name| name.means(&port.name, port.protocol)) {
                    traffic = traffic.union(&one_port(port.protocol, port.port));
                }
            }
            names.clear();
        }
        RuleView {
            rule,
            peers,
            traffic,
            names,
            lowered,
            program: self,
        }
    }

    fn peer_view_of<'a>(&'a self, entry: &PolicyEntry, peer: &'a Peer) -> PeerView<'a> {
        let term = match self.peer_match(&entry.policy.networks, peer) {
            Some(PeerMatch::Selector(term)) => Some(term),
            Some(PeerMatch::Block(_)) | None => None,
        };
        PeerView {
            peer,
            term,
            program: self,
        }
    }

    /// The managed pods that `term` matches and, when given, any of `peers` does.
    fn pods_matching(&self, term: TermId, peers: Option<&[PeerMatch]>) -> Vec<PodRef<'_>> {
        let mut found = Vec::new();
        for class in self.peers.with_term(term) {
            for &group in self.peers.class(class).members() {
                let pods = self.groups[group].pods.iter().map(|&id| self.pod_ref(id));
                found.extend(pods.filter(|pod| {
                    peers.is_none_or(|peers| {
                        peers.iter().any(|peer| match peer {
                            PeerMatch::Selector(term) => self.peers.class(class).contains(term),
                            PeerMatch::Block(block) => pod.pod().addresses.iter().any(|address| {
                                let class = self.atoms.class_of(self.view_of(pod.pod(), address));
                                self.atoms.blocks_of(class).binary_search(block).is_ok()
                            }),
                        })
                    })
                }));
            }
        }
        found.sort_by(|one, other| one.pod().object.cmp(&other.pod().object));
        found
    }
}
