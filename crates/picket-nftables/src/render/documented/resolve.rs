//! From the compiled program to what the layout needs of one pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use picket_engine::{Blocks, PeerView, PodRef, PolicyView, Program, RuleView, SideView};
use picket_net::{AddressSet, TrafficSet};
use picket_policy::{List, Mode, NetworkName, ObjectRef, Peer, Policy};
use smol_str::SmolStr;

use super::{Interface, Peers, PodView, PolicyOnPod, ResolvedRule, ResolvedSide, Targets};
use crate::model::InterfaceName;

impl PodView {
    /// A pod on the cluster network, whose interface in the pod is `interface`. `None` when there is no such pod.
    ///
    /// Policies do not apply to hostNetwork pods and finished pods: they are pods that no policy selects.
    pub fn of(
        program: &Program,
        ends: &OtherEnds,
        pod: &ObjectRef,
        interface: &InterfaceName,
    ) -> Option<Self> {
        let found = program.pod(pod)?;
        let own_node = found.pod().node.as_deref();
        Some(Self {
            pod: pod.clone(),
            interfaces: vec![Interface {
                name: interface.clone(),
                addresses: found.pod().addresses.iter().collect(),
                cluster: true,
            }],
            own_node: own_node
                .into_iter()
                .flat_map(|node| program.own_addresses(node))
                .collect(),
            policies: ends.policies(program, pod, interface).collect(),
        })
    }
}

impl PodView {
    /// Adds what a secondary network says: `program` is of [`Snapshot::on`](picket_cluster::Snapshot::on) it, or of another that
    /// sees the same. Nothing, when the pod has no interface on the network itself.
    ///
    /// # Errors
    /// The names of interfaces that no ruleset can have. All others are added nevertheless.
    pub fn attach(
        &mut self,
        program: &Program,
        ends: &OtherEnds,
        network: &NetworkName,
    ) -> Result<(), Vec<SmolStr>> {
        let pod = self.pod.clone();
        let mut strange = Vec::new();
        for endpoint in program.endpoints_of(&pod) {
            let interface = endpoint.pod().interface.as_ref();
            let own = interface.filter(|own| own.network == *network);
            let Some(interface) = own else { continue };
            let Some(name) = InterfaceName::new(&interface.name) else {
                strange.push(interface.name.clone());
                continue;
            };
            for policy in ends.policies(program, &endpoint.pod().object, &name) {
                self.add(policy);
            }
            self.interfaces.push(Interface {
                name,
                addresses: endpoint.pod().addresses.iter().collect(),
                cluster: false,
            });
        }
        if strange.is_empty() { Ok(()) } else { Err(strange) }
    }

    /// Adds a policy, or what it says over another interface.
    fn add(&mut self, policy: PolicyOnPod) {
        match self
            .policies
            .iter_mut()
            .find(|known| known.object == policy.object)
        {
            Some(known) => known.extend(policy),
            None => self.policies.push(policy),
        }
    }
}

impl PolicyOnPod {
    /// Adds what the same policy says over other interfaces.
    fn extend(&mut self, other: Self) {
        self.interfaces.extend(other.interfaces);
        self.interfaces.sort();
        for (own, other) in [
            (&mut self.ingress, other.ingress),
            (&mut self.egress, other.egress),
        ] {
            // INVARIANT: the rules of one policy are the same rules, in the same order.
            for (own, other) in own.rules.iter_mut().zip(other.rules) {
                own.extend(other);
            }
        }
    }
}

impl ResolvedRule {
    fn extend(&mut self, other: Self) {
        if let (
            Peers::Some { hosts, blocks },
            Peers::Some {
                hosts: more_hosts,
                blocks: more_blocks,
            },
        ) = (&mut self.peers, other.peers)
        {
            hosts.extend(more_hosts);
            blocks.extend(more_blocks);
        }
        for (traffic, targets) in other.named {
            match self.named.iter_mut().find(|(known, _)| *known == traffic) {
                Some((_, known)) => known.extend(targets),
                None => self.named.push((traffic, targets)),
            }
        }
        self.named.sort_by(|(one, _), (other, _)| one.cmp(other));
    }
}

/// Who is at the other end of the rules of a program's policies, each worked out once for all pods that it selects. It goes with one
/// program as it is: of another, or once that has changed, it says nothing.
#[derive(Debug, Default)]
pub struct OtherEnds {
    /// Filled where there are blocks.
    blocks: OnceLock<Blocks>,
    policies: Mutex<BTreeMap<ObjectRef, Arc<OnceLock<PolicyEnds>>>>,
}

/// Who is at the other end of each rule of a policy, ingress first.
type PolicyEnds = [Vec<RuleEnds>; 2];

/// Who is at the other end of a rule.
#[derive(Debug)]
struct RuleEnds {
    /// Pods and nodes, and blocks; `None` for anyone.
    peers: Option<[Arc<AddressSet>; 2]>,
    /// Of egress, those with ports by name.
    named: Vec<(TrafficSet, Arc<AddressSet>)>,
}

impl OtherEnds {
    /// The policies that select a pod, over one of its interfaces, in the order in which their chains are jumped to.
    fn policies<'a>(
        &'a self,
        program: &'a Program,
        pod: &ObjectRef,
        interface: &'a InterfaceName,
    ) -> impl Iterator<Item = PolicyOnPod> {
        let views = program.policy_views(pod).into_iter();
        let policies = views.map(move |view| {
            let place = self.place_of(&view.policy.object);
            let [ingress, egress] = place.get_or_init(|| self.of_policy(program, &view));
            PolicyOnPod {
                object: view.policy.object.clone(),
                tier: view.policy.tier,
                interfaces: vec![interface.clone()],
                ingress: resolved(view.policy, &view.ingress, ingress, interface),
                egress: resolved(view.policy, &view.egress, egress, interface),
            }
        });
        policies.filter(PolicyOnPod::has_chain)
    }

    /// The place of a policy, whether filled or not. Others need not wait until it is.
    fn place_of(&self, policy: &ObjectRef) -> Arc<OnceLock<PolicyEnds>> {
        let mut known = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(policy.clone()).or_default())
    }

    fn of_policy(&self, program: &Program, view: &PolicyView<'_>) -> PolicyEnds {
        let blocks = || self.blocks.get_or_init(|| program.blocks());
        [&view.ingress, &view.egress].map(|side| {
            let rules = side.rules.iter();
            rules.map(|rule| RuleEnds::of(rule, &blocks)).collect()
        })
    }
}

impl RuleEnds {
    fn of<'b>(rule: &RuleView<'_>, blocks: &impl Fn() -> &'b Blocks) -> Self {
        let named = rule.named();
        let selected = match named.is_empty() {
            true => BTreeSet::new(),
            false => rule.selected(),
        };
        let named = named.into_iter().map(|(traffic, pods)| {
            let addresses = matched_addresses(&pods, rule, &selected, blocks);
            (traffic, Arc::new(addresses))
        });
        let named = named.collect();
        let List::Items(peers) = &rule.peers else {
            return Self { peers: None, named };
        };
        let hosts = peers.iter().flat_map(PeerView::addresses).collect();
        let blocks = peers.iter().filter_map(|peer| match peer.peer {
            Peer::Block(block) => Some(blocks().addresses(block)),
            Peer::Pods(_) | Peer::Nodes(_) | Peer::Domain(_) => None,
        });
        let blocks = blocks.fold(AddressSet::empty(), |all, block| all.union(&block));
        Self {
            peers: Some([hosts, blocks].map(Arc::new)),
            named,
        }
    }
}

/// Those addresses of pods that any peer of a rule means: all of those that its selectors mean, while a block may hold only one.
fn matched_addresses<'b>(
    pods: &[PodRef<'_>],
    rule: &RuleView<'_>,
    selected: &BTreeSet<&ObjectRef>,
    blocks: &impl Fn() -> &'b Blocks,
) -> AddressSet {
    let all = pods.iter().flat_map(|pod| {
        let object = &pod.pod().object;
        pod.pod().addresses.iter().map(move |address| (object, address))
    });
    let List::Items(peers) = &rule.peers else {
        return all.map(|(_, address)| address).collect();
    };
    let is_in_block = |address: IpAddr| {
        peers.iter().any(|peer| match peer.peer {
            Peer::Block(block) => blocks().hold(block, address),
            Peer::Pods(_) | Peer::Nodes(_) | Peer::Domain(_) => false,
        })
    };
    let matched = all.filter(|(pod, address)| selected.contains(pod) || is_in_block(*address));
    matched.map(|(_, address)| address).collect()
}

/// One direction of a policy over an interface.
fn resolved(
    policy: &Policy,
    side: &SideView<'_>,
    ends: &[RuleEnds],
    interface: &InterfaceName,
) -> ResolvedSide {
    let over_it = |addresses: &Arc<AddressSet>| Targets::from([(interface.clone(), Arc::clone(addresses))]);
    // INVARIANT: a side has a rule for each that is written, whichever pod it is for, and so have its ends.
    let rules = side.rules.iter().zip(ends);
    let rules = rules.filter(|(view, _)| policy.counts(view.rule));
    ResolvedSide {
        isolates: side.isolates && policy.mode == Mode::Enforce,
        audits: side.isolates && policy.mode == Mode::Audit,
        rules: rules
            .map(|(view, ends)| ResolvedRule {
                index: view.rule.index,
                action: view.rule.action,
                peers: match &ends.peers {
                    None => Peers::Anyone,
                    Some([hosts, blocks]) => Peers::Some {
                        hosts: over_it(hosts),
                        blocks: over_it(blocks),
                    },
                },
                traffic: view.traffic.clone(),
                named: ends
                    .named
                    .iter()
                    .map(|(traffic, addresses)| (traffic.clone(), over_it(addresses)))
                    .collect(),
            })
            .collect(),
    }
}
