//! Pods that policies apply to, through the engine.

use std::time::{Duration, Instant};

use picket_cluster::{Event, Object, Pod, Semantics};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_policy::Policy;
use picket_testing::build::{self, accept, block, pods_where};
use picket_vpp::acl::{Options, Renderer};
use picket_vpp::session;

use crate::step::{Cost, Vpp, follow_rules, lines};

const RUNS: usize = 100;
const NODE: &str = "node-0";

fn pod(number: usize, app: usize, node: &str) -> Pod {
    let (high, low) = (number / 250, number % 250 + 1);
    build::pod(&format!("bench/pod-{number}"))
        .label("app", &format!("app-{app}"))
        .on(node)
        .ip(&format!("10.1.{high}.{low}"))
        .ip(&format!("fd00:10::{high:x}:{low:x}"))
        .build()
}

/// The policy of one application: ten others and ten blocks in each direction. What it allows with one block is at `port`.
fn policy(app: usize, count: usize, port: u16) -> Policy {
    let mut policy = build::policy(&format!("bench/app-{app}")).selects(&format!("app=app-{app}"));
    for at in 1..=10 {
        let other = |step: usize| {
            let other = format!("app=app-{}", (app + at * step) % count);
            accept().peer(pods_where("", &other)).port(Protocol::TCP, 8080)
        };
        let block = |network: u8| {
            let [.., high, low] = u32::try_from(app * 10 + at).expect("few").to_be_bytes();
            let port = if at == 5 { port } else { 443 };
            let block = block(&format!("172.{network}.{high}.{low}/32"), &[]);
            accept().peer(block).port(Protocol::TCP, port)
        };
        policy = policy.ingress(other(count - 7)).ingress(block(16));
        policy = policy.egress(other(7)).egress(block(17));
    }
    policy.build()
}

/// A node followed by both targets, each with an engine of its own: an agent has one of the two, and no other to take the
/// memory near the processor from it between steps.
struct Node {
    engines: [Engine; 2],
    acls: Renderer,
    rules: session::Renderer,
    vpp: Vpp,
}

impl Node {
    /// The node, with how many rules its lists have, and how long they took.
    fn of(engine: Engine) -> (usize, Duration, Self) {
        engine.program().expand();
        let mut acls = Renderer::new(Some(NODE), Options::default());
        let start = Instant::now();
        acls.advance(engine.program());
        let took = start.elapsed();
        let mut rules = session::Renderer::new(Some(NODE), session::Options::default());
        rules.advance(engine.program());
        let all = acls.acls().acls.values().map(|acl| acl.rules.len()).sum();
        let vpp = Vpp::with(acls.acls());
        let node = Self {
            engines: [engine.clone(), engine],
            acls,
            rules,
            vpp,
        };
        (all, took, node)
    }

    fn step_lists(&mut self, event: Event) -> Cost {
        let [engine, _] = &mut self.engines;
        let delta = engine.apply(event);
        let start = Instant::now();
        self.acls.note(&delta);
        let change = self.acls.advance(engine.program());
        let took = start.elapsed();
        let names = change.interfaces.keys();
        let known = names.clone().all(|name| self.vpp.has(name));
        if !known {
            self.vpp.add_interfaces(self.acls.acls());
        }
        let (sent, planned) = self.vpp.follow(self.acls.acls(), &change);
        (sent, took + planned)
    }

    fn step_rules(&mut self, event: Event) -> Cost {
        let [_, engine] = &mut self.engines;
        let delta = engine.apply(event);
        let start = Instant::now();
        self.rules.note(&delta);
        let change = self.rules.advance(engine.program());
        let took = start.elapsed();
        let (sent, planned) = follow_rules(&change);
        (sent, took + planned)
    }

    /// What each event costs: the lists, and the session rules.
    fn costs(&mut self, events: impl Iterator<Item = Event> + Clone) -> [Vec<Cost>; 2] {
        let lists = events.clone().map(|event| self.step_lists(event)).collect();
        let rules = events.map(|event| self.step_rules(event)).collect();
        [lists, rules]
    }

    fn steps(&mut self, what: &str, events: impl Iterator<Item = Event> + Clone) {
        let [lists, rules] = self.costs(events);
        lines(what, &lists, &rules);
    }

    /// The same of something that comes and goes in turns, each apart.
    fn steps_apart(&mut self, what: &str, events: impl Iterator<Item = Event> + Clone) {
        let costs = self.costs(events);
        for (first, verb) in ["comes", "goes"].into_iter().enumerate() {
            let [lists, rules] = costs
                .each_ref()
                .map(|costs| costs.iter().skip(first).step_by(2).copied().collect::<Vec<_>>());
            lines(&format!("{what} {verb}"), &lists, &rules);
        }
    }
}

fn comes_and_goes(new: Pod) -> [Event; 2] {
    let gone = Event::Delete(new.object.clone());
    [Event::Apply(Object::from(new)), gone]
}

/// Everything about a node of some size: half as many applications as pods.
pub(crate) fn measure(count: usize) {
    let apps = count / 2;
    let mut engine = Engine::new(Semantics::default());
    engine.apply(Event::Apply(Object::Node(
        build::node(NODE).ip("192.168.0.1").build(),
    )));
    for number in 0..count {
        engine.apply(Event::Apply(Object::from(pod(number, number % apps, NODE))));
    }
    for app in 0..apps {
        engine.apply(Event::Apply(Object::Policy(policy(app, apps, 443))));
    }
    let (all, took, mut node) = Node::of(engine);
    println!(
        "{count} pods, dual-stack, of {apps} applications with 20 + 20 rules: {all} rules, from nothing in {took:.1?}"
    );
    let apply = |policy| Event::Apply(Object::Policy(policy));
    node.steps(
        "the same policy again",
        (0..RUNS).map(|run| apply(policy(run % apps, apps, 443))),
    );
    node.steps(
        "a port of a policy",
        (0..RUNS).flat_map(|run| [9090, 443].map(|port| apply(policy(run % apps, apps, port)))),
    );
    let twins =
        |node: &'static str| (0..RUNS).flat_map(move |run| comes_and_goes(pod(count + 1, run % apps, node)));
    node.steps("one more pod of an application elsewhere", twins("elsewhere"));
    node.steps("one more pod of an application here", twins(NODE));
    let unknown = |run| comes_and_goes(pod(count + 1, apps + run, NODE));
    node.steps(
        "the first pod that no policy knows, here",
        (0..RUNS).flat_map(unknown),
    );
    // With one that stays there is an identity for it.
    let first = Object::from(pod(count + 2, apps, NODE));
    node.costs(std::iter::once(Event::Apply(first)));
    node.steps(
        "one more pod that no policy knows, here",
        (0..RUNS).flat_map(unknown),
    );
}

/// A node whose pods are all under one policy: they may exchange something with two of them, in one direction.
pub(crate) fn measure_alike(count: usize) {
    let two = || accept().peer(pods_where("", "app=app-0")).port(Protocol::UDP, 53);
    let all = || build::policy("bench/all").selects("");
    for (what, policy) in [("send", all().egress(two())), ("receive", all().ingress(two()))] {
        let mut engine = Engine::new(Semantics::default());
        let node = build::node(NODE).ip("192.168.0.1").build();
        engine.apply(Event::Apply(Object::Node(node)));
        for number in 0..count {
            let app = usize::from(number >= 2);
            engine.apply(Event::Apply(Object::from(pod(number, app, NODE))));
        }
        engine.apply(Event::Apply(Object::Policy(policy.build())));
        let (rules, took, mut node) = Node::of(engine);
        println!(
            "{count} pods, dual-stack, under one policy about what they {what}: {rules} rules, from nothing in {took:.1?}"
        );
        let new = (0..RUNS).flat_map(|_| comes_and_goes(pod(count + 1, 1, NODE)));
        node.steps_apart("one more of them", new);
    }
}
