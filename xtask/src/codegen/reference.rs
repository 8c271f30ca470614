//! `docs/commands.md` from the help of every command, `docs/diagnostics.md` from the codes, and `docs/lints` from the
//! table of lints.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use picket_analysis::lint::{ANNOTATION, LINTS, Lint};
use picket_policy::code::Explanation;

use super::Generated;
use crate::command::output;

/// How the pages begin that are written as a whole.
pub(super) const GENERATED: &str = "<!-- Written by `cargo xtask codegen`. -->\n";

/// All of these pages. `programs` is the folder that holds `picket`.
pub(super) fn pages(programs: &Path) -> Result<Vec<Generated>> {
    let mut pages = vec![
        Generated {
            path: "docs/commands.md".into(),
            text: commands(&programs.join("picket"))?,
        },
        Generated {
            path: "docs/diagnostics.md".into(),
            text: diagnostics(),
        },
        Generated {
            path: "docs/lints/README.md".into(),
            text: list_of_lints(),
        },
    ];
    pages.extend(LINTS.iter().map(|lint| Generated {
        path: format!("docs/lints/{}.md", lint.code).into(),
        text: lint_page(lint),
    }));
    Ok(pages)
}

/// Every lint with its title.
fn list_of_lints() -> String {
    let mut text = format!(
        "{GENERATED}\n# Lints\n\nWhat `picket check` finds in policies that are valid and probably mean something else \
         than somebody thought. A finding is silenced for one policy by its annotation `{ANNOTATION}`, which lists \
         codes as in `L006,L009`, and for all by `--ignore L006,L009`.\n\n| lint | what it finds |\n|---|---|\n"
    );
    for Explanation { code, title, .. } in picket_analysis::lint::ALL {
        let _ = writeln!(text, "| [{code}]({code}.md) | {title} |");
    }
    text
}

/// One lint with its examples.
fn lint_page(lint: &Lint) -> String {
    let explanation = picket_analysis::lint::ALL
        .iter()
        .find(|one| one.code == lint.code);
    let (title, about) = explanation.map_or(("", ""), |one| (one.title, one.text));
    let Lint { code, bad, good } = lint;
    format!(
        "{GENERATED}\n# {code}: {title}\n\n{about}\n\n## Found here\n\n```yaml\n{bad}```\n\n## Not found \
         here\n\n```yaml\n{good}```\n\n[How to silence it](README.md)\n"
    )
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
        ("Assertions", picket_analysis::assertion::codes::ALL),
        ("[Lints](lints/README.md)", picket_analysis::lint::ALL),
    ] {
        let _ = write!(text, "\n## {title}\n");
        for explanation in codes {
            let (code, title, about) = (explanation.code, explanation.title, explanation.text);
            let _ = write!(text, "\n### {code}: {title}\n\n{about}\n");
        }
    }
    text
}
