//! Markdown for comments on a change.

use std::io::{self, Write};

use super::{NOTHING, cause, changed_policy, counted, names, passing};
use crate::diff::{Kind, Line, Only, Summary};

/// The most lines of one cause that are shown unfolded.
const UNFOLDED: usize = 20;

/// What changed, by cause, as a comment on a change: a sentence, a table per cause, long ones folded.
///
/// # Errors
/// When writing fails.
pub fn markdown(summary: &Summary<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "### Connectivity\n")?;
    if summary.groups.is_empty() {
        writeln!(out, "{NOTHING}")?;
    } else {
        writeln!(out, "**{}**", counted(summary.counts))?;
    }
    for group in &summary.groups {
        writeln!(out)?;
        for one in &group.causes {
            writeln!(out, "- {}", cause(one, &code))?;
        }
        writeln!(out)?;
        let folded = group.lines.len() > UNFOLDED;
        if folded {
            writeln!(out, "<details><summary>{} lines</summary>\n", group.lines.len())?;
        }
        table(&group.lines, out)?;
        if folded {
            writeln!(out, "\n</details>")?;
        }
    }
    let mut before = "\n";
    for (only, what) in [(Only::New, "New"), (Only::Old, "Gone")] {
        let own = summary.only.iter().filter(|(one, _)| *one == only);
        let own: Vec<_> = own.map(|(_, endpoint)| *endpoint).collect();
        if !own.is_empty() {
            writeln!(out, "{before}- {what}: {}", names(&own, code))?;
            before = "";
        }
    }
    for policy in &summary.without_effect {
        writeln!(out, "{before}- Without effect: {}", changed_policy(policy, &code))?;
        before = "";
    }
    Ok(())
}

fn table(lines: &[Line<'_>], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "| | from | to | before | now |\n|---|---|---|---|---|")?;
    for line in lines {
        let (from, to) = (names(&line.from, cell), names(&line.to, cell));
        let (old, new) = (passing(&line.old), passing(&line.new));
        let kind = match line.kind {
            Kind::Added | Kind::Widened => format!("**{}**", line.kind.as_str()),
            Kind::Removed | Kind::Narrowed | Kind::Replaced => line.kind.as_str().to_owned(),
        };
        writeln!(out, "| {kind} | {from} | {to} | {old} | {new} |")?;
    }
    Ok(())
}

/// A name as code.
fn code(text: &str) -> String {
    // Names from manifests may hold what closes code; none that the API server takes does.
    format!("`{}`", text.replace('`', "'").replace(['\n', '\r'], " "))
}

/// A name as code in a cell of a table.
fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}
