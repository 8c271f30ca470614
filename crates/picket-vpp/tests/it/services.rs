//! Addresses of services that somebody has are his.

use picket_cluster::{Event, Object, Semantics, Service};
use picket_engine::Engine;
use picket_policy::{Direction, Labels, ObjectRef};
use picket_testing::build::{node, pod, policy};
use picket_vpp::acl::verify::verify;
use picket_vpp::acl::{AclAction, Options, Renderer};

/// A service with an address that whoever creates it may choose, as `externalIPs` are.
fn service(address: &str) -> Object {
    Object::Service(Service {
        object: ObjectRef::new("Service", "x", "web"),
        addresses: [address.parse().expect("an address")].into(),
        selector: Labels::default(),
        ports: Vec::new(),
    })
}

/// Where `x/silent` may send what nobody has judged, but to itself.
fn unjudged(renderer: &Renderer) -> Vec<String> {
    let acls = renderer.acls();
    let rules = acls.rules(&acls.interfaces["x/silent"].input);
    let passing = rules.filter(|rule| rule.action != AclAction::Deny && rule.source != rule.destination);
    passing.map(|rule| rule.destination.to_string()).collect()
}

#[test]
fn a_service_with_the_address_of_a_pod_or_a_node_opens_nothing() {
    let silent = policy("x/silent")
        .selects("name=silent")
        .isolates(Direction::Egress);
    let own = pod("x/silent")
        .label("name", "silent")
        .on("n")
        .ip("10.0.0.1")
        .build();
    let far = Object::from(node("far").ip("10.9.0.2"));
    let comes: [(&str, Object); 2] = [
        (
            "10.0.0.2",
            Object::from(pod("x/other").on("far").ip("10.0.0.2").build()),
        ),
        ("10.9.0.2", far),
    ];
    for (address, comes) in comes {
        let mut engine = Engine::new(Semantics::default());
        let there = [
            Object::from(node("n").ip("10.9.0.1")),
            Object::from(own.clone()),
            Object::Policy(silent.clone().build()),
        ];
        for object in there {
            engine.apply(Event::Apply(object));
        }
        let mut renderer = Renderer::new(Some("n"), Options::default());
        let mut at_first = Vec::new();
        let gone = Event::Delete(comes.object_ref());
        for (event, expected) in [
            (
                Event::Apply(service("10.0.0.77")),
                vec!["10.0.0.77/32".to_owned()],
            ),
            (Event::Apply(service(address)), vec![format!("{address}/32")]),
            (Event::Apply(comes), Vec::new()),
            (gone, vec![format!("{address}/32")]),
        ] {
            renderer.advance(engine.program());
            if at_first.is_empty() {
                at_first = unjudged(&renderer);
            }
            renderer.note(&engine.apply(event));
            renderer.advance(engine.program());
            let mut new = unjudged(&renderer);
            new.retain(|address| !at_first.contains(address));
            assert_eq!(new, expected, "{address}");
            let name = |pod: picket_engine::PodRef<'_>| vec![pod.pod().id().into()];
            let report = verify(renderer.acls(), engine.program(), Some("n"), name, 9);
            assert!(report.is_proof(), "{:?}", report.counterexamples);
        }
    }
}
