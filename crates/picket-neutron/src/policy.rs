//! The groups of policies that isolate: one for each direction, and for each meaning of the port names that it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_engine::{PeerView, PodRef, RuleView, SideView, SubjectId};
use picket_net::{AddressSet, Family, TrafficSet};
use picket_policy::{Direction, List, Mode, Networks, ObjectRef, Peer, PodSelector, Policy, PortMatch, Tier};

use crate::builder::{Builder, rules};
use crate::digest::Digest;
use crate::model::{Name, Remote, SecurityGroup, SecurityGroupRule};
use crate::name::{described, of_selector, selected, tag};

impl<'a> Builder<'a> {
    /// The policies that decide about a subject, if nothing but what they allow together counts: not where a tier denies or
    /// passes on, and not where some are only audited.
    pub(crate) fn enforced_policies(
        &self,
        subject: SubjectId,
        direction: Direction,
    ) -> Option<Vec<&'a Arc<Policy>>> {
        let policies: Vec<_> = self.program.deciding_policies(subject).collect();
        let only_allows =
            |policy: &&Arc<Policy>| policy.tier == Tier::NetworkPolicy && policy.mode == Mode::Enforce;
        let isolated = policies.iter().any(|policy| policy.isolates(direction));
        (isolated && policies.iter().all(only_allows)).then_some(policies)
    }

    /// The groups of some policies of a pod.
    pub(crate) fn of_policies(
        &mut self,
        pod: PodRef<'a>,
        policies: &[&Arc<Policy>],
        direction: Direction,
    ) -> Vec<Name> {
        let views = self.program.policy_views(&pod.pod().object);
        let decides = |object: &ObjectRef| policies.iter().any(|policy| policy.object == *object);
        let views = views.into_iter().filter(|view| decides(&view.policy.object));
        let groups = views.map(|view| {
            let side = match direction {
                Direction::Ingress => &view.ingress,
                Direction::Egress => &view.egress,
            };
            self.of_policy(view.policy, side, direction)
        });
        groups.collect()
    }

    /// The groups of policies that select no pod yet, so that they are there when one comes. What ports by name mean to such a
    /// pod nobody can say.
    pub(crate) fn without_pods(&mut self) {
        let only_allows = |policy: &&Arc<Policy>| {
            policy.tier == Tier::NetworkPolicy
                && policy.mode == Mode::Enforce
                && policy.networks == Networks::Cluster
        };
        let policies = self.program.policies().filter(only_allows);
        let policies: BTreeSet<_> = policies.map(|policy| &policy.object).collect();
        for object in policies {
            let Some(view) = self.program.policy_view(object) else {
                continue;
            };
            for (direction, side) in [
                (Direction::Ingress, &view.ingress),
                (Direction::Egress, &view.egress),
            ] {
                let known = self.policies.get(object);
                let known = known.is_some_and(|groups| groups.iter().any(|(of, _)| *of == direction));
                if side.isolates && !known {
                    self.of_policy(view.policy, side, direction);
                }
            }
        }
    }

    fn of_policy(&mut self, policy: &Policy, side: &SideView<'a>, direction: Direction) -> Name {
        let counted: Vec<_> = side
            .rules
            .iter()
            .filter(|rule| policy.counts(rule.rule))
            .collect();
        let resolved = match direction {
            // What the names of ports mean to those who send is another for each of these, and in the rules.
            Direction::Egress => None,
            Direction::Ingress => counted.iter().any(|rule| uses_names(rule)).then(|| {
                let traffic = counted.iter().map(|rule| rule.traffic.to_string());
                Digest::of("ports").texts(traffic).digits()
            }),
        };
        let object = &policy.object;
        let direction_name = direction.to_string();
        let parts = [object.namespace.as_str(), &object.name, &direction_name];
        let parts = ["policy"].into_iter().chain(parts).chain(resolved.as_deref());
        let name = self.name(&parts.collect::<Vec<_>>());
        let own = self.policies.entry(object.clone()).or_default();
        own.insert((direction, name.clone()));
        let place = name.clone();
        self.group(name, |builder| {
            let mut rules = BTreeSet::new();
            for rule in &counted {
                rules.extend(builder.rule(rule, direction, &place));
            }
            if resolved.is_some() {
                builder.note_named(policy, direction, &rules, place);
            }
            SecurityGroup {
                description: format!("{direction} of pods that {object} isolates"),
                tags: [tag(&builder.with_uid(object), direction)].into(),
                rules,
            }
        })
    }

    /// Which rules of a group are there because of what the names of ports mean to the pods that have it.
    fn note_named(
        &mut self,
        policy: &Policy,
        direction: Direction,
        rules: &BTreeSet<SecurityGroupRule>,
        group: Name,
    ) {
        let Some(view) = self.program.policy_view(&policy.object) else {
            return;
        };
        let side = match direction {
            Direction::Ingress => view.ingress,
            Direction::Egress => view.egress,
        };
        let counted = side.rules.iter().filter(|rule| policy.counts(rule.rule));
        let mut others = BTreeSet::new();
        for rule in counted {
            others.extend(self.rule(rule, direction, &group));
        }
        self.named
            .insert(group, rules.difference(&others).cloned().collect());
    }

    /// The rules of one of a policy, for a group of it.
    fn rule(
        &mut self,
        rule: &RuleView<'a>,
        direction: Direction,
        group: &Name,
    ) -> BTreeSet<SecurityGroupRule> {
        let mut all = match &rule.peers {
            List::Absent => rules(direction, &[Remote::Anyone], &Family::BOTH, &rule.traffic),
            List::Items(peers) => self.with_peers(peers, &rule.traffic, direction),
        };
        // Several names may be one number: who has it by one of them is let in by the same group.
        let mut by_traffic: BTreeMap<TrafficSet, Vec<PodRef<'a>>> = BTreeMap::new();
        for (traffic, pods) in rule.named() {
            by_traffic.entry(traffic).or_default().extend(pods);
        }
        for (traffic, pods) in &by_traffic {
            let named = self.with_named(rule, traffic, pods, direction);
            let known = self.named.entry(group.clone()).or_default();
            known.extend(named.iter().cloned());
            all.extend(named);
        }
        all
    }

    fn with_peers(
        &mut self,
        peers: &[PeerView<'a>],
        traffic: &TrafficSet,
        direction: Direction,
    ) -> BTreeSet<SecurityGroupRule> {
        let mut all = BTreeSet::new();
        if traffic.is_empty() {
            return all;
        }
        let mut addresses = AddressSet::empty();
        for peer in peers {
            match peer.peer {
                Peer::Pods(selector) => {
                    let group = self.selected(selector, peer);
                    all.extend(rules(direction, &[Remote::Group(group)], &Family::BOTH, traffic));
                }
                Peer::Block(block) => addresses = addresses.union(&self.blocks.addresses(block)),
                Peer::Nodes(_) => {
                    let nodes = peer.addresses().collect();
                    addresses = addresses.union(&nodes);
                }
                Peer::Domain(_) => {}
            }
        }
        all.extend(self.address_rules(direction, &addresses, traffic));
        all
    }

    /// The group of the pods that a selector means, which all rules with it share.
    fn selected(&mut self, selector: &PodSelector, peer: &PeerView<'a>) -> Name {
        let hash = of_selector(selector);
        let name = self.peers_name(&[&hash]);
        if self.members(&name).is_some() {
            return name;
        }
        let pods = self.unshared(&peer.pods());
        self.peers(&[&hash], || described(selector), || pods)
    }

    /// Those of `pods` that have their addresses for themselves: others would lend theirs to whoever else has them.
    fn unshared(&self, pods: &[PodRef<'_>]) -> BTreeSet<ObjectRef> {
        let own = pods.iter().filter(|pod| !self.shares(**pod));
        own.map(|pod| pod.pod().object.clone()).collect()
    }

    /// What a rule lets pass to those of its peers whose ports have the names that it uses.
    fn with_named(
        &mut self,
        rule: &RuleView<'a>,
        traffic: &TrafficSet,
        pods: &[PodRef<'a>],
        direction: Direction,
    ) -> BTreeSet<SecurityGroupRule> {
        let known = rule.selected();
        let is_selected =
            |pod: &PodRef<'_>| matches!(rule.peers, List::Absent) || known.contains(&pod.pod().object);
        let (selected, others): (Vec<PodRef<'a>>, Vec<_>) = pods.iter().copied().partition(is_selected);
        let mut all = BTreeSet::new();
        if !selected.is_empty() {
            let hash = named(rule, traffic);
            let members = self.unshared(&selected);
            let group = self.peers(
                &[&hash],
                || format!("Peers whose ports by name are {traffic}"),
                || members,
            );
            all.extend(rules(direction, &[Remote::Group(group)], &Family::BOTH, traffic));
        }
        let mut addresses: Vec<IpAddr> = Vec::new();
        for pod in others.iter().filter(|pod| !self.shares(**pod)) {
            let own = pod.pod().addresses.iter();
            addresses.extend(own.filter(|&address| self.blocks_hold(rule, address)));
        }
        all.extend(self.address_rules(direction, &addresses.into_iter().collect(), traffic));
        all
    }

    fn blocks_hold(&self, rule: &RuleView<'_>, address: IpAddr) -> bool {
        let List::Items(peers) = &rule.peers else {
            return false;
        };
        peers.iter().any(|peer| match peer.peer {
            Peer::Block(block) => self.blocks.hold(block, address),
            Peer::Pods(_) | Peer::Nodes(_) | Peer::Domain(_) => false,
        })
    }
}

/// Whether a rule uses names of ports.
fn uses_names(rule: &RuleView<'_>) -> bool {
    match &rule.rule.ports {
        List::Absent => false,
        List::Items(ports) => ports.iter().any(|port| matches!(port, PortMatch::Named { .. })),
    }
}

/// A hash of who has ports of the names that a rule uses.
fn named(rule: &RuleView<'_>, traffic: &TrafficSet) -> String {
    let mut digest = Digest::of("named").text(&traffic.to_string());
    if let List::Items(ports) = &rule.rule.ports {
        let names = ports.iter().filter_map(|port| match port {
            PortMatch::Named { name, protocol } => Some(format!("{name}/{protocol:?}")),
            PortMatch::Protocol(_) | PortMatch::Range(..) => None,
        });
        digest = digest.texts(names);
    }
    if let List::Items(peers) = &rule.peers {
        let selectors = peers.iter().filter_map(|peer| match peer.peer {
            Peer::Pods(selector) => Some(selector),
            Peer::Block(_) | Peer::Nodes(_) | Peer::Domain(_) => None,
        });
        digest = selectors.fold(digest.text("of"), selected);
    }
    digest.digits()
}
