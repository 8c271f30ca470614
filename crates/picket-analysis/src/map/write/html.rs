//! One page for a browser.

use std::io::{self, Write};

use super::{Marks, WIDEST_GRID, differing, numbers, reached};
use crate::map::{Cell, EndpointKind, Group, Map};

const STYLE: &str = "\
body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color:#1c1e21;background:#fff}
table{border-collapse:collapse}
th,td{border:1px solid #d0d4d9;padding:.15rem .4rem;text-align:center;font-weight:400}
th.name{text-align:left;white-space:nowrap}
thead th{position:sticky;top:0;background:#f4f5f7}
td.all{background:#bfe5c8}td.some{background:#fff0b3}td.none{background:#f4c7c3}td.no{background:#eceef0}
summary{cursor:pointer}.grid{overflow:auto;max-height:80vh}ul{margin:.2rem 0}
@media(prefers-color-scheme:dark){body{background:#16181b;color:#e4e6ea}thead th{background:#24272c}
td.all{background:#1f5c31}td.some{background:#6b5600}td.none{background:#70231d}td.no{background:#24272c}
th,td{border-color:#3b4048}}";

pub(super) fn write(map: &Map<'_>, out: &mut impl Write) -> io::Result<()> {
    let groups = map.groups();
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Who can talk to whom</title>\n\
         <style>\n{STYLE}\n</style></head><body>\n<h1>Who can talk to whom</h1>\n\
         <p>{} endpoints in {} groups that behave alike.</p>\n",
        map.endpoints().len(),
        groups.len()
    )?;
    if groups.iter().any(|group| group.kind == EndpointKind::Node) {
        out.write_all(b"<p>A node and the pods on it reach each other whatever is said below.</p>\n")?;
    }
    if groups.len() <= WIDEST_GRID {
        grid(map, &groups, out)?;
    }
    out.write_all(b"<h2>Endpoints</h2>\n")?;
    for ((number, group), row) in (1..).zip(&groups).zip(map.cells(&groups)) {
        writeln!(out, "<details><summary>{number} {}</summary><ul>", title(group))?;
        for member in &group.members {
            let addresses = member.addresses.join(", ");
            writeln!(out, "<li>{}: {}</li>", escaped(&member.id), escaped(&addresses))?;
        }
        out.write_all(b"</ul>\n<p>May open connections to</p><ul>\n")?;
        for (meaning, to) in reached(&row) {
            writeln!(out, "<li>{}: {}</li>", numbers(&to), escaped(&meaning))?;
        }
        out.write_all(b"</ul></details>\n")?;
    }
    out.write_all(b"</body></html>\n")
}

fn grid(map: &Map<'_>, groups: &[Group<'_>], out: &mut impl Write) -> io::Result<()> {
    out.write_all(
        b"<p>Rows open connections, columns accept them.</p>\n<div class=\"grid\"><table><thead><tr><th></th>",
    )?;
    for number in 1..=groups.len() {
        write!(out, "<th>{number}</th>")?;
    }
    out.write_all(b"</tr></thead><tbody>\n")?;
    let mut marks = Marks::default();
    for ((number, group), row) in (1..).zip(groups).zip(map.cells(groups)) {
        write!(out, "<tr><th class=\"name\">{number} {}</th>", title(group))?;
        for (to, cell) in groups.iter().zip(&row) {
            let (class, meaning) = meaning(cell);
            let [from, to] = [group, to].map(|group| group.members.first().map_or("", |first| &first.id));
            write!(
                out,
                "<td class=\"{class}\" title=\"{} → {}: {}\">{}</td>",
                escaped(from),
                escaped(to),
                escaped(&meaning),
                escaped(&marks.mark(cell))
            )?;
        }
        out.write_all(b"</tr>\n")?;
    }
    out.write_all(b"</tbody></table></div>\n<h2>What the marks mean</h2>\n<ul>\n")?;
    out.write_all(b"<li><code>#</code> everything</li>\n<li><code>.</code> nothing</li>\n")?;
    for (mark, meaning) in &marks.meanings {
        writeln!(
            out,
            "<li><code>{}</code> {}</li>",
            escaped(mark),
            escaped(meaning)
        )?;
    }
    out.write_all(b"</ul>\n")
}

fn title(group: &Group<'_>) -> String {
    let first = group.members.first().map_or("", |first| &first.id);
    let rest = match group.members.len() {
        0 | 1 => String::new(),
        several => format!(" and {} more", several - 1),
    };
    format!("{}{rest} ({})", escaped(first), group.kind.as_str())
}

fn meaning(cell: &Cell) -> (&'static str, String) {
    match cell {
        Cell::NoPair => ("no", "no pair".to_owned()),
        Cell::Same(traffic) if traffic.is_all() => ("all", traffic.to_string()),
        Cell::Same(traffic) if traffic.is_empty() => ("none", traffic.to_string()),
        Cell::Same(traffic) => ("some", traffic.to_string()),
        Cell::Differ(four, six) => ("some", differing(four, six)),
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
