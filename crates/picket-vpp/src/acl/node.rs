//! From what each pod may exchange to the lists of the interfaces of its node, pod by pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Family;
use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::change::{Change, Register};
use super::global::Global;
use super::model::{Acl, Acls, InterfaceLists, Role};
use super::render::Options;
use super::rules::{from_pod, own_addresses, to_pod};
use crate::combine::Combined;
use crate::lists::{Lists, Number, Slab};
use crate::peers::Peers;
use crate::value::{Value, Values};
use crate::work::looked_at;

/// The lists of a node, kept while its pods and what they may exchange change.
///
/// Every number in the lists of pods must be of the same [`Values`].
#[derive(Debug)]
pub struct NodeAcls {
    options: Options,
    /// The addresses that services say are theirs.
    named_by_services: BTreeSet<IpAddr>,
    /// Those of them that nobody else has.
    services: BTreeSet<IpAddr>,
    /// What pods may receive, with what others of the node may send.
    combined: Combined<Number>,
    /// How many pods may not receive everything: where there is one, every pod is held to its own addresses.
    closed: usize,
    pods: Slab<ObjectRef, OnNode>,
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
    from_pod: Option<(HeldTo, Arc<Acl>)>,
}

/// What the list from a pod holds it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeldTo {
    /// What it may send.
    Policies,
    /// Its own addresses, and nothing else.
    Addresses,
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
            named_by_services: BTreeSet::new(),
            services: BTreeSet::new(),
            combined: Combined::new(Direction::Ingress, floor),
            closed: 0,
            pods: Slab::default(),
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

    /// The addresses of services, where they may be others: services name these now, or others have come to addresses or left
    /// them. Whoever may create a service chooses some of its addresses, so that one that a pod or a node has is not its.
    pub(super) fn services_of(
        &mut self,
        named: Option<BTreeSet<IpAddr>>,
        mut moved: impl Iterator<Item = IpAddr>,
        is_held: impl Fn(IpAddr) -> bool,
    ) -> Option<BTreeSet<IpAddr>> {
        let is_other = named.is_some() || moved.any(|address| self.named_by_services.contains(&address));
        if let Some(named) = named {
            self.named_by_services = named;
        }
        is_other.then(|| {
            let named = self.named_by_services.iter().inspect(|_| looked_at(1)).copied();
            named.filter(|&address| !is_held(address)).collect()
        })
    }

    /// These pods have other interfaces or lists now, or with `None` they are gone; and with `services` these are the addresses
    /// of services. What has changed because of it.
    pub fn advance(
        &mut self,
        pods: &PodLists,
        services: Option<BTreeSet<IpAddr>>,
        values: &mut Values,
    ) -> Change {
        let mut changes = Vec::with_capacity(pods.len());
        let mut stale: BTreeSet<Number> = BTreeSet::new();
        let mut gone = Vec::new();
        for (pod, now) in pods {
            let known = self.pods.number(pod);
            let before = known.and_then(|number| self.pods.get(number));
            let before = before.map(|known| Arc::clone(&known.lists));
            let after = now.as_ref().map(|(_, lists)| Arc::clone(lists));
            self.global.follow(pod, [before.as_deref(), after.as_deref()]);
            let number = match (known, now) {
                (known, Some((interface, lists))) => {
                    let number = self.place(pod, known, interface, lists);
                    if before.as_ref().is_none_or(|before| !sends_alike(before, lists)) {
                        stale.insert(number);
                    }
                    number
                }
                (Some(number), None) => {
                    self.displace(number);
                    gone.push(number);
                    number
                }
                (None, None) => continue,
            };
            changes.push((number, [before, after]));
        }
        if let Some(services) = services {
            stale.extend(self.told_apart(&services));
            self.services = services;
        }
        let (mut touched, _) = self.combined.advance(&changes, values);
        let held_all = self.holds_all();
        for (_, [before, now]) in &changes {
            let is_closed = |lists: &Option<Arc<Lists>>| {
                let lists = lists.as_ref();
                usize::from(lists.is_some_and(|lists| lists.is_restricted(Direction::Ingress)))
            };
            self.closed = self.closed + is_closed(now) - is_closed(before);
        }
        if self.holds_all() != held_all {
            touched.extend(self.pods.numbers().inspect(|_| looked_at(1)));
        }
        for number in gone {
            self.pods.remove(number);
        }
        touched.extend(changes.iter().map(|(number, _)| *number));
        touched.extend(&stale);
        touched.sort_unstable();
        touched.dedup();
        let mut made = ToPods::default();
        for pod in touched {
            self.set(pod, stale.contains(&pod), &mut made, values);
        }
        if self.global.make(&mut self.register, values) {
            self.set_uplinks();
        }
        self.register.take()
    }

    /// The pods whose lists say something else when these are the addresses of services: those that may not send everything to an
    /// address that comes or goes.
    fn told_apart(&self, services: &BTreeSet<IpAddr>) -> Vec<Number> {
        looked_at(self.services.len() + services.len());
        let changed: Vec<_> = self.services.symmetric_difference(services).collect();
        // Pods that are alike have one list.
        let mut asked: FxHashMap<usize, bool> = FxHashMap::default();
        let mut tells_apart = |peers: &Arc<Peers>| {
            let ask = || {
                let own = changed
                    .iter()
                    .filter(|address| Family::of(***address) == peers.family());
                let mut own = own.inspect(|_| looked_at(1));
                own.any(|address| peers.value(**address) != Value::EVERYTHING)
            };
            *asked.entry(Arc::as_ptr(peers).addr()).or_insert_with(ask)
        };
        let told_apart = self.pods.numbers().filter(|&number| {
            looked_at(1);
            let known = self.pods.get(number).filter(|pod| pod.from_pod.is_some());
            known.is_some_and(|pod| pod.lists.egress.iter().flatten().any(&mut tells_apart))
        });
        told_apart.collect()
    }

    /// Whether every pod is held to its own addresses.
    fn holds_all(&self) -> bool {
        self.closed > 0
    }

    /// Puts a pod where it is, which is known by this number from now on.
    fn place(
        &mut self,
        pod: &ObjectRef,
        known: Option<Number>,
        interface: &SmolStr,
        lists: &Arc<Lists>,
    ) -> Number {
        let Some((number, known)) = known.and_then(|number| Some((number, self.pods.get_mut(number)?)))
        else {
            let new = OnNode {
                interface: interface.clone(),
                lists: Arc::clone(lists),
                to_pod: None,
                from_pod: None,
            };
            return self.pods.insert(pod.clone(), new);
        };
        known.lists = Arc::clone(lists);
        if known.interface != *interface {
            let before = std::mem::replace(&mut known.interface, interface.clone());
            self.leave(&before);
        }
        number
    }

    /// A pod is gone, and with it what was made of it.
    fn displace(&mut self, number: Number) {
        let Some(known) = self.pods.get_mut(number) else {
            return;
        };
        self.register.replace(known.to_pod.take().as_ref(), None);
        let from_pod = known.from_pod.take().map(|(_, acl)| acl);
        self.register.replace(from_pod.as_ref(), None);
        let interface = known.interface.clone();
        self.leave(&interface);
    }

    /// No pod is at an interface any more.
    fn leave(&mut self, interface: &SmolStr) {
        if !self.options.uplinks.contains(interface) {
            self.register.set(interface, None);
        }
    }

    /// Gives the interface of a pod its lists; `is_stale` when that from the pod may be another.
    fn set(&mut self, number: Number, is_stale: bool, made: &mut ToPods, values: &mut Values) {
        let (received, holds_all) = (self.combined.of(&number), self.holds_all());
        let pod = self.pods.key(number).cloned();
        let Some(known) = self.pods.get_mut(number) else {
            return;
        };
        let is_open = received.iter().flatten().all(|peers| peers.is_everything());
        let is_unknown = known.lists.is_unknown();
        let sends_nothing = is_unknown && known.lists.addresses.is_empty();
        let sends_less = known.lists.is_restricted(Direction::Egress) || sends_nothing;
        let held = match !is_open || sends_less || is_unknown {
            true => Some(HeldTo::Policies),
            false => holds_all.then_some(HeldTo::Addresses),
        };
        let to = (held == Some(HeldTo::Policies)).then(|| {
            let key = (places(received), sends_less);
            let acl = made.entry(key).or_insert_with(|| {
                let last = self.last.take().filter(|last| last.places() == key);
                let last = last.unwrap_or_else(|| ToPod::of(received, sends_less, values));
                Arc::clone(&self.last.insert(last).acl)
            });
            Arc::clone(acl)
        });
        let same = known
            .from_pod
            .as_ref()
            .filter(|(before, _)| !is_stale && held == Some(*before));
        let from = same.map(|(_, acl)| Arc::clone(acl)).or_else(|| {
            let rules = match held? {
                HeldTo::Policies => from_pod(&known.lists, &self.services, values),
                HeldTo::Addresses => own_addresses(&known.lists),
            };
            Some(Arc::new(Acl::new(Role::FromPod, rules)))
        });
        let before = known.from_pod.as_ref().map(|(_, acl)| acl);
        self.register.replace(known.to_pod.as_ref(), to.as_ref());
        self.register.replace(before, from.as_ref());
        let tags = |acl: &Option<Arc<Acl>>| acl.iter().map(|acl| acl.tag.clone()).collect();
        let lists = InterfaceLists {
            pod,
            input: tags(&from),
            output: tags(&to),
        };
        (known.to_pod, known.from_pod) = (to, held.zip(from));
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

/// Whether the lists from two pods are one.
fn sends_alike(one: &Lists, other: &Lists) -> bool {
    one.addresses == other.addresses && one.egress == other.egress
}
