//! Where a quota does not allow everything, everything else is in force.

use picket_cluster::{Object, Snapshot};
use picket_controller::ControllerError;
use picket_net::Protocol;
use picket_testing::build::{accept, namespace, pod, pods_in, policy};
use serde_json::json;

use super::meant::{flows, passing};
use super::scene::Scene;

/// As many policies, each about a pod of its own.
fn cluster(count: u8) -> Snapshot {
    let mut objects: Vec<Object> = vec![
        namespace("x").into(),
        pod("x/client").label("app", "client").ip("10.0.1.1").into(),
    ];
    for number in 1..=count {
        let app = format!("app={number}");
        let lets_in = accept()
            .peer(pods_in("x", "app=client"))
            .port(Protocol::TCP, u16::from(number));
        objects.push(
            pod(&format!("x/p{number}"))
                .label("app", &number.to_string())
                .ip(&format!("10.0.0.{number}"))
                .into(),
        );
        objects.push(
            policy(&format!("x/p{number}"))
                .selects(&app)
                .ingress(lets_in)
                .into(),
        );
    }
    objects.into_iter().collect()
}

#[test]
fn policies_that_fit_into_the_quota_are_in_force_and_the_others_are_named() {
    let scene = Scene::new();
    let allow = |count: i32| {
        let quota = json!({"quota": {"security_group": count}});
        scene.server.ask("PUT", "quotas/fake_project_id", &quota);
    };
    allow(10);
    let snapshot = scene.written(&cluster(12));
    scene.give_ports(&snapshot);
    let Err(ControllerError::Failed(failed)) = scene.sync() else {
        panic!("there is no quota");
    };
    assert!(failed.len() >= 5, "{failed:?}");
    for line in &failed {
        assert!(line.contains("group picket/") && line.contains("quota"), "{line}");
    }
    // By its group each policy is named that has none, and no other.
    let there = scene.server.list("security-groups");
    for number in 1..=12 {
        let group = format!("picket/policy/x/p{number}/ingress");
        let is_there = there.iter().any(|known| known["name"] == group.as_str());
        let is_named = failed.iter().any(|line| line.contains(&group));
        assert_eq!(is_named, !is_there, "{group}: {failed:?}");
    }
    // Less passes, never more, and what fits does.
    let flows = flows(&snapshot);
    let passing = passing(&scene.objects(), &flows, &snapshot);
    let semantics = picket_cluster::Semantics::default();
    for at in &passing {
        let judged = picket_reference::judge(&snapshot, &semantics, &flows[*at]);
        assert!(judged.verdict().is_allow(), "{:?}", flows[*at]);
    }
    assert!(!passing.is_empty());
    allow(-1);
    scene.sync().unwrap();
    scene.expect(&snapshot);
}
