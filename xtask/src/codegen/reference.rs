//! `docs/commands.md` from the help of every command, and `docs/diagnostics.md` from the codes.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::Generated;
use crate::command::output;

/// How the pages begin that are written as a whole.
pub(super) const GENERATED: &str = "<!-- Written by `cargo xtask codegen`. -->\n";

/// Both pages. `programs` is the folder that holds `picket`.
pub(super) fn pages(programs: &Path) -> Result<Vec<Generated>> {
    Ok(vec![
        Generated {
            path: "docs/commands.md".into(),
            text: commands(&programs.join("picket"))?,
        },
        Generated {
            path: "docs/diagnostics.md".into(),
            text: diagnostics(),
        },
    ])
}

/// The help of picket and of each of its commands, and of theirs.
fn commands(picket: &Path) -> Result<String> {
    let mut text = format!("{GENERATED}\n# Commands\n");
    let mut pending = vec![Vec::new()];
    while let Some(words) = pending.pop() {
        let help = help(picket, &words)?;
        let title = ["picket"]
            .into_iter()
            .chain(words.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ");
        let _ = write!(text, "\n## {title}\n\n```text\n{}\n```\n", help.trim_end());
        let below = subcommands(&help).into_iter().filter(|name| *name != "help");
        let below: Vec<_> = below
            .map(|name| words.iter().cloned().chain([name.to_owned()]).collect())
            .collect();
        pending.extend(below.into_iter().rev());
    }
    Ok(text)
}

/// What `--help` prints, as wide as a page.
pub(super) fn help(picket: &Path, words: &[String]) -> Result<String> {
    let text = output(
        Command::new(picket)
            .args(words)
            .arg("--help")
            .env("COLUMNS", "100"),
    )?;
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    Ok(lines.join("\n"))
}

/// The names below `Commands:`.
fn subcommands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty());
    names
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// Every code with what it is about, by crate and number.
fn diagnostics() -> String {
    let mut text = format!(
        "{GENERATED}\n# Diagnostics\n\nWhat picket may say about manifests. A code keeps its meaning for ever.\n"
    );
    for (title, codes) in [
        ("Files and policies", picket_policy::code::ALL),
        ("Objects of the cluster", picket_cluster::codes::ALL),
        ("Targets", picket_dataplane::codes::ALL),
    ] {
        let _ = write!(text, "\n## {title}\n");
        for explanation in codes {
            let (code, title, about) = (explanation.code, explanation.title, explanation.text);
            let _ = write!(text, "\n### {code}: {title}\n\n{about}\n");
        }
    }
    text
}
