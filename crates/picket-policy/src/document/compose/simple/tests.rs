use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::document::{self, compose};

fn source(text: &str) -> Source {
    Source::decode(&Arc::from("a.yaml"), text.as_bytes()).unwrap()
}

/// What this reads of each document, after comparing it with what the parser reads.
fn compared(text: &str) -> Vec<Option<Node>> {
    let source = source(text);
    let read = |chunk: Range<usize>| {
        let simple = read(&source, chunk.clone())?;
        let mut diagnostics = Vec::new();
        let roots = compose::parse(&source, chunk, &mut diagnostics);
        assert_eq!(diagnostics, [], "{text:?}");
        assert_eq!(roots.len(), 1, "{text:?}");
        assert_eq!(roots[0].node, simple, "{text:?}");
        assert!(roots[0].broken.is_empty() && !roots[0].is_list, "{text:?}");
        Some(simple)
    };
    document::chunks(&source).into_iter().map(read).collect()
}

#[test]
fn what_tools_write_is_read_as_the_parser_reads_it() {
    for text in [
        "a: 1",
        "---\na: 1\n",
        "---  \n\n# c\n  a: 1\n  # d\n  b: x  \n\n",
        "a:\n  b: {}\n  c: []\nd: \"\"\n",
        "a:\n- b\n- c: 1\n  d: [] \ne: ''\n",
        "a:\n  - b: \"1\"\n    c:\n      - - x\n        - y\n  -   d: 'q #: '\nz: 2\n",
        "- a: null\n- b:   no\n  c: 0x1f\n",
        "a: http://x:80/#y\nb: x y\nc: 10.0.0.0/8\nd: a,b[]{}\n",
        "app.kubernetes.io/name: 2001-01-01T00:00:00Z\n",
    ] {
        assert!(compared(text).iter().all(Option::is_some), "{text:?}");
    }
}

#[test]
fn what_is_not_simple_is_left_to_the_parser() {
    for text in [
        "",
        "a",
        "a:",
        "a:\nb: 1",
        "a: b: c",
        "a: b:",
        "a: b #c",
        "a: b\n  c",
        "a: 1\n b: 2",
        "a:\n  b: 1\n c: 1",
        "a: |\n  b",
        "a: &x b",
        "a: *x",
        "a: !!str b",
        "a: [b]",
        "a: {b: c}",
        "a: \"\\n\"",
        "a: 'b''c'",
        "a: \"b\" c",
        "a: 'b\n  c'",
        "a: 1\na: 2",
        "<<: {}",
        "y: 1",
        "1: a",
        "\"a\": 1",
        "? a",
        "a: -",
        "a: - b",
        "- a\nb: 1",
        "a:\n  - b\n  c: 1",
        "a:\n- b\n - c",
        "- a\n  b",
        "-\n  a: 1",
        "-a: 1",
        "a: \u{e9}",
        "a:\t1",
        "a: 1\r\n",
        "a: 1\n...\n",
        "--- a: 1",
        "%YAML 1.2\n---\na: 1",
        "a: ~",
        "a: .nan",
        "- - a\n  b",
        "-   a: 1\n  b: 2",
        "a: @b",
        "a: `b`",
        "a: %b",
        "a: \"b",
    ] {
        assert!(compared(text).iter().all(Option::is_none), "{text:?}");
    }
}

#[test]
fn what_is_too_deep_too_long_or_too_much_is_left_to_the_parser() {
    let keys = |count| (0..count).map(|at| format!("k{at}: 1\n")).collect::<String>();
    let deep = |count| "- ".repeat(count) + "a";
    let long = |length| format!("{}: 1", "k".repeat(length));
    for (fits, does_not) in [
        (keys(MAX_KEYS), keys(MAX_KEYS + 1)),
        (deep(MAX_DEPTH), deep(MAX_DEPTH + 1)),
        (long(MAX_KEY_LENGTH), long(MAX_KEY_LENGTH + 1)),
    ] {
        assert!(compared(&fits)[0].is_some(), "{fits}");
        assert!(compared(&does_not)[0].is_none(), "{does_not}");
    }
}

/// Lines that are often simple, and sometimes hold what is not.
fn text() -> impl Strategy<Value = String> {
    let pick = |texts: &[&'static str]| prop::sample::select(texts.to_vec());
    let mixed =
        move |simple: &[&'static str], odd: &[&'static str]| prop_oneof![20 => pick(simple), 1 => pick(odd)];
    let indent = pick(&["", "", "", "  ", "  ", "    ", "- ", "- ", "  - ", " ", "- - "]);
    let key = mixed(
        &["a: ", "b: ", "c: ", "d:", "e:", "f.g/h: ", ""],
        &["y: ", "a:b: ", "k :", "1: ", "? ", "<<: "],
    );
    let value = mixed(
        &[
            "", "1", "x", "\"q\"", "'q'", "{}", "[]", "null", "x y", "x:y", "x#y", "0x1", "1.5", "on", "  z",
        ],
        &[
            "x #y", "x: y", "x:", "#", "- ", "-", "---", "\"", "'", "\\", "|", "&a", "*a", "!t", "?", "~",
            "%", "@", "`", "[x]", "{x: y}", "\t", "\r", "\u{e9}", ", ", "...", "\"\\n\"", "a''b", "\u{feff}",
            "\u{85}",
        ],
    );
    let end = mixed(&["\n"], &[" \n", "\n\n", "\n#c\n", "\n  #c\n", ""]);
    let line = (indent, key, value, end);
    let line = line.prop_map(|(indent, key, value, end)| [indent, key, value, end].concat());
    prop::collection::vec(line, 1..7).prop_map(|lines| lines.concat())
}

/// What takes the place of a part of a manifest.
fn damage() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "", "", " ", "  ", "\n", "- ", ":", ": ", "#", " #", "\"", "'", "x", "1", "---\n", "{}", "\t",
        "\u{e9}",
    ])
}

/// A text without some of its bytes from a place on, and with others instead.
fn damaged(text: &str, at: Index, length: usize, insert: &str) -> String {
    let boundary = |at: usize| (at..text.len()).find(|at| text.is_char_boundary(*at));
    let start = boundary(at.index(text.len() + 1)).unwrap_or(text.len());
    let end = boundary(start + length).unwrap_or(text.len());
    [&text[..start], insert, &text[end..]].concat()
}

const MANIFEST: &str = "\
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: a
  labels:
    app.kubernetes.io/name: \"1\"
spec:
  podSelector: {}
  ingress:
  - from:
    - podSelector:
        matchLabels:
          app: 'b'
    - ipBlock:
        cidr: 10.0.0.0/8
        except:
          - 10.1.0.0/16
    ports:
    - port: 80
      protocol: TCP
  policyTypes:
  - Ingress
";

proptest! {
    #[test]
    fn texts_are_read_as_the_parser_reads_them_or_not_at_all(text in text()) {
        compared(&text);
    }

    #[test]
    fn damaged_manifests_are_read_as_the_parser_reads_them_or_not_at_all(
        places in prop::collection::vec((any::<Index>(), 0..12usize, damage()), 1..4)
    ) {
        let text = places.into_iter().fold(MANIFEST.to_owned(), |text, (at, length, insert)| {
            damaged(&text, at, length, insert)
        });
        compared(&text);
    }
}
