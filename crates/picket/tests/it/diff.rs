//! `picket diff` between directories and revisions.

use std::path::Path;
use std::process::Command;

use crate::{CLUSTER, Manifests, POLICIES, Ran, run, shop};

fn bare() -> Manifests {
    Manifests::new(&[("cluster.yaml", CLUSTER)])
}

fn diff(old: &Manifests, new: &Manifests, arguments: &[&str]) -> Ran {
    let sides = [old, new].map(|side| side.path().to_str().unwrap());
    run(old.path(), &[&["diff"], &sides[..], arguments].concat(), "")
}

#[test]
fn a_new_policy_is_the_cause_of_what_it_stops() {
    let (old, new) = (bare(), shop());
    let ran = diff(&old, &new, &[]);
    let place = new
        .path()
        .join("./policies.yaml")
        .display()
        .to_string()
        .replace("/./", "/");
    let head = format!("NetworkPolicy shop/db added ({place}:1)\n");
    assert!(ran.status == 0 && ran.stdout.starts_with(&head), "{}", ran.stdout);
    assert!(
        ran.stdout
            .contains("\n  narrowed  shop/web → shop/db: TCP 5432, before: everything\n"),
        "{}",
        ran.stdout
    );
    let removed = "\n  removed   n1, shop/agent, shop/Deployment/api";
    assert!(
        ran.stdout.contains(removed) || ran.stdout.contains("removed"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("connections changed: "), "{}", ran.stdout);
}

#[test]
fn the_exit_status_is_what_fail_on_asks() {
    let (old, new) = (bare(), shop());
    for (sides, fail_on, status) in [
        ([&old, &new], "added", 0),
        ([&old, &new], "removed", 1),
        ([&old, &new], "any", 1),
        ([&new, &old], "added", 1),
        ([&new, &old], "removed", 0),
        ([&new, &new], "any", 0),
    ] {
        let [one, other] = sides;
        assert_eq!(
            diff(one, other, &["--fail-on", fail_on]).status,
            status,
            "{fail_on}"
        );
    }
}

#[test]
fn what_means_the_same_is_no_difference() {
    let two = POLICIES.replace("  ingress:\n  - from:\n    - podSelector: {matchLabels: {app: web}}\n    ports:\n    - {port: sql}\n", "  ingress:\n");
    let first = POLICIES
        .split("  - from:\n    - ipBlock")
        .next()
        .unwrap()
        .replace("name: db", "name: web");
    let split = Manifests::new(&[("cluster.yaml", CLUSTER), ("a.yaml", &two), ("b.yaml", &first)]);
    let ran = diff(&shop(), &split, &[]);
    assert!(
        ran.stdout
            .contains("No difference: exactly the same may pass as before.\n"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("Without effect: NetworkPolicy shop/db changed"),
        "{}",
        ran.stdout
    );
    let markdown = diff(&shop(), &split, &["-o", "md"]).stdout;
    assert!(
        markdown.starts_with("### Connectivity\n\nNo difference:"),
        "{markdown}"
    );
}

#[test]
fn a_side_that_cannot_be_used_is_named() {
    let torn = Manifests::new(&[("cluster.yaml", CLUSTER), ("torn.yaml", "kind: [NetworkPolicy\n")]);
    let empty = Manifests::new(&[("readme.txt", "")]);
    for (old, new, said) in [
        (&torn, &shop(), "the old side cannot be compared: "),
        (&shop(), &torn, "the new side cannot be compared: "),
        (&shop(), &empty, "the new side: "),
        (&empty, &shop(), "the old side: "),
    ] {
        let ran = diff(old, new, &["-o", "json"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
    let ran = run(shop().path(), &["diff", "."], "");
    assert!(
        ran.status == 2 && ran.stderr.contains("name two sides to compare"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_comment_holds_tables() {
    let markdown = diff(&shop(), &bare(), &["-o", "md"]).stdout;
    assert!(
        markdown.contains("\n- `NetworkPolicy shop/db` removed ("),
        "{markdown}"
    );
    assert!(
        markdown.contains("\n| **widened** | `shop/web` | `shop/db` | TCP 5432 | everything |\n"),
        "{markdown}"
    );
}

fn git(directory: &Path, arguments: &[&str]) {
    let settings = [
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@example.com",
        "-c",
        "commit.gpgsign=false",
    ];
    let ran = Command::new("git")
        .args(settings)
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

/// A repository whose branch `main` has the cluster, and whose branch `change` adds the policies.
fn repository() -> Manifests {
    let manifests = Manifests::new(&[]);
    let at = manifests.path();
    let directory = at.join("mani fests");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("clustér.yaml"), CLUSTER).unwrap();
    std::fs::write(directory.join("notes.txt"), "kind: [").unwrap();
    git(at, &["init", "-q", "-b", "main"]);
    git(at, &["add", "."]);
    git(at, &["commit", "-q", "-m", "cluster"]);
    git(at, &["checkout", "-q", "-b", "change"]);
    std::fs::write(directory.join("policies.yaml"), POLICIES).unwrap();
    std::os::unix::fs::symlink("policies.yaml", directory.join("link.yaml")).unwrap();
    git(at, &["add", "."]);
    git(at, &["commit", "-q", "-m", "policies"]);
    git(at, &["checkout", "-q", "main"]);
    std::fs::write(at.join("later.yaml"), CLUSTER.replace("name: web", "name: later")).unwrap();
    git(at, &["add", "."]);
    git(at, &["commit", "-q", "-m", "later"]);
    manifests
}

#[test]
fn revisions_are_compared_without_checking_them_out() {
    let manifests = repository();
    let between =
        |range: &str, paths: &[&str]| run(manifests.path(), &[&["diff", "--git", range], paths].concat(), "");
    let ran = between("main..change", &["mani fests"]);
    assert!(
        ran.stdout
            .starts_with("NetworkPolicy shop/db added (change:mani fests/policies.yaml:1)\n"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    // A pull request does not take away what came to its base in the meantime.
    assert!(!between("main...change", &[]).stdout.contains("later"));
    assert!(between("main..change", &[]).stdout.contains("shop/later is gone"));
    assert!(between("change..", &[]).stdout.contains("shop/later is new"));
    for (range, paths, said) in [
        (
            "main",
            vec![],
            "`main` is no range of revisions: write `OLD..NEW`",
        ),
        ("main..nowhere", vec![], "git knows no revision `nowhere` here"),
        ("main..--all", vec![], "git knows no revision `--all` here"),
        (
            "main..change",
            vec!["none"],
            "`none` holds no manifests, neither in `main` nor in `change`",
        ),
    ] {
        let ran = between(range, &paths);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{range}");
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}
