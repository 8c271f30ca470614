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
use crate::changes::Changes;
use crate::peers::{Peers, beside};
use crate::place::Places;
use crate::value::{Value, Values};

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
    pods: BTreeMap<ObjectRef, OwnPod>,
    /// The pods that have an address. Those that have one, as one that ends and the next one do, are all held to what each
    /// of them may do.
    at: BTreeMap<IpAddr, BTreeSet<ObjectRef>>,
    subjects: BTreeMap<SubjectId, Subject>,
    naming: Naming,
    known: BTreeMap<Key, Known>,
}

#[derive(Debug)]
struct OwnPod {
    addresses: Addresses,
    subjects: [Option<SubjectId>; 2],
    /// What it is held to in each of [`DIRECTIONS`], for each family.
    keys: [[Option<Key>; 2]; 2],
}

#[derive(Debug)]
struct Subject {
    said: Said,
    keys: BTreeSet<Key>,
}

#[derive(Debug)]
struct Known {
    peers: Arc<Peers>,
    pods: BTreeSet<ObjectRef>,
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
        let mut dirty: BTreeSet<Key> = BTreeSet::new();
        for subject in self.refreshed(program, changes, values) {
            dirty.extend(self.keys_of(subject));
        }
        let mut touched = self.follow_pods(program, changes, values);
        let mut moved = BTreeSet::new();
        if is_new || moves.len() > MANY_MOVES {
            dirty.extend(self.known.keys().cloned());
        } else if !moves.is_empty() {
            for subject in self.naming.of(&moves) {
                let apart = self.subjects.get(&subject);
                let apart = apart.filter(|subject| subject.said.tells_apart(&moves));
                moved.extend(apart.into_iter().flat_map(|subject| subject.keys.iter().cloned()));
            }
        }
        for key in dirty.union(&moved) {
            let now = match dirty.contains(key) {
                true => None,
                false => self.moved(key, changes),
            };
            let now = now.unwrap_or_else(|| self.peers(key, values));
            if let Some(known) = self.known.get_mut(key)
                && *known.peers != now
            {
                known.peers = Arc::new(now);
                touched.extend(known.pods.iter().cloned());
            }
        }
        let lists = touched.into_iter().map(|pod| {
            let lists = self.lists(&pod).map(Arc::new);
            (pod, lists)
        });
        lists.collect()
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
                refresh(id, subject);
            }
        } else {
            for &id in &changes.subjects {
                self.subjects
                    .get_mut(&id)
                    .into_iter()
                    .for_each(|subject| refresh(id, subject));
            }
        }
        found
    }

    fn keys_of(&self, subject: SubjectId) -> impl Iterator<Item = Key> {
        let subject = self.subjects.get(&subject).into_iter();
        subject.flat_map(|subject| subject.keys.iter().cloned())
    }

    /// Takes in pods that came, went or are others now; all that are held to something else because of it.
    fn follow_pods(
        &mut self,
        program: &Program,
        changes: &Changes,
        values: &mut Values,
    ) -> BTreeSet<ObjectRef> {
        let mut touched = BTreeSet::new();
        for object in &changes.pods {
            let is_here =
                |pod: &PodRef<'_>| pod.is_managed() && (self.node.is_none() || pod.pod().node == self.node);
            let mut now = program.pod(object).filter(is_here).map(|pod| OwnPod {
                addresses: pod.pod().addresses,
                subjects: Direction::BOTH.map(|direction| pod.subject(direction)),
                keys: Default::default(),
            });
            touched.insert(object.clone());
            if let Some(before) = self.pods.remove(object) {
                for address in before.addresses.iter() {
                    let others = self.at.entry(address).or_default();
                    others.remove(object);
                    touched.extend(others.iter().cloned());
                    if others.is_empty() {
                        self.at.remove(&address);
                    }
                }
                match &mut now {
                    Some(now) => now.keys = before.keys,
                    None => self.leave(object, &set(&before.keys)),
                }
            }
            if let Some(now) = now {
                for address in now.addresses.iter() {
                    let others = self.at.entry(address).or_default();
                    touched.extend(others.iter().cloned());
                    others.insert(object.clone());
                }
                self.pods.insert(object.clone(), now);
            }
        }
        for object in &touched {
            self.regroup(object, program, values);
        }
        touched
    }

    /// Finds out what a pod is held to.
    fn regroup(&mut self, object: &ObjectRef, program: &Program, values: &mut Values) {
        let Some(pod) = self.pods.get(object) else { return };
        let keys = DIRECTIONS.map(|direction| Family::BOTH.map(|family| self.key(pod, family, direction)));
        let wanted = set(&keys);
        for key in &wanted {
            if !self.known.contains_key(key) {
                for &subject in &key.1 {
                    let known = self.subjects.entry(subject).or_insert_with(|| {
                        let said = Said::of(program, subject, values);
                        self.naming.add(subject, &said);
                        Subject {
                            said,
                            keys: BTreeSet::new(),
                        }
                    });
                    known.keys.insert(key.clone());
                }
                let peers = Arc::new(self.peers(key, values));
                let pods = BTreeSet::new();
                self.known.insert(key.clone(), Known { peers, pods });
            }
            if let Some(known) = self.known.get_mut(key) {
                known.pods.insert(object.clone());
            }
        }
        if let Some(pod) = self.pods.get_mut(object) {
            let before = set(&std::mem::replace(&mut pod.keys, keys));
            self.leave(object, &before.difference(&wanted).cloned().collect());
        }
    }

    /// A pod is not held to these any more.
    fn leave(&mut self, object: &ObjectRef, keys: &BTreeSet<Key>) {
        for key in keys {
            let Some(known) = self.known.get_mut(key) else {
                continue;
            };
            known.pods.remove(object);
            if !known.pods.is_empty() {
                continue;
            }
            self.known.remove(key);
            for id in &key.1 {
                if let Some(subject) = self.subjects.get_mut(id) {
                    subject.keys.remove(key);
                    if subject.keys.is_empty() {
                        self.naming.remove(*id, &subject.said);
                        self.subjects.remove(id);
                    }
                }
            }
        }
    }

    fn key(&self, pod: &OwnPod, family: Family, direction: Direction) -> Option<Key> {
        let pods = self.at.get(&pod.addresses.of(family)?)?;
        let subjects = pods.iter().filter_map(|pod| {
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

    /// What a key allows where of what it is made from nothing has changed but who has some addresses; `None` where it takes all to tell.
    fn moved(&self, key: &Key, changes: &Changes) -> Option<Peers> {
        let (family, subjects) = key;
        let &[subject] = &**subjects else { return None };
        let said = &self.subjects.get(&subject)?.said;
        if !changes.prefixes.is_empty() {
            return None;
        }
        let addresses = changes.addresses.keys().copied();
        let addresses = addresses.filter(|&address| Family::of(address) == *family);
        let mut hosts = Vec::new();
        for address in addresses {
            let beside = beside(address);
            let is_own = |own: IpAddr| own == address || own == beside;
            let is_region = self.places.regions(*family).has(&Prefix::host(address));
            if is_region
                || said.names(beside, &self.places)
                || changes.addresses.contains_key(&beside)
                || self.own_node.iter().any(|(own, _)| is_own(*own))
            {
                return None;
            }
            hosts.push((address, said.value(address, &self.places)?));
        }
        Some(self.known.get(key)?.peers.with_hosts(hosts))
    }

    fn lists(&self, object: &ObjectRef) -> Option<Lists> {
        let pod = self.pods.get(object)?;
        let [ingress, egress] = pod.keys.each_ref().map(|keys| {
            keys.each_ref().map(|key| {
                let known = self.known.get(key.as_ref()?)?;
                Some(Arc::clone(&known.peers))
            })
        });
        Some(Lists {
            addresses: pod.addresses.iter().collect(),
            ingress,
            egress,
            is_unknown: pod.addresses.is_empty() && pod.subjects.iter().any(Option::is_some),
        })
    }
}

/// What a pod may receive, and what it may send.
const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// Each key once.
fn set(keys: &[[Option<Key>; 2]; 2]) -> BTreeSet<Key> {
    keys.iter().flatten().flatten().cloned().collect()
}
