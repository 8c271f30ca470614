//! One verdict with its reason and causes, from the terms of both ends.

use std::net::IpAddr;

use picket_cluster::{Cause, EndJudgement, Endpoint, Flow, Judgement, NamedPort, Pod, Reason, Verdict};
use picket_net::Protocol;
use picket_policy::{Action, Direction, List, Mode, PortMatch, Rule, Tier};

use crate::Program;
use crate::atom::View;
use crate::group::Groups;
use crate::policy::{LoweredRule, PeerMatch, PolicyEntry, Stance};
use crate::program::PodEntry;
use crate::slab::{ClassId, GroupId};

/// The other end, as the terms of policies see it.
#[derive(Clone, Copy)]
struct PeerView {
    /// The class of its selectors; `None` for what does not exist.
    selectors: Option<ClassId>,
    /// The class of its address; `None` without one.
    blocks: Option<ClassId>,
}

/// One end of a flow, with all that the rules there ask about.
struct Question<'a> {
    program: &'a Program,
    flow: &'a Flow,
    direction: Direction,
    peer: PeerView,
    /// The named ports of the destination.
    ports: &'a [NamedPort],
    stance: Stance,
}

impl Program {
    fn is_same_pod(&self, source: &Endpoint, destination: &Endpoint) -> bool {
        match (source, destination) {
            (Endpoint::Pod(one), Endpoint::Pod(other)) if one == other => true,
            (Endpoint::Pod(one), Endpoint::Pod(other)) => {
                let pods = self.pod(one).zip(self.pod(other));
                pods.is_some_and(|(one, other)| one.pod().is_same_pod(other.pod()))
            }
            _ => false,
        }
    }

    /// Judges one new connection.
    ///
    /// A pod that the program does not hold, or that has finished, is treated as no pod at all.
    pub fn judge(&self, flow: &Flow) -> Judgement {
        if self.is_same_pod(&flow.source, &flow.destination) {
            let same_pod = EndJudgement::without_cause(Verdict::Allow, Reason::SamePod);
            return Judgement {
                egress: same_pod.clone(),
                ingress: same_pod,
            };
        }
        Judgement {
            egress: self.judge_end(flow, Direction::Egress),
            ingress: self.judge_end(flow, Direction::Ingress),
        }
    }

    /// Whether `peer` is the node that a pod runs on, or a hostNetwork pod there, which is the node too.
    pub fn is_own_node(&self, pod: &Pod, peer: &Endpoint) -> bool {
        let node = match peer {
            Endpoint::Node { name, .. } => Some(name),
            Endpoint::Pod(object) => {
                let other = self.entry(object).map(|entry| &entry.pod);
                let other = other.filter(|other| other.host_network);
                other.and_then(|other| other.node.as_ref())
            }
            Endpoint::External(_) => None,
        };
        pod.node.is_some() && pod.node.as_ref() == node
    }

    /// Whether a pod is in the network of its node and this address is the node's: then it is the node.
    pub(crate) fn has_address_of_node(&self, pod: &Pod, address: IpAddr) -> bool {
        let node = pod.node.as_ref().filter(|_| pod.host_network && !pod.finished);
        let node = node.and_then(|name| self.node(name));
        node.is_some_and(|node| node.addresses.contains(&address))
    }

    fn judge_end(&self, flow: &Flow, direction: Direction) -> EndJudgement {
        let (own, other) = match direction {
            Direction::Egress => (&flow.source, &flow.destination),
            Direction::Ingress => (&flow.destination, &flow.source),
        };
        let Some((pod, group)) = self.managed(own) else {
            return EndJudgement::without_cause(Verdict::Allow, Reason::NotAPod);
        };
        let own_node = self.is_own_node(&pod.pod, other);
        let destination = self.managed(&flow.destination);
        let question = Question {
            program: self,
            flow,
            direction,
            peer: self.peer_view(other, flow),
            ports: destination.map_or(&[], |(pod, _)| &pod.pod.ports),
            stance: Stance::InForce,
        };
        let policies = self.policies_deciding(group, direction);
        let judgement = question.judge(&policies, own_node);
        let is_audited = |entry: &&PolicyEntry| entry.policy.mode == Mode::Audit;
        if !judgement.verdict.is_allow() || !policies.iter().any(is_audited) {
            return judgement;
        }
        let strict = Question {
            stance: Stance::IfEnforced,
            ..question
        };
        let strict = strict.judge(&policies, own_node);
        EndJudgement {
            audited: if strict.verdict.is_allow() {
                Vec::new()
            } else {
                strict.causes
            },
            ..judgement
        }
    }

    fn entry(&self, object: &picket_policy::ObjectRef) -> Option<&PodEntry> {
        Some(&self.pods[*self.pod_ids.get(object)?])
    }

    fn managed(&self, endpoint: &Endpoint) -> Option<(&PodEntry, GroupId)> {
        match endpoint {
            Endpoint::Pod(object) => {
                let entry = self.entry(object)?;
                Some((entry, entry.group?))
            }
            Endpoint::Node { .. } | Endpoint::External(_) => None,
        }
    }

    /// The policies that can decide about a group, in the order in which they are judged.
    fn policies_deciding(&self, group: GroupId, direction: Direction) -> Vec<&PolicyEntry> {
        let [ingress, egress] = self.groups[group].subjects;
        let subject = match direction {
            Direction::Ingress => ingress,
            Direction::Egress => egress,
        };
        let key = subject.and_then(|subject| self.subjects.key(subject));
        key.into_iter().flat_map(|key| self.deciding(key)).collect()
    }

    fn peer_view(&self, peer: &Endpoint, flow: &Flow) -> PeerView {
        let external = self.peers.class_of(Groups::EXTERNAL);
        match peer {
            Endpoint::Pod(object) => {
                let Some(entry) = self.entry(object) else {
                    return PeerView {
                        selectors: None,
                        blocks: None,
                    };
                };
                let address = entry.pod.addresses.of(flow.family);
                if let Some(address) = address
                    && self.has_address_of_node(&entry.pod, address)
                    && let Some(name) = entry.pod.node.clone()
                {
                    return self.peer_view(&Endpoint::Node { name, address }, flow);
                }
                PeerView {
                    selectors: entry.group.map_or(external, |group| self.peers.class_of(group)),
                    blocks: address.map(|address| self.atoms.class_of(self.view_of(&entry.pod, address))),
                }
            }
            Endpoint::Node { name, address } => PeerView {
                selectors: self
                    .node_ids
                    .get(name)
                    .and_then(|&id| self.peers.class_of(self.nodes[id].group)),
                blocks: Some(self.atoms.class_of(View::of(self.atoms.find(*address), false))),
            },
            Endpoint::External(address) => PeerView {
                selectors: external,
                blocks: Some(self.atoms.class_of(View::of(self.atoms.find(*address), false))),
            },
        }
    }
}

impl Question<'_> {
    /// What the policies that can decide say, in the order in which they are judged.
    fn judge(&self, policies: &[&PolicyEntry], own_node: bool) -> EndJudgement {
        let is_isolated = self.is_isolated(policies, self.stance);
        let is_selected = self.is_isolated(policies, Stance::IfEnforced);
        let by_default = !is_selected
            && policies.iter().any(|entry| {
                entry.policy.tier == Tier::ClusterDefault && !entry.side(self.direction).says_nothing()
            });
        let local_node = EndJudgement::without_cause(Verdict::Allow, Reason::LocalNode);
        let exempt = own_node && !by_default;
        if exempt && self.direction == Direction::Ingress {
            return local_node;
        }
        let ordered = |tier| self.ordered_tier(policies, tier);
        let of_selected = |tier| ordered(tier).filter(|_| is_selected);
        let of_others = |tier| ordered(tier).filter(|_| !is_isolated);
        of_selected(Tier::Custom)
            .or_else(|| ordered(Tier::Admin))
            .or_else(|| exempt.then_some(local_node))
            .or_else(|| self.network_policies(policies).filter(|_| is_selected))
            .or_else(|| of_others(Tier::ClusterDefault))
            .or_else(|| of_others(Tier::Baseline))
            .unwrap_or_else(|| EndJudgement::without_cause(Verdict::Allow, Reason::NotIsolated))
    }

    fn is_isolated(&self, policies: &[&PolicyEntry], stance: Stance) -> bool {
        let mut entries = policies.iter();
        entries.any(|entry| entry.side(self.direction).isolates_in(stance))
    }

    /// All but NetworkPolicy: the first rule that matches decides, unless it passes. Custom rules, which are about isolated
    /// pods, deny nothing to others.
    fn ordered_tier(&self, policies: &[&PolicyEntry], tier: Tier) -> Option<EndJudgement> {
        let may_deny = tier != Tier::Custom || self.is_isolated(policies, self.stance);
        let mut matching = self.matching(policies, tier);
        let (entry, rule, lowered) = matching.find(|(.., rule)| may_deny || rule.action != Action::Deny)?;
        let (verdict, reason) = match lowered.action {
            Action::Deny if tier == Tier::ClusterDefault => {
                return Some(EndJudgement::without_cause(Verdict::Deny, Reason::ClusterDefault));
            }
            Action::Accept => (Verdict::Allow, Reason::AllowedByRule),
            Action::Deny => (Verdict::Deny, Reason::DeniedByRule),
            Action::Pass => return None,
        };
        Some(EndJudgement {
            verdict,
            reason,
            causes: vec![self.by_rule(entry, rule)],
            audited: Vec::new(),
        })
    }

    /// NetworkPolicy: a union of accepts that is final for isolated pods.
    fn network_policies(&self, policies: &[&PolicyEntry]) -> Option<EndJudgement> {
        let isolates = |entry: &&&PolicyEntry| entry.side(self.direction).isolates_in(self.stance);
        let mut isolating = policies.iter().filter(isolates).peekable();
        let semantics = &self.program.semantics;
        let accepted = match self.flow.protocol {
            Protocol::ICMP => semantics.accept_icmp,
            Protocol::ICMPV6 => semantics.accept_icmpv6,
            _ => false,
        };
        if accepted {
            return Some(EndJudgement::without_cause(Verdict::Allow, Reason::IcmpAccepted));
        }
        let accepting = self.matching(policies, Tier::NetworkPolicy);
        let mut causes: Vec<_> = accepting
            .map(|(entry, rule, _)| self.by_rule(entry, rule))
            .collect();
        let (verdict, reason) = if causes.is_empty() {
            isolating.peek()?;
            causes.extend(isolating.map(|entry| Cause {
                object: entry.policy.object.clone(),
                direction: self.direction,
                rule: None,
                position: entry.policy.position.clone(),
            }));
            (Verdict::Deny, Reason::NoRuleMatches)
        } else {
            (Verdict::Allow, Reason::AllowedByRule)
        };
        causes.sort();
        Some(EndJudgement {
            verdict,
            reason,
            causes,
            audited: Vec::new(),
        })
    }

    /// The rules of one tier that match, in the order in which they are judged.
    fn matching<'a>(
        &'a self,
        policies: &'a [&'a PolicyEntry],
        tier: Tier,
    ) -> impl Iterator<Item = (&'a PolicyEntry, &'a Rule, &'a LoweredRule)> {
        let tiered = policies.iter().filter(move |entry| entry.policy.tier == tier);
        let stance = self.stance;
        let rules = tiered.flat_map(move |entry| {
            let written = &entry.policy.side(self.direction).rules;
            let side = entry.side(self.direction);
            written
                .iter()
                .zip(&side.rules)
                .filter(move |(_, lowered)| side.counts_in(lowered, stance))
                .map(move |(rule, lowered)| (*entry, rule, lowered))
        });
        rules.filter(|(_, rule, lowered)| self.ports_match(rule) && self.peers_match(lowered))
    }

    fn ports_match(&self, rule: &Rule) -> bool {
        let List::Items(ports) = &rule.ports else {
            return true;
        };
        let Flow { protocol, port, .. } = *self.flow;
        ports.iter().any(|wanted| match wanted {
            PortMatch::Protocol(own) => *own == protocol,
            PortMatch::Range(own, range) => {
                *own == protocol && (range.first()..=range.last()).contains(&port)
            }
            PortMatch::Named { protocol: own, name } => {
                own.is_none_or(|own| own == protocol)
                    && self
                        .ports
                        .iter()
                        .any(|named| named.name == *name && named.protocol == protocol && named.port == port)
            }
        })
    }

    fn peers_match(&self, rule: &LoweredRule) -> bool {
        let Program { peers, atoms, .. } = self.program;
        let Some(wanted) = &rule.peers else {
            return true;
        };
        wanted.iter().any(|peer| match peer {
            PeerMatch::Selector(term) => {
                let class = self.peer.selectors;
                class.is_some_and(|class| peers.class(class).contains(term))
            }
            PeerMatch::Block(block) => {
                let class = self.peer.blocks;
                class.is_some_and(|class| atoms.blocks_of(class).binary_search(block).is_ok())
            }
        })
    }

    fn by_rule(&self, entry: &PolicyEntry, rule: &Rule) -> Cause {
        Cause {
            object: entry.policy.object.clone(),
            direction: self.direction,
            rule: Some(rule.index),
            position: rule.position.clone(),
        }
    }
}
