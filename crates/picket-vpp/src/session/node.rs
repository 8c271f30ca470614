//! From what each pod may exchange to the tables of its node, pod by pod.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{Family, Prefix};
use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;

use super::change::Change;
use super::global::{Global, Source};
use super::model::{Action, SessionRule, SessionRules};
use super::plan::is_default;
use super::pods::Pods;
use super::ports::PortSets;
use super::render::{Options, TooMany};
use super::table::{Made, Table};
use super::tables::Tables;
use crate::combine::Combined;
use crate::lists::{Number, Restricted, Touched};
use crate::peers::{Peers, subtract};
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
    alike: Alike,
    sets: PortSets,
}

/// The tables of pods that may open the same, as they are before these are told apart by their own addresses: those of this step and
/// of the one before, since the next pod is often like the last.
#[derive(Debug, Default)]
struct Alike {
    now: FxHashMap<([usize; 2], bool), (Opened, Made)>,
    before: FxHashMap<([usize; 2], bool), (Opened, Made)>,
}

/// What a pod may open.
#[derive(Clone, Debug)]
struct Opened {
    peers: [Option<Arc<Peers>>; 2],
    /// Whether nothing may be opened in a family of which nothing is known.
    is_unknown: bool,
}

impl NodeRules {
    /// A node without pods. No list of a pod allows less than `floor` of its family.
    pub(super) fn new(options: Options, floor: [Value; 2]) -> Self {
        Self {
            options,
            combined: Combined::new(Direction::Egress, floor),
            pods: Pods::default(),
            global: Global::new(options.most_rules),
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
                .filter_map(|(pod, known)| Some((pod.clone(), Arc::clone(&known.made.as_ref()?.rules))))
                .collect(),
            global: global
                .map(|(address, made)| (address, Arc::clone(&made.rules)))
                .collect(),
        }
    }

    /// The table of a pod.
    pub fn local(&self, pod: &ObjectRef) -> Option<&Arc<[SessionRule]>> {
        let made = self.pods.get(self.pods.number(pod)?)?.made.as_ref();
        made.map(|made| &made.rules)
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
        let local = self.pods.each();
        let local = local.filter_map(|(pod, known)| too_many(pod, Direction::Egress, known.made.as_ref()?));
        // Where several have an address, all are held to the same.
        let global = self.global.each().flat_map(|(address, made)| {
            let pods = self.receivers().each_at(address).filter(|_| made.missing > 0);
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
                lists.map(|lists| (&lists.addresses, lists.is_unknown))
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
            let now = self.local_table(number, values);
            let Some(known) = self.pods.get_mut(number) else {
                continue;
            };
            let before = std::mem::replace(&mut known.made, now);
            let turn = [&before, &known.made].map(|made| made.as_ref().map(|made| Arc::clone(&made.rules)));
            let [was, is] = &turn;
            if let (Some(was), Some(is)) = (was, is)
                && !Arc::ptr_eq(was, is)
            {
                looked_at(was.len().min(is.len()));
            }
            if was != is {
                let name = self.pods.name(number);
                local.extend(name.map(|pod| (pod.clone(), turn)));
            }
        }
        change.local = local.into_iter().collect();
        let gone = changed.iter().filter(|(_, [_, now])| now.is_none());
        gone.for_each(|(number, _)| self.pods.leave(*number));
        if !addresses.is_empty() {
            let source = Source {
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

    fn local_table(&mut self, number: Number, values: &Values) -> Option<Made> {
        let lists = self.pods.get(number)?.lists.as_ref()?;
        let opened = Opened {
            peers: self.combined.of(&number).map(Option::<&Arc<Peers>>::cloned),
            is_unknown: lists.is_unknown,
        };
        let own = lists.addresses.iter();
        let own: Vec<_> = own.copied().filter(|own| opened.holds_back(*own)).collect();
        let most_rules = self.options.most_rules;
        let made = self
            .alike
            .table(&opened, || opened.table(&[], most_rules, &mut self.sets, values));
        // A pod reaches itself, whatever its policies say.
        if own.is_empty() {
            return Some(made.clone());
        }
        let opening = made.opening(&own, most_rules);
        Some(opening.unwrap_or_else(|| opened.table(&own, most_rules, &mut self.sets, values)))
    }
}

impl Alike {
    /// Another step begins: what was made in the last is kept.
    fn begin(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// The table of pods that may open this.
    fn table(&mut self, opened: &Opened, make: impl FnOnce() -> Made) -> &Made {
        let key = opened.key();
        &self
            .now
            .entry(key)
            .or_insert_with(|| {
                let known = self.before.remove(&key);
                known.unwrap_or_else(|| (opened.clone(), make()))
            })
            .1
    }
}

impl Opened {
    /// Where in memory it is, which names it as long as it is there.
    fn key(&self) -> ([usize; 2], bool) {
        let peers = self.peers.each_ref();
        let peers = peers.map(|peers| peers.as_ref().map_or(0, |peers| Arc::as_ptr(peers).addr()));
        (peers, self.is_unknown)
    }

    /// Whether not everything may be opened to an address.
    fn holds_back(&self, address: IpAddr) -> bool {
        let [v4, v6] = &self.peers;
        let peers = if address.is_ipv4() { v4 } else { v6 };
        peers
            .as_ref()
            .is_some_and(|peers| peers.value(address) != Value::EVERYTHING)
    }

    /// The rules by which this may be opened, and everything to these addresses.
    fn table(&self, own: &[IpAddr], most_rules: usize, sets: &mut PortSets, values: &Values) -> Made {
        let said = self
            .peers
            .iter()
            .filter(|peers| peers.is_some() || self.is_unknown);
        let mut table = Table::new(most_rules, said.count());
        let own = own.iter().map(|&own| (Prefix::host(own), Value::EVERYTHING));
        for (family, peers) in Family::BOTH.into_iter().zip(&self.peers) {
            match peers {
                Some(peers) if own.len() == 0 => table.add(peers, Prefix::all(family), true, sets, values),
                Some(peers) => table.add(&peers.with(own.clone()), Prefix::all(family), true, sets, values),
                None if self.is_unknown => table.close(family),
                None => {}
            }
        }
        table.finish()
    }
}

/// Makes the rules of a table such that everything may be opened to an address too; `None` where rules about everybody are about some
/// ports, which those about an address would not capture.
fn open(rules: &mut Vec<SessionRule>, to: IpAddr) -> Option<()> {
    let to = Prefix::host(to);
    looked_at(rules.len());
    let is_about_it = |rule: &SessionRule| match rule.remote.length() == to.length() {
        true => rule.remote == to,
        false => rule.remote.contains_prefix(&to),
    };
    let mut done = 0;
    while let Some(next) = rules.get(done..)?.iter().position(is_about_it) {
        let at = done + next;
        let rule = *rules.get(at)?;
        if rule.remote.length() > 0 {
            // These are about the others with such addresses.
            let parts = subtract(&rule.remote, &to);
            done = at + parts.len();
            let parts = parts.into_iter().map(|remote| SessionRule { remote, ..rule });
            rules.splice(at..=at, parts);
        } else if is_default(&rule) {
            let allowed = SessionRule {
                remote: to,
                action: Action::Allow,
                ..rule
            };
            rules.insert(at + 1, allowed);
            done = at + 2;
        } else {
            return None;
        }
    }
    Some(())
}

/// How many rules more there are mostly where an address is opened.
const FEW_MORE: usize = 8;

impl Made {
    /// The same table, by which everything may be opened to these addresses too; `None` where that is not said by a few rules
    /// more, or there may be no room for them.
    fn opening(&self, own: &[IpAddr], most_rules: usize) -> Option<Self> {
        if self.missing > 0 {
            return None;
        }
        let mut rules = Vec::with_capacity(self.rules.len() + FEW_MORE);
        looked_at(self.rules.len());
        rules.extend_from_slice(&self.rules);
        for &address in own {
            open(&mut rules, address)?;
        }
        (rules.len() <= most_rules).then(|| Self {
            rules: rules.into(),
            ..*self
        })
    }
}
