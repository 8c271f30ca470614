//! What nft lists is read back, from text and from JSON, and proved; what somebody changed in the kernel is refuted.

use picket_cluster::{Semantics, Snapshot};
use picket_dataplane::demand::Demands;
use picket_engine::Engine;
use picket_net::Protocol;
use picket_nftables::model::Table;
use picket_nftables::parse::{self, listing};
use picket_nftables::print;
use picket_nftables::render::indexed;
use picket_policy::Direction;
use picket_testing::build::{accept, block, node, pod, pods_in, policy};
use picket_testing::snapshot;
use proptest::prelude::*;

use super::proof;
use crate::kernel::in_namespace;
use crate::{arbitrary, sample};

fn read(text: &str, name: &str) -> Table {
    let listing = listing(text, name).expect("a listing");
    listing.table.expect("our table")
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(bytes in prop::collection::vec(any::<u8>(), 160)) {
        let table = arbitrary::table(&bytes);
        prop_assert_eq!(&read(&print::text(&table), "t1"), &table);
        prop_assert_eq!(&read(&print::json(&table), "t1"), &table);
    }

    #[test]
    fn no_text_makes_the_reader_panic(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "table", "inet", "picket", "{", "}", "set", "map", "chain", "s", "type", "ipv4_addr", ":", "verdict",
                "elements", "=", "10.0.0.1", "10.0.0.0/8", ",", ";", "\n", "\"", "\"a\"", "flags", "interval", "hook",
                "filter", "forward", "priority", "-200", "policy", "drop", "ct", "state", "new", "tcp", "!=", "&", "(",
                "|", "syn", "/", "jump", "@s", "vmap", "meta", "mark", "set", "counter", "name", "comment", "#", "é",
            ]),
            0..60,
        ),
    ) {
        let _ = listing(&words.join(" "), "picket");
        let _ = listing(&format!("table inet picket {{ {} }}", words.join(" ")), "picket");
    }
}

#[test]
fn the_sample_is_listed_by_nft_and_read_back() {
    let table = sample::table();
    let text = in_namespace("nft -f -; nft -a list ruleset", &print::text(&table));
    assert_eq!(read(&text, "picket-sample"), table);
    let json = in_namespace("nft -f -; nft -j list ruleset", &print::text(&table));
    assert_eq!(read(&json, "picket-sample"), parse::shown(&table));
}

fn cluster() -> Snapshot {
    snapshot![
        node("one").ip("192.0.2.1"),
        node("two").ip("192.0.2.2"),
        pod("x/web")
            .ip("10.0.0.1")
            .ip("fd00::1")
            .on("one")
            .label("app", "web"),
        pod("x/db")
            .ip("10.0.0.2")
            .ip("fd00::2")
            .on("one")
            .label("app", "db"),
        pod("x/far").ip("10.0.1.1").on("two").label("app", "far"),
        policy("x/db")
            .selects("app=db")
            .isolates(Direction::Ingress)
            .ingress(
                accept()
                    .peer(pods_in("x", "app=web"))
                    .ports(Protocol::TCP, 5432, 5433)
                    .ports(Protocol::UDP, 8000, 9000)
            ),
        policy("x/web")
            .selects("app=web")
            .isolates(Direction::Egress)
            .egress(
                accept()
                    .peer(block("10.0.0.0/8", &["10.0.1.0/24"]))
                    .protocol(Protocol::TCP)
            ),
    ]
}

#[test]
fn what_the_kernel_has_is_proved_and_what_somebody_changed_there_is_refuted() {
    let snapshot = cluster();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let table = indexed::render(engine.program(), Some("one")).expect("a table");
    let demands = Demands::on_node(engine.program(), Some("one"));
    let others = "table ip nat {\n chain p {\n type nat hook postrouting priority 100\n masquerade\n }\n}\n";
    let input = print::text(&table) + others;
    let egress = table
        .chains()
        .iter()
        .find(|chain| chain.name.as_str().starts_with("egress-"))
        .expect("a chain of the web pod");
    let changes = [
        (String::new(), true),
        (
            "nft add element inet picket icmpv6-always '{ 128 }'".to_owned(),
            false,
        ),
        (
            format!("nft insert rule inet picket {} accept", egress.name),
            false,
        ),
        (format!("nft flush chain inet picket {}", egress.name), false),
        (
            "nft insert rule inet picket forward ip daddr 10.0.0.2 tcp dport 5434 accept".to_owned(),
            false,
        ),
        (
            "nft 'add chain inet picket forward { policy drop ; }'".to_owned(),
            false,
        ),
        (
            "nft delete element inet picket own4 '{ 10.0.0.1 . 10.0.0.1 }'".to_owned(),
            false,
        ),
        ("nft add rule inet picket forward counter".to_owned(), true),
        (
            "nft insert rule inet picket forward ct state invalid tcp flags syn counter drop".to_owned(),
            true,
        ),
        // An error about a packet of no known connection: a pod that never learns of it stalls.
        (
            "nft insert rule inet picket forward ct state invalid counter drop".to_owned(),
            false,
        ),
    ];
    for (change, proved) in changes {
        for format in ["", "-j"] {
            let script = format!("nft -f -; {change}\nnft {format} list ruleset");
            let text = in_namespace(&script, &input);
            let found = listing(&text, "picket").unwrap_or_else(|error| panic!("{error}\n{text}"));
            let titles: Vec<_> = found
                .others
                .iter()
                .map(|one| (&*one.family, &*one.name))
                .collect();
            assert_eq!(titles, [("ip", "nat")]);
            assert_eq!(found.others[0].hooks, ["postrouting"]);
            let report = proof(&found.table.expect("our table"), &demands);
            assert_eq!(report.is_proof(), proved, "{change} {format}: {report:?}");
        }
    }
}

#[test]
fn what_picket_never_writes_is_named_with_its_line() {
    let table = |line: &str| format!("table inet picket {{\n chain c {{\n  {line}\n }}\n}}\n");
    for (text, message) in [
        (
            table("masquerade"),
            "line 3: picket writes no `masquerade` into rules",
        ),
        (
            table("reject with icmp port-unreachable"),
            "line 3: picket rejects with `icmpx port-unreachable` only",
        ),
        (
            table("ip protocol tcp accept"),
            "line 3: picket writes no `ip protocol` into rules",
        ),
        (
            table("jump nowhere"),
            "line 1: `c` uses `nowhere`, which does not exist",
        ),
        (
            table("ip saddr fd00::1 drop"),
            "line 3: `fd00::1` is no value of type ipv4_addr that picket knows",
        ),
        (table("accept comment \"a"), "line 3: a string is not closed"),
        (
            table("accept drop"),
            "line 3: `drop` behind the verdict of a rule",
        ),
        (
            "table inet picket {\n chain c {".to_owned(),
            "line 2: chain `c` is not closed",
        ),
        (
            "table inet picket {\n flags dormant\n}".to_owned(),
            "line 2: the table is dormant: none of its rules is in force",
        ),
        (
            "chain c {\n}".to_owned(),
            "line 1: expected `table`, found `chain`",
        ),
    ] {
        let error = listing(&text, "picket").expect_err(&text).to_string();
        assert_eq!(error, message, "{text}");
    }
}
