//! The licences of everything that picket is built from, against the list in `deny.toml`.

use crate::assert_none;
use crate::tree::{packages, read, text};

#[test]
fn licences_of_dependencies_are_allowed() {
    let allowed = allowed();
    let mut findings = Vec::new();
    for package in packages(false) {
        let licence = text(&package["license"]);
        if !Expression(licence).is_satisfied_by(&allowed) {
            findings.push(format!(
                "{} {}: `{licence}`",
                text(&package["name"]),
                text(&package["version"])
            ));
        }
    }
    assert_none("licences that deny.toml does not allow", &findings);
}

/// What `[licenses] allow` of `deny.toml` lists.
fn allowed() -> Vec<String> {
    let config = read("deny.toml");
    let (_, section) = config
        .split_once("[licenses]")
        .expect("deny.toml has a section `[licenses]`");
    let (_, list) = section
        .split_once("allow = [")
        .expect("`[licenses]` has a list `allow`");
    let (list, _) = list.split_once(']').expect("the list ends");
    let entries = list.lines().filter_map(|line| line.split('"').nth(1));
    entries.map(str::to_owned).collect()
}

/// An SPDX licence expression. `/` is how old packages write `OR`.
struct Expression<'a>(&'a str);

impl Expression<'_> {
    fn is_satisfied_by(&self, allowed: &[String]) -> bool {
        let spaced = self
            .0
            .replace('/', " OR ")
            .replace('(', " ( ")
            .replace(')', " ) ");
        let words: Vec<_> = spaced.split_whitespace().collect();
        let mut words = words.as_slice();
        let satisfied = either(&mut words, allowed);
        satisfied && words.is_empty()
    }
}

fn either(words: &mut &[&str], allowed: &[String]) -> bool {
    let mut satisfied = both(words, allowed);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        satisfied |= both(words, allowed);
    }
    satisfied
}

fn both(words: &mut &[&str], allowed: &[String]) -> bool {
    let mut satisfied = single(words, allowed);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        satisfied &= single(words, allowed);
    }
    satisfied
}

fn single(words: &mut &[&str], allowed: &[String]) -> bool {
    match words {
        ["(", rest @ ..] => {
            *words = rest;
            let satisfied = either(words, allowed);
            *words = words.strip_prefix(&[")"]).unwrap_or_default();
            satisfied
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            allowed.contains(&format!("{licence} WITH {exception}"))
        }
        [licence, rest @ ..] => {
            *words = rest;
            allowed.iter().any(|known| known == licence)
        }
        [] => false,
    }
}

#[test]
fn licence_expressions_are_read() {
    let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned);
    for (expression, satisfied) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND OpenSSL", false),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ("Apache-2.0 WITH LLVM-exception", false),
    ] {
        assert_eq!(
            Expression(expression).is_satisfied_by(&allowed),
            satisfied,
            "{expression}"
        );
    }
}
