//! Policies with their peers resolved, as targets read them whose objects are per policy.

use picket_cluster::{Event, Object, Semantics};
use picket_engine::{Engine, PodRef};
use picket_net::Protocol;
use picket_policy::{List, ObjectRef};
use picket_testing::build::{accept, admin_policy, block, node, nodes_where, pass, pod, pods_in, policy};

fn names(pods: &[PodRef<'_>]) -> Vec<String> {
    pods.iter().map(|pod| pod.pod().id()).collect()
}

#[test]
fn a_view_resolves_peers_and_ports_in_the_order_written() {
    let mut engine = Engine::new(Semantics::default());
    let objects: Vec<Object> = vec![
        pod("x/a")
            .label("app", "a")
            .port("web", Protocol::TCP, 80)
            .ip("10.0.0.1")
            .into(),
        pod("x/b")
            .label("app", "b")
            .port("web", Protocol::TCP, 8080)
            .ip("10.0.0.2")
            .into(),
        pod("x/c").label("app", "b").ip("10.0.0.3").into(),
        pod("x/done").label("app", "b").finished().ip("10.0.0.4").into(),
        node("n").label("role", "edge").ip("192.168.0.1").into(),
        policy("x/p")
            .selects("app=a")
            .ingress(
                accept()
                    .peer(pods_in("x", "app=b"))
                    .peer(block("10.0.0.0/8", &[]))
                    .named("web", Protocol::TCP),
            )
            .egress(
                accept()
                    .peer(pods_in("x", "app=b"))
                    .named("web", Protocol::TCP)
                    .port(Protocol::TCP, 443),
            )
            .into(),
        admin_policy("edge", 5)
            .egress(pass().peer(nodes_where("role=edge")))
            .into(),
        policy("x/other").selects("app=b").ingress(accept()).into(),
    ];
    for object in objects {
        engine.apply(Event::Apply(object));
    }
    let views = engine.program().policy_views(&ObjectRef::new("Pod", "x", "a"));
    let order: Vec<_> = views
        .iter()
        .map(|view| view.policy.object.name.as_str())
        .collect();
    assert_eq!(
        order,
        ["edge", "p"],
        "the Admin tier first, and only what selects the pod"
    );

    let List::Items(nodes) = &views[0].egress.rules[0].peers else {
        panic!("peers")
    };
    let addresses: Vec<_> = nodes[0].addresses().map(|address| address.to_string()).collect();
    assert_eq!(
        (addresses, nodes[0].pods().len()),
        (vec!["192.168.0.1".to_owned()], 0)
    );

    let ingress = &views[1].ingress;
    let List::Items(peers) = &ingress.rules[0].peers else {
        panic!("peers")
    };
    assert!(ingress.isolates);
    assert_eq!(names(&peers[0].pods()), ["x/b", "x/c"]);
    assert!(peers[1].pods().is_empty(), "a block says all there is to say");
    assert_eq!(
        ingress.rules[0].traffic.to_string(),
        "TCP 80",
        "the pod's own port of that name"
    );

    let egress = &views[1].egress.rules[0];
    assert_eq!(egress.traffic.to_string(), "TCP 443");
    let named: Vec<_> = egress
        .named()
        .iter()
        .map(|(traffic, pods)| (traffic.to_string(), names(pods)))
        .collect();
    assert_eq!(
        named,
        [("TCP 8080".to_owned(), vec!["x/b".to_owned()])],
        "only peers that have the name"
    );
}
