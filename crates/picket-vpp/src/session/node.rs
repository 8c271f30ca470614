//! From what each pod may exchange to the tables of its node, pod by pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{Family, Prefix};
use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;

use super::change::Change;
use super::model::{SessionRule, SessionRules, Transport};
use super::render::{Options, TooMany};
use super::table::Table;
use super::tables::Tables;
use crate::combine::Combined;
use crate::lists::{Lists, Restricted, Touched};
use crate::peers::Peers;
use crate::value::{Value, Values};

/// The rules of a node, kept while its pods and what they may exchange change.
///
/// Every number in the lists of pods must be of the same [`Values`].
#[derive(Debug)]
pub struct NodeRules {
    options: Options,
    combined: Combined,
    lists: BTreeMap<ObjectRef, Arc<Lists>>,
    local: BTreeMap<ObjectRef, Made>,
    /// Who may not receive everything.
    receivers: Restricted,
    /// The rules about each address if there were no others.
    alone: BTreeMap<IpAddr, Made>,
    /// How many these are.
    alone_count: usize,
    /// Whether the global table has no room for all of them.
    is_crowded: bool,
    global: BTreeMap<IpAddr, Made>,
    last: Option<Last>,
}

/// Rules that were made.
#[derive(Clone, Debug)]
struct Made {
    rules: Arc<[SessionRule]>,
    /// How many there was no room for.
    missing: usize,
    /// How many there was room for, where others have some of it.
    room: usize,
}

/// The local table that was made last, with what it is made of: the next pod is often alike.
#[derive(Debug)]
struct Last {
    content: Content,
    /// What `content` names by its places in memory.
    _opened: [Option<Arc<Peers>>; 2],
    made: Made,
}

/// The local tables that were made.
type Locals = FxHashMap<Content, Made>;

/// What a local table is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Content {
    /// The places in memory of what may be opened.
    opened: [usize; 2],
    /// The addresses of the pod to which that is not everything.
    own: Vec<IpAddr>,
    is_unknown: bool,
}

impl NodeRules {
    /// A node without pods. No list of a pod allows less than `floor` of its family.
    pub(super) fn new(options: Options, floor: [Value; 2]) -> Self {
        Self {
            options,
            combined: Combined::new(Direction::Egress, floor),
            lists: BTreeMap::new(),
            local: BTreeMap::new(),
            receivers: Restricted::new(Direction::Ingress),
            alone: BTreeMap::new(),
            alone_count: 0,
            is_crowded: false,
            global: BTreeMap::new(),
            last: None,
        }
    }

    /// A node without pods, whose pods may be kept from everything.
    pub fn of_rules(options: Options) -> Self {
        Self::new(options, [Value::NOTHING; 2])
    }

    /// All rules.
    pub fn rules(&self) -> SessionRules {
        SessionRules::from(&self.tables())
    }

    /// All rules, each table as it was made.
    pub fn tables(&self) -> Tables {
        let local = self.local.iter();
        let global = self.global.iter();
        Tables {
            local: local
                .map(|(pod, made)| (pod.clone(), Arc::clone(&made.rules)))
                .collect(),
            global: global
                .map(|(address, made)| (*address, Arc::clone(&made.rules)))
                .collect(),
        }
    }

    /// The table of a pod.
    pub fn local(&self, pod: &ObjectRef) -> Option<&Arc<[SessionRule]>> {
        self.local.get(pod).map(|made| &made.rules)
    }

    /// Which tables have no room for all that they should have.
    pub fn missing(&self) -> Vec<TooMany> {
        let too_many = |pod: &ObjectRef, direction, made: &Made| {
            (made.missing > 0).then(|| TooMany {
                pod: pod.clone(),
                direction,
                missing: made.missing,
            })
        };
        let local = self.local.iter();
        let local = local.filter_map(|(pod, made)| too_many(pod, Direction::Egress, made));
        // Where several have an address, all are held to the same.
        let global = self.global.iter().flat_map(|(address, made)| {
            let pods = self.receivers.each_at(*address);
            pods.filter_map(|(pod, _)| too_many(pod, Direction::Ingress, made))
        });
        local.chain(global).collect()
    }

    /// These pods have other lists now, or with `None` they are gone. What has changed because of it.
    pub fn advance(&mut self, pods: &Touched, values: &mut Values) -> Change {
        let mut changes = BTreeMap::new();
        let mut addresses = BTreeSet::new();
        let mut touched = BTreeSet::new();
        for (pod, now) in pods {
            let before = match now {
                Some(now) => self.lists.insert(pod.clone(), Arc::clone(now)),
                None => self.lists.remove(pod),
            };
            let turns = self
                .receivers
                .follow(pod, [before.as_deref(), now.as_deref()], &Family::BOTH);
            addresses.extend(turns.into_iter().map(|(address, _)| address));
            changes.insert(pod.clone(), [before, now.clone()]);
            touched.insert(pod.clone());
        }
        touched.extend(self.combined.advance(&changes, values));
        let mut change = Change::default();
        let mut made = Locals::default();
        for pod in touched {
            let now = self.local_table(&pod, &mut made, values);
            let rules = now.as_ref().map(|made| Arc::clone(&made.rules));
            let before = match now {
                Some(now) => self.local.insert(pod.clone(), now),
                None => self.local.remove(&pod),
            };
            let before = before.map(|made| made.rules);
            if before != rules {
                change.local.insert(pod, [before, rules]);
            }
        }
        if !addresses.is_empty() {
            self.set_global(&addresses, &mut change, values);
        }
        change
    }

    fn local_table(&mut self, pod: &ObjectRef, known: &mut Locals, values: &Values) -> Option<Made> {
        let lists = self.lists.get(pod)?;
        let opened = self.combined.of(pod);
        let held = |address: &&IpAddr| {
            let [v4, v6] = opened;
            let peers = if address.is_ipv4() { v4 } else { v6 };
            peers.is_some_and(|peers| peers.value(**address) != Value::EVERYTHING)
        };
        let content = Content {
            opened: opened.map(|peers| peers.map_or(0, |peers| Arc::as_ptr(peers).addr())),
            own: lists.addresses.iter().filter(held).copied().collect(),
            is_unknown: lists.is_unknown,
        };
        if let Some(made) = known.get(&content) {
            return Some(made.clone());
        }
        let last = self.last.take().filter(|last| last.content == content);
        let last = last.unwrap_or_else(|| Last {
            made: local(opened, &content, self.options.most_rules, values),
            content,
            _opened: opened.map(|peers| peers.cloned()),
        });
        let last = self.last.insert(last);
        known.insert(last.content.clone(), last.made.clone());
        Some(last.made.clone())
    }

    /// Makes the rules about addresses in the global table.
    fn set_global(&mut self, changed: &BTreeSet<IpAddr>, change: &mut Change, values: &Values) {
        let was_crowded = self.is_crowded;
        for &address in changed {
            let receiver = self.receivers.at(address);
            let now = receiver.map(|(_, peers)| about(address, peers, self.options.most_rules, values));
            self.alone_count += now.as_ref().map_or(0, Made::needed);
            let before = match now {
                Some(now) => self.alone.insert(address, now),
                None => self.alone.remove(&address),
            };
            self.alone_count -= before.as_ref().map_or(0, Made::needed);
        }
        self.is_crowded = self.alone_count > self.options.most_rules;
        let now = match (was_crowded, self.is_crowded) {
            (_, true) => self.crowded(changed, values),
            (true, false) => self.alone.clone(),
            (false, false) => {
                for address in changed {
                    self.set_address(*address, self.alone.get(address).cloned(), change);
                }
                return;
            }
        };
        let addresses: BTreeSet<_> = self.global.keys().chain(now.keys()).copied().collect();
        for address in addresses {
            self.set_address(address, now.get(&address).cloned(), change);
        }
    }

    fn set_address(&mut self, address: IpAddr, now: Option<Made>, change: &mut Change) {
        let rules = now.as_ref().map(|made| Arc::clone(&made.rules));
        let before = match now {
            Some(now) => self.global.insert(address, now),
            None => self.global.remove(&address),
        };
        let before = before.map(|made| made.rules);
        if before != rules {
            change.global.insert(address, [before, rules]);
        }
    }

    /// The rules about all addresses where there is no room for all of them: the first have it, but for what it takes to close
    /// the others. What had as much room before is what it was.
    fn crowded(&self, changed: &BTreeSet<IpAddr>, values: &Values) -> BTreeMap<IpAddr, Made> {
        let mut all_room = self.options.most_rules;
        let mut reserved: usize = self.alone.values().map(Made::least).sum();
        let mut found = BTreeMap::new();
        for (&address, alone) in &self.alone {
            reserved -= alone.least();
            let room = all_room.saturating_sub(reserved);
            let known = self.global.get(&address).filter(|_| !changed.contains(&address));
            let mut now = match known.filter(|known| known.room == room) {
                Some(known) => known.clone(),
                None if alone.needed() <= room => alone.clone(),
                None => match self.receivers.at(address) {
                    Some((_, peers)) => about(address, peers, room, values),
                    None => continue,
                },
            };
            now.room = room;
            all_room = all_room.saturating_sub(now.rules.len());
            found.insert(address, now);
        }
        found
    }
}

/// The rules of a local table.
fn local(opened: [Option<&Arc<Peers>>; 2], content: &Content, most_rules: usize, values: &Values) -> Made {
    let said = opened
        .iter()
        .filter(|peers| peers.is_some() || content.is_unknown);
    let mut table = Table::new(most_rules, said.count());
    // A pod reaches itself, whatever its policies say.
    let own = content.own.iter();
    let own = own.map(|&own| (Prefix::host(own), Value::EVERYTHING));
    for (family, peers) in Family::BOTH.into_iter().zip(opened) {
        match peers {
            Some(peers) if content.own.is_empty() => table.add(peers, Prefix::all(family), true, values),
            Some(peers) => table.add(&peers.with(own.clone()), Prefix::all(family), true, values),
            None if content.is_unknown => table.close(family),
            None => {}
        }
    }
    Made::of(table)
}

/// The rules about one address in the global table where there is room for some.
fn about(address: IpAddr, peers: &Peers, room: usize, values: &Values) -> Made {
    let mut table = Table::new(room, 1);
    table.add(peers, Prefix::host(address), false, values);
    Made {
        room,
        ..Made::of(table)
    }
}

impl Made {
    fn of(table: Table) -> Self {
        let (rules, missing) = table.finish();
        Self {
            rules,
            missing,
            room: 0,
        }
    }

    /// How many rules there are with those for which there was no room.
    fn needed(&self) -> usize {
        self.rules.len() + self.missing
    }

    /// How many rules there are at least about an address: one for each transport lets nothing pass.
    fn least(&self) -> usize {
        self.needed().min(Transport::BOTH.len())
    }
}
