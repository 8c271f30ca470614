//! Both directions of the pods of a node in one, as targets need it that can only judge what goes to a pod, or what comes
//! from one.

mod admission;
mod holders;
mod prefixes;
mod table;

use std::collections::{BTreeMap, BTreeSet};
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
pub(crate) struct Combined {
    direction: Direction,
    families: [Combiner; 2],
}

/// The addresses of one family.
#[derive(Debug)]
struct Combiner {
    family: Family,
    /// What always passes: no list allows less.
    floor: Value,
    pods: FxHashMap<ObjectRef, Own>,
    /// The pods by the address that others know them by.
    at: BTreeMap<IpAddr, BTreeSet<ObjectRef>>,
    /// The pods that something restricts in the other direction.
    restricted: Restricted,
    holders: Holders,
    admission: Admission,
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

/// Up to so many pods are asked one by one whether they are concerned.
const FEW: usize = 32;

impl Combined {
    /// Nobody. No list allows less than `floor` of its family.
    pub(crate) fn new(direction: Direction, floor: [Value; 2]) -> Self {
        let [v4, v6] = floor;
        let combiner = |family, floor| Combiner {
            family,
            floor,
            pods: FxHashMap::default(),
            at: BTreeMap::new(),
            restricted: Restricted::new(opposite(direction)),
            holders: Holders::default(),
            admission: Admission::default(),
            tables: Tables::default(),
            of_anybody: None,
        };
        Self {
            direction,
            families: [combiner(Family::Ipv4, v4), combiner(Family::Ipv6, v6)],
        }
    }

    /// These pods have other lists now, or with `None` they are gone: all pods for which something else holds because of
    /// it, those that are gone among them.
    pub(crate) fn advance(
        &mut self,
        changes: &BTreeMap<ObjectRef, [Option<Arc<Lists>>; 2]>,
        values: &mut Values,
    ) -> BTreeSet<ObjectRef> {
        let direction = self.direction;
        let families = self.families.iter_mut();
        families
            .flat_map(|combiner| combiner.advance(changes, direction, values))
            .collect()
    }

    /// What holds for a pod, of each family that it has an address of.
    pub(crate) fn of(&self, pod: &ObjectRef) -> [Option<&Arc<Peers>>; 2] {
        self.families
            .each_ref()
            .map(|combiner| combiner.pods.get(pod).map(|own| own.table.peers()))
    }
}

impl Combiner {
    fn advance(
        &mut self,
        changes: &BTreeMap<ObjectRef, [Option<Arc<Lists>>; 2]>,
        direction: Direction,
        values: &mut Values,
    ) -> BTreeSet<ObjectRef> {
        let mut turns: BTreeMap<IpAddr, Vec<Turn>> = BTreeMap::new();
        for (pod, [before, now]) in changes {
            let lists = [before.as_deref(), now.as_deref()];
            for (address, turn) in self.restricted.follow(pod, lists, &[self.family]) {
                turns.entry(address).or_default().push(turn);
            }
        }
        if !turns.is_empty() {
            self.holders.follow(&turns);
            self.of_anybody = None;
        }
        let mut touched = BTreeSet::new();
        let mut fresh = BTreeSet::new();
        // The addresses with which pods may be allowed something else.
        let mut asked: BTreeMap<ObjectRef, BTreeSet<IpAddr>> = BTreeMap::new();
        let mut own_turns = Vec::new();
        for (pod, [_, now]) in changes {
            let own = now.as_ref().and_then(|lists| self.own(lists, direction));
            match self.enter(pod, own, &mut own_turns) {
                Entered::Same => {}
                Entered::Gone => drop(touched.insert(pod.clone())),
                Entered::New => drop(fresh.insert(pod)),
                Entered::Other(differing) => match self.few_within(&differing) {
                    Some(few) => drop(asked.insert(pod.clone(), few)),
                    None => drop(fresh.insert(pod)),
                },
            }
        }
        let admits = |value| value != self.floor && value != Value::NOTHING;
        self.admission.follow(&own_turns, admits);
        for &pod in &fresh {
            let table = self.whole_table(pod, values);
            if let (Some(own), Some(table)) = (self.pods.get_mut(pod), table) {
                own.table = table;
                touched.insert(pod.clone());
            }
        }
        // The tables of those that are new have it already.
        if self.pods.len() > fresh.len() {
            for (pod, address) in self.concerned(&turns) {
                if !fresh.contains(&pod) {
                    asked.entry(pod).or_default().insert(address);
                }
            }
        }
        touched.extend(self.correct(asked, values));
        touched
    }

    /// Asks again what pods may exchange with addresses, and puts what is otherwise into their tables; the pods of which these change.
    fn correct(
        &mut self,
        asked: BTreeMap<ObjectRef, BTreeSet<IpAddr>>,
        values: &mut Values,
    ) -> BTreeSet<ObjectRef> {
        let mut touched = BTreeSet::new();
        let mut done = Corrections::default();
        for (pod, addresses) in asked {
            let Some(own) = self.pods.get(&pod) else { continue };
            let each = addresses
                .into_iter()
                .map(|address| (address, self.entry(own, address, values)));
            let corrections: Vec<_> = each
                .filter(|(address, now)| *now != own.table.entry(*address))
                .collect();
            if corrections.is_empty() && Arc::ptr_eq(own.table.own(), &own.list) {
                continue;
            }
            if let Some(own) = self.pods.get_mut(&pod) {
                own.table = self
                    .tables
                    .corrected(&own.table, &own.list, corrections, &mut done);
                touched.insert(pod);
            }
        }
        touched
    }

    /// The address that others know a pod by, and what it may itself exchange.
    fn own(&self, lists: &Lists, direction: Direction) -> Option<(IpAddr, Arc<Peers>)> {
        let list = Arc::clone(lists.peers(direction, self.family)?);
        let mut addresses = lists.addresses.iter().copied();
        let address = addresses.find(|&address| Family::of(address) == self.family)?;
        Some((address, list))
    }

    /// Takes in what a pod's own list is now, which `turns` learns of.
    fn enter(
        &mut self,
        pod: &ObjectRef,
        now: Option<(IpAddr, Arc<Peers>)>,
        turns: &mut Vec<(ObjectRef, Turn)>,
    ) -> Entered {
        match (self.pods.get_mut(pod), &now) {
            (None, None) => return Entered::Same,
            (Some(known), Some((address, list))) if known.address == *address => {
                if known.list == *list {
                    return Entered::Same;
                }
                let before = std::mem::replace(&mut known.list, Arc::clone(list));
                let differing = before.differing(list);
                turns.push((pod.clone(), [Some(before), Some(Arc::clone(list))]));
                return Entered::Other(differing);
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

    /// The addresses within prefixes at which somebody is held to something, where they are few.
    fn few_within(&self, prefixes: &[Prefix]) -> Option<BTreeSet<IpAddr>> {
        let mut few = BTreeSet::new();
        for prefix in prefixes {
            let within = self.restricted.between(prefix.first(), prefix.last());
            few.extend(within.take(FEW + 1));
            if few.len() > FEW {
                return None;
            }
        }
        Some(few)
    }

    /// What a pod is allowed with an address of the node, where that is not what its own list says.
    fn entry(&self, own: &Own, address: IpAddr, values: &mut Values) -> Option<Value> {
        // Where pods share an address, what each may do counts.
        let theirs = self.restricted.each_at(address);
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
    fn whole_table(&mut self, pod: &ObjectRef, values: &mut Values) -> Option<Arc<Table>> {
        let own = self.pods.get(pod)?;
        let is_anybody = self.holders.name_nowhere(own.address);
        if let Some(known) = self.of_anybody.as_ref().filter(|_| is_anybody)
            && *known.own() == own.list
        {
            return Some(Arc::clone(known));
        }
        let entries = self.all_entries(own, values);
        let table = self.tables.with(&own.list, entries);
        if is_anybody {
            self.of_anybody = Some(Arc::clone(&table));
        }
        Some(table)
    }

    fn all_entries(&self, own: &Own, values: &mut Values) -> Vec<(IpAddr, Value)> {
        // Where its own list allows more than the floor.
        let allowed = own.list.entries().iter();
        let allowed = allowed.filter(|entry| entry.value != self.floor && entry.value != Value::NOTHING);
        let allowed: Vec<_> = allowed.map(|entry| entry.prefix).collect();
        if let Some(few) = self.few_within(&allowed) {
            let each = few.into_iter().map(|address| {
                let value = self.entry(own, address, values);
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
                &[(address, _), ..] => self.entry(own, address, values),
                [] => None,
            };
            let address = held.first().map(|(address, _)| *address);
            found.extend(address.zip(value));
        }
        found
    }

    /// The pods of which it can be otherwise what they are allowed with addresses where others are held to something else: few more
    /// than those of which it is.
    fn concerned(&self, turns: &BTreeMap<IpAddr, Vec<Turn>>) -> Vec<(ObjectRef, IpAddr)> {
        let mut found = Vec::new();
        // Many addresses turn from one list to another.
        let mut between = FxHashMap::default();
        for (&address, turns) in turns {
            let mut few: Option<BTreeSet<&ObjectRef>> = Some(BTreeSet::new());
            for turn in turns {
                let key = turn.each_ref().map(|list| list.as_ref().map_or(0, place));
                let here = between.entry(key).or_insert_with(|| self.few_here(turn));
                few = few.zip(here.as_ref()).map(|(few, here)| &few | here);
            }
            match few {
                Some(few) => found.extend(few.into_iter().map(|pod| (pod.clone(), address))),
                None => found.extend(self.admission.of(address).into_iter().map(|pod| (pod, address))),
            }
        }
        found
    }

    /// The pods at the addresses of which two lists say something else, where they are few.
    fn few_here(&self, [before, now]: &Turn) -> Option<BTreeSet<&ObjectRef>> {
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

/// What became of a pod's own list.
enum Entered {
    Same,
    Gone,
    New,
    /// It is another, at the same address, and says the same outside of these prefixes.
    Other(Vec<Prefix>),
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
    let all = lists.map(|(pod, lists)| (pod.clone(), [None, Some(Arc::new(lists.clone()))]));
    combined.advance(&all.collect(), values);
    let of = |pod: &ObjectRef| combined.of(pod).map(|peers| peers.cloned());
    pods.keys().map(|pod| (pod.clone(), of(pod))).collect()
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Ingress => Direction::Egress,
        Direction::Egress => Direction::Ingress,
    }
}
