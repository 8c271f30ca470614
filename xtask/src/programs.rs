//! `cargo xtask programs`: the programs of others that tests run.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use picket_testing::program::{PROGRAMS, Program, Source};
use serde_json::Value;

use crate::command::{is_installed, output, print, run, say};
use crate::packages;

/// The release of Kubernetes that the programs say they are: that of `go.mod`.
const RELEASE: &str = "1.36.4";

/// The oldest Go that fetches the version which `go.mod` names.
const GO: (u32, u32) = (1, 21);

/// Builds the programs that are not there, and prints where they are.
pub(crate) fn show() -> Result<()> {
    PROGRAMS
        .iter()
        .try_for_each(|program| print(&format!("{}\n", build(program)?.display())))
}

/// Builds the programs that are not there. Returns for each the environment variable that tells tests where it is.
pub(crate) fn build_all() -> Result<Vec<(&'static str, PathBuf)>> {
    PROGRAMS
        .iter()
        .map(|program| Ok((program.variable, build(program)?)))
        .collect()
}

/// Where a program is, built now if it never was from these sources.
fn build(of: &Program) -> Result<PathBuf> {
    let program = of.cached();
    if program.is_file() {
        return Ok(program);
    }
    let built = of.built();
    let folder = built.parent().context("the program is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    say(&format!(
        "building {} into {}: once for each state of tools/{}; the first time this fetches what it is made of and takes \
         minutes",
        of.purpose,
        folder.display(),
        of.module,
    ));
    let start = Instant::now();
    // Others may be building it too: each builds its own, and puts it in place when it has finished.
    let unfinished = folder.join(format!("unfinished-{}", std::process::id()));
    compile(of, &unfinished).inspect_err(|_| remove(&unfinished))?;
    if let Err(error) = fs::rename(&unfinished, &built) {
        remove(&unfinished);
        // A folder that somebody else has put there first stays.
        ensure!(program.is_file(), "cannot make {}: {error}", built.display());
    }
    say(&format!("built it in {} s", start.elapsed().as_secs()));
    Ok(program)
}

/// Removes what could not be finished, as far as it is there.
fn remove(unfinished: &Path) {
    let _ = if unfinished.is_dir() {
        fs::remove_dir_all(unfinished)
    } else {
        fs::remove_file(unfinished)
    };
}

fn compile(of: &Program, program: &Path) -> Result<()> {
    match of.source {
        Source::Go { package, tags } => {
            let mut build = Command::new(go()?);
            build
                .args(["build", "-trimpath", "-buildvcs=false", "-tags", tags, "-ldflags"])
                .arg(flags()?)
                .arg("-o")
                .arg(program)
                .arg(package)
                .current_dir(of.sources())
                .env("CGO_ENABLED", "0");
            run(&mut build)
        }
        Source::C { module, folder } => compile_c(&fetched(&go()?, of, module)?.join(folder), program),
        Source::Files(files) => collect(&go()?, &sums(of)?, files, program),
        Source::Python => environment(of, program),
    }
}

/// Makes an environment of Python in a folder. It may be moved: nothing in it but its interpreter is called.
fn environment(of: &Program, folder: &Path) -> Result<()> {
    run(Command::new(python()?).args(["-m", "venv"]).arg(folder))?;
    let python = folder.join("bin/python");
    run(Command::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
            "-r",
        ])
        .arg(of.sources().join("requirements.txt")))?;
    let mut templates = Command::new(&python);
    templates
        .args(["-B", "-W", "ignore"])
        .arg(of.sources().join("templates.py"))
        .arg(folder.join("templates"));
    // What it says while all goes well is for nobody.
    output(&mut templates).map(drop)
}

/// Python, new enough and able to make environments; from Debian if there is none.
fn python() -> Result<&'static str> {
    let is_usable = || {
        let check = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))";
        let mut command = Command::new("python3");
        is_installed("python3") && output(command.args(["-c", check])).is_ok()
    };
    if !is_usable() {
        packages::install_missing(&packages::PYTHON)?;
    }
    ensure!(
        is_usable(),
        "`python3` is older than 3.11 or lacks the module `venv`: install a later one with it, and run this again"
    );
    Ok("python3")
}

/// Writes files of modules one after the other, as documents of YAML.
fn collect(go: &Path, sums: &str, files: &[(&str, &str)], to: &Path) -> Result<()> {
    let mut all = File::create(to)?;
    for (module, path) in files {
        let file = alone(go, sums, module)?.join(path);
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        all.write_all(b"---\n")?;
        all.write_all(&text)?;
        all.write_all(b"\n")?;
    }
    Ok(())
}

/// What modules must be, as lines of a `go.sum`.
fn sums(of: &Program) -> Result<String> {
    let file = of.sources().join("go.sum");
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// Where Go keeps the files of a module that it fetches without what that requires.
fn alone(go: &Path, sums: &str, module: &str) -> Result<PathBuf> {
    let mut download = Command::new(go);
    // Nobody else has to be asked what it should be.
    download
        .args(["mod", "download", "-json", module])
        .env("GONOSUMDB", "*")
        .current_dir("/");
    let fetched: Value = serde_json::from_str(&output(&mut download)?)?;
    let of = |field: &str| fetched.get(field).and_then(Value::as_str).unwrap_or_default();
    let pinned = sum_of(sums, module).with_context(|| format!("`go.sum` says nothing of {module}"))?;
    ensure!(
        of("Sum") == pinned,
        "{module} is {}, and should be {pinned}",
        of("Sum")
    );
    Ok(PathBuf::from(of("Dir")))
}

/// What lines of a `go.sum` say of a module with its version.
fn sum_of<'a>(sums: &'a str, module: &str) -> Option<&'a str> {
    let line = format!("{} ", module.replace('@', " "));
    sums.lines().find_map(|text| text.strip_prefix(&line))
}

/// What makes programs of Kubernetes say their release. It is nothing to others.
fn flags() -> Result<String> {
    let (major, minor) = RELEASE.split_once('.').context("a release has a minor part")?;
    let minor = minor.split('.').next().unwrap_or_default();
    let version = "k8s.io/component-base/version";
    Ok(format!(
        "-s -w -X {version}.gitVersion=v{RELEASE} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    ))
}

/// Where Go keeps the files of a module that the one of a program requires, fetched if they are not there.
fn fetched(go: &Path, of: &Program, module: &str) -> Result<PathBuf> {
    run(Command::new(go)
        .args(["mod", "download", module])
        .current_dir(of.sources()))?;
    let mut folder = Command::new(go);
    folder
        .args(["list", "-m", "-f", "{{.Dir}}", module])
        .current_dir(of.sources());
    Ok(PathBuf::from(output(&mut folder)?.trim()))
}

/// Compiles a program from all files in C in a folder. Whoever compiles Rust has a compiler for it, which links.
fn compile_c(folder: &Path, program: &Path) -> Result<()> {
    let files = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    let mut sources: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    let mut compile = Command::new("cc");
    compile
        .args(["-std=c99", "-Os", "-static", "-s", "-o"])
        .arg(program)
        .args(sources);
    run(&mut compile)
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
    use picket_testing::program::{API_SERVER, CRDS, KUBE_PROXY};

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
    fn the_programs_say_the_release_that_they_are() {
        for program in [API_SERVER, KUBE_PROXY] {
            let module = fs::read_to_string(program.sources().join("go.mod")).unwrap();
            assert!(module.contains(&format!("k8s.io/kubernetes v{RELEASE}")));
        }
    }

    #[test]
    fn all_files_are_of_modules_that_are_pinned() {
        let Source::Files(files) = CRDS.source else {
            panic!("it is no program");
        };
        let sums = sums(&CRDS).unwrap();
        for (module, _) in files {
            assert!(
                sum_of(&sums, module).is_some_and(|sum| sum.starts_with("h1:")),
                "{module}"
            );
        }
        assert_eq!(sum_of(&sums, "sigs.k8s.io/network-policy-api@v0.1"), None);
    }
}
