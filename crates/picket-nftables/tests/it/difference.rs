//! The way from one table to another.

use std::collections::BTreeMap;

use picket_dataplane::{Objects, Plan};
use picket_nftables::diff::{Operation, PORTION, Stages};
use picket_nftables::model::*;
use picket_nftables::{parse, print};
use proptest::prelude::*;

use crate::arbitrary::table;
use crate::sample::{self, emptied, name};

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

/// The numbers of six addresses, and what each of these means in two maps; 0 is none, and nothing.
pub(crate) fn numbers() -> impl Strategy<Value = ([u32; 6], [[u32; 4]; 2])> {
    let means = prop::array::uniform4(0..4_u32);
    (prop::array::uniform6(0..5_u32), [means.clone(), means])
}

pub(crate) fn numbered((given, means): &([u32; 6], [[u32; 4]; 2])) -> Table {
    let mut draft = Draft::new(name("numbered"));
    let given = (1..)
        .zip(given)
        .filter(|(_, number)| **number > 0)
        .map(|(host, number)| {
            let address = std::net::IpAddr::from([10, 0, 0, host]);
            (Key::from(Value::address(address)), Datum::Priority(*number))
        });
    let key = vec![Datatype::Ipv4Address];
    draft.maps = vec![Map::new(name("given"), key, MapType::Priority, false, given).expect("a map")];
    for (at, means) in means.iter().enumerate() {
        let means = (1..).zip(means).filter(|(_, meaning)| **meaning > 0);
        let means = means.map(|(number, meaning)| {
            (
                Key::from(Value::priority(number)),
                Datum::Priority(0x8000_0000 + meaning),
            )
        });
        let map = Map::new(
            name(&format!("means-{at}")),
            vec![Datatype::Priority],
            MapType::Priority,
            false,
            means,
        );
        draft.maps.push(map.expect("a map"));
    }
    draft.check().expect("a table")
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
    fn what_is_made_first_comes_in_portions(old in bytes(), new in bytes(), portion in 2..20usize) {
        let (old, new) = (table(&old), table(&new));
        for old in [&old, &emptied(&new)] {
            portions_lead_to(old, &new, portion)?;
        }
    }

    #[test]
    fn nobody_is_taken_for_another_between_two_lookups(old in numbers(), new in numbers()) {
        stages_lead_to(&numbered(&old), &numbered(&new))?;
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

/// What the first stage makes leaves everything old as it was but for what has sources judged once more, and all that an element will lead to is complete before the
/// second one, but for what has to go before it is made anew. A number that is given before a stage and looked up after it
/// means what its key had before or has after it.
pub(crate) fn stages_lead_to(old: &Table, new: &Table) -> Result<(), TestCaseError> {
    let plan = Table::difference(Some(old), new);
    let Some(stages) = Stages::of(Some(old), &plan, PORTION) else {
        prop_assert!(led_to(&plan).all(|chain| chain_of(old, chain).is_some() || is_remade(&plan)));
        return nobody_is_mistaken(&[old, new]);
    };
    let mut tables = vec![old.clone()];
    for transaction in &stages.first {
        let between = Table::applied(tables.last(), transaction).expect("the kernel takes it");
        prop_assert!(
            old.chains()
                .iter()
                .all(|chain| chain_of(&between, &chain.name) == Some(chain))
        );
        // What is in this one is about no packet, and goes again with what comes last.
        let mut sets = old.sets().iter().filter(|set| set.name().as_str() != "changing");
        prop_assert!(sets.all(|set| between.sets().contains(set)));
        let mut still = meant(&between, &between);
        still.retain(|(_, _, map), _| map_of(old, map).is_some());
        // What has a number of its own only meanwhile means what its block meant.
        for (&(map, key, meaning), datum) in &still {
            let was = means_in(old, map, key, meaning);
            prop_assert_eq!(was, Some(*datum), "{:?} by {:?} in {:?}", key, map, meaning);
        }
        let was = meant(old, old);
        prop_assert!(was.keys().all(|of| still.contains_key(of)));
        tables.push(between);
        let undone = Table::applied(tables.last(), &stages.undo(tables.len() - 1));
        prop_assert_eq!(undone, Ok(old.clone()));
    }
    let between = tables[tables.len() - 1].clone();
    for chain in led_to(&stages.rest).filter(|_| !is_remade(&plan)) {
        prop_assert_eq!(
            chain_of(&between, chain).or(chain_of(new, chain)),
            chain_of(old, chain).or(chain_of(new, chain))
        );
        prop_assert!(chain_of(&between, chain).is_some());
    }
    for transaction in [&stages.rest, &stages.last, &stages.end] {
        let after = Table::applied(tables.last(), transaction).expect("the kernel takes it");
        tables.push(after);
    }
    prop_assert_eq!(tables.last(), Some(new));
    nobody_is_mistaken(&tables.iter().collect::<Vec<_>>())
}

/// Transactions of the first stage make no more than they may, nothing that packets enter, and can all be taken back; all
/// together lead to where one would.
fn portions_lead_to(old: &Table, new: &Table, portion: usize) -> Result<(), TestCaseError> {
    let plan = Table::difference(Some(old), new);
    let Some(stages) = Stages::of(Some(old), &plan, portion) else {
        return Ok(());
    };
    let (mut now, mut before) = (old.clone(), size(old));
    let based = |table: &Table| table.chains().iter().filter(|chain| chain.base.is_some()).count();
    for (done, transaction) in stages.first.iter().enumerate() {
        prop_assert!(!transaction.is_empty());
        now = Table::applied(Some(&now), transaction).expect("the kernel takes it");
        let numbers = transaction.operations().iter().filter(|operation| {
            matches!(operation, Operation::AddMapElements(name, _) | Operation::DeleteElements(name, _)
                if old.maps().iter().any(|map| map.name() == name))
        });
        if numbers.count() == 0 {
            prop_assert!(size(&now) <= before + portion);
        }
        before = size(&now);
        prop_assert_eq!(based(&now), based(old));
        let undone = Table::applied(Some(&now), &stages.undo(done + 1));
        prop_assert_eq!(undone, Ok(old.clone()));
    }
    if *old == emptied(new) {
        for_packets_to_enter(&stages.rest, new)?;
    }
    for transaction in [&stages.rest, &stages.last, &stages.end] {
        now = Table::applied(Some(&now), transaction).expect("the kernel takes it");
    }
    prop_assert_eq!(&now, new);
    Ok(())
}

/// What puts a table into force where there was nothing makes what packets enter by themselves, and nothing else.
fn for_packets_to_enter(rest: &Plan<Operation>, table: &Table) -> Result<(), TestCaseError> {
    let based = table.chains().iter().filter(|chain| chain.base.is_some());
    let based: BTreeMap<&Name, usize> = based.map(|chain| (&chain.name, chain.rules.len())).collect();
    let (mut chains, mut rules) = (0, 0);
    for operation in rest.operations() {
        match operation {
            Operation::AddChain { name, .. } if based.contains_key(name) => chains += 1,
            Operation::AddRules(name, added) if based.contains_key(name) => rules += added.len(),
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        }
    }
    prop_assert_eq!((chains, rules), (based.len(), based.values().sum()));
    Ok(())
}

/// How many objects, rules and elements a table has.
fn size(table: &Table) -> usize {
    let sets = table.sets().iter().map(|set| 1 + set.elements().len());
    let maps = table.maps().iter().map(|map| 1 + map.elements().len());
    let chains = table.chains().iter().map(|chain| 1 + chain.rules.len());
    table.counters().len() + sets.chain(maps).chain(chains).sum::<usize>()
}

/// A number that one table gives and the next explains means what its key had in the one or has in the other.
fn nobody_is_mistaken(tables: &[&Table]) -> Result<(), TestCaseError> {
    for (before, now) in tables.iter().zip(&tables[1..]) {
        let (one, other) = (meant(before, before), meant(now, now));
        for (of, meaning) in meant(before, now) {
            let mut known = [&one, &other].into_iter();
            prop_assert!(known.any(|known| known.get(&of) == Some(&meaning)), "{:?}", of);
        }
    }
    Ok(())
}

/// What the numbers that one table gives to keys mean in another, by both maps and the key. Nothing old looks into new maps.
fn meant<'t>(gives: &'t Table, means: &'t Table) -> BTreeMap<(&'t Name, &'t Key, &'t Name), &'t Datum> {
    let tells = |map: &&Map| map.key() == [Datatype::Priority] && map.gives() == MapType::Priority;
    let mut meant = BTreeMap::new();
    for map in gives.maps().iter().filter(|map| !tells(map)) {
        for (key, datum) in map.elements() {
            let Datum::Priority(number) = datum else { continue };
            let is_known = |map: &&Map| gives.maps().iter().any(|known| known.name() == map.name());
            for meaning in means.maps().iter().filter(tells).filter(is_known) {
                let found = meaning.elements().get(&Key::from(Value::priority(*number)));
                meant.extend(found.map(|datum| ((map.name(), key, meaning.name()), datum)));
            }
        }
    }
    meant
}

/// What a number that a map gives to a key means in another; where it gives none, that of the block around the key does.
fn means_in<'t>(table: &'t Table, map: &Name, key: &Key, meaning: &Name) -> Option<&'t Datum> {
    let map = map_of(table, map)?;
    let blocks = table
        .maps()
        .iter()
        .filter(|other| other.interval() && other.key() == map.key());
    let mut given = [map].into_iter().chain(blocks).filter_map(|map| map.get(key));
    let Datum::Priority(number) = given.next()? else {
        return None;
    };
    map_of(table, meaning)?.get(&Key::from(Value::priority(*number)))
}

fn map_of<'t>(table: &'t Table, name: &Name) -> Option<&'t Map> {
    table.maps().iter().find(|map| map.name() == name)
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
fn what_puts_a_new_table_into_force_is_small() {
    let new = sample::table();
    let old = emptied(&new);
    let plan = Table::difference(Some(&old), &new);
    let stages = Stages::of(Some(&old), &plan, 5).expect("more than one transaction");
    assert!(stages.first.len() > 3 && stages.last.is_empty());
    for_packets_to_enter(&stages.rest, &new).expect("base chains with their rules");
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
    let stages = Stages::of(Some(&old), &Table::difference(Some(&old), &new), PORTION).expect("two");
    assert_eq!(
        print::commands(old.name(), &stages.first[0]),
        "add chain inet picket-sample pod-c\nadd rule inet picket-sample pod-c drop\n"
    );
    assert_eq!(
        print::commands(old.name(), &stages.rest),
        "add element inet picket-sample pods4 { 10.0.0.9 : jump pod-c }\n"
    );
    assert_eq!(
        print::commands(old.name(), &stages.undo(1)),
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
