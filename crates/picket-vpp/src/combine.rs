//! Both directions of the pods of a node in one, as targets need it that can only judge what goes to a pod, or what comes
//! from one.

mod admission;
mod holders;
mod prefixes;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{Family, Prefix};
use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;

use crate::lists::{Lists, Restricted, Turn};
use crate::peers::Peers;
use crate::value::{Value, Values};
use admission::Admission;
use holders::Holders;
use prefixes::place;
use table::{Corrections, Table, Tables};

/// What each pod of a node may exchange with whom in one direction when what other pods of the node may exchange with it in
/// the other direction counts too.
///
/// Follows pods one by one: what is worked out again is what a pod that changed is allowed with others, and others with it.
///
/// A pod is held to what it may itself do there, as if it were another: so pods that are alike have one table. That a pod
/// always reaches itself is not said here.
#[derive(Debug)]
pub(crate) struct Combined<K> {
    direction: Direction,
    /// The pods that something restricts in the other direction.
    restricted: Restricted<K>,
    families: [Combiner<K>; 2],
}

/// The addresses of one family.
#[derive(Debug)]
struct Combiner<K> {
    family: Family,
    /// What always passes: no list allows less.
    floor: Value,
    pods: FxHashMap<K, Own>,
    /// The pods by the address that others know them by.
    at: BTreeMap<IpAddr, BTreeSet<K>>,
    holders: Holders,
    admission: Admission<K>,
    tables: Tables,
    /// The table of the last pod that nothing restricts in the other direction, and of which nobody says what he does not say
    /// of everybody: the next one with such a list has it too.
    of_anybody: Option<Arc<Table>>,
}

/// A pod with an address of the family.
#[derive(Debug)]
struct Own {
    address: IpAddr,
    /// What its own list says, as it is known to `admission`.
    list: Arc<Peers>,
    table: Arc<Table>,
}

/// The lists of pods, before and now, each pod once.
pub(crate) type Changed<K> = [(K, [Option<Arc<Lists>>; 2])];

/// Up to so many pods are asked one by one whether they are concerned.
const FEW: usize = 32;

impl<K: Ord + Hash + Clone> Combined<K> {
    /// Nobody. No list allows less than `floor` of its family.
    pub(crate) fn new(direction: Direction, floor: [Value; 2]) -> Self {
        let [v4, v6] = floor;
        let combiner = |family, floor| Combiner {
            family,
            floor,
            pods: FxHashMap::default(),
            at: BTreeMap::new(),
            holders: Holders::default(),
            admission: Admission::default(),
            tables: Tables::default(),
            of_anybody: None,
        };
        Self {
            direction,
            restricted: Restricted::new(opposite(direction)),
            families: [combiner(Family::Ipv4, v4), combiner(Family::Ipv6, v6)],
        }
    }

    /// These pods have other lists now, or with `None` they are gone: all pods for which something else holds because of
    /// it, those that are gone among them, each once; and the addresses at which something else restricts pods in the other direction.
    pub(crate) fn advance(
        &mut self,
        changed: &Changed<K>,
        values: &mut Values,
    ) -> (Vec<K>, BTreeSet<IpAddr>) {
        let mut turns = Vec::new();
        for (pod, lists) in changed {
            let lists = lists.each_ref().map(Option::as_deref);
            self.restricted.follow(pod, lists, &mut turns);
        }
        // Those of IPv4 come first.
        turns.sort_by_key(|(address, _)| *address);
        let (v4, v6) = turns.split_at(turns.partition_point(|(address, _)| address.is_ipv4()));
        let mut touched = Vec::new();
        for (combiner, turns) in self.families.iter_mut().zip([v4, v6]) {
            let (direction, restricted) = (self.direction, &self.restricted);
            combiner.advance(changed, direction, turns, restricted, values, &mut touched);
        }
        touched.sort_unstable();
        touched.dedup();
        (touched, turns.into_iter().map(|(address, _)| address).collect())
    }

    /// What holds for a pod, of each family that it has an address of.
    pub(crate) fn of(&self, pod: &K) -> [Option<&Arc<Peers>>; 2] {
        self.families
            .each_ref()
            .map(|combiner| combiner.pods.get(pod).map(|own| own.table.peers()))
    }

    /// The pods that something restricts in the other direction.
    pub(crate) fn restricted(&self) -> &Restricted<K> {
        &self.restricted
    }
}

impl<K: Ord + Hash + Clone> Combiner<K> {
    fn advance(
        &mut self,
        changed: &Changed<K>,
        direction: Direction,
        turns: &[(IpAddr, Turn)],
        restricted: &Restricted<K>,
        values: &mut Values,
        touched: &mut Vec<K>,
    ) {
        if !turns.is_empty() {
            self.holders.follow(turns);
            self.of_anybody = None;
        }
        let mut fresh = BTreeSet::new();
        // The addresses with which pods may be allowed something else; `None` where their own list is another.
        let mut asked: Vec<(K, Option<IpAddr>)> = Vec::new();
        let mut own_turns = Vec::new();
        // Many pods turn from one list to another.
        let mut few_between = FxHashMap::default();
        for (pod, [_, now]) in changed {
            let own = now.as_ref().and_then(|lists| self.own(lists, direction));
            match self.enter(pod, own, &mut own_turns) {
                Entered::Same => {}
                Entered::Gone => touched.push(pod.clone()),
                Entered::New => drop(fresh.insert(pod)),
                Entered::Other([before, now]) => {
                    let few = few_between
                        .entry([place(&before), place(&now)])
                        .or_insert_with(|| few_within(restricted, &before.differing(&now)));
                    match few {
                        Some(few) => {
                            asked.push((pod.clone(), None));
                            asked.extend(few.iter().map(|&address| (pod.clone(), Some(address))));
                        }
                        None => drop(fresh.insert(pod)),
                    }
                    own_turns.push((pod.clone(), [Some(before), Some(now)]));
                }
            }
        }
        let admits = |value| value != self.floor && value != Value::NOTHING;
        self.admission.follow(&own_turns, admits);
        for &pod in &fresh {
            let table = self.whole_table(pod, restricted, values);
            if let (Some(own), Some(table)) = (self.pods.get_mut(pod), table) {
                own.table = table;
                touched.push(pod.clone());
            }
        }
        // The tables of those that are new have it already.
        if self.pods.len() > fresh.len() {
            let concerned = self.concerned(turns).into_iter();
            let concerned = concerned.filter(|(pod, _)| !fresh.contains(pod));
            asked.extend(concerned.map(|(pod, address)| (pod, Some(address))));
        }
        self.correct(asked, restricted, values, touched);
    }

    /// Puts into the tables of pods what may be another there: with these addresses, or their own list.
    fn correct(
        &mut self,
        mut asked: Vec<(K, Option<IpAddr>)>,
        restricted: &Restricted<K>,
        values: &mut Values,
        touched: &mut Vec<K>,
    ) {
        asked.sort_unstable();
        asked.dedup();
        let mut done = Corrections::default();
        // What is held to at each address.
        let mut held: FxHashMap<IpAddr, Vec<&Peers>> = FxHashMap::default();
        for asked in asked.chunk_by(|(one, _), (other, _)| one == other) {
            let Some((pod, _)) = asked.first() else { continue };
            let Some(own) = self.pods.get(pod) else { continue };
            let each = asked.iter().filter_map(|(_, address)| *address);
            let each = each.map(|address| {
                let theirs = held.entry(address).or_insert_with(|| {
                    let all = restricted.each_at(address);
                    all.map(|(_, theirs)| &**theirs).collect()
                });
                let theirs = theirs.iter().map(|theirs| theirs.value(own.address));
                (address, self.entry_of(own, address, theirs, values))
            });
            let corrections: Vec<_> = each
                .filter(|(address, now)| *now != own.table.entry(*address))
                .collect();
            if corrections.is_empty() && Arc::ptr_eq(own.table.own(), &own.list) {
                continue;
            }
            if let Some(own) = self.pods.get_mut(pod) {
                own.table = self
                    .tables
                    .corrected(&own.table, &own.list, corrections, &mut done);
                touched.push(pod.clone());
            }
        }
    }

    /// The address that others know a pod by, and what it may itself exchange.
    fn own(&self, lists: &Lists, direction: Direction) -> Option<(IpAddr, Arc<Peers>)> {
        let list = Arc::clone(lists.peers(direction, self.family)?);
        let mut addresses = lists.addresses.iter().copied();
        let address = addresses.find(|&address| Family::of(address) == self.family)?;
        Some((address, list))
    }

    /// Takes in what a pod's own list is now, which `turns` learns of where the pod comes, goes, or has another address.
    fn enter(&mut self, pod: &K, now: Option<(IpAddr, Arc<Peers>)>, turns: &mut Vec<(K, Turn)>) -> Entered {
        match (self.pods.get_mut(pod), &now) {
            (None, None) => return Entered::Same,
            (Some(known), Some((address, list))) if known.address == *address => {
                if known.list == *list {
                    return Entered::Same;
                }
                let before = std::mem::replace(&mut known.list, Arc::clone(list));
                return Entered::Other([before, Arc::clone(list)]);
            }
            _ => {}
        }
        let before = self.pods.remove(pod);
        if let Some(gone) = &before
            && let Some(others) = self.at.get_mut(&gone.address)
        {
            others.remove(pod);
            if others.is_empty() {
                self.at.remove(&gone.address);
            }
        }
        let list = now.as_ref().map(|(_, list)| Arc::clone(list));
        turns.push((pod.clone(), [before.map(|own| own.list), list]));
        let Some((address, list)) = now else {
            return Entered::Gone;
        };
        self.at.entry(address).or_default().insert(pod.clone());
        let table = Arc::new(Table::of(Arc::clone(&list)));
        let own = Own { address, list, table };
        self.pods.insert(pod.clone(), own);
        Entered::New
    }

    /// What a pod is allowed with an address of the node, where that is not what its own list says.
    fn entry(
        &self,
        own: &Own,
        address: IpAddr,
        restricted: &Restricted<K>,
        values: &mut Values,
    ) -> Option<Value> {
        // Where pods share an address, what each may do counts.
        let theirs = restricted.each_at(address);
        let theirs = theirs.map(|(_, theirs)| theirs.value(own.address));
        self.entry_of(own, address, theirs, values)
    }

    /// The same where those at the address allow these.
    fn entry_of(
        &self,
        own: &Own,
        address: IpAddr,
        theirs: impl IntoIterator<Item = Value>,
        values: &mut Values,
    ) -> Option<Value> {
        let said = own.list.value(address);
        let mut value = said;
        for theirs in theirs {
            value = values.common(value, theirs);
        }
        // What has no more than the floor in it is not looked at.
        (value != said && said != self.floor && said != Value::NOTHING).then_some(value)
    }

    /// The table of a pod of which nothing but its own list is known.
    fn whole_table(
        &mut self,
        pod: &K,
        restricted: &Restricted<K>,
        values: &mut Values,
    ) -> Option<Arc<Table>> {
        let own = self.pods.get(pod)?;
        let is_anybody = self.holders.name_nowhere(own.address);
        if let Some(known) = self.of_anybody.as_ref().filter(|_| is_anybody)
            && *known.own() == own.list
        {
            return Some(Arc::clone(known));
        }
        let entries = self.all_entries(own, restricted, values);
        let table = self.tables.with(&own.list, entries);
        if is_anybody {
            self.of_anybody = Some(Arc::clone(&table));
        }
        Some(table)
    }

    fn all_entries(
        &self,
        own: &Own,
        restricted: &Restricted<K>,
        values: &mut Values,
    ) -> Vec<(IpAddr, Value)> {
        // Where its own list allows more than the floor.
        let allowed = own.list.entries().iter();
        let allowed = allowed.filter(|entry| entry.value != self.floor && entry.value != Value::NOTHING);
        let allowed: Vec<_> = allowed.map(|entry| entry.prefix).collect();
        if let Some(few) = few_within(restricted, &allowed) {
            let each = few.into_iter().map(|address| {
                let value = self.entry(own, address, restricted, values);
                value.map(|value| (address, value))
            });
            return each.flatten().collect();
        }
        let mut less: Vec<_> = self.holders.not_allowing(own.address).collect();
        less.sort_unstable();
        less.dedup();
        let mut found = Vec::with_capacity(less.len());
        for held in less.chunk_by(|(one, _), (other, _)| one == other) {
            let value = match held {
                &[(address, value)] => self.entry_of(own, address, [value], values),
                &[(address, _), ..] => self.entry(own, address, restricted, values),
                [] => None,
            };
            let address = held.first().map(|(address, _)| *address);
            found.extend(address.zip(value));
        }
        found
    }

    /// The pods of which it can be otherwise what they are allowed with addresses where others are held to something else: few more
    /// than those of which it is.
    fn concerned(&self, turns: &[(IpAddr, Turn)]) -> Vec<(K, IpAddr)> {
        let mut found = Vec::new();
        // Many addresses turn from one list to another.
        let mut between = FxHashMap::default();
        for turns in turns.chunk_by(|(one, _), (other, _)| one == other) {
            let Some(&(address, _)) = turns.first() else {
                continue;
            };
            let mut few: Option<BTreeSet<&K>> = Some(BTreeSet::new());
            for (_, turn) in turns {
                let key = turn.each_ref().map(|list| list.as_ref().map_or(0, place));
                let here = between.entry(key).or_insert_with(|| self.few_here(turn));
                few = few.zip(here.as_ref()).map(|(few, here)| &few | here);
            }
            match few {
                Some(few) => found.extend(few.into_iter().map(|pod| (pod.clone(), address))),
                None => found.extend(self.admission.of(address).map(|pod| (pod.clone(), address))),
            }
        }
        found
    }

    /// The pods at the addresses of which two lists say something else, where they are few.
    fn few_here(&self, [before, now]: &Turn) -> Option<BTreeSet<&K>> {
        let mut few = BTreeSet::new();
        for prefix in differing(before.as_deref(), now.as_deref(), self.family) {
            let here = self.at.range(prefix.first()..=prefix.last());
            few.extend(here.flat_map(|(_, pods)| pods).take(FEW + 1));
            if few.len() > FEW {
                return None;
            }
        }
        Some(few)
    }
}

/// The addresses within prefixes at which somebody is held to something, where they are few.
fn few_within<K: Ord + Clone>(restricted: &Restricted<K>, prefixes: &[Prefix]) -> Option<BTreeSet<IpAddr>> {
    let mut few = BTreeSet::new();
    for prefix in prefixes {
        let within = restricted.between(prefix.first(), prefix.last());
        few.extend(within.take(FEW + 1));
        if few.len() > FEW {
            return None;
        }
    }
    Some(few)
}

/// What became of a pod's own list.
enum Entered {
    Same,
    Gone,
    New,
    /// It is another, at the same address: the one before, and this one.
    Other([Arc<Peers>; 2]),
}

/// Prefixes outside of which two lists say the same, where no list is one that allows everything.
fn differing(one: Option<&Peers>, other: Option<&Peers>, family: Family) -> Vec<Prefix> {
    match (one, other) {
        (Some(one), Some(other)) => one.differing(other),
        _ => vec![Prefix::all(family)],
    }
}

/// What each pod of a node may exchange with whom in one direction when what other pods of the node may exchange with it in
/// the other direction counts too: IPv4 and IPv6, where it has such an address.
pub fn tables(
    pods: &BTreeMap<ObjectRef, Lists>,
    direction: Direction,
    values: &mut Values,
) -> BTreeMap<ObjectRef, [Option<Arc<Peers>>; 2]> {
    let mut combined = Combined::new(direction, [Value::NOTHING; 2]);
    let lists = pods.iter();
    let all = lists.map(|(pod, lists)| (pod, [None, Some(Arc::new(lists.clone()))]));
    combined.advance(&all.collect::<Vec<_>>(), values);
    let of = |pod| combined.of(&pod).map(|peers| peers.cloned());
    pods.keys().map(|pod| (pod.clone(), of(pod))).collect()
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Ingress => Direction::Egress,
        Direction::Egress => Direction::Ingress,
    }
}
