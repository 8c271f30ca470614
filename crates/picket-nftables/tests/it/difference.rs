//! The way from one table to another.

use picket_dataplane::{Objects, Plan};
use picket_nftables::diff::{Operation, Stages};
use picket_nftables::model::*;
use picket_nftables::{parse, print};
use proptest::prelude::*;

use crate::arbitrary::table;
use crate::sample::{self, name};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..160)
}

/// Two tables that differ in a few choices.
fn alike() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (prop::collection::vec(any::<u8>(), 160), changes).prop_map(|(old, changes)| {
        let mut new = old.clone();
        for (at, value) in changes {
            let at = at.index(new.len());
            new[at] = value;
        }
        (old, new)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_plan_leads_to_what_is_desired(old in bytes(), new in bytes()) {
        let (old, new) = (table(&old), table(&new));
        let plan = Table::difference(Some(&old), &new);
        prop_assert_eq!(Table::applied(Some(&old), &plan), Ok(new), "{}", print::commands(old.name(), &plan));
    }

    #[test]
    fn a_small_change_too((old, new) in alike()) {
        let (old, new) = (table(&old), table(&new));
        let plan = Table::difference(Some(&old), &new);
        prop_assert_eq!(plan.is_empty(), old == new);
        prop_assert_eq!(Table::applied(Some(&old), &plan), Ok(new), "{}", print::commands(old.name(), &plan));
    }

    #[test]
    fn stages_are_one_way_to_the_same((old, new) in alike()) {
        let (old, new) = (table(&old), table(&new));
        stages_lead_to(&old, &new)?;
    }

    #[test]
    fn stages_of_large_changes_are_too(old in bytes(), new in bytes()) {
        let (old, new) = (table(&old), table(&new));
        stages_lead_to(&old, &new)?;
    }

    #[test]
    fn json_is_read_back_as_it_was_written(bytes in bytes()) {
        let table = table(&bytes);
        prop_assert_eq!(parse::table(&print::json(&table)).expect("our own"), table);
    }

    #[test]
    fn from_nothing_and_from_itself(new in bytes()) {
        let new = table(&new);
        prop_assert_eq!(Table::applied(None, &Table::difference(None, &new)), Ok(new.clone()));
        prop_assert!(Table::difference(Some(&new), &new).is_empty());
    }
}

/// What the first stage makes leaves everything old as it was, and all that an element will lead to is complete before the
/// second one, but for what has to go before it is made anew.
fn stages_lead_to(old: &Table, new: &Table) -> Result<(), TestCaseError> {
    let plan = Table::difference(Some(old), new);
    let Some(stages) = Stages::of(&plan) else {
        prop_assert!(led_to(&plan).all(|chain| chain_of(old, chain).is_some() || is_remade(&plan)));
        return Ok(());
    };
    let between = Table::applied(Some(old), &stages.first).expect("the kernel takes it");
    prop_assert!(
        old.chains()
            .iter()
            .all(|chain| chain_of(&between, &chain.name) == Some(chain))
    );
    prop_assert!(old.sets().iter().all(|set| between.sets().contains(set)));
    prop_assert!(old.maps().iter().all(|map| between.maps().contains(map)));
    for chain in led_to(&stages.rest).filter(|_| !is_remade(&plan)) {
        prop_assert_eq!(
            chain_of(&between, chain).or(chain_of(new, chain)),
            chain_of(old, chain).or(chain_of(new, chain))
        );
        prop_assert!(chain_of(&between, chain).is_some());
    }
    prop_assert_eq!(Table::applied(Some(&between), &stages.rest), Ok(new.clone()));
    prop_assert_eq!(Table::applied(Some(&between), &stages.undo()), Ok(old.clone()));
    Ok(())
}

fn chain_of<'t>(table: &'t Table, name: &Name) -> Option<&'t Chain> {
    table.chains().iter().find(|chain| chain.name == *name)
}

/// The chains that elements of maps that stay lead to.
fn led_to(plan: &Plan<Operation>) -> impl Iterator<Item = &Name> {
    let pairs = plan.operations().iter().filter_map(|operation| match operation {
        Operation::AddMapElements(_, pairs) => Some(pairs),
        _ => None,
    });
    pairs.flatten().filter_map(|(_, datum)| match datum {
        Datum::Verdict(verdict) => verdict.target(),
        _ => None,
    })
}

fn is_remade(plan: &Plan<Operation>) -> bool {
    plan.operations().iter().any(|operation| {
        matches!(
            operation,
            Operation::DeleteMap(_)
                | Operation::DeleteSet(_)
                | Operation::DeleteChain(_)
                | Operation::DeleteCounter(_)
        )
    })
}

#[test]
fn a_chain_has_its_rules_before_an_element_leads_to_it() {
    let old = sample::table();
    let mut draft = old.clone().into_draft();
    draft
        .chains
        .push(Chain::regular(name("pod-c")).with_rules([Rule::when([], Verdict::Drop)]));
    let to_it = (
        Key::from(Value::address("10.0.0.9".parse().expect("an address"))),
        Datum::Verdict(Verdict::Jump(name("pod-c"))),
    );
    let map = &mut draft.maps[3];
    let elements = map.elements().clone().into_iter().chain([to_it]);
    *map = Map::new(
        map.name().clone(),
        map.key().to_vec(),
        map.gives(),
        false,
        elements,
    )
    .expect("a map")
    .commented(Comment::of("pods of this node"));
    let new = draft.check().expect("a table");
    let stages = Stages::of(&Table::difference(Some(&old), &new)).expect("two");
    assert_eq!(
        print::commands(old.name(), &stages.first),
        "add chain inet picket-sample pod-c\nadd rule inet picket-sample pod-c drop\n"
    );
    assert_eq!(
        print::commands(old.name(), &stages.rest),
        "add element inet picket-sample pods4 { 10.0.0.9 : jump pod-c }\n"
    );
    assert_eq!(
        print::commands(old.name(), &stages.undo()),
        "flush chain inet picket-sample pod-c\ndelete chain inet picket-sample pod-c\n"
    );
}

/// The sample table with a change, and the commands that make it.
fn changed(change: impl FnOnce(&mut Draft)) -> String {
    let old = sample::table();
    let mut draft = old.clone().into_draft();
    change(&mut draft);
    let new = draft.check().expect("a table");
    let plan = Table::difference(Some(&old), &new);
    assert_eq!(Table::applied(Some(&old), &plan), Ok(new));
    print::commands(old.name(), &plan)
}

#[test]
fn one_change_is_one_command() {
    let add = |draft: &mut Draft, set: usize, value: &str| {
        let old = &draft.sets[set];
        let key = Key::from(Value::address(value.parse().expect("an address")));
        let elements = old.elements().iter().cloned().chain([key]);
        draft.sets[set] =
            Set::new(old.name().clone(), old.key().to_vec(), old.interval(), elements).expect("a set");
    };
    let commands = changed(|draft| add(draft, 1, "10.0.0.9"));
    assert_eq!(commands, "add element inet picket-sample hosts4 { 10.0.0.9 }\n");
    let commands = changed(|draft| {
        draft.chains[4].rules.push(Rule::when([], Verdict::Drop));
    });
    assert_eq!(commands, "add rule inet picket-sample pod-b drop\n");
    let commands = changed(|draft| {
        draft.chains[4].rules.truncate(1);
    });
    assert_eq!(
        commands,
        "flush chain inet picket-sample pod-b\nadd rule inet picket-sample pod-b tcp dport 80 accept\n"
    );
    let commands = changed(|draft| {
        draft.chains[0].base.as_mut().expect("a base chain").policy = Policy::Accept;
    });
    assert_eq!(
        commands,
        "add chain inet picket-sample forward { type filter hook forward priority -5; policy accept; }\n"
    );
}

#[test]
fn what_uses_a_new_object_is_written_again() {
    let commands = changed(|draft| {
        draft.chains[3].comment = Some(Comment::of("b"));
    });
    let lines: Vec<&str> = commands.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "flush chain inet picket-sample pod-a",
            "delete element inet picket-sample pods4 { 10.0.0.1 }",
            "delete chain inet picket-sample pod-a",
            "add chain inet picket-sample pod-a { comment \"b\"; }",
            "add element inet picket-sample pods4 { 10.0.0.1 : jump pod-a }",
        ]
    );
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    let old = sample::table();
    for operation in [
        Operation::DeleteSet(name("exact")),
        Operation::DeleteMap(name("pods4")),
        Operation::DeleteChain(name("pod-a")),
        Operation::DeleteCounter(name("denied-a")),
        Operation::Flush(name("nothing")),
        Operation::AddChain {
            name: name("pod-a"),
            base: None,
            comment: None,
        },
        Operation::AddRules(
            name("pod-a"),
            vec![Rule::when([], Verdict::Jump(name("nothing")))],
        ),
        Operation::DeleteElements(
            name("hosts4"),
            vec![Key::from(Value::address([1, 2, 3, 4].into()))],
        ),
        Operation::AddElements(
            name("blocks4"),
            vec![Key::from(Value::address([10, 0, 0, 7].into()))],
        ),
    ] {
        let plan = [operation.clone()].into_iter().collect();
        assert!(Table::applied(Some(&old), &plan).is_err(), "{operation:?}");
    }
}
