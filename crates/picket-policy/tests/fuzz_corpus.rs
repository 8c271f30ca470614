//! Replays the corpora of the fuzz targets.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure must name the input"
)]

#[path = "../../../fuzz/checks.rs"]
mod checks;

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
    assert!(replayed > 0, "{} has no inputs", folder.display());
}

#[test]
fn files_of_manifests() {
    replay("document", checks::document);
}

#[test]
fn policies() {
    replay("network_policy", checks::network_policy);
}

#[test]
fn prefixes() {
    replay("prefix", checks::prefix);
}

#[test]
fn files_of_hosts() {
    replay("hosts", checks::hosts);
}
