//! The rules of the global table: those about each address of a pod that may not receive everything.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use picket_net::Prefix;
use rustc_hash::FxHashMap;

use super::change::Turn;
use super::edit::{Draft, Editor, Takes};
use super::model::{SessionRule, Transport};
use super::ports::PortSets;
use super::table::{Made, Table};
use crate::lists::{Number, Restricted};
use crate::peers::Peers;
use crate::value::Values;
use crate::work::looked_at;

/// The rules about each address, of which there may be no more than so many together.
///
/// Where there is no room for all of them, the first addresses have it, but for what it takes to close the others.
#[derive(Debug)]
pub(super) struct Global {
    most_rules: usize,
    at: BTreeMap<IpAddr, About>,
    /// How many rules there would be if each address had all the room.
    needed: usize,
    /// How many there are at least.
    least: usize,
}

/// What is about one address.
#[derive(Debug)]
struct About {
    /// What may be received there.
    peers: Arc<Peers>,
    /// The rules if there were no others.
    alone: Made,
    given: Given,
}

/// The rules that there are about an address.
#[derive(Clone, Debug)]
struct Given {
    made: Made,
    /// In which rooms it is this.
    rooms: RangeInclusive<usize>,
    /// How much room was left for this address and those after it beyond what closes them, below zero where they cannot even be
    /// closed. It is only known while there is no room for all.
    spare: isize,
}

/// What becomes of the rules about an address.
struct Step {
    address: IpAddr,
    /// The rules before and now.
    turn: [Option<Arc<[SessionRule]>>; 2],
    /// What it took.
    takes: Takes,
}

/// The rules about addresses before something changed.
type Before = BTreeMap<IpAddr, Option<Arc<[SessionRule]>>>;

/// What each list says about the first address that has it, by its place in memory.
type Alike = FxHashMap<usize, (Prefix, Made)>;

/// What rules are made from.
pub(super) struct Source<'a> {
    /// Who may not receive everything.
    pub(super) receivers: &'a Restricted<Number>,
    pub(super) sets: &'a mut PortSets,
    pub(super) values: &'a Values,
}

impl Global {
    /// Nothing, with room for so many rules.
    pub(super) fn new(most_rules: usize) -> Self {
        Self {
            most_rules,
            at: BTreeMap::new(),
            needed: 0,
            least: 0,
        }
    }

    /// The rules about each address.
    pub(super) fn each(&self) -> impl Iterator<Item = (IpAddr, &Made)> {
        let each = self.at.iter();
        each.map(|(&address, about)| (address, &about.given.made))
    }

    /// The addresses about which there is no room for all rules.
    pub(super) fn short(&self) -> impl Iterator<Item = (IpAddr, &Made)> {
        let is_crowded = self.is_crowded();
        let each = self.each().take_while(move |_| is_crowded);
        each.filter(|(_, made)| made.missing > 0)
    }

    /// At these addresses something else restricts pods now. What has changed because of it.
    pub(super) fn advance(
        &mut self,
        changed: &BTreeSet<IpAddr>,
        mut from: Source<'_>,
    ) -> BTreeMap<IpAddr, Turn> {
        let was_crowded = self.is_crowded();
        let least = self.least;
        let (mut alike, mut editor) = (Alike::default(), Editor::default());
        let mut known = Vec::with_capacity(changed.len());
        for &address in changed {
            looked_at(1);
            let peers = from.receivers.at(address).map(|(_, peers)| peers);
            let edited = peers.and_then(|peers| self.edit(address, peers, &mut from, &mut editor));
            known.push(edited.unwrap_or_else(|| {
                let now = peers.map(|peers| {
                    let alone = from.alone(address, peers, self.most_rules, &mut alike);
                    (Arc::clone(peers), alone)
                });
                let rules = now.as_ref().map(|(_, now)| Arc::clone(&now.rules));
                let turn = [self.set(address, now), rules];
                Step {
                    address,
                    turn,
                    takes: Takes::Table,
                }
            }));
        }
        let mut turns = BTreeMap::new();
        if was_crowded || self.is_crowded() {
            let before = known.into_iter().map(
                |Step {
                     address,
                     turn: [before, _],
                     ..
                 }| (address, before),
            );
            let mut before: Before = before.collect();
            let is_closed_as_before = least == self.least;
            self.share(
                &mut before,
                was_crowded,
                is_closed_as_before,
                &mut from,
                &mut turns,
            );
            for (address, before) in before {
                let now = self.at.get(&address).map(|about| &about.given.made.rules);
                note(address, before, now, &mut turns);
            }
            return turns;
        }
        let turns = known.into_iter().filter_map(|Step { address, turn, takes }| {
            let [before, now] = turn;
            let turn = match takes {
                Takes::Nothing => None,
                Takes::Edit(edit) => Some(Turn::of_edit([before, now], edit)),
                Takes::Table => Turn::between(before, now),
            };
            Some((address, turn?))
        });
        turns.collect()
    }

    /// Makes the rules about an address those where this may be received there; `None` where they have to be made anew.
    fn edit(
        &mut self,
        address: IpAddr,
        peers: &Arc<Peers>,
        from: &mut Source<'_>,
        editor: &mut Editor,
    ) -> Option<Step> {
        let about = self.at.get_mut(&address)?;
        let difference = editor.difference([&about.peers, peers], from.sets, from.values)?;
        let mut draft = Draft::new();
        draft.add(difference, Prefix::host(address), false, from.sets);
        let draft = draft.without_kept();
        let alone = &mut about.alone;
        if alone.missing > 0 || !Made::fits(draft.count(alone.rules.len()), self.most_rules) {
            return None;
        }
        let (needed, fewest) = (alone.needed(), least(alone));
        if !draft.is_empty() {
            alone.rules = editor.carry_out(&draft, &alone.rules)?;
        }
        self.needed = self.needed + alone.needed() - needed;
        self.least = self.least + least(alone) - fewest;
        about.peers = Arc::clone(peers);
        let given = Given::all(&about.alone, about.given.spare);
        let before = std::mem::replace(&mut about.given, given);
        Some(Step {
            address,
            turn: [before.made.rules, Arc::clone(&about.alone.rules)].map(Some),
            takes: draft.finish(),
        })
    }

    fn is_crowded(&self) -> bool {
        self.needed > self.most_rules
    }

    /// What an address has is this, if there were no others; the rules that it had.
    fn set(&mut self, address: IpAddr, now: Option<(Arc<Peers>, Made)>) -> Option<Arc<[SessionRule]>> {
        self.needed += now.as_ref().map_or(0, |(_, now)| now.needed());
        self.least += now.as_ref().map_or(0, |(_, now)| least(now));
        let now = now.map(|(peers, alone)| {
            let given = Given::all(&alone, 0);
            About { peers, alone, given }
        });
        let before = match (self.at.entry(address), now) {
            (Entry::Occupied(mut known), Some(mut now)) => {
                now.given.spare = known.get().given.spare;
                Some(known.insert(now))
            }
            (Entry::Occupied(known), None) => Some(known.remove()),
            (Entry::Vacant(place), Some(now)) => {
                place.insert(now);
                None
            }
            (Entry::Vacant(_), None) => None,
        };
        let before = before?;
        self.needed -= before.alone.needed();
        self.least -= least(&before.alone);
        Some(before.given.made.rules)
    }

    /// Shares out the room where there is not enough for all, or was not before. What comes before the first address that changed
    /// has the room that it had if it takes as much as before to close all; and so has what comes behind the last one, from where on
    /// as much is left as was before.
    fn share(
        &mut self,
        before: &mut Before,
        was_crowded: bool,
        is_closed_as_before: bool,
        from: &mut Source<'_>,
        turns: &mut BTreeMap<IpAddr, Turn>,
    ) {
        let last = before.keys().last().copied();
        let first = before
            .first_key_value()
            .filter(|_| was_crowded && is_closed_as_before);
        let known = first.and_then(|(&first, before)| {
            let about = self.at.get(&first)?;
            before.is_some().then_some((first, about.given.spare))
        });
        let none = (LOWEST, self.most_rules.cast_signed() - self.least.cast_signed());
        let (first, mut spare) = known.unwrap_or(none);
        for (&address, about) in self.at.range_mut(first..) {
            looked_at(1);
            let was = before.remove(&address);
            let is_known = was.is_none() && was_crowded && about.given.spare == spare;
            if is_known && Some(address) > last {
                return;
            }
            let least = least(&about.alone);
            if !is_known {
                let room = usize::try_from(spare + least.cast_signed()).unwrap_or(0);
                let old = about.give(address, room, from);
                about.given.spare = spare;
                if let Some(was) = was.or_else(|| old.map(Some)) {
                    note(address, was, Some(&about.given.made.rules), turns);
                }
            }
            spare += least.cast_signed() - about.given.made.rules.len().cast_signed();
        }
    }
}

impl Given {
    /// All that there would be if there were no others.
    fn all(alone: &Made, spare: isize) -> Self {
        Self {
            made: alone.clone(),
            rooms: alone.needed()..=usize::MAX,
            spare,
        }
    }
}

impl About {
    /// Gives it so much room; the rules that it had, if others may be made of it.
    fn give(&mut self, address: IpAddr, room: usize, from: &mut Source<'_>) -> Option<Arc<[SessionRule]>> {
        if self.given.rooms.contains(&room) {
            return None;
        }
        let old = Arc::clone(&self.given.made.rules);
        if self.alone.needed() <= room {
            self.given = Given::all(&self.alone, self.given.spare);
        } else if let Some((_, peers)) = from.receivers.at(address) {
            let table = from.about(Prefix::host(address), peers, room);
            let rooms = table.rooms();
            // Where there is room for all of it, it has all.
            self.given.rooms = *rooms.start()..=(*rooms.end()).min(self.alone.needed() - 1);
            self.given.made = table.finish();
        }
        Some(old)
    }
}

impl Source<'_> {
    /// The rules about an address if there were no others.
    fn alone(&mut self, address: IpAddr, peers: &Arc<Peers>, room: usize, alike: &mut Alike) -> Made {
        let prefix = Prefix::host(address);
        let (first, made) = alike
            .entry(Arc::as_ptr(peers).addr())
            .or_insert_with(|| (prefix, self.about(prefix, peers, room).finish()));
        if *first == prefix {
            return made.clone();
        }
        looked_at(made.rules.len());
        let rules = made.rules.iter();
        Made {
            rules: rules
                .map(|rule| SessionRule {
                    local: prefix,
                    ..*rule
                })
                .collect(),
            ..*made
        }
    }

    fn about(&mut self, address: Prefix, peers: &Peers, room: usize) -> Table {
        let mut table = Table::new(room, 1);
        table.add(peers, address, false, self.sets, self.values);
        table
    }
}

/// How many rules there are at least about an address: one for each transport lets nothing pass.
fn least(alone: &Made) -> usize {
    alone.needed().min(Transport::BOTH.len())
}

/// Notes what has changed, if anything has.
fn note(
    address: IpAddr,
    before: Option<Arc<[SessionRule]>>,
    now: Option<&Arc<[SessionRule]>>,
    turns: &mut BTreeMap<IpAddr, Turn>,
) {
    turns.extend(Turn::between(before, now.cloned()).map(|turn| (address, turn)));
}

const LOWEST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
