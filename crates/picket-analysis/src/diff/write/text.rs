//! Text for people.

use std::io::{self, Write};

use super::{NOTHING, cause, change, changed_policy, counted, names};
use crate::diff::{Only, Summary};

/// What changed, by cause: one line for all pairs that changed alike.
///
/// # Errors
/// When writing fails.
pub fn text(summary: &Summary<'_>, out: &mut impl Write) -> io::Result<()> {
    let plain = |text: &str| text.to_owned();
    for group in &summary.groups {
        for one in &group.causes {
            writeln!(out, "{}", cause(one, &plain))?;
        }
        for line in &group.lines {
            let kind = line.kind.as_str();
            let (from, to) = (names(&line.from, plain), names(&line.to, plain));
            writeln!(out, "  {kind:<9} {from} → {to}: {}", change(line))?;
        }
        writeln!(out)?;
    }
    for (only, what) in [(Only::New, "New"), (Only::Old, "Gone")] {
        let own = summary.only.iter().filter(|(one, _)| *one == only);
        let own: Vec<_> = own.map(|(_, endpoint)| *endpoint).collect();
        if !own.is_empty() {
            writeln!(out, "{what}: {}", names(&own, plain))?;
        }
    }
    for policy in &summary.without_effect {
        writeln!(out, "Without effect: {}", changed_policy(policy, &plain))?;
    }
    if summary.groups.is_empty() {
        writeln!(out, "{NOTHING}")
    } else {
        writeln!(out, "{}", counted(summary.counts))
    }
}
