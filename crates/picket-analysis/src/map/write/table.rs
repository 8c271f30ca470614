//! Text for people.

use std::io::{self, Write};

use super::{Marks, WIDEST_GRID, numbers, reached};
use crate::map::{EndpointKind, Group, Map};

/// How many members of a group are named.
const NAMED: usize = 4;

pub(super) fn write(map: &Map<'_>, out: &mut impl Write) -> io::Result<()> {
    let groups = map.groups();
    if groups.len() <= WIDEST_GRID {
        grid(map, &groups, out)?;
    } else {
        list(map, &groups, out)?;
    }
    if groups.iter().any(|group| group.kind == EndpointKind::Node) {
        let limit = if map.classes.all_reach_own_nodes() {
            ""
        } else {
            ", as far as no Admin policy and no cluster default denies it"
        };
        writeln!(
            out,
            "A node and the pods on it reach each other whatever is said above{limit}."
        )?;
    }
    Ok(())
}

/// Each group with what it reaches.
fn list(map: &Map<'_>, groups: &[Group<'_>], out: &mut impl Write) -> io::Result<()> {
    for ((number, group), row) in (1..).zip(groups).zip(map.cells(groups)) {
        writeln!(out, "{number}  {}", members(group))?;
        for (meaning, to) in reached(&row) {
            writeln!(out, "      to {}: {meaning}", numbers(&to))?;
        }
    }
    Ok(())
}

fn grid(map: &Map<'_>, groups: &[Group<'_>], out: &mut impl Write) -> io::Result<()> {
    let mut marks = Marks::default();
    let cells: Vec<Vec<String>> = map
        .cells(groups)
        .map(|row| row.iter().map(|cell| marks.mark(cell)).collect())
        .collect();
    let digits = groups.len().to_string().len();
    for (number, group) in (1..).zip(groups) {
        writeln!(out, "{number:>digits$}  {}", members(group))?;
    }
    let widest = cells.iter().flatten().map(String::len).max();
    let width = widest.unwrap_or(0).max(digits);
    let line = |out: &mut dyn Write, heading: &str, marks: &mut dyn Iterator<Item = String>| {
        let marks: String = marks.map(|mark| format!(" {mark:>width$}")).collect();
        let line = format!("{heading:>7} {marks}");
        writeln!(out, "{}", line.trim_end())
    };
    writeln!(out)?;
    line(
        out,
        "from\\to",
        &mut (1..=groups.len()).map(|number| number.to_string()),
    )?;
    for (number, row) in (1..).zip(cells) {
        line(out, &number.to_string(), &mut row.into_iter())?;
    }
    writeln!(out, "\n#  everything   .  nothing")?;
    for (mark, meaning) in &marks.meanings {
        writeln!(out, "{mark}  {meaning}")?;
    }
    Ok(())
}

/// The names of some members and the number of the rest.
fn members(group: &Group<'_>) -> String {
    let mut names: Vec<_> = group
        .members
        .iter()
        .take(NAMED)
        .map(|member| {
            if member.kind == EndpointKind::External && member.addresses.len() > 1 {
                let more = member.addresses.len() - 1;
                format!(
                    "{} and {more} more range{}",
                    member.id,
                    if more == 1 { "" } else { "s" }
                )
            } else {
                member.id.clone()
            }
        })
        .collect();
    let rest = group.members.len().saturating_sub(NAMED);
    if rest > 0 {
        names.push(format!("and {rest} more"));
    }
    format!("{} ({})", names.join(", "), group.kind.as_str())
}
