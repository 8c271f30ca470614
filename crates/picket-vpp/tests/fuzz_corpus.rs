//! Replays the corpora of the fuzz targets.

#[path = "../../../fuzz/checks_vpp.rs"]
mod checks;

use std::path::Path;

#[test]
fn messages() {
    replay("vpp_messages", checks::vpp_messages);
}

#[test]
fn lists() {
    replay("vpp_lists", checks::vpp_lists);
}

#[expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a failure here is one of the test, which says which input it was"
)]
fn replay(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = corpus.join(target);
    let mut replayed = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        check(&std::fs::read(path).unwrap());
        replayed += 1;
    }
    assert!(replayed > 1, "{} has too few inputs", folder.display());
}
