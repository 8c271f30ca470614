//! Which pods selectors mean, without asking each pod about each selector.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use picket_cluster::{NAMESPACE_NAME_LABEL, Pod, Snapshot};
use picket_policy::{Direction, Labels, NamespaceScope, PodSelector, Policy, Requirement, Selector};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// Running pods of one namespace with the same labels.
pub(super) struct Group<'a> {
    pub(super) namespace: &'a SmolStr,
    pub(super) labels: &'a Labels,
    /// Whether they share their nodes' network, so that no policy is about them.
    pub(super) host_network: bool,
    /// Never empty; in the order of their objects.
    pub(super) pods: Vec<&'a Arc<Pod>>,
}

/// The running pods of a snapshot, in groups that selectors cannot tell apart.
pub(super) struct Cluster<'a> {
    pub(super) snapshot: &'a Snapshot,
    groups: Vec<Group<'a>>,
    by_namespace: BTreeMap<&'a SmolStr, Vec<usize>>,
    by_label: FxHashMap<(&'a SmolStr, &'a SmolStr), Vec<usize>>,
    /// The namespaces that have running pods, by each of their labels.
    labelled_namespaces: FxHashMap<(SmolStr, SmolStr), Vec<&'a SmolStr>>,
    matching: RefCell<FxHashMap<PodSelector, Rc<[usize]>>>,
    pod_keys: BTreeSet<&'a SmolStr>,
    namespace_keys: BTreeSet<SmolStr>,
    isolating: BTreeMap<&'a SmolStr, Vec<&'a Policy>>,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut sorted: BTreeMap<_, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in snapshot.live_pods() {
            let key = (&pod.object.namespace, &pod.labels, pod.host_network);
            sorted.entry(key).or_default().push(pod);
        }
        let groups = sorted
            .into_iter()
            .map(|((namespace, labels, host_network), pods)| Group {
                namespace,
                labels,
                host_network,
                pods,
            });
        let mut cluster = Self {
            snapshot,
            groups: groups.collect(),
            by_namespace: BTreeMap::new(),
            by_label: FxHashMap::default(),
            labelled_namespaces: FxHashMap::default(),
            matching: RefCell::default(),
            pod_keys: BTreeSet::new(),
            namespace_keys: BTreeSet::new(),
            isolating: BTreeMap::new(),
        };
        let isolating = snapshot
            .policies
            .values()
            .filter(|policy| policy.isolates(Direction::Ingress));
        for policy in isolating {
            let namespace = match policy.object.kind.as_str() {
                "Namespace" => &policy.object.name,
                _ => &policy.object.namespace,
            };
            cluster.isolating.entry(namespace).or_default().push(policy);
        }
        for (at, group) in cluster.groups.iter().enumerate() {
            cluster.by_namespace.entry(group.namespace).or_default().push(at);
            for label in group.labels.iter() {
                cluster.by_label.entry(label).or_default().push(at);
                cluster.pod_keys.insert(label.0);
            }
        }
        for name in cluster.by_namespace.keys() {
            for (key, value) in snapshot.namespace(name).labels.iter() {
                let label = (key.clone(), value.clone());
                cluster.labelled_namespaces.entry(label).or_default().push(name);
            }
        }
        let namespaces = snapshot.namespaces.values();
        let keys = namespaces.flat_map(|namespace| namespace.labels.iter().map(|(key, _)| key.clone()));
        cluster.namespace_keys = keys.collect();
        cluster
    }

    /// Whether there is no running pod: then nothing can be said about what selectors mean.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether something isolates ingress to a pod of this subject, or to any of the namespace where none runs: the
    /// namespace itself, or a policy there.
    pub(super) fn is_isolated(&self, namespace: &SmolStr, subject: &PodSelector) -> bool {
        let Some(isolating) = self.isolating.get(namespace) else {
            return false;
        };
        let pods = self.matching(subject);
        let isolates_one = |policy: &&Policy| {
            let isolated = self.matching(&policy.subject);
            pods.iter().any(|pod| isolated.contains(pod))
        };
        pods.is_empty() || isolating.iter().any(isolates_one)
    }

    /// The group of this number.
    pub(super) fn group(&self, at: usize) -> Option<&Group<'a>> {
        self.groups.get(at)
    }

    /// The groups of a namespace.
    pub(super) fn in_namespace(&self, name: &SmolStr) -> impl Iterator<Item = &Group<'a>> {
        let groups = self.by_namespace.get(name).into_iter().flatten();
        groups.filter_map(|&at| self.groups.get(at))
    }

    /// Every key of a label that a running pod has.
    pub(super) fn pod_keys(&self) -> impl Iterator<Item = &str> {
        self.pod_keys.iter().map(|key| key.as_str())
    }

    /// Every key of a label that a namespace has.
    pub(super) fn namespace_keys(&self) -> impl Iterator<Item = &str> {
        self.namespace_keys.iter().map(SmolStr::as_str)
    }

    /// Whether namespaces of the input have labels besides their names.
    pub(super) fn knows_labels_of_namespaces(&self) -> bool {
        self.namespace_keys.iter().any(|key| key != NAMESPACE_NAME_LABEL)
    }

    /// The numbers of the groups whose namespace and labels a selector matches, hostNetwork pods included; ascending.
    pub(super) fn matching(&self, selector: &PodSelector) -> Rc<[usize]> {
        if let Some(known) = self.matching.borrow().get(selector) {
            return Rc::clone(known);
        }
        let found: Rc<[usize]> = self.search(selector).into();
        let mut known = self.matching.borrow_mut();
        known.insert(selector.clone(), Rc::clone(&found));
        found
    }

    /// The groups that policies mean by a selector: those of [`Cluster::matching`] that policies can be about.
    pub(super) fn managed(&self, selector: &PodSelector) -> impl Iterator<Item = (usize, &Group<'a>)> {
        let found = self.matching(selector);
        let groups = (0..found.len()).filter_map(move |index| {
            let at = *found.get(index)?;
            Some((at, self.groups.get(at)?))
        });
        groups.filter(|(_, group)| !group.host_network)
    }

    /// The groups in the namespaces of a scope.
    pub(super) fn in_scope<'b>(&'b self, scope: &'b NamespaceScope) -> impl Iterator<Item = &'b Group<'a>> {
        let namespaces = self.namespaces(scope);
        namespaces.into_iter().flat_map(|name| self.in_namespace(name))
    }

    /// The namespaces of a scope that have running pods.
    fn namespaces(&self, scope: &NamespaceScope) -> Vec<&'a SmolStr> {
        match scope {
            NamespaceScope::Named(name) => {
                let found = self.by_namespace.get_key_value(name);
                found.map(|(name, _)| *name).into_iter().collect()
            }
            NamespaceScope::Matching(selector) => {
                let is_meant = |name: &&SmolStr| matches(selector, &self.snapshot.namespace(name).labels);
                let Some((key, value)) = one_label(selector) else {
                    return self.by_namespace.keys().copied().filter(is_meant).collect();
                };
                let names = self.labelled_namespaces.get(&(key.clone(), value.clone()));
                names.into_iter().flatten().copied().filter(is_meant).collect()
            }
        }
    }

    fn search(&self, selector: &PodSelector) -> Vec<usize> {
        let is_meant = |at: &usize| {
            let group = self.groups.get(*at);
            group.is_some_and(|group| matches(&selector.pods, group.labels))
        };
        if let NamespaceScope::Named(name) = &selector.namespaces {
            let groups = self.by_namespace.get(name).into_iter().flatten();
            return groups.copied().filter(is_meant).collect();
        }
        let namespaces: BTreeSet<_> = self.namespaces(&selector.namespaces).into_iter().collect();
        let labelled = one_label(&selector.pods);
        let labelled = labelled.map(|label| self.by_label.get(&label).map_or(&[][..], Vec::as_slice));
        match labelled {
            Some(groups) => {
                let within = |at: &usize| {
                    let group = self.groups.get(*at);
                    group.is_some_and(|group| namespaces.contains(group.namespace))
                };
                groups.iter().copied().filter(within).filter(is_meant).collect()
            }
            None => {
                let groups = namespaces.iter().filter_map(|name| self.by_namespace.get(name));
                groups.flatten().copied().filter(is_meant).collect()
            }
        }
    }
}

/// A label that everything has which a selector matches.
fn one_label(selector: &Selector) -> Option<(&SmolStr, &SmolStr)> {
    let mut requirements = selector.requirements().iter();
    requirements.find_map(|one| match one {
        Requirement::In(key, values) => match values.as_slice() {
            [value] => Some((key, value)),
            _ => None,
        },
        _ => None,
    })
}

/// Whether a selector matches labels (apimachinery `labels.Selector`).
pub(crate) fn matches(selector: &Selector, labels: &Labels) -> bool {
    let requirements = selector.requirements();
    requirements.iter().all(|requirement| holds(requirement, labels))
}

/// Whether one requirement holds: what a key that is absent says is up to the operator.
pub(super) fn holds(requirement: &Requirement, labels: &Labels) -> bool {
    let value = labels.get(requirement.key());
    match requirement {
        Requirement::In(_, values) => value.is_some_and(|value| values.contains(value)),
        Requirement::NotIn(_, values) => value.is_none_or(|value| !values.contains(value)),
        Requirement::Exists(_) => value.is_some(),
        Requirement::DoesNotExist(_) => value.is_none(),
    }
}
