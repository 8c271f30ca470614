//! The lab itself, with rulesets that spell every dropped flow out: what it reports is what the kernel does.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set itself up fails"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use picket_cluster::{Flow, Judgement, Semantics, Snapshot};
use picket_engine::Engine;
use picket_lab::{
    Compile, Enforcement, Error, HostKind, Lab, Observation, Place, Ports, Progress, Shape, Topology,
    all_pairs, check_expectations, parse_expectations,
};
use picket_net::{Family, Protocol};
use picket_policy::NetworkName;
use picket_testing::build::{accept, block, pod, pods_in, policy};
use picket_testing::snapshot;

/// Verdicts of the engine, and a drop for every flow that it denies.
struct SpelledOut {
    engine: Engine,
    /// Changes the text of every ruleset.
    tamper: fn(String) -> String,
}

impl Enforcement for SpelledOut {
    fn judge(&self, _network: Option<&NetworkName>, flow: &Flow) -> Judgement {
        self.engine.program().judge(flow)
    }

    fn rulesets(&self, topology: &Topology) -> Result<BTreeMap<Place, String>, Error> {
        let mut drops = String::new();
        let ports = Ports::of_snapshot(&topology.snapshot);
        for probe in all_pairs(topology, &ports) {
            let flow = probe.flow(&topology.hosts).unwrap();
            if self.judge(None, &flow).verdict().is_allow() {
                continue;
            }
            let address = |index: usize| topology.hosts[index].addresses.of(probe.family).unwrap();
            let ip = if probe.family == Family::Ipv4 { "ip" } else { "ip6" };
            let traffic = match probe.protocol {
                Protocol::ICMP => "icmp type echo-request".to_owned(),
                Protocol::ICMPV6 => "icmpv6 type echo-request".to_owned(),
                protocol => format!("{} dport {}", protocol.to_string().to_lowercase(), probe.port),
            };
            let (from, to) = (address(probe.source), address(probe.destination));
            writeln!(drops, "{ip} saddr {from} {ip} daddr {to} {traffic} drop").unwrap();
        }
        let chain = |hook: &str| {
            format!(
                "chain {hook} {{ type filter hook {hook} priority 0; ct state established,related accept; jump d; }}"
            )
        };
        let text = format!(
            "table inet t\ndelete table inet t\ntable inet t {{ chain d {{ {drops} }}\n{}\n{}\n{}\n}}\n",
            chain("input"),
            chain("forward"),
            chain("output"),
        );
        let nodes = topology.snapshot.nodes.keys().cloned();
        Ok(nodes
            .map(|node| (Place::Node(node), (self.tamper)(text.clone())))
            .collect())
    }
}

fn compile(tamper: fn(String) -> String) -> Compile {
    Box::new(move |snapshot| {
        Ok(Box::new(SpelledOut {
            engine: Engine::compile(snapshot, Semantics::default()),
            tamper,
        }))
    })
}

fn cluster() -> Snapshot {
    snapshot![
        pod("x/web")
            .label("app", "web")
            .ip("10.0.0.1")
            .ip("fd00::1")
            .declares(Protocol::TCP, 80),
        pod("x/db")
            .label("app", "db")
            .ip("10.0.0.2")
            .ip("fd00::2")
            .declares(Protocol::TCP, 5432),
        pod("y/other").ip("10.0.0.3"),
        policy("x/db")
            .selects("app=db")
            .ingress(accept().peer(pods_in("x", "app=web")).port(Protocol::TCP, 5432)),
        policy("x/web")
            .selects("app=web")
            .ingress(accept().peer(block("203.0.113.0/24", &["203.0.113.7/32"]))),
    ]
}

fn shape() -> Shape {
    Shape {
        nodes: 2,
        outside: BTreeSet::new(),
        timeout: Duration::from_millis(600),
    }
}

fn up(cluster: &Snapshot, tamper: fn(String) -> String) -> Lab {
    Lab::up(cluster, shape(), &[], compile(tamper), &Progress::hidden()).unwrap()
}

#[test]
fn a_ruleset_that_obeys_gives_a_grid_without_differences() {
    let mut lab = up(&cluster(), |text| text);
    let grid = lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap();
    let differences: Vec<_> = grid.differences().collect();
    assert!(differences.is_empty(), "{differences:?}");
    let denied = grid
        .cells()
        .iter()
        .filter(|cell| !cell.expected.is_allow())
        .count();
    assert!(
        denied > 50 && denied < grid.cells().len(),
        "{denied} of {}",
        grid.cells().len()
    );
    let text = grid.to_text(false);
    assert!(text.contains("the wire obeys the policies"), "{text}");
    assert!(text.contains("TCP 5432 over IPv4 and IPv6\n"), "{text}");
}

#[test]
fn a_missing_drop_shows_as_open_with_its_reason() {
    let mut lab = up(&cluster(), |text| {
        let without: Vec<_> = text
            .lines()
            .filter(|line| *line != "ip saddr 10.0.0.3 ip daddr 10.0.0.2 tcp dport 5432 drop")
            .collect();
        without.join("\n")
    });
    let grid = lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap();
    let [cell] = grid.differences().collect::<Vec<_>>()[..] else {
        panic!("{}", grid.to_text(false));
    };
    assert_eq!(
        (cell.seen.clone(), cell.probe.port),
        (Observation::Answered, 5432)
    );
    let text = grid.to_text(false);
    assert!(
        text.contains("y/other -> x/db 5432/TCP IPv4: expected deny, seen: allowed"),
        "{text}"
    );
    assert!(
        text.contains("no rule matches; isolated by NetworkPolicy x/db"),
        "{text}"
    );
    assert!(text.contains("1 differ"), "{text}");
}

#[test]
fn a_drop_too_many_shows_as_blocked_for_every_kind_of_probe() {
    for (rule, port) in [
        ("tcp dport 80 drop", 80),
        ("udp dport 80 drop", 80),
        ("sctp dport 80 drop", 80),
        ("icmp type echo-request drop", 0),
        ("icmpv6 type echo-request drop", 0),
        ("tcp dport 80 reject with tcp reset", 80),
    ] {
        let topology = Topology::plan(&cluster(), 2, &BTreeSet::new()).unwrap();
        let seen = blocked_by(rule);
        assert!(!seen.is_empty(), "{rule}");
        let wrong = if rule.contains("reject") {
            Observation::Refused
        } else {
            Observation::Silent
        };
        for (probe, observation) in seen {
            assert_eq!(
                (probe.port, &observation),
                (port, &wrong),
                "{rule} {:?}",
                probe.flow(&topology.hosts)
            );
        }
    }
}

/// What differs when everything is allowed and every node has `rule`.
fn blocked_by(rule: &'static str) -> Vec<(picket_lab::Probe, Observation)> {
    struct Wrong(&'static str);
    impl Enforcement for Wrong {
        fn judge(&self, _network: Option<&NetworkName>, flow: &Flow) -> Judgement {
            Engine::new(Semantics::default()).program().judge(flow)
        }
        fn rulesets(&self, topology: &Topology) -> Result<BTreeMap<Place, String>, Error> {
            let text = format!(
                "table inet t {{ chain f {{ type filter hook forward priority 0; {} ; }}; }}",
                self.0
            );
            let nodes = topology.snapshot.nodes.keys().cloned();
            Ok(nodes.map(|node| (Place::Node(node), text.clone())).collect())
        }
    }
    let compile: Compile = Box::new(move |_| Ok(Box::new(Wrong(rule))));
    let mut lab = Lab::up(&cluster(), shape(), &[], compile, &Progress::hidden()).unwrap();
    let grid = lab
        .probe(None, Duration::from_millis(200), &Progress::hidden())
        .unwrap();
    grid.differences()
        .map(|cell| (cell.probe, cell.seen.clone()))
        .collect()
}

#[test]
fn a_ruleset_that_does_not_load_is_an_error_that_names_the_place() {
    let result = Lab::up(
        &cluster(),
        shape(),
        &[],
        compile(|_| "nonsense".to_owned()),
        &Progress::hidden(),
    );
    let text = result.err().unwrap().to_string();
    assert!(
        text.contains("node/lab-1") && text.contains("syntax error"),
        "{text}"
    );
}

#[test]
fn policies_change_under_a_standing_lab_and_the_changes_are_listed() {
    let mut lab = up(&cluster(), |text| text);
    let mut next = cluster();
    next.policies.retain(|object, _| object.name != "web");
    let changes = lab.apply(&next, &Progress::hidden()).unwrap();
    assert_eq!((changes.rulesets, changes.of), (2, 2));
    let lines = changes.lines();
    assert!(
        lines.contains(&"now allowed y/other -> x/web 80/TCP IPv4".to_owned()),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .all(|line| line.contains("-> x/web") && line.starts_with("now allowed")),
        "{lines:?}"
    );
    let again = lab.apply(&next, &Progress::hidden()).unwrap();
    assert_eq!((again.rulesets, again.lines().len()), (0, 0));
    let back = lab.apply(&cluster(), &Progress::hidden()).unwrap();
    assert_eq!(back.lines().len(), lines.len(), "{:?}", back.lines());
    assert!(
        back.lines()
            .iter()
            .all(|line| line.starts_with("now denied") && !line.contains("but the wire"))
    );
}

/// Rulesets of which that of `lab-2` does not load once the policy `x/web` is gone.
struct OneWrong(SpelledOut);

impl Enforcement for OneWrong {
    fn judge(&self, network: Option<&NetworkName>, flow: &Flow) -> Judgement {
        self.0.judge(network, flow)
    }

    fn rulesets(&self, topology: &Topology) -> Result<BTreeMap<Place, String>, Error> {
        let mut rulesets = self.0.rulesets(topology)?;
        if topology.snapshot.policies.len() < 2 {
            rulesets.insert(Place::Node("lab-2".into()), "nonsense".to_owned());
        }
        Ok(rulesets)
    }
}

#[test]
fn where_a_ruleset_does_not_load_nothing_passes_and_the_others_are_in_force() {
    let compile: Compile = Box::new(|snapshot| {
        let engine = Engine::compile(snapshot, Semantics::default());
        let tamper = |text| text;
        Ok(Box::new(OneWrong(SpelledOut { engine, tamper })))
    });
    let mut lab = Lab::up(&cluster(), shape(), &[], compile, &Progress::hidden()).unwrap();
    let mut next = cluster();
    next.policies.retain(|object, _| object.name != "web");
    let error = lab.apply(&next, &Progress::hidden()).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot load 1 of 2 rulesets")
            && error.contains("node/lab-2")
            && !error.contains("lab-1"),
        "{error}"
    );
    let on = |lab: &Lab, index: usize| lab.topology().router_of(&lab.topology().hosts[index].place);
    let closed = Place::Node("lab-2".into());
    let grid = lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap();
    let (mut passed, mut stopped) = (0, 0);
    for cell in grid.cells() {
        let [from, to] = [cell.probe.source, cell.probe.destination];
        let hosts = &lab.topology().hosts;
        let through = [from, to]
            .iter()
            .any(|end| hosts[*end].place == closed || on(&lab, *end).as_ref() == Some(&closed));
        if through {
            assert_ne!(cell.seen, Observation::Answered, "{:?}", cell.probe);
            stopped += 1;
        } else {
            assert!(cell.agrees(), "{:?}: {:?}", cell.probe, cell.seen);
            passed += usize::from(cell.expected.is_allow());
        }
    }
    assert!(passed > 0 && stopped > 0);
    let back = lab.apply(&cluster(), &Progress::hidden()).unwrap();
    assert_eq!(back.rulesets, 2);
    let grid = lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap();
    assert_eq!(grid.differences().count(), 0, "{}", grid.to_text(false));
}

#[test]
fn pods_and_hosts_come_and_go_under_a_standing_lab() {
    let mut lab = up(&cluster(), |text| text);
    let next = snapshot![
        pod("x/web")
            .label("app", "web")
            .ip("10.0.0.1")
            .ip("fd00::1")
            .declares(Protocol::TCP, 80),
        pod("x/db")
            .label("app", "db")
            .ip("10.0.0.22")
            .declares(Protocol::TCP, 5432),
        pod("z/new").ip("10.0.0.4").ip("fd00::4"),
        policy("x/db")
            .selects("app=db")
            .ingress(accept().peer(block("198.51.100.0/24", &[]))),
    ];
    lab.apply(&next, &Progress::hidden()).unwrap();
    let places: Vec<_> = lab.network().places().map(Place::to_string).collect();
    assert!(
        places.contains(&"198.51.100.1".to_owned()) && !places.contains(&"y/other".to_owned()),
        "{places:?}"
    );
    let grid = lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap();
    assert_eq!(grid.differences().count(), 0, "{}", grid.to_text(false));
}

#[test]
fn expectations_bring_their_own_hosts_and_ports() {
    let text = "allow x/web -> x/db 5432\ndeny * -> x/db 5432\nallow 192.0.2.77 -> y/other 8443\ndeny x/web -> y/* 80";
    let expectations = parse_expectations(text).unwrap();
    let mut lab = Lab::up(
        &cluster(),
        shape(),
        &expectations,
        compile(|text| text),
        &Progress::hidden(),
    )
    .unwrap();
    let grid = lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap();
    assert!(
        lab.topology()
            .hosts
            .iter()
            .any(|host| host.kind == HostKind::External && host.id == "192.0.2.77")
    );
    let outcomes = check_expectations(&expectations, &lab.topology().hosts, grid.cells());
    let held: Vec<_> = outcomes.iter().map(|outcome| outcome.holds()).collect();
    assert_eq!(held, [true, false, true, false], "{outcomes:?}");
    assert!(
        outcomes[1].violations.iter().all(|text| text.contains("node/")),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[3].violations, ["x/web -> y/other 80/TCP IPv4"]);
}
