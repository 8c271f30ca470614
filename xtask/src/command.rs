//! Other programs: where they are, and running them from the root of the workspace.

use std::env;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// `cargo` with `arguments` (separated by blanks), in the root of the workspace.
///
/// It hears nothing of what cargo says to the programs that it runs, as this one: build scripts that ask for that, like the one of `ring`, would run
/// again, and everything above would be compiled again.
pub(crate) fn cargo(arguments: &str) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace()).current_dir(root());
    let said = env::vars_os().map(|(name, _)| name);
    let said = said.filter(|name| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    });
    said.for_each(|name| _ = command.env_remove(name));
    command
}

/// Runs `command` with its output shown, after a line that says so. Fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let (line, mut child) = start(command)?;
    ended(&line, &mut child)
}

/// Starts `command` after a line that says so, which is returned too.
pub(crate) fn start(command: &mut Command) -> Result<(String, Child)> {
    let line = shown(command);
    say(&format!("$ {line}"));
    let child = command
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    Ok((line, child))
}

/// Waits until the command of this line has ended. Fails unless it succeeds.
pub(crate) fn ended(line: &str, child: &mut Child) -> Result<()> {
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// What `command` prints. Fails unless it succeeds and prints UTF-8.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed ({}): {}", output.status, errors.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` does not print UTF-8"))
}

/// The command as a person would type it: the program without its folder.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The folders where programs are looked for. An ordinary user's `PATH` on Debian lacks those where `nft` and `ip` are.
pub(crate) fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders: Vec<_> = env::split_paths(&path).collect();
    folders.extend(
        system
            .into_iter()
            .filter(|folder| !env::split_paths(&path).any(|known| known == *folder)),
    );
    folders
}

/// Whether a program of this name can be found.
pub(crate) fn is_installed(program: &str) -> bool {
    search_path().iter().any(|folder| folder.join(program).is_file())
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> Result<bool> {
    Ok(output(Command::new("id").arg("-u"))?.trim() == "0")
}

/// Writes a line to standard error, which stays in order with what the commands print there.
pub(crate) fn say(line: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes to standard output. Whoever reads it may stop early.
pub(crate) fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("standard output cannot be written")
        }
        _ => Ok(()),
    }
}
