//! Help, completions, manual pages, pipes and colour.

use std::process::{Command, Stdio};

use crate::{run, shop};

#[test]
fn help_teaches_by_example() {
    let manifests = shop();
    for command in ["check", "eval", "explain", "matrix", "render", "test", "verify"] {
        let ran = run(manifests.path(), &[command, "--help"], "");
        let taught = ran.stdout.contains(&format!("Examples:\n  picket {command} -f"));
        assert!(
            ran.status == 0 && taught && ran.stdout.contains("Exit status:"),
            "{}",
            ran.stdout
        );
    }
    let ran = run(manifests.path(), &["diff", "--help"], "");
    assert!(
        ran.stdout.contains("Examples:\n  picket diff before/ after/"),
        "{}",
        ran.stdout
    );
}

#[test]
fn completions_and_manual_pages_are_generated() {
    let manifests = shop();
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(manifests.path(), &["completions", shell], "");
        assert!(ran.status == 0 && ran.stdout.contains("matrix"), "{shell}");
    }
    assert!(
        run(manifests.path(), &["man"], "")
            .stdout
            .contains(".TH picket 1")
    );
    assert_eq!(
        run(manifests.path(), &["man", "--directory", "man"], "").status,
        0
    );
    for page in ["picket.1", "picket-eval.1", "picket-lab.1"] {
        assert!(manifests.path().join("man").join(page).exists(), "{page}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let manifests = shop();
    let mut child = Command::new(env!("CARGO_BIN_EXE_picket"))
        .args(["matrix", "-f", ".", "-o", "json"])
        .current_dir(manifests.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    let manifests = shop();
    std::fs::write(manifests.path().join("bad.yaml"), "metadata: {name: x}\n").unwrap();
    for (arguments, colour) in [
        (vec![], false),
        (vec!["--color", "always"], true),
        (vec!["--color", "never"], false),
    ] {
        let ran = manifests.picket("check", &arguments);
        assert_eq!(ran.stdout.contains('\u{1b}'), colour, "{arguments:?}");
    }
}
