//! From what each pod may exchange to the lists of the interfaces of its node, pod by pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::change::{Change, Register};
use super::global::Global;
use super::model::{Acl, Acls, InterfaceLists, Role};
use super::render::Options;
use super::rules::{from_pod, to_pod};
use crate::combine::Combined;
use crate::lists::Lists;
use crate::peers::Peers;
use crate::value::{Value, Values};

/// The lists of a node, kept while its pods and what they may exchange change.
///
/// Every number in the lists of pods must be of the same [`Values`].
#[derive(Debug)]
pub struct NodeAcls {
    options: Options,
    services: Vec<IpAddr>,
    combined: Combined<ObjectRef>,
    pods: BTreeMap<ObjectRef, OnNode>,
    global: Global,
    register: Register,
    last: Option<ToPod>,
}

/// A pod, by what it should be.
pub type PodLists = BTreeMap<ObjectRef, Option<(SmolStr, Arc<Lists>)>>;

#[derive(Debug)]
struct OnNode {
    interface: SmolStr,
    lists: Arc<Lists>,
    to_pod: Option<Arc<Acl>>,
    from_pod: Option<Arc<Acl>>,
}

/// The lists to pods that were made, by the places in memory of what they are made of.
type ToPods = FxHashMap<([usize; 2], bool), Arc<Acl>>;

/// The list to a pod that was made last, with what it is made of: the next pod is often alike.
#[derive(Debug)]
struct ToPod {
    received: [Option<Arc<Peers>>; 2],
    reflects: bool,
    acl: Arc<Acl>,
}

impl ToPod {
    fn of(received: [Option<&Arc<Peers>>; 2], reflects: bool, values: &mut Values) -> Self {
        let acl = Acl::new(Role::ToPod, to_pod(received, reflects, values));
        Self {
            received: received.map(|peers| peers.cloned()),
            reflects,
            acl: Arc::new(acl),
        }
    }

    fn places(&self) -> ([usize; 2], bool) {
        (
            places(self.received.each_ref().map(Option::as_ref)),
            self.reflects,
        )
    }
}

fn places(received: [Option<&Arc<Peers>>; 2]) -> [usize; 2] {
    received.map(|peers| peers.map_or(0, |peers| Arc::as_ptr(peers).addr()))
}

impl NodeAcls {
    /// A node without pods. No list of a pod allows less than `floor` of its family.
    pub(super) fn new(options: Options, floor: [Value; 2]) -> Self {
        let mut made = Self {
            options,
            services: Vec::new(),
            combined: Combined::new(Direction::Ingress, floor),
            pods: BTreeMap::new(),
            global: Global::new(),
            register: Register::default(),
            last: None,
        };
        made.set_uplinks();
        made
    }

    /// A node without pods, whose pods may be kept from everything.
    pub fn of_rules(options: Options) -> Self {
        Self::new(options, [Value::NOTHING; 2])
    }

    /// All lists.
    pub fn acls(&self) -> &Acls {
        self.register.acls()
    }

    /// The same, for good.
    pub fn into_acls(self) -> Acls {
        self.register.into_acls()
    }

    /// These pods have other interfaces or lists now, or with `None` they are gone; and with `services` these are the addresses
    /// of services. What has changed because of it.
    pub fn advance(&mut self, pods: &PodLists, services: Option<Vec<IpAddr>>, values: &mut Values) -> Change {
        let mut changes = Vec::new();
        let mut stale: BTreeSet<ObjectRef> = BTreeSet::new();
        for (pod, now) in pods {
            let now = now.as_ref();
            let before = self.pods.get(pod).map(|known| Arc::clone(&known.lists));
            let after = now.map(|(_, lists)| Arc::clone(lists));
            self.global.follow(pod, [before.as_deref(), after.as_deref()]);
            changes.push((pod.clone(), [before, after]));
            self.place(pod, now, &mut stale);
        }
        if let Some(services) = services
            && services != self.services
        {
            self.services = services;
            stale.extend(self.pods.keys().cloned());
        }
        let (mut touched, _) = self.combined.advance(&changes, values);
        touched.extend(stale.iter().cloned());
        let mut made = ToPods::default();
        for pod in touched {
            self.set(&pod, stale.contains(&pod), &mut made, values);
        }
        if self.global.make(&mut self.register, values) {
            self.set_uplinks();
        }
        self.register.take()
    }

    /// Puts a pod where it is; what is made of it alone is `stale` then.
    fn place(
        &mut self,
        pod: &ObjectRef,
        now: Option<&(SmolStr, Arc<Lists>)>,
        stale: &mut BTreeSet<ObjectRef>,
    ) {
        let gone = |known: &OnNode| now.is_none_or(|(interface, _)| *interface != known.interface);
        if let Some(known) = self.pods.get(pod)
            && gone(known)
            && !self.options.uplinks.contains(&known.interface)
        {
            self.register.set(&known.interface, None);
        }
        let Some((interface, lists)) = now else {
            if let Some(known) = self.pods.remove(pod) {
                self.register.replace(known.to_pod.as_ref(), None);
                self.register.replace(known.from_pod.as_ref(), None);
            }
            return;
        };
        stale.insert(pod.clone());
        let known = self.pods.entry(pod.clone()).or_insert_with(|| OnNode {
            interface: interface.clone(),
            lists: Arc::clone(lists),
            to_pod: None,
            from_pod: None,
        });
        known.interface.clone_from(interface);
        known.lists = Arc::clone(lists);
    }

    /// Gives the interface of a pod its lists; `is_stale` when that from the pod may be another.
    fn set(&mut self, pod: &ObjectRef, is_stale: bool, made: &mut ToPods, values: &mut Values) {
        let received = self.combined.of(pod);
        let Some(known) = self.pods.get_mut(pod) else {
            return;
        };
        let is_open = received.iter().flatten().all(|peers| peers.is_everything());
        let sends_less = known.lists.is_restricted(Direction::Egress) || known.lists.is_unknown;
        let (mut to, mut from) = (None, None);
        if !is_open || sends_less {
            let key = (places(received), sends_less);
            let acl = made.entry(key).or_insert_with(|| {
                let last = self.last.take().filter(|last| last.places() == key);
                let last = last.unwrap_or_else(|| ToPod::of(received, sends_less, values));
                Arc::clone(&self.last.insert(last).acl)
            });
            to = Some(Arc::clone(acl));
            from = known.from_pod.clone().filter(|_| !is_stale).or_else(|| {
                let rules = from_pod(&known.lists, &self.services, values);
                Some(Arc::new(Acl::new(Role::FromPod, rules)))
            });
        }
        self.register.replace(known.to_pod.as_ref(), to.as_ref());
        self.register.replace(known.from_pod.as_ref(), from.as_ref());
        let tags = |acl: &Option<Arc<Acl>>| acl.iter().map(|acl| acl.tag.clone()).collect();
        let lists = InterfaceLists {
            pod: Some(pod.clone()),
            input: tags(&from),
            output: tags(&to),
        };
        (known.to_pod, known.from_pod) = (to, from);
        if !self.options.uplinks.contains(&known.interface) {
            self.register.set(&known.interface, Some(lists));
        }
    }

    fn set_uplinks(&mut self) {
        let lists = self.global.lists();
        for uplink in &self.options.uplinks {
            self.register.set(uplink, Some(lists.clone()));
        }
    }
}
