//! Pods for which rules are given.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use picket_net::{Interval, Prefix, Protocol};
use picket_policy::ObjectRef;
use picket_vpp::acl::{NodeAcls, Options, PodLists};
use picket_vpp::lists::{Lists, of_rules};
use picket_vpp::rule::{ALL_PORTS, Action, Rule};
use picket_vpp::value::Values;

use crate::step::{Sent, Vpp, line};

const RUNS: usize = 100;

/// A node of pods with 21 rules in each direction: ten other pods of the node, ten blocks elsewhere, and nothing else.
pub(crate) struct Node {
    count: usize,
    node: NodeAcls,
    values: Values,
    vpp: Vpp,
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
    fn new(count: usize, rules: impl Fn(usize) -> Rules) -> Self {
        let mut values = Values::default();
        let lists = (0..count).map(|pod| {
            let lists = rules(pod).lists(pod, &mut values);
            (name(pod), placed(pod, lists))
        });
        let lists: BTreeMap<_, _> = lists.collect();
        let mut node = NodeAcls::of_rules(Options::default());
        let start = Instant::now();
        node.advance(&lists, None, &mut values);
        let took = start.elapsed();
        let rules: usize = node.acls().acls.values().map(|acl| acl.rules.len()).sum();
        println!(
            "{count} pods, given 21 + 21 rules each: {} lists of {rules} rules, from nothing in {took:.1?}",
            node.acls().acls.len()
        );
        Self {
            count,
            vpp: Vpp::with(node.acls()),
            node,
            values,
        }
    }

    /// A pod gets other rules.
    fn step(&mut self, pod: usize, rules: &Rules) -> (Sent, Duration) {
        let start = Instant::now();
        let lists = rules.lists(pod, &mut self.values);
        let pods: PodLists = [(name(pod), placed(pod, lists))].into();
        let change = self.node.advance(&pods, None, &mut self.values);
        let took = start.elapsed();
        let (sent, planned) = self.vpp.follow(self.node.acls(), &change);
        (sent, took + planned)
    }

    /// Every pod in turn gets rules that differ at one place, and gets the old ones back.
    fn steps(&mut self, what: &str, change: impl Fn(&mut Rules)) {
        let mut steps = Vec::new();
        for run in 0..RUNS {
            let pod = run * 13 % self.count;
            let rules = Rules::of(pod, self.count);
            let mut changed = rules.clone();
            change(&mut changed);
            steps.push(self.step(pod, &changed));
            steps.push(self.step(pod, &rules));
        }
        line(what, &steps);
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
    let mut all = vec![(
        name(count),
        placed(count, isolated.lists(count, &mut node.values)),
    )];
    let mut steps = Vec::new();
    for _ in 0..10 {
        let (key, lists) = all.pop().expect("a pod");
        for now in [lists.clone(), None] {
            let start = Instant::now();
            let pods: PodLists = [(key.clone(), now)].into();
            let change = node.node.advance(&pods, None, &mut node.values);
            let took = start.elapsed();
            node.vpp.add_interfaces(node.node.acls());
            let (sent, planned) = node.vpp.follow(node.node.acls(), &change);
            steps.push((sent, took + planned));
        }
        all.push((key, lists));
    }
    line("worst: who may send nothing comes and goes", &steps);
}
