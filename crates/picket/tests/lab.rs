//! `picket lab` as people use it. These tests need root, nft and setpriv.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use tempfile::TempDir;

const CLUSTER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: c, image: x, ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: c, image: x, ports: [{containerPort: 5432}]}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]
";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("cluster.yaml"), CLUSTER).unwrap();
    folder
}

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_picket"))
        .arg("lab")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The name of a lab of this run, which ends with the test also when that fails.
struct Standing(String);

impl Standing {
    fn new(name: &str) -> Self {
        Self(format!("test-{name}-{}", std::process::id()))
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        lab(&["down", "--name", &self.0]);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(folder: &TempDir) -> String {
    folder.path().to_string_lossy().into_owned()
}

/// A command that stays in `shop/web` of the lab, with the standard output of everything inside; it has begun.
fn guest(name: &str) -> (Child, ChildStdout) {
    let mut guest = Command::new(env!("CARGO_BIN_EXE_picket"))
        .args([
            "lab",
            "exec",
            "--name",
            name,
            "shop/web",
            "--",
            "sh",
            "-c",
            "echo; exec sleep 1000",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = guest.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    (guest, stdout)
}

/// Whether any process is in the network namespace `net:[…]`.
fn is_inhabited(namespace: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read_link(process.path().join("ns/net")).ok())
        .any(|link| link == Path::new(namespace))
}

/// Whether everybody leaves it: a process closes its files a moment before it leaves its namespaces.
fn is_left(namespace: &str) -> bool {
    (0..100).any(|_| !is_inhabited(namespace))
}

#[test]
fn run_exits_by_what_the_wire_and_the_expectations_say() {
    let folder = folder();
    for (expectations, layout, status, words) in [
        (
            "allow shop/web -> shop/db 5432\ndeny * -> shop/db 80",
            "indexed",
            1,
            "1 of 2 expectations hold",
        ),
        (
            "allow shop/web -> shop/db 5432\ndeny shop/web -> shop/db",
            "documented",
            0,
            "2 of 2 expectations hold",
        ),
        ("allow shop/web to shop/db", "indexed", 2, ""),
    ] {
        let file = folder.path().join("expectations.txt");
        fs::write(&file, expectations).unwrap();
        let (folder, file) = (path(&folder), file.to_string_lossy().into_owned());
        let output = lab(&[
            "run",
            "-f",
            &folder,
            "--layout",
            layout,
            "--timeout",
            "0.4",
            &file,
        ]);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(
            output.status.code(),
            Some(status),
            "{expectations}\n{stdout}{stderr}"
        );
        assert!(stdout.contains(words), "{stdout}");
        assert_eq!(
            stdout.contains("the wire obeys the policies"),
            status != 2,
            "{stdout}"
        );
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn run_answers_machines_with_every_probe() {
    let folder = folder();
    let output = lab(&["run", "-f", &path(&folder), "-o", "json", "--timeout", "0.4"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = answer.get("results").unwrap().as_array().unwrap();
    assert_eq!(
        answer.get("probes").unwrap().as_u64().unwrap(),
        results.len() as u64
    );
    assert_eq!(answer.get("differences").unwrap(), 0);
    let denied = |result: &&serde_json::Value| result.get("observed").unwrap() == "deny";
    assert!(results.iter().any(|result| denied(&result)) && !results.iter().all(|result| denied(&result)));
}

#[test]
fn secondary_networks_are_probed_and_expected_by_name() {
    let storage = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/storage");
    let expectations = format!("{storage}/expectations.txt");
    for layout in ["indexed", "documented"] {
        let run = ["run", "-f", storage, "--layout", layout, "--timeout", "0.4"];
        let output = lab(&[&run[..], &[&expectations]].concat());
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{layout}\n{stdout}{stderr}");
        for part in [
            "Network infra/storage",
            "infra/array@port1 (port1)",
            "5 of 5 expectations hold",
        ] {
            assert!(stdout.contains(part), "{part}\n{stdout}");
        }
        let network = ["--network", "infra/storage", &expectations, "-o", "json"];
        let output = lab(&[&run[..], &network].concat());
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let all_name = |name: &str, key: &str| {
            let results = answer.get(name).and_then(|results| results.as_array()).unwrap();
            !results.is_empty()
                && results.iter().all(|result| {
                    result.get("kind").is_some_and(|kind| kind == "external") || result.get(key).is_some()
                })
        };
        assert!(all_name("results", "network"), "{answer:#}");
        assert_eq!(answer.get("expectations").unwrap().as_array().unwrap().len(), 4);
    }
    let output = lab(&["run", "-f", storage, "--network", "infra/disks"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error.contains("no pod of the lab is on the network `infra/disks`; there are `infra/storage`"),
        "{error}"
    );
}

#[test]
fn a_standing_lab_is_entered_and_changed_on_secondary_networks() {
    let (folder, standing) = (folder(), Standing::new("networks"));
    let name = standing.0.as_str();
    let storage = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/storage");
    for file in ["network.yaml", "pods.yaml", "policies.yaml"] {
        fs::copy(storage.join(file), folder.path().join(file)).unwrap();
    }
    fs::remove_file(folder.path().join("cluster.yaml")).unwrap();
    let up = lab(&["up", "-f", &path(&folder), "--name", name]);
    assert_eq!(up.status.code(), Some(0), "{}", text(&up.stderr));
    let status = text(&lab(&["status", "--name", name]).stdout);
    let line = "  port0 10.70.0.10 fd70::10 on network/infra/storage  port1 ";
    assert!(
        status.contains(line) && status.contains("  network/infra/storage/10.71.0.1"),
        "{status}"
    );
    // Without naming an interface: the source address says which.
    let read = "exec 3<>/dev/tcp/10.70.0.11/3260 && cat <&3";
    let inside = |place: &str| {
        let output = lab(&[
            "exec", "--name", name, place, "--", "timeout", "2", "bash", "-c", read,
        ]);
        text(&output.stdout)
    };
    assert_eq!(inside("network/infra/storage/10.71.0.1"), "infra/array@port1\n");

    let policies = fs::read_to_string(folder.path().join("policies.yaml")).unwrap();
    let changed = policies.replace("10.71.0.0/24", "10.72.0.0/24");
    fs::write(folder.path().join("policies.yaml"), changed).unwrap();
    let apply = text(&lab(&["apply", "-f", &path(&folder), "--name", name]).stdout);
    assert!(
        apply.contains("now allowed 10.72.0.1 -> infra/array@port0 (port0) 3260/TCP IPv4 on infra/storage\n"),
        "{apply}"
    );
    let probe = [
        "probe",
        "--name",
        name,
        "--timeout",
        "0.4",
        "--network",
        "infra/storage",
    ];
    let probe = lab(&probe);
    assert_eq!(probe.status.code(), Some(0), "{}", text(&probe.stdout));
    assert_eq!(inside("network/infra/storage/10.72.0.1"), "infra/array@port1\n");
}

#[test]
fn an_ordinary_user_needs_no_root() {
    let folder = folder();
    // The build folder may be closed to others.
    let program = folder.path().join("picket");
    fs::copy(env!("CARGO_BIN_EXE_picket"), &program).unwrap();
    let storage = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/storage/pods.yaml");
    fs::copy(storage, folder.path().join("storage.yaml")).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&program)
        .args(["lab", "run", "--timeout", "0.4", "-f"])
        .arg(folder.path().join("cluster.yaml"))
        .arg("-f")
        .arg(folder.path().join("storage.yaml"))
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn a_standing_lab_answers_changes_and_goes() {
    let (folder, standing) = (folder(), Standing::new("standing"));
    let name = standing.0.as_str();
    let up = lab(&["up", "-f", &path(&folder), "--name", name]);
    assert_eq!(up.status.code(), Some(0), "{}", text(&up.stderr));
    let again = lab(&["up", "-f", &path(&folder), "--name", name]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("already up"));

    assert!(text(&lab(&["status", "--name", name]).stdout).contains("shop/db"));
    assert_eq!(
        lab(&["exec", "--name", name, "shop/web", "--", "sh", "-c", "exit 7"])
            .status
            .code(),
        Some(7)
    );
    let nowhere = lab(&["exec", "--name", name, "shop/nobody", "--", "true"]);
    assert!(
        text(&nowhere.stderr).contains("has no `shop/nobody`; the nearest are `shop/db`, `shop/web`, `"),
        "{}",
        text(&nowhere.stderr)
    );

    fs::write(
        folder.path().join("cluster.yaml"),
        CLUSTER.replace("port: 5432}]}]\n", "port: 5433}]}]\n"),
    )
    .unwrap();
    let apply = text(&lab(&["apply", "-f", &path(&folder), "--name", name]).stdout);
    assert!(
        apply.contains("now denied  shop/web -> shop/db 5432/TCP IPv4\n"),
        "{apply}"
    );
    let probe = lab(&["probe", "--name", name, "--timeout", "0.4"]);
    assert_eq!(probe.status.code(), Some(0), "{}", text(&probe.stdout));

    assert_eq!(lab(&["down", "--name", name]).status.code(), Some(0));
    let gone = lab(&["status", "--name", name]);
    assert_eq!(gone.status.code(), Some(2));
    assert!(
        text(&gone.stderr).contains("no lab is called"),
        "{}",
        text(&gone.stderr)
    );
}

#[test]
fn custom_rules_are_expected_and_obeyed_and_read_again() {
    let (folder, standing) = (folder(), Standing::new("custom"));
    let name = standing.0.as_str();
    let rules = folder.path().join("ingress.txt");
    let write = |text: &str| fs::write(&rules, text).unwrap();
    let manifests = folder.path().join("cluster.yaml").to_string_lossy().into_owned();
    let file = rules.to_string_lossy().into_owned();
    let file = ["--layout", "documented", "--custom-v4-ingress-rule-file", &file];
    write("tcp dport 80 accept\ntcp dport 5432 reject\n");
    let run = lab(&[
        &["run", "-f", &manifests, "--timeout", "0.4", "-o", "json"],
        &file[..],
    ]
    .concat());
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let results = answer
        .get("results")
        .and_then(|results| results.as_array())
        .unwrap();
    let seen = |port: u16| {
        let keys = [("from", "shop/web"), ("to", "shop/db"), ("protocol", "TCP")];
        let is = |result: &&serde_json::Value| {
            result.get("port").is_some_and(|other| *other == port)
                && keys
                    .iter()
                    .all(|(key, value)| result.get(key).is_some_and(|other| other == value))
        };
        results
            .iter()
            .find(is)
            .and_then(|result| result.get("observed"))
            .unwrap()
    };
    assert_eq!(
        (seen(80).as_str(), seen(5432).as_str()),
        (Some("allow"), Some("refused"))
    );

    let up = lab(&[&["up", "-f", &manifests, "--name", name], &file[..]].concat());
    assert_eq!(up.status.code(), Some(0), "{}", text(&up.stderr));
    write("tcp dport 80 accept\n");
    let apply = text(&lab(&["apply", "-f", &manifests, "--name", name]).stdout);
    assert!(
        apply.contains("now allowed shop/web -> shop/db 5432/TCP IPv4\n"),
        "{apply}"
    );
    let probe = lab(&["probe", "--name", name, "--timeout", "0.4"]);
    assert_eq!(probe.status.code(), Some(0), "{}", text(&probe.stdout));
    write("tcp dport 80 open\n");
    let wrong = lab(&["apply", "-f", &manifests, "--name", name]);
    assert_eq!(wrong.status.code(), Some(2));
    let error = text(&wrong.stderr);
    assert!(
        error.contains("is no file of custom rules: line 1: `open` is no part"),
        "{error}"
    );
    let probe = lab(&["probe", "--name", name, "--timeout", "0.4"]);
    assert_eq!(probe.status.code(), Some(0), "{}", text(&probe.stdout));
}

#[test]
fn a_killed_keeper_leaves_nothing_and_a_killed_guest_leaves_the_lab() {
    let (folder, standing) = (folder(), Standing::new("killed"));
    let name = standing.0.as_str();
    assert_eq!(
        lab(&["up", "-f", &path(&folder), "--name", name]).status.code(),
        Some(0)
    );
    let status: serde_json::Value =
        serde_json::from_slice(&lab(&["status", "--name", name, "-o", "json"]).stdout).unwrap();
    let keeper = status.get("process").unwrap().to_string();
    let link = lab(&[
        "exec",
        "--name",
        name,
        "shop/web",
        "--",
        "readlink",
        "/proc/self/ns/net",
    ]);
    let namespace = text(&link.stdout).trim().to_owned();
    assert!(namespace.starts_with("net:["), "{}", text(&link.stderr));

    let (mut first, mut stdout) = guest(name);
    assert!(is_inhabited(&namespace));
    first.kill().unwrap();
    first.wait().unwrap();
    // The end of standard output is the end of the command that held it.
    stdout.read_to_end(&mut Vec::new()).unwrap();
    assert!(is_left(&namespace));
    assert_eq!(lab(&["status", "--name", name]).status.code(), Some(0));

    let (mut second, mut stdout) = guest(name);
    assert!(
        Command::new("kill")
            .args(["-9", &keeper])
            .status()
            .unwrap()
            .success()
    );
    assert!(!second.wait().unwrap().success());
    stdout.read_to_end(&mut Vec::new()).unwrap();
    let ended = Command::new("tail")
        .args([&format!("--pid={keeper}"), "-f", "/dev/null"])
        .status();
    assert!(ended.unwrap().success());
    assert!(is_left(&namespace));
    assert!(text(&lab(&["status", "--name", name]).stderr).contains("no lab is called"));
    // The name is free: no file or socket holds it.
    assert_eq!(
        lab(&["up", "-f", &path(&folder), "--name", name]).status.code(),
        Some(0)
    );
}

#[test]
fn a_file_that_cannot_be_parsed_builds_no_lab() {
    let folder = folder();
    fs::write(folder.path().join("broken.yaml"), "kind: [").unwrap();
    let output = lab(&["run", "-f", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("broken.yaml` cannot be parsed"), "{error}");
    assert!(output.stdout.is_empty());
}
