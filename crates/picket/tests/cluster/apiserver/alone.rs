//! picket as it is in its image: statically linked, with nothing else in its root.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use picket_linux::NetworkNamespace;
use picket_testing::apiserver::Server;
use picket_testing::ran::Ran;
use picket_testing::signal::signal;
use tempfile::TempDir;

/// Where `cargo xtask static` has put it.
pub(crate) fn program() -> PathBuf {
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
    let mut command = command(root, arguments);
    inside.run(|| command.output()).unwrap().unwrap().into()
}

/// What runs it, and ends it when it has not ended for long.
fn command(root: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=1", "120", "unshare"])
        .args(["--mount", "--mount-proc", "--root"])
        .arg(root.path())
        .arg("/usr/bin/picket")
        .args(arguments)
        .env_clear()
        // Where `timeout` and `unshare` are found.
        .env("PATH", "/usr/sbin:/usr/bin");
    command
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

#[test]
fn a_server_whose_name_is_not_known_is_named_and_waited_for() {
    let root = root();
    let server = Server::start();
    let kubeconfig = fs::read_to_string(server.kubeconfig()).unwrap();
    fs::copy(server.authority(), root.path().join("ca.crt")).unwrap();
    let renamed = kubeconfig
        .replace(server.authority().to_str().unwrap(), "/ca.crt")
        .replace("https://127.0.0.1", "https://api.example.invalid");
    fs::write(root.path().join("kubeconfig"), renamed).unwrap();
    let inside = NetworkNamespace::create().unwrap();
    for extent in ["--dry-run", "--once"] {
        let arguments = [
            "agent",
            extent,
            "--kubeconfig",
            "/kubeconfig",
            "--hostname-override",
            "n",
        ];
        let mut command = command(&root, &arguments);
        let started = inside.run(|| command.stderr(Stdio::piped()).spawn());
        let mut child = started.unwrap().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let why = "the API server at https://api.example.invalid";
        assert!(lines.any(|line| line.contains(why)), "{extent}");
        signal(child.id(), "TERM");
        child.wait().unwrap();
    }
}
