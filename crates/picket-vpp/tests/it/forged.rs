//! Nobody reaches a pod that is kept from him with the address of another.

use picket_cluster::{Event, Object, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::{Prefix, Protocol};
use picket_policy::Direction;
use picket_testing::build::{accept, block, node, pod, policy};
use picket_vpp::acl::hold::Held;
use picket_vpp::acl::meaning::{Interpreter, Packet, Way};
use picket_vpp::acl::plan::{Installed, InstalledLists, Operation};
use picket_vpp::acl::verify::{Fault, Report, verify};
use picket_vpp::acl::{Acl, AclAction, AclRule, Acls, Options, Renderer, Tag, render};
use picket_vpp::layer4::Selector;

const NODE: &str = "10.9.0.1";
const DB: &str = "10.0.0.2";

/// Two pods of a node, of which a policy lets one receive something from 172.16.0.0/16 alone.
fn objects() -> Vec<Object> {
    let from = accept().peer(block("172.16.0.0/16", &[])).port(Protocol::TCP, 80);
    let closed = policy("x/closed").selects("name=db").ingress(from);
    vec![
        Object::from(node("n").ip(NODE)),
        Object::from(
            pod("x/web")
                .label("name", "web")
                .on("n")
                .ip("10.0.0.1")
                .ip("fd00::1")
                .build(),
        ),
        Object::from(
            pod("x/db")
                .label("name", "db")
                .on("n")
                .ip(DB)
                .ip("fd00::2")
                .build(),
        ),
        Object::Policy(closed.build()),
    ]
}

fn rendered() -> (Engine, Acls) {
    let snapshot: Snapshot = objects().into_iter().collect();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let acls = render(engine.program(), Some("n"), &Options::default());
    (engine, acls)
}

fn proved(engine: &Engine, acls: &Acls) -> Report {
    verify(
        acls,
        engine.program(),
        Some("n"),
        |pod| vec![pod.pod().id().into()],
        9,
    )
}

/// Whether what `web` sends with a source gets from it to a destination.
fn passes(acls: &Acls, source: &str, destination: &str) -> bool {
    let to = if destination == DB { "x/db" } else { "uplink" };
    let [source, destination] = [source, destination].map(|address| address.parse().expect("an address"));
    let packet = Packet::opening(source, destination, Protocol::TCP, 80);
    let mut vpp = Interpreter::new(acls);
    vpp.passes("x/web", Way::In, &packet) && vpp.passes(to, Way::Out, &packet)
}

#[test]
fn a_pod_that_nothing_restricts_reaches_no_closed_pod_with_the_address_of_its_node() {
    let (engine, acls) = rendered();
    for source in [NODE, "172.16.0.1", "10.0.0.2", "10.0.0.1"] {
        assert!(!passes(&acls, source, DB), "{source}");
    }
    // It keeps everything that is its own.
    assert!(passes(&acls, "10.0.0.1", "192.0.2.1") && passes(&acls, "fd00::1", "2001:db8::1"));
    assert!(acls.interfaces["x/web"].output.is_empty());
    assert!(proved(&engine, &acls).is_proof());
}

#[test]
fn what_lets_a_pod_forge_addresses_beside_a_closed_one_is_no_proof() {
    let (engine, mut open) = rendered();
    let lists = open.interfaces.get_mut("x/web").expect("a pod");
    lists.input.clear();
    let report = proved(&engine, &open);
    assert!(!report.is_proof());
    for found in report.counterexamples {
        assert_eq!(
            (found.interface.as_str(), found.way, found.fault),
            ("x/web", Way::In, Fault::Passes)
        );
    }
}

/// Lists of others are behind ours, where they decide what they did of a pod that nothing restricts.
#[test]
fn lists_of_others_decide_what_a_pod_sends_with_its_own_address() {
    let (engine, acls) = rendered();
    let rule = |action, destination: &str| {
        let destination: Prefix = destination.parse().expect("a prefix");
        AclRule::of(
            action,
            Prefix::all(destination.family()),
            destination,
            &Selector::Any,
        )
    };
    let open = [
        rule(AclAction::Permit, "0.0.0.0/0"),
        rule(AclAction::Permit, "::/0"),
    ]
    .concat();
    let closed = [rule(AclAction::Deny, "192.0.2.1/32"), open.clone()].concat();
    for (theirs, decides) in [(open, true), (closed, false)] {
        let mut installed = Installed::default();
        let theirs = Acl {
            tag: Tag::installed("theirs"),
            rules: theirs,
        };
        installed.acls.insert(0, theirs);
        for name in acls.interfaces.keys() {
            let lists = InstalledLists {
                input: if name == "x/web" { vec![0] } else { Vec::new() },
                output: Vec::new(),
            };
            installed.interfaces.insert(name.clone(), lists);
        }
        let mut held = Held::new(installed);
        let plan = held.plan(&acls, acls.interfaces.keys());
        let created = plan.operations().iter().filter_map(|operation| match operation {
            Operation::Create(acl) => Some(acl.tag.clone()),
            _ => None,
        });
        held.advance(&plan, &created.zip(1..).collect());
        let pod = |name: &str| acls.interfaces.get(name)?.pod.clone();
        let there = held.installed().lists(pod);
        assert_eq!(there.interfaces["x/web"].input.len(), 2);
        for source in [NODE, "172.16.0.1", DB] {
            assert!(!passes(&there, source, DB), "{source}");
        }
        assert_eq!(passes(&there, "10.0.0.1", "192.0.2.1"), decides);
        assert!(passes(&there, "10.0.0.1", "192.0.2.2") && passes(&there, "fd00::1", "2001:db8::1"));
        assert_eq!(proved(&engine, &there).is_proof(), decides);
        assert!(held.plan(&acls, acls.interfaces.keys()).is_empty());
    }
}

/// Only what pods may receive can be had with a forged address.
#[test]
fn pods_are_held_to_their_addresses_as_long_as_one_of_their_node_may_not_receive_everything() {
    let mut engine = Engine::new(Semantics::default());
    for object in objects() {
        engine.apply(Event::Apply(object));
    }
    let mut renderer = Renderer::new(Some("n"), Options::default());
    renderer.advance(engine.program());
    let lists = |renderer: &Renderer| renderer.acls().interfaces["x/web"].clone();
    let held = lists(&renderer);
    assert_eq!((held.input.len(), held.output.len()), (1, 0));
    let second = policy("x/second")
        .selects("name=db")
        .ingress(accept().port(Protocol::UDP, 53))
        .build();
    let gone = Event::Delete(second.object.clone());
    let other = policy("x/closed")
        .selects("name=db")
        .isolates(Direction::Ingress)
        .build();
    for event in [
        Event::Apply(Object::Policy(second)),
        gone,
        Event::Apply(Object::Policy(other.clone())),
    ] {
        renderer.note(&engine.apply(event));
        let change = renderer.advance(engine.program());
        assert!(!change.is_empty() && !change.interfaces.contains_key("x/web"));
        assert_eq!(lists(&renderer), held);
    }
    for (event, expected) in [
        (Event::Delete(other.object.clone()), 0),
        (Event::Apply(Object::Policy(other)), 1),
    ] {
        renderer.note(&engine.apply(event));
        let change = renderer.advance(engine.program());
        assert!(change.interfaces.contains_key("x/web"));
        let lists = lists(&renderer);
        assert_eq!((lists.input.len(), lists.output.len()), (expected, 0));
    }
}
