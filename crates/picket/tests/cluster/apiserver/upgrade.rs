//! An agent starts on a node where the table of another version of picket is in force.

use std::fs;

use picket_net::Family;

use super::agent::Live;
use super::cut::Connection;
use super::never_open::allow_over;
use crate::agents::Agent;
use crate::prober::Prober;

/// How many packets each sender must have sent at least.
const SENT: usize = 1000;

/// What is denied, by the policies as by the tables of all versions, and what is allowed.
const DENIED: [(&str, &str, u16); 2] = [("y/b", "x/a", 9001), ("z/a", "x/c", 9000)];
const ALLOWED: (&str, &str, u16) = ("z/a", "x/a", 9000);

/// What a table has that has a set and a chain more.
const MORE: &str =
    "\tset more {\n\t\ttype inet_service\n\t}\n\n\tchain more {\n\t\ttcp dport @more drop\n\t}\n\n";

/// Tables that mean what this one does, as versions could write them that have other names, other priorities, or more.
fn of_other_versions(own: &str) -> [(&'static str, String); 3] {
    let changed = |changes: &[(&str, &str)]| {
        changes.iter().fold(own.to_owned(), |text, (before, after)| {
            assert!(text.contains(before), "{before}");
            text.replace(before, after)
        })
    };
    let names = [
        ("chain forward {", "chain from-pod-to-pod {"),
        ("chain output {", "chain from-node {"),
        ("judge", "decide"),
        ("mid-stream", "middle"),
        ("restricted", "selected"),
        ("pods4", "known-pods4"),
        ("pods6", "known-pods6"),
        ("written by picket", "written by picket 0"),
    ];
    let priorities = [
        ("priority -200;", "priority -150;"),
        ("priority -199;", "priority -149;"),
    ];
    let forward = "\tchain forward {";
    [
        ("other names", changed(&names)),
        ("other priorities", changed(&priorities)),
        ("more", changed(&[(forward, &format!("{MORE}{forward}"))])),
    ]
}

/// Puts a table in the place of the one that is there, in one transaction.
fn load(live: &Live, table: &str) {
    let kept = table.lines().filter(|line| !line.starts_with("\tflags"));
    let kept = kept.map(|line| line.split(" # ").next().unwrap());
    let text = kept.collect::<Vec<_>>().join("\n");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table");
    fs::write(&file, format!("delete table inet picket\n{text}\n")).unwrap();
    live.nft(&["-f", file.to_str().unwrap()]);
}

fn until_in_force(agent: &Agent) {
    agent.until("the policies, proved", |status| {
        let is_proved = status.host.proof.as_ref().is_some_and(|proof| proof.proved);
        is_proved && status.host.policies.contains(&"NetworkPolicy x/allow".to_owned())
    });
}

#[test]
fn nothing_denied_passes_while_the_table_of_another_version_is_replaced() {
    let live = Live::new(None);
    allow_over(&live, &["UDP", "TCP"]);
    let mut agent = live.agent(&[]);
    until_in_force(&agent);
    let expected = live.table();
    assert!(agent.stop().success());
    let own = live.nft(&["list", "table", "inet", "picket"]);
    for (what, other) in of_other_versions(&own) {
        let start =
            |(from, to, port)| Family::BOTH.map(|family| Prober::start(&live.lab, family, from, to, port));
        let mut connections = Family::BOTH.map(|family| Connection::open(&live, family));
        load(&live, &other);
        let (denied, allowed) = (DENIED.map(start), start(ALLOWED));
        let mut agent = live.agent(&[]);
        until_in_force(&agent);
        for prober in denied.into_iter().flatten() {
            let (sent, received) = prober.end_after(SENT);
            assert_eq!(received, 0, "{what}: of {sent}");
        }
        for prober in allowed {
            let (sent, received) = prober.end_after(SENT);
            assert!(received > 0, "{what}: of {sent}");
        }
        for connection in &mut connections {
            connection.expect(true);
        }
        assert_eq!(live.table(), expected, "{what}");
        assert!(agent.stop().success());
    }
}
