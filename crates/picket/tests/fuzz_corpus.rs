//! Replays the corpora of the fuzz targets that need more than picket-policy.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failure must name the input"
)]

#[path = "../../../fuzz/checks_whole.rs"]
mod checks;
#[path = "../../../fuzz/checks_etcd.rs"]
mod checks_etcd;
#[path = "../../../fuzz/checks_node.rs"]
mod checks_node;

use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut replayed = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check(&std::fs::read(path).unwrap());
        replayed += 1;
    }
    assert!(replayed > 1, "{} has too few inputs", folder.display());
}

#[test]
fn clusters() {
    replay("cluster", checks::cluster);
    replay("document", checks::cluster);
    replay("network_policy", checks::cluster);
}

#[test]
fn questions() {
    replay("questions", checks::questions);
}

#[test]
fn listings() {
    replay("listing", checks::listing);
}

#[test]
fn rulesets() {
    replay("ruleset", checks::ruleset);
    replay("listing", checks::ruleset);
}

#[test]
fn objects_of_the_kernel() {
    replay("kernel_objects", checks::kernel_objects);
}

#[test]
fn assertions() {
    replay("assertions", checks::assertions);
}

#[test]
fn expectations() {
    replay("expectations", checks::expectations);
}

#[test]
fn custom_rules() {
    replay("custom_rules", checks::custom_rules);
}

#[test]
fn networks() {
    replay("networks", checks::networks);
}

#[test]
fn connections_that_are_tracked() {
    replay("connections", checks_node::connections);
}

#[test]
fn packets_that_were_logged() {
    replay("logged_packets", checks_node::logged_packets);
}

#[test]
fn places_of_sandboxes() {
    replay("sandbox_places", checks_node::sandbox_places);
}

#[test]
fn records_in_etcd() {
    replay("etcd_records", checks_etcd::etcd_records);
}

#[test]
fn plugins_of_networks() {
    replay("network_plugins", checks_node::network_plugins);
}
