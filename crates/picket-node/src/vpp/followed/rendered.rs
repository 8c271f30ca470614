//! What the renderer says has changed leads to the rules that are rendered from nothing, event by event: by whole tables, and by what
//! tables lose and get.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{Event, Object, Semantics};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_policy::{Direction, ObjectRef};
use picket_testing::applications::apply;
use picket_testing::build::{accept, block, pod, pods_where, policy};
use picket_testing::generate::{self, Shape};
use picket_vpp::client::RuleTable;
use picket_vpp::session::plan::Operation;
use picket_vpp::session::{Options as SessionOptions, SessionRules, Turn, render};
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::super::render::{Known, Renderer};
use super::super::work;
use super::*;

const NODE: &str = "node-0";

/// How many rules a table may have, mostly: of some events all have room, and of others not.
const MOST_RULES: [usize; 2] = [100, 600];

/// What a table lost and got in an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    is_global: bool,
    goes: bool,
    comes: bool,
    /// Whether everybody else is denied, wherever there are some.
    is_closed: bool,
}

impl Kind {
    fn of(turn: &Turn, is_global: bool) -> Self {
        let plan = turn.plan();
        let operations = || plan.iter().flatten();
        let is_add = |operation: &Operation| matches!(operation, Operation::Add(_));
        let now = turn.now.as_deref().unwrap_or_default();
        let is_denied = |rule: &SessionRule| {
            let any = Prefix::all(rule.family());
            let part = |rule: &SessionRule| (rule.transport, rule.local);
            let mut others = now
                .iter()
                .filter(|other| part(other) == part(rule) && other.remote == any);
            others.any(|other| other.action == Action::Drop)
        };
        Self {
            is_global,
            goes: operations().any(|operation| !is_add(operation)),
            comes: operations().any(is_add),
            is_closed: operations().all(|operation| is_denied(operation.rule())),
        }
    }
}

/// How often tables were edited in each way, and of how many edits the agent made a plan.
#[derive(Debug, Default)]
struct Edits {
    told: BTreeMap<Kind, usize>,
    planned: usize,
}

impl Edits {
    fn note(&mut self, told: &Told<Rules>) {
        let Told::Changed(change) = told else { return };
        let local = change.local.values().map(|turn| (turn, false));
        let turns = local.chain(change.global.values().map(|turn| (turn, true)));
        for (turn, is_global) in turns.filter(|(turn, _)| turn.is_edit()) {
            *self.told.entry(Kind::of(turn, is_global)).or_default() += 1;
        }
    }
}

/// Pods, policies and all else that come, change and go, many of the pods here; and then what edits are made of.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let events = prop_oneof![
        generate::events(Shape::Custom, 24),
        generate::events(Shape::Dialects, 24)
    ];
    (events, prop::collection::vec(near(), 8..24)).prop_map(|(mut events, near)| {
        for event in &mut events {
            if let Event::Apply(Object::Pod(pod)) = event
                && pod.node.as_deref() == Some("node-1")
                && !pod.host_network
            {
                Arc::make_mut(pod).node = Some(NODE.into());
            }
        }
        let own = [1, 2].map(|number| {
            let pod = pod(&format!("y/own{number}")).label("app", "own").on(NODE);
            apply(
                pod.ip(&format!("10.1.0.{number}"))
                    .ip(&format!("fd00:1::{number}")),
            )
        });
        events.into_iter().chain(own).chain(near).collect()
    })
}

/// What changes little for two pods: a peer of theirs elsewhere comes or goes, they are allowed another port with all peers, or
/// everything but with other blocks.
fn near() -> impl Strategy<Value = Event> {
    let peer = (0..6, any::<bool>()).prop_map(|(number, comes)| {
        let pod = pod(&format!("y/peer{number}")).label("app", "peer");
        let pod = pod.ip(&format!("10.2.0.{}", 2 * number + 1)).build();
        if comes {
            apply(pod)
        } else {
            Event::Delete(pod.object)
        }
    });
    let direction = || prop::sample::select(vec![Direction::Ingress, Direction::Egress]);
    let said = |direction, rule| {
        let policy = policy(&format!("y/{direction}"))
            .selects("app=own")
            .rule(direction, rule);
        apply(Object::Policy(policy.build()))
    };
    let port = (direction(), 80..82_u16).prop_map(move |(direction, port)| {
        let peers = accept().peer(pods_where("", "app=peer"));
        said(direction, peers.port(Protocol::TCP, port))
    });
    let blocks = prop::sample::subsequence(vec!["192.0.2.0/28", "192.0.2.32/28", "192.0.2.64/28"], 0..=3);
    let blocks = (direction(), blocks)
        .prop_map(move |(direction, but)| said(direction, accept().peer(block("0.0.0.0/0", &but))));
    prop_oneof![4 => peer, 2 => port, 2 => blocks]
}

/// The pods that there are at some time.
fn pods(events: &[Event]) -> BTreeSet<ObjectRef> {
    let pods = events.iter().filter_map(|event| match event {
        Event::Apply(Object::Pod(pod)) => Some(pod.object.clone()),
        _ => None,
    });
    pods.collect()
}

/// Each time several events, and what then happens to the agent.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// It does what is wanted.
    Enforce,
    /// It does so with what comes next.
    Wait,
    /// It reads everything back first.
    Read,
}

fn then() -> impl Strategy<Value = Then> {
    prop_oneof![6 => Just(Then::Enforce), 1 => Just(Then::Wait), 1 => Just(Then::Read)]
}

/// VPP has these rules, in the namespaces that pods have.
fn has(
    agent: &mut Agent,
    rules: &SessionRules,
    namespaces: &BTreeMap<ObjectRef, u32>,
) -> Result<(), TestCaseError> {
    let reading = agent.vpp.read_rules().unwrap().tables;
    let of = |table: RuleTable| -> BTreeSet<SessionRule> {
        let known = reading.get(&table).into_iter().flatten();
        known.map(|known| known.rule).collect()
    };
    prop_assert_eq!(of(RuleTable::Global), rules.global.iter().copied().collect());
    for (pod, namespace) in namespaces {
        let wanted = rules.local.get(pod).into_iter().flatten();
        prop_assert_eq!(
            of(RuleTable::Local(*namespace)),
            wanted.copied().collect(),
            "{}",
            pod
        );
    }
    Ok(())
}

fn follow(
    events: &[Event],
    then: &[Then],
    most_rules: usize,
    edits: &RefCell<Edits>,
) -> Result<(), TestCaseError> {
    let namespaces: BTreeMap<ObjectRef, u32> = pods(events).into_iter().zip(1..).collect();
    let (mut options, mut lines) = (Options::new(3).session_layer(true), String::new());
    for (pod, namespace) in &namespaces {
        options = options.namespace(&format!("n{namespace}"));
        writeln!(lines, "{}/{} {namespace}", pod.namespace, pod.name).unwrap();
    }
    let fake = Fake::start(options).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    let settings = VppSettings {
        targets: [VppTarget::Session].into(),
        pod_namespaces: Some(NamespaceRule::File(file.path().into())),
        most_session_rules: most_rules,
        ..vpp_settings()
    };
    let mut engine = Engine::new(Semantics::default());
    let mut renderer = Renderer::new(&NODE.into(), &settings);
    let mut agent = Agent::new(&fake, &settings);
    for (event, then) in events.iter().zip(then) {
        renderer.note(&engine.apply(event.clone()));
        let wanted = renderer.render(engine.program(), &Known::default());
        edits.borrow_mut().note(&wanted.rules);
        agent.tables.hear(&wanted);
        let (rules, _) = render(engine.program(), Some(NODE), &SessionOptions { most_rules });
        prop_assert_eq!(&SessionRules::from(agent.tables.wanted()), &rules);
        match then {
            Then::Enforce => {}
            Then::Wait => continue,
            Then::Read => agent.tables.read(&mut agent.vpp).unwrap(),
        }
        let before = work::edits();
        agent.enforce();
        edits.borrow_mut().planned += work::edits() - before;
        has(&mut agent, &rules, &namespaces)?;
    }
    check(&mut agent, &fake)?;
    prop_assert_eq!(fake.complaints(), Vec::<String>::new());
    prop_assert_eq!(fake.crashes(), Vec::<String>::new());
    Ok(())
}

#[test]
fn rules_that_are_rendered_event_by_event_are_those_that_are_rendered_from_nothing() {
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(96)
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let input = (
        events(),
        prop::collection::vec(then(), 200),
        prop::sample::select(MOST_RULES.to_vec()),
    );
    let edits = RefCell::new(Edits::default());
    let result = runner.run(&input, |(events, then, most_rules)| {
        follow(&events, &then, most_rules, &edits)
    });
    result.unwrap();
    let edits = edits.into_inner();
    for is_global in [false, true] {
        for is_closed in [false, true] {
            for (goes, comes) in [(false, true), (true, false), (true, true)] {
                let kind = Kind {
                    is_global,
                    goes,
                    comes,
                    is_closed,
                };
                assert!(edits.told.contains_key(&kind), "{kind:?} of {edits:?}");
            }
        }
    }
    assert!(edits.planned > 100, "{edits:?}");
}
