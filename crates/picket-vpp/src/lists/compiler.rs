//! From a program, and from what has changed in it, to what the pods of a node may exchange with whom.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::Addresses;
use picket_engine::{Identity, PodRef, Program, SubjectId};
use picket_net::{Family, Prefix};
use picket_policy::{Direction, ObjectRef};
use smol_str::SmolStr;

use super::Lists;
use super::naming::Naming;
use super::said::Said;
use super::slab::{Number, Slab};
use crate::changes::Changes;
use crate::peers::{Peers, beside};
use crate::place::{PerFamily, Places};
use crate::value::{Value, Values};
use crate::work::looked_at;

/// Addresses that are held to all of these subjects.
type Key = (Family, Vec<SubjectId>);

/// Pods with what they may exchange now; `None` for those that are not there any more.
pub type Touched = BTreeMap<ObjectRef, Option<Arc<Lists>>>;

/// Works out the lists of the managed pods of one node, or with `None` of every managed pod, and follows them.
#[derive(Debug, Default)]
pub(crate) struct Compiler {
    node: Option<SmolStr>,
    places: Places,
    /// The addresses of the node.
    own_node: Vec<(IpAddr, Identity)>,
    pods: Slab<ObjectRef, OwnPod>,
    /// The pods that have an address. Those that have one, as one that ends and the next one do, are all held to what each
    /// of them may do.
    at: BTreeMap<IpAddr, BTreeSet<Number>>,
    subjects: BTreeMap<SubjectId, Subject>,
    naming: Naming,
    known: Slab<Key, Known>,
}

#[derive(Debug)]
struct OwnPod {
    addresses: Addresses,
    /// The same for its lists.
    all_addresses: Arc<[IpAddr]>,
    subjects: [Option<SubjectId>; 2],
    /// What it is held to in each of [`DIRECTIONS`], for each family.
    keys: Keys,
}

/// The numbers of keys, in each of [`DIRECTIONS`] for each family.
type Keys = [[Option<Number>; 2]; 2];

#[derive(Debug)]
struct Subject {
    said: Said,
    keys: BTreeSet<Number>,
}

#[derive(Debug)]
struct Known {
    peers: Arc<Peers>,
    pods: BTreeSet<Number>,
}

/// An address of a pod that has another identity now.
#[derive(Debug)]
struct MovedHost {
    address: IpAddr,
    identity: Identity,
    /// The identity of the pod or node with the address beside, and that of the region around it.
    beside: Option<(Identity, Identity)>,
}

/// Above so many kinds of addresses that changed, all lists are worked out again.
const MANY_MOVES: usize = 64;

impl Compiler {
    /// The lists of the pods of a node.
    pub(crate) fn new(program: &Program, node: Option<&str>, values: &mut Values) -> (Self, Touched) {
        let mut compiler = Self {
            node: node.map(SmolStr::from),
            places: Places::of(program),
            ..Self::default()
        };
        compiler.own_node = compiler.addresses_of_node(program);
        let pods: Vec<_> = match node {
            Some(node) => program.pods_on(node),
            None => program.pods().filter(PodRef::is_managed).collect(),
        };
        let changes = Changes {
            pods: pods.iter().map(|pod| pod.pod().object.clone()).collect(),
            ..Changes::default()
        };
        let touched = compiler.advance(program, &changes, values);
        (compiler, touched)
    }

    /// The pods whose lists are others now. `changes` must be all that has happened to the program since the last time.
    pub(crate) fn advance(&mut self, program: &Program, changes: &Changes, values: &mut Values) -> Touched {
        let moves = self.places.advance(changes);
        let own_node = self.addresses_of_node(program);
        let is_new = std::mem::replace(&mut self.own_node, own_node) != self.own_node;
        let mut dirty: BTreeSet<Number> = BTreeSet::new();
        for subject in self.refreshed(program, changes, values) {
            dirty.extend(self.keys_of(subject));
        }
        let (mut touched, gone) = self.follow_pods(program, changes, values);
        let mut moved = Vec::new();
        if is_new || moves.len() > MANY_MOVES {
            dirty.extend(self.known.numbers());
        } else if !moves.is_empty() {
            for subject in self.naming.of(&moves) {
                let apart = self.subjects.get(&subject);
                let apart = apart.filter(|subject| subject.said.tells_apart(&moves));
                moved.extend(apart.into_iter().flat_map(|subject| subject.keys.iter().copied()));
            }
            moved.sort_unstable();
            moved.dedup();
            moved.retain(|key| !dirty.contains(key));
        }
        let hosts = match moved.is_empty() {
            true => PerFamily::default(),
            false => PerFamily(Family::BOTH.map(|family| self.moved_hosts(changes, family))),
        };
        let moved = moved.into_iter().map(|key| (key, self.moved(key, &hosts)));
        let moved: Vec<_> = moved.collect();
        for (key, now) in dirty.into_iter().map(|key| (key, None)).chain(moved) {
            let Some(now) = now.or_else(|| Some(self.peers(self.known.key(key)?, values))) else {
                continue;
            };
            looked_at(now.entries().len());
            if let Some(known) = self.known.get_mut(key)
                && *known.peers != now
            {
                known.peers = Arc::new(now);
                touched.extend(known.pods.iter().copied());
            }
        }
        touched.sort_unstable();
        touched.dedup();
        let lists = touched.into_iter().filter_map(|pod| {
            looked_at(1);
            let lists = self.lists(pod)?;
            Some((self.pods.key(pod)?.clone(), Some(Arc::new(lists))))
        });
        gone.into_iter().map(|pod| (pod, None)).chain(lists).collect()
    }

    /// Where pods and nodes are.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    fn addresses_of_node(&self, program: &Program) -> Vec<(IpAddr, Identity)> {
        let node = self.node.as_ref().and_then(|node| program.node(node));
        let addresses = node.into_iter().flat_map(|node| &node.addresses);
        addresses
            .map(|&address| (address, program.identity_of(address)))
            .collect()
    }

    /// Learns what subjects say now; those that say something else.
    fn refreshed(&mut self, program: &Program, changes: &Changes, values: &mut Values) -> Vec<SubjectId> {
        let mut found = Vec::new();
        let naming = &mut self.naming;
        let mut refresh = |id: SubjectId, subject: &mut Subject| {
            if !subject.said.is_current(program, id) {
                naming.remove(id, &subject.said);
                subject.said = Said::of(program, id, values);
                naming.add(id, &subject.said);
                found.push(id);
            }
        };
        if changes.identities {
            for (&id, subject) in &mut self.subjects {
                looked_at(1);
                refresh(id, subject);
            }
        } else {
            for &id in &changes.subjects {
                looked_at(1);
                self.subjects
                    .get_mut(&id)
                    .into_iter()
                    .for_each(|subject| refresh(id, subject));
            }
        }
        found
    }

    fn keys_of(&self, subject: SubjectId) -> impl Iterator<Item = Number> {
        let subject = self.subjects.get(&subject).into_iter();
        subject.flat_map(|subject| subject.keys.iter().copied().inspect(|_| looked_at(1)))
    }

    /// Takes in pods that came, went or are others now; all that may be held to something else because of it, and those that are not
    /// there.
    fn follow_pods(
        &mut self,
        program: &Program,
        changes: &Changes,
        values: &mut Values,
    ) -> (Vec<Number>, Vec<ObjectRef>) {
        let mut touched = Vec::new();
        let mut gone = Vec::new();
        for object in &changes.pods {
            let is_here =
                |pod: &PodRef<'_>| pod.is_managed() && (self.node.is_none() || pod.pod().node == self.node);
            let now = program.pod(object).filter(is_here).map(|pod| OwnPod {
                addresses: pod.pod().addresses,
                all_addresses: pod.pod().addresses.iter().collect(),
                subjects: Direction::BOTH.map(|direction| pod.subject(direction)),
                keys: Default::default(),
            });
            if let Some(number) = self.pods.number(object) {
                let before = self.pods.get(number).map(|pod| (pod.addresses, pod.keys));
                let (addresses, keys) = before.unwrap_or_default();
                for address in addresses.iter() {
                    let others = self.at.entry(address).or_default();
                    others.remove(&number);
                    looked_at(others.len());
                    touched.extend(others.iter().copied());
                    if others.is_empty() {
                        self.at.remove(&address);
                    }
                }
                if now.is_none() {
                    self.leave(number, set(keys));
                    self.pods.remove(number);
                } else if let (Some(known), Some(now)) = (self.pods.get_mut(number), &now) {
                    (known.addresses, known.subjects) = (now.addresses, now.subjects);
                    known.all_addresses = Arc::clone(&now.all_addresses);
                }
            }
            let Some(now) = now else {
                gone.push(object.clone());
                continue;
            };
            let addresses = now.addresses;
            let number = self.pods.number(object);
            let number = number.unwrap_or_else(|| self.pods.insert(object.clone(), now));
            touched.push(number);
            for address in addresses.iter() {
                let others = self.at.entry(address).or_default();
                looked_at(others.len() + 1);
                touched.extend(others.iter().copied());
                others.insert(number);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for &number in &touched {
            self.regroup(number, program, values);
        }
        (touched, gone)
    }

    /// Finds out what a pod is held to.
    fn regroup(&mut self, number: Number, program: &Program, values: &mut Values) {
        let Some(pod) = self.pods.get(number) else { return };
        let before = pod.keys;
        let wanted = DIRECTIONS.map(|direction| Family::BOTH.map(|family| self.key(pod, family, direction)));
        let keys = wanted.map(|keys| keys.map(|key| Some(self.enter(key?, program, values))));
        for key in set(keys) {
            if let Some(known) = self.known.get_mut(key) {
                known.pods.insert(number);
            }
        }
        if let Some(pod) = self.pods.get_mut(number) {
            pod.keys = keys;
        }
        let left = set(before).difference(&set(keys)).copied().collect();
        self.leave(number, left);
    }

    /// The number of a key, of which it is known from now on what it allows.
    fn enter(&mut self, key: Key, program: &Program, values: &mut Values) -> Number {
        if let Some(number) = self.known.number(&key) {
            return number;
        }
        for &subject in &key.1 {
            self.subjects.entry(subject).or_insert_with(|| {
                let said = Said::of(program, subject, values);
                self.naming.add(subject, &said);
                Subject {
                    said,
                    keys: BTreeSet::new(),
                }
            });
        }
        let peers = Arc::new(self.peers(&key, values));
        let pods = BTreeSet::new();
        let subjects = key.1.clone();
        let number = self.known.insert(key, Known { peers, pods });
        for subject in subjects {
            if let Some(known) = self.subjects.get_mut(&subject) {
                known.keys.insert(number);
            }
        }
        number
    }

    /// A pod is not held to these any more.
    fn leave(&mut self, pod: Number, keys: BTreeSet<Number>) {
        for key in keys {
            let Some(known) = self.known.get_mut(key) else {
                continue;
            };
            known.pods.remove(&pod);
            if !known.pods.is_empty() {
                continue;
            }
            let Some((_, subjects)) = self.known.remove(key) else {
                continue;
            };
            for id in subjects {
                if let Some(subject) = self.subjects.get_mut(&id) {
                    subject.keys.remove(&key);
                    if subject.keys.is_empty() {
                        self.naming.remove(id, &subject.said);
                        self.subjects.remove(&id);
                    }
                }
            }
        }
    }

    fn key(&self, pod: &OwnPod, family: Family, direction: Direction) -> Option<Key> {
        let pods = self.at.get(&pod.addresses.of(family)?)?;
        let subjects = pods.iter().filter_map(|&pod| {
            looked_at(1);
            let [one, other] = self.pods.get(pod)?.subjects;
            let [first, _] = Direction::BOTH;
            if direction == first { one } else { other }
        });
        let subjects: BTreeSet<_> = subjects.collect();
        Some((family, subjects.into_iter().collect()))
    }

    /// What is allowed where all subjects of a key apply.
    fn peers(&self, (family, subjects): &Key, values: &mut Values) -> Peers {
        let known = subjects.iter().filter_map(|subject| self.subjects.get(subject));
        let each = known.map(|subject| subject.said.peers(*family, &self.places, &self.own_node));
        each.reduce(|one, other| one.common(&other, values))
            .unwrap_or_else(|| Peers::everybody(*family, Value::EVERYTHING))
    }

    /// The addresses that have other identities now, where lists can take them in one by one; `None` where it takes all to tell.
    fn moved_hosts(&self, changes: &Changes, family: Family) -> Option<Vec<MovedHost>> {
        if !changes.prefixes.is_empty() {
            return None;
        }
        let addresses = changes.addresses.keys().copied();
        let addresses = addresses.filter(|&address| Family::of(address) == family);
        let hosts = addresses.map(|address| {
            looked_at(1 + self.own_node.len());
            let beside = beside(address);
            let is_here = |own: IpAddr| own == address || own == beside;
            let is_region = |address| self.places.regions(family).has(&Prefix::host(address));
            if is_region(address)
                || is_region(beside)
                || changes.addresses.contains_key(&beside)
                || self.own_node.iter().any(|(own, _)| is_here(*own))
            {
                return None;
            }
            Some(MovedHost {
                address,
                identity: self.places.identity(address)?,
                beside: self.places.held(beside),
            })
        });
        hosts.collect()
    }

    /// What a key allows where of what it is made from nothing has changed but who has some addresses; `None` where it takes all to tell.
    fn moved(&self, key: Number, hosts: &PerFamily<Option<Vec<MovedHost>>>) -> Option<Peers> {
        let (family, subjects) = self.known.key(key)?;
        let &[subject] = &**subjects else { return None };
        let said = &self.subjects.get(&subject)?.said;
        let hosts = hosts.of(*family).as_ref()?;
        // What is said of the address beside could be joined with what is said of this one.
        let is_named = |&(own, region)| said.value(own, *family) != said.value(region, *family);
        if hosts
            .iter()
            .any(|host| host.beside.as_ref().is_some_and(is_named))
        {
            return None;
        }
        let hosts = hosts.iter();
        let hosts = hosts.map(|host| (host.address, said.value(host.identity, *family)));
        Some(self.known.get(key)?.peers.with_hosts(hosts))
    }

    fn lists(&self, pod: Number) -> Option<Lists> {
        let pod = self.pods.get(pod)?;
        let [ingress, egress] = pod.keys.each_ref().map(|keys| {
            keys.each_ref().map(|key| {
                let known = self.known.get((*key)?)?;
                Some(Arc::clone(&known.peers))
            })
        });
        Some(Lists {
            addresses: Arc::clone(&pod.all_addresses),
            ingress,
            egress,
            isolated: pod.subjects.each_ref().map(Option::is_some),
        })
    }
}

/// What a pod may receive, and what it may send.
const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// Each key once.
fn set(keys: Keys) -> BTreeSet<Number> {
    keys.into_iter().flatten().flatten().collect()
}
