//! Tables and sessions: which there are, and what they let in.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Protocol;
use picket_policy::ObjectRef;
use picket_vpp::acl::meaning::{Interpreter, Packet, Way};
use picket_vpp::acl::plan::plan;
use picket_vpp::acl::{self, Acls};
use picket_vpp::fake::{self, Direction, Fake, Verdict};
use picket_vpp::lists::of_rules;
use picket_vpp::session::{self, Action, Transport};
use picket_vpp::value::Values;

use super::{namespace, pod, policy, story};
use crate::cases::rules;
use crate::installed::{beside_cuts, put, start};
use crate::journey::Cluster;
use crate::plan::Vpp;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Every order of four.
fn orders() -> Vec<[usize; 4]> {
    let all = (0..256).map(|number| [0, 2, 4, 6].map(|shift| (number >> shift) & 3));
    all.filter(|order| (0..4).all(|value| order.contains(&value)))
        .collect()
}

/// B: one of them had none now and then (`bug_shared_table_lost`).
#[test]
fn pods_with_equal_tables_share_one_and_none_loses_it() {
    let peer = ["permit any any 10.1.255.254/32 -> any", "deny any any any -> any"];
    let of_p = |more: &[&str]| rules(&[more, &peer].concat());
    let from_s = [80, 443, 8080].map(|port| format!("permit tcp {port} 10.1.1.9/32 -> any"));
    let from_s = from_s.each_ref().map(String::as_str);
    for names in orders() {
        let mut values = Values::default();
        let name = |number: usize| ObjectRef::new("Pod", "default", &names[number].to_string());
        let own = ["10.1.1.9", "10.1.1.1", "10.1.1.2", "10.1.1.3"].map(address);
        let given = [
            (Vec::new(), rules(&["deny any any any -> any"])),
            (of_p(&from_s), Vec::new()),
            (of_p(&from_s), Vec::new()),
            (of_p(&["permit tcp 80 10.1.1.200/32 -> any"]), Vec::new()),
        ];
        let lists = given.iter().enumerate();
        let pods: BTreeMap<_, _> = lists
            .map(|(number, (ingress, egress))| {
                let lists = of_rules([own[number]], ingress, egress, &mut values);
                (name(number), lists)
            })
            .collect();
        let acls = acl::render_lists(&pods, &[], &acl::Options::default(), &mut values);
        let to = |number: usize| format!("default/{}", names[number]);
        let output = |number: usize| &acls.interfaces[to(number).as_str()].output;
        assert_eq!(output(1), output(2), "{names:?}");
        assert_eq!(output(1).len(), 1, "{names:?}");
        assert_ne!(output(1), output(3), "{names:?}");
        for number in [1, 2] {
            let passes = |source| {
                let packet = Packet::opening(address(source), own[number], Protocol::TCP, 80);
                Interpreter::new(&acls).passes(&to(number), Way::Out, &packet)
            };
            assert!(passes("10.1.255.254"), "{names:?}");
            for source in ["10.1.1.9", "10.1.1.200", "8.8.8.8"] {
                assert!(!passes(source), "{names:?}: {source}");
            }
        }
    }
}

/// What one node has after each of some steps.
fn lists_of_n1(story: super::Story) -> Vec<Acls> {
    let mut found = Vec::new();
    story.each(|snapshot, program| {
        let mut lists = Cluster::of(snapshot, program).acls;
        found.extend(lists.remove(&Some("n1".into())));
    });
    found
}

/// O: fifty changes left fifty tables behind.
#[test]
fn lists_that_nobody_has_any_more_go() {
    let mut changes = story().with(&[pod("default/p1", "10.1.1.1", "", "")]);
    for port in 8000..8050 {
        let rules = format!("podSelector: {{}}, ingress: [{{ports: [{{port: {port}}}]}}]");
        changes = changes
            .with(&[policy(&rules)])
            .then(&format!("allow 8.8.8.8 -> default/p1 : TCP/{port}"));
    }
    let mut vpp: Option<Vpp> = None;
    for acls in lists_of_n1(changes) {
        let vpp = vpp.get_or_insert_with(|| Vpp::with_interfaces(acls.interfaces.keys()));
        for operation in plan(&vpp.installed, &acls).operations() {
            vpp.carry_out(operation);
        }
        assert_eq!(beside_cuts(&vpp.installed), acls.acls.len());
        assert!(vpp.installed.acls.len() <= 5);
    }
}

/// P: without pods nothing was looked at, and what was there stayed.
#[test]
fn a_node_without_pods_has_no_lists() {
    let story = story()
        .with(&[
            namespace("default", ""),
            pod("default/p1", "10.1.1.1", "", ""),
            pod("default/far", "10.1.2.1", "", ""),
            policy("podSelector: {}, policyTypes: [Egress]"),
        ])
        .then("deny default/p1 -> 8.8.8.8 : TCP/80")
        .without("Pod default/p1")
        .then("deny default/far -> 8.8.8.8 : TCP/80");
    let lists = lists_of_n1(story);
    let mut vpp = Vpp::with_interfaces(lists[0].interfaces.keys());
    for (acls, is_there) in lists.iter().zip([true, false]) {
        for operation in plan(&vpp.installed, acls).operations() {
            vpp.carry_out(operation);
        }
        let bound = vpp.installed.interfaces.values();
        let bound = bound.flat_map(|lists| lists.input.iter().chain(&lists.output));
        assert_eq!(bound.count() > 0, is_there);
        assert_eq!(!vpp.installed.acls.is_empty(), is_there);
    }
}

/// Q: whatever a pod sent opened the way back, also to a port of its own.
#[test]
fn what_a_pod_must_not_send_lets_nothing_in() {
    let story = story()
        .with(&[
            pod("default/p1", "10.1.1.1", "", ""),
            policy("podSelector: {}, policyTypes: [Ingress, Egress], egress: [{ports: [{port: 443}]}]"),
        ])
        .then("deny default/p1 -> 8.8.8.8 : TCP/4000\nallow default/p1 -> 8.8.8.8 : TCP/443");
    let acls = &lists_of_n1(story)[0];
    let (own, other) = (address("10.1.1.1"), address("8.8.8.8"));
    let sent = |source, second| Packet {
        first: 80,
        ..Packet::opening(source, other, Protocol::TCP, second)
    };
    // By its own address to a port that it may not reach, and with an address of somebody else.
    for packet in [sent(own, 4000), sent(address("10.1.1.2"), 443)] {
        let mut vpp = Interpreter::new(acls);
        assert!(!vpp.passes("default/p1", Way::In, &packet));
        assert!(!vpp.passes("default/p1", Way::Out, &packet.reply()));
    }
    let mut vpp = Interpreter::new(acls);
    let allowed = sent(own, 443);
    assert!(vpp.passes("default/p1", Way::In, &allowed));
    assert!(vpp.passes("default/p1", Way::Out, &allowed.reply()));
}

fn passes(fake: &Fake, interface: u32, direction: Direction, packet: &fake::Packet) -> bool {
    matches!(fake.packet(interface, direction, packet), Verdict::Passed)
}

/// Q: sessions outlived a change of policies.
#[test]
fn a_connection_that_becomes_denied_has_no_session() {
    let egress = |spec: &str| {
        policy(&format!(
            "podSelector: {{}}, policyTypes: [Ingress, Egress]{spec}"
        ))
    };
    let story = story()
        .with(&[
            pod("default/p1", "10.1.1.1", "", ""),
            egress(", egress: [{ports: [{port: 443}]}]"),
        ])
        .then("allow default/p1 -> 8.8.8.8 : TCP/443")
        .with(&[egress("")])
        .then("deny default/p1 -> 8.8.8.8 : TCP/443");
    let lists = lists_of_n1(story);
    let (fake, mut connector) = start(&lists[0], 7);
    let interfaces = put(&fake, &mut connector, &lists[0]);
    let own = interfaces["default/p1"];
    let there = fake::Packet::new(
        Protocol::TCP,
        (address("10.1.1.1"), 40_000),
        (address("8.8.8.8"), 443),
    );
    assert!(passes(&fake, own, Direction::In, &there));
    assert!(passes(&fake, own, Direction::Out, &there.reply()));
    put(&fake, &mut connector, &lists[1]);
    assert!(!passes(&fake, own, Direction::In, &there));
    assert!(!passes(&fake, own, Direction::Out, &there.reply()));
}

/// R: only pods that an event was about got their rules (`bug_vpptcp_untouched_pod_not_pushed`).
#[test]
fn rules_of_pods_change_that_nothing_was_said_of() {
    let mut values = Values::default();
    let name = |name| ObjectRef::new("Pod", "default", name);
    let open = |own| Arc::new(of_rules([address(own)], &[], &[], &mut Values::default()));
    let closed = rules(&["deny any any any -> any"]);
    let closed = of_rules([address("10.0.0.2")], &closed, &[], &mut values);
    let mut node = session::NodeRules::of_rules(session::Options::default());
    let first = BTreeMap::from([
        (name("p1"), Some(open("10.0.0.1"))),
        (name("p2"), Some(open("10.0.0.2"))),
    ]);
    node.advance(&first, &mut values);
    assert!(node.rules().local.values().all(Vec::is_empty));
    let second = BTreeMap::from([(name("p2"), Some(Arc::new(closed)))]);
    let change = node.advance(&second, &mut values);
    let turn = change.local.get(&name("p1"));
    let Some((before, local)) = turn.and_then(|turn| turn.before.as_ref().zip(turn.now.as_ref())) else {
        panic!("nothing of p1: {change:?}");
    };
    assert!(before.is_empty());
    for transport in Transport::BOTH {
        let dropped = local.iter().filter(|rule| {
            (rule.transport, rule.action) == (transport, Action::Drop)
                && rule.remote == "10.0.0.2/32".parse().expect("a network")
                && (rule.local_port, rule.remote_port) == (0, 0)
        });
        assert_eq!(dropped.count(), 1, "{transport}");
    }
    assert_eq!(local.len(), 2);
    assert_eq!(node.local(&name("p1")), Some(local));
}
