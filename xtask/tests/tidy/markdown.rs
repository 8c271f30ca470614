//! Links between pages lead somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::assert_none;
use crate::tree::{files_with, read, root};

#[test]
fn links_lead_somewhere() {
    let mut findings = Vec::new();
    for page in files_with("md") {
        for (line, target) in links(&read(&page)) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if path.is_empty() {
                page.clone()
            } else {
                resolve(&page, path)
            };
            let exists = root().join(&file).exists();
            let is_page = file.extension().is_some_and(|extension| extension == "md");
            if !exists || !anchor.is_empty() && is_page && !anchors(&read(&file)).contains(anchor) {
                findings.push(format!("{}:{line}: `{target}`", page.display()));
            }
        }
    }
    assert_none("links to nothing", &findings);
}

/// The file that a link on `page` names, without `..`.
fn resolve(page: &Path, link: &str) -> PathBuf {
    let mut path = page.with_file_name("");
    for part in Path::new(link).components() {
        match part {
            std::path::Component::ParentDir => {
                path.pop();
            }
            std::path::Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

/// The lines of a page that are prose, with their numbers: no code blocks, and inline code blanked.
fn prose(page: &str) -> impl Iterator<Item = (usize, String)> {
    let mut in_code = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        let visible: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        (!in_code).then_some((index + 1, visible))
    })
}

/// The targets of `[text](target)` and `![text](target)`, with their lines.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(page) {
        for part in line.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let headings = page.lines().filter(|line| {
        in_code ^= line.trim_start().starts_with("```");
        !in_code && line.starts_with('#')
    });
    let anchor = |heading: &str| -> String {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter })
            .collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_and_anchors_are_read() {
    let page = "# A `b` title: here\n[x](y.md#z) and `[no](link)`\n```\n[no](link)\n# no heading\n```\n![p](p.svg)\n";
    assert_eq!(links(page), [(2, "y.md#z".to_owned()), (7, "p.svg".to_owned())]);
    assert_eq!(anchors(page), BTreeSet::from(["a-b-title-here".to_owned()]));
}
