//! Pods, reduced to what policies can see, each with the addresses that are its own.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Event, NamedPort, Object, Pod, codes};
use picket_policy::{Diagnostic, Labels, NetworkName, ObjectRef, Severity};
use smol_str::SmolStr;

use super::Changes;
use super::claims::{Attached, Claimant, Claims, OnCluster, Said, ordered};
use super::facts::{Name, NodeFacts, PodFacts};
use super::nodes::{Effect, Nodes};
use super::shared::Shared;

/// Every pod, those that policies cannot see included: they say what addresses their nodes have.
///
/// An address of the cluster network that several pods claim belongs to a pod of the own node before others, and else to the
/// one created last: networks give addresses away again once their pod has gone, which the API may learn late. An address of a
/// node is no pod's. On other networks pods are believed what their annotations say, which whoever may create or change a pod
/// can write: there it belongs to the pod created first, whenever that one came to claim it, but for pods that are being deleted,
/// and is the same one's on every node. A pod without a node has no interface, whatever it says.
#[derive(Default)]
pub(super) struct Pods {
    /// The node whose pods are kept whole; every node's without one.
    node: Option<SmolStr>,
    pods: BTreeMap<ByName, Option<Arc<Pod>>>,
    nodes: Nodes,
    /// What is wrong with pods of the own node by themselves.
    diagnostics: BTreeMap<Name, Vec<Diagnostic>>,
    cluster: Claims<OnCluster>,
    attached: BTreeMap<NetworkName, Claims<Attached>>,
    /// How many pods of the own node policies of a namespace may select.
    own: BTreeMap<SmolStr, usize>,
    labels: Shared<Labels>,
    ports: Shared<Arc<[NamedPort]>>,
    node_names: Shared<SmolStr>,
    of_nodes: Shared<Arc<[IpAddr]>>,
    /// How many pods have been looked at.
    #[cfg(test)]
    pub(super) looked_at: usize,
}

/// What a pod says, which claims share, under its name, which of many pods is a lot of text to keep twice. The pod that is shown
/// for it stands beside.
struct ByName(Arc<Said>);

/// What has the name of a pod.
trait Named {
    /// The namespace and the name.
    fn name(&self) -> (&SmolStr, &SmolStr);
}

impl Named for ByName {
    fn name(&self) -> (&SmolStr, &SmolStr) {
        self.0.sort_name()
    }
}

impl Named for Name {
    fn name(&self) -> (&SmolStr, &SmolStr) {
        (&self.namespace, &self.name)
    }
}

impl<'a> Borrow<dyn Named + 'a> for ByName {
    fn borrow(&self) -> &(dyn Named + 'a) {
        self
    }
}

ordered! {
    ByName, by name;
    dyn Named + '_, by name;
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
    pub(super) fn names(&self) -> impl Iterator<Item = Name> {
        self.pods.keys().map(|pod| pod.0.name())
    }

    /// The nodes.
    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Whether it is known that a pod says just this.
    pub(super) fn knows(&self, name: &Name, facts: &PodFacts) -> bool {
        self.pods
            .get_key_value(name as &dyn Named)
            .is_some_and(|(ByName(said), _)| {
                said.life == facts.life
                    && *said.of_node == *facts.of_node
                    && *said.pod == self.cut(name, facts.pod.clone())
                    && self.diagnostics.get(name).map_or(&[][..], Vec::as_slice) == self.wrong(facts)
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
        let (before, shown) = match self.pods.remove_entry(name as &dyn Named) {
            Some((ByName(said), shown)) => (Some(said), shown),
            None => (None, None),
        };
        self.diagnostics.remove(name);
        if let Some(before) = &before {
            self.withdraw(name, before, &mut affected);
            self.labels.give_back(&before.pod.labels);
            self.ports.give_back(&before.pod.ports);
            self.of_nodes.give_back(&before.of_node);
            before
                .pod
                .node
                .iter()
                .for_each(|node| self.node_names.give_back(node));
        }
        let now = facts.map(|facts| self.reduce(name, facts));
        if let Some(before) = before.as_ref().filter(|before| before.own)
            && now.as_ref().is_some_and(|now| !now.own)
        {
            // Of pods of other nodes nothing is told.
            outcome.diagnoses.push((before.pod.object.clone(), Vec::new()));
        }
        self.move_between_nodes(before.as_deref(), now.as_deref(), &mut outcome, &mut affected);
        match now {
            Some(said) => {
                self.claim(name, &said, &mut affected);
                self.pods.insert(ByName(said), shown);
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
    fn cut(&self, name: &Name, mut pod: Pod) -> Pod {
        if !self.is_own(&pod) {
            pod.object.uid = SmolStr::default();
            pod.extra = None;
        }
        if pod.node.is_none() {
            pod.attachments = Vec::new();
        }
        // The same text, not one more.
        pod.object.namespace = name.namespace.clone();
        pod.object.name = name.name.clone();
        pod
    }

    /// What is wrong with a pod by itself, where that is told.
    fn wrong<'f>(&self, facts: &'f PodFacts) -> &'f [Diagnostic] {
        if self.is_own(&facts.pod) {
            &facts.diagnostics
        } else {
            &[]
        }
    }

    fn reduce(&mut self, name: &Name, facts: PodFacts) -> Arc<Said> {
        let wrong = self.wrong(&facts);
        if !wrong.is_empty() {
            self.diagnostics.insert(name.clone(), wrong.to_vec());
        }
        let PodFacts {
            pod, of_node, life, ..
        } = facts;
        let mut pod = self.cut(name, pod);
        pod.labels = self.labels.take(pod.labels);
        pod.node = pod.node.map(|node| self.node_names.take(node));
        pod.ports = self.ports.take(pod.ports);
        pod.attachments.shrink_to_fit();
        Arc::new(Said {
            own: self.is_own(&pod),
            pod: Arc::new(pod),
            life,
            of_node: self.of_nodes.take(of_node.into()),
        })
    }

    fn move_between_nodes(
        &mut self,
        before: Option<&Said>,
        now: Option<&Said>,
        outcome: &mut Changes,
        affected: &mut BTreeSet<Name>,
    ) {
        let said = |said: Option<&Said>| {
            let said = said?;
            Some((said.pod.node.clone()?, Arc::clone(&said.of_node)))
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
            self.cluster.concerns(address, affected);
        }
    }

    fn claim(&mut self, name: &Name, said: &Arc<Said>, affected: &mut BTreeSet<Name>) {
        let pod = &said.pod;
        if !pod.is_managed() {
            return;
        }
        if self.node.is_some() && said.own {
            *self.own.entry(name.namespace.clone()).or_default() += 1;
        }
        let claim = OnCluster(Arc::clone(said));
        for address in pod.addresses.iter() {
            self.cluster.add(address, &claim, affected);
        }
        let claim = Attached(Arc::clone(said));
        for attachment in &pod.attachments {
            let claims = self.attached.entry(attachment.network.clone()).or_default();
            for address in attachment.addresses.iter() {
                claims.add(address, &claim, affected);
            }
        }
    }

    fn withdraw(&mut self, name: &Name, said: &Arc<Said>, affected: &mut BTreeSet<Name>) {
        let pod = &said.pod;
        if !pod.is_managed() {
            return;
        }
        if self.node.is_some()
            && said.own
            && let Some(count) = self.own.get_mut(&name.namespace)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.own.remove(&name.namespace);
            }
        }
        let claim = OnCluster(Arc::clone(said));
        for address in pod.addresses.iter() {
            self.cluster.remove(address, &claim, affected);
        }
        let claim = Attached(Arc::clone(said));
        for attachment in &pod.attachments {
            let Some(claims) = self.attached.get_mut(&attachment.network) else {
                continue;
            };
            for address in attachment.addresses.iter() {
                claims.remove(address, &claim, affected);
            }
            if claims.is_empty() {
                self.attached.remove(&attachment.network);
            }
        }
    }

    /// The pod as policies see it, if they do, and what it has lost on each network.
    fn view<'a>(&'a self, said: &'a Arc<Said>) -> (Option<Arc<Pod>>, Vec<Lost<'a>>) {
        let pod = &said.pod;
        if !pod.is_managed() {
            return (None, Vec::new());
        }
        let on_cluster = pod.addresses.iter().filter_map(|address| {
            let whose = if self.nodes.has(address) {
                Some(Whose::Node)
            } else {
                other(said, &self.cluster, address)
            };
            Some(Lost {
                address,
                whose: whose?,
                on: None,
            })
        });
        let on_networks = pod.attachments.iter().enumerate().flat_map(|(at, attachment)| {
            let claims = self.attached.get(&attachment.network);
            let addresses = attachment.addresses.iter();
            addresses.filter_map(move |address| {
                Some(Lost {
                    address,
                    whose: other(said, claims?, address)?,
                    on: Some((at, &attachment.network)),
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
        let seen = (said.own || !nowhere).then_some(seen);
        (seen, lost)
    }

    /// Shows pods as they are to be seen now: first what goes, then what comes.
    fn refresh(&mut self, affected: &BTreeSet<Name>, outcome: &mut Changes) {
        #[cfg(test)]
        {
            self.looked_at += affected.len();
        }
        let mut comes = Vec::new();
        for name in affected {
            let Some((ByName(said), shown)) = self.pods.get_key_value(name as &dyn Named) else {
                continue;
            };
            let (seen, lost) = self.view(said);
            if said.own {
                let found = lost.iter().map(|lost| lost.told(&said.pod));
                let wrong = self.diagnostics.get(name).into_iter().flatten();
                let found = wrong.cloned().chain(found).collect();
                outcome.diagnoses.push((said.pod.object.clone(), found));
            }
            if *shown == seen {
                continue;
            }
            let (before, now, has_all) = (shown.clone(), seen.clone(), lost.is_empty());
            if let Some(shown) = self.pods.get_mut(name as &dyn Named) {
                *shown = seen;
            }
            if let Some(before) = before
                && now.as_ref().is_none_or(|now| now.object != before.object)
            {
                outcome.events.push(Event::Delete(before.object.clone()));
            }
            let event = now.map(|now| Event::Apply(Object::Pod(now)));
            if has_all {
                comes.extend(event);
            } else {
                outcome.events.extend(event);
            }
        }
        outcome.events.extend(comes);
    }
}

/// An address that a pod claims and that is another's.
struct Lost<'a> {
    address: IpAddr,
    whose: Whose<'a>,
    /// Which of its attachments it is on, and which network that is; `None` on the cluster network.
    on: Option<(usize, &'a NetworkName)>,
}

enum Whose<'a> {
    Node,
    Pod(&'a ObjectRef),
}

impl Lost<'_> {
    /// What people are told of it.
    fn told(&self, pod: &Pod) -> Diagnostic {
        let Self { address, whose, on } = self;
        let network = on.map(|(_, network)| format!(" on network `{network}`"));
        let whose = match whose {
            Whose::Node => "a node".to_owned(),
            Whose::Pod(object) => object.to_string(),
        };
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
fn other<'a, C: Claimant>(said: &Arc<Said>, claims: &'a Claims<C>, address: IpAddr) -> Option<Whose<'a>> {
    let holder = claims
        .holder(address)
        .filter(|holder| !Arc::ptr_eq(holder, said))?;
    Some(Whose::Pod(&holder.pod.object))
}
