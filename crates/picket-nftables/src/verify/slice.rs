//! A table without what cannot change a verdict: counters, logs, and writes that nobody reads.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Assigned, Chain, Datum, End, Field, Map, Match, Name, Rule, Slot, Statement, Table, Verdict,
};

/// A set of the fields that rules can write: bit 0 the priority, bit 1 the mark, bit 2 the mark of the connection.
pub(super) type Slots = u8;

/// The number of a field that rules can write.
pub(super) fn number(slot: Slot) -> usize {
    match slot {
        Slot::Priority => 0,
        Slot::Mark => 1,
        Slot::ConnectionMark => 2,
    }
}

fn bit(slot: Slot) -> Slots {
    1 << number(slot)
}

fn read_by(fields: &[Field]) -> Slots {
    fields.iter().fold(0, |slots, field| {
        slots
            | match field {
                Field::Priority => bit(Slot::Priority),
                Field::Mark => bit(Slot::Mark),
                Field::ConnectionMark => bit(Slot::ConnectionMark),
                _ => 0,
            }
    })
}

/// The chains that packets of one path meet, sliced.
pub(super) struct Sliced<'a> {
    /// The rules of each chain that packets can reach.
    pub(super) rules: BTreeMap<&'a Name, Vec<Rule>>,
    /// For each chain the fields whose value at its beginning can matter.
    pub(super) live: BTreeMap<&'a Name, Slots>,
    pub(super) maps: BTreeMap<&'a Name, &'a Map>,
}

/// Slices what packets meet that pass `bases` one after the other, whose source `is_own`.
pub(super) fn slice<'a>(table: &'a Table, bases: &[&'a Chain], is_own: bool) -> Sliced<'a> {
    let mut liveness = Liveness {
        is_own,
        chains: table.chains().iter().map(|chain| (&chain.name, chain)).collect(),
        maps: table.maps().iter().map(|map| (map.name(), map)).collect(),
        after_accept: 0,
        known: BTreeMap::new(),
    };
    for base in bases.iter().skip(1).rev() {
        // What is read after one accept is taken to be read after each: that keeps too much, never too little.
        liveness.known.clear();
        let live = liveness.before(&base.name, liveness.after_accept);
        liveness.after_accept |= live;
    }
    liveness.known.clear();
    let mut after: BTreeMap<&Name, Slots> = BTreeMap::new();
    let mut waiting: Vec<(&'a Name, Slots)> = bases
        .iter()
        .map(|base| (&base.name, liveness.after_accept))
        .collect();
    while let Some((chain, live)) = waiting.pop() {
        let known = after.get(chain).copied();
        if known.is_some_and(|known| known | live == known) {
            continue;
        }
        let all = known.unwrap_or_default() | live;
        after.insert(chain, all);
        liveness.walk(chain, all, &mut |liveness, rule, next| {
            waiting.extend(liveness_targets(&liveness.maps, rule, next, all));
        });
    }
    let mut sliced = Sliced {
        rules: BTreeMap::new(),
        live: BTreeMap::new(),
        maps: liveness.maps.clone(),
    };
    for (&chain, &live) in &after {
        let mut rules = Vec::new();
        let before = liveness.walk(chain, live, &mut |liveness, rule, next| {
            rules.extend(liveness.without_effects(rule, next, live));
        });
        rules.reverse();
        sliced.rules.insert(chain, rules);
        sliced.live.insert(chain, before);
    }
    sliced
}

/// The chains that a rule leads to, with what is read behind them.
fn liveness_targets<'a>(
    maps: &BTreeMap<&'a Name, &'a Map>,
    rule: &'a Rule,
    next: Slots,
    out: Slots,
) -> Vec<(&'a Name, Slots)> {
    verdicts(maps, rule)
        .into_iter()
        .filter_map(|verdict| match verdict {
            Verdict::Jump(chain) => Some((chain, next)),
            Verdict::Goto(chain) => Some((chain, out)),
            Verdict::Accept | Verdict::Drop | Verdict::Return => None,
        })
        .collect()
}

/// The verdicts that a rule can end in.
fn verdicts<'a>(maps: &BTreeMap<&'a Name, &'a Map>, rule: &'a Rule) -> BTreeSet<&'a Verdict> {
    match &rule.end {
        End::Next | End::Reject => BTreeSet::new(),
        End::Verdict(verdict) => BTreeSet::from([verdict]),
        End::VerdictMap { map, .. } => {
            let elements = maps.get(map).into_iter().flat_map(|map| map.elements().values());
            elements
                .filter_map(|datum| match datum {
                    Datum::Verdict(verdict) => Some(verdict),
                    Datum::Mark(_) | Datum::Priority(_) => None,
                })
                .collect()
        }
    }
}

struct Liveness<'a> {
    /// Whether the source is an address of this machine.
    is_own: bool,
    chains: BTreeMap<&'a Name, &'a Chain>,
    maps: BTreeMap<&'a Name, &'a Map>,
    after_accept: Slots,
    known: BTreeMap<(&'a Name, Slots), Slots>,
}

impl<'a> Liveness<'a> {
    /// What is read of the values at the beginning of a chain, when `out` is read behind it.
    fn before(&mut self, chain: &'a Name, out: Slots) -> Slots {
        if let Some(&known) = self.known.get(&(chain, out)) {
            return known;
        }
        let live = self.walk(chain, out, &mut |_, _, _| {});
        self.known.insert((chain, out), live);
        live
    }

    /// Visits the rules of a chain, last to first, each with what is read after it; gives what is read before the first.
    fn walk(
        &mut self,
        chain: &'a Name,
        out: Slots,
        visit: &mut impl FnMut(&mut Self, &'a Rule, Slots),
    ) -> Slots {
        let Some(&found) = self.chains.get(chain) else {
            return out;
        };
        let mut live = out;
        for rule in self.met(found).rev() {
            visit(self, rule, live);
            live = self.before_rule(rule, live, out);
        }
        live
    }

    /// The rules of a chain that packets with such a source can meet, and match.
    fn met(&self, chain: &'a Chain) -> impl DoubleEndedIterator<Item = &'a Rule> + use<'a> {
        let is_own = self.is_own;
        let about_source = |statement: &Statement| *statement == Match::LocalSource.into();
        let leaves = move |rule: &Rule| {
            let ends = matches!(&rule.end, End::Verdict(verdict) if !matches!(verdict, Verdict::Jump(_)));
            is_own && ends && !rule.statements.is_empty() && rule.statements.iter().all(about_source)
        };
        let last = chain.rules.iter().position(leaves);
        let met = chain.rules.iter().take(last.map_or(usize::MAX, |last| last + 1));
        met.filter(move |rule| is_own || !rule.statements.iter().any(about_source))
    }

    fn at_end(&mut self, rule: &'a Rule, next: Slots, out: Slots) -> Slots {
        let mut live = match &rule.end {
            End::Next => next,
            End::Verdict(_) | End::Reject => 0,
            End::VerdictMap { key, .. } => next | read_by(key),
        };
        for verdict in verdicts(&self.maps, rule) {
            live |= match verdict {
                Verdict::Accept => self.after_accept,
                Verdict::Drop => 0,
                Verdict::Return => out,
                Verdict::Jump(chain) => self.before(chain, next),
                Verdict::Goto(chain) => self.before(chain, out),
            };
        }
        live
    }

    fn before_rule(&mut self, rule: &'a Rule, next: Slots, out: Slots) -> Slots {
        let end = self.at_end(rule, next, out);
        let statements = rule.statements.iter().rev();
        statements.fold(end, |live, statement| before_statement(statement, live, next))
    }

    /// The rule without what has no effect; `None` when nothing is left.
    fn without_effects(&mut self, rule: &'a Rule, next: Slots, out: Slots) -> Option<Rule> {
        let mut live = self.at_end(rule, next, out);
        let mut kept: Vec<Statement> = Vec::new();
        for statement in rule.statements.iter().rev() {
            let decides = rule.end != End::Next || !kept.is_empty();
            let keep = match statement {
                Statement::Match(_) => decides,
                Statement::Set(slot, assigned) => {
                    let read = live & bit(*slot) != 0;
                    let can_fail = !matches!(assigned, Assigned::Constant(_));
                    read || (can_fail && decides)
                }
                Statement::Count(_) | Statement::Log(_) | Statement::Limit(_) => false,
            };
            if keep {
                kept.push(statement.clone());
                live = before_statement(statement, live, next);
            }
        }
        kept.reverse();
        (rule.end != End::Next || !kept.is_empty()).then(|| Rule::of(kept, rule.end.clone()))
    }
}

fn before_statement(statement: &Statement, live: Slots, next: Slots) -> Slots {
    match statement {
        Statement::Match(Match::Compare { field, .. } | Match::AnyOf { field, .. }) => {
            live | next | read_by(&[*field])
        }
        Statement::Match(Match::Lookup { key, .. }) => live | next | read_by(key),
        Statement::Match(_) => live | next,
        Statement::Set(slot, assigned) => {
            // Where there is no connection its mark stays as it was.
            let written = if *slot == Slot::ConnectionMark {
                0
            } else {
                bit(*slot)
            };
            let read = match assigned {
                Assigned::Constant(_) => 0,
                Assigned::Field(field) => read_by(&[*field]) | next,
                Assigned::Map { key, .. } => read_by(key) | next,
            };
            (live & !written) | read
        }
        Statement::Count(_) | Statement::Log(_) | Statement::Limit(_) => live,
    }
}
