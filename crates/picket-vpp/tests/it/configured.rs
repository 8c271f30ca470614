//! What Contiv's policy plugin made of policies in its own tests: ours let the same pass.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_cluster::{Object, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::{Prefix, Protocol};
use picket_policy::Direction;
use picket_testing::build::{PolicyBuilder, RuleBuilder, accept, block, node, pod, pods_where, policy};
use picket_vpp::acl::meaning::{Interpreter, Packet, Way};
use picket_vpp::acl::{Acls, Options, render};
use picket_vpp::rule::{Action, Rule};

use crate::cases::{Configured, Match, OfPod, cases, protocol_of, rules};

/// The cluster of a case: one node, and each pod has a label that says who it is.
fn cluster(case: &Configured) -> Snapshot {
    let node = Object::from(node("n1").ip(&case.loopback.to_string()));
    let pods = case.pods.iter().map(|known| {
        let pod = pod(&known.pod).ip(&known.address.to_string()).on("n1");
        Object::from(pod.label("pod", &label(&known.pod)))
    });
    let policies = case.configured.iter().map(|of| Object::from(policy_of(of)));
    [node].into_iter().chain(pods).chain(policies).collect()
}

/// A name as the value of a label.
fn label(pod: &str) -> String {
    pod.replace('/', ".")
}

fn policy_of(of: &OfPod) -> PolicyBuilder {
    let selected = policy(&of.pod).selects(&format!("pod={}", label(&of.pod)));
    of.matches
        .iter()
        .fold(selected, |policy, given| match given.ingress {
            true => policy.isolates(Direction::Ingress).ingress(rule_of(given)),
            false => policy.isolates(Direction::Egress).egress(rule_of(given)),
        })
}

fn rule_of(given: &Match) -> RuleBuilder {
    let pods = given
        .pods
        .iter()
        .map(|pod| pods_where("", &format!("pod={}", label(pod))));
    let blocks = given.blocks.iter().map(|given| {
        let except: Vec<_> = given.except.iter().map(String::as_str).collect();
        block(&given.cidr, &except)
    });
    let peers = pods.chain(blocks).fold(accept(), RuleBuilder::peer);
    given.ports.iter().fold(peers, |rule, port| {
        let (protocol, port) = port.split_once(' ').expect("a protocol and a port");
        match port {
            "any" => rule.protocol(protocol_of(protocol)),
            port => rule.port(protocol_of(protocol), port.parse().expect("a port")),
        }
    })
}

/// The lists of one pod, asked for one direction only.
struct Judge<'a> {
    acls: &'a Acls,
    pod: &'a str,
    own: IpAddr,
    is_local: bool,
}

impl Judge<'_> {
    /// Whether what `peer` sends to the pod passes, or else what the pod sends there.
    fn passes(&self, direction: Direction, peer: IpAddr, protocol: Protocol, port: u16) -> bool {
        let mut vpp = Interpreter::new(self.acls);
        match direction {
            Direction::Ingress => {
                let packet = Packet::opening(peer, self.own, protocol, port);
                vpp.passes(self.pod, Way::Out, &packet)
            }
            Direction::Egress => {
                let packet = Packet::opening(self.own, peer, protocol, port);
                let leaves = self.is_local || vpp.passes("uplink", Way::Out, &packet);
                vpp.passes(self.pod, Way::In, &packet) && leaves
            }
        }
    }
}

fn judge<'a>(case: &'a Configured, acls: &'a Acls, pod: &'a str, peer: IpAddr) -> Judge<'a> {
    let known = case.pods.iter().find(|known| known.pod == pod);
    Judge {
        acls,
        pod,
        own: known.expect("a pod of the case").address,
        is_local: case.pods.iter().any(|known| known.address == peer),
    }
}

fn lists(case: &Configured) -> Acls {
    let engine = Engine::compile(&cluster(case), Semantics::default());
    render(engine.program(), Some("n1"), &Options::default())
}

#[test]
fn policies_let_pass_what_the_tests_of_the_original_ask_for() {
    for case in cases().configured {
        let acls = lists(&case);
        for traffic in &case.traffic {
            let words: Vec<_> = traffic.split(' ').collect();
            let [result, protocol, port, source, "->", destination] = words[..] else {
                panic!("no traffic: {traffic}");
            };
            let (direction, pod, peer) = match source.parse::<IpAddr>() {
                Ok(peer) => (Direction::Ingress, destination, peer),
                Err(_) => (
                    Direction::Egress,
                    source,
                    destination.parse().expect("an address"),
                ),
            };
            let passes = judge(&case, &acls, pod, peer).passes(
                direction,
                peer,
                protocol_of(protocol),
                port.parse().expect("a port"),
            );
            assert_eq!(passes, result == "allow", "{}: {traffic}", case.name);
        }
    }
}

/// What rules of the original do with a packet: the first that matches decides, and what none matches passes.
fn decide(rules: &[Rule], peer: IpAddr, protocol: Protocol, port: u16) -> bool {
    let matches = |rule: &&Rule| {
        let about = |net: Option<Prefix>| net.is_none_or(|net| net.contains(peer));
        let ports = rule.destination_ports;
        about(rule.source)
            && about(rule.destination)
            && rule.protocol.is_none_or(|of_rule| of_rule == protocol)
            && (!protocol.has_ports() || ports.contains(port))
    };
    rules
        .iter()
        .find(matches)
        .is_none_or(|rule| rule.action == Action::Permit)
}

/// Addresses at and beside the ends of every network of rules.
fn edges(rules: &[Rule]) -> BTreeSet<IpAddr> {
    let nets = rules.iter().flat_map(|rule| [rule.source, rule.destination]);
    let beside = |address: IpAddr| {
        let IpAddr::V4(address) = address else {
            return vec![address];
        };
        let number = address.to_bits();
        [number.saturating_sub(1), number, number.saturating_add(1)]
            .map(|number| IpAddr::from(std::net::Ipv4Addr::from_bits(number)))
            .to_vec()
    };
    nets.flatten()
        .flat_map(|net| [net.first(), net.last()])
        .flat_map(beside)
        .collect()
}

#[test]
fn policies_let_pass_what_the_rules_of_the_original_do() {
    let mut compared = 0;
    for case in cases().configured {
        let acls = lists(&case);
        for of in &case.configured {
            for (direction, theirs) in [
                (Direction::Ingress, rules(&of.ingress)),
                (Direction::Egress, rules(&of.egress)),
            ] {
                for peer in edges(&theirs) {
                    let judge = judge(&case, &acls, &of.pod, peer);
                    if peer == judge.own || case.loopback == peer && direction == Direction::Egress {
                        continue;
                    }
                    for protocol in ["tcp", "udp", "other"].map(protocol_of) {
                        for port in [79, 80, 81, 443, 7999, 8000, 8001] {
                            let ours = judge.passes(direction, peer, protocol, port);
                            let expected = decide(&theirs, peer, protocol, port);
                            assert_eq!(
                                ours, expected,
                                "{}: {} {direction} {peer} {protocol} {port}",
                                case.name, of.pod
                            );
                            compared += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(compared > 3000, "{compared}");
}
