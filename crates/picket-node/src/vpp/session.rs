//! Rules of the session layer, in the namespaces that there are.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use picket_vpp::client::{Error, Feature, RuleTable, Vpp};
use picket_vpp::session::Tables as Rules;
use picket_vpp::session::plan::Operation;

use super::VppSettings;
use super::held::{Held, Part, Plans, by_table, count};
use super::namespace::{NamespaceFinder, PlacedRules};
use super::render::Wanted;
use super::worker::{Cleaned, Summary, Synced, Tables};
use crate::retry::Retry;

/// How often at most to plan what is to be done: first what only finds out whose rules are, then the rest, and then again
/// for what turned out to be others'.
const ROUNDS: usize = 4;

/// The rules that VPP has, and whose namespaces are which.
#[derive(Debug)]
pub(crate) struct SessionTables {
    finder: NamespaceFinder,
    held: Held,
    /// When to look again for namespaces that there should be: VPP does not tell of new ones.
    again: Option<Retry>,
    /// What VPP has, unless something may be different by now.
    done: Option<(Arc<Rules>, Arc<Summary>)>,
}

/// What making the tables what they should be has done.
#[derive(Debug, Default)]
struct Made {
    operations: usize,
    /// What VPP refused.
    troubles: Vec<Error>,
    /// Whether they are something else, though VPP refused nothing.
    is_odd: bool,
}

impl SessionTables {
    pub(crate) fn new(settings: &VppSettings) -> Self {
        Self {
            finder: NamespaceFinder::new(settings.pod_namespaces.as_ref()),
            held: Held::default(),
            again: None,
            done: None,
        }
    }

    /// Makes the tables what they should be.
    fn make(&mut self, vpp: &mut Vpp, placed: &PlacedRules) -> Result<Made, Error> {
        let mut made = Made::default();
        for _ in 0..ROUNDS {
            let plans = self.held.plans(&placed.parts, &placed.kept);
            if plans.is_empty() {
                self.held.advance(&plans, &placed.parts);
                return Ok(made);
            }
            let trials = self.held.trials(&plans);
            let plans = if trials.is_empty() { plans } else { trials };
            made.operations += count(&plans);
            let doubts = self.held.doubts(&plans);
            let refusals = vpp.carry_out_rules(&by_table(&plans))?;
            if refusals.is_empty() && doubts.is_empty() {
                self.held.advance(&plans, &placed.parts);
                return Ok(made);
            }
            self.held.read(vpp)?;
            self.held.learn(doubts);
            if !refusals.is_empty() {
                let refusals = refusals.into_iter().map(|(_, refusal)| refusal.into());
                made.troubles = refusals.collect();
                return Ok(made);
            }
        }
        made.is_odd = !self.held.plans(&placed.parts, &placed.kept).is_empty();
        Ok(made)
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
        self.done = None;
        self.finder.look();
        self.held.read(vpp)
    }

    fn look(&mut self, vpp: &mut Vpp, _: bool) -> Result<bool, Error> {
        let is_other_file = self.finder.look();
        let is_due = self.again.is_some_and(|again| again.at <= Instant::now());
        if is_other_file || is_due {
            // Whoever makes namespaces writes the file then, and one may have been made again under the same index.
            self.done = None;
            self.held.read(vpp)?;
        }
        Ok(is_other_file || is_due)
    }

    fn sync(&mut self, vpp: &mut Vpp, wanted: &Wanted) -> Result<Synced, Error> {
        if let Some((rules, summary)) = &self.done
            && Arc::ptr_eq(rules, &wanted.rules)
        {
            return Ok(Synced {
                summary: Arc::clone(summary),
                ..Synced::default()
            });
        }
        self.done = None;
        let mut placed = self.finder.place(&wanted.rules, &self.held);
        let lacks = placed.lacks.then(|| Retry::after(self.again, Instant::now()));
        self.again = lacks;
        let made = match self.held.is_on() {
            true => self.make(vpp, &placed)?,
            false => Made {
                troubles: vec![Error::NoSessionRules],
                ..Made::default()
            },
        };
        if made.is_odd {
            placed
                .troubles
                .push("VPP has other rules than it was told, and refused nothing".to_owned());
        }
        for (part, rule, other) in self.held.displaced(&placed.parts) {
            placed.troubles.push(format!(
                "{}: `{}` of others, with the tag `{}`, has the place of `{rule}`",
                name_of(part),
                other.rule,
                other.tag
            ));
        }
        let summary = Arc::new(Summary {
            conflicts: placed.troubles,
            namespaces: placed.pods,
            pending: placed.pending,
            foreign: others(&self.held),
            narrower: wanted.narrower.clone(),
            ..Summary::default()
        });
        if made.troubles.is_empty() {
            self.done = Some((Arc::clone(&wanted.rules), Arc::clone(&summary)));
        }
        Ok(Synced {
            operations: made.operations,
            troubles: made.troubles,
            summary,
        })
    }

    fn plan(&mut self, _: &mut Vpp, wanted: &Wanted) -> Result<String, Error> {
        if !self.held.is_on() {
            return Err(Error::NoSessionRules);
        }
        let placed = self.finder.place(&wanted.rules, &self.held);
        let mut text = String::new();
        for pending in &placed.pending {
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
        let made = self.make(vpp, &PlacedRules::default())?;
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
