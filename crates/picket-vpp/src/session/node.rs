//! From what each pod may exchange to the tables of its node, pod by pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use picket_net::Family;
use picket_policy::{Direction, ObjectRef};

use super::change::{Change, Turn};
use super::edit::Takes;
use super::global::{self, Global};
use super::local::{Alike, Local, Opened, Source};
use super::model::{SessionRule, SessionRules};
use super::pods::Pods;
use super::ports::PortSets;
use super::render::{Options, TooMany};
use super::table::Made;
use super::tables::Tables;
use crate::combine::Combined;
use crate::lists::{Lists, Number, Restricted, Touched};
use crate::peers::Peers;
use crate::value::{Value, Values};
use crate::work::looked_at;

/// The rules of a node, kept while its pods and what they may exchange change.
///
/// Every number in the lists of pods must be of the same [`Values`].
#[derive(Debug)]
pub struct NodeRules {
    options: Options,
    combined: Combined<Number>,
    pods: Pods,
    global: Global,
    /// The pods whose tables have no room for all that they should have.
    short: BTreeSet<ObjectRef>,
    alike: Alike,
    sets: PortSets,
}

impl NodeRules {
    /// A node without pods. No list of a pod allows less than `floor` of its family.
    pub(super) fn new(options: Options, floor: [Value; 2]) -> Self {
        Self {
            options,
            combined: Combined::new(Direction::Egress, floor),
            pods: Pods::default(),
            global: Global::new(options.most_rules),
            short: BTreeSet::new(),
            alike: Alike::default(),
            sets: PortSets::default(),
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
        let local = self.pods.each().inspect(|_| looked_at(1));
        let global = self.global.each().inspect(|_| looked_at(1));
        Tables {
            local: local
                .filter_map(|(pod, known)| Some((pod.clone(), Arc::clone(&known.local.as_ref()?.made.rules))))
                .collect(),
            global: global
                .map(|(address, made)| (address, Arc::clone(&made.rules)))
                .collect(),
        }
    }

    /// The table of a pod.
    pub fn local(&self, pod: &ObjectRef) -> Option<&Arc<[SessionRule]>> {
        self.known(pod).map(|local| &local.made.rules)
    }

    fn known(&self, pod: &ObjectRef) -> Option<&Local> {
        self.pods.get(self.pods.number(pod)?)?.local.as_ref()
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
        let local = self.short.iter().inspect(|_| looked_at(1));
        let local = local.filter_map(|pod| too_many(pod, Direction::Egress, &self.known(pod)?.made));
        // Where several have an address, all are held to the same.
        let global = self.global.short().flat_map(|(address, made)| {
            looked_at(1);
            let pods = self.receivers().each_at(address);
            let pods = pods.filter_map(|(&number, _)| self.pods.name(number));
            let pods: BTreeSet<_> = pods.collect();
            pods.into_iter()
                .filter_map(move |pod| too_many(pod, Direction::Ingress, made))
        });
        local.chain(global).collect()
    }

    /// These pods have other lists now, or with `None` they are gone. What has changed because of it.
    pub fn advance(&mut self, pods: &Touched, values: &mut Values) -> Change {
        let mut changed = Vec::with_capacity(pods.len());
        let mut touched = Vec::new();
        for (pod, now) in pods {
            looked_at(1);
            let (number, before) = match now {
                Some(now) => {
                    let number = self.pods.enter(pod);
                    (number, self.pods.set_lists(number, Some(Arc::clone(now))))
                }
                None => match self.pods.number(pod) {
                    Some(number) => (number, self.pods.set_lists(number, None)),
                    None => continue,
                },
            };
            // Of those that may send something else `combined` says it.
            let own = [&before, now].map(|lists| {
                let lists = lists.as_ref();
                lists.map(|lists| (&lists.addresses, lists.isolated))
            });
            let [was, is] = own;
            if was != is {
                touched.push(number);
            }
            changed.push((number, [before, now.clone()]));
        }
        let (concerned, addresses) = self.combined.advance(&changed, values);
        touched.extend(concerned);
        touched.sort_unstable();
        touched.dedup();
        let mut change = Change::default();
        let mut local = Vec::new();
        self.alike.begin();
        for number in touched {
            looked_at(1);
            let turn = self.turn(number, values);
            self.note_short(number);
            let name = self.pods.name(number);
            local.extend(name.cloned().zip(turn));
        }
        change.local = local.into_iter().collect();
        let gone = changed.iter().filter(|(_, [_, now])| now.is_none());
        gone.for_each(|(number, _)| self.pods.leave(*number));
        if !addresses.is_empty() {
            let source = global::Source {
                receivers: self.combined.restricted(),
                sets: &mut self.sets,
                values,
            };
            change.global = self.global.advance(&addresses, source);
        }
        change
    }

    /// Who may not receive everything.
    fn receivers(&self) -> &Restricted<Number> {
        self.combined.restricted()
    }

    /// Notes whether the table of a pod has no room for all that it should have.
    fn note_short(&mut self, number: Number) {
        let Some(name) = self.pods.name(number) else {
            return;
        };
        let local = self.pods.get(number).and_then(|known| known.local.as_ref());
        match local.is_some_and(|local| local.made.missing > 0) {
            true => drop(self.short.insert(name.clone())),
            false => drop(self.short.remove(name)),
        }
    }

    /// Gives a pod the table of what it may open now; what has changed because of it.
    fn turn(&mut self, number: Number, values: &Values) -> Option<Turn> {
        let known = self.pods.get_mut(number)?;
        let Some(lists) = &known.lists else {
            let before = known.local.take().map(|local| local.made.rules);
            return Turn::between(before, None);
        };
        let opened = Opened {
            peers: self.combined.of(&number).map(Option::<&Arc<Peers>>::cloned),
            closed: closed(lists),
        };
        let mut from = Source {
            most_rules: self.options.most_rules,
            alike: &mut self.alike,
            sets: &mut self.sets,
            values,
        };
        let rules = |local: &Local| Arc::clone(&local.made.rules);
        let before = known.local.as_ref().map(rules);
        if let Some(local) = &mut known.local {
            match local.turn(&opened, &lists.addresses, &mut from) {
                Takes::Nothing => return None,
                Takes::Edit(edit) => return Some(Turn::of_edit([before, Some(rules(local))], edit)),
                Takes::Table => {}
            }
        }
        let local = Local::new(opened, &lists.addresses, from);
        let now = rules(known.local.insert(local));
        if let Some(before) = before.as_ref().filter(|before| !Arc::ptr_eq(before, &now)) {
            looked_at(before.len().min(now.len()));
        }
        Turn::between(before, Some(now))
    }
}

/// The families in which a pod may open nothing, as it has no known address there and policies are about what it sends; all, where it has
/// none at all and they are about it.
fn closed(lists: &Lists) -> [bool; 2] {
    let [receives, sends] = lists.isolated;
    let is_about_it = sends || receives && lists.addresses.is_empty();
    Family::BOTH.map(|family| is_about_it && lists.lacks(family))
}
