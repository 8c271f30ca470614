//! `cargo xtask static`: picket in one file that needs no other, for images with nothing else in them.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::command::{cargo, print, root, run};

/// What `cargo xtask static` takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build what is shipped, which takes minutes, and not what tests run
    #[arg(long)]
    release: bool,
}

/// Says where the program is for the tests that run it.
const VARIABLE: &str = "PICKET_STATIC";

/// Builds it, and prints where it is.
pub(crate) fn show(arguments: &Arguments) -> Result<()> {
    print(&format!("{}\n", build(arguments.release)?.display()))
}

/// Builds it for tests; the environment variable that tells them where it is.
pub(crate) fn for_tests() -> Result<(&'static str, PathBuf)> {
    Ok((VARIABLE, build(false)?))
}

/// The arguments of cargo. Only the program is linked in another way, and what it is made of for tests has the features that these need too,
/// so that it is compiled once for both.
fn arguments(release: bool) -> String {
    let (profile, features) = match release {
        true => ("--release ", ""),
        false => ("", "--features as-tests "),
    };
    format!(
        "rustc {profile}--locked --package picket {features}--bin picket -- --codegen target-feature=+crt-static"
    )
}

fn build(release: bool) -> Result<PathBuf> {
    run(&mut cargo(&arguments(release)))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let folder = root()
        .join(target)
        .join(if release { "release" } else { "debug" });
    // Where cargo puts it, whoever builds next puts another.
    let (built, kept) = (folder.join("picket"), folder.join("static"));
    fs::create_dir_all(&kept).with_context(|| format!("cannot make {}", kept.display()))?;
    let kept = kept.join("picket");
    // As a new file: the old one may be running.
    let unfinished = kept.with_extension("unfinished");
    fs::copy(&built, &unfinished).with_context(|| format!("cannot copy {}", built.display()))?;
    fs::rename(&unfinished, &kept).with_context(|| format!("cannot make {}", kept.display()))?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_has_what_tests_run() {
        let image = fs::read_to_string(root().join("deploy/Containerfile")).unwrap();
        let command = format!("\nRUN cargo {}\n", arguments(true));
        assert!(image.contains(&command), "{command}{image}");
        let tested = arguments(false).replace("--features as-tests ", "");
        assert_eq!(arguments(true).replace("--release ", ""), tested);
    }
}
