//! Sliced chains in the form in which they are run: chains that do the same are one, and names are numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

use picket_dataplane::State;
use rustc_hash::FxHashMap;

use super::container::{Container, Element};
use super::slice::{Sliced, Slots, number, slice};
use crate::model::{
    Assigned, Base, Chain, Datum, End, Field, Hook, Match, Name, Relation, Rule, Set, Slot, Statement, Table,
    Value, Verdict,
};

/// What packets of one path meet.
#[derive(Debug, Default)]
pub(super) struct Program<'a> {
    /// The base chains in the order in which packets pass them.
    pub(super) bases: Vec<(Base, usize)>,
    pub(super) chains: Vec<Body>,
    pub(super) containers: Vec<Container<'a>>,
    /// What finding an element of a map means.
    pub(super) outcomes: Vec<Found>,
}

/// The rules of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Body {
    pub(super) rules: Vec<Step>,
    /// The fields whose value at the beginning can matter.
    pub(super) live: Slots,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    pub(super) actions: Vec<Action>,
    pub(super) end: Ending,
}

/// One statement of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    /// Goes on when the fields are found; when they are not, if `negated`.
    Lookup {
        fields: Vec<Field>,
        container: usize,
        negated: bool,
    },
    /// Goes on in these states.
    States(u8),
    /// Goes on when the flags under the mask are the value; when they are not, if `negated`.
    Flags { mask: u8, value: u8, negated: bool },
    /// Goes on when the route back leads elsewhere.
    NoReversePath,
    /// Writes a constant.
    Constant(usize, u32),
    /// Copies a field.
    Copy(usize, usize),
    /// Writes what a map gives.
    Mapped {
        slot: usize,
        fields: Vec<Field>,
        container: usize,
    },
}

/// What a rule ends in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    Next,
    Decided(Decision),
    Mapped { fields: Vec<Field>, container: usize },
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Decision {
    Accept,
    Drop,
    Return,
    Jump(usize),
    Goto(usize),
}

/// What an element of a map stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Found {
    Number(u32),
    Decision(Decision),
}

/// The bit of a state.
pub(super) fn state_bit(state: State) -> u8 {
    match state {
        State::New => 1,
        State::Established => 2,
        State::Related => 4,
        State::Invalid => 8,
        State::Untracked => 16,
    }
}

/// The bits of all states.
pub(super) const ALL_STATES: u8 = 0x1f;

/// Every state, those that open connections first.
pub(super) const STATES: [State; 5] = [
    State::New,
    State::Untracked,
    State::Invalid,
    State::Established,
    State::Related,
];

impl<'a> Program<'a> {
    /// What packets meet that pass these hooks one after the other.
    /// `is_own` says whether their source is an address of this machine.
    pub(super) fn of(table: &'a Table, path: &[Hook], is_own: bool) -> Self {
        let mut bases = Vec::new();
        for hook in path {
            let mut here: Vec<_> = table
                .chains()
                .iter()
                .filter_map(|chain| chain.base.map(|base| (base, chain)))
                .filter(|(base, _)| base.hook == *hook)
                .collect();
            here.sort_by_key(|(base, _)| base.priority);
            bases.extend(here);
        }
        let chains: Vec<&Chain> = bases.iter().map(|(_, chain)| *chain).collect();
        let mut builder = Builder {
            sliced: slice(table, &chains, is_own),
            sets: table.sets().iter().map(|set| (set.name(), set)).collect(),
            program: Self::default(),
            chains: BTreeMap::new(),
            bodies: BTreeMap::new(),
            named: BTreeMap::new(),
            containers: FxHashMap::default(),
            outcomes: BTreeMap::new(),
        };
        let bases = bases
            .into_iter()
            .map(|(base, chain)| (base, builder.chain(&chain.name)))
            .collect();
        Self {
            bases,
            ..builder.program
        }
    }
}

struct Builder<'a> {
    sliced: Sliced<'a>,
    sets: BTreeMap<&'a Name, &'a Set>,
    program: Program<'a>,
    chains: BTreeMap<Name, usize>,
    bodies: BTreeMap<Body, usize>,
    /// Sets and maps by name.
    named: BTreeMap<Name, usize>,
    /// Those with the same elements are one.
    containers: FxHashMap<Vec<Element<'a>>, usize>,
    outcomes: BTreeMap<Found, u32>,
}

impl<'a> Builder<'a> {
    fn chain(&mut self, name: &Name) -> usize {
        if let Some(&known) = self.chains.get(name) {
            return known;
        }
        let rules = self.sliced.rules.get(name).cloned().unwrap_or_default();
        let body = Body {
            rules: rules.iter().map(|rule| self.rule(rule)).collect(),
            live: self.sliced.live.get(name).copied().unwrap_or_default(),
        };
        let next = self.program.chains.len();
        let number = *self.bodies.entry(body.clone()).or_insert(next);
        if number == next {
            self.program.chains.push(body);
        }
        self.chains.insert(name.clone(), number);
        number
    }

    fn rule(&mut self, rule: &Rule) -> Step {
        let actions = rule
            .statements
            .iter()
            .filter_map(|statement| match statement {
                Statement::Match(condition) => Some(self.test(condition)),
                Statement::Set(slot, assigned) => Some(self.assignment(*slot, assigned)),
                // Behind a limit nothing is decided or written.
                Statement::Count(_) | Statement::Log(_) | Statement::Limit(_) => None,
            })
            .collect();
        let end = match &rule.end {
            End::Next => Ending::Next,
            End::Verdict(verdict) => Ending::Decided(self.decision(verdict)),
            End::Reject => Ending::Decided(Decision::Drop),
            End::VerdictMap { key, map } => Ending::Mapped {
                fields: key.clone(),
                container: self.map(map),
            },
        };
        Step { actions, end }
    }

    fn decision(&mut self, verdict: &Verdict) -> Decision {
        match verdict {
            Verdict::Accept => Decision::Accept,
            Verdict::Drop => Decision::Drop,
            Verdict::Return => Decision::Return,
            Verdict::Jump(chain) => Decision::Jump(self.chain(chain)),
            Verdict::Goto(chain) => Decision::Goto(self.chain(chain)),
        }
    }

    fn container(&mut self, elements: Vec<Element<'a>>) -> usize {
        let next = self.program.containers.len();
        match self.containers.entry(elements) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.program.containers.push(Container::new(new.key().clone()));
                *new.insert(next)
            }
        }
    }

    /// The values that a rule names itself.
    fn values<'v>(&mut self, values: impl IntoIterator<Item = &'v Value>) -> usize {
        let elements = values.into_iter().map(|value| Element {
            key: Cow::Owned(value.clone().into()),
            outcome: 0,
        });
        self.container(elements.collect())
    }

    fn set(&mut self, name: &Name) -> usize {
        if let Some(&known) = self.named.get(name) {
            return known;
        }
        let elements = self.sets.get(name).map(|set| set.elements());
        let elements = elements.into_iter().flatten().map(|key| Element {
            key: Cow::Borrowed(key),
            outcome: 0,
        });
        let number = self.container(elements.collect());
        self.named.insert(name.clone(), number);
        number
    }

    fn map(&mut self, name: &Name) -> usize {
        if let Some(&known) = self.named.get(name) {
            return known;
        }
        let elements = self.sliced.maps.get(name).map(|map| map.elements());
        let mut found = Vec::new();
        for (key, datum) in elements.into_iter().flatten() {
            let outcome = match datum {
                Datum::Mark(number) | Datum::Priority(number) => Found::Number(*number),
                Datum::Verdict(verdict) => Found::Decision(self.decision(verdict)),
            };
            let next = u32::try_from(self.program.outcomes.len()).unwrap_or(u32::MAX);
            let number = *self.outcomes.entry(outcome).or_insert(next);
            if number == next {
                self.program.outcomes.push(outcome);
            }
            found.push(Element {
                key: Cow::Borrowed(key),
                outcome: number,
            });
        }
        let number = self.container(found);
        self.named.insert(name.clone(), number);
        number
    }

    fn test(&mut self, condition: &Match) -> Action {
        match condition {
            Match::Compare {
                field,
                relation,
                value,
            } => Action::Lookup {
                fields: vec![*field],
                container: self.values([value]),
                negated: *relation == Relation::IsNot,
            },
            Match::AnyOf { field, values } => Action::Lookup {
                fields: vec![*field],
                container: self.values(values),
                negated: false,
            },
            Match::Lookup { key, relation, set } => Action::Lookup {
                fields: key.clone(),
                container: self.set(set),
                negated: *relation == Relation::IsNot,
            },
            Match::State(states) => {
                Action::States(states.iter().fold(0, |bits, &state| bits | state_bit(state)))
            }
            Match::TcpFlags {
                mask,
                relation,
                value,
            } => Action::Flags {
                mask: *mask,
                value: *value,
                negated: *relation == Relation::IsNot,
            },
            Match::NoReversePath => Action::NoReversePath,
            // Where it does not hold the rule is gone.
            Match::LocalSource => Action::States(ALL_STATES),
        }
    }

    fn assignment(&mut self, slot: Slot, assigned: &Assigned) -> Action {
        let slot = number(slot);
        match assigned {
            Assigned::Constant(value) => Action::Constant(slot, *value),
            Assigned::Field(field) => Action::Copy(
                slot,
                match field {
                    Field::Priority => 0,
                    Field::Mark => 1,
                    // INVARIANT: a checked table copies fields of the slot's type only.
                    _ => 2,
                },
            ),
            Assigned::Map { key, map } => Action::Mapped {
                slot,
                fields: key.clone(),
                container: self.map(map),
            },
        }
    }
}
