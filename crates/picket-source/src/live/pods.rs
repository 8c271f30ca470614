//! Pods, reduced to what policies can see, each with the addresses that are its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Event, Object, Pod, codes};
use picket_policy::{Diagnostic, Labels, NetworkName, Severity};
use smol_str::SmolStr;

use super::Changes;
use super::claims::Claims;
use super::facts::{Life, Name, NodeFacts, PodFacts};
use super::nodes::{Effect, Nodes};
use super::shared::Shared;

/// Every pod, those that policies cannot see included: they say what addresses their nodes have.
///
/// An address of the cluster network that several pods claim belongs to a pod of the own node before others, and else to the
/// one created last: networks give addresses away again once their pod has gone, which the API may learn late. An address of a
/// node is no pod's. On other networks pods are believed what their annotations say, which whoever may change a pod can write:
/// there it stays with the one created first, which nothing that others write takes from it, but for pods that are being
/// deleted, and is the same one's on every node.
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
    life: Life,
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
                && state.life == facts.life
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
            life,
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
            life,
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

    /// Whose an address of the cluster network is of those that claim it.
    fn holder<'a>(&'a self, claimants: &'a [Name]) -> Option<&'a Name> {
        self.first(claimants, |state, name| {
            (self.is_own(&state.pod), &state.life.created, Reverse(name))
        })
    }

    /// Whose an address of another network is.
    fn attached_holder<'a>(&'a self, claimants: &'a [Name]) -> Option<&'a Name> {
        self.first(claimants, |state, name| {
            // Every API server says when; who does not say is not older for it.
            let Life { created, deleting } = &state.life;
            let age = (created.is_empty(), created);
            (!deleting, Reverse((age, name)))
        })
    }

    fn first<'a, R: Ord>(
        &'a self,
        claimants: &'a [Name],
        rank: impl Fn(&'a State, &'a Name) -> R,
    ) -> Option<&'a Name> {
        if let [one] = claimants {
            return Some(one);
        }
        let known = claimants
            .iter()
            .filter_map(|name| Some((name, self.pods.get(name)?)));
        let first = known.max_by_key(|(name, state)| rank(state, name));
        first.map(|(name, _)| name)
    }

    /// The pod as policies see it, if they do, and what it has lost on each network.
    fn view(&self, name: &Name, state: &State) -> (Option<Arc<Pod>>, Vec<Lost>) {
        let pod = &state.pod;
        if !pod.is_managed() {
            return (None, Vec::new());
        }
        let on_cluster = pod.addresses.iter().filter_map(|address| {
            let whose = if self.nodes.has(address) {
                Some("a node".to_owned())
            } else {
                other(name, self.holder(self.cluster.of(address)))
            };
            Some(Lost::of_cluster(address, whose?))
        });
        let on_networks = pod.attachments.iter().enumerate().flat_map(|(at, attachment)| {
            let claims = self.attached.get(&attachment.network);
            let addresses = attachment.addresses.iter();
            addresses.filter_map(move |address| {
                let holder = self.attached_holder(claims?.of(address));
                Some(Lost {
                    on: Some((at, attachment.network.clone())),
                    ..Lost::of_cluster(address, other(name, holder)?)
                })
            })
        });
        let lost: Vec<_> = on_cluster.chain(on_networks).collect();
        let mut seen = Arc::clone(pod);
        for one in &lost {
            let pod = Arc::make_mut(&mut seen);
            let addresses = match &one.on {
                None => Some(&mut pod.addresses),
                Some((at, _)) => pod.attachments.get_mut(*at).map(|own| &mut own.addresses),
            };
            if let Some(addresses) = addresses {
                *addresses = addresses.iter().filter(|own| *own != one.address).collect();
            }
        }
        let interfaces = seen.attachments.iter().map(|attachment| attachment.addresses);
        let nowhere = seen.addresses.is_empty() && interfaces.into_iter().all(|own| own.is_empty());
        let seen = (self.is_own(&seen) || !nowhere).then_some(seen);
        (seen, lost)
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
                let found = lost.iter().map(|lost| lost.told(&state.pod));
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

/// An address that a pod claims and that is another's.
struct Lost {
    address: IpAddr,
    whose: String,
    /// Which of its attachments it is on, and which network that is; `None` on the cluster network.
    on: Option<(usize, NetworkName)>,
}

impl Lost {
    fn of_cluster(address: IpAddr, whose: String) -> Self {
        Self {
            address,
            whose,
            on: None,
        }
    }

    /// What people are told of it.
    fn told(&self, pod: &Pod) -> Diagnostic {
        let Self { address, whose, on } = self;
        let network = on.as_ref().map(|(_, network)| format!(" on network `{network}`"));
        let message = format!(
            "{} has the address `{address}`{}, which {whose} has",
            pod.object,
            network.unwrap_or_default()
        );
        let mut diagnostic = Diagnostic::new(codes::ADDRESS_TAKEN, Severity::Error, message).on(&pod.object);
        let (field, note) = match on {
            None => (
                "status.podIPs",
                "until one of the two is gone, no policy is enforced at this address for this pod",
            ),
            Some(_) => (
                "metadata.annotations",
                "until one of the two is gone, policies take it for an address of the other alone",
            ),
        };
        diagnostic.field = field.to_owned();
        diagnostic.note(note)
    }
}

/// Whose an address is, unless it is this pod's.
fn other(name: &Name, holder: Option<&Name>) -> Option<String> {
    let holder = holder.filter(|holder| *holder != name)?;
    Some(format!("Pod {}/{}", holder.namespace, holder.name))
}
