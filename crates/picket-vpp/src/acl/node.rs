//! From what each pod may exchange to the lists of the interfaces of its node, pod by pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Family;
use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::change::{Change, Register};
use super::model::{Acl, AclAction, AclRule, Acls, InterfaceLists, Role};
use super::render::Options;
use super::rules::{everything, from_pod, into_node, out_of_node, part, to_pod};
use crate::combine::Combined;
use crate::lists::{Lists, Restricted};
use crate::peers::Peers;
use crate::value::{Value, Values};

/// The lists of a node, kept while its pods and what they may exchange change.
///
/// Every number in the lists of pods must be of the same [`Values`].
#[derive(Debug)]
pub struct NodeAcls {
    options: Options,
    services: Vec<IpAddr>,
    combined: Combined,
    pods: BTreeMap<ObjectRef, OnNode>,
    /// Who may not send everything.
    senders: Restricted,
    global: Global,
    register: Register,
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

/// What interfaces that lead out of the node have.
#[derive(Debug, Default)]
struct Global {
    parts: BTreeMap<usize, Part>,
    /// The part of each address.
    part_of: BTreeMap<IpAddr, usize>,
    /// Whether there are other addresses than when the ends were made.
    has_others: bool,
    /// What comes in, and what everything else that goes out meets.
    ends: Option<[Arc<Acl>; 2]>,
}

/// One of the lists that the global one is cut into.
#[derive(Debug, Default)]
struct Part {
    senders: BTreeMap<IpAddr, Sender>,
    acl: Option<Arc<Acl>>,
}

/// What may be sent from an address, and the rules of it where these are made.
#[derive(Debug)]
struct Sender {
    peers: Arc<Peers>,
    rules: Option<Vec<AclRule>>,
}

impl Sender {
    fn rules(&mut self, address: IpAddr, values: &mut Values) -> &[AclRule] {
        let Self { peers, rules } = self;
        rules.get_or_insert_with(|| out_of_node(address, peers, values))
    }
}

/// The lists to pods that were made, by the places in memory of what they are made of.
type ToPods = FxHashMap<([usize; 2], bool), Arc<Acl>>;

impl NodeAcls {
    /// A node without pods. No list of a pod allows less than `floor` of its family.
    pub(super) fn new(options: Options, floor: [Value; 2]) -> Self {
        let mut made = Self {
            options,
            services: Vec::new(),
            combined: Combined::new(Direction::Ingress, floor),
            pods: BTreeMap::new(),
            senders: Restricted::new(Direction::Egress),
            global: Global::default(),
            register: Register::default(),
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
        let mut changes = BTreeMap::new();
        let mut stale: BTreeSet<ObjectRef> = BTreeSet::new();
        let mut parts = BTreeSet::new();
        for (pod, now) in pods {
            let now = now.as_ref();
            let before = self.pods.get(pod).map(|known| Arc::clone(&known.lists));
            let after = now.map(|(_, lists)| Arc::clone(lists));
            self.send(pod, [before.as_deref(), after.as_deref()], &mut parts);
            changes.insert(pod.clone(), [before, after]);
            self.place(pod, now, &mut stale);
        }
        if let Some(services) = services
            && services != self.services
        {
            self.services = services;
            stale.extend(self.pods.keys().cloned());
        }
        let mut touched = self.combined.advance(&changes, values);
        touched.extend(stale.iter().cloned());
        let mut made = ToPods::default();
        for pod in touched {
            self.set(&pod, stale.contains(&pod), &mut made, values);
        }
        if !parts.is_empty() {
            self.set_global(&parts, values);
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
            let places = received.map(|peers| peers.map_or(0, |peers| Arc::as_ptr(peers).addr()));
            let acl = made
                .entry((places, sends_less))
                .or_insert_with(|| Arc::new(Acl::new(Role::ToPod, to_pod(received, sends_less, values))));
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

    /// Takes in what a pod may send. Which parts of the global list it changes are `parts`.
    fn send(&mut self, pod: &ObjectRef, lists: [Option<&Lists>; 2], parts: &mut BTreeSet<usize>) {
        for (address, _) in self.senders.follow(pod, lists, &Family::BOTH) {
            // Where several have an address, all are held to the same.
            let sender = self.senders.at(address);
            let sender = sender.map(|(pod, peers)| (part(pod), Arc::clone(peers)));
            self.global.set(address, sender, parts);
        }
    }

    /// Makes these parts of the global list, and what is around them.
    fn set_global(&mut self, parts: &BTreeSet<usize>, values: &mut Values) {
        for part in parts {
            let Some(known) = self.global.parts.get_mut(part) else {
                continue;
            };
            let mut rules = Vec::new();
            for (&address, sender) in &mut known.senders {
                rules.extend_from_slice(sender.rules(address, values));
            }
            let now = (!rules.is_empty()).then(|| Arc::new(Acl::new(Role::Global, rules)));
            self.register.replace(known.acl.as_ref(), now.as_ref());
            known.acl = now;
            if known.acl.is_none() {
                self.global.parts.remove(part);
            }
        }
        if std::mem::take(&mut self.global.has_others) {
            self.set_ends();
        }
        self.set_uplinks();
    }

    /// Makes what stands around the parts of the global list.
    fn set_ends(&mut self) {
        let mut senders = self.senders.addresses().peekable();
        let ends = senders.peek().is_some().then(|| {
            let into = Acl::new(Role::FromOutside, into_node(senders));
            let rest = Acl::new(Role::Global, everything(AclAction::Permit));
            [into, rest].map(Arc::new)
        });
        let pair = |ends: &Option<[Arc<Acl>; 2]>| match ends {
            Some([into, rest]) => [Some(Arc::clone(into)), Some(Arc::clone(rest))],
            None => [None, None],
        };
        for (before, now) in pair(&self.global.ends).iter().zip(&pair(&ends)) {
            self.register.replace(before.as_ref(), now.as_ref());
        }
        self.global.ends = ends;
    }

    fn set_uplinks(&mut self) {
        let mut lists = InterfaceLists::default();
        if let Some([into, rest]) = &self.global.ends {
            let parts = self.global.parts.values().filter_map(|part| part.acl.as_ref());
            lists.output = parts.chain([rest]).map(|acl| acl.tag.clone()).collect();
            lists.input = vec![into.tag.clone()];
        }
        for uplink in &self.options.uplinks {
            self.register.set(uplink, Some(lists.clone()));
        }
    }
}

impl Global {
    /// An address belongs to a part now and may send this, or with `None` everything.
    fn set(&mut self, address: IpAddr, now: Option<(usize, Arc<Peers>)>, changed: &mut BTreeSet<usize>) {
        let before = match &now {
            Some((part, _)) => self.part_of.insert(address, *part),
            None => self.part_of.remove(&address),
        };
        self.has_others |= before.is_none() != now.is_none();
        if let Some(part) = before {
            changed.insert(part);
            self.parts.entry(part).or_default().senders.remove(&address);
        }
        if let Some((part, peers)) = now {
            changed.insert(part);
            let sender = Sender { peers, rules: None };
            let part = self.parts.entry(part).or_default();
            part.senders.insert(address, sender);
        }
    }
}
