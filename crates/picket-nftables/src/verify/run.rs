//! Sends cells through chains. What a rule tells apart falls apart; everything else goes on together.

use std::collections::BTreeMap;
use std::rc::Rc;

use picket_net::{BitSet, Interval, IntervalSet, Protocol};
use rustc_hash::{FxHashMap, FxHashSet};

use super::cell::{Cell, Header, Scratch, joined};
use super::lookup::{Position, Tables, connected};
use super::program::{Action, Decision, Ending, Found, Step, state_bit};
use super::values::Values;
use crate::model::{Hook, Policy};
use picket_dataplane::State;
use picket_dataplane::demand::ABSENT_FLAGS;

/// Where cells end.
pub(super) trait Sink {
    /// All of `cell` passes, or none of it; says whether to go on.
    fn ended(&mut self, cell: &Cell, pass: bool) -> bool;

    /// Whether to go on; asked before each rule, and before each end.
    fn goes_on(&mut self) -> bool;
}

/// What became of the cells that entered a chain and were not dropped there.
#[derive(Debug, Default)]
struct Left {
    accepted: Vec<Cell>,
    undecided: Vec<Cell>,
}

/// How many cells are remembered for each purpose. All are forgotten then, which costs time and lets an end be told and counted
/// again: a proof of what policies say of 100,000 pods must not take as much memory as everything else that an agent knows. A table
/// of 2¹⁴ places grows beyond 7 of 8.
pub(super) const REMEMBERED: usize = (1 << 14) / 8 * 7;

/// Runs cells through the base chains of one path.
pub(super) struct Run<'t, 'a, 'd, S> {
    tables: &'t Tables<'a, 'd>,
    sink: S,
    /// What became of the cells that entered a chain before.
    known: FxHashMap<(Position, usize, Cell), Rc<Left>>,
    /// Cells that have ended, without what they carry in writable fields.
    seen: FxHashSet<(bool, Cell)>,
    /// Whether the sink has had enough.
    stopped: bool,
}

impl<'t, 'a, 'd, S: Sink> Run<'t, 'a, 'd, S> {
    pub(super) fn new(tables: &'t Tables<'a, 'd>, sink: S) -> Self {
        Self {
            tables,
            sink,
            known: FxHashMap::default(),
            seen: FxHashSet::default(),
            stopped: false,
        }
    }

    /// Runs all of `cell`; gives the sink back.
    pub(super) fn path(mut self, cell: Cell) -> S {
        let mut cells = vec![cell];
        for (base, chain) in &self.tables.program.bases {
            let first = matches!(base.hook, Hook::Prerouting | Hook::Output);
            let position = Position {
                hook: base.hook,
                tracked: !(first && base.priority <= -200),
            };
            let left = self.chain(position, *chain, cells);
            cells = left.accepted;
            match base.policy {
                Policy::Accept => cells.extend(left.undecided),
                Policy::Drop => self.end(left.undecided, false),
            }
        }
        self.end(cells, true);
        self.sink
    }

    fn end(&mut self, cells: Vec<Cell>, pass: bool) {
        for cell in cells {
            if !self.goes_on() {
                return;
            }
            // What writable fields hold in the end matters to nobody; what they held first may be any of these.
            let mut key = cell.clone();
            key.scratch = [0, 1, 2].map(|_| Scratch::Constant(0));
            let anything = Rc::new(IntervalSet::all());
            key.initial = [0, 1, 2].map(|_| Rc::clone(&anything));
            if self.seen.len() >= REMEMBERED {
                self.seen = FxHashSet::default();
            }
            if self.seen.insert((pass, key)) {
                self.stopped = !self.sink.ended(&cell, pass);
            }
        }
    }

    fn goes_on(&mut self) -> bool {
        self.stopped = self.stopped || !self.sink.goes_on();
        !self.stopped
    }

    fn chain(&mut self, position: Position, chain: usize, cells: Vec<Cell>) -> Left {
        let mut left = Left::default();
        let tables = self.tables;
        let rules = tables
            .program
            .chains
            .get(chain)
            .map_or(&[][..], |body| &body.rules);
        let mut arriving = cells;
        for rule in rules {
            if arriving.is_empty() || !self.goes_on() {
                break;
            }
            arriving = self.rule(position, rule, arriving, &mut left);
        }
        left.undecided.extend(arriving);
        left
    }

    /// Runs one rule; gives the cells that go on to the next.
    fn rule(&mut self, position: Position, rule: &Step, arriving: Vec<Cell>, left: &mut Left) -> Vec<Cell> {
        let mut next = Vec::new();
        let mut here = arriving;
        for (index, action) in rule.actions.iter().enumerate() {
            let is_last = index + 1 == rule.actions.len() && rule.end == Ending::Next;
            let mut passed = Vec::new();
            for cell in here {
                self.action(position, action, cell, is_last, &mut passed, &mut next);
            }
            here = passed;
        }
        match &rule.end {
            Ending::Next => next.extend(here),
            Ending::Decided(decision) => {
                for cell in here {
                    self.decide(position, *decision, cell, left, &mut next);
                }
            }
            Ending::Mapped { fields, container } => {
                for cell in here {
                    let Some(cell) = self.tables.readable(position, cell, fields, &mut next) else {
                        continue;
                    };
                    for (outcome, cell) in self.tables.look_up(position, cell, fields, *container) {
                        match self.found(outcome) {
                            Some(Found::Decision(decision)) => {
                                self.decide(position, decision, cell, left, &mut next);
                            }
                            Some(Found::Number(_)) | None => next.push(cell),
                        }
                    }
                }
            }
        }
        // What is left of the ways of arrival is no product, and mostly nothing tells it apart any more.
        if rule.actions.contains(&Action::NoReversePath) {
            next = joined(next);
        }
        next
    }

    fn found(&self, outcome: Option<u32>) -> Option<Found> {
        self.tables.program.outcomes.get(outcome? as usize).copied()
    }

    fn decide(
        &mut self,
        position: Position,
        decision: Decision,
        cell: Cell,
        left: &mut Left,
        next: &mut Vec<Cell>,
    ) {
        match decision {
            Decision::Accept => left.accepted.push(cell),
            Decision::Drop => self.end(vec![cell], false),
            Decision::Return => left.undecided.push(cell),
            Decision::Jump(chain) => {
                let (accepted, undecided) = self.call(position, chain, cell);
                left.accepted.extend(accepted);
                next.extend(undecided);
            }
            Decision::Goto(chain) => {
                let (accepted, undecided) = self.call(position, chain, cell);
                left.accepted.extend(accepted);
                left.undecided.extend(undecided);
            }
        }
    }

    /// Runs a chain; what an equal cell has met there before is remembered.
    fn call(&mut self, position: Position, chain: usize, cell: Cell) -> (Vec<Cell>, Vec<Cell>) {
        let live = self.tables.program.chains.get(chain).map_or(7, |body| body.live);
        let given = cell.initial.clone();
        let mut key = cell;
        let anything = Rc::new(IntervalSet::all());
        let mut dead = [false; 3];
        for slot in 0..3_usize {
            // Another field may still hold a copy of what this one held.
            let copied = (0..3_usize).any(|other| {
                other != slot
                    && key.scratch.get(other) == Some(&Scratch::Initial(slot))
                    && live >> other & 1 == 1
            });
            if live >> slot & 1 == 1 || copied {
                continue;
            }
            key.set_scratch(slot, Scratch::Constant(0));
            if let (Some(initial), Some(dead)) = (key.initial.get_mut(slot), dead.get_mut(slot)) {
                *initial = Rc::clone(&anything);
                *dead = true;
            }
        }
        let key = (position, chain, key);
        let known = match self.known.get(&key) {
            Some(known) => Rc::clone(known),
            None => {
                // What ends within the chain ends with what these packets really came with.
                let cell = Cell {
                    initial: given.clone(),
                    ..key.2.clone()
                };
                let left = Rc::new(self.chain(position, chain, vec![cell]));
                if self.known.len() >= REMEMBERED {
                    self.known = FxHashMap::default();
                }
                self.known.insert(key, Rc::clone(&left));
                left
            }
        };
        let restore = |cells: &[Cell]| -> Vec<Cell> {
            let restored = cells.iter().cloned().map(|mut cell| {
                let slots = cell.initial.iter_mut().zip(&given).zip(dead);
                for ((initial, given), _) in slots.filter(|(_, dead)| *dead) {
                    *initial = Rc::clone(given);
                }
                cell
            });
            restored.collect()
        };
        (restore(&known.accepted), restore(&known.undecided))
    }

    fn action(
        &self,
        position: Position,
        action: &Action,
        cell: Cell,
        is_last: bool,
        passed: &mut Vec<Cell>,
        failed: &mut Vec<Cell>,
    ) {
        let mut sort = |(inside, outside): (Option<Cell>, Option<Cell>), negated: bool| {
            let (good, bad) = if negated {
                (outside, inside)
            } else {
                (inside, outside)
            };
            passed.extend(good);
            failed.extend(bad);
        };
        match action {
            Action::States(states) if position.tracked => sort(cell.cut_states(*states), false),
            Action::States(states) => {
                let holds = states & state_bit(State::Invalid) != 0;
                sort((Some(cell), None), !holds);
            }
            Action::Lookup {
                fields,
                container,
                negated,
            } => {
                let Some(cell) = self.tables.readable(position, cell, fields, failed) else {
                    return;
                };
                for (outcome, cell) in self.tables.look_up(position, cell, fields, *container) {
                    if outcome.is_some() != *negated {
                        passed.push(cell);
                    } else {
                        failed.push(cell);
                    }
                }
            }
            Action::Flags { mask, value, negated } => {
                // What has no flags matches in neither way.
                let matching = (0..ABSENT_FLAGS)
                    .filter(|flags| (flags & u32::from(*mask) == u32::from(*value)) != *negated)
                    .map(Interval::single)
                    .collect();
                let (inside, mut outside) = cell.cut(Header::TcpFlags, &matching);
                let tcp = Interval::single(u32::from(Protocol::TCP.number())).into();
                let (inside, others) = match inside {
                    Some(cell) => cell.cut(Header::Protocol, &tcp),
                    None => (None, None),
                };
                // Flags that are left stand for other protocols, which have none, as well as any.
                if outside.is_none() {
                    outside = others;
                }
                passed.extend(inside);
                failed.extend(outside);
            }
            Action::NoReversePath if position.hook == Hook::Output || cell.inputs.is_empty() => {
                failed.push(cell);
            }
            Action::NoReversePath => sort(cell.cut_reverse_path(), false),
            Action::Constant(..) | Action::Copy(..) | Action::Mapped { .. } => {
                self.assign(position, action, cell, is_last, passed, failed);
            }
        }
    }

    /// Runs a statement that writes.
    fn assign(
        &self,
        position: Position,
        action: &Action,
        cell: Cell,
        is_last: bool,
        passed: &mut Vec<Cell>,
        failed: &mut Vec<Cell>,
    ) {
        match action {
            Action::Constant(slot, value) => {
                self.write(cell, *slot, &Scratch::Constant(*value), position, passed);
            }
            Action::Copy(slot, from) => {
                let fields = if *from == 2 {
                    &[crate::model::Field::ConnectionMark][..]
                } else {
                    &[]
                };
                let Some(cell) = self.tables.readable(position, cell, fields, failed) else {
                    return;
                };
                if let Some(value) = cell.scratch.get(*from).cloned() {
                    self.write(cell, *slot, &value, position, passed);
                }
            }
            Action::Mapped {
                slot,
                fields,
                container,
            } => {
                let Some(cell) = self.tables.readable(position, cell, fields, failed) else {
                    return;
                };
                match fields.as_slice() {
                    [field] if is_last => {
                        if let Some(value) = self.mapped(position, &cell, *slot, *field, *container) {
                            self.write(cell, *slot, &value, position, passed);
                            return;
                        }
                    }
                    _ => {}
                }
                for (outcome, cell) in self.tables.look_up(position, cell, fields, *container) {
                    match self.found(outcome) {
                        Some(Found::Number(value)) => {
                            self.write(cell, *slot, &Scratch::Constant(value), position, passed);
                        }
                        Some(Found::Decision(_)) | None => failed.push(cell),
                    }
                }
            }
            Action::States(_) | Action::Lookup { .. } | Action::Flags { .. } | Action::NoReversePath => {
                passed.push(cell);
            }
        }
    }

    /// What a field holds after a map was written into it, found or not, as one number for each class.
    fn mapped(
        &self,
        position: Position,
        cell: &Cell,
        slot: usize,
        field: crate::model::Field,
        container: usize,
    ) -> Option<Scratch> {
        let (by, axis) = self.tables.told(position, cell, field)?;
        let before = cell.scratch.get(slot)?;
        let memory = &self.tables.memory;
        let values = memory.mapped((by.clone(), axis), container, before, |next| {
            let (outcomes, all) = self.tables.outcomes(&by, container).unwrap_or_default();
            let mut written: BTreeMap<u32, BitSet> = BTreeMap::new();
            for (outcome, classes) in outcomes {
                if let Some(Found::Number(value)) = self.found(Some(outcome)) {
                    written.entry(value).or_default().extend(&classes);
                }
            }
            Values::new(next, &all, written, (axis, before))
        });
        values.held(axis, cell.list(axis))
    }

    fn write(&self, cell: Cell, slot: usize, value: &Scratch, position: Position, passed: &mut Vec<Cell>) {
        let written = |mut cell: Cell| {
            cell.set_scratch(slot, value.clone());
            cell
        };
        if slot < 2 {
            passed.push(written(cell));
            return;
        }
        // The mark of a connection is written where there is one; elsewhere the rule goes on all the same.
        if !position.tracked {
            passed.push(cell);
            return;
        }
        let (with, without) = cell.cut_states(connected());
        passed.extend(with.map(written));
        passed.extend(without);
    }
}
