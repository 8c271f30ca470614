//! Which crate may use which: the layers of `ARCHITECTURE.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::assert_none;
use crate::tree::{METADATA, packages, read, text};

/// A crate, the crates of the workspace that it may use, and those that only its tests may use.
type Layer = (&'static str, &'static [&'static str], &'static [&'static str]);

/// From the ground up: every crate uses only crates above it in this list.
const LAYERS: [Layer; 18] = [
    ("picket-net", &[], &[]),
    ("picket-policy", &["picket-net"], &[]),
    (
        "picket-cluster",
        &["picket-net", "picket-policy"],
        &["picket-testing"],
    ),
    (
        "picket-source",
        &["picket-net", "picket-policy", "picket-cluster"],
        &[],
    ),
    (
        "picket-testing",
        &["picket-net", "picket-policy", "picket-cluster", "picket-source"],
        &[],
    ),
    (
        "picket-reference",
        &["picket-net", "picket-policy", "picket-cluster"],
        &["picket-testing"],
    ),
    (
        "picket-engine",
        &["picket-net", "picket-policy", "picket-cluster"],
        &["picket-reference", "picket-testing"],
    ),
    (
        "picket-dataplane",
        &["picket-net", "picket-policy", "picket-cluster", "picket-engine"],
        &[],
    ),
    (
        "picket-analysis",
        &[
            "picket-net",
            "picket-policy",
            "picket-cluster",
            "picket-reference",
            "picket-engine",
            "picket-dataplane",
        ],
        &["picket-source", "picket-testing"],
    ),
    // Its own tests have the feature `runtime`.
    ("picket-linux", &[], &["picket-testing", "picket-linux"]),
    (
        "picket-nftables",
        &[
            "picket-net",
            "picket-policy",
            "picket-cluster",
            "picket-engine",
            "picket-dataplane",
            // Only with the feature `client`.
            "picket-linux",
        ],
        // Its own tests have the feature.
        &["picket-reference", "picket-testing", "picket-nftables"],
    ),
    (
        "picket-vpp",
        &[
            "picket-net",
            "picket-policy",
            "picket-cluster",
            "picket-engine",
            "picket-dataplane",
        ],
        // Its own tests have the features `client` and `fake`.
        &["picket-reference", "picket-testing", "picket-vpp"],
    ),
    (
        "picket-neutron",
        &[
            "picket-net",
            "picket-policy",
            "picket-cluster",
            "picket-engine",
            "picket-dataplane",
        ],
        // Its own tests have the feature `client`.
        &["picket-reference", "picket-testing", "picket-neutron"],
    ),
    (
        "picket-lab",
        &[
            "picket-net",
            "picket-policy",
            "picket-cluster",
            "picket-engine",
            "picket-dataplane",
            "picket-analysis",
            "picket-nftables",
            "picket-linux",
        ],
        &["picket-testing", "picket-source"],
    ),
    (
        "picket-node",
        &[
            "picket-net",
            "picket-policy",
            "picket-cluster",
            "picket-source",
            "picket-engine",
            "picket-dataplane",
            "picket-analysis",
            "picket-nftables",
            "picket-vpp",
            "picket-linux",
        ],
        &["picket-testing"],
    ),
    (
        "picket-controller",
        &[
            "picket-policy",
            "picket-cluster",
            "picket-source",
            "picket-engine",
            "picket-neutron",
            "picket-node",
        ],
        &["picket-net", "picket-reference", "picket-testing"],
    ),
    (
        "picket",
        &[
            "picket-net",
            "picket-policy",
            "picket-cluster",
            "picket-reference",
            "picket-engine",
            "picket-dataplane",
            "picket-analysis",
            "picket-nftables",
            "picket-vpp",
            "picket-neutron",
            "picket-linux",
            "picket-source",
            "picket-lab",
            "picket-node",
            "picket-controller",
        ],
        &["picket-testing"],
    ),
    (
        "xtask",
        &[
            "picket",
            "picket-net",
            "picket-policy",
            "picket-cluster",
            "picket-dataplane",
            "picket-analysis",
            "picket-vpp",
            "picket-testing",
        ],
        &[],
    ),
];

#[test]
fn crates_use_only_the_layers_below() {
    let layers: BTreeMap<_, _> = LAYERS
        .iter()
        .map(|(name, uses, tests)| (*name, (*uses, *tests)))
        .collect();
    let mut findings = Vec::new();
    for package in packages(true) {
        let name = text(&package["name"]);
        let Some((uses, tests)) = layers.get(name) else {
            findings.push(format!("{name} is in no layer"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = text(&dependency["name"]);
            let in_workspace = dependency["source"].is_null();
            let allowed = uses.contains(&used) || dependency["kind"] == "dev" && tests.contains(&used);
            if in_workspace && !allowed {
                findings.push(format!("{name} uses {used}"));
            }
        }
    }
    assert_none(
        "dependencies that the layers do not have (xtask/tests/tidy/dependencies.rs)",
        &findings,
    );
}

#[test]
fn layers_are_in_order_and_all_there() {
    let members: BTreeSet<_> = packages(true).map(|package| text(&package["name"])).collect();
    let mut below = BTreeSet::new();
    for (name, uses, _) in LAYERS {
        assert!(members.contains(name), "{name} is a layer and no crate");
        assert!(
            uses.iter().all(|used| below.contains(used)),
            "{name} uses a layer that is not below it"
        );
        below.insert(name);
    }
}

#[test]
fn the_code_map_names_every_crate() {
    let map = read("ARCHITECTURE.md");
    let unnamed = packages(true)
        .map(|package| text(&package["name"]))
        .filter(|name| !map.contains(&format!("`{name}`")));
    let findings: Vec<_> = unnamed.map(str::to_owned).collect();
    assert_none("crates missing in ARCHITECTURE.md", &findings);
}

/// Each crate that is compiled for what these arguments of `cargo tree` select, with its features.
fn made_of(arguments: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--locked", "--prefix", "none", "--format", "{p} {f}"]);
    let listed = command.args(arguments).output().expect("cargo runs");
    assert!(
        listed.status.success(),
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let listed = String::from_utf8(listed.stdout).expect("text");
    let crates = listed.lines().map(|line| line.trim_end_matches(" (*)"));
    crates.map(|line| line.replace(" (proc-macro)", "")).collect()
}

#[test]
fn programs_are_made_of_what_tests_are_made_of() {
    let tests = made_of(&["--workspace", "--edges", "all"]);
    let xtask = ["--package", "picket", "--package", "xtask"];
    let alone = ["--package", "picket", "--features", "as-tests"];
    let programs =
        [xtask, alone].map(|chosen| made_of(&[&chosen[..], &["--edges", "normal,build"]].concat()));
    let others = programs.iter().flatten().filter(|one| !tests.contains(*one));
    // picket itself is linked once more.
    let others: Vec<_> = others
        .filter(|one| !one.ends_with(" as-tests"))
        .cloned()
        .collect();
    assert_none(
        "compiled once more for programs, with other features (xtask/Cargo.toml says how to avoid it)",
        &others,
    );
}

#[test]
fn everything_comes_from_the_public_registry() {
    let elsewhere = packages(false).filter(|package| {
        text(&package["source"]) != "registry+https://github.com/rust-lang/crates.io-index"
    });
    let findings: Vec<_> = elsewhere.map(|package| package["id"].to_string()).collect();
    assert_none("dependencies from elsewhere than crates.io", &findings);
}

#[test]
fn no_dependency_is_there_in_two_versions() {
    // `deny.toml` says why each of these is.
    let explained = read("deny.toml");
    let mut versions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for node in METADATA["resolve"]["nodes"].as_array().expect("nodes") {
        let package = packages(false).find(|package| package["id"] == node["id"]);
        if let Some(package) = package {
            versions
                .entry(text(&package["name"]))
                .or_default()
                .insert(text(&package["version"]));
        }
    }
    let twice = versions
        .iter()
        .filter(|(name, versions)| versions.len() > 1 && !explained.contains(&format!("crate = \"{name}@")));
    let findings: Vec<_> = twice
        .map(|(name, versions)| format!("{name}: {versions:?}"))
        .collect();
    assert_none(
        "use one version, or explain it in `[bans] skip` of deny.toml",
        &findings,
    );
}
