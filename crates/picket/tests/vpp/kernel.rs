//! VPP beside nftables, in a network namespace: what goes wrong with one does not concern the other.

use std::process::Command;

use picket_linux::NetworkNamespace;

use crate::agent::Agent;
use crate::scene::{ACL, API, DB, Scene, WEB, WORLD, only_from};

fn has_table(namespace: &NetworkNamespace) -> bool {
    let listed = namespace.run(|| Command::new("nft").args(["list", "tables"]).output().unwrap());
    String::from_utf8(listed.unwrap().stdout)
        .unwrap()
        .contains("inet picket")
}

#[test]
fn no_target_waits_for_another() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    scene.vpp.down();
    let node = NetworkNamespace::create().unwrap();
    let both = [&["--target", "nftables"], &scene.arguments()[..]].concat();
    let agent = Agent::start_in(&node, scene.manifests(), &both);
    let status = agent.until("nftables", |status| {
        status.host.policies == ["NetworkPolicy shop/one"] && status.vpp[ACL].trouble.is_some()
    });
    assert_eq!(status.targets, ["nftables", ACL]);
    assert!(has_table(&node) && !status.ready && status.host.trouble.is_none());
    let text = agent.asked(&[]).stdout;
    assert!(
        text.contains("policies of the cluster network are in force"),
        "{text}"
    );
    scene.put(&only_from("two", "db", "api"));
    agent.until("the next policy", |status| {
        status.host.policies == ["NetworkPolicy shop/two"]
    });
    scene.vpp.up().unwrap();
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    agent.until("both", |status| status.ready);
    assert!(scene.reaches(API, DB) && !scene.reaches(WEB, DB));
}

#[test]
fn without_nftables_there_is_no_table() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let node = NetworkNamespace::create().unwrap();
    let agent = Agent::start_in(&node, scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert!(!has_table(&node) && !scene.reaches(WORLD, DB));
}

#[test]
fn vpp_goes_on_where_the_table_is_refused() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let node = NetworkNamespace::create().unwrap();
    // Another agent holds the table.
    let holder = Agent::start_in(&node, scene.manifests(), &[]);
    holder.until("the table", |status| status.ready);
    let more = [
        "--target",
        "nftables",
        "--until-synced",
        "allow",
        "--log-denied",
        "off",
    ];
    let agent = Agent::start_in(
        &node,
        scene.manifests(),
        &[&more, &scene.arguments()[..]].concat(),
    );
    let status = agent.until("trouble with nftables", |status| {
        status.host.trouble.is_some() && status.vpp[ACL].is_well()
    });
    assert_eq!(status.vpp[ACL].policies, ["NetworkPolicy shop/one"]);
    scene.put(&only_from("two", "db", "api"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    assert!(scene.reaches(API, DB) && !scene.reaches(WEB, DB));
}
