//! The objects of a cluster as they are now, and the events that lead there: what [`assemble`](picket_cluster::assemble)
//! does for files, object by object.
//!
//! What is shown depends on the objects alone and not on the order in which they came to be. It differs from what
//! files show in three ways. Nothing is made up: a pod without an address has none. What no policy can see is left out:
//! pods of the host's network, pods that have finished, who owns a pod and its nameless ports. And an address that
//! several claim goes to whom [`pods`] says.

mod claims;
mod facts;
mod nodes;
mod packed;
mod plugin;
mod pods;
mod policies;
mod shared;
#[cfg(test)]
mod tests;
mod uid;
#[cfg(feature = "etcd")]
mod unreadable;

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{Event, Namespace, Object};
use picket_policy::{Diagnostic, NetworkName, ObjectRef};
use smol_str::SmolStr;

use crate::ObjectVersion;
pub(crate) use facts::{Facts, Found, Life, Name, PolicyText};
use facts::{NetworkFacts, NodeFacts, ServiceFacts};
pub(crate) use packed::Packed;
pub(crate) use plugin::network_config;
pub use plugin::network_plugin;
use pods::Pods;
use policies::Policies;
pub(crate) use uid::Uid;

/// A kind of objects, as in `NetworkPolicy`.
pub(crate) type Kind = &'static str;

/// What becomes known of the objects of one kind, and `O` of each.
pub(crate) enum Step<O = Found> {
    /// A complete list follows. What is known stays until it is there.
    Begin,
    /// An object of the list.
    Listed(O),
    /// The list is complete: what was not in it is gone.
    End,
    /// An object is now like this.
    Apply(O),
    /// An object is gone.
    Delete(Name),
    /// The kind is gone, and all its objects with it.
    Gone,
}

/// What changed, to be taken as a whole.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The events that lead from the state before to the state after.
    pub(crate) events: Vec<Event>,
    /// In which versions policies are read now; `None` for those that are gone.
    pub(crate) versions: Vec<(ObjectRef, Option<ObjectVersion>)>,
    /// What is wrong now with objects with which something is or was wrong.
    pub(crate) diagnoses: Vec<(ObjectRef, Vec<Diagnostic>)>,
    /// The plugins of networks of which another is known now than before, or none any more.
    pub(crate) plugins: Vec<(NetworkName, Option<SmolStr>)>,
}

/// The objects of a cluster.
#[derive(Default)]
pub(crate) struct Live {
    pods: Pods,
    policies: Policies,
    namespaces: BTreeMap<Name, Namespace>,
    networks: BTreeMap<Name, NetworkFacts>,
    services: BTreeMap<Name, ServiceFacts>,
    lists: BTreeMap<Kind, List>,
    /// The objects of which nobody can tell what they are now, and what is known of them.
    #[cfg(feature = "etcd")]
    unreadable: BTreeMap<(Kind, Name), unreadable::Known>,
    /// The objects with which something is wrong, by their names alone.
    troubled: BTreeSet<ObjectRef>,
    changes: Changes,
}

/// The list of a kind.
#[derive(Default)]
struct List {
    /// Whether there has been a complete one.
    complete: bool,
    /// What the one that is coming in has named.
    named: BTreeSet<Name>,
    /// What it changes, if there was one before: that holds until all of it is there.
    held: Vec<Found>,
}

impl Live {
    /// No objects yet. Of pods of other nodes than `node` only what policies see of peers is kept, and of policies only
    /// those are read that may select a pod of it.
    pub(crate) fn new(node: Option<SmolStr>) -> Self {
        Self {
            pods: Pods::new(node),
            ..Self::default()
        }
    }

    /// Takes in what became known of a kind.
    pub(crate) fn step(&mut self, kind: Kind, step: Step) -> Changes {
        #[cfg(feature = "etcd")]
        let is_news = self.is_readable_again(kind, &step);
        #[cfg(not(feature = "etcd"))]
        let is_news = false;
        match step {
            Step::Begin => {
                let list = self.lists.entry(kind).or_default();
                (list.named, list.held) = Default::default();
            }
            Step::Listed(found) => self.listed(kind, found, is_news),
            Step::End => self.end(kind),
            Step::Apply(found) => self.put(kind, found),
            Step::Delete(name) => self.remove(kind, &name),
            Step::Gone => {
                self.lists.remove(kind);
                for name in self.names(kind) {
                    self.remove(kind, &name);
                }
            }
        }
        std::mem::take(&mut self.changes)
    }

    /// An object of a list; `is_news` when something else is wrong with it now, whatever it says.
    fn listed(&mut self, kind: Kind, found: Found, is_news: bool) {
        let known = !is_news && self.knows(kind, &found);
        let list = self.lists.entry(kind).or_default();
        list.named.insert(found.name.clone());
        if known {
            return;
        }
        if list.complete {
            list.held.push(found);
        } else {
            self.put(kind, found);
        }
    }

    fn end(&mut self, kind: Kind) {
        let list = self.lists.entry(kind).or_default();
        list.complete = true;
        let (named, held) = (std::mem::take(&mut list.named), std::mem::take(&mut list.held));
        for name in self.names(kind) {
            if !named.contains(&name) {
                self.remove(kind, &name);
            }
        }
        for found in held {
            self.put(kind, found);
        }
    }

    /// The names of the objects of a kind.
    fn names(&self, kind: Kind) -> Vec<Name> {
        match kind {
            "Namespace" => self.namespaces.keys().cloned().collect(),
            "Node" => self.pods.nodes().names().map(of_cluster).collect(),
            "Pod" => self.pods.names().collect(),
            "Service" => self.services.keys().cloned().collect(),
            "NetworkAttachmentDefinition" => self.networks.keys().cloned().collect(),
            _ => self.policies.names(kind).cloned().collect(),
        }
    }

    /// Whether an object is known to be just like this.
    fn knows(&self, kind: Kind, found: &Found) -> bool {
        let name = &found.name;
        match &found.facts {
            Facts::Namespace(namespace) => self.namespaces.get(name) == Some(namespace),
            Facts::Node(facts) => self.pods.nodes().knows(&name.name, facts),
            Facts::Pod(facts) => self.pods.knows(name, facts),
            Facts::Service(facts) => self.services.get(name) == Some(facts),
            Facts::Network(network) => self.networks.get(name) == Some(network),
            Facts::Policy(text, _) => self.policies.knows(kind, name, text),
        }
    }

    fn put(&mut self, kind: Kind, Found { name, facts }: Found) {
        match facts {
            Facts::Namespace(namespace) => {
                if self.namespaces.insert(name, namespace.clone()).as_ref() != Some(&namespace) {
                    self.changes
                        .events
                        .push(Event::Apply(Object::Namespace(namespace)));
                }
            }
            Facts::Network(facts) => self.set_network(name, facts),
            Facts::Node(facts) => self.set_node(&name.name, Some(facts)),
            Facts::Pod(facts) => self.set_pod(&name, Some(*facts)),
            Facts::Service(facts) => self.set_service(name, *facts),
            Facts::Policy(text, read) => {
                let needed = name.namespace.is_empty() || self.pods.may_be_selected(&name.namespace);
                let outcome = self.policies.set(kind, &name, text, read, needed);
                self.report(outcome);
            }
        }
    }

    fn remove(&mut self, kind: Kind, name: &Name) {
        match kind {
            "Namespace" => {
                if self.namespaces.remove(name).is_some() {
                    let object = ObjectRef::new(kind, "", &name.name);
                    self.changes.events.push(Event::Delete(object));
                }
            }
            "NetworkAttachmentDefinition" => {
                if let Some(NetworkFacts { network, plugin }) = self.networks.remove(name) {
                    if plugin.is_some() {
                        self.changes.plugins.push((network.name.clone(), None));
                    }
                    let object = Object::Network(network).object_ref();
                    self.changes.events.push(Event::Delete(object));
                }
            }
            "Node" => self.set_node(&name.name, None),
            "Pod" => {
                self.set_pod(name, None);
                self.diagnose(ObjectRef::new(kind, &name.namespace, &name.name), Vec::new());
            }
            "Service" => {
                if let Some(gone) = self.services.remove(name) {
                    self.changes
                        .events
                        .push(Event::Delete(gone.service.object.clone()));
                    self.diagnose(gone.service.object, Vec::new());
                }
            }
            _ => {
                let outcome = self.policies.remove(kind, name);
                self.report(outcome);
            }
        }
    }

    fn set_network(&mut self, name: Name, facts: NetworkFacts) {
        let before = self.networks.insert(name, facts.clone());
        let NetworkFacts { network, plugin } = facts;
        let (was, had) = before.map(|before| (before.network, before.plugin)).unzip();
        if had.flatten() != plugin {
            self.changes.plugins.push((network.name.clone(), plugin));
        }
        if was.as_ref() != Some(&network) {
            self.changes.events.push(Event::Apply(Object::Network(network)));
        }
    }

    fn set_service(&mut self, name: Name, facts: ServiceFacts) {
        let now = facts.service.clone();
        self.diagnose(now.object.clone(), facts.diagnostics.clone());
        let before = self.services.insert(name, facts).map(|facts| facts.service);
        if before.as_ref() == Some(&now) {
            return;
        }
        let another = before.filter(|before| before.object != now.object);
        let gone = another.map(|before| Event::Delete(before.object));
        let events = gone.into_iter().chain([Event::Apply(Object::Service(now))]);
        self.changes.events.extend(events);
    }

    fn diagnose(&mut self, object: ObjectRef, diagnostics: Vec<Diagnostic>) {
        self.report(Changes {
            diagnoses: vec![(object, diagnostics)],
            ..Changes::default()
        });
    }

    fn set_node(&mut self, name: &SmolStr, facts: Option<NodeFacts>) {
        let (uid, diagnostics) = facts
            .as_ref()
            .map(|facts| (facts.uid.clone(), facts.diagnostics.clone()))
            .unwrap_or_default();
        let mut outcome = self.pods.set_node(name, facts);
        let object = ObjectRef {
            uid,
            ..ObjectRef::new("Node", "", name)
        };
        outcome.diagnoses.push((object, diagnostics));
        self.report(outcome);
    }

    /// A pod comes after the policies that select it, and goes before them.
    fn set_pod(&mut self, name: &Name, facts: Option<facts::PodFacts>) {
        let namespace = name.namespace.as_str();
        let before = self.pods.may_be_selected(namespace);
        let of_pods = self.pods.set(name, facts);
        let after = self.pods.may_be_selected(namespace);
        if after && !before {
            let of_policies = self.policies.need(namespace, true);
            self.report(of_policies);
        }
        self.report(of_pods);
        if before && !after {
            let of_policies = self.policies.need(namespace, false);
            self.report(of_policies);
        }
    }

    /// Passes on what a part says, of diagnoses only news.
    fn report(&mut self, outcome: Changes) {
        let Changes {
            events,
            versions,
            diagnoses,
            plugins,
        } = outcome;
        self.changes.events.extend(events);
        self.changes.versions.extend(versions);
        self.changes.plugins.extend(plugins);
        for (object, diagnostics) in diagnoses {
            #[cfg(feature = "etcd")]
            if self.is_unreadable(&object) {
                continue;
            }
            let named = ObjectRef::new(&object.kind, &object.namespace, &object.name);
            let is_news = if diagnostics.is_empty() {
                self.troubled.remove(&named)
            } else {
                self.troubled.insert(named);
                true
            };
            if is_news {
                self.changes.diagnoses.push((object, diagnostics));
            }
        }
    }
}

/// What an object of a kind without namespaces is called.
fn of_cluster(name: &SmolStr) -> Name {
    Name {
        namespace: SmolStr::default(),
        name: name.clone(),
    }
}
