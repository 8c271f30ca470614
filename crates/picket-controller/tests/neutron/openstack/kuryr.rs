//! From Kuryr's groups to picket's, and back.

use std::collections::BTreeMap;

use picket_cluster::{Object, Snapshot};
use picket_net::Protocol;
use picket_testing::build::{accept, block, namespace, pod, pods_in, policy};
use serde_json::{Value, json};

use super::meant::{flows, passing};
use super::scene::Scene;

fn cluster() -> Snapshot {
    let lets_in = accept().peer(pods_in("x", "app=web")).port(Protocol::TCP, 80);
    let lets_out = accept().peer(block("10.9.0.0/16", &["10.9.1.0/24"]));
    let objects: Vec<Object> = vec![
        namespace("x").into(),
        pod("x/web").label("app", "web").ip("10.0.0.1").into(),
        pod("x/db").label("app", "db").ip("10.0.0.2").into(),
        pod("x/other").label("app", "other").ip("10.0.0.3").into(),
        policy("x/in").selects("app=db").ingress(lets_in).into(),
        policy("x/out").selects("app=db").egress(lets_out).into(),
    ];
    objects.into_iter().collect()
}

/// A rule as Kuryr writes it, towards a port.
fn rule(direction: &str, port: Option<u16>, prefix: Option<&str>) -> Value {
    json!({"direction": direction, "ethertype": "IPv4", "description": "Kuryr-Kubernetes NetPolicy SG rule",
        "protocol": port.map(|_| "tcp"), "port_range_min": port, "port_range_max": port, "remote_ip_prefix": prefix})
}

/// What Kuryr 10 has for this cluster: a group for each policy, in which what the policy does not isolate is open, and one that
/// lets everything pass for all other pods. The groups of each port by its name.
fn of_kuryr(scene: &Scene) -> BTreeMap<&'static str, Vec<String>> {
    let server = &scene.server;
    let group = |name: &str, rules: &[Value]| {
        let made = server.ask(
            "POST",
            "security-groups",
            &json!({"security_group": {"name": name}}),
        );
        let made = &made["security_group"];
        for rule in made["security_group_rules"].as_array().unwrap() {
            let path = format!("security-group-rules/{}", rule["id"].as_str().unwrap());
            server.ask("DELETE", &path, &Value::Null);
        }
        for rule in rules {
            let mut rule = rule.clone();
            rule["security_group_id"] = made["id"].clone();
            let body = json!({"security_group_rule": rule});
            server.ask("POST", "security-group-rules", &body);
        }
        made["id"].as_str().unwrap().to_owned()
    };
    let of_in = [
        rule("ingress", Some(80), Some("10.0.0.1")),
        rule("egress", None, None),
    ];
    let of_out = [
        rule("egress", None, Some("10.9.0.0/24")),
        rule("egress", None, Some("10.9.2.0/23")),
        rule("ingress", None, None),
    ];
    let all = [rule("egress", None, None), rule("ingress", None, None)];
    let isolated = vec![group("sg/x-in", &of_in), group("sg/x-out", &of_out)];
    let open = vec![group("allow-all", &all)];
    [("x/db", isolated), ("x/web", open.clone()), ("x/other", open)].into()
}

fn give(scene: &Scene, groups: &BTreeMap<&str, Vec<String>>) {
    for (name, groups) in groups {
        let path = format!("ports/{}", scene.port(name));
        let body = json!({"port": {"security_groups": groups}});
        scene.server.ask("PUT", &path, &body);
    }
}

#[test]
fn nothing_is_open_on_the_way_from_kuryr_and_its_groups_can_go() {
    let scene = Scene::new();
    let snapshot = scene.written(&cluster());
    scene.give_ports(&snapshot);
    let kuryr = of_kuryr(&scene);
    give(&scene, &kuryr);
    // Two policies of one pod isolate nothing there, which the proof shows before anything is changed.
    assert!(!scene.verified(&snapshot).is_proof());
    let flows = flows(&snapshot);
    let before = passing(&scene.objects(), &flows, &snapshot);
    let seen = scene.sync_seen(&flows, &snapshot).unwrap();
    scene.expect(&snapshot);
    let after = passing(&scene.objects(), &flows, &snapshot);
    assert!(after.is_subset(&before) && after != before);
    assert!(seen.moments.len() > 5, "{:?}", seen.steps);
    for (step, now) in &seen.moments {
        let open: Vec<_> = now
            .iter()
            .filter(|flow| !before.contains(flow) && !after.contains(flow))
            .collect();
        assert!(open.is_empty(), "after {step}: {open:?}");
        // What passes before and after passes all the while.
        assert!(after.is_subset(now), "after {step}");
    }
    // Nobody has them any more, and picket has left them.
    for id in kuryr.values().flatten() {
        assert!(
            !scene
                .objects()
                .ports
                .values()
                .any(|port| port.security_groups.contains(id.as_str()))
        );
    }
    for name in ["sg/x-in", "sg/x-out", "allow-all"] {
        let path = format!("security-groups/{}", scene.group(name));
        scene.server.ask("DELETE", &path, &Value::Null);
    }
    scene.expect(&snapshot);
}

#[test]
fn whoever_gives_ports_other_groups_can_delete_those_of_picket() {
    let scene = Scene::new();
    scene.goes_to(&cluster());
    assert!(!scene.server.list("address-groups").is_empty());
    let kuryr = of_kuryr(&scene);
    give(&scene, &kuryr);
    // As docs/neutron.md says it.
    for (kind, is_ours) in [("security-groups", "tags=picket"), ("address-groups", "")] {
        for one in scene.server.list(&format!("{kind}?{is_ours}")) {
            assert!(one["name"].as_str().unwrap().starts_with("picket/"), "{one}");
            let path = format!("{kind}/{}", one["id"].as_str().unwrap());
            scene.server.ask("DELETE", &path, &Value::Null);
        }
    }
    let left = scene.server.list("security-groups");
    let mut names: Vec<_> = left.iter().map(|group| group["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["allow-all", "default", "sg/x-in", "sg/x-out"]);
}
