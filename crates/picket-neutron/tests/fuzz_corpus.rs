//! Replays the corpora of the fuzz targets.

#[path = "../../../fuzz/checks_neutron.rs"]
mod checks;

use std::path::Path;

#[test]
fn answers() {
    replay("neutron_answers", checks::neutron_answers);
}

/// Each input of the corpus with each byte changed, and cut there.
#[test]
fn damaged_answers() {
    replay("neutron_answers", |bytes| {
        for at in 0..bytes.len() {
            checks::neutron_answers(bytes.get(..at).unwrap_or_default());
            let mut damaged = bytes.to_vec();
            for byte in [b'"', b'0', b'-', b'{', b']', b'/', 0xff] {
                damaged.iter_mut().skip(at).take(1).for_each(|old| *old = byte);
                checks::neutron_answers(&damaged);
            }
        }
    });
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
