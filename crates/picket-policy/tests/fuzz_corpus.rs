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

/// libFuzzer takes a dictionary whole or not at all: a word in quotes a line, in which all that is not ASCII is escaped.
#[test]
fn dictionaries_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/dictionaries");
    let is_word = |line: &str| {
        let inner = line.strip_prefix('"').and_then(|line| line.strip_suffix('"'));
        let is_shown = |character: char| (' '..='~').contains(&character);
        inner.is_some_and(|inner| !inner.is_empty() && inner.chars().all(is_shown))
    };
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            assert!(is_word(line), "{}: {line}", path.display());
        }
    }
}
