//! What others put into a table of ours is read as what it is, or told with its place.

use std::sync::Arc;

use picket_linux::NetworkNamespace;
use picket_nftables::client::{Client, Observed, Oddity, Place, canonical};
use picket_nftables::model::*;
use picket_nftables::print;
use picket_nftables::render::documented::table_name;
use picket_testing::replaced;

use super::wary::FOREIGN;
use crate::indexed::kernel::hosts::run;
use crate::sample::{self, name};

/// A namespace with the sample table, which nft has changed by a command.
fn changed(command: &str) -> Observed {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let table = sample::table();
    let script = format!("{}\n{command}\n", print::text(&table));
    run(&namespace, "nft", &["-f", "-"], &script);
    let mut client = Client::open(&namespace).expect("a client");
    let (_, observed) = client.read(table.name()).expect("it is listed");
    observed
}

fn rule(chain: &str) -> Place {
    let chain = chain.to_owned();
    Place::Rule { chain, handle: 0 }
}

/// The same place without the number of a rule, which depends on how many objects there are.
fn without_handle(place: &Place) -> Place {
    match place {
        Place::Rule { chain, handle } => {
            assert_ne!(*handle, 0, "rules have numbers");
            rule(chain)
        }
        other => other.clone(),
    }
}

#[test]
fn what_picket_cannot_have_written_is_told_with_its_place() {
    let expression = |kind: &str| Oddity::Expression(kind.to_owned());
    let set = |name: &str| Place::Container(name.to_owned());
    let in_chain = || rule("pod-b");
    for (command, place, oddity) in [
        (
            "add rule TABLE pod-b limit rate 5/minute log",
            in_chain(),
            Oddity::Value("limit"),
        ),
        (
            "add rule TABLE pod-b limit rate over 5/second log",
            in_chain(),
            Oddity::Attribute(5),
        ),
        (
            "add rule TABLE pod-b limit rate 5/second drop",
            Place::Table,
            Oddity::Model(ModelError::Limited {
                chain: name("pod-b"),
                rule: 7,
            }),
        ),
        ("add rule TABLE pod-b counter", in_chain(), expression("counter")),
        (
            "add rule TABLE pod-b tcp sport 80 accept",
            in_chain(),
            Oddity::Value("field"),
        ),
        (
            "add rule TABLE pod-b tcp dport != { 80, 443 } drop",
            in_chain(),
            Oddity::Sequence,
        ),
        (
            "add rule TABLE pod-b meta mark set meta mark or 1",
            in_chain(),
            Oddity::Value("exclusive or"),
        ),
        (
            "add rule TABLE pod-b log prefix \"x\" level debug",
            in_chain(),
            Oddity::Attribute(5),
        ),
        ("add rule TABLE pod-b log", in_chain(), Oddity::Missing(2)),
        (
            "add rule TABLE pod-b reject with tcp reset",
            in_chain(),
            Oddity::Attribute(1),
        ),
        (
            "add rule TABLE pod-b ip saddr vmap { 10.0.0.1 : drop }",
            set("__map0"),
            Oddity::Value("set without a name"),
        ),
        (
            "add rule TABLE pod-b ether type ip accept",
            in_chain(),
            Oddity::Value("field"),
        ),
        (
            "add rule TABLE pod-b ct state != new drop",
            in_chain(),
            Oddity::Value("field"),
        ),
        (
            "add chain TABLE foreign { type nat hook prerouting priority 0; }",
            Place::Chain("foreign".into()),
            Oddity::Value("type of a chain"),
        ),
        (
            "add chain TABLE _foreign",
            Place::Chain("_foreign".into()),
            Oddity::Value("name"),
        ),
        (
            "add set TABLE foreign { type ether_addr; }",
            set("foreign"),
            Oddity::Value("type of a key"),
        ),
        (
            "add set TABLE foreign { type ipv4_addr; timeout 1h; }",
            set("foreign"),
            Oddity::Value("flags of a set"),
        ),
        (
            "add set TABLE foreign { type ipv4_addr; size 5; }",
            set("foreign"),
            Oddity::Attribute(1),
        ),
        (
            "add map TABLE foreign { type ipv4_addr : ipv4_addr; }",
            set("foreign"),
            Oddity::Value("type of what a map gives"),
        ),
        (
            "add element TABLE hosts4 { 10.9.9.9 comment \"x\" }",
            set("hosts4"),
            Oddity::Attribute(6),
        ),
        (
            "add quota TABLE foreign { over 1 mbytes }",
            Place::Object("foreign".into()),
            Oddity::Attribute(3),
        ),
        (
            "add table TABLE { flags dormant; }",
            Place::Table,
            Oddity::Value("flags of a table"),
        ),
    ] {
        let command = command.replace("TABLE", &format!("inet {}", sample::table().name()));
        let observed = changed(&command);
        let Observed::Altered(foreign) = &observed else {
            panic!("{command}: {observed:?}");
        };
        let found: Vec<_> = foreign
            .iter()
            .map(|one| (without_handle(&one.place), one.oddity.clone()))
            .collect();
        assert_eq!(found.first(), Some(&(place, oddity)), "{command}: {foreign:?}");
    }
}

#[test]
fn what_picket_could_have_written_is_read() {
    let table = sample::table();
    let mut expected = canonical(&table).into_draft();
    expected.chains.push(Chain::regular(name("foreign")));
    let b = expected
        .chains
        .iter_mut()
        .find(|chain| chain.name == name("pod-b"))
        .expect("a chain");
    b.rules.push(Rule::when(
        [Match::is(Field::Mark, Value::mark(7))],
        Verdict::Accept,
    ));
    let command = format!(
        "add chain inet {0} foreign\nadd rule inet {0} pod-b meta mark 7 accept",
        table.name()
    );
    assert_eq!(
        changed(&command),
        Observed::Table(expected.check().expect("a table"))
    );
}

/// Everything in it is something that picket could have written, but the table has a comment, which no table can lose: it is made
/// anew, and another with the new rules judges packets meanwhile.
#[test]
fn what_the_replaced_program_has_left_is_made_anew_behind_another_table() {
    let mut draft = sample::table().into_draft();
    (draft.name, draft.comment) = (table_name(), None);
    let desired = Arc::new(draft.check().expect("a table"));
    for holds in [false, true] {
        let namespace = NetworkNamespace::create().expect("a namespace");
        run(&namespace, "nft", &["-f", "-"], &replaced::table(11));
        let client = Client::open(&namespace).expect("a client");
        let mut client = if holds { client.holding() } else { client };
        let (generation, observed) = client.read(desired.name()).expect("it is listed");
        let Observed::Table(left) = observed else {
            panic!("{observed:?}");
        };
        assert_eq!((left.sets().len(), left.chains().len()), (12, 8));
        let report = client.sync(&desired).expect("it is made");
        assert_eq!((report.operations, report.foreign), (1, vec![]));
        let (now, observed) = client.read(desired.name()).expect("it is listed");
        assert_eq!(observed, Observed::Table(canonical(&desired)));
        // The other table comes, the own one is made anew, and the other goes.
        assert_eq!(now, generation + 3);
        let meanwhile = name("multi_networkpolicy-meanwhile");
        assert!(!client.exists(&meanwhile).expect("an answer"));
    }
}

#[test]
fn a_table_that_is_not_there_is_absent_and_others_are_nothing_to_us() {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let mut client = Client::open(&namespace).expect("a client");
    let ours = name("picket");
    assert_eq!(client.read(&ours).expect("a list").1, Observed::Absent);
    let script = "add table inet picket2 { flags dormant; chain picket { tcp sport 1 counter; }; }; add table ip picket";
    run(&namespace, "nft", &["-f", "-"], &format!("{script}{FOREIGN}"));
    assert_eq!(client.read(&ours).expect("a list").1, Observed::Absent);
    run(&namespace, "nft", &["add", "table", "inet", "picket"], "");
    let empty = Draft::new(ours.clone()).check().expect("a table");
    assert_eq!(client.read(&ours).expect("a list").1, Observed::Table(empty));
}
