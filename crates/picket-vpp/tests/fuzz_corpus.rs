//! Replays the corpus of the fuzz target.

#[path = "../../../fuzz/checks_vpp.rs"]
mod checks;

use std::path::Path;

#[test]
fn messages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/vpp_messages");
    let mut replayed = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        checks::vpp_messages(&std::fs::read(path).unwrap());
        replayed += 1;
    }
    assert!(replayed > 1, "{} has too few inputs", folder.display());
}
