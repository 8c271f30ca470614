//! Which interface of VPP is whose, and so which lists each is to have.

use std::collections::{BTreeMap, BTreeSet};

use picket_policy::ObjectRef;
use picket_vpp::acl::{Acl, Acls, InterfaceLists};
use picket_vpp::client::Interface;
use smol_str::SmolStr;

use super::claims::{ANNOTATION, Claims, Judge, LOCAL};
use super::file::{Named, PodFile};
use super::rule::{Pattern, PodRule};
use super::status::PendingPod;

/// Says which interface is whose.
#[derive(Debug)]
pub(crate) struct Finder {
    rule: PodRule,
    uplinks: Vec<Pattern>,
    file: PodFile,
}

/// What is wanted, by the interfaces that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) acls: Acls,
    /// The interfaces of each pod.
    pub(crate) pods: BTreeMap<String, Vec<String>>,
    /// The interfaces that connect the node with the rest of the world.
    pub(crate) uplinks: Vec<String>,
    /// The pods without an interface.
    pub(crate) pending: BTreeMap<String, PendingPod>,
    /// What does not fit together.
    pub(crate) troubles: Vec<String>,
    /// Whose an interface is; one of several, where they contest it.
    pub(super) owners: BTreeMap<SmolStr, ObjectRef>,
    /// The interfaces that several pods have, and so none.
    pub(super) contested: BTreeSet<SmolStr>,
    /// Those that look like those of pods, while no pod is known that has them.
    pub(super) unknown: BTreeSet<SmolStr>,
}

/// Interfaces by what says whose they are.
pub(super) type Known = BTreeMap<Sought, Vec<SmolStr>>;

impl Finder {
    pub(crate) fn new(rule: &PodRule, uplinks: &[Pattern]) -> Self {
        Self {
            rule: rule.clone(),
            uplinks: uplinks.to_vec(),
            file: PodFile::of(Named::Interface),
        }
    }

    /// Looks whether a file says something else than it did.
    pub(crate) fn look(&mut self) -> bool {
        match &self.rule {
            PodRule::File(path) => self.file.look(path),
            PodRule::Tag(_) | PodRule::Name(_) | PodRule::Annotation(_) => false,
        }
    }

    /// Forgets what was of pods that have other interfaces now.
    pub(super) fn settle(&mut self, interfaces: &BTreeMap<SmolStr, Interface>) {
        self.file.settle(|name| interfaces.contains_key(name));
    }

    /// Why nobody can say whose any interface is: a file that names them was never read.
    pub(crate) fn is_lost(&self) -> Option<&str> {
        let is_lost = matches!(self.rule, PodRule::File(_)) && !self.file.is_known();
        self.file.trouble.as_deref().filter(|_| is_lost)
    }

    /// Gives every interface what it is to have, where pods claim these by their annotations.
    pub(crate) fn place(
        &self,
        wanted: &Acls,
        claims: &Claims,
        interfaces: &BTreeMap<SmolStr, Interface>,
    ) -> Placed {
        let troubles = self.file.trouble.iter().cloned();
        let mut placed = Placed {
            troubles: troubles.chain(self.unmatched(interfaces)).collect(),
            ..Placed::default()
        };
        placed.acls.acls.clone_from(&wanted.acls);
        let known = self.know(interfaces);
        let judge = self.judge(claims);
        let mut outside = InterfaceLists::default();
        for lists in wanted.interfaces.values() {
            let Some(pod) = &lists.pod else {
                outside = lists.clone();
                continue;
            };
            self.place_pod(pod, lists, &known, judge.as_ref(), &mut placed);
        }
        let contested = judge.iter().flat_map(Judge::contested);
        for interface in contested.filter(|name| interfaces.contains_key(*name)) {
            placed.close(interface);
        }
        for (name, interface) in interfaces {
            if placed.owners.contains_key(name) {
                continue;
            }
            if self.is_uplink(name, interface) {
                placed.set(name, &outside);
                placed.uplinks.push(name.to_string());
            } else if self.is_of_pods(name, interface) && !placed.contested.contains(name) {
                placed.abandon(name);
            }
        }
        placed
    }

    /// Gives the interfaces of a pod what they are to have.
    pub(super) fn place_pod(
        &self,
        pod: &ObjectRef,
        lists: &InterfaceLists,
        known: &Known,
        judge: Option<&Judge<'_>>,
        placed: &mut Placed,
    ) {
        let name = id(pod);
        let sought = self.sought(pod, judge);
        let Some(own) = sought.and_then(|sought| known.get(&sought)) else {
            let pending = PendingPod {
                pod: name.clone(),
                // Others have a list of their addresses at most.
                restricted: !lists.output.is_empty(),
                why: self.missing(pod, judge),
            };
            placed.pending.insert(name, pending);
            return;
        };
        for interface in own {
            match placed.owners.insert(interface.clone(), pod.clone()) {
                Some(other) => placed.contest(interface, [&other, pod]),
                None => placed.set(interface, lists),
            }
        }
        let own = own.iter().map(SmolStr::to_string).collect();
        placed.pods.insert(name, own);
    }

    /// Interfaces by what says whose they are.
    pub(super) fn know(&self, interfaces: &BTreeMap<SmolStr, Interface>) -> Known {
        let mut found = Known::new();
        for (name, interface) in interfaces {
            let sought = match &self.rule {
                PodRule::Tag(_) => interface.tag.as_str().map(|tag| Sought::Text(tag.into())),
                PodRule::Name(_) | PodRule::Annotation(_) => {
                    interface.name.as_str().map(|name| Sought::Text(name.into()))
                }
                PodRule::File(_) => self.file.owner(name).cloned().map(Sought::Pod),
            };
            found
                .entry(sought.unwrap_or(Sought::Nothing))
                .or_default()
                .push(name.clone());
        }
        found
    }

    /// By what the interface of a pod is known.
    pub(super) fn sought(&self, pod: &ObjectRef, judge: Option<&Judge<'_>>) -> Option<Sought> {
        match &self.rule {
            PodRule::Tag(template) | PodRule::Name(template) => Some(Sought::Text(template.of(pod))),
            PodRule::Annotation(_) => {
                let interface = judge?.interface(pod)?.ok()?;
                Some(Sought::Text(interface.to_string()))
            }
            PodRule::File(_) => Some(Sought::Pod(ObjectRef::new("Pod", &pod.namespace, &pod.name))),
        }
    }

    /// Who says which claims hold, where they count.
    pub(super) fn judge<'a>(&'a self, claims: &'a Claims) -> Option<Judge<'a>> {
        match &self.rule {
            PodRule::Annotation(may) => Some(Judge::new(claims, may, &self.uplinks)),
            PodRule::Tag(_) | PodRule::Name(_) | PodRule::File(_) => None,
        }
    }

    fn missing(&self, pod: &ObjectRef, judge: Option<&Judge<'_>>) -> String {
        let (what, template) = match &self.rule {
            PodRule::File(path) => {
                return match self.file.pods().values().any(|named| id(named) == id(pod)) {
                    true => format!("there is no interface as `{}` names", path.display()),
                    false => format!("`{}` does not name it", path.display()),
                };
            }
            PodRule::Annotation(_) => {
                return match judge.and_then(|judge| judge.interface(pod)) {
                    None => format!("it has no annotation `{ANNOTATION}`"),
                    Some(Ok(interface)) => {
                        format!(
                            "there is no interface `{interface}`, which its annotation `{ANNOTATION}` names"
                        )
                    }
                    Some(Err(refused)) => refused.to_string(),
                };
            }
            PodRule::Tag(template) => ("tag", template),
            PodRule::Name(template) => ("name", template),
        };
        format!("no interface has the {what} `{}`", template.of(pod))
    }

    /// What is wrong with patterns of uplinks that no interface matches: where the node is connected with the rest nothing is judged.
    fn unmatched(&self, interfaces: &BTreeMap<SmolStr, Interface>) -> impl Iterator<Item = String> {
        let is_there = |pattern: &&Pattern| interfaces.keys().any(|name| pattern.matches(name));
        let unmatched = self.uplinks.iter().filter(move |pattern| !is_there(pattern));
        unmatched.map(|pattern| {
            format!("no interface is called `{pattern}`, as `--uplink` says: nothing is judged where the node is connected with the rest")
        })
    }

    /// Whether an interface that is no pod's connects the node with the rest of the world.
    pub(super) fn is_uplink(&self, name: &SmolStr, interface: &Interface) -> bool {
        if !self.uplinks.is_empty() {
            return self.uplinks.iter().any(|pattern| pattern.matches(name));
        }
        name != LOCAL && !self.has_form(name, interface)
    }

    /// Whether an interface looks like one of a pod, whether there is such a pod or not.
    pub(super) fn is_of_pods(&self, name: &SmolStr, interface: &Interface) -> bool {
        name != LOCAL && self.has_form(name, interface) && !self.is_uplink(name, interface)
    }

    fn has_form(&self, name: &SmolStr, interface: &Interface) -> bool {
        match &self.rule {
            PodRule::Tag(template) => interface.tag.as_str().is_some_and(|tag| template.is_form_of(tag)),
            PodRule::Name(template) => template.is_form_of(name),
            PodRule::Annotation(may) => may.matches(name),
            PodRule::File(_) => self.file.owner(name).is_some(),
        }
    }
}

/// By what an interface is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sought {
    Nothing,
    Text(String),
    Pod(ObjectRef),
}

impl Placed {
    pub(super) fn set(&mut self, interface: &SmolStr, lists: &InterfaceLists) {
        self.acls.interfaces.insert(interface.clone(), lists.clone());
    }

    /// Two pods have one interface: nothing passes there.
    fn contest(&mut self, interface: &SmolStr, pods: [&ObjectRef; 2]) {
        let [one, other] = pods.map(id);
        self.troubles.push(format!(
            "interface `{interface}` is said to be that of {one} and of {other}: nothing passes there"
        ));
        self.close(interface);
    }

    /// Several pods claim an interface, and nobody has it: nothing passes there.
    pub(super) fn close(&mut self, interface: &SmolStr) {
        self.shut(interface);
        self.contested.insert(interface.clone());
    }

    /// Nobody knows the pod of an interface: nothing passes there.
    pub(super) fn abandon(&mut self, interface: &SmolStr) {
        self.shut(interface);
        self.unknown.insert(interface.clone());
    }

    /// Nothing passes there.
    pub(super) fn shut(&mut self, interface: &SmolStr) {
        let closed = Acl::closed();
        let lists = InterfaceLists {
            pod: None,
            input: vec![closed.tag.clone()],
            output: vec![closed.tag.clone()],
        };
        self.acls.acls.insert(closed.tag.clone(), closed.into());
        self.acls.interfaces.insert(interface.clone(), lists);
    }
}

/// What a pod is called.
pub(crate) fn id(pod: &ObjectRef) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}
