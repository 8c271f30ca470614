//! Fenced blocks in Markdown: those marked `console` hold commands and exactly what they print, those marked `sh`
//! commands that must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Generated, reference};
use crate::command::root;

/// Ends an output of which only the first lines are shown.
const CUT: &str = "…";

/// The pages for people, with every `console` block as picket prints it now. Fails where a `sh` block names a command
/// or an option that does not exist. `programs` is the folder that holds `picket`.
pub(super) fn pages(programs: &Path) -> Result<Vec<Generated>> {
    let mut generated = Vec::new();
    for path in markdown()? {
        let text = fs::read_to_string(root().join(&path)).with_context(|| format!("{}", path.display()))?;
        if text.starts_with(reference::GENERATED) {
            continue;
        }
        let text = refresh(&text, programs).with_context(|| format!("{}", path.display()))?;
        generated.push(Generated { path, text });
    }
    Ok(generated)
}

/// Pages for people: those at the root, in `docs` and in `examples`.
fn markdown() -> Result<Vec<PathBuf>> {
    let mut found = BTreeSet::new();
    for (folder, deep) in [("", false), ("docs", true), ("examples", true)] {
        collect(Path::new(folder), deep, &mut found)?;
    }
    Ok(found.into_iter().collect())
}

fn collect(folder: &Path, deep: bool, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root().join(folder)).with_context(|| format!("{}", folder.display()))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if deep {
                collect(&path, deep, found)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.insert(path);
        }
    }
    Ok(())
}

/// The page with new outputs.
fn refresh(page: &str, programs: &Path) -> Result<String> {
    let mut out = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let mut block = Vec::new();
        let language = line.strip_prefix("```").filter(|language| !language.is_empty());
        if language.is_some() {
            while let Some(line) = lines.next_if(|line| *line != "```") {
                block.push(line);
            }
        }
        match language {
            Some("console") => out.push_str(&run_block(&block, programs)?),
            other => {
                if other == Some("sh") {
                    block.iter().try_for_each(|line| check_command(line, programs))?;
                }
                block.iter().for_each(|line| {
                    out.push_str(line);
                    out.push('\n');
                });
            }
        }
    }
    Ok(out)
}

/// Runs each `$ command` of a block; the block with what they print.
fn run_block(block: &[&str], programs: &Path) -> Result<String> {
    let mut out = String::new();
    let mut rest = block;
    while let Some((line, after)) = rest.split_first() {
        let Some(command) = line.strip_prefix("$ ") else {
            bail!("a console block begins with `$ command`, not with `{line}`");
        };
        let length = after
            .iter()
            .position(|line| line.starts_with("$ "))
            .unwrap_or(after.len());
        let (shown, after) = after.split_at_checked(length).unwrap_or((after, &[]));
        let printed = printed(command, programs)?;
        let lines: Vec<_> = printed.lines().collect();
        out.push_str(&format!("{line}\n"));
        match shown.split_last() {
            Some((&CUT, shown)) if shown.len() < lines.len() => {
                lines
                    .iter()
                    .take(shown.len())
                    .chain([&CUT])
                    .for_each(|line| out.push_str(&format!("{line}\n")));
            }
            _ => lines.iter().for_each(|line| out.push_str(&format!("{line}\n"))),
        }
        rest = after;
    }
    Ok(out)
}

/// What a command prints on both outputs, in the root of the workspace.
fn printed(command: &str, programs: &Path) -> Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(root())
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .output()
        .context("bash cannot be started")?;
    String::from_utf8(output.stdout).with_context(|| format!("`{command}` does not print UTF-8"))
}

/// Fails if `line` runs a command of picket, or an option of it, that its help does not know.
fn check_command(line: &str, programs: &Path) -> Result<()> {
    let words: Vec<_> = line.split_whitespace().collect();
    let Some(("picket", arguments)) = words.split_first().map(|(first, rest)| (*first, rest)) else {
        return Ok(());
    };
    let names = arguments
        .iter()
        .take_while(|word| word.chars().all(|letter| letter.is_ascii_lowercase()));
    let names: Vec<_> = names.map(|name| (*name).to_owned()).collect();
    let help = reference::help(&programs.join("picket"), &names)?;
    let ours = arguments
        .iter()
        .take_while(|word| **word != "--" && **word != "|");
    for option in ours.filter(|word| word.starts_with('-') && word.len() > 1) {
        let name = option.split('=').next().unwrap_or(option);
        let known = help
            .split([' ', ',', '\n', '=', '[', '<'])
            .any(|word| word == name);
        if !known {
            bail!("`{line}`: `picket {} --help` knows no `{name}`", names.join(" "));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_blocks_show_what_commands_print() {
        for (page, expected) in [
            (
                "a\n```console\n$ echo x\nold\n```\nb\n",
                "a\n```console\n$ echo x\nx\n```\nb\n",
            ),
            (
                "```console\n$ true\n$ echo x; echo y >&2\n```\n",
                "```console\n$ true\n$ echo x; echo y >&2\nx\ny\n```\n",
            ),
            (
                "```console\n$ seq 5\n1\n…\n```\n",
                "```console\n$ seq 5\n1\n…\n```\n",
            ),
            (
                "```console\n$ seq 2\n1\n2\n…\n```\n",
                "```console\n$ seq 2\n1\n2\n```\n",
            ),
            ("```text\n$ echo x\nold\n```\n", "```text\n$ echo x\nold\n```\n"),
        ] {
            assert_eq!(refresh(page, Path::new("")).unwrap(), expected);
        }
    }
}
