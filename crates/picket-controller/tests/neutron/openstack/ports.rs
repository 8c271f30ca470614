//! Whose each port is, and what else it has.

use std::sync::Arc;

use picket_cluster::{Object, Snapshot};
use picket_neutron::plan::ForeignGroups;
use picket_policy::Direction;
use picket_testing::build::{PodBuilder, accept, namespace, pod, pods_in, policy};
use serde_json::{Value, json};

use super::policies::{cluster, lets_in, peers, role};
use super::scene::Scene;

/// Takes the name of a port away; its id.
fn unnamed(scene: &Scene, name: &str) -> String {
    let id = scene.port(name);
    let body = json!({"port": {"name": "a port"}});
    scene.server.ask("PUT", &format!("ports/{id}"), &body);
    id
}

/// The groups of a port.
fn groups(scene: &Scene, id: &str) -> Vec<Value> {
    let port = scene.server.ask("GET", &format!("ports/{id}"), &Value::Null);
    port["port"]["security_groups"].as_array().unwrap().clone()
}

#[test]
fn a_port_that_comes_later_is_found() {
    let mut scene = Scene::new();
    scene.neutron.options.page = 2;
    scene.give_ports(&scene.written(&peers(6)));
    scene.sync().unwrap();
    let snapshot = scene.written(&peers(7));
    scene.late.replace(Some(snapshot.clone()));
    assert_eq!(scene.sync().unwrap().steps.len(), 1);
    scene.expect(&snapshot);
    assert_eq!(scene.sync().unwrap().steps, Vec::<String>::new());
}

#[test]
fn the_ports_that_a_pod_names_are_its_own_if_no_other_has_them() {
    let mut scene = Scene::new();
    scene.neutron.port_by = ["annotation", "name={namespace}/{name}"]
        .map(|rule| rule.parse().unwrap())
        .into();
    let mut snapshot = cluster([lets_in().into()]);
    scene.give_ports(&scene.written(&snapshot));
    // The ports of two pods are called otherwise, and only the pods say which they are.
    let [db, web] = ["x/db", "x/web"].map(|name| unnamed(&scene, name));
    let names = |snapshot: &mut Snapshot, at: PodBuilder| {
        let pod = at.build();
        snapshot.pods.insert(pod.object.clone(), Arc::new(pod));
    };
    let at_db = || role("db", "db", 1).on("n1").at_neutron(&[&db]);
    names(&mut snapshot, at_db());
    names(&mut snapshot, role("web", "web", 2).at_neutron(&[&web]));
    scene.written(&snapshot);
    scene.sync().unwrap();
    assert!(scene.verified(&scene.written(&snapshot)).is_proof());
    assert!([&db, &web].into_iter().all(|id| !groups(&scene, id).is_empty()));
    // A pod that names the ports of others gets none of them, whether they have them by this rule or by another.
    let other = scene.port("x/other");
    let far = pod("y/far")
        .label("role", "far")
        .ip("10.0.1.1")
        .at_neutron(&[&other]);
    let mut taken = snapshot;
    names(&mut taken, far);
    scene.written(&taken);
    assert_eq!(scene.sync().unwrap().steps, Vec::<String>::new());
    // Where nobody can tell whose a port is, it has none of our groups.
    names(&mut taken, role("other", "other", 3).at_neutron(&[&db]));
    scene.written(&taken);
    scene.sync().unwrap();
    assert_eq!(groups(&scene, &db), [Value::Null; 0]);
}

#[test]
fn ports_are_found_by_a_tag_or_by_an_address_too() {
    let mut scene = Scene::new();
    let snapshot = scene.written(&cluster([lets_in().into()]));
    scene.give_ports(&snapshot);
    let [db, web, other] = ["x/db", "x/web", "x/other"].map(|name| unnamed(&scene, name));
    let tags = json!({"tags": ["others", "pod:x/db"]});
    scene.server.ask("PUT", &format!("ports/{db}/tags"), &tags);
    for (rules, found) in [
        (&["tag=pod:{namespace}/{name}"][..], &[&db][..]),
        (&["tag=pod:{namespace}/{name}", "address"], &[&db, &web, &other]),
    ] {
        scene.neutron.port_by = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        scene.sync().unwrap();
        let all = [&db, &web, &other].into_iter();
        let has = all.filter(|id| !groups(&scene, id).is_empty());
        assert_eq!(has.collect::<Vec<_>>(), found, "{rules:?}");
        assert!(scene.verified(&snapshot).is_proof(), "{rules:?}");
    }
}

#[test]
fn groups_of_others_stay_only_where_they_are_to() {
    let mut scene = Scene::new();
    let sends_nothing = policy("x/q").selects("role=web").isolates(Direction::Egress);
    let snapshot = scene.written(&cluster([lets_in().into(), sends_nothing.into()]));
    scene.give_ports(&snapshot);
    // Neutron lets everything out by a group that it makes.
    let body = json!({"security_group": {"name": "theirs"}});
    scene.server.ask("POST", "security-groups", &body);
    let theirs = Value::from(scene.group("theirs"));
    let web = scene.port("x/web");
    let body = json!({"port": {"security_groups": [&theirs]}});
    scene.server.ask("PUT", &format!("ports/{web}"), &body);
    scene.neutron.foreign_groups = ForeignGroups::Refuse;
    scene.sync().unwrap();
    let with = groups(&scene, &web);
    assert!(with.len() > 1 && with.contains(&theirs), "{with:?}");
    assert!(!scene.verified(&snapshot).is_proof());
    scene.neutron.foreign_groups = ForeignGroups::Remove;
    scene.sync().unwrap();
    let without = groups(&scene, &web);
    assert!(!without.is_empty() && !without.contains(&theirs), "{without:?}");
    scene.expect(&snapshot);
}

#[test]
fn two_clusters_of_one_project_leave_each_other_alone() {
    let scene = Scene::new();
    let other = scene.beside("other");
    let ours = cluster([lets_in().into()]);
    let theirs: Vec<Object> = vec![
        namespace("z").into(),
        pod("z/a").label("role", "db").ip("10.0.2.1").into(),
        pod("z/b").label("role", "web").ip("10.0.2.2").into(),
        policy("z/p")
            .selects("role=db")
            .ingress(accept().peer(pods_in("z", "role=web")))
            .into(),
    ];
    let all = cluster(theirs.iter().cloned());
    let theirs = other.written(&theirs.into_iter().collect());
    scene.give_ports(&all);
    let ours = scene.written(&ours);
    for scene in [&scene, &other] {
        assert!(!scene.sync().unwrap().steps.is_empty());
    }
    let are_proved = |ours: &Snapshot| {
        for (scene, snapshot) in [(&scene, ours), (&other, &theirs)] {
            assert_eq!(scene.sync().unwrap().steps, Vec::<String>::new());
            assert!(scene.verified(snapshot).is_proof());
        }
    };
    are_proved(&ours);
    let ours = scene.written(&cluster([]));
    assert!(!scene.sync().unwrap().steps.is_empty());
    are_proved(&ours);
    let left = scene.server.list("security-groups");
    let names = left.iter().map(|group| group["name"].as_str().unwrap());
    assert!(
        names.clone().any(|name| name.starts_with("other/policy/z/p")),
        "{left:?}"
    );
}
