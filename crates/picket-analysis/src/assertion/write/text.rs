//! Text for people.

use std::io::{self, Write};

use super::{Judged, failed, lines};

/// Each assertion; what failed with connections that show it, and how many held.
///
/// # Errors
/// When writing fails.
pub fn text(judged: &[Judged<'_>], out: &mut impl Write) -> io::Result<()> {
    for (assertion, outcome) in judged {
        if outcome.holds() {
            writeln!(out, "ok      {}", assertion.name)?;
            continue;
        }
        writeln!(out, "FAILED  {} ({})", assertion.name, assertion.position)?;
        for line in lines(outcome) {
            writeln!(out, "  {line}")?;
        }
    }
    let plural = if judged.len() == 1 { "" } else { "s" };
    match failed(judged) {
        0 => writeln!(out, "{} test{plural}, all hold", judged.len()),
        failed => writeln!(out, "{} test{plural}, {failed} failed", judged.len()),
    }
}
