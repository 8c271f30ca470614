//! Whatever happens to an agent and around it, no packet passes that every state denies which may be in force when it is judged,
//! and none is lost that is always allowed.

mod changes;
mod faults;
mod halves;
mod happenings;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use picket_linux::NetworkNamespace;
use picket_net::Family;
use picket_nftables::client::{Client, Observed};
use picket_nftables::model::{Chain, Draft, Name};
use picket_nftables::render::indexed;
use picket_testing::confined::where_sockets_are_small;
use serde_json::{Value, json};

use self::halves::Shape;
use self::happenings::Happenings;
use crate::agents::knows;
use crate::apiserver::agent::{Live, NODE};
use crate::objects::network_policy;
use crate::prober::{Ending, Prober};
use crate::published::Versions;
use crate::random::Random;
use crate::watched::Watched;
use crate::watched::flows::Way;

pub(crate) const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/x/networkpolicies";

/// What happens is as these say.
const SEEDS: [u64; 5] = [1, 2, 3, 5, 8];

/// How many sequences of changes each of them gives, after each of which the table is proved.
const SEQUENCES: usize = 60;

/// The port of the ways that are always allowed.
const ALLOWED: u16 = 9000;

/// Another node, on which no agent runs.
const OTHER: &str = "lab-2";

/// The ports of those that change, but for one that nothing allows.
const PORTS: [u16; 4] = [1000, 1001, 1002, 9001];

/// Lets pods of namespace z send to pod a of namespace x, and nobody else anybody there; up to where an agent has to know policies
/// that knows of it.
pub(crate) fn allow(live: &Live, protocol: &str) -> Versions {
    allow_over(live, &[protocol])
}

pub(crate) fn allow_over(live: &Live, protocols: &[&str]) -> Versions {
    let policy = network_policy("x", "allow", &allowing(protocols));
    let created = live.api.create(POLICIES, &policy);
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    [(
        "networkpolicies.networking.k8s.io".to_owned(),
        version.parse().unwrap(),
    )]
    .into()
}

fn allowing(protocols: &[&str]) -> Value {
    let from = json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "z"}}}]);
    let port = |protocol: &&str| json!({"port": ALLOWED, "protocol": protocol});
    let ports: Vec<_> = protocols.iter().map(port).collect();
    json!({
        "podSelector": {"matchLabels": {"pod": "a"}},
        "ingress": [{"from": from, "ports": ports}],
    })
}

/// What is watched: pods of two namespaces and another node that send to the pods of a third which are on the node of the agent, and
/// pods of that node that send to it and to the other, at ports that are sometimes allowed; and what always is, with what the node
/// sends to its own pods.
fn ways() -> Vec<Way> {
    let mut ways = vec![Way::udp("z/b", "x/a", ALLOWED)];
    ways.extend(["x/a", "x/c"].map(|to| Way::udp(NODE, to, ALLOWED)));
    for from in ["y/a", "y/b", "z/a", "z/b", OTHER] {
        for to in ["x/a", "x/c"] {
            ways.extend(PORTS.map(|port| Way::udp(from, to, port)));
        }
    }
    for from in ["y/b", "z/a"] {
        ways.extend(PORTS.map(|port| Way::udp(from, OTHER, port)));
        ways.extend([PORTS[1], PORTS[3]].map(|port| Way::udp(from, NODE, port)));
    }
    ways.extend(connections());
    ways
}

/// Connections among them. Of the node and of a pod whose address nobody has for moments, the servers are silent.
fn connections() -> impl Iterator<Item = Way> {
    let both = [
        ("z/b", "x/a", ALLOWED),
        (NODE, "x/a", 1000),
        ("y/a", "x/a", 1000),
        ("z/a", "x/a", 1001),
        ("y/b", "x/a", 1002),
    ];
    let silent = [
        ("y/b", "x/c", 1001),
        ("z/b", "x/c", 1000),
        ("z/a", "x/c", 1002),
        ("y/b", NODE, 1001),
    ];
    let both = both.map(|(from, to, port)| Way::tcp(from, to, port));
    both.into_iter()
        .chain(silent.map(|(from, to, port)| Way::tcp_to_silence(from, to, port)))
}

/// Some ports, for packets and for connections.
pub(crate) fn numbered(first: usize, last: usize) -> Value {
    json!([
        {"port": first, "endPort": last, "protocol": "UDP"},
        {"port": first, "endPort": last, "protocol": "TCP"},
    ])
}

/// Everything that can happen where an agent has what is always allowed in force.
fn begun(live: &Live) -> Happenings<'_> {
    allow_over(live, &["UDP", "TCP"]);
    let agent = live.agent(&[]);
    agent.until("the policy that allows", |status| {
        status.host.policies.contains(&"NetworkPolicy x/allow".to_owned())
    });
    Happenings::new(live, agent)
}

#[test]
fn nothing_denied_passes_and_nothing_allowed_is_lost_whatever_happens() {
    let live = Live::new(None);
    let mut happenings = begun(&live);
    for seed in SEEDS {
        println!("seed {seed}");
        happenings.play(seed, SEQUENCES);
        happenings.until_all_is_in_force();
    }
    let log = || happenings.agent.log();
    happenings.watched.end(log);
    assert_eq!(happenings.proved, SEEDS.len() * SEQUENCES);
    let (sent, came) = happenings.watched.always_allowed();
    assert!(sent > 1000 && came == sent, "{came} of {sent}");
    // Everything there is to happen did, and the ways were open and shut over both families: but for those that are always allowed, and
    // the fourth port where nobody else gets the address to which packets go, so that nobody has it meanwhile.
    let kinds = &happenings.kinds;
    assert!(
        kinds.len() == 19 && kinds.values().all(|times| *times > 5),
        "{kinds:?}"
    );
    let Watched { tally, windows, .. } = &happenings.watched;
    println!("{tally:?}");
    tally.assert_enough(4, 100);
    let is_steady = |way: &&Way| {
        let is_always = way.port == ALLOWED || way.from == NODE;
        is_always || (way.port == PORTS[3] && ["x/a", NODE].contains(&way.to.as_str()))
    };
    let ways = ways();
    assert_eq!(
        happenings.watched.steady(),
        ways.iter().filter(is_steady).collect()
    );
    println!("{}", windows.report());
    assert!(
        windows.packets(true) > 0,
        "no packet passes where there are no rules"
    );
}

#[test]
fn nothing_passes_where_the_kernel_takes_one_half_of_a_change_and_refuses_the_other() {
    let test = concat!(
        module_path!(),
        "::nothing_passes_where_the_kernel_takes_one_half_of_a_change_and_refuses_the_other"
    );
    where_sockets_are_small(test, || {
        let live = Live::new(None);
        let mut happenings = begun(&live);
        let mut seen = BTreeMap::new();
        for (shape, seed) in Shape::ALL.into_iter().zip(1..) {
            for family in Family::BOTH {
                println!("{shape:?} {family:?}");
                happenings.random = Random(seed);
                seen.insert((shape, family), happenings.refuse_the_rest(shape, family));
                happenings.clear();
            }
        }
        println!("{seen:?}");
        assert!(
            seen.values()
                .all(|half| half.transactions > 1 && half.packets > 200),
            "{seen:?}"
        );
        let log = || happenings.agent.log();
        happenings.watched.end(log);
        let (sent, came) = happenings.watched.always_allowed();
        assert!(sent > 1000 && came == sent, "{came} of {sent}");
    });
}

/// How much an agent may make in one transaction: as much as by itself, or so little that nearly every change comes in several.
pub(crate) fn portion(moments: &mut Random) -> &'static str {
    moments.one_of(&["4", "32768"])
}

/// Takes a table as it is, so that the kernel takes no change of it from others until this is dropped.
pub(crate) fn steal(namespace: &NetworkNamespace, name: &Name) -> Client {
    let mut thief = Client::open(namespace).unwrap().holding();
    let (_, Observed::Table(table)) = thief.read(name).unwrap() else {
        panic!("no table");
    };
    thief.sync(&Arc::new(table)).unwrap();
    thief
}

#[test]
fn what_the_kernel_refuses_waits_and_is_named() {
    let live = Live::new(None);
    let agent = live.agent(&["--table-owner", "everybody"]);
    agent.until_enforced(&live.versions);
    let denied = Prober::start(&live.lab, Family::Ipv6, "y/a", "x/a", 9001);
    let thief = steal(live.node(), &indexed::table_name());
    let allowed = allow(&live, "UDP");
    let status = agent.until("a refusal", |status| status.host.trouble.is_some());
    let trouble = status.host.trouble.unwrap();
    assert!(trouble.why.contains("Operation not permitted"), "{trouble:?}");
    assert_eq!(trouble.waiting, ["NetworkPolicy x/allow"]);
    let (_, metrics) = agent.get("/metrics");
    assert!(metrics.contains("\npicket_policies_waiting 1\n"), "{metrics}");
    assert!(
        metrics.contains("\npicket_failures_total{reason=\"refused\"}"),
        "{metrics}"
    );
    let log = agent.log();
    let said = ["Operation not permitted", "NetworkPolicy x/allow"];
    let tells = |line: &str| said.iter().all(|part| line.contains(part));
    assert!(log.lines().any(tells), "{log}");
    drop(thief);
    let status = agent.until("another attempt", |status| status.host.trouble.is_none());
    assert!(status.host.policies.contains(&"NetworkPolicy x/allow".to_owned()));
    assert!(knows(&status, &allowed), "{:?}", status.host.versions);
    let (sent, received) = denied.end_after(100);
    assert!(received == 0, "{received} of {sent}");
}

/// Changes a table of its own all the time, so that what an agent has read is out of date when it writes.
pub(crate) fn disturb(namespace: &NetworkNamespace) -> Ending {
    let namespace = namespace.duplicate().unwrap();
    Ending::start(move |end| {
        let mut client = Client::open(&namespace).unwrap();
        let other = Name::new("other").unwrap();
        let tables = ["a", "b"].map(|chain| {
            let mut draft = Draft::new(other.clone());
            draft.chains = vec![Chain::regular(Name::new(chain).unwrap())];
            Arc::new(draft.check().unwrap())
        });
        while !end.load(Ordering::SeqCst) {
            for table in &tables {
                // Others change rulesets too.
                let _ = client.sync(table);
            }
        }
        while client.remove(&other).is_err() {}
    })
}
