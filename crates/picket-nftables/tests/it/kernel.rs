//! What nft and the kernel make of a printed table.

mod client;
mod wire;

use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use picket_dataplane::{Objects, Plan};
use picket_net::{AddressSet, PortRange, Protocol, TrafficSet};
use picket_nftables::diff::Operation;
use picket_nftables::model::{InterfaceName, Map, Set, Table};
use picket_nftables::render::documented::{
    Interface, Options, Peers, PodView, PolicyOnPod, ResolvedRule, ResolvedSide, Targets, render,
};
use picket_nftables::{parse, print};
use picket_policy::{Action, ObjectRef, Tier};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::custom::every_kind;
use crate::{arbitrary, sample};

/// Runs `script` with a shell in a network namespace of its own, `input` on its standard input; what it prints.
pub(crate) fn in_namespace(script: &str, input: &str) -> String {
    let mut child = Command::new("unshare")
        .args(["--net", "sh", "-ec", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare runs as root");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input.as_bytes())
        .expect("the shell reads");
    let output = child.wait_with_output().expect("the shell ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\nwith this input:\n{input}");
    String::from_utf8(output.stdout).expect("nft prints UTF-8")
}

/// What a listing of `table` looks like after `script` has run, as a table again.
pub(crate) fn listed(script: &str, table: &Table, input: &str) -> Table {
    let script = format!("{script}; nft -n -j list table inet {}", table.name());
    let listing = in_namespace(&script, input);
    parse::table(&listing).expect("a listing of one of our tables")
}

/// nft 1.0.6 reads no comments of sets and maps from JSON.
pub(crate) fn without_comments_of_sets(table: &Table) -> Table {
    let mut draft = table.clone().into_draft();
    for set in &mut draft.sets {
        let elements = set.elements().iter().cloned();
        *set = Set::new(set.name().clone(), set.key().to_vec(), set.interval(), elements).expect("a set");
    }
    for map in &mut draft.maps {
        let elements = map.elements().clone();
        let (name, key) = (map.name().clone(), map.key().to_vec());
        *map = Map::new(name, key, map.gives(), map.interval(), elements).expect("a map");
    }
    draft.check().expect("a table")
}

#[test]
fn a_table_loads_from_text_and_from_json_and_is_listed_as_it_was() {
    for table in [sample::table(), arbitrary::table(&[]), documented()] {
        let expected = parse::shown(&table);
        assert_eq!(listed("nft -f -", &table, &print::text(&table)), expected);
        let loaded = listed("nft -j -f -", &table, &print::json(&table));
        assert_eq!(loaded, without_comments_of_sets(&expected));
    }
}

#[test]
fn a_table_is_replaced_whole_and_deleted_and_others_stay() {
    let first = sample::table();
    let mut second = documented().into_draft();
    second.name = first.name().clone();
    let second = second.check().expect("a table");
    let delete = Plan::from_iter([Operation::Delete(second.name().clone())]);
    let steps = [
        "add table inet others { chain kept { accept; }; }\n".to_owned(),
        print::text(&first),
        print::text(&second),
        print::commands(second.name(), &delete),
    ];
    // Each step is a transaction of its own; `sed` hands them out one by one.
    let load = "sed -u '/^%%$/Q' | nft -f -";
    let input: String = steps.map(|step| format!("{step}\n%%\n")).concat();
    let script = format!(
        "{load}; {load}; {load}; nft -n -j list table inet {}",
        second.name()
    );
    let listing = in_namespace(&script, &input);
    assert_eq!(
        parse::table(&listing).expect("one of our tables"),
        parse::shown(&second),
        "nothing of the first is left"
    );
    let script = format!("{load}; {load}; {load}; {load}; nft list ruleset");
    let left = in_namespace(&script, &input);
    let left: String = left.split_whitespace().collect();
    assert_eq!(left, "tableinetothers{chainkept{accept}}");
}

/// What the renderer made of the document's complete example.
fn documented() -> Table {
    let peers = |name: &InterfaceName, texts: &[&str]| {
        let addresses = texts
            .iter()
            .map(|text| text.parse::<IpAddr>().expect("an address"))
            .collect::<AddressSet>();
        let over_it = |addresses: AddressSet| Targets::from([(name.clone(), addresses.into())]);
        Peers::Some {
            hosts: over_it(addresses),
            blocks: over_it(AddressSet::all()),
        }
    };
    let eth0 = InterfaceName::new("eth0").expect("an interface name");
    let ports = |first, last| PortRange::new(first, last).expect("a range").into();
    let traffic = TrafficSet::of(Protocol::TCP, ports(80, 80))
        .union(&TrafficSet::of(Protocol::TCP, ports(8080, 8090)))
        .union(&TrafficSet::from(Protocol::SCTP))
        .union(&TrafficSet::from(Protocol::ICMPV6));
    let rule = ResolvedRule {
        index: 0,
        action: Action::Accept,
        peers: peers(&eth0, &["10.0.0.1", "2001:db8::1"]),
        traffic,
        named: vec![],
    };
    let side = ResolvedSide {
        isolates: true,
        audits: false,
        rules: vec![rule],
    };
    let policy = PolicyOnPod {
        object: ObjectRef::new("NetworkPolicy", "default", &"p".repeat(200)),
        tier: Tier::NetworkPolicy,
        interfaces: vec![eth0.clone()],
        ingress: side.clone(),
        egress: side,
    };
    let view = PodView {
        pod: ObjectRef::new("Pod", "default", "web"),
        interfaces: vec![Interface {
            name: eth0,
            addresses: vec![[10, 0, 0, 9].into()],
            cluster: true,
        }],
        own_node: ["192.0.2.1", "2001:db8::ffff"]
            .iter()
            .map(|text| text.parse::<IpAddr>().expect("one"))
            .collect(),
        policies: vec![policy],
    };
    render(
        &view,
        &Options {
            accept_icmp: true,
            accept_icmpv6: true,
            custom: every_kind(),
            refuse_mid_stream: true,
            count_drops: true,
            log_denied: Some(9480),
        },
    )
    .expect("a table")
    .0
}

#[test]
fn the_kernel_takes_every_plan_and_has_then_what_the_model_says() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let bytes = prop::collection::vec(any::<u8>(), 160);
    let mut tables = vec![];
    for _ in 0..20 {
        let bytes = bytes.new_tree(&mut runner).expect("bytes").current();
        let mut near = bytes.clone();
        near[40] ^= 1;
        near[90] ^= 3;
        tables.extend([arbitrary::table(&bytes), arbitrary::table(&near)]);
    }
    // One namespace and one shell: every step's commands in a file, every listing on a line of its own.
    let (mut script, mut state) = (String::new(), None);
    for table in &tables {
        let plan = Table::difference(state, table);
        let commands = print::commands(table.name(), &plan);
        script.push_str(&format!(
            "nft -f - <<'END'\n{commands}END\nnft -n -j list table inet t1; echo\n"
        ));
        state = Some(table);
    }
    let listings = in_namespace("sh -e", &script);
    let mut listings = listings.lines().filter(|line| !line.is_empty());
    for table in &tables {
        let listing = listings.next().expect("a listing for every table");
        assert_eq!(parse::table(listing).expect("one of ours"), parse::shown(table));
    }
}

#[test]
fn loading_twice_replaces_the_table() {
    let text = print::text(&sample::table());
    let once = in_namespace("nft -f -; nft list table inet picket-sample", &text);
    let twice = in_namespace(
        "table=$(cat); printf '%s' \"$table\" | nft -f -; printf '%s' \"$table\" | nft -f -; \
         nft list table inet picket-sample",
        &text,
    );
    assert_eq!(once, twice);
}
