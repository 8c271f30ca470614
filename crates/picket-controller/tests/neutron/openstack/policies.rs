//! Policies come, change and go, and so do pods.

use picket_cluster::{Object, Snapshot};
use picket_net::Protocol;
use picket_policy::Direction;
use picket_testing::build::{
    PodBuilder, PolicyBuilder, accept, admin_policy, baseline_policy, block, deny, namespace, node, pass,
    pod, pods_in, pods_where, policy,
};

use super::scene::Scene;

pub(super) fn role(name: &str, role: &str, last: u8) -> PodBuilder {
    pod(&format!("x/{name}"))
        .label("role", role)
        .ip(&format!("10.0.0.{last}"))
        .ip(&format!("fd00::{last}"))
}

pub(super) fn cluster(more: impl IntoIterator<Item = Object>) -> Snapshot {
    let some: Vec<Object> = vec![
        namespace("x").label("team", "x").into(),
        namespace("y").label("team", "y").into(),
        node("n1").ip("10.9.0.1").into(),
        role("db", "db", 1)
            .on("n1")
            .port("sql", Protocol::TCP, 5432)
            .into(),
        role("web", "web", 2).into(),
        role("other", "other", 3).into(),
        pod("y/far").label("role", "far").ip("10.0.1.1").into(),
    ];
    some.into_iter().chain(more).collect()
}

/// The database may be reached from the web.
pub(super) fn lets_in() -> PolicyBuilder {
    policy("x/p")
        .selects("role=db")
        .ingress(accept().peer(pods_in("x", "role=web")))
}

#[test]
fn every_kind_of_policy_comes_changes_and_goes() {
    let scene = Scene::new();
    scene.goes_to(&cluster([]));
    let web = || pods_in("x", "role=web");
    let ingress = |rule| policy("x/p").selects("role=db").ingress(rule);
    let tcp = |port| accept().peer(web()).port(Protocol::TCP, port);
    let all: Vec<Vec<Object>> = vec![
        vec![policy("x/p").selects("").isolates(Direction::Ingress).into()],
        vec![ingress(accept()).into()],
        vec![ingress(tcp(80)).into()],
        vec![ingress(tcp(81)).into()],
        vec![
            ingress(tcp(80))
                .ingress(
                    accept()
                        .peer(pods_where("team=y", ""))
                        .named("sql", Protocol::TCP),
                )
                .into(),
        ],
        vec![ingress(accept().peer(block("10.0.0.0/8", &["10.0.0.0/24", "10.128.0.0/9"]))).into()],
        vec![ingress(accept().peer(block("10.0.0.0/8", &["10.0.1.0/24"]))).into()],
        vec![
            policy("x/p")
                .selects("role=db")
                .isolates(Direction::Egress)
                .into(),
            policy("x/q").selects("role=db").ingress(tcp(80)).into(),
        ],
        vec![
            policy("x/p")
                .selects("role=web")
                .egress(accept().peer(pods_in("x", "role=db")).ports(Protocol::UDP, 1, 99))
                .into(),
            policy("x/q")
                .selects("")
                .ingress(accept().peer(web()).protocol(Protocol::SCTP))
                .into(),
        ],
        vec![
            admin_policy("a", 5)
                .selects("")
                .ingress(deny().peer(pods_where("team=y", "")))
                .into(),
            policy("x/q").selects("").ingress(accept()).into(),
        ],
        vec![
            baseline_policy("b", 5)
                .selects("")
                .ingress(deny().peer(pods_where("team=y", "")))
                .into(),
        ],
        vec![],
    ];
    for policies in all {
        scene.goes_to(&cluster(policies));
    }
    let left = scene.server.list("security-groups");
    let ours = left
        .iter()
        .filter(|group| group["name"].as_str().unwrap().starts_with("picket/"));
    // Of both families open groups, and nothing of any policy.
    assert_eq!(ours.count(), 2, "{left:?}");
    assert!(scene.server.list("address-groups").is_empty());
}

/// Each rule of the tier has a say, and what it passes on the policy of the namespace decides.
#[test]
fn a_cluster_network_policy_denies_passes_and_accepts_as_it_comes_changes_and_goes() {
    let scene = Scene::new();
    let lets_in = || {
        policy("x/q")
            .selects("role=db")
            .ingress(accept().peer(pods_in("x", "role=web")).port(Protocol::TCP, 80))
            .into()
    };
    let admin = || admin_policy("a", 5).selects("role=db");
    let web = || pods_where("team=x", "role=web");
    let other = || pods_where("team=x", "role=other");
    let far = || pods_where("team=y", "");
    scene.goes_to(&cluster([lets_in()]));
    let accepted = admin().ingress(accept().peer(other()).port(Protocol::TCP, 81));
    scene.goes_to(&cluster([lets_in(), accepted.into()]));
    let all = admin()
        .ingress(pass().peer(web()).port(Protocol::TCP, 80))
        .ingress(deny().peer(web()))
        .ingress(accept().peer(far()).port(Protocol::TCP, 82))
        .egress(deny().peer(other()));
    scene.goes_to(&cluster([lets_in(), all.into()]));
    let denied = admin()
        .ingress(deny().peer(web()))
        .ingress(accept().peer(other()));
    scene.goes_to(&cluster([lets_in(), denied.into()]));
    scene.goes_to(&cluster([lets_in()]));
    let names = scene.server.list("security-groups");
    let mut names = names.iter().filter_map(|group| group["name"].as_str());
    assert!(!names.any(|name| name.starts_with("picket/pods/")));
}

#[test]
fn events_take_the_calls_that_they_should() {
    let scene = Scene::new();
    scene.goes_to(&cluster([lets_in().into()]));
    let peer = || role("web2", "web", 4);
    // A pod that known rules are about.
    let calls = scene.goes_to(&cluster([lets_in().into(), peer().into()]));
    assert_eq!(calls, ["PUT ports 200"]);
    // Other labels.
    let calls = scene.goes_to(&cluster([lets_in().into(), role("web2", "other", 4).into()]));
    assert_eq!(calls, ["PUT ports 200"]);
    // A pod that is isolated.
    let calls = scene.goes_to(&cluster([lets_in().into(), role("web2", "db", 4).into()]));
    assert_eq!(calls, ["PUT ports 200"]);
    // A pod goes, and with it its port.
    let calls = scene.goes_to(&cluster([lets_in().into()]));
    assert_eq!(calls, Vec::<String>::new());
}

/// As many pods that a policy lets in.
pub(super) fn peers(count: u8) -> Snapshot {
    let pods = (1..=count).map(|number| role(&format!("web{number}"), "web", 10 + number).into());
    cluster(pods.chain([lets_in().into()]))
}
