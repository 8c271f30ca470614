//! The table of a pod: what may be opened in its namespace.

use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{Family, Prefix};
use rustc_hash::FxHashMap;

use super::edit::{Draft, Editor, Takes, in_table};
use super::model::{Action, SessionRule};
use super::plan::is_default;
use super::ports::PortSets;
use super::table::{Made, Table};
use crate::peers::{Peers, subtract};
use crate::value::{Value, Values};
use crate::work::looked_at;

/// The table of a pod, and what it was made from.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) made: Made,
    opened: Opened,
    addresses: Arc<[IpAddr]>,
    /// How many rules there would be for a pod without addresses, if its own ones were put in between these.
    without_own: Option<usize>,
}

/// What a pod may open.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) peers: [Option<Arc<Peers>>; 2],
    /// The families in which nothing may be opened, as nobody can say what policies allow there.
    pub(super) closed: [bool; 2],
}

/// Which pods may open the same: where in memory that is, and the families that are closed.
type Key = ([usize; 2], [bool; 2]);

/// The tables of pods that may open the same, as they are before these are told apart by their own addresses: those of this step and
/// of the one before, since the next pod is often like the last.
#[derive(Debug, Default)]
pub(super) struct Alike {
    now: FxHashMap<Key, (Opened, Made)>,
    before: FxHashMap<Key, (Opened, Made)>,
    /// What tables are made with from those before, in this step.
    editor: Editor,
}

/// What tables are made from and with.
pub(super) struct Source<'a> {
    pub(super) most_rules: usize,
    pub(super) alike: &'a mut Alike,
    pub(super) sets: &'a mut PortSets,
    pub(super) values: &'a Values,
}

impl Local {
    /// The table of a pod with these addresses.
    pub(super) fn new(opened: Opened, addresses: &Arc<[IpAddr]>, from: Source<'_>) -> Self {
        let Source {
            most_rules,
            alike,
            sets,
            values,
        } = from;
        let made = alike.table(&opened, || opened.table(&[], most_rules, sets, values));
        let own = addresses.iter().copied();
        let own: Vec<_> = own.filter(|own| opened.holds_back(*own)).collect();
        // A pod reaches itself, whatever its policies say.
        let opening = match own.is_empty() {
            true => Some(made.clone()),
            false => made.opening(&own, most_rules),
        };
        Self {
            without_own: opening.is_some().then_some(made.rules.len()),
            made: opening.unwrap_or_else(|| opened.table(&own, most_rules, sets, values)),
            addresses: Arc::clone(addresses),
            opened,
        }
    }

    /// Makes it the table of a pod that may open this, unless it has to be made anew.
    pub(super) fn turn(
        &mut self,
        opened: &Opened,
        addresses: &Arc<[IpAddr]>,
        from: &mut Source<'_>,
    ) -> Takes {
        let edited = self.edit(opened, addresses, from);
        edited.map_or(Takes::Table, Draft::finish)
    }

    /// The same, with what has changed; `None` where it has to be made anew.
    fn edit(&mut self, opened: &Opened, addresses: &Arc<[IpAddr]>, from: &mut Source<'_>) -> Option<Draft> {
        if self.made.missing > 0 || self.addresses != *addresses || self.opened.closed != opened.closed {
            return None;
        }
        let editor = &mut from.alike.editor;
        let mut draft = Draft::new();
        let each = self.opened.peers.iter().zip(&opened.peers);
        for (family, pair) in Family::BOTH.into_iter().zip(each) {
            let (before, now) = match pair {
                (Some(before), Some(now)) if Arc::ptr_eq(before, now) => continue,
                (Some(before), Some(now)) => (before, now),
                (None, None) => continue,
                _ => return None,
            };
            let difference = editor.difference([before, now], from.sets, from.values)?;
            if difference.is_about(addresses) {
                return None;
            }
            draft.add(difference, Prefix::all(family), true, from.sets);
        }
        let draft = draft.without_kept();
        let without_own = draft.count(self.without_own?);
        let count = draft.count(self.made.rules.len());
        if !Made::fits(without_own.max(count), from.most_rules) {
            return None;
        }
        if !draft.is_empty() {
            self.made.rules = editor.carry_out(&draft, &self.made.rules)?;
        }
        self.opened = opened.clone();
        self.without_own = Some(without_own);
        Some(draft)
    }
}

impl Alike {
    /// Another step begins: what was made in the last is kept.
    pub(super) fn begin(&mut self) {
        self.before = std::mem::take(&mut self.now);
        self.editor = Editor::default();
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
    fn key(&self) -> Key {
        let peers = self.peers.each_ref();
        let peers = peers.map(|peers| peers.as_ref().map_or(0, |peers| Arc::as_ptr(peers).addr()));
        (peers, self.closed)
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
        let each = self.peers.iter().zip(self.closed);
        let said = each.filter(|(peers, is_closed)| peers.is_some() || *is_closed);
        let mut table = Table::new(most_rules, said.count());
        let own = own.iter().map(|&own| (Prefix::host(own), Value::EVERYTHING));
        for ((family, peers), is_closed) in Family::BOTH.into_iter().zip(&self.peers).zip(self.closed) {
            match peers {
                Some(peers) if own.len() == 0 => table.add(peers, Prefix::all(family), true, sets, values),
                Some(peers) => table.add(&peers.with(own.clone()), Prefix::all(family), true, sets, values),
                None if is_closed => table.close(family),
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
    let (mut allowed, mut is_cut, mut done) = (Vec::new(), false, 0);
    while let Some(next) = rules.get(done..)?.iter().position(is_about_it) {
        let at = done + next;
        let rule = *rules.get(at)?;
        if rule.remote.length() > 0 {
            // These are about the others with such addresses.
            let parts = subtract(&rule.remote, &to);
            done = at + parts.len();
            is_cut = true;
            let parts = parts.into_iter().map(|remote| SessionRule { remote, ..rule });
            rules.splice(at..=at, parts);
        } else if is_default(&rule) {
            allowed.push(SessionRule {
                remote: to,
                action: Action::Allow,
                ..rule
            });
            done = at + 1;
        } else {
            return None;
        }
    }
    if is_cut {
        rules.sort_by(in_table);
    }
    for rule in allowed {
        let at = rules.partition_point(|other| in_table(other, &rule).is_lt());
        rules.insert(at, rule);
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
