//! Which application namespace of VPP is whose, and so which rules each is to have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_net::{Family, Prefix};
use picket_policy::ObjectRef;
use picket_vpp::session::{Change, SessionRule, Tables, Turn};

use super::file::{Named, PodFile};
use super::held::{Held, Part, Parts};
use super::left::Left;
use super::place::id;
use super::rule::NamespaceRule;
use super::status::PendingPod;
use super::work::looked_at;
use super::worker::Moved;

/// Says which namespace is whose.
#[derive(Debug)]
pub(crate) struct NamespaceFinder {
    /// Without one nobody says it.
    rule: Option<NamespaceRule>,
    file: PodFile,
    /// The namespaces that are said to be those of each pod, which has no uid there.
    named: BTreeMap<ObjectRef, Vec<u32>>,
    /// Whose each namespace was said to be last.
    owners: BTreeMap<u32, ObjectRef>,
}

/// What is wanted, by the namespaces that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlacedRules {
    pub(crate) parts: Parts,
    /// What is left as it is.
    pub(crate) kept: BTreeSet<Part>,
    /// The namespaces of each pod.
    pub(crate) pods: BTreeMap<String, Vec<u32>>,
    /// The pods without a namespace, or without one of several.
    pub(crate) pending: BTreeMap<String, PendingPod>,
    /// The pods of which a namespace is missing that is said to be theirs.
    pub(crate) lacking: BTreeSet<String>,
    /// What does not fit together.
    pub(crate) troubles: Vec<String>,
    /// Which rules stay as nobody has said whose they are.
    pub(crate) nobodys: Option<String>,
    /// Whether what becomes of a pod says nothing about the table of another.
    is_plain: bool,
}

/// The parts that are to be something else, each with what has changed there where that is known.
pub(crate) type News<'c> = BTreeMap<Part, Option<&'c Turn>>;

impl PlacedRules {
    /// A table is to have these rules, or with `None` it is nobody's any more.
    fn set(&mut self, part: Part, rules: Option<&Arc<[SessionRule]>>) {
        match rules {
            Some(rules) => drop(self.parts.insert(part, Arc::clone(rules))),
            None => drop(self.parts.remove(&part)),
        }
    }

    /// Nothing is known of a pod any more; what there was.
    fn leave(&mut self, name: &str) -> Moved {
        self.lacking.remove(name);
        Moved {
            namespaces: self.pods.remove(name).unwrap_or_default(),
            pending: self.pending.remove(name),
            ..Moved::default()
        }
    }

    /// What there is of a pod.
    fn of(&self, name: &str) -> Moved {
        Moved {
            namespaces: self.pods.get(name).cloned().unwrap_or_default(),
            pending: self.pending.get(name).cloned(),
            ..Moved::default()
        }
    }
}

impl NamespaceFinder {
    pub(crate) fn new(rule: Option<&NamespaceRule>) -> Self {
        Self {
            rule: rule.cloned(),
            file: PodFile::of(Named::Namespace),
            named: BTreeMap::new(),
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
        looked_at(wanted.global.len() + wanted.local.len());
        let mut placed = PlacedRules {
            troubles: self.file.trouble.iter().cloned().collect(),
            ..PlacedRules::default()
        };
        let global = wanted.global.iter();
        placed.parts = global
            .map(|(address, rules)| (Part::Global(Prefix::host(*address)), Arc::clone(rules)))
            .collect();
        let named: BTreeMap<u32, ObjectRef> = self.by_index().collect();
        self.named.clear();
        for (namespace, pod) in &named {
            self.named.entry(pod.clone()).or_default().push(*namespace);
        }
        self.owners.retain(|namespace, _| held.has(*namespace));
        let mut there = BTreeSet::new();
        for (pod, rules) in &wanted.local {
            self.place_pod(pod, rules, held, &mut placed);
            self.note_elsewhere(
                pod,
                !rules.is_empty() || !wanted.global.is_empty(),
                held,
                &mut placed,
            );
            there.insert(in_file(pod));
        }
        placed.kept = self.kept(&there, &named, held);
        placed.nobodys = self.nobodys(&placed.kept, held);
        // One that a pod of old had may come back with it.
        let is_remembered = |namespace: u32| {
            !named.contains_key(&namespace) && (!self.is_known() || self.owners.contains_key(&namespace))
        };
        placed.is_plain = there.len() == wanted.local.len()
            && held.elsewhere.is_empty()
            && !held.namespaces().any(is_remembered);
        self.owners.extend(named);
        placed
    }

    /// Where nothing is wanted yet: nothing may be opened in the namespaces that are said to be those of pods, but for those in which
    /// something is in force from before, or that were left open then; nor from outside if no policy is in force at all. Everything
    /// else stays as it is.
    pub(crate) fn close(&self, held: &Held, left: &Left<u32>) -> PlacedRules {
        let is_in_force = |namespace: u32| left.has(&namespace) || held.is_judged(Part::Local(namespace));
        let named = self.by_index().map(|(namespace, _)| namespace);
        let closed = named.filter(|namespace| held.has(*namespace) && !is_in_force(*namespace));
        let rules = SessionRule::closing(&Family::BOTH);
        let mut parts: Parts = closed
            .map(|namespace| (Part::Local(namespace), Arc::clone(&rules)))
            .collect();
        if !held.has_policies() {
            parts.extend(Family::BOTH.map(|family| {
                let end = Part::Global(Prefix::all(family));
                (end, SessionRule::closing(&[family]))
            }));
        }
        PlacedRules {
            kept: held.parts().filter(|part| !parts.contains_key(part)).collect(),
            parts,
            ..PlacedRules::default()
        }
    }

    /// Why it is not known which namespaces are those of pods, if it is not.
    pub(crate) fn is_lost(&self) -> Option<&str> {
        match &self.rule {
            Some(_) => self.file.trouble.as_deref(),
            None => Some("nobody says which namespaces are those of pods"),
        }
    }

    /// Whether a namespace that is said to be a pod's is not there yet.
    pub(crate) fn is_lacking(&self, held: &Held) -> bool {
        self.by_index().any(|(namespace, _)| !held.has(namespace))
    }

    /// Gives the tables of which something has changed what they are to have; nothing where all have to be looked at for that.
    pub(crate) fn follow<'c>(
        &self,
        change: &'c Change,
        held: &Held,
        placed: &mut PlacedRules,
    ) -> Option<(News<'c>, BTreeMap<String, Moved>)> {
        let (mut news, mut moved) = (News::new(), BTreeMap::new());
        if !placed.is_plain {
            return None;
        }
        for (address, turn) in &change.global {
            looked_at(1);
            let part = Part::Global(Prefix::host(*address));
            placed.set(part, turn.now.as_ref());
            news.insert(part, Some(turn));
        }
        // Of one that comes where another of its name went the last counts.
        let (come, gone): (Vec<_>, Vec<_>) = change.local.iter().partition(|(_, turn)| turn.now.is_some());
        for (pod, turn) in gone.into_iter().chain(come) {
            looked_at(1);
            let name = id(pod);
            if turn.before.is_none()
                && (placed.pods.contains_key(&name) || placed.pending.contains_key(&name))
            {
                return None;
            }
            let before = placed.leave(&name);
            for &namespace in &before.namespaces {
                placed.parts.remove(&Part::Local(namespace));
                news.insert(Part::Local(namespace), Some(turn));
            }
            if let Some(rules) = &turn.now {
                self.place_pod(pod, rules, held, placed);
            }
            let now = placed.of(&name);
            for &namespace in &now.namespaces {
                let known = news.entry(Part::Local(namespace)).or_insert(Some(turn));
                // Another went from there.
                *known = known.filter(|known| std::ptr::eq(*known, turn));
            }
            if before != now {
                moved.insert(name, now);
            }
        }
        Some((news, moved))
    }

    /// Gives the tables of a pod what they are to have.
    fn place_pod(&self, pod: &ObjectRef, rules: &Arc<[SessionRule]>, held: &Held, placed: &mut PlacedRules) {
        let name = id(pod);
        let own = self.of(pod);
        let (there, missing): (Vec<u32>, Vec<u32>) = own.iter().partition(|&&namespace| held.has(namespace));
        if let Some(why) = self.missing(own, &missing) {
            if !missing.is_empty() {
                placed.lacking.insert(name.clone());
            }
            let pending = PendingPod {
                pod: name.clone(),
                restricted: !rules.is_empty(),
                why,
            };
            placed.pending.insert(name.clone(), pending);
        }
        for &namespace in &there {
            placed.set(Part::Local(namespace), Some(rules));
        }
        if !there.is_empty() {
            placed.pods.insert(name, there);
        }
    }

    /// Notes of which namespaces of a pod another table judges what arrives.
    fn note_elsewhere(&self, pod: &ObjectRef, is_judged: bool, held: &Held, placed: &mut PlacedRules) {
        let own = self.of(pod).iter().filter(|_| is_judged);
        for namespace in own.filter(|namespace| held.has(**namespace) && held.elsewhere.contains(namespace)) {
            placed.troubles.push(format!(
                "namespace {namespace} of {} is not in the first FIB: what arrives for it the rules of another table judge",
                id(pod)
            ));
        }
    }

    /// Which rules stay as nobody has said whose they are.
    fn nobodys(&self, kept: &BTreeSet<Part>, held: &Held) -> Option<String> {
        let unnamed = kept.iter().filter_map(|part| match part {
            Part::Local(namespace) => Some(*namespace),
            Part::Global(_) => None,
        });
        let mut nobodys = unnamed.filter(|namespace| {
            !self.owners.contains_key(namespace) && held.is_ruled(Part::Local(*namespace))
        });
        let first = nobodys.next()?;
        let others = if nobodys.next().is_some() {
            " and others"
        } else {
            ""
        };
        Some(format!(
            "namespace {first}{others}: those that an agent of before left, as nobody has said whose it is"
        ))
    }

    /// The namespaces that are said to be those of a pod.
    fn of(&self, pod: &ObjectRef) -> &[u32] {
        self.named
            .get(&in_file(pod))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    fn by_index(&self) -> impl Iterator<Item = (u32, ObjectRef)> {
        let pods = self.file.pods().iter();
        pods.filter_map(|(index, pod)| Some((index.parse().ok()?, pod.clone())))
    }

    /// Tables that are left as they are: those of pods that are there and of which only the line is gone, as when somebody
    /// is writing the file; those of which nobody has ever said whose they are, as after a restart of the agent; and all, while the
    /// file could not be read.
    fn kept(
        &self,
        there: &BTreeSet<ObjectRef>,
        named: &BTreeMap<u32, ObjectRef>,
        held: &Held,
    ) -> BTreeSet<Part> {
        let unnamed = held
            .namespaces()
            .filter(|namespace| !named.contains_key(namespace));
        let kept = unnamed.filter(|namespace| {
            let owner = self.owners.get(namespace);
            self.rule.is_some() && owner.is_none_or(|owner| !self.is_known() || there.contains(owner))
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

/// A pod as a file names it.
fn in_file(pod: &ObjectRef) -> ObjectRef {
    ObjectRef::new("Pod", &pod.namespace, &pod.name)
}
