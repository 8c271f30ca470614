//! The session rules that a VPP has, by what is planned by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_net::{Family, Prefix};
use picket_vpp::client::{Error, Place, RuleReading, RuleTable, Vpp};
use picket_vpp::session::plan::{InstalledRule, Operation, Plan, between, displaced, plan};
use picket_vpp::session::{SessionRule, Turn};

use super::namespace::News;
use super::work::{looked_at, planned_an_edit};

/// What of the tables changes by itself: no rule concerns those of another part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// What the global table says about the addresses at this end.
    Global(Prefix),
    /// The table of the namespace with this index.
    Local(u32),
}

impl Part {
    /// The table that it is a part of.
    pub(super) fn table(self) -> RuleTable {
        match self {
            Self::Global(_) => RuleTable::Global,
            Self::Local(namespace) => RuleTable::Local(namespace),
        }
    }

    /// Whether the rules of a place belong to it.
    pub(super) fn is_of(self, (table, end): Place) -> bool {
        match self {
            Self::Global(own) => table == RuleTable::Global && own == end,
            Self::Local(namespace) => table == RuleTable::Local(namespace),
        }
    }
}

/// What a part is to have: shared, so that what is the same in memory has not changed.
pub(crate) type Parts = BTreeMap<Part, Arc<[SessionRule]>>;

/// What each part is told.
pub(crate) type Plans = BTreeMap<Part, Plan>;

/// A rule of IPv6, of which VPP does not tell whose it is.
type Ipv6Rule = (RuleTable, SessionRule);

/// The session rules of a VPP.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// What parts have, but for those that have just what they were made.
    rules: BTreeMap<Part, Vec<InstalledRule>>,
    tables: BTreeSet<RuleTable>,
    /// Namespaces in other FIBs than the first.
    pub(crate) elsewhere: BTreeSet<u32>,
    /// Those of IPv6 that are others': VPP refused nothing of their table when it was told our names of them, and they are still there.
    foreign: BTreeMap<RuleTable, BTreeSet<SessionRule>>,
    /// Those of IPv6 that we have added.
    own: BTreeSet<Ipv6Rule>,
    /// Parts with rules of others.
    shared: BTreeSet<Part>,
    /// What parts were made the last time, unless something may be different by now.
    made: Parts,
}

impl Held {
    /// Reads everything.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) fn read(&mut self, vpp: &mut Vpp) -> Result<(), Error> {
        let reading = vpp.read_rules()?;
        looked_at(reading.tables.len());
        self.take(reading);
        Ok(())
    }

    /// Takes in what was read.
    pub(crate) fn take(&mut self, reading: RuleReading) {
        let RuleReading {
            tables,
            redirecting,
            elsewhere,
        } = reading;
        self.elsewhere = elsewhere;
        self.tables = tables.keys().copied().collect();
        self.rules.clear();
        self.made.clear();
        let mut there = BTreeSet::new();
        for (table, rules) in tables {
            for known in rules {
                there.insert((table, known.rule));
                let part = match table {
                    RuleTable::Global => Part::Global(known.rule.local),
                    RuleTable::Local(namespace) => Part::Local(namespace),
                };
                self.rules.entry(part).or_default().push(known);
            }
        }
        self.own.retain(|rule| there.contains(rule));
        for (table, rules) in &mut self.foreign {
            rules.retain(|rule| there.contains(&(*table, *rule)));
        }
        for (table, rules) in redirecting {
            let rules = rules.into_iter().filter(|rule| rule.family() == Family::Ipv6);
            self.foreign.entry(table).or_default().extend(rules);
        }
        self.note_shared();
    }

    fn note_shared(&mut self) {
        let parts = self.rules.iter();
        let shared = parts.filter(|(part, rules)| {
            let foreign = self.foreign.get(&part.table());
            rules.iter().any(|known| !is_own(known, foreign))
        });
        self.shared = shared.map(|(part, _)| *part).collect();
    }

    /// Whether there is any table.
    pub(crate) fn is_on(&self) -> bool {
        !self.tables.is_empty()
    }

    /// Whether there is the namespace of this index.
    pub(crate) fn has(&self, namespace: u32) -> bool {
        self.tables.contains(&RuleTable::Local(namespace))
    }

    /// The namespaces that there are.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = u32> {
        let tables = self.tables.iter();
        tables.filter_map(|table| match table {
            RuleTable::Global => None,
            RuleTable::Local(namespace) => Some(*namespace),
        })
    }

    /// Whether a part has rules of ours.
    pub(crate) fn is_ruled(&self, part: Part) -> bool {
        self.own(part).next().is_some()
    }

    /// Whether an agent has put a policy into force there: a part has rules of ours beside those by which nothing may be opened. Of a rule
    /// of IPv6 VPP does not tell whose it is: it counts as ours unless it is known better.
    pub(crate) fn has_policies(&self) -> bool {
        self.parts().any(|part| self.is_judged(part))
    }

    /// The same of one part.
    pub(crate) fn is_judged(&self, part: Part) -> bool {
        self.own(part).any(|rule| !rule.is_closing())
    }

    /// Whether all rules of ours that a part has say that nothing may be opened.
    pub(crate) fn is_closed(&self, part: Part) -> bool {
        self.is_ruled(part) && !self.is_judged(part)
    }

    /// The parts of the global table by which nothing may be opened to anybody. What is wanted is never about everybody.
    pub(crate) fn closing(&self) -> impl Iterator<Item = Part> {
        let ends = Family::BOTH.map(|family| Part::Global(Prefix::all(family)));
        ends.into_iter().filter(|part| self.is_closed(*part))
    }

    /// The parts of which anything is known, some of them twice.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> {
        self.rules.keys().chain(self.made.keys()).copied()
    }

    /// The rules of ours that a part has.
    fn own(&self, part: Part) -> impl Iterator<Item = &SessionRule> {
        let foreign = self.foreign.get(&part.table());
        let made = self.made.get(&part).filter(|_| !self.rules.contains_key(&part));
        let installed = self.installed(part).iter();
        let installed = installed.filter(move |known| is_own(known, foreign));
        let made = made.map(Arc::as_ref).unwrap_or_default();
        installed.map(|known| &known.rule).chain(made)
    }

    /// How many rules there are, ours and those of others.
    pub(crate) fn count(&self) -> usize {
        let read: usize = self.rules.values().map(Vec::len).sum();
        let made = self
            .made
            .iter()
            .filter(|(part, _)| !self.rules.contains_key(part));
        read + made.map(|(_, rules)| rules.len()).sum::<usize>()
    }

    fn foreign(&self, part: Part) -> BTreeSet<SessionRule> {
        self.foreign.get(&part.table()).cloned().unwrap_or_default()
    }

    fn installed(&self, part: Part) -> &[InstalledRule] {
        self.rules.get(&part).map(Vec::as_slice).unwrap_or_default()
    }

    /// What is to be done so that each part is as it should be. Those that are not wanted are to have nothing of ours, but `kept`
    /// ones are left alone.
    pub(crate) fn plans(&self, wanted: &Parts, kept: &BTreeSet<Part>) -> Plans {
        let parts: BTreeSet<_> = wanted.keys().copied().chain(self.parts()).collect();
        looked_at(parts.len());
        let plans = parts.difference(kept).copied();
        self.each(plans.map(|part| (part, None)), wanted)
    }

    /// The same where only these parts are to be something else than they were made.
    pub(crate) fn plans_of(&self, news: &News<'_>, wanted: &Parts) -> Plans {
        looked_at(news.len());
        self.each(news.iter().map(|(part, turn)| (*part, *turn)), wanted)
    }

    fn each<'t>(&self, parts: impl Iterator<Item = (Part, Option<&'t Turn>)>, wanted: &Parts) -> Plans {
        let none: Arc<[SessionRule]> = Arc::default();
        let plans = parts.map(|(part, turn)| {
            let rules = wanted.get(&part).unwrap_or(&none);
            (part, self.plan(part, rules, turn))
        });
        plans.filter(|(_, plan)| !plan.is_empty()).collect()
    }

    /// What is to be done so that a part gets these rules, by what has changed if that is known.
    fn plan(&self, part: Part, rules: &Arc<[SessionRule]>, turn: Option<&Turn>) -> Plan {
        let is_made = |rules: &Arc<[SessionRule]>| {
            let made = self.made.get(&part);
            made.is_some_and(|made| Arc::ptr_eq(made, rules))
        };
        if is_made(rules) {
            return Plan::new();
        }
        if self.rules.contains_key(&part) {
            return plan(self.installed(part), rules, &self.foreign(part));
        }
        // It has just what it was made.
        match turn.filter(|turn| turn.before.as_ref().is_some_and(is_made)) {
            Some(turn) => {
                if turn.is_edit() {
                    planned_an_edit();
                }
                turn.plan()
            }
            None => {
                let made = self.made.get(&part);
                between(made.map(Arc::as_ref).unwrap_or_default(), rules)
            }
        }
    }

    /// Of these plans the removals that have to be tried first: VPP does not tell whose the rule is, and another is to have its
    /// place. Were it somebody else's it would lose its rule, and VPP its mind.
    pub(crate) fn trials(&self, plans: &Plans) -> Plans {
        let place = |rule: &SessionRule| {
            let ports = (rule.local_port, rule.remote_port);
            (rule.transport, rule.local, rule.remote, ports)
        };
        let mut trials = Plans::new();
        for (part, plan) in plans {
            let operations = || plan.iter().flatten();
            let added: BTreeSet<_> = operations()
                .filter(|operation| matches!(operation, Operation::Add(_)))
                .map(|operation| place(operation.rule()))
                .collect();
            let tried = operations().filter(|operation| {
                self.is_doubtful(*part, operation) && added.contains(&place(operation.rule()))
            });
            let tried: Vec<_> = tried.cloned().collect();
            if !tried.is_empty() {
                trials.insert(*part, vec![tried]);
            }
        }
        trials
    }

    /// Whether nobody knows if VPP will do it.
    fn is_doubtful(&self, part: Part, operation: &Operation) -> bool {
        match operation {
            Operation::DeleteIfOwn(rule) => !self.own.contains(&(part.table(), *rule)),
            _ => false,
        }
    }

    /// The rules of which it is found out by these plans whether they are ours.
    pub(crate) fn doubts(&self, plans: &Plans) -> Vec<(Part, SessionRule)> {
        let each = plans
            .iter()
            .flat_map(|(part, plan)| plan.iter().flatten().map(move |operation| (*part, operation)));
        each.filter(|(part, operation)| self.is_doubtful(*part, operation))
            .map(|(part, operation)| (part, *operation.rule()))
            .collect()
    }

    /// VPP was told to remove these if they are ours, refused nothing of their parts, and everything has been read again since.
    pub(crate) fn learn(&mut self, doubts: Vec<(Part, SessionRule)>) {
        for (part, rule) in doubts {
            if self.installed(part).iter().any(|known| known.rule == rule) {
                self.foreign.entry(part.table()).or_default().insert(rule);
            }
        }
        self.note_shared();
    }

    /// What parts were told with these plans is so now, and they are as `wanted`, but for those that are left alone.
    pub(crate) fn advance(&mut self, plans: &Plans, wanted: &Parts) {
        let known = self.made.keys().chain(plans.keys()).chain(wanted.keys());
        let parts: BTreeSet<_> = known.copied().collect();
        looked_at(parts.len());
        for part in parts {
            self.settle(part, plans.get(&part), wanted.get(&part));
        }
    }

    /// The same where only these parts were to be something else.
    pub(crate) fn advance_by(&mut self, news: &News<'_>, plans: &Plans, wanted: &Parts) {
        looked_at(news.len());
        for part in news.keys() {
            self.settle(*part, plans.get(part), wanted.get(part));
        }
    }

    /// A part was told with this plan to have these rules, or with `None` nothing of ours; without a plan there was nothing to do.
    fn settle(&mut self, part: Part, plan: Option<&Plan>, wanted: Option<&Arc<[SessionRule]>>) {
        let is_shared = self.shared.contains(&part);
        for operation in plan.into_iter().flatten().flatten() {
            self.note_own(part, operation);
            if is_shared {
                self.follow(part, operation);
            }
        }
        let made = match wanted {
            Some(rules) => self.made.insert(part, Arc::clone(rules)),
            None => self.made.remove(&part),
        };
        if is_shared {
            return;
        }
        if wanted.is_some() || plan.is_some() {
            self.rules.remove(&part);
        } else if let Some(made) = made.filter(|made| !made.is_empty()) {
            // It is left as it is.
            let rules = made.iter().copied().map(InstalledRule::ours);
            self.rules.insert(part, rules.collect());
        }
    }

    fn note_own(&mut self, part: Part, operation: &Operation) {
        let rule = *operation.rule();
        if rule.family() == Family::Ipv6 {
            let rule = (part.table(), rule);
            match operation {
                Operation::Add(_) => drop(self.own.insert(rule)),
                _ => drop(self.own.remove(&rule)),
            }
        }
    }

    fn follow(&mut self, part: Part, operation: &Operation) {
        let rules = self.rules.entry(part).or_default();
        let rule = *operation.rule();
        match operation {
            Operation::Add(_) => rules.push(InstalledRule::ours(rule)),
            Operation::DeleteNamed(_, tag) => rules.retain(|known| known.rule != rule || known.tag != *tag),
            Operation::Delete(_) | Operation::DeleteIfOwn(_) => rules.retain(|known| known.rule != rule),
        }
    }

    /// What does not get its place, because others have it.
    pub(crate) fn displaced(&self, wanted: &Parts) -> Vec<(Part, SessionRule, InstalledRule)> {
        let mut found = Vec::new();
        looked_at(self.shared.len());
        for part in &self.shared {
            let Some(rules) = wanted.get(part) else { continue };
            let displaced = displaced(self.installed(*part), rules, &self.foreign(*part));
            found.extend(displaced.into_iter().map(|(rule, other)| (*part, rule, other)));
        }
        found
    }

    /// Rules of others: in which table, how many, one of them, and whether the same table has some of ours.
    pub(crate) fn others(&self) -> Vec<(RuleTable, usize, SessionRule, bool)> {
        let mut found: BTreeMap<RuleTable, (usize, SessionRule, bool)> = BTreeMap::new();
        looked_at(self.shared.len());
        for part in &self.shared {
            let foreign = self.foreign.get(&part.table());
            let rules = self.installed(*part).iter();
            let (own, others): (Vec<_>, Vec<_>) = rules.partition(|known| is_own(known, foreign));
            let Some(first) = others.first() else { continue };
            let entry = found
                .entry(part.table())
                .or_insert_with(|| (0, first.rule, false));
            entry.0 += others.len();
            entry.2 |= !own.is_empty();
        }
        let each = found.into_iter();
        each.map(|(table, (count, rule, mixed))| (table, count, rule, mixed))
            .collect()
    }
}

fn is_own(known: &InstalledRule, foreign: Option<&BTreeSet<SessionRule>>) -> bool {
    known.is_own(foreign.unwrap_or(&BTreeSet::new()))
}

/// Plans by table, each step with those of all parts.
pub(crate) fn by_table(plans: &Plans) -> BTreeMap<RuleTable, Plan> {
    let mut found: BTreeMap<RuleTable, Plan> = BTreeMap::new();
    for (part, plan) in plans {
        let steps = found.entry(part.table()).or_default();
        for (number, step) in plan.iter().enumerate() {
            match steps.get_mut(number) {
                Some(known) => known.extend(step.iter().cloned()),
                None => steps.push(step.clone()),
            }
        }
    }
    found
}

/// How many messages plans take.
pub(crate) fn count(plans: &Plans) -> usize {
    plans.values().flatten().map(Vec::len).sum()
}
