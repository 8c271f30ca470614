//! The analysis and the rulesets as WebAssembly: the compiler takes them, so that a page or an editor can have them.

use anyhow::{Context, Result};

use crate::command::{cargo, output, run, say};

const TARGET: &str = "wasm32-unknown-unknown";

/// Checks `picket-analysis` and `picket-nftables` without its client, and with them every crate below, for WebAssembly;
/// installs the target first where it is missing.
pub(crate) fn check() -> Result<()> {
    if !is_installed()? {
        say(&format!("installing the standard library for {TARGET}"));
        let mut rustup = std::process::Command::new("rustup");
        rustup.args(["target", "add", TARGET]);
        run(&mut rustup).with_context(|| {
            format!("the WebAssembly build needs the standard library for {TARGET}: install it as Rust was installed")
        })?;
    }
    let check =
        format!("check --package picket-analysis --package picket-nftables --lib --target {TARGET} --locked");
    run(&mut cargo(&check))
}

/// Whether rustc has the target's standard library.
fn is_installed() -> Result<bool> {
    let mut rustc = std::process::Command::new("rustc");
    let folder = output(rustc.args(["--print", "target-libdir", "--target", TARGET]))?;
    Ok(std::path::Path::new(folder.trim()).is_dir())
}
