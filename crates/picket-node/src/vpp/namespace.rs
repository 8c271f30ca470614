//! Which application namespace of VPP is whose, and so which rules each is to have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_net::Prefix;
use picket_policy::ObjectRef;
use picket_vpp::session::Tables;

use super::file::{Named, PodFile};
use super::held::{Held, Part, Parts};
use super::place::id;
use super::rule::NamespaceRule;
use super::status::PendingPod;

/// Says which namespace is whose.
#[derive(Debug)]
pub(crate) struct NamespaceFinder {
    /// Without one nobody says it.
    rule: Option<NamespaceRule>,
    file: PodFile,
    /// Whose each namespace was said to be last.
    owners: BTreeMap<u32, ObjectRef>,
}

/// What is wanted, by the namespaces that there are.
#[derive(Debug, Default)]
pub(crate) struct PlacedRules {
    pub(crate) parts: Parts,
    /// What is left as it is.
    pub(crate) kept: BTreeSet<Part>,
    /// The namespaces of each pod.
    pub(crate) pods: BTreeMap<String, Vec<u32>>,
    pub(crate) pending: Vec<PendingPod>,
    /// Whether a namespace is missing that somebody's is said to be.
    pub(crate) lacks: bool,
    /// What does not fit together.
    pub(crate) troubles: Vec<String>,
}

impl NamespaceFinder {
    pub(crate) fn new(rule: Option<&NamespaceRule>) -> Self {
        Self {
            rule: rule.cloned(),
            file: PodFile::of(Named::Namespace),
            owners: BTreeMap::new(),
        }
    }

    /// Looks whether a file was written again.
    pub(crate) fn look(&mut self) -> bool {
        match &self.rule {
            Some(NamespaceRule::File(path)) => self.file.look(path),
            None => false,
        }
    }

    /// Gives every table what it is to have.
    pub(crate) fn place(&mut self, wanted: &Tables, held: &Held) -> PlacedRules {
        let mut placed = PlacedRules {
            troubles: self.file.trouble.iter().cloned().collect(),
            ..PlacedRules::default()
        };
        let global = wanted.global.iter();
        placed.parts = global
            .map(|(address, rules)| (Part::Global(Prefix::host(*address)), Arc::clone(rules)))
            .collect();
        let named = self.named();
        let mut found: BTreeMap<&ObjectRef, Vec<u32>> = BTreeMap::new();
        for (namespace, pod) in &named {
            found.entry(pod).or_default().push(*namespace);
        }
        for (pod, rules) in &wanted.local {
            let key = ObjectRef::new("Pod", &pod.namespace, &pod.name);
            let own = found.get(&key).map(Vec::as_slice).unwrap_or_default();
            let (there, missing): (Vec<u32>, Vec<u32>) =
                own.iter().partition(|&&namespace| held.has(namespace));
            let is_restricted = !rules.is_empty();
            if let Some(why) = self.missing(own, &missing) {
                placed.lacks |= !missing.is_empty();
                placed.pending.push(PendingPod {
                    pod: id(pod),
                    restricted: is_restricted,
                    why,
                });
            }
            for &namespace in &there {
                placed.parts.insert(Part::Local(namespace), Arc::clone(rules));
                let is_judged = is_restricted || !wanted.global.is_empty();
                if is_judged && held.elsewhere.contains(&namespace) {
                    placed.troubles.push(format!(
                        "namespace {namespace} of {} is not in the first FIB: what arrives for it the rules of another table judge",
                        id(pod)
                    ));
                }
            }
            if !there.is_empty() {
                placed.pods.insert(id(pod), there);
            }
        }
        placed.kept = self.kept(wanted, &named, held);
        self.owners.extend(named);
        placed
    }

    fn named(&self) -> BTreeMap<u32, ObjectRef> {
        let pods = self.file.pods().iter();
        pods.filter_map(|(index, pod)| Some((index.parse().ok()?, pod.clone())))
            .collect()
    }

    /// Tables that are left as they are: those of pods that are there and of which only the line is gone, as when somebody
    /// is writing the file; and all, while nobody has said whose any is.
    fn kept(&self, wanted: &Tables, named: &BTreeMap<u32, ObjectRef>, held: &Held) -> BTreeSet<Part> {
        let is_there = |pod: &ObjectRef| {
            let pods = wanted.local.keys();
            pods.into_iter().any(|known| id(known) == id(pod))
        };
        let unnamed = held
            .namespaces()
            .filter(|namespace| !named.contains_key(namespace));
        let kept = unnamed.filter(|namespace| {
            let owner = self.owners.get(namespace);
            !self.is_known() || owner.is_some_and(is_there)
        });
        kept.map(Part::Local).collect()
    }

    fn is_known(&self) -> bool {
        self.rule.is_none() || self.file.is_known()
    }

    fn missing(&self, own: &[u32], missing: &[u32]) -> Option<String> {
        let why = match (own, missing, &self.rule) {
            ([], _, Some(NamespaceRule::File(path))) => format!("`{}` does not name it", path.display()),
            ([], _, None) => "nobody says which namespace it has".to_owned(),
            (_, [], _) => return None,
            (_, [one, ..], _) => format!("VPP has no namespace {one}"),
        };
        Some(why)
    }
}
