//! `cargo xtask codegen`: the pages, and the parts of pages, that are written by picket itself.

mod console;
mod reference;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{cargo, output, root, run, say};

/// What `cargo xtask codegen` takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail if something would change
    #[arg(long)]
    check: bool,
}

/// A file below the root of the workspace, and what it must hold.
struct Generated {
    path: PathBuf,
    text: String,
}

/// Writes what is not current, or with `--check` fails if anything is not.
pub(crate) fn generate(arguments: &Arguments) -> Result<()> {
    let picket = build_picket()?;
    let mut files = reference::pages(&picket)?;
    files.extend(console::pages(&picket)?);
    let mut stale = Vec::new();
    for file in files {
        let path = root().join(&file.path);
        if fs::read_to_string(&path).is_ok_and(|present| present == file.text) {
            continue;
        }
        stale.push(file.path.display().to_string());
        if !arguments.check {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&path, file.text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    match (stale.is_empty(), arguments.check) {
        (true, _) => Ok(()),
        (false, true) => bail!("not current: {}; run `cargo xtask codegen`", stale.join(", ")),
        (false, false) => {
            say(&format!("wrote {}", stale.join(", ")));
            Ok(())
        }
    }
}

/// Builds the command line; the folder of its program.
fn build_picket() -> Result<PathBuf> {
    run(&mut cargo("build --quiet --bin picket --locked"))?;
    let metadata = output(&mut cargo("metadata --no-deps --format-version 1 --locked"))?;
    let metadata: Value = serde_json::from_str(&metadata).context("`cargo metadata` prints JSON")?;
    let target = metadata
        .get("target_directory")
        .and_then(Value::as_str)
        .context("cargo has a target directory")?;
    Ok(PathBuf::from(target).join("debug"))
}
