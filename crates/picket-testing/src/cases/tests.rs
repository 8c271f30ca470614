use super::*;
use crate::build::pod;
use crate::snapshot;

const TEXT: &str = "\
# Title

```yaml
kind: Namespace
metadata: {name: x}
```

## First case

```yaml
kind: NetworkPolicy
metadata:
  name: deny
  namespace: x
  labels:
    name: other
---
kind: Pod
metadata: {name: a, namespace: x}
```

```verdicts TCP/80 UDP/53
     x/a x/b
x/a   -   X
x/b   .   -
```

```verdicts
deny 192.0.2.1 -> x/a : TCP/web ICMP
```

### The policy is gone

```delete
NetworkPolicy x/deny
```

```verdicts
allow x/a x/b -> x/c x/d : proto:47
```

## Second case

```verdicts TCP/80
    x/a
x/b  .
```
";

fn parsed(text: &str) -> Result<CaseFile, CaseError> {
    parse(&"cases.md".into(), text, Vec::new())
}

#[test]
fn steps_hold_all_objects_that_exist_then() {
    let file = parsed(TEXT).unwrap();
    let steps: Vec<_> = file
        .cases
        .iter()
        .flat_map(|case| &case.steps)
        .map(|step| {
            let objects: Vec<_> = step
                .manifests
                .iter()
                .map(|manifest| manifest.object.to_string())
                .collect();
            (step.title.as_str(), objects.join(", "), step.expectations.len())
        })
        .collect();
    assert_eq!(
        steps,
        [
            (
                "First case",
                "Namespace x, NetworkPolicy x/deny, Pod x/a".to_owned(),
                6
            ),
            ("The policy is gone", "Namespace x, Pod x/a".to_owned(), 4),
            ("Second case", "Namespace x".to_owned(), 1),
        ]
    );
}

#[test]
fn manifests_keep_their_lines() {
    let file = parsed(TEXT).unwrap();
    for manifest in &file.cases[0].steps[0].manifests {
        let line = usize::try_from(manifest.position.line).unwrap();
        let first = TEXT.lines().nth(line - 1);
        assert_eq!(manifest.in_place().lines().nth(line - 1), first);
        assert!(first.unwrap().starts_with("kind: "));
    }
}

#[test]
fn an_expectation_becomes_a_flow_for_each_family_and_number() {
    use picket_net::Protocol;
    let cluster = snapshot![
        pod("x/a").ip("10.0.0.1").ip("fd00::1"),
        pod("x/b")
            .ip("10.0.0.2")
            .ip("fd00::2")
            .port("web", Protocol::TCP, 80)
            .port("web", Protocol::TCP, 81),
        pod("x/c").ip("10.0.0.3"),
    ];
    for (line, count) in [
        ("allow x/a -> x/b : TCP/80", 2),
        ("allow x/a -> x/b : TCP/web", 4),
        ("allow x/a -> x/b : UDP/web", 0),
        ("allow x/a -> x/c : ICMP", 1),
        ("allow 192.0.2.1 -> x/b : TCP/80", 1),
        ("allow 10.0.0.1 -> x/b : TCP/80", 1),
        ("allow x/none -> x/b : TCP/80", 0),
    ] {
        let text = format!("## Case\n```verdicts\n{line}\n```\n");
        let file = parsed(&text).unwrap();
        let flows = file.cases[0].steps[0].expectations[0].flows(&cluster);
        assert_eq!(flows.len(), count, "{line}");
    }
}

#[test]
fn what_means_nothing_is_refused_with_its_line() {
    for (text, line, part) in [
        ("## C\n```verdicts\n```", 2, "must say something"),
        ("## C\n```verdicts\n x/a\nx/a .\n```", 2, "no list of probes"),
        (
            "## C\n```verdicts TCP/80\n x/a x/b\nx/a .\n```",
            4,
            "1 cells stand below 2",
        ),
        ("## C\n```verdicts TCP/80\n x/a\nx/a ?\n```", 4, "`?` is none of"),
        ("## C\n```verdicts\nx/a -> x/b\n```", 3, "is not `allow|deny"),
        (
            "## C\n```verdicts\nallow x/a -> x/b : TCQ/80\n```",
            3,
            "no list of probes",
        ),
        ("## C\n```delete\nPod x/a\n```", 3, "there is no Pod x/a"),
        (
            "## C\n```yaml\nkind: Pod\n```",
            3,
            "needs `kind` and `metadata.name`",
        ),
        ("```verdicts TCP/80\n x/a\nx/a .\n```", 1, "belong to a case"),
    ] {
        let message = parsed(text).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("cases.md:{line}: ")) && message.contains(part),
            "{message}"
        );
    }
}

#[test]
fn every_committed_case_can_be_read() {
    let cases = committed().unwrap();
    let from = |folder: &str| {
        let here = cases.iter().filter(|case| case.position.file.contains(folder));
        here.map(|case| case.steps.len()).collect::<Vec<_>>()
    };
    let (kubernetes, cyclonus) = (from("/k8s-e2e/"), from("/cyclonus/"));
    assert_eq!((kubernetes.len(), cyclonus.len()), (48, 58));
    assert!(cases.iter().all(|case| !case.steps.is_empty()));
    let expectations = cases
        .iter()
        .filter(|case| {
            ["/k8s-e2e/", "/cyclonus/"]
                .iter()
                .any(|folder| case.position.file.contains(folder))
        })
        .flat_map(|case| &case.steps)
        .map(|step| step.expectations.len());
    assert_eq!(expectations.sum::<usize>(), 29_702);
}
