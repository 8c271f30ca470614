//! The Test Anything Protocol, version 14.

use std::io::{self, Write};

use super::{Judged, lines};

/// One line per assertion, and what failures show as comments.
///
/// # Errors
/// When writing fails.
pub fn tap(judged: &[Judged<'_>], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "TAP version 14\n1..{}", judged.len())?;
    for (number, (assertion, outcome)) in (1..).zip(judged) {
        let verdict = if outcome.holds() { "ok" } else { "not ok" };
        writeln!(out, "{verdict} {number} - {}", described(&assertion.name))?;
        if !outcome.holds() {
            writeln!(out, "# {}", one_line(&assertion.position.to_string()))?;
            for line in lines(outcome) {
                writeln!(out, "# {}", one_line(&line))?;
            }
        }
    }
    Ok(())
}

/// A description: what would begin a directive is escaped.
fn described(name: &str) -> String {
    one_line(&name.replace('\\', "\\\\").replace('#', "\\#"))
}

fn one_line(text: &str) -> String {
    text.replace(|character: char| character.is_control(), " ")
}
