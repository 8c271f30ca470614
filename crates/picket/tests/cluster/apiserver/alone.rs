//! picket as it is in its image: statically linked, with nothing else in its root.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use picket_linux::NetworkNamespace;
use picket_testing::ran::Ran;
use tempfile::TempDir;

/// Where `cargo xtask static` has put it.
fn program() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_picket")).with_file_name("static");
    let path = env::var_os("PICKET_STATIC").map_or_else(|| built.join("picket"), PathBuf::from);
    assert!(
        path.is_file(),
        "no {}: run `cargo xtask static` first",
        path.display()
    );
    path
}

/// A folder with the program and nothing else, but for what a runtime mounts.
fn root() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("usr/bin")).unwrap();
    fs::create_dir(root.path().join("proc")).unwrap();
    fs::copy(program(), root.path().join("usr/bin/picket")).unwrap();
    root
}

/// Runs it where that folder is everything there is.
fn run(root: &TempDir, inside: &NetworkNamespace, arguments: &[&str]) -> Ran {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--mount-proc", "--root"])
        .arg(root.path())
        .arg("/usr/bin/picket")
        .args(arguments)
        .env_clear()
        // Where `unshare` itself is found.
        .env("PATH", "/usr/sbin:/usr/bin");
    inside.run(|| command.output()).unwrap().unwrap().into()
}

#[test]
fn it_needs_no_other_file() {
    let root = root();
    let inside = NetworkNamespace::create().unwrap();
    let help = run(&root, &inside, &["--help"]);
    assert_eq!(help.status, 0, "{}", help.stderr);
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    fs::create_dir(root.path().join("shop")).unwrap();
    for entry in fs::read_dir(shop).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), root.path().join("shop").join(entry.file_name())).unwrap();
    }
    let asked = ["matrix", "-f", "shop", "--by", "workload"];
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    let expected: Ran = command.args(asked).current_dir(here).output().unwrap().into();
    let matrix = run(&root, &inside, &asked);
    assert_eq!((matrix.status, matrix.stderr.as_str()), (0, ""));
    assert_eq!(matrix.stdout, expected.stdout);
}
