//! Ports that others keep ready for pods to come.

use std::collections::BTreeSet;

use picket_cluster::{Object, Snapshot};
use picket_net::Protocol;
use picket_testing::build::{PodBuilder, accept, namespace, pod, pods_in, policy};
use serde_json::{Value, json};

use super::scene::Scene;

/// What is behind `TAG=` of a port without any groups: `printf '' | sha256sum | cut -c 1-16`.
const NONE: &str = "e3b0c44298fc1c14";

fn web(name: &str, last: u8) -> PodBuilder {
    pod(&format!("x/{name}"))
        .label("app", "web")
        .ip(&format!("10.0.0.{last}"))
}

/// A pod, and others, which its policy lets in if there is one.
fn cluster(has_policy: bool, webs: &[PodBuilder]) -> Snapshot {
    let lets_in = accept().peer(pods_in("x", "app=web")).port(Protocol::TCP, 5432);
    let policy = policy("x/db").selects("app=db").ingress(lets_in);
    let some: [Object; 2] = [
        namespace("x").into(),
        pod("x/db").label("app", "db").ip("10.0.0.1").into(),
    ];
    let policy = has_policy.then(|| policy.into());
    let webs = webs.iter().cloned().map(Object::from);
    some.into_iter().chain(webs).chain(policy).collect()
}

fn started(snapshot: &Snapshot) -> Scene {
    let mut scene = Scene::new();
    scene.neutron.pool = Some("kuryr-pool".parse().unwrap());
    scene.give_ports(&scene.written(snapshot));
    scene.sync().unwrap();
    scene.writes();
    scene
}

impl Scene {
    fn texts(&self, port: &str, field: &str) -> BTreeSet<String> {
        let port = self.server.ask("GET", &format!("ports/{port}"), &Value::Null);
        let texts = port["port"][field].as_array().unwrap().iter();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    /// What the tags of a port tell of its groups.
    fn told(&self, port: &str) -> Vec<String> {
        let tags = self.texts(port, "tags").into_iter();
        tags.filter_map(|tag| Some(tag.strip_prefix("kuryr-pool=")?.to_owned()))
            .collect()
    }

    /// Renames a port, as whoever gives it to a pod or takes it back does.
    fn rename(&self, port: &str, name: &str) {
        let body = json!({"port": {"name": name}});
        self.server.ask("PUT", &format!("ports/{port}"), &body);
    }

    fn tag(&self, port: &str, tag: &str) {
        self.server
            .ask("PUT", &format!("ports/{port}/tags/{tag}"), &Value::Null);
    }
}

#[test]
fn a_port_that_is_kept_ready_keeps_groups_that_pods_have_and_loses_others() {
    let pods = [web("web", 2)];
    let mut scene = started(&cluster(true, &pods));
    let groups = scene.texts(&scene.port("x/web"), "security_groups");
    let network = scene.server.list("ports")[0]["network_id"].clone();
    let ready = json!({"port": {"network_id": network, "name": "ready", "security_groups": groups,
        "fixed_ips": [{"ip_address": "10.0.0.50"}]}});
    let ready = scene.server.ask("POST", "ports", &ready)["port"]["id"].clone();
    let ready = ready.as_str().unwrap();
    scene.tag(ready, "kuryr-pool");
    scene.sync().unwrap();
    assert_eq!(scene.writes(), ["PUT ports 201"]);
    assert_eq!(scene.texts(ready, "security_groups"), groups);
    let told = scene.told(ready);
    assert!(told.len() == 1 && told[0] != NONE, "{told:?}");
    scene.sync().unwrap();
    assert_eq!(scene.writes(), Vec::<String>::new());
    // Nobody has its address, unless nobody says that it is kept ready.
    let snapshot = scene.written(&cluster(true, &pods));
    scene.expect(&snapshot);
    let pool = scene.neutron.pool.take();
    assert!(!scene.verified(&snapshot).is_proof());
    scene.neutron.pool = pool;
    // A pod that gets it needs no call.
    scene.rename(ready, "x/next");
    let two = [web("web", 2), web("next", 50)];
    let snapshot = scene.written(&cluster(true, &two));
    scene.sync().unwrap();
    assert_eq!(scene.writes(), Vec::<String>::new());
    scene.expect(&snapshot);
    // It comes back, and then no pod has these groups any more: the group of peers can go.
    scene.rename(ready, "ready");
    scene.written(&cluster(false, &pods));
    scene.sync().unwrap();
    assert!(scene.texts(ready, "security_groups").is_empty());
    assert_eq!(scene.told(ready), [NONE]);
    assert!(scene.texts(ready, "tags").contains("kuryr-pool"));
    let left = scene.server.list("security-groups?tags=picket");
    assert_eq!(left.len(), 2, "{left:?}");
    scene.writes();
    scene.sync().unwrap();
    assert_eq!(scene.writes(), Vec::<String>::new());
}

#[test]
fn a_port_that_a_pod_gives_back_is_tagged_with_the_groups_that_it_has_then() {
    let pods = [
        web("web", 2),
        web("web2", 3),
        web("other", 4).label("app", "other"),
    ];
    let scene = started(&cluster(true, &pods));
    let port = scene.port("x/web");
    scene.tag(&port, "kuryr-pool=of-before");
    // While a pod has it, its tags are nobody's business, whatever groups it gets.
    let changed = [
        web("web", 2).label("app", "other"),
        web("web2", 3),
        web("other", 4).label("app", "other"),
    ];
    scene.written(&cluster(true, &changed));
    scene.sync().unwrap();
    assert_eq!(scene.told(&port), ["of-before"]);
    let groups = scene.texts(&port, "security_groups");
    assert_eq!(groups, scene.texts(&scene.port("x/other"), "security_groups"));
    scene.rename(&port, "ready");
    let snapshot = scene.written(&cluster(true, &changed[1..]));
    scene.writes();
    scene.sync().unwrap();
    assert_eq!(scene.writes(), ["PUT ports 201", "DELETE ports 204"]);
    assert_eq!(scene.texts(&port, "security_groups"), groups);
    let told = scene.told(&port);
    assert!(
        told.len() == 1 && told[0] != "of-before" && told[0] != NONE,
        "{told:?}"
    );
    scene.expect(&snapshot);
}

#[test]
fn without_the_tag_a_port_of_no_pod_has_none_of_our_groups() {
    let pods = [web("web", 2), web("web2", 3)];
    let scene = started(&cluster(true, &pods));
    let port = scene.port("x/web");
    scene.tag(&port, "kuryr-pools");
    scene.rename(&port, "ready");
    scene.written(&cluster(true, &pods[1..]));
    scene.sync().unwrap();
    assert!(scene.texts(&port, "security_groups").is_empty());
    assert!(scene.told(&port).is_empty());
}
