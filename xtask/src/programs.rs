//! `cargo xtask apiserver`: the Kubernetes API server that tests speak to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use picket_testing::apiserver::{cached_program, sources};

use crate::command::{is_installed, output, print, run, say};
use crate::packages;

/// The release of Kubernetes that the program says it is: that of `go.mod`.
const RELEASE: &str = "1.36.4";

/// The oldest Go that fetches the version which `go.mod` names.
const GO: (u32, u32) = (1, 21);

/// Builds the program where it is not, and prints where it is.
pub(crate) fn show() -> Result<()> {
    print(&format!("{}\n", build()?.display()))
}

/// Where the program is, built now if it never was from these sources.
pub(crate) fn build() -> Result<PathBuf> {
    let program = cached_program();
    if program.is_file() {
        return Ok(program);
    }
    let go = go()?;
    let folder = program.parent().context("the program is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    say(&format!(
        "building the Kubernetes API server for tests into {}: once for each state of tools/test-apiserver; the first \
         time this fetches 90 MB and takes six minutes of a processor",
        folder.display()
    ));
    let start = Instant::now();
    // Others may be building it too: each builds its own, and the last one to finish puts it in place.
    let unfinished = folder.join(format!("unfinished-{}", std::process::id()));
    compile(&go, &unfinished).inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
    fs::rename(&unfinished, &program).with_context(|| format!("cannot make {}", program.display()))?;
    say(&format!("built it in {} s", start.elapsed().as_secs()));
    Ok(program)
}

fn compile(go: &Path, program: &Path) -> Result<()> {
    let (major, minor) = RELEASE.split_once('.').context("a release has a minor part")?;
    let minor = minor.split('.').next().unwrap_or_default();
    let version = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {version}.gitVersion=v{RELEASE} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    );
    let mut build = Command::new(go);
    build
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"])
        .arg(program)
        .arg(".")
        .current_dir(sources())
        .env("CGO_ENABLED", "0");
    run(&mut build)
}

/// Go, new enough; from Debian if there is none.
fn go() -> Result<PathBuf> {
    if let Some(go) = usable()? {
        return Ok(go);
    }
    if !is_installed("go") {
        packages::install_missing(&packages::GO)?;
    }
    let (major, minor) = GO;
    let go = usable()?;
    go.with_context(|| {
        format!("Go is older than {major}.{minor}: install a later one, from https://go.dev/dl, and run this again")
    })
}

/// Go as it is found, or where its own packages put it, if it is new enough.
fn usable() -> Result<Option<PathBuf>> {
    for go in ["go", "/usr/local/go/bin/go"].map(PathBuf::from) {
        if !is_installed("go") && !go.is_file() {
            continue;
        }
        // Asked the module, so that no other version is fetched to answer.
        let mut command = Command::new(&go);
        let version = output(command.args(["env", "GOVERSION"]).current_dir("/"))?;
        if parse(&version).is_some_and(|version| version >= GO) {
            return Ok(Some(go));
        }
    }
    Ok(None)
}

/// The version that `go1.26.8` says.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim().strip_prefix("go")?.split(['.', ' ', 'r', 'b']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_are_read() {
        for (text, expected) in [
            ("go1.26.8\n", Some((1, 26))),
            ("go1.21rc3", Some((1, 21))),
            ("go1.9", Some((1, 9))),
            ("devel", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn the_program_says_the_release_that_it_is() {
        let module = fs::read_to_string(sources().join("go.mod")).unwrap();
        assert!(module.contains(&format!("k8s.io/kubernetes v{RELEASE}\n")));
    }
}
