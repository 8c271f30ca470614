//! Pods, reduced to what policies can see, each with the addresses that are its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Addresses, Event, Object, Pod, codes};
use picket_policy::{Diagnostic, Labels, NetworkName, Severity};
use smol_str::SmolStr;

use super::Changes;
use super::claims::Claims;
use super::facts::{Name, NodeFacts, PodFacts};
use super::nodes::{Effect, Nodes};
use super::shared::Shared;

/// Every pod, those that policies cannot see included: they say what addresses their nodes have.
///
/// An address that several pods claim belongs to a pod of the own node before others, and else to the one created last:
/// networks give addresses away again once their pod has gone, which the API may learn late. An address of a node is no
/// pod's. A pod keeps none of its addresses on a network on which one of them is another's.
#[derive(Default)]
pub(super) struct Pods {
    /// The node whose pods are kept whole; every node's without one.
    node: Option<SmolStr>,
    pods: BTreeMap<Name, State>,
    nodes: Nodes,
    cluster: Claims,
    attached: BTreeMap<NetworkName, Claims>,
    /// How many pods of the own node policies of a namespace may select.
    own: BTreeMap<SmolStr, usize>,
    labels: Shared<Labels>,
    node_names: Shared<SmolStr>,
}

struct State {
    pod: Arc<Pod>,
    created: SmolStr,
    of_node: Box<[IpAddr]>,
    diagnostics: Vec<Diagnostic>,
    shown: Option<Arc<Pod>>,
}

impl Pods {
    /// No pods yet, and which node is the own one.
    pub(super) fn new(node: Option<SmolStr>) -> Self {
        Self {
            node,
            ..Self::default()
        }
    }

    /// Whether a policy of this namespace may select a pod of the own node.
    pub(super) fn may_be_selected(&self, namespace: &str) -> bool {
        self.node.is_none() || self.own.contains_key(namespace)
    }

    /// The names of all pods.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.pods.keys()
    }

    /// The nodes.
    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Whether it is known that a pod says just this.
    pub(super) fn knows(&self, name: &Name, facts: &PodFacts) -> bool {
        let state = self.pods.get(name);
        state.is_some_and(|state| {
            let same = Pod {
                object: state.pod.object.clone(),
                ..facts.pod.clone()
            };
            let uid = &state.pod.object.uid;
            *state.pod == same
                && (uid.is_empty() || *uid == facts.pod.object.uid)
                && state.created == facts.created
                && *state.of_node == *facts.of_node
        })
    }

    /// What a node says now; `None` when it is gone.
    pub(super) fn set_node(&mut self, name: &SmolStr, facts: Option<NodeFacts>) -> Changes {
        let mut outcome = Changes::default();
        let mut affected = BTreeSet::new();
        let effect = self.nodes.set(name, facts);
        self.take_effect(effect, &mut outcome, &mut affected);
        self.refresh(&affected, &mut outcome);
        outcome
    }

    /// What a pod says now; `None` when it is gone.
    pub(super) fn set(&mut self, name: &Name, facts: Option<PodFacts>) -> Changes {
        let mut outcome = Changes::default();
        let mut affected = BTreeSet::from([name.clone()]);
        let before = self.pods.remove(name);
        if let Some(before) = &before {
            self.withdraw(name, &before.pod, &mut affected);
            self.labels.give_back(&before.pod.labels);
            before
                .pod
                .node
                .iter()
                .for_each(|node| self.node_names.give_back(node));
        }
        let now = facts.map(|facts| self.reduce(facts));
        self.move_between_nodes(before.as_ref(), now.as_ref(), &mut outcome, &mut affected);
        let shown = before.and_then(|before| before.shown);
        match now {
            Some(state) => {
                self.claim(name, &state.pod, &mut affected);
                self.pods.insert(name.clone(), State { shown, ..state });
            }
            None => {
                let gone = shown.map(|pod| Event::Delete(pod.object.clone()));
                outcome.events.extend(gone);
            }
        }
        self.refresh(&affected, &mut outcome);
        outcome
    }

    fn is_own(&self, pod: &Pod) -> bool {
        self.node.is_none() || self.node == pod.node
    }

    /// Of pods of other nodes only what policies can see.
    fn reduce(&mut self, facts: PodFacts) -> State {
        let PodFacts {
            mut pod,
            of_node,
            created,
            mut diagnostics,
        } = facts;
        if !self.is_own(&pod) {
            pod.object.uid = SmolStr::default();
            pod.static_uid = None;
            pod.vpp_interface = None;
            diagnostics = Vec::new();
        }
        pod.labels = self.labels.take(pod.labels);
        pod.node = pod.node.map(|node| self.node_names.take(node));
        pod.ports.shrink_to_fit();
        pod.attachments.shrink_to_fit();
        State {
            pod: Arc::new(pod),
            created,
            of_node: of_node.into_boxed_slice(),
            diagnostics,
            shown: None,
        }
    }

    fn move_between_nodes(
        &mut self,
        before: Option<&State>,
        now: Option<&State>,
        outcome: &mut Changes,
        affected: &mut BTreeSet<Name>,
    ) {
        let said = |state: Option<&State>| {
            let state = state?;
            Some((state.pod.node.clone()?, state.of_node.clone()))
        };
        let (before, now) = (said(before), said(now));
        if before == now {
            return;
        }
        // First what is new, so that nothing that stays is gone for a moment.
        if let Some((node, addresses)) = &now {
            let effect = self.nodes.add_pod(node, addresses);
            self.take_effect(effect, outcome, affected);
        }
        if let Some((node, addresses)) = &before {
            let effect = self.nodes.remove_pod(node, addresses);
            self.take_effect(effect, outcome, affected);
        }
    }

    fn take_effect(&self, effect: Effect, outcome: &mut Changes, affected: &mut BTreeSet<Name>) {
        outcome.events.extend(effect.event);
        for address in effect.addresses {
            affected.extend(self.cluster.of(address).iter().cloned());
        }
    }

    fn claim(&mut self, name: &Name, pod: &Pod, affected: &mut BTreeSet<Name>) {
        if !pod.is_managed() {
            return;
        }
        if self.node.is_some() && self.is_own(pod) {
            *self.own.entry(name.namespace.clone()).or_default() += 1;
        }
        for address in pod.addresses.iter() {
            affected.extend(self.cluster.of(address).iter().cloned());
            self.cluster.add(address, name);
        }
        for attachment in &pod.attachments {
            let claims = self.attached.entry(attachment.network.clone()).or_default();
            for address in attachment.addresses.iter() {
                affected.extend(claims.of(address).iter().cloned());
                claims.add(address, name);
            }
        }
    }

    fn withdraw(&mut self, name: &Name, pod: &Pod, affected: &mut BTreeSet<Name>) {
        if !pod.is_managed() {
            return;
        }
        if self.node.is_some()
            && self.is_own(pod)
            && let Some(count) = self.own.get_mut(&name.namespace)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.own.remove(&name.namespace);
            }
        }
        for address in pod.addresses.iter() {
            self.cluster.remove(address, name);
            affected.extend(self.cluster.of(address).iter().cloned());
        }
        for attachment in &pod.attachments {
            let Some(claims) = self.attached.get_mut(&attachment.network) else {
                continue;
            };
            for address in attachment.addresses.iter() {
                claims.remove(address, name);
                affected.extend(claims.of(address).iter().cloned());
            }
            if claims.is_empty() {
                self.attached.remove(&attachment.network);
            }
        }
    }

    /// Whose an address is of those that claim it.
    fn holder<'a>(&'a self, claimants: &'a [Name]) -> Option<&'a Name> {
        if let [one] = claimants {
            return Some(one);
        }
        claimants.iter().max_by_key(|name| {
            let state = self.pods.get(*name);
            let rank = state.map(|state| (self.is_own(&state.pod), &state.created));
            (rank, Reverse(*name))
        })
    }

    /// The pod as policies see it, if they do, and whose its addresses are that are not its own.
    fn view(&self, name: &Name, state: &State) -> (Option<Arc<Pod>>, Vec<(IpAddr, String)>) {
        let pod = &state.pod;
        if !pod.is_managed() {
            return (None, Vec::new());
        }
        let on_networks = pod.attachments.iter().map(|attachment| {
            let claims = self.attached.get(&attachment.network);
            let other = |address| self.other(name, claims?.of(address));
            lost(attachment.addresses, other)
        });
        let on_networks: Vec<_> = on_networks.collect();
        let on_cluster = lost(pod.addresses, |address| {
            if self.nodes.has(address) {
                return Some("a node".to_owned());
            }
            self.other(name, self.cluster.of(address))
        });
        let mut seen = Arc::clone(pod);
        if on_cluster.is_some() {
            Arc::make_mut(&mut seen).addresses = Addresses::default();
        }
        for (at, _) in on_networks.iter().enumerate().filter(|(_, lost)| lost.is_some()) {
            if let Some(attachment) = Arc::make_mut(&mut seen).attachments.get_mut(at) {
                attachment.addresses = Addresses::default();
            }
        }
        let interfaces = seen.attachments.iter().map(|attachment| attachment.addresses);
        let nowhere = seen.addresses.is_empty() && interfaces.into_iter().all(|own| own.is_empty());
        let seen = (self.is_own(&seen) || !nowhere).then_some(seen);
        (
            seen,
            on_networks.into_iter().chain([on_cluster]).flatten().collect(),
        )
    }

    /// Whose an address is that these claim, unless it is this pod's.
    fn other(&self, name: &Name, claimants: &[Name]) -> Option<String> {
        let holder = self.holder(claimants).filter(|holder| *holder != name)?;
        Some(format!("Pod {}/{}", holder.namespace, holder.name))
    }

    /// Shows pods as they are to be seen now: first what goes, then what comes.
    fn refresh(&mut self, affected: &BTreeSet<Name>, outcome: &mut Changes) {
        let mut comes = Vec::new();
        for name in affected {
            let Some(state) = self.pods.get(name) else {
                continue;
            };
            let (seen, lost) = self.view(name, state);
            if self.is_own(&state.pod) {
                let found = lost
                    .iter()
                    .map(|(address, whose)| taken(&state.pod, *address, whose));
                let found = state.diagnostics.iter().cloned().chain(found).collect();
                outcome.diagnoses.push((state.pod.object.clone(), found));
            }
            if state.shown == seen {
                continue;
            }
            let (before, now) = (state.shown.clone(), seen.clone());
            if let Some(state) = self.pods.get_mut(name) {
                state.shown = seen;
            }
            if let Some(before) = before
                && now.as_ref().is_none_or(|now| now.object != before.object)
            {
                outcome.events.push(Event::Delete(before.object.clone()));
            }
            let event = now.map(|now| Event::Apply(Object::Pod(now)));
            if lost.is_empty() {
                comes.extend(event);
            } else {
                outcome.events.extend(event);
            }
        }
        outcome.events.extend(comes);
    }
}

/// The first of the addresses that is another's, and whose.
fn lost(addresses: Addresses, other: impl Fn(IpAddr) -> Option<String>) -> Option<(IpAddr, String)> {
    addresses
        .iter()
        .find_map(|address| Some((address, other(address)?)))
}

fn taken(pod: &Pod, address: IpAddr, whose: &str) -> Diagnostic {
    let message = format!("{} has the address `{address}`, which {whose} has", pod.object);
    let mut diagnostic = Diagnostic::new(codes::ADDRESS_TAKEN, Severity::Error, message).on(&pod.object);
    diagnostic.field = "status.podIPs".to_owned();
    diagnostic.note("until one of the two is gone, no policy is enforced at this pod's addresses")
}
