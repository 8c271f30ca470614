//! Whatever happens to the agent of pods and around it, no packet passes on a secondary network that every state denies which
//! may be in force when it is judged, and none is lost that is always allowed.

mod changes;
mod faults;
mod happenings;

use std::net::IpAddr;

use picket_linux::NetworkNamespace;
use picket_net::Family;
use picket_testing::replaced;
use picket_testing::runtime::Kind;
use serde_json::{Value, json};

use self::happenings::Happenings;
use super::{labelled, named};
use crate::apiserver::never_open::numbered;
use crate::pods::{Node, Pods, table};
use crate::random::Random;
use crate::watched::Watched;
use crate::watched::flows::{Places, Way};

/// What happens is as these say.
const SEEDS: [u64; 4] = [1, 2, 3, 5];

/// How many sequences of changes each of them gives, after each of which the tables are proved.
const SEQUENCES: usize = 25;

/// How many there are with each runtime that tells events.
const OF_EACH_RUNTIME: usize = 8;

/// By what half a change is refused.
const HALVES: [u64; 4] = [1, 2, 3, 5];

/// How often the table of another program is taken over.
const TAKEN: usize = 12;

/// The port of the way that is always allowed.
const ALLOWED: u16 = 9000;

/// The ports of those that change, but for one that nothing ever allows.
const PORTS: [u16; 4] = [1000, 1001, 1002, 9001];

impl Places for Pods {
    fn inside(&self, id: &str) -> &NetworkNamespace {
        &self[short(id)].inside
    }

    /// Each pod judges its own.
    fn judging(&self, id: &str) -> &NetworkNamespace {
        self.inside(id)
    }

    fn address(&self, id: &str, family: Family) -> IpAddr {
        let mut addresses = self[short(id)].addresses.iter();
        *addresses.find(|address| Family::of(**address) == family).unwrap()
    }
}

/// The name of a pod of namespace `default`.
fn short(id: &str) -> &str {
    id.strip_prefix("default/").unwrap()
}

/// What holds all the time: nobody may reach `server` and `d`, but `a` one port of `server`.
fn standing() -> [(&'static str, Value); 2] {
    let ports = numbered(ALLOWED.into(), ALLOWED.into());
    [
        (
            "allow",
            json!({"podSelector": labelled("name", "server"), "policyTypes": ["Ingress"],
                "ingress": [{"from": named(&["a"]), "ports": ports}]}),
        ),
        (
            "closed",
            json!({"podSelector": labelled("name", "d"), "policyTypes": ["Ingress"]}),
        ),
    ]
}

/// Packets that are watched: those of three pods to two others, at ports that are sometimes allowed, and at one that always is.
fn packets() -> Vec<Way> {
    let way =
        |from: &str, to: &str, port| Way::udp(&format!("default/{from}"), &format!("default/{to}"), port);
    let mut ways = vec![way("a", "server", ALLOWED)];
    for from in ["a", "b", "c"] {
        for to in ["server", "d"] {
            ways.extend(PORTS.map(|port| way(from, to, port)));
        }
    }
    ways
}

/// What is watched: those, and connections between the same pods. Of pods to which nothing may be denied for a while, and to such, the
/// servers are silent.
fn ways() -> Vec<Way> {
    let id = |name: &str| format!("default/{name}");
    let both = [
        ("a", "server", ALLOWED),
        ("a", "server", 1000),
        ("a", "server", 1001),
        ("a", "d", 1001),
        ("a", "d", 1002),
    ];
    let silent = [
        ("b", "server", 1001),
        ("c", "server", 1000),
        ("b", "d", 1000),
        ("c", "d", 1002),
        ("server", "c", 1001),
    ];
    let both = both.map(|(from, to, port)| Way::tcp(&id(from), &id(to), port));
    let silent = silent.map(|(from, to, port)| Way::tcp_to_silence(&id(from), &id(to), port));
    packets().into_iter().chain(both).chain(silent).collect()
}

#[test]
fn nothing_denied_passes_and_nothing_allowed_is_lost_whatever_happens() {
    let mut happenings = Happenings::new(ways());
    for seed in SEEDS {
        println!("seed {seed}");
        happenings.play(seed, SEQUENCES);
        happenings.until_all_is_in_force();
    }
    let (sent, came) = happenings.end();
    assert!(sent > 1000 && came == sent, "{came} of {sent}");
    assert_eq!(happenings.proved, SEEDS.len() * SEQUENCES);
    // Everything there is to happen did, and the ways were open and shut.
    let kinds = &happenings.kinds;
    assert!(
        kinds.len() == 19 && kinds.values().all(|times| *times > 2),
        "{kinds:?}"
    );
    // Policies came, changed and went where the kernel refused that, and where no runtime ran.
    let meanwhile = &happenings.meanwhile;
    assert!(
        meanwhile.len() == 3 && meanwhile.values().all(|times| *times > 5),
        "{meanwhile:?}"
    );
    let is_steady = |way: &&Way| [ALLOWED, PORTS[3]].contains(&way.port);
    let ways = ways();
    assert_eq!(
        happenings.watched.steady(),
        ways.iter().filter(is_steady).collect()
    );
    let Watched { tally, windows, .. } = &happenings.watched;
    println!("{tally:?}");
    tally.assert_enough(5, 50);
    println!("{}", windows.report());
    assert!(
        windows.packets(true) > 0,
        "no packet passes where there are no rules"
    );
}

#[test]
fn nothing_denied_passes_where_the_runtime_tells_what_happens() {
    for (kind, seed) in [(Kind::Crio, 7), (Kind::Containerd2, 11)] {
        println!("{kind:?}");
        let mut happenings = Happenings::on(Node::with(kind), ways());
        happenings.play(seed, OF_EACH_RUNTIME);
        happenings.until_all_is_in_force();
        let (sent, came) = happenings.end();
        assert!(sent > 100 && came == sent, "{came} of {sent}");
        assert_eq!(happenings.proved, OF_EACH_RUNTIME);
    }
}

#[test]
fn nothing_passes_where_the_kernel_takes_one_half_of_a_change_in_a_pod_and_refuses_the_other() {
    // What may come there goes through a thousand chains: no more than a few connections, lest it be too much for the kernel.
    let packets = Way::udp("default/b", "default/server", PORTS[2]);
    let connections = [ALLOWED, PORTS[0], PORTS[1]].map(|port| Way::tcp("default/a", "default/server", port));
    let mut happenings = Happenings::new([packets].into_iter().chain(connections).collect());
    for seed in HALVES {
        happenings.random = Random(seed);
        happenings.refuse_the_rest();
        happenings.until_all_is_in_force();
    }
    happenings.end();
    let meanwhile = &happenings.meanwhile;
    assert!(meanwhile.len() == 3, "{meanwhile:?}");
}

#[test]
fn nothing_passes_while_the_rules_of_the_program_before_are_taken_over() {
    let connections = ["default/b", "default/c"].map(|from| Way::tcp(from, "default/server", PORTS[3]));
    let mut happenings = Happenings::new(packets().into_iter().chain(connections).collect());
    // Nobody but `a` may reach the server by these at a port that is watched: at the one at which it always may.
    let before = format!("delete table inet multi_networkpolicy\n{}", replaced::table(11));
    for round in 0..TAKEN {
        happenings.kill();
        happenings.load_others(&before);
        happenings.start(round % 2 == 0);
        happenings.settle();
        // What is always allowed is one of two dozen ways: as many as are asked for in the end, however soon all is taken over.
        happenings.watched.flows.until_sent(1000);
        let made = table(&happenings.pods["server"]);
        let is_left = ["ed8bb13bfee4ee31", "e0b2779ddce9a117", "9999"].map(|name| made.contains(name));
        assert!(is_left == [false; 3] && made.contains("net1"), "{made}");
    }
    let (sent, came) = happenings.end();
    assert!(sent > 500 && came == sent, "{came} of {sent}");
}
