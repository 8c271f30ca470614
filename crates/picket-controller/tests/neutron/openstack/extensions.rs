//! What is done where Neutron lacks an extension. The real one has all of them: a proxy hides one.

use picket_cluster::{Object, Snapshot};
use picket_controller::ControllerError;
use picket_net::Protocol;
use picket_testing::build::{accept, block, namespace, pod, pods_in, policy};
use picket_testing::faults::Asked;
use serde_json::json;

use super::scene::Scene;

/// A policy about peers, and one about a block that takes several prefixes.
fn cluster(port: u16, more: Vec<Object>) -> Snapshot {
    let lets_in = accept()
        .peer(pods_in("x", "app=web"))
        .peer(block("10.0.0.0/8", &["10.0.0.0/24", "10.128.0.0/9"]))
        .port(Protocol::TCP, port);
    let objects: Vec<Object> = vec![
        namespace("x").into(),
        pod("x/web").label("app", "web").ip("10.0.0.1").into(),
        pod("x/db").label("app", "db").ip("10.0.0.2").into(),
        policy("x/db").selects("app=db").ingress(lets_in).into(),
    ];
    objects.into_iter().chain(more).collect()
}

/// Makes Neutron what two clusters say, one after the other, without an extension; what was asked of it.
#[track_caller]
fn enforced_without(alias: &str, fields: &[&str]) -> (Scene, Vec<Asked>) {
    let (scene, asked, _) = said_without(alias, fields);
    (scene, asked)
}

/// The same, and what was said besides.
#[track_caller]
fn said_without(alias: &str, fields: &[&str]) -> (Scene, Vec<Asked>, Vec<String>) {
    let scene = Scene::new();
    scene.proxy.hide_extension(alias, fields);
    let (mut asked, mut notes) = (Vec::new(), Vec::new());
    for port in [80, 81] {
        let snapshot = scene.written(&cluster(port, Vec::new()));
        scene.give_ports(&snapshot);
        notes = scene.sync().unwrap().notes;
        scene.expect(&snapshot);
        asked.extend(scene.proxy.asked());
        assert_eq!(scene.sync().unwrap().steps, Vec::<String>::new());
        asked.extend(scene.proxy.asked());
    }
    (scene, asked, notes)
}

#[test]
fn without_address_groups_each_prefix_has_rules_of_its_own() {
    // Either of them: groups of addresses are of no use where no rule can be about one.
    for alias in ["address-group", "security-groups-remote-address-group"] {
        let (scene, asked) = enforced_without(alias, &["remote_address_group_id"]);
        assert!(asked.iter().all(|one| !one.path.contains("address-groups")));
        assert!(scene.server.list("address-groups").is_empty());
        let group = scene.group("picket/policy/x/db/ingress");
        let rules = scene
            .server
            .list(&format!("security-group-rules?security_group_id={group}"));
        let prefixes = rules.iter().filter(|rule| rule["remote_ip_prefix"].is_string());
        assert_eq!(prefixes.count(), 15, "{rules:?}");
    }
    // Where they are there later, one group takes the place of the prefixes.
    let with = Scene::new();
    with.goes_to(&cluster(80, Vec::new()));
    assert_eq!(with.server.list("address-groups").len(), 1);
}

#[test]
fn without_revisions_ports_are_changed_on_no_condition() {
    let is_conditional = |one: &Asked| one.head.to_ascii_lowercase().contains("\r\nif-match:");
    let (_, asked) = enforced_without("standard-attr-revisions", &["revision_number"]);
    assert!(asked.iter().any(|one| one.method == "PUT"));
    assert!(!asked.iter().any(is_conditional));
    let (_, asked) = enforced_without("another", &[]);
    assert!(asked.iter().any(is_conditional));
}

#[test]
fn without_what_says_so_every_port_is_enforced_and_every_group_keeps_state() {
    for (alias, field) in [
        ("port-security", "port_security_enabled"),
        ("stateful-security-group", "stateful"),
        ("binding", "binding:vnic_type"),
        ("allowed-address-pairs", "allowed_address_pairs"),
    ] {
        let (_, _, notes) = said_without(alias, &[field]);
        let [note] = notes.as_slice() else {
            panic!("{notes:?}");
        };
        assert!(
            note.starts_with(&format!("Neutron has no extension `{alias}`: ")),
            "{note}"
        );
    }
    let (_, _, notes) = said_without("another", &[]);
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn without_details_of_quotas_nobody_asks_for_them() {
    let (scene, asked) = enforced_without("quota_details", &[]);
    assert!(asked.iter().all(|one| !one.path.contains("/quotas")));
    // One that is used up is noticed by the call that it forbids.
    let there = scene.server.list("security-groups").len();
    let quota = json!({"quota": {"security_group": there}});
    scene.server.ask("PUT", "quotas/fake_project_id", &quota);
    let more: Vec<Object> = vec![
        pod("x/other").label("app", "other").ip("10.0.0.3").into(),
        policy("x/other").selects("app=other").ingress(accept()).into(),
    ];
    let snapshot = scene.written(&cluster(81, more));
    scene.give_ports(&snapshot);
    let Err(ControllerError::Failed(failed)) = scene.sync() else {
        panic!("there is no quota");
    };
    assert!(
        failed
            .iter()
            .any(|line| line.contains("picket/policy/x/other/ingress") && line.contains("quota")),
        "{failed:?}"
    );
}

#[test]
fn without_groups_or_tags_nothing_is_changed_and_it_is_said_what_is_missing() {
    for alias in ["security-group", "standard-attr-tag"] {
        let scene = Scene::new();
        scene.proxy.hide_extension(alias, &[]);
        let snapshot = scene.written(&cluster(80, Vec::new()));
        scene.give_ports(&snapshot);
        let said = scene.sync().unwrap_err().to_string();
        assert!(
            said.contains(&format!("Neutron has no extension `{alias}`")),
            "{said}"
        );
        assert_eq!(scene.writes(), Vec::<String>::new());
    }
}
