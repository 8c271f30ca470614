//! `cargo xtask machine`: a virtual machine with the kernel of Debian and the files of this machine.
//!
//! Kernels differ: that of a small virtual machine may have no IPVS, no AppArmor and no bonds, which Debian's has. Processors that
//! can help to run the machine are not needed.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use picket_testing::machine::VARIABLE;
use picket_testing::program::cache;
use sha2::{Digest as _, Sha256};

use crate::command::{output, root, run, say, search_path};
use crate::packages;

/// What `cargo xtask machine` takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to run there, as root and in this folder; what it changes of files is forgotten
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// The package that always depends on that of the latest kernel.
const LATEST: &str = "linux-image-amd64";

/// What the kernel needs before it sees files.
const MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// The first process of the machine.
const INIT: &str = include_str!("../machine/init");

/// What it becomes when the machine has its files.
const BEGIN: &str = include_str!("../machine/begin");

/// The memory of the machine, which nothing takes that it does not use.
const MEMORY: &str = "6G";

/// Runs what the arguments say.
pub(crate) fn machine(arguments: &Arguments) -> Result<()> {
    Machine::prepare()?.run(&arguments.command, &[], &env::current_dir()?, Stdio::inherit())
}

/// What is needed to start one.
pub(crate) struct Machine {
    /// The kernel's package, unpacked.
    kernel: PathBuf,
    /// What the kernel is called.
    release: String,
    /// The first files that it sees.
    files: PathBuf,
}

impl Machine {
    /// Fetches the kernel, once for each version of it.
    pub(crate) fn prepare() -> Result<Self> {
        ensure!(
            cfg!(target_arch = "x86_64"),
            "the virtual machine is made for x86-64, and this is another"
        );
        packages::install_missing(&packages::MACHINE)?;
        let package = package()?;
        let release = package
            .name
            .strip_prefix("linux-image-")
            .context("a kernel is called after its release")?
            .to_owned();
        let kernel = cache().join(format!("{}-{}", package.name, package.version.replace(':', "-")));
        if !kernel.is_dir() {
            fetch(&package, &kernel, &release)?;
        }
        let files = first_files(&kernel, &release)?;
        Ok(Self {
            kernel,
            release,
            files,
        })
    }

    /// Runs a command there in a folder, with environment variables besides those of this process, and where to print. Fails
    /// unless it succeeds.
    pub(crate) fn run(
        &self,
        command: &[OsString],
        variables: &[(&str, PathBuf)],
        folder: &Path,
        printed: Stdio,
    ) -> Result<()> {
        let words = tempfile::tempdir()?;
        let status = words.path().join("status");
        fs::write(words.path().join("begin"), BEGIN)?;
        fs::write(words.path().join("project"), root().as_os_str().as_bytes())?;
        let mut file = File::create(words.path().join("words"))?;
        let mut word = |word: &[u8]| {
            file.write_all(word)
                .and_then(|()| file.write_all(b"\0"))
                .context("cannot write what is to run")
        };
        word(b"-C")?;
        word(folder.as_os_str().as_bytes())?;
        for (name, value) in env::vars_os() {
            word(&[name.as_bytes(), b"=", value.as_bytes()].concat())?;
        }
        word(format!("{VARIABLE}=1").as_bytes())?;
        word(&[b"PATH=", env::join_paths(search_path())?.as_bytes()].concat())?;
        for (name, value) in variables {
            word(&[name.as_bytes(), b"=", value.as_os_str().as_bytes()].concat())?;
        }
        for argument in command {
            word(argument.as_bytes())?;
        }
        let command = command.join(OsStr::new(" "));
        let command = command.to_string_lossy();
        say(&format!("with {} in a virtual machine:", self.release));
        run(self.start(words.path(), &status).stdout(printed))?;
        let ended = fs::read_to_string(&status).unwrap_or_default();
        match ended.trim() {
            "0" => Ok(()),
            "" => bail!("the virtual machine ended before `{command}` did"),
            code => bail!("`{command}` failed in the virtual machine ({code})"),
        }
    }

    fn start(&self, words: &Path, status: &Path) -> Command {
        let mut start = Command::new("qemu-system-x86_64");
        start
            .args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"])
            .args([
                "-smp",
                "2",
                "-m",
                MEMORY,
                "-nodefaults",
                "-no-reboot",
                "-display",
                "none",
            ])
            .args(["-serial", "stdio", "-serial"])
            .arg(format!("file:{}", status.display()))
            .arg("-kernel")
            .arg(self.kernel.join(format!("boot/vmlinuz-{}", self.release)))
            .arg("-initrd")
            .arg(&self.files)
            .args(["-append", "console=ttyS0 loglevel=3 panic=-1"]);
        let folders = [
            ("root", Path::new("/")),
            ("words", words),
            ("kernel", &self.kernel.join("lib/modules")),
        ];
        for (name, folder) in folders {
            let folder = folder.display();
            start
                .arg("-fsdev")
                .arg(format!(
                    "local,id={name},path={folder},security_model=none,readonly=on,multidevs=remap"
                ))
                .arg("-device")
                .arg(format!("virtio-9p-pci,fsdev={name},mount_tag={name}"));
        }
        start
    }
}

/// A package, and its version.
struct Package {
    name: String,
    version: String,
}

/// The package of the latest kernel.
fn package() -> Result<Package> {
    let named = || {
        let depends = output(Command::new("apt-cache").args(["depends", LATEST])).ok()?;
        let mut lines = depends.lines();
        lines.find_map(|line| {
            let name = line.trim().strip_prefix("Depends: ")?;
            name.starts_with("linux-image-").then(|| name.to_owned())
        })
    };
    let name = match named() {
        Some(name) => name,
        None => {
            packages::update()?;
            named().with_context(|| format!("no package depends on {LATEST}: this is no Debian"))?
        }
    };
    let shown = output(Command::new("apt-cache").args(["show", "--no-all-versions", &name]))?;
    let mut lines = shown.lines();
    let version = lines.find_map(|line| line.strip_prefix("Version: "));
    let version = version
        .with_context(|| format!("{name} has no version"))?
        .to_owned();
    Ok(Package { name, version })
}

/// Fetches a kernel and unpacks it.
fn fetch(package: &Package, to: &Path, release: &str) -> Result<()> {
    say(&format!(
        "fetching {} {}: once for each version of it",
        package.name, package.version
    ));
    fs::create_dir_all(cache()).context("no cache can be made")?;
    let unfinished = tempfile::tempdir_in(cache())?;
    run(Command::new("apt-get")
        .args(["--option", "APT::Sandbox::User=", "download"])
        .arg(format!("{}={}", package.name, package.version))
        .current_dir(unfinished.path()))?;
    let fetched = fs::read_dir(unfinished.path())?
        .next()
        .context("nothing was fetched")??
        .path();
    let files = unfinished.path().join("files");
    run(Command::new("dpkg-deb")
        .arg("--extract")
        .arg(&fetched)
        .arg(&files))?;
    run(tool("depmod").arg("--basedir").arg(&files).arg(release))?;
    match fs::rename(&files, to) {
        // Another was faster.
        Err(_) if to.is_dir() => Ok(()),
        renamed => renamed.with_context(|| format!("cannot make {}", to.display())),
    }
}

/// The first files that a kernel sees: the first process, and the modules that bring it the others.
fn first_files(kernel: &Path, release: &str) -> Result<PathBuf> {
    let busybox = fs::read(program("busybox")?)?;
    let digest = Sha256::new()
        .chain_update(INIT)
        .chain_update(MODULES.join(" "))
        .chain_update(&busybox)
        .finalize();
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let to = kernel.join(format!("first-files-{digest}"));
    if to.is_file() {
        return Ok(to);
    }
    let folder = tempfile::tempdir()?;
    let at = |path: &str| folder.path().join(path);
    for name in ["bin", "modules", "dev", "below", "above", "root"] {
        fs::create_dir(at(name))?;
    }
    fs::write(at("bin/busybox"), busybox)?;
    fs::write(at("init"), INIT)?;
    std::os::unix::fs::symlink("busybox", at("bin/sh"))?;
    let mut order = Vec::new();
    for module in MODULES {
        let needed = output(tool("modprobe").arg("--dirname").arg(kernel).args([
            "--set-version",
            release,
            "--show-depends",
            module,
        ]))?;
        for path in needed.lines().filter_map(|line| line.strip_prefix("insmod ")) {
            let path = Path::new(path.trim());
            let name = path.file_name().context("a module has a name")?.to_owned();
            if !order.contains(&name) {
                fs::copy(path, folder.path().join("modules").join(&name))?;
                order.push(name);
            }
        }
    }
    let lines: Vec<_> = order.iter().map(|name| name.to_string_lossy() + "\n").collect();
    fs::write(at("order"), lines.concat())?;
    for path in ["bin/busybox", "init"] {
        run(Command::new("chmod").arg("755").arg(at(path)))?;
    }
    let unfinished = tempfile::NamedTempFile::new_in(kernel)?;
    let list = "find . | sort | cpio --quiet --create --format=newc --owner=0:0";
    run(Command::new("sh")
        .args(["-c", list])
        .current_dir(folder.path())
        .stdout(unfinished.reopen()?))?;
    unfinished.persist(&to)?;
    Ok(to)
}

/// A program where ordinary users do not look for it.
fn tool(name: &str) -> Command {
    Command::new(program(name).unwrap_or_else(|_| PathBuf::from(name)))
}

fn program(name: &str) -> Result<PathBuf> {
    let places = search_path().into_iter().map(|folder| folder.join(name));
    let mut found = places.filter(|path| path.is_file());
    found.next().with_context(|| format!("`{name}` was not found"))
}
