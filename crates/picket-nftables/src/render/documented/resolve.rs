//! From the compiled program to what the layout needs of one pod.

use std::cell::OnceCell;
use std::net::IpAddr;

use picket_engine::{Blocks, PeerView, PodRef, PolicyView, Program, RuleView, SideView};
use picket_net::AddressSet;
use picket_policy::{List, Mode, NetworkName, ObjectRef, Peer, Policy};
use smol_str::SmolStr;

use super::{Interface, Peers, PodView, PolicyOnPod, ResolvedRule, ResolvedSide, Targets};
use crate::model::InterfaceName;

impl PodView {
    /// A pod on the cluster network, whose interface in the pod is `interface`. `None` when there is no such pod.
    ///
    /// Policies do not apply to hostNetwork pods and finished pods: they are pods that no policy selects.
    pub fn of(program: &Program, pod: &ObjectRef, interface: &InterfaceName) -> Option<Self> {
        let found = program.pod(pod)?;
        let resolve = Resolve::new(program, interface);
        let own_node = found.pod().node.as_deref();
        let policies = program.policy_views(pod);
        let policies = policies.iter().map(|policy| resolve.policy(policy));
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
            policies: policies.filter(PolicyOnPod::has_chain).collect(),
        })
    }
}

impl PodView {
    /// Adds what a secondary network says: `program` is of [`Snapshot::on`](picket_cluster::Snapshot::on) it, or of another that
    /// sees the same. Nothing, when the pod has no interface on the network itself.
    ///
    /// # Errors
    /// The name of an interface that the kernel would not take.
    pub fn attach(&mut self, program: &Program, network: &NetworkName) -> Result<(), SmolStr> {
        let pod = self.pod.clone();
        for endpoint in program.endpoints_of(&pod) {
            let interface = endpoint.pod().interface.as_ref();
            let own = interface.filter(|own| own.network == *network);
            let Some(interface) = own else { continue };
            let name = InterfaceName::new(&interface.name).ok_or_else(|| interface.name.clone())?;
            let resolve = Resolve::new(program, &name);
            for policy in program.policy_views(&endpoint.pod().object) {
                self.add(resolve.policy(&policy));
            }
            self.interfaces.push(Interface {
                name,
                addresses: endpoint.pod().addresses.iter().collect(),
                cluster: false,
            });
        }
        Ok(())
    }

    /// Adds a policy, or what it says over another interface.
    fn add(&mut self, policy: PolicyOnPod) {
        if !policy.has_chain() {
            return;
        }
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

struct Resolve<'a> {
    program: &'a Program,
    interface: &'a InterfaceName,
    /// Filled where there are blocks.
    blocks: OnceCell<Blocks>,
}

impl<'a> Resolve<'a> {
    fn new(program: &'a Program, interface: &'a InterfaceName) -> Self {
        Self {
            program,
            interface,
            blocks: OnceCell::new(),
        }
    }

    fn blocks(&self) -> &Blocks {
        self.blocks.get_or_init(|| self.program.blocks())
    }

    fn policy(&self, view: &PolicyView<'_>) -> PolicyOnPod {
        PolicyOnPod {
            object: view.policy.object.clone(),
            tier: view.policy.tier,
            interfaces: vec![self.interface.clone()],
            ingress: self.side(view.policy, &view.ingress),
            egress: self.side(view.policy, &view.egress),
        }
    }

    fn side(&self, policy: &Policy, side: &SideView<'_>) -> ResolvedSide {
        let rules = side.rules.iter().filter(|rule| policy.counts(rule.rule));
        ResolvedSide {
            isolates: side.isolates && policy.mode == Mode::Enforce,
            audits: side.isolates && policy.mode == Mode::Audit,
            rules: rules.map(|rule| self.rule(rule)).collect(),
        }
    }

    fn rule(&self, rule: &RuleView<'_>) -> ResolvedRule {
        let named = rule.named.iter().map(|(traffic, pods)| {
            let addresses = pods
                .iter()
                .flat_map(|pod| self.matched_addresses(*pod, &rule.peers))
                .collect();
            (traffic.clone(), self.over_the_interface(addresses))
        });
        ResolvedRule {
            index: rule.rule.index,
            action: rule.rule.action,
            peers: self.peers(&rule.peers),
            traffic: rule.traffic.clone(),
            named: named.collect(),
        }
    }

    fn over_the_interface(&self, addresses: AddressSet) -> Targets {
        Targets::from([(self.interface.clone(), addresses)])
    }

    fn peers(&self, peers: &List<PeerView<'_>>) -> Peers {
        let List::Items(peers) = peers else {
            return Peers::Anyone;
        };
        let pods = peers
            .iter()
            .flat_map(|peer| &peer.pods)
            .flat_map(|pod| pod.pod().addresses.iter());
        let nodes = peers
            .iter()
            .flat_map(|peer| &peer.nodes)
            .flat_map(|node| node.addresses.iter().copied());
        let blocks = peers.iter().filter_map(|peer| match peer.peer {
            Peer::Block(block) => Some(self.blocks().addresses(block)),
            Peer::Pods(_) | Peer::Nodes(_) | Peer::Domain(_) => None,
        });
        Peers::Some {
            hosts: self.over_the_interface(pods.chain(nodes).collect()),
            blocks: self.over_the_interface(blocks.fold(AddressSet::empty(), |all, block| all.union(&block))),
        }
    }

    /// The addresses of a pod that any of `peers` means: a block may hold only one of them.
    fn matched_addresses(&self, pod: PodRef<'_>, peers: &List<PeerView<'_>>) -> Vec<IpAddr> {
        let matches = |address: IpAddr| match peers {
            List::Absent => true,
            List::Items(peers) => peers.iter().any(|peer| match peer.peer {
                Peer::Block(block) => self.blocks().hold(block, address),
                Peer::Pods(_) | Peer::Nodes(_) | Peer::Domain(_) => peer
                    .pods
                    .iter()
                    .any(|other| other.pod().object == pod.pod().object),
            }),
        };
        pod.pod()
            .addresses
            .iter()
            .filter(|&address| matches(address))
            .collect()
    }
}
