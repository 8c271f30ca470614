//! Pods for which rules are given.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use picket_net::{Interval, Prefix, Protocol};
use picket_policy::ObjectRef;
use picket_vpp::acl::{NodeAcls, Options, PodLists};
use picket_vpp::lists::{Lists, Touched, of_rules};
use picket_vpp::rule::{ALL_PORTS, Action, Rule};
use picket_vpp::session::{self, NodeRules};
use picket_vpp::value::Values;

use crate::step::{Cost, Vpp, follow_rules, lines};

const RUNS: usize = 100;

/// A node of pods with 21 rules in each direction: ten other pods of the node, ten blocks elsewhere, and nothing else. Each target has
/// values of its own, as an agent has one of the two.
pub(crate) struct Node {
    count: usize,
    acls: NodeAcls,
    of_acls: Values,
    vpp: Vpp,
    rules: NodeRules,
    of_rules: Values,
}

/// The rules of a pod: what it may receive, and what it may send.
#[derive(Clone)]
struct Rules([Vec<Rule>; 2]);

fn name(pod: usize) -> ObjectRef {
    ObjectRef::new("Pod", "bench", &format!("pod-{pod}"))
}

fn address(pod: usize) -> IpAddr {
    let number = u32::try_from(pod).expect("not so many");
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 1, 0, 0).to_bits() + 256 + number).into()
}

fn permit(is_source: bool, peer: Prefix, port: usize) -> Rule {
    let port = u16::try_from(port).expect("a port");
    let end = |is_here: bool| is_here.then_some(peer);
    Rule {
        source: end(is_source),
        destination: end(!is_source),
        protocol: Some(Protocol::TCP),
        source_ports: ALL_PORTS,
        destination_ports: Interval::single(port),
        action: Action::Permit,
    }
}

impl Rules {
    fn of(pod: usize, count: usize) -> Self {
        let of = |is_source: bool| {
            let step = if is_source { count - 7 } else { 7 };
            let pods = (1..=10).map(|at| (pod + at * step) % count);
            let pods = pods.map(|other| permit(is_source, Prefix::host(address(other)), 8080));
            let blocks = (0..10).map(|at| {
                let [.., high, low] = u32::try_from(pod * 10 + at).expect("few").to_be_bytes();
                let block = Prefix::new([172, 16 + u8::from(is_source), high, low].into(), 32);
                permit(is_source, block.expect("a block"), 443)
            });
            let rest = [Rule::everything(Action::Deny)];
            pods.chain(blocks).chain(rest).collect()
        };
        Self([of(true), of(false)])
    }

    fn lists(&self, pod: usize, values: &mut Values) -> Lists {
        let Self([ingress, egress]) = self;
        of_rules([address(pod)], ingress, egress, values)
    }
}

impl Node {
    fn new(count: usize, given: impl Fn(usize) -> Rules) -> Self {
        let (mut of_acls, mut of_rules) = (Values::default(), Values::default());
        let lists = |values: &mut Values| -> Vec<Lists> {
            (0..count).map(|pod| given(pod).lists(pod, values)).collect()
        };
        let pods = lists(&mut of_acls).into_iter().enumerate();
        let pods = pods.map(|(pod, lists)| (name(pod), placed(pod, lists)));
        let pods: BTreeMap<_, _> = pods.collect();
        let mut acls = NodeAcls::of_rules(Options::default());
        let start = Instant::now();
        acls.advance(&pods, None, &mut of_acls);
        let took = start.elapsed();
        let made: usize = acls.acls().acls.values().map(|acl| acl.rules.len()).sum();
        println!(
            "{count} pods, given 21 + 21 rules each: {} lists of {made} rules, from nothing in {took:.1?}",
            acls.acls().acls.len()
        );
        let pods = lists(&mut of_rules).into_iter().enumerate();
        let pods = pods.map(|(pod, lists)| (name(pod), Some(Arc::new(lists))));
        let pods: Touched = pods.collect();
        let mut rules = NodeRules::of_rules(session::Options::default());
        let start = Instant::now();
        rules.advance(&pods, &mut of_rules);
        let took = start.elapsed();
        let made = rules.rules();
        let made = made.global.len() + made.local.values().map(Vec::len).sum::<usize>();
        println!("  as session rules: {made}, from nothing in {took:.1?}");
        Self {
            count,
            vpp: Vpp::with(acls.acls()),
            acls,
            of_acls,
            rules,
            of_rules,
        }
    }

    /// A pod gets other rules: its lists.
    fn step_lists(&mut self, pod: usize, rules: &Rules) -> Cost {
        let start = Instant::now();
        let lists = rules.lists(pod, &mut self.of_acls);
        let pods: PodLists = [(name(pod), placed(pod, lists))].into();
        let change = self.acls.advance(&pods, None, &mut self.of_acls);
        let took = start.elapsed();
        let (sent, planned) = self.vpp.follow(self.acls.acls(), &change);
        (sent, took + planned)
    }

    /// The same of its session rules.
    fn step_rules(&mut self, pod: usize, rules: &Rules) -> Cost {
        let start = Instant::now();
        let lists = rules.lists(pod, &mut self.of_rules);
        let pods: Touched = [(name(pod), Some(Arc::new(lists)))].into();
        let change = self.rules.advance(&pods, &mut self.of_rules);
        let took = start.elapsed();
        let (sent, planned) = follow_rules(&change);
        (sent, took + planned)
    }

    /// Every pod in turn gets rules that differ at one place, and gets the old ones back.
    fn steps(&mut self, what: &str, change: impl Fn(&mut Rules)) {
        let turns = (0..RUNS).flat_map(|run| {
            let pod = run * 13 % self.count;
            let rules = Rules::of(pod, self.count);
            let mut changed = rules.clone();
            change(&mut changed);
            [(pod, changed), (pod, rules)]
        });
        let turns: Vec<_> = turns.collect();
        let lists: Vec<_> = turns
            .iter()
            .map(|(pod, rules)| self.step_lists(*pod, rules))
            .collect();
        let rules: Vec<_> = turns
            .iter()
            .map(|(pod, rules)| self.step_rules(*pod, rules))
            .collect();
        lines(what, &lists, &rules);
    }
}

fn placed(pod: usize, lists: Lists) -> Option<(smol_str::SmolStr, Arc<Lists>)> {
    Some((format!("tap{pod}").into(), Arc::new(lists)))
}

/// Everything about a node of some size.
pub(crate) fn measure(count: usize) {
    let mut node = Node::new(count, |pod| Rules::of(pod, count));
    let other = Interval::single(9090);
    node.steps("the same rules again", |_| {});
    node.steps("a port that a pod may receive from outside", |rules| {
        rules.0[0][15].destination_ports = other;
    });
    node.steps("a port that a pod may send outside", |rules| {
        rules.0[1][15].destination_ports = other;
    });
    node.steps("a port that a pod may send to another", |rules| {
        rules.0[1][5].destination_ports = other;
    });
    node.steps("nothing may be sent to another any more", |rules| {
        rules.0[1].remove(5);
    });
    arrival(count);
}

/// The worst case: a pod that may send nothing arrives where every pod may receive everything.
fn arrival(count: usize) {
    let open = |pod: usize| {
        let Rules([ingress, _]) = Rules::of(pod, count);
        // What it may receive is different for each: all but one block.
        let mut block = ingress[12];
        block.action = Action::Deny;
        Rules([vec![block, Rule::everything(Action::Permit)], Vec::new()])
    };
    let mut node = Node::new(count, open);
    let isolated = Rules([Vec::new(), vec![Rule::everything(Action::Deny)]]);
    let (pod, mut lists, mut rules) = (name(count), Vec::new(), Vec::new());
    let of_acls = placed(count, isolated.lists(count, &mut node.of_acls));
    let of_rules = Some(Arc::new(isolated.lists(count, &mut node.of_rules)));
    for _ in 0..10 {
        for now in [of_acls.clone(), None] {
            let start = Instant::now();
            let pods: PodLists = [(pod.clone(), now)].into();
            let change = node.acls.advance(&pods, None, &mut node.of_acls);
            let took = start.elapsed();
            node.vpp.add_interfaces(node.acls.acls());
            let (sent, planned) = node.vpp.follow(node.acls.acls(), &change);
            lists.push((sent, took + planned));
        }
    }
    for _ in 0..10 {
        for now in [of_rules.clone(), None] {
            let start = Instant::now();
            let pods: Touched = [(pod.clone(), now)].into();
            let change = node.rules.advance(&pods, &mut node.of_rules);
            let took = start.elapsed();
            let (sent, planned) = follow_rules(&change);
            rules.push((sent, took + planned));
        }
    }
    lines("worst: who may send nothing comes and goes", &lists, &rules);
}
