//! Nothing in the tree knows the machine it was written on.

use crate::assert_none;
use crate::tree::{files, root};

#[test]
fn no_file_names_a_place_on_one_machine() {
    // Put together here, so that this file does not name them.
    let places = [
        ["/wo", "rk/"],
        ["/ro", "ot/"],
        ["/ho", "me/"],
        ["../sha", "red/"],
        ["local", "host:"],
    ]
    .map(|halves| halves.concat());
    let mut findings = Vec::new();
    for path in files() {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else {
            continue;
        };
        for (index, line) in text.lines().enumerate() {
            findings.extend(
                places
                    .iter()
                    .filter(|place| line.contains(place.as_str()))
                    .map(|place| format!("{}:{}: `{place}`", path.display(), index + 1)),
            );
        }
    }
    assert_none(
        "write paths relative to the project, and hosts as documentation names",
        &findings,
    );
}

#[test]
fn no_file_redirects_the_registry() {
    let config = crate::tree::read(".cargo/config.toml");
    for section in ["[source", "[registr", "[net", "[http"] {
        assert!(
            !config.contains(section),
            ".cargo/config.toml: `{section}` belongs into the user's own configuration"
        );
    }
}

#[test]
fn ci_can_start() {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(root().join(".ci/run"))
        .expect(".ci/run is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0o111, "`.ci/run` is not executable");
}
