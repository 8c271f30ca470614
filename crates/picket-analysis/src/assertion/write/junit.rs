//! JUnit XML, as continuous integration reads it.

use std::io::{self, Write};

use super::{Judged, failed, lines};
use crate::xml::escaped;

/// One test suite per file, one test case per assertion.
///
/// # Errors
/// When writing fails.
pub fn junit(judged: &[Judged<'_>], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites name=\"picket test\" tests=\"{}\" failures=\"{}\" errors=\"0\">",
        judged.len(),
        failed(judged)
    )?;
    for suite in judged.chunk_by(|(one, _), (other, _)| one.position.file == other.position.file) {
        let Some((first, _)) = suite.first() else { continue };
        writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\">",
            escaped(&first.position.file),
            suite.len(),
            failed(suite)
        )?;
        suite.iter().try_for_each(|judged| case(judged, out))?;
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

fn case((assertion, outcome): &Judged<'_>, out: &mut impl Write) -> io::Result<()> {
    let (name, file) = (escaped(&assertion.name), escaped(&assertion.position.file));
    let line = assertion.position.line;
    write!(
        out,
        "    <testcase name=\"{name}\" classname=\"{file}\" file=\"{file}\" line=\"{line}\""
    )?;
    if outcome.holds() {
        return writeln!(out, "/>");
    }
    let shown = lines(outcome);
    let first = shown.first().map(|line| escaped(line)).unwrap_or_default();
    writeln!(
        out,
        ">\n      <failure message=\"{first}\" type=\"connectivity\">"
    )?;
    writeln!(out, "{}</failure>\n    </testcase>", escaped(&shown.join("\n")))
}
