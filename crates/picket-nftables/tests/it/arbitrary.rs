//! Tables out of bytes: every list of bytes makes one, and small changes of the bytes make small changes of the table.

use picket_net::Interval;
use picket_nftables::model::*;

use crate::sample::name;

/// Reads choices from bytes, and zeros after their end.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, bound: u8) -> u8 {
        self.0.next().copied().unwrap_or(0) % bound
    }

    fn one_in(&mut self, bound: u8) -> bool {
        self.below(bound) == bound - 1
    }

    fn subset(&mut self, of: u8) -> Vec<u8> {
        (0..of).filter(|_| self.below(2) == 1).collect()
    }

    fn comment(&mut self) -> Option<Comment> {
        ["", "one", "two"]
            .get(usize::from(self.below(3)))
            .filter(|text| !text.is_empty())
            .map(|text| Comment::of(text))
    }
}

fn host(number: u8) -> Value {
    Value::address([10, 0, 0, number].into())
}

fn block(number: u8) -> Value {
    let first = u32::from_be_bytes([10, 0, number, 0]);
    Value::Ipv4(Interval::new(first, first + 9).expect("an interval"))
}

fn set(choices: &mut Choices<'_>, index: u8) -> Set {
    let set = name(&format!("s{index}"));
    let made = match choices.below(3) {
        0 => Set::new(
            set,
            vec![Datatype::Ipv4Address],
            false,
            choices.subset(6).into_iter().map(|one| host(one).into()),
        ),
        1 => Set::new(
            set,
            vec![Datatype::Ipv4Address],
            true,
            choices.subset(6).into_iter().map(|one| block(one).into()),
        ),
        _ => {
            let keys = choices
                .subset(4)
                .into_iter()
                .map(|one| Key::of([host(one), Value::port(80)]));
            Set::new(set, vec![Datatype::Ipv4Address, Datatype::Port], false, keys)
        }
    };
    let made = made.expect("a set");
    match choices.comment() {
        Some(comment) => made.commented(comment),
        None => made,
    }
}

fn verdict(choices: &mut Choices<'_>, chains: &[u8]) -> Verdict {
    let target = |number: u8| name(&format!("c{number}"));
    match (choices.below(4), chains.is_empty()) {
        (0, _) => Verdict::Accept,
        (1, _) | (_, true) => Verdict::Drop,
        (kind, false) => {
            let at = choices.below(u8::try_from(chains.len()).expect("few chains"));
            let chain = target(chains[usize::from(at)]);
            if kind == 2 {
                Verdict::Jump(chain)
            } else {
                Verdict::Goto(chain)
            }
        }
    }
}

fn map(choices: &mut Choices<'_>, index: u8, chains: &[u8]) -> Map {
    let map = name(&format!("m{index}"));
    let (gives, interval) = if choices.below(2) == 0 {
        (MapType::Verdict, false)
    } else {
        (MapType::Mark, true)
    };
    let keys = choices.subset(5);
    let elements: Vec<_> = keys
        .into_iter()
        .map(|key| match gives {
            MapType::Verdict => (Key::from(host(key)), Datum::Verdict(verdict(choices, chains))),
            _ => (Key::from(block(key)), Datum::Mark(u32::from(choices.below(3)))),
        })
        .collect();
    Map::new(map, vec![Datatype::Ipv4Address], gives, interval, elements).expect("a map")
}

fn rules(choices: &mut Choices<'_>, draft: &Draft, chains: &[u8]) -> Vec<Rule> {
    let count = choices.below(4);
    let mut rules = Vec::new();
    for _ in 0..count {
        let mut statements = Vec::new();
        if choices.one_in(2) && !draft.sets.is_empty() {
            let at = usize::from(choices.below(u8::try_from(draft.sets.len()).expect("few sets")));
            let set = &draft.sets[at];
            let key = match set.key().len() {
                1 => vec![Field::Ipv4Source],
                _ => vec![Field::Ipv4Source, Field::DestinationPort(Transport::Any)],
            };
            statements.push(
                Match::Lookup {
                    key,
                    relation: Relation::Is,
                    set: set.name().clone(),
                }
                .into(),
            );
        }
        if choices.one_in(3)
            && let Some(counter) = draft.counters.first()
        {
            statements.push(Statement::Count(counter.name.clone()));
        }
        let mut end = match verdict(choices, chains) {
            Verdict::Drop if choices.one_in(2) => End::Reject,
            verdict => End::Verdict(verdict),
        };
        if choices.one_in(2)
            && let Some(map) = draft.maps.first()
        {
            let (key, map, gives) = (vec![Field::Ipv4Source], map.name().clone(), map.gives());
            match gives {
                MapType::Verdict => end = End::VerdictMap { key, map },
                _ => statements.push(Statement::Set(Slot::Mark, Assigned::Map { key, map })),
            }
        }
        let mut rule = Rule::of(statements, end);
        rule.comment = choices.comment();
        rules.push(rule);
    }
    rules
}

/// A table named `t1`.
pub(crate) fn table(bytes: &[u8]) -> Table {
    let mut choices = Choices(bytes.iter());
    let mut draft = Draft::new(name("t1"));
    draft.comment = choices.one_in(8).then(|| Comment::of("table"));
    let present = choices.subset(4);
    draft.counters = choices
        .subset(2)
        .iter()
        .map(|one| format!("n{one}"))
        .map(|text| Counter {
            name: name(&text),
            comment: choices.comment(),
        })
        .collect();
    draft.sets = choices
        .subset(3)
        .into_iter()
        .map(|index| set(&mut choices, index))
        .collect();
    // Maps lead to the last chain only, which leads nowhere: no loops.
    let last: Vec<u8> = present.last().copied().into_iter().collect();
    draft.maps = choices
        .subset(2)
        .into_iter()
        .map(|index| map(&mut choices, index, &last))
        .collect();
    for (at, index) in present.iter().enumerate() {
        let later = &present[at + 1..];
        let leaf = later.is_empty();
        let mut chain = Chain::regular(name(&format!("c{index}")));
        chain.comment = choices.comment();
        if !leaf {
            chain.rules = rules(&mut choices, &draft, later);
        }
        draft.chains.push(chain);
    }
    let policy = if choices.below(2) == 0 {
        Policy::Accept
    } else {
        Policy::Drop
    };
    let base = Base {
        hook: Hook::Input,
        priority: i32::from(choices.below(2)),
        policy,
    };
    let rules = rules(&mut choices, &draft, &present);
    draft.chains.push(Chain::base(name("b0"), base).with_rules(rules));
    draft.check().expect("a table")
}
