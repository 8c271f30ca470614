//! Rules of the session layer, in the namespaces that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use picket_vpp::client::{Error, Feature, RuleTable, Vpp};
use picket_vpp::session::plan::Operation;
use picket_vpp::session::{Change, Tables as Rules};

use super::VppSettings;
use super::held::{Held, Part, Plans, by_table, count};
use super::left::Left;
use super::namespace::{NamespaceFinder, PlacedRules};
use super::render::Wanted;
use super::told::Told;
use super::work::looked_at;
use super::worker::{Cleaned, Closed, Moved, Summary, Synced, Tables};
use crate::retry::Retry;

/// How often at most to plan what is to be done: first what only finds out whose rules are, then the rest, and then again
/// for what turned out to be others'.
const ROUNDS: usize = 4;

/// The rules that VPP has, and whose namespaces are which.
#[derive(Debug)]
pub(crate) struct SessionTables {
    finder: NamespaceFinder,
    held: Held,
    wanted: Rules,
    placed: PlacedRules,
    /// What has changed of what is wanted since VPP had all of it; `None` where anything may be different.
    news: Option<Change>,
    /// When to look again for namespaces that there should be: VPP does not tell of new ones.
    again: Option<Retry>,
    /// Whether VPP has something else than it was told, though it refused nothing.
    is_odd: bool,
    /// What was said last of what is where.
    said: Option<Arc<Summary>>,
    /// The namespaces without rules that an agent before may have left so.
    left: Left<u32>,
}

/// What making the tables what they should be has done.
#[derive(Debug, Default)]
struct Made {
    operations: usize,
    /// What VPP refused.
    troubles: Vec<Error>,
    /// Whether some of it is about what comes from outside.
    is_outside_refused: bool,
    /// The pods of which VPP has something else now, where that is not worked out for all.
    moved: BTreeMap<String, Moved>,
}

impl SessionTables {
    pub(crate) fn new(settings: &VppSettings) -> Self {
        Self {
            finder: NamespaceFinder::new(settings.pod_namespaces.as_ref()),
            held: Held::default(),
            wanted: Rules::default(),
            placed: PlacedRules::default(),
            news: None,
            again: None,
            is_odd: false,
            said: None,
            left: Left::default(),
        }
    }

    /// What is wanted, as it was heard of.
    #[cfg(test)]
    pub(super) fn wanted(&self) -> &Rules {
        &self.wanted
    }

    /// Makes the tables of which something has changed what they should be; nothing is done where all have to be looked at.
    fn follow(&mut self, vpp: &mut Vpp, change: &Change) -> Result<Option<Made>, Error> {
        let Some((news, moved)) = self.finder.follow(change, &self.held, &mut self.placed) else {
            return Ok(None);
        };
        let plans = self.held.plans_of(&news, &self.placed.parts);
        // Where it has to be found out whose rules are, that is done for all.
        if !self.held.doubts(&plans).is_empty() {
            return Ok(None);
        }
        let mut made = Made {
            operations: count(&plans),
            moved,
            ..Made::default()
        };
        let refusals = vpp.carry_out_rules(&by_table(&plans))?;
        if refusals.is_empty() {
            self.held.advance_by(&news, &plans, &self.placed.parts);
        } else {
            self.held.read(vpp)?;
            let refusals = refusals.into_iter().map(|(_, refusal)| refusal.into());
            made.troubles = refusals.collect();
        }
        Ok(Some(made))
    }

    /// Places everything, and makes all tables what they should be.
    fn place(&mut self, vpp: &mut Vpp) -> Result<Made, Error> {
        self.said = None;
        self.placed = self.finder.place(&self.wanted, &self.held);
        match self.held.is_on() {
            true => self.make(vpp),
            false => Ok(Made {
                troubles: vec![Error::NoSessionRules],
                ..Made::default()
            }),
        }
    }

    /// Makes the tables what they should be. What lets nothing in from outside, as long as nobody knows what is wanted, goes when all
    /// else of the table is there.
    fn make(&mut self, vpp: &mut Vpp) -> Result<Made, Error> {
        let closing = self.held.closing();
        let closing: BTreeSet<_> = closing
            .filter(|part| !self.placed.parts.contains_key(part))
            .collect();
        if closing.is_empty() {
            return self.make_but(vpp, &BTreeSet::new());
        }
        let mut made = self.make_but(vpp, &closing)?;
        if made.is_outside_refused || self.is_odd {
            return Ok(made);
        }
        let last = self.make_but(vpp, &BTreeSet::new())?;
        made.operations += last.operations;
        made.troubles.extend(last.troubles);
        Ok(made)
    }

    /// The same, but for parts that are left as they are meanwhile.
    fn make_but(&mut self, vpp: &mut Vpp, meanwhile: &BTreeSet<Part>) -> Result<Made, Error> {
        let mut made = Made::default();
        self.is_odd = false;
        let kept = self.placed.kept.union(meanwhile).copied().collect();
        for _ in 0..ROUNDS {
            let plans = self.held.plans(&self.placed.parts, &kept);
            if plans.is_empty() {
                self.held.advance(&plans, &self.placed.parts);
                return Ok(made);
            }
            let trials = self.held.trials(&plans);
            let plans = if trials.is_empty() { plans } else { trials };
            made.operations += count(&plans);
            let mut doubts = self.held.doubts(&plans);
            let refusals = vpp.carry_out_rules(&by_table(&plans))?;
            if refusals.is_empty() && doubts.is_empty() {
                self.held.advance(&plans, &self.placed.parts);
                return Ok(made);
            }
            self.held.read(vpp)?;
            // Of a part of which something was refused not all has been told, and what was may be what was refused.
            doubts.retain(|(part, _)| refusals.iter().all(|(refused, _)| !part.is_of(*refused)));
            self.held.learn(doubts);
            if !refusals.is_empty() {
                let mut tables = refusals.iter().map(|((table, _), _)| *table);
                made.is_outside_refused = tables.any(|table| table == RuleTable::Global);
                let refusals = refusals.into_iter().map(|(_, refusal)| refusal.into());
                made.troubles = refusals.collect();
                return Ok(made);
            }
        }
        self.is_odd = !self.held.plans(&self.placed.parts, &kept).is_empty();
        Ok(made)
    }

    /// Notes which namespaces without rules of ours may be as an agent before has left them.
    fn note_left(&mut self) {
        let there = self.held.namespaces();
        let open = there.filter(|namespace| !self.held.is_ruled(Part::Local(*namespace)));
        let is_there = |namespace: &u32| self.held.has(*namespace);
        self.left.note(self.held.has_policies(), open, is_there);
    }

    /// Looks again in a while where namespaces are not there that should be.
    fn look_again(&mut self, is_lacking: bool) {
        self.again = is_lacking.then(|| Retry::after(self.again, Instant::now()));
    }

    /// The tables by which nothing may be opened, as nobody knows what is wanted.
    fn closed(&self) -> Vec<String> {
        let parts = self.placed.parts.keys().copied();
        names(parts.filter(|part| self.held.is_closed(*part)))
    }

    /// What does not fit together.
    fn conflicts(&self) -> Vec<String> {
        let mut conflicts = self.placed.troubles.clone();
        if self.is_odd {
            conflicts.push("VPP has other rules than it was told, and refused nothing".to_owned());
        }
        for (part, rule, other) in self.held.displaced(&self.placed.parts) {
            conflicts.push(format!(
                "{}: `{}` of others, with the tag `{}`, has the place of `{rule}`",
                name_of(part),
                other.rule,
                other.tag
            ));
        }
        conflicts
    }

    /// What is where, but for what has become of pods since that was said.
    fn summary(&mut self, wanted: &Wanted) -> Arc<Summary> {
        let (conflicts, mut foreign) = (self.conflicts(), others(&self.held));
        let closed = names(self.held.closing());
        foreign.extend(self.placed.nobodys.clone());
        if let Some(said) = &self.said
            && said.conflicts == conflicts
            && said.foreign == foreign
            && said.closed == closed
            && said.narrower == wanted.narrower
        {
            return Arc::clone(said);
        }
        looked_at(self.placed.pods.len() + self.placed.pending.len());
        let summary = Arc::new(Summary {
            conflicts,
            namespaces: self.placed.pods.clone(),
            pending: self.placed.pending.values().cloned().collect(),
            closed,
            foreign,
            narrower: wanted.narrower.clone(),
            ..Summary::default()
        });
        self.said = Some(Arc::clone(&summary));
        summary
    }
}

/// What others have there, and what that means.
pub(super) fn others(held: &Held) -> Vec<String> {
    let others = held.others().into_iter();
    let said = others.map(|(table, count, rule, is_mixed)| {
        let meaning = match is_mixed {
            true => "they decide what they match, but for what picket's are about more closely",
            false => "they decide alone",
        };
        let rules = if count == 1 { "rule" } else { "rules" };
        format!("{}: {count} {rules}, as `{rule}`; {meaning}", name(table))
    });
    said.collect()
}

impl Tables for SessionTables {
    fn features(&self) -> &'static [Feature] {
        &[Feature::SessionRules]
    }

    fn watch(&mut self, _: &mut Vpp) -> Result<(), Error> {
        Ok(())
    }

    fn read(&mut self, vpp: &mut Vpp) -> Result<(), Error> {
        self.news = None;
        self.finder.look();
        self.held.read(vpp)
    }

    fn look(&mut self, vpp: &mut Vpp, _: bool) -> Result<bool, Error> {
        let is_other_file = self.finder.look();
        let is_due = self.again.is_some_and(|again| again.at <= Instant::now());
        if is_other_file || is_due {
            // Whoever makes namespaces writes the file then, and one may have been made again under the same index.
            self.news = None;
            self.held.read(vpp)?;
        }
        Ok(is_other_file || is_due)
    }

    fn hear(&mut self, wanted: &Wanted) {
        match &wanted.rules {
            Told::Whole(rules) => {
                self.wanted.clone_from(rules);
                self.news = None;
            }
            Told::Changed(change) => {
                self.wanted.advance(change);
                if let Some(news) = &mut self.news {
                    news.then(change);
                }
            }
        }
    }

    fn close(&mut self, vpp: &mut Vpp) -> Result<Closed, Error> {
        let unsaid = self.finder.is_lost().map(str::to_owned);
        if !self.held.is_on() {
            return Ok(Closed {
                unsaid,
                troubles: vec![Error::NoSessionRules],
                ..Closed::default()
            });
        }
        self.note_left();
        self.placed = self.finder.close(&self.held, &self.left);
        let made = self.make(vpp)?;
        self.said = None;
        self.look_again(self.finder.is_lacking(&self.held));
        Ok(Closed {
            operations: made.operations,
            tables: self.closed(),
            unsaid,
            troubles: made.troubles,
            ..Closed::default()
        })
    }

    fn sync(&mut self, vpp: &mut Vpp, wanted: &Wanted) -> Result<Synced, Error> {
        let news = self.news.take();
        let made = match &news {
            Some(change) if change.is_empty() => Made::default(),
            _ => {
                let followed = match &news {
                    Some(change) if !self.is_odd => self.follow(vpp, change)?,
                    _ => None,
                };
                let made = match followed {
                    Some(made) => made,
                    None => self.place(vpp)?,
                };
                self.look_again(!self.placed.lacking.is_empty());
                made
            }
        };
        if made.troubles.is_empty() {
            self.news = Some(Change::default());
        }
        Ok(Synced {
            operations: made.operations,
            troubles: made.troubles,
            summary: self.summary(wanted),
            moved: made.moved,
            unknown: None,
        })
    }

    fn plan(&mut self, _: &mut Vpp, wanted: &Wanted) -> Result<String, Error> {
        if !self.held.is_on() {
            return Err(Error::NoSessionRules);
        }
        self.placed = self.finder.place(&self.wanted, &self.held);
        let placed = &self.placed;
        let mut text = String::new();
        for pending in placed.pending.values() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "# {} has no namespace: {}", pending.pod, pending.why);
        }
        for trouble in placed.troubles.iter().chain(&wanted.narrower) {
            let _ = writeln!(text, "# {trouble}");
        }
        write_plans(&self.held.plans(&placed.parts, &placed.kept), &mut text);
        Ok(text)
    }

    fn clean(&mut self, vpp: &mut Vpp) -> Result<Cleaned, Error> {
        let before = self.held.count();
        self.placed = PlacedRules::default();
        let made = self.make(vpp)?;
        Ok(Cleaned {
            removed: before.saturating_sub(self.held.count()),
            troubles: made.troubles,
        })
    }
}

fn name(table: RuleTable) -> String {
    match table {
        RuleTable::Global => "the global table".to_owned(),
        RuleTable::Local(namespace) => format!("namespace {namespace}"),
    }
}

/// The tables of these parts, in order.
fn names(parts: impl Iterator<Item = Part>) -> Vec<String> {
    let tables: BTreeSet<_> = parts.map(Part::table).collect();
    tables.into_iter().map(name).collect()
}

fn name_of(part: Part) -> String {
    match part {
        Part::Global(_) => name(RuleTable::Global),
        Part::Local(namespace) => name(RuleTable::Local(namespace)),
    }
}

fn write_plans(plans: &Plans, text: &mut String) {
    for (table, plan) in by_table(plans) {
        let _ = writeln!(text, "{}:", name(table));
        for operation in plan.iter().flatten() {
            let verb = match operation {
                Operation::Add(_) => "add",
                Operation::Delete(_) | Operation::DeleteNamed(..) => "delete",
                Operation::DeleteIfOwn(_) => "delete, if it is picket's,",
            };
            let _ = writeln!(text, "  {verb} {}", operation.rule());
        }
    }
}
