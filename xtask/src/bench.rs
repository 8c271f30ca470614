//! `cargo xtask bench`: every benchmark of the workspace, with what one must know to compare its numbers.

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{cargo, output, root, say};
use crate::{packages, programs};

/// What `cargo xtask bench` takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only the benchmarks of these names
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Put the results into docs/benchmarks.md, each below the heading of its name
    #[arg(long)]
    write: bool,
}

/// Where results are kept.
const PAGE: &str = "docs/benchmarks.md";

/// The benchmarks that run API servers, container runtimes and Neutron.
const WITH_PROGRAMS: [&str; 3] = ["follow", "neutron", "pods"];

/// Runs the benchmarks one after the other.
pub(crate) fn bench(arguments: &Arguments) -> Result<()> {
    packages::install_missing(&packages::KERNEL)?;
    packages::install_missing(&packages::ETCD)?;
    let mut all = benchmarks()?;
    if let Some(unknown) = arguments.names.iter().find(|name| !all.contains(name)) {
        bail!("there is no benchmark `{unknown}`; there are: {}", all.join(", "));
    }
    all.retain(|name| arguments.names.is_empty() || arguments.names.contains(name));
    let mut programs = Vec::new();
    if all.iter().any(|name| WITH_PROGRAMS.contains(&name.as_str())) {
        packages::install_missing(&packages::RUNTIME)?;
        programs = programs::build_all()?;
    }
    let machine = machine()?;
    say(&machine);
    for name in all {
        // With the features of the whole workspace, nothing is compiled once for each package.
        let command = format!("bench --workspace --bench {name}");
        let mut bench = cargo(&format!("{command} --locked"));
        let printed = run_and_show(bench.envs(programs.iter().cloned()), &command)?;
        if arguments.write {
            let section = format!(
                "{machine}\n\n```text\n$ cargo {command}\n{}\n```\n",
                printed.trim_end()
            );
            let page =
                fs::read_to_string(root().join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
            let page = with_section(&page, &name, &section)?;
            fs::write(root().join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))?;
        }
    }
    Ok(())
}

/// The name of every benchmark, sorted.
fn benchmarks() -> Result<Vec<String>> {
    let metadata = output(&mut cargo("metadata --no-deps --format-version 1 --locked"))?;
    let metadata: Value = serde_json::from_str(&metadata).context("`cargo metadata` prints JSON")?;
    let list = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let name = |value: &Value| {
        value
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut found = Vec::new();
    for package in list(&metadata, "packages") {
        let targets = list(&package, "targets").into_iter();
        let benches = targets.filter(|target| list(target, "kind").contains(&Value::from("bench")));
        found.extend(benches.map(|bench| name(&bench)));
    }
    found.sort();
    Ok(found)
}

/// A line on what the numbers were measured on.
fn machine() -> Result<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
    let models = cpus
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let models: Vec<_> = models.map(|(_, model)| model.trim()).collect();
    let memory = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let kilobytes = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
    let kilobytes: u64 = kilobytes.and_then(|text| text.parse().ok()).unwrap_or_default();
    let model = models.first().copied().unwrap_or("unknown processor");
    let mut line = format!(
        "{} × {model}, {} GiB",
        models.len().max(1),
        (kilobytes + 524_288) / 1_048_576
    );
    for (program, argument) in [("uname", "-sr"), ("rustc", "--version"), ("nft", "--version")] {
        let _ = write!(line, "; {}", output(Command::new(program).arg(argument))?.trim());
    }
    Ok(line)
}

/// Runs a benchmark and shows its output while it comes; all of it.
fn run_and_show(command: &mut Command, shown: &str) -> Result<String> {
    say(&format!("$ cargo {shown}"));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let out = child.stdout.take().context("the output of cargo is piped")?;
    let mut text = String::new();
    for line in BufReader::new(out).lines() {
        let line = line.context("the benchmark prints UTF-8")?;
        crate::command::print(&format!("{line}\n"))?;
        text.push_str(&line);
        text.push('\n');
    }
    let status = child.wait().context("cannot wait for cargo")?;
    if !status.success() {
        bail!("`cargo {shown}` failed ({status})");
    }
    Ok(text)
}

/// The page with `section` between `<!-- name -->` and `<!-- end -->`.
fn with_section(page: &str, name: &str, section: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), "<!-- end -->");
    let around = page
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    let (before, after) =
        around.with_context(|| format!("{PAGE} has no `{}` with `{end}` after it", begin.trim()))?;
    Ok(format!("{before}{begin}{section}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_benchmarks_with_programs_of_others_are_those_that_say_so() {
        let folders = fs::read_dir(root().join("crates")).unwrap();
        let benches = folders.filter_map(|folder| fs::read_dir(folder.unwrap().path().join("benches")).ok());
        let files = benches.flatten().map(|file| file.unwrap().path());
        let uses_programs = files.filter(|file| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let programs = [
                "picket_testing::runtime",
                "picket_testing::apiserver",
                "tests/neutron",
            ];
            programs.iter().any(|what| text.contains(what))
        });
        let mut names: Vec<_> = uses_programs
            .map(|file| file.file_stem().unwrap().to_owned())
            .collect();
        names.sort();
        assert_eq!(names, WITH_PROGRAMS);
    }

    #[test]
    fn results_replace_only_their_own_section() {
        let page = "a\n<!-- x -->\nold\n<!-- end -->\n<!-- y -->\nkept\n<!-- end -->\nb\n";
        let expected = "a\n<!-- x -->\nnew\n<!-- end -->\n<!-- y -->\nkept\n<!-- end -->\nb\n";
        assert_eq!(with_section(page, "x", "new\n").unwrap(), expected);
        assert!(with_section(page, "z", "new\n").is_err());
    }
}
