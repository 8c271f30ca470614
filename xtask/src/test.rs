//! `cargo xtask test`: everything that must hold before a change lands.

use std::env;
use std::fs::{self, File};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{cargo, is_installed, is_root, output, root, run, say, search_path};
use crate::failures::{Failures, run_tests};
use crate::machine::Machine;
use crate::{alone, packages, programs, wasm};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Leave out the tests that need root, network namespaces or other programs
    #[arg(long)]
    quick: bool,
}

/// Crates whose integration tests need root.
const KERNEL_CRATES: [&str; 2] = ["picket-linux", "picket-lab"];

/// The name of the modules whose tests need root, in the other crates.
const KERNEL_MODULE: &str = "kernel::";

/// The name of the module whose tests need Chromium.
const BROWSER_MODULE: &str = "browser::";

/// The name of the modules whose tests need a Kubernetes API server.
const CLUSTER_MODULE: &str = "apiserver::";

/// The name of the modules whose tests need IPVS, bonds or AppArmor.
const MACHINE_MODULE: &str = "machine::";

/// The name of the modules whose tests need Neutron and Keystone, and some of them an API server.
const OPENSTACK_MODULE: &str = "openstack::";

/// The variable that tells test programs how many tests run at once.
const THREADS: &str = "RUST_TEST_THREADS";

pub(crate) fn check(arguments: &Arguments) -> Result<()> {
    let runner = if arguments.quick {
        None
    } else {
        prepare_for_kernel_tests()?
    };
    run(&mut cargo("fmt --all --check"))?;
    if arguments.quick {
        check_code(cargo)?;
        return run_quick_tests();
    }
    let programs = programs::build_all()?;
    let alone = alone::for_tests()?;
    let others: Vec<_> = programs.into_iter().chain([alone]).collect();
    meanwhile(&KernelTests::prepare(&others)?, || {
        check_code(patient)?;
        wasm::check()?;
        run(&mut patient("test --workspace --locked --no-run"))
    })?;
    let mut tests = cargo(&format!(
        "test --workspace --locked --no-fail-fast -- --skip {MACHINE_MODULE}"
    ));
    if env::var_os(THREADS).is_none() {
        tests.env(THREADS, threads().to_string());
    }
    tests
        .env("PATH", env::join_paths(search_path())?)
        .envs(others)
        .envs(runner);
    run_tests(&mut tests)
}

/// Lints and documentation.
fn check_code(cargo: fn(&str) -> Command) -> Result<()> {
    run(&mut cargo(
        "clippy --workspace --all-targets --locked -- --deny warnings",
    ))?;
    run(
        cargo("doc --workspace --no-deps --document-private-items --locked").env(
            "RUSTDOCFLAGS",
            "--deny warnings --allow rustdoc::private-intra-doc-links",
        ),
    )
}

/// `cargo` that leaves the processors to others that want them.
fn patient(arguments: &str) -> Command {
    let cargo = cargo(arguments);
    let mut command = Command::new("nice");
    command.arg(cargo.get_program()).args(cargo.get_args());
    for (name, value) in cargo.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(root());
    command
}

/// The tests that need more of a kernel than that of this machine may have.
struct KernelTests<'a> {
    machine: Machine,
    program: PathBuf,
    others: &'a [(&'static str, PathBuf)],
}

impl<'a> KernelTests<'a> {
    fn prepare(others: &'a [(&'static str, PathBuf)]) -> Result<Self> {
        Ok(Self {
            machine: Machine::prepare()?,
            program: test_program("cluster")?,
            others,
        })
    }

    fn run(&self, log: &File) -> Result<()> {
        let arguments = [MACHINE_MODULE, "--test-threads=1"].map(Into::into);
        let program = self.program.clone().into_os_string();
        self.machine.run(
            &[&[program], &arguments[..]].concat(),
            self.others,
            &root().join("crates/picket"),
            log.try_clone()?.into(),
        )
    }
}

/// Does something else while a virtual machine runs tests one after the other, which leaves a processor free. What they printed
/// is shown in the end.
fn meanwhile(tests: &KernelTests<'_>, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let log = tempfile::NamedTempFile::new()?;
    thread::scope(|scope| {
        let tests = scope.spawn(|| tests.run(log.as_file()));
        let worked = work();
        let passed = tests
            .join()
            .unwrap_or_else(|_| bail!("the thread of the virtual machine panicked"));
        let printed = fs::read(log.path())?;
        let printed = String::from_utf8_lossy(&printed);
        say(&printed);
        let mut failures = Failures::default();
        printed.lines().for_each(|line| failures.read(line));
        failures.tell();
        if passed.is_ok() && printed.contains("ok. 0 passed") {
            bail!("the virtual machine ran no test");
        }
        passed.and(worked)
    })
}

/// The program that runs a file of integration tests, built now. For the whole workspace, so that nothing is compiled again for
/// the other tests.
fn test_program(name: &str) -> Result<PathBuf> {
    let mut build = cargo(&format!(
        "test --workspace --test {name} --locked --no-run --message-format json-render-diagnostics"
    ));
    let told = output(&mut build)?;
    let messages = told.lines().map(serde_json::from_str::<Value>);
    for message in messages {
        let message = message.context("cargo tells no JSON")?;
        let of = |field: &str| message.pointer(field).and_then(Value::as_str);
        if let (Some("test"), Some(program)) = (of("/target/kind/0"), of("/executable")) {
            return Ok(program.into());
        }
    }
    bail!("cargo built no tests `{name}`")
}

/// How many tests are to run at once: two for each processor. Those that wait for packets that must not arrive, or for servers, leave
/// it to others; with three nothing ends earlier, since processors are busy all the time.
fn threads() -> usize {
    2 * thread::available_parallelism().map_or(1, NonZero::get)
}

/// Tests that any user can run on any Linux.
fn run_quick_tests() -> Result<()> {
    let excluded = KERNEL_CRATES.map(|name| format!("--exclude {name}")).join(" ");
    let tests = format!(
        "test --workspace {excluded} --locked --no-fail-fast -- --skip {KERNEL_MODULE} --skip {BROWSER_MODULE} \
         --skip {CLUSTER_MODULE} --skip {OPENSTACK_MODULE}"
    );
    let others = run(&mut cargo(&tests));
    let selected = KERNEL_CRATES.map(|name| format!("--package {name}")).join(" ");
    run(&mut cargo(&format!(
        "test {selected} --lib --locked --no-fail-fast"
    )))?;
    others?;
    say(&format!(
        "--quick left out the tests that need root, some of them container runtimes: the integration tests of {}, and every `{KERNEL_MODULE}` module; \
         those that need Chromium: the `{BROWSER_MODULE}` module of picket; those that need a Kubernetes API server: \
         the `{CLUSTER_MODULE}` module of picket; those that need Neutron and Keystone: the `{OPENSTACK_MODULE}` module of \
         picket-neutron; and what the compiler says for WebAssembly. \
         `cargo xtask test` runs them.",
        KERNEL_CRATES.join(" and ")
    ));
    Ok(())
}

/// Installs what kernel tests need, and finds out how to run tests as root.
///
/// Returns the environment variable that makes cargo start test programs with `sudo`, where that is needed: cargo
/// itself then stays an ordinary user's, and so do the files it makes.
fn prepare_for_kernel_tests() -> Result<Option<(String, &'static str)>> {
    packages::install_missing(&packages::KERNEL)?;
    packages::install_missing(&packages::RUNTIME)?;
    packages::install_missing(&packages::IMAGE)?;
    packages::install_missing(&packages::SERVICES)?;
    packages::install_missing(&packages::ETCD)?;
    packages::install_missing(&packages::BROWSER)?;
    if is_root()? {
        return Ok(None);
    }
    if !is_installed("sudo") {
        bail!("kernel tests need root: run this as root, or `cargo xtask test --quick` without them");
    }
    say("kernel tests need root: running the tests with sudo");
    run(Command::new("sudo").arg("--validate"))?;
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host
        .context("`rustc -vV` names no host")?
        .to_uppercase()
        .replace('-', "_");
    Ok(Some((
        format!("CARGO_TARGET_{host}_RUNNER"),
        "sudo --preserve-env --",
    )))
}
