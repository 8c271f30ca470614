//! How long people wait for whole commands, reading manifests included: `cargo bench -p picket --bench commands`.
//!
//! Clusters of three sizes that `cargo xtask cluster` writes. Each command runs as its own process; each line is the best
//! and the worst of several runs, by the clock.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and fails at once"
)]

mod manifests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use manifests::write;

const RUNS: usize = 5;

/// Pods, namespaces and policies.
const SIZES: [[u32; 3]; 3] = [[100, 12, 250], [1000, 110, 2500], [5413, 604, 13_678]];

fn main() {
    let directory = tempfile::tempdir().unwrap();
    for [pods, namespaces, policies] in SIZES {
        let cluster = directory.path().join(pods.to_string());
        write(&cluster, [pods, namespaces, policies]);
        let changed = without_one_policy(&cluster);
        println!("{pods} pods, {namespaces} namespaces, {policies} policies");
        let (from, to) = ends(&cluster);
        let node = "--node=node-0";
        let shop = cluster.to_str().unwrap();
        let question = ["-f", shop, "--from", &from, "--to", &to, "--port", "8080"];
        let diff = [shop, changed.to_str().unwrap()];
        let commands: [(&str, Vec<&str>); 7] = [
            ("check", vec!["-f", shop, "-o", "json"]),
            ("eval", question.to_vec()),
            ("explain", question.to_vec()),
            ("matrix", vec!["-f", shop, "--by", "workload", "-o", "json"]),
            ("matrix", vec!["-f", shop, "--by", "workload", "-o", "html"]),
            ("diff", diff.to_vec()),
            ("verify", vec!["-f", shop, "--target", "nftables", node]),
        ];
        for (name, arguments) in commands {
            let options: Vec<_> = arguments
                .iter()
                .filter(|argument| !argument.contains('/'))
                .filter(|argument| !["-f", "--from", "--to"].contains(*argument))
                .copied()
                .collect();
            measure(&format!("picket {name} {}", options.join(" ")), name, &arguments);
        }
        println!();
    }
}

/// A copy of the manifests in which the policy in the middle is not there.
fn without_one_policy(directory: &Path) -> PathBuf {
    let changed = directory.with_extension("changed");
    fs::create_dir(&changed).unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let mut text = fs::read_to_string(entry.path()).unwrap();
        if entry.file_name().to_str().unwrap().contains("policies") {
            let mut documents: Vec<_> = text.split("\n---\n").collect();
            documents.remove(documents.len() / 2);
            text = documents.join("\n---\n");
        }
        fs::write(changed.join(entry.file_name()), text).unwrap();
    }
    changed
}

/// Two pods that are far from each other in the file.
fn ends(directory: &Path) -> (String, String) {
    let mut pods = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_str().unwrap().contains("pods") {
            let text = fs::read_to_string(entry.path()).unwrap();
            for document in text.split("\n---\n") {
                let field = |key: &str| {
                    let line = document.lines().find_map(|line| line.strip_prefix(key)).unwrap();
                    line.trim().trim_matches('"').to_owned()
                };
                pods.push(format!("{}/{}", field("  namespace:"), field("  name:")));
            }
        }
    }
    let (third, last) = (pods.len() / 3, pods.len() - 1);
    (pods.swap_remove(last), pods.swap_remove(third))
}

/// Prints the times of several runs.
fn measure(shown: &str, name: &str, arguments: &[&str]) {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..RUNS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command
            .arg(name)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let start = Instant::now();
        let status = command.status().unwrap();
        times.push(start.elapsed());
        // 1 is an answer too.
        assert!(
            matches!(status.code(), Some(0 | 1)),
            "picket {name} {arguments:?}: {status}"
        );
    }
    times.sort();
    let (best, worst) = (times.first().unwrap(), times.last().unwrap());
    println!("  {shown:<52} {best:>9.1?} to {worst:>9.1?}");
}
