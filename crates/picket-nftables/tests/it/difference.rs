//! The way from one table to another.

use picket_dataplane::Objects;
use picket_nftables::diff::Operation;
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
