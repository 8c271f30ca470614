//! `picket check --fix`.

use std::ops::Range;

use picket_cluster::Snapshot;
use picket_testing::generate::{Shape, snapshot};
use picket_testing::manifest::{self, Style};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::{Manifests, run};

const BROKEN: &str = "# Who may talk to the database.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db,   namespace: default}   # spaces stay
spec:
  podSelector: {}
  ingress:
  # only the web
  - form:   # a slip
    - podSelector: {}
    ports:

    - {prot: 5432}
    - port: 80
    - port: 81
    - port: 82
    - port: 83
    - port: 84
    - port: 85
    - {prt: 86}";

fn mended() -> String {
    BROKEN
        .replace("form:", "from:")
        .replace("prot:", "port:")
        .replace("prt:", "port:")
}

#[test]
fn fixes_change_nothing_but_what_is_wrong() {
    for (name, broken, mended) in [
        ("as written", BROKEN.to_owned(), mended()),
        (
            "CRLF",
            BROKEN.replace('\n', "\r\n"),
            mended().replace('\n', "\r\n"),
        ),
        (
            "a byte order mark",
            format!("\u{feff}{BROKEN}"),
            format!("\u{feff}{}", mended()),
        ),
    ] {
        let manifests = Manifests::new(&[("p.yaml", &broken), ("other.txt", "kept")]);
        let before = manifests.picket("check", &[]);
        assert_eq!(before.status, 1, "{name}: {}", before.stdout);
        let ran = manifests.picket("check", &["--fix", "--deny-warnings"]);
        assert_eq!(ran.status, 0, "{name}: {}", ran.stdout);
        assert!(
            ran.stdout.contains("0 errors, 0 warnings"),
            "{name}: {}",
            ran.stdout
        );
        assert_eq!(ran.stderr, "made 3 fixes in 1 file\n", "{name}");
        let text = std::fs::read_to_string(manifests.path().join("p.yaml")).unwrap();
        assert_eq!(text, mended, "{name}");
        assert_eq!(std::fs::read_dir(manifests.path()).unwrap().count(), 2);
        let again = manifests.picket("check", &["--fix"]);
        assert_eq!(
            (again.status, again.stderr.as_str()),
            (0, "made 0 fixes in 0 files\n")
        );
    }
}

#[test]
fn a_dry_run_shows_the_fixes_and_changes_nothing() {
    let manifests = Manifests::new(&[("p.yaml", BROKEN)]);
    let ran = manifests.picket("check", &["--fix", "--dry-run"]);
    let expected = "--- ./p.yaml
+++ ./p.yaml
@@ -6,14 +6,14 @@
   podSelector: {}
   ingress:
   # only the web
-  - form:   # a slip
-    - podSelector: {}
-    ports:
-
-    - {prot: 5432}
+  - from:   # a slip
+    - podSelector: {}
+    ports:
+
+    - {port: 5432}
     - port: 80
     - port: 81
     - port: 82
@@ -17,4 +17,4 @@
     - port: 83
     - port: 84
     - port: 85
-    - {prt: 86}
\\ No newline at end of file
+    - {port: 86}
\\ No newline at end of file
";
    // What lies between the changes belongs to both, when they are near each other.
    let lines = |text: &str| -> Vec<String> {
        let changed = text
            .lines()
            .filter(|line| line.starts_with(['-', '+']) && !line.ends_with("p.yaml"));
        changed.map(str::to_owned).collect()
    };
    assert!(
        ran.stdout.starts_with("--- ./p.yaml\n+++ ./p.yaml\n@@ -6,"),
        "{}",
        ran.stdout
    );
    for line in lines(expected) {
        assert!(ran.stdout.contains(&line), "{line}: {}", ran.stdout);
    }
    assert_eq!(
        (ran.status, ran.stderr.as_str()),
        (1, "3 fixes would be made in 1 file\n")
    );
    let text = std::fs::read_to_string(manifests.path().join("p.yaml")).unwrap();
    assert_eq!(text, BROKEN);
    std::fs::write(manifests.path().join("change.diff"), &ran.stdout).unwrap();
}

#[test]
fn what_needs_a_person_is_left_alone() {
    let text = BROKEN
        .replace("form:", "from:")
        .replace("prot:", "port:")
        .replace("{prt: 86}", "{port: http}");
    let text = text.replace(
        "podSelector: {}\n  ingress",
        "podSelector: {}\n  egress: [{ports: [{port: 53}]}]\n  ingress",
    );
    let manifests = Manifests::new(&[("p.yaml", &text)]);
    manifests.picket("check", &["--fix"]);
    assert_eq!(
        std::fs::read_to_string(manifests.path().join("p.yaml")).unwrap(),
        text
    );
}

#[test]
fn standard_input_is_never_fixed() {
    let directory = tempfile::tempdir().unwrap();
    let ran = run(directory.path(), &["check", "-f", "-", "--fix"], BROKEN);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("`--fix` cannot write to standard input"),
        "{}",
        ran.stderr
    );
}

#[cfg(unix)]
#[test]
fn permissions_and_links_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let manifests = Manifests::new(&[("real.txt", BROKEN)]);
    let real = manifests.path().join("real.txt");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.txt", manifests.path().join("link.yaml")).unwrap();
    let ran = run(manifests.path(), &["check", "-f", "link.yaml", "--fix"], "");
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    assert_eq!(std::fs::read_to_string(&real).unwrap(), mended());
    assert_eq!(
        std::fs::metadata(&real).unwrap().permissions().mode() & 0o777,
        0o640
    );
    assert!(manifests.path().join("link.yaml").is_symlink());
}

/// Fields and values, and slips of which nobody can doubt what was meant.
const SLIPS: [(&str, &str); 24] = [
    ("podSelector", "podSelecter"),
    ("namespaceSelector", "namespaceSelecter"),
    ("matchLabels", "matchLables"),
    ("matchExpressions", "matchExpresions"),
    ("operator", "operater"),
    ("values", "valeus"),
    ("policyTypes", "policytypes"),
    ("ingress", "ingres"),
    ("egress", "egres"),
    ("from", "form"),
    ("ipBlock", "ipBlok"),
    ("except", "excpet"),
    ("protocols", "protocls"),
    ("protocol", "protocl"),
    ("subject", "subjct"),
    ("priority", "prioirty"),
    ("action", "acton"),
    ("networks", "netwroks"),
    ("destinationPort", "destinationPrt"),
    ("domainNames", "domianNames"),
    ("Accept", "Acept"),
    ("Exists", "Exsits"),
    ("DoesNotExist", "DoesNotexist"),
    ("Egress", "Egres"),
];

/// Where a word stands by itself.
fn places(text: &str, word: &str) -> Vec<Range<usize>> {
    let part =
        |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    let found = text.match_indices(word).map(|(at, word)| at..at + word.len());
    let alone = |place: &Range<usize>| {
        let before = place.start.checked_sub(1).and_then(|at| text.as_bytes().get(at));
        !part(before.copied()) && !part(text.as_bytes().get(place.end).copied())
    };
    found.filter(alone).collect()
}

/// Every dialect, in every way to write it.
#[test]
fn a_slip_in_any_policy_is_mended_to_what_was_written() {
    let mut runner = TestRunner::deterministic();
    let clusters = snapshot(Shape::Dialects, 6);
    let mut mended = 0;
    for seed in 1..=90 {
        let mut style = Style::new(seed * 0x9e37_79b9);
        let mut policies = clusters.new_tree(&mut runner).unwrap().current().policies;
        policies.retain(|object, _| object.kind != "Namespace");
        let policies = Snapshot {
            policies,
            ..Snapshot::default()
        };
        let text = manifest::file(&policies, &mut style);
        let (word, slip) = SLIPS[style.below(SLIPS.len())];
        let places = places(&text, word);
        if places.is_empty() {
            continue;
        }
        let place = places[style.below(places.len())].clone();
        let mut broken = text.clone();
        broken.replace_range(place, slip);
        let manifests = Manifests::new(&[("p.yaml", &broken)]);
        let v1beta1 = ["--v1beta1", "proposal"];
        let ran = manifests.picket("check", &[&["--fix"], &v1beta1[..]].concat());
        let after = std::fs::read_to_string(manifests.path().join("p.yaml")).unwrap();
        assert_eq!(after, text, "{word}: {}\n{}", ran.stdout, ran.stderr);
        assert_eq!(
            (ran.status, ran.stderr.as_str()),
            (0, "made 1 fix in 1 file\n"),
            "{}",
            ran.stdout
        );
        mended += 1;
    }
    assert!(mended > 30, "{mended}");
}
