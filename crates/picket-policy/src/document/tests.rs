use std::fmt::Write as _;
use std::sync::Arc;

use super::{Manifest, Node, Value, read};
use crate::{Code, Diagnostic, code};

fn parse(text: &str) -> (Vec<Manifest>, Vec<Diagnostic>) {
    read(&Arc::from("a.yaml"), text.as_bytes())
}

/// The tree as JSON-like text without places.
fn show(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => format!("{value}f"),
        Value::String(value) => format!("{value:?}"),
        Value::Sequence(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(",")),
        Value::Mapping(entries) => {
            let mut text = String::from("{");
            for (index, entry) in entries.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                write!(text, "{comma}{}:{}", entry.key, show(&entry.value)).unwrap();
            }
            text + "}"
        }
        Value::Unreadable => "?".to_owned(),
    }
}

fn codes(diagnostics: &[Diagnostic]) -> Vec<Code> {
    diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

/// What `x` is in an object that also has these lines.
fn x(lines: &str) -> (String, Vec<Code>) {
    let (manifests, diagnostics) = parse(&format!("kind: K\napiVersion: v1\n{lines}"));
    let shown = manifests
        .first()
        .and_then(|manifest| manifest.root().get("x"))
        .map(show);
    (shown.unwrap_or_default(), codes(&diagnostics))
}

#[test]
fn values_keys_aliases_and_merges_are_expanded() {
    for (lines, expected, expected_codes) in [
        ("x: [1, '1', a, null, true]", "[1,\"1\",\"a\",null,true]", vec![]),
        ("x:", "null", vec![]),
        ("x: {k: v, l: [1, 2]}", "{k:\"v\",l:[1,2]}", vec![]),
        ("x: |\n  a\n  b\n", "\"a\\nb\\n\"", vec![]),
        ("x: !!str 80", "\"80\"", vec![]),
        ("x: !!int '80'", "80", vec![]),
        ("x: !secret a", "?", vec![code::TAG]),
        ("x: !!set {a, b}", "?", vec![code::TAG]),
        ("x: !!int a", "?", vec![code::TAG]),
        ("a: &a [1, 2]\nx: [*a, *a]", "[[1,2],[1,2]]", vec![]),
        ("a: &a 1\nb: &a 2\nx: *a", "2", vec![]),
        ("x: *a", "?", vec![code::ALIAS]),
        ("x: &a [1, *a]", "[1,?]", vec![code::ALIAS]),
        ("x: &a {k: *a}", "{k:?}", vec![code::ALIAS]),
        ("a: &a {k: 1, l: 2}\nx: {<<: *a, k: 3}", "{k:3,l:2}", vec![]),
        (
            "a: &a {k: 1}\nb: &b {k: 2, l: 2}\nx: {<<: [*a, *b]}",
            "{k:1,l:2}",
            vec![],
        ),
        ("a: &a {k: 1}\nx: {k: 1, <<: *a}", "{k:1}", vec![]),
        ("a: &a {k: 1}\nx: {k: 2, <<: *a}", "{k:?}", vec![code::MERGE]),
        (
            "a: &a {k: 1}\nb: &b {k: 2}\nx:\n  <<: *a\n  <<: *b",
            "{k:?}",
            vec![code::MERGE],
        ),
        ("x: {<<: 1, k: 2}", "?", vec![code::MERGE]),
        ("x: {<<: *a, k: 2}", "?", vec![code::ALIAS]),
        ("x: {'<<': 1}", "{<<:1}", vec![]),
        ("x: {a: 1, b: 2, a: 1}", "{a:?,b:2}", vec![code::DUPLICATE_KEY]),
        ("x: {80: a, true: b}", "{80:\"a\",true:\"b\"}", vec![]),
        ("x: {on: a}", "{true:\"a\"}", vec![code::KEY_TYPE]),
        (
            "x: {on: a, true: b}",
            "{true:?}",
            vec![code::KEY_TYPE, code::DUPLICATE_KEY],
        ),
        ("x: {[a]: 1}", "?", vec![code::KEY_TYPE]),
        ("x: {1.5: 1}", "?", vec![code::KEY_TYPE]),
        ("x: {~: 1}", "?", vec![code::KEY_TYPE]),
    ] {
        assert_eq!(x(lines), (expected.to_owned(), expected_codes), "{lines}");
    }
}

#[test]
fn json_objects_in_one_line_do_not_cost_its_square() {
    let objects = 5_000;
    let (manifests, diagnostics) = parse(&"{\"kind\":\"K\",\"apiVersion\":\"v1\"} ".repeat(objects));
    assert_eq!((manifests.len(), codes(&diagnostics)), (objects, vec![]));
}

#[test]
fn json_is_read_like_yaml() {
    let text = "{\n\t\"kind\": \"K\",\r\n\t\"apiVersion\": \"v1\",\n\t\"x\": {\"a\": \"\\ud83d\\ude00\\/\", \"n\": -1.5e3, \"y\":null}}\n";
    let (manifests, diagnostics) = parse(&format!("{text}{text}\n{text}"));
    assert_eq!(codes(&diagnostics), []);
    assert_eq!(manifests.len(), 3);
    for manifest in &manifests {
        assert_eq!(
            show(manifest.root().get("x").unwrap()),
            "{a:\"😀/\",n:-1500,y:null}"
        );
    }
}

#[test]
fn one_bad_document_loses_no_other() {
    let good = "apiVersion: v1\nkind: K\n";
    for bad in [
        "a: [1, 2",
        "\tx: 1",
        "a: b: c",
        "a: 'x",
        "- a\nb: c",
        "}",
        "a:\n  b\n c: d",
        "%",
        "a: |\n x\n  y\n z",
    ] {
        let (manifests, diagnostics) = parse(&format!("{good}---\n{bad}\n---\n{good}---\n{good}"));
        assert_eq!(manifests.len(), 3, "{bad}: {diagnostics:?}");
        assert_eq!(diagnostics.len(), 1, "{bad}: {diagnostics:?}");
    }
}

/// The names of the objects, with `?` after those of which a part is missing.
fn kept(text: &str) -> (String, String) {
    let (manifests, diagnostics) = parse(text);
    let names = manifests.iter().map(|manifest| {
        let name = manifest
            .root()
            .get("metadata")
            .and_then(|metadata| metadata.get("name"));
        let name = name
            .and_then(|name| name.as_str())
            .map_or("", |name| name.as_str());
        format!("{name}{}", if manifest.is_broken() { "?" } else { "" })
    });
    let notes = diagnostics.iter().flat_map(|found| found.notes.clone());
    (
        names.collect::<Vec<_>>().join(" "),
        notes.collect::<Vec<_>>().join("; "),
    )
}

#[test]
fn a_broken_item_loses_no_other_of_its_list() {
    let item = |name: &str, rest: &str| {
        format!("- apiVersion: v1\n  kind: K\n  metadata: {{name: {name}}}\n  x: {rest}\n")
    };
    for (broken, expected, lines) in [
        (item("b", "'y"), "a b? c", "lines 7 to 10 are not read: K `b`"),
        (item("b", "[y"), "a b? c", "lines 7 to 10 are not read: K `b`"),
        (item("b", "y: z"), "a b? c", "lines 7 to 10 are not read: K `b`"),
        (
            item("b", "y\n z: 1"),
            "a b? c",
            "lines 7 to 11 are not read: K `b`",
        ),
        (item("b", "y\nz"), "a b? c", "lines 7 to 11 are not read: K `b`"),
        ("- {}}\n".to_owned(), "a c", "lines 7 to 7 are not read"),
    ] {
        for (head, tail) in [
            ("apiVersion: v1\nitems:\n", "kind: List\nmetadata: {}\n"),
            ("apiVersion: v1\nkind: List\nitems:\n", ""),
        ] {
            let text = [head, &item("a", "1"), &broken, &item("c", "1"), tail].concat();
            let lines = match tail {
                "" => lines
                    .replace('7', "8")
                    .replace("10", "x")
                    .replace("11", "12")
                    .replace('x', "11"),
                _ => lines.to_owned(),
            };
            assert_eq!(kept(&text), (expected.to_owned(), lines), "{text}");
        }
    }
}

#[test]
fn json_lists_keep_the_items_before_a_broken_one() {
    let item = |name: &str| {
        format!("{{\"kind\": \"K\", \"apiVersion\": \"v1\", \"metadata\": {{\"name\": \"{name}\"}}}}")
    };
    let (a, b, c) = (item("a"), item("b"), item("c"));
    for (items, expected) in [
        (format!("{a},\n{},\n{c}", b.replace("\"}}", "}}")), "a"),
        (format!("{a},\n{},\n{c}", b.replace("}}", "}")), "a"),
        (format!("{a},\n{b}, \"x\": 1}},\n{c}"), "a"),
        (format!("{a}\n{b},\n{c}"), ""),
    ] {
        let (names, notes) = kept(&format!(
            "{{\"items\": [\n{items}], \"kind\": \"List\", \"apiVersion\": \"v1\"}}"
        ));
        assert_eq!(names, expected, "{items}");
        assert!(
            notes.starts_with("lines ") && notes.contains(" are not read"),
            "{notes}"
        );
    }
}

#[test]
fn a_syntax_error_is_placed_in_the_file() {
    let (_, diagnostics) = parse("apiVersion: v1\nkind: é\n---\nü:\n\t- b\n");
    let span = &diagnostics[0].labels[0].span;
    assert_eq!(diagnostics[0].code, code::SYNTAX);
    assert_eq!((span.line, span.column), (5, 2), "{}", diagnostics[0].message);
}

#[test]
fn documents_that_are_no_objects_are_refused() {
    for (text, expected) in [
        ("", vec![]),
        ("# only a comment\n", vec![]),
        ("---\n---\n...\n", vec![]),
        ("just text", vec![code::NOT_AN_OBJECT]),
        ("[1]", vec![code::NOT_AN_OBJECT]),
        ("kind: K", vec![code::NO_KIND]),
        ("apiVersion: v1", vec![code::NO_KIND]),
        ("apiVersion: v1\nkind: ''", vec![code::NO_KIND]),
        ("apiVersion: 1\nkind: K", vec![code::NO_KIND]),
        (
            "apiVersion: v1\nkind: K\nkind: K",
            vec![code::DUPLICATE_KEY, code::NO_KIND],
        ),
    ] {
        let (manifests, diagnostics) = parse(text);
        assert!(manifests.is_empty(), "{text}");
        assert_eq!(codes(&diagnostics), expected, "{text}");
    }
}

#[test]
fn lists_are_taken_apart() {
    for (text, expected) in [
        (
            "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A}, {apiVersion: v2, kind: B}]}",
            "v1/A v2/B",
        ),
        (
            "{apiVersion: v1, kind: PodList, items: [{metadata: {}}, {kind: Pod}]}",
            "v1/Pod v1/Pod",
        ),
        (
            "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: PodList, items: [{}]}, {apiVersion: v1, kind: B}]}",
            "v1/Pod v1/B",
        ),
        ("{apiVersion: v1, kind: List, items: []}", ""),
        ("{apiVersion: v1, kind: List, items: null}", ""),
        ("{apiVersion: x/v1, kind: AllowList}", "x/v1/AllowList"),
    ] {
        let (manifests, diagnostics) = parse(text);
        let shown: Vec<_> = manifests
            .iter()
            .map(|m| format!("{}/{}", m.api_version(), m.kind()))
            .collect();
        assert_eq!(shown.join(" "), expected, "{text}");
        assert_eq!(codes(&diagnostics), [], "{text}");
    }
    let (manifests, diagnostics) =
        parse("{apiVersion: v1, kind: List, items: [{kind: A}, 3, {apiVersion: v1, kind: B}]}");
    assert_eq!(manifests.len(), 1);
    assert_eq!(codes(&diagnostics), [code::NO_KIND, code::NOT_AN_OBJECT]);
    let (_, diagnostics) = parse("{apiVersion: v1, kind: List, items: {a: b}}");
    assert_eq!(codes(&diagnostics), [code::NOT_AN_OBJECT]);
}

#[test]
fn places_are_exact_with_text_that_is_not_ascii() {
    let text = "\u{feff}# ünïcode\nkind: K\napiVersion: v1\r\nx:\n  - ключ: значение\n    \"ké\": 'ö ü'\n    z: |\n      é\n  - {ñ: [ø, 1]}\n";
    let (manifests, _) = parse(text);
    let manifest = &manifests[0];
    assert_eq!(manifest.position().line, 2);
    let at = |node: &Node| manifest.source().slice(node.range.clone()).to_owned();
    let x = manifest.root().get("x").unwrap();
    let first = &x.items()[0];
    assert_eq!(at(first.get("ключ").unwrap()), "значение");
    assert_eq!(at(first.get("ké").unwrap()), "'ö ü'");
    assert_eq!(at(first.get("z").unwrap()), "é");
    let key = &first.entries()[1].key_range;
    let span = manifest.source().span(key.clone());
    assert_eq!((span.line, span.column, span.end_column), (6, 5, 9));
    assert_eq!(manifest.source().slice(key.clone()), "\"ké\"");
    let flow = &x.items()[1];
    assert_eq!(at(flow), "{ñ: [ø, 1]}");
    assert_eq!(at(flow.get("ñ").unwrap()), "[ø, 1]");
    assert_eq!(at(&flow.get("ñ").unwrap().items()[0]), "ø");
    assert!(at(x).starts_with("- ключ") && at(x).ends_with("1]}"));
    assert!(at(first).starts_with("ключ: значение") && at(first).ends_with('é'));
}

#[test]
fn an_alias_has_its_own_place_and_its_parts_have_theirs() {
    let (manifests, _) = parse("kind: K\napiVersion: v1\na: &a {k: v}\nx: *a\n");
    let manifest = &manifests[0];
    let x = manifest.root().get("x").unwrap();
    assert_eq!(manifest.source().slice(x.range.clone()), "*a");
    assert_eq!(manifest.source().span(x.get("k").unwrap().range.clone()).line, 3);
}

#[test]
fn bombs_are_refused_in_bounded_time_and_memory() {
    let mut bomb = String::from("kind: K\napiVersion: v1\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..30 {
        let below = format!("*a{},", level - 1).repeat(10);
        writeln!(bomb, "a{level}: &a{level} [{below}]").unwrap();
    }
    let (manifests, diagnostics) = parse(&bomb);
    assert_eq!(manifests.len(), 1);
    assert!(codes(&diagnostics).iter().all(|&code| code == code::ALIAS) && !diagnostics.is_empty());

    let mut merges = String::from("kind: K\napiVersion: v1\na0: &a0 {k0: 1}\n");
    for level in 1..30 {
        let below = format!("*a{},", level - 1).repeat(10);
        writeln!(merges, "a{level}: &a{level} {{<<: [{below}], k{level}: 1}}").unwrap();
    }
    assert!(codes(&parse(&merges).1).contains(&code::ALIAS));

    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")] {
        for depth in [200, 100_000] {
            let (manifests, diagnostics) = parse(&format!("{}{}", open.repeat(depth), close.repeat(depth)));
            assert!(manifests.is_empty());
            assert!(!diagnostics.is_empty(), "{open}");
        }
    }

    let mut tower = String::from("kind: K\napiVersion: v1\n");
    let mut inner = "1".to_owned();
    for level in 0..10 {
        writeln!(
            tower,
            "a{level}: &a{level} {}{inner}{}",
            "[".repeat(50),
            "]".repeat(50)
        )
        .unwrap();
        inner = format!("*a{level}");
    }
    assert!(codes(&parse(&tower).1).contains(&code::ALIAS));
}

#[test]
fn keys_of_large_mappings_are_unique_too() {
    let entries =
        |range: std::ops::Range<usize>| range.map(|at| format!("k{at}: {at}, ")).collect::<String>();
    for count in [15, 16, 17, 18, 1_000] {
        let all = entries(0..count);
        assert_eq!(x(&format!("x: {{{all}}}")).1, []);
        for again in [0, count - 1] {
            let (shown, codes) = x(&format!("x: {{{all}k{again}: y}}"));
            assert_eq!(codes, [code::DUPLICATE_KEY], "{count}");
            assert!(shown.contains(&format!("k{again}:?")), "{shown}");
            let merged = x(&format!(
                "b: &b {{{all}}}\nx: {{<<: *b, {} k{again}: y}}",
                entries(0..again)
            ));
            assert_eq!(
                (merged.0, merged.1),
                (
                    x(&format!(
                        "x: {{{}}}",
                        all.replace(&format!("k{again}: {again},"), &format!("k{again}: y,"))
                    ))
                    .0,
                    vec![]
                )
            );
        }
    }
}

#[test]
fn long_input_is_read_whole() {
    let object = "- apiVersion: v1\n  kind: K\n  x: é\n";
    let text = format!("apiVersion: v1\nkind: List\nitems:\n{}", object.repeat(5_000));
    let (manifests, diagnostics) = parse(&text);
    assert_eq!((manifests.len(), diagnostics.len()), (5_000, 0));
    assert_eq!(manifests[4_999].position().line, 3 + 3 * 4_999 + 1);
    let (manifests, _) = parse(&format!(
        "apiVersion: v1\nkind: K\nx: {}\n",
        "y".repeat(1_000_000)
    ));
    assert_eq!(manifests.len(), 1);
}
