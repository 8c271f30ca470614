//! The image of picket, built from `deploy/Containerfile` as it is, and run.
//!
//! No registry is asked. What stands for the image that picket is built in has a shell, and a `cargo` that puts in place what
//! `cargo xtask static` has built.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use picket_testing::runtime::{Container, ContainerRuntime, Kind};
use tempfile::TempDir;

use super::alone::program;

/// What the image is called here.
const NAME: &str = "picket.test/picket:1";

/// Stands for cargo. It fails where what is built from is not what it should be.
const CARGO: &str = r#"#!/bin/sh
set -eu
case "$*" in "rustc --release --locked "*) ;; *) exit 1 ;; esac
test -f Cargo.toml
test ! -e target
test ! -e .git
mkdir -p target/release
cp /built target/release/picket
"#;

/// What is run by the shell of busybox in the image that picket is built in.
const WORDS: [&str; 5] = ["sh", "mkdir", "ln", "cp", "test"];

/// A place to build images, without anything of the machine.
struct Builder(TempDir);

impl Builder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/images\"\nrunroot = \"{0}/run\"\n",
            path.display()
        );
        fs::write(path.join("storage.conf"), storage).unwrap();
        fs::write(
            path.join("registries.conf"),
            "unqualified-search-registries = [\"docker.io\"]\n",
        )
        .unwrap();
        let anything = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;
        fs::write(path.join("policy.json"), anything).unwrap();
        Self(folder)
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.0.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn buildah(&self, command: &str, arguments: &[&str]) {
        let mut buildah = Command::new("buildah");
        buildah
            .env("CONTAINERS_STORAGE_CONF", self.0.path().join("storage.conf"))
            .env(
                "CONTAINERS_REGISTRIES_CONF",
                self.0.path().join("registries.conf"),
            )
            .args([command, "--signature-policy"])
            .arg(self.0.path().join("policy.json"))
            .args(arguments);
        let output = buildah.output().unwrap();
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Builds an image from a file and a folder.
    fn build(&self, name: &str, file: &Path, context: &Path) {
        let isolated = ["--isolation", "chroot", "--layers=false", "--pull-never"];
        let (file, context) = (file.to_str().unwrap(), context.to_str().unwrap());
        self.buildah(
            "build",
            &[&isolated[..], &["--tag", name, "--file", file, context]].concat(),
        );
    }

    /// Builds what stands for the image that picket is built in.
    fn base(&self, name: &str) {
        let root = self.folder("base");
        let folders = ["bin", "usr/bin", "tmp"].map(|folder| self.folder(&format!("base/{folder}")));
        fs::copy("/bin/busybox", folders[0].join("busybox")).unwrap();
        for word in WORDS {
            symlink("busybox", folders[0].join(word)).unwrap();
        }
        let cargo = folders[1].join("cargo");
        fs::write(&cargo, CARGO).unwrap();
        fs::set_permissions(cargo, Permissions::from_mode(0o755)).unwrap();
        // Several times as large with what debuggers read.
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(root.join("built")).arg(program());
        assert!(strip.status().unwrap().success());
        let file = self.0.path().join("base");
        let file = file.with_extension("Containerfile");
        fs::write(&file, "FROM scratch\nCOPY . /\n").unwrap();
        self.build(name, &file, &root);
    }

    /// Writes an image as `docker save` does.
    fn save(&self, name: &str) -> PathBuf {
        let archive = self.0.path().join("image.tar");
        self.buildah(
            "push",
            &[name, &format!("docker-archive:{}:{name}", archive.display())],
        );
        archive
    }
}

#[test]
fn the_image_runs_picket_by_every_name_that_it_has() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let file = deploy.join("Containerfile");
    let text = fs::read_to_string(&file).unwrap();
    let from = text.lines().find_map(|line| line.strip_prefix("FROM ")).unwrap();
    let builder = Builder::new();
    builder.base(&format!(
        "docker.io/library/{}",
        from.strip_suffix(" AS build").unwrap()
    ));
    let context = builder.folder("context");
    for file in ["Cargo.toml", ".dockerignore"] {
        fs::copy(deploy.join("..").join(file), context.join(file)).unwrap();
    }
    for left_out in ["target", ".git"] {
        fs::write(builder.folder(&format!("context/{left_out}")).join("large"), "").unwrap();
    }
    builder.build(NAME, &file, &context);

    let runtime = ContainerRuntime::start(Kind::Containerd);
    runtime.import(&builder.save(NAME));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let run = |name: &str, command: &[&str], arguments: &[&str]| {
        let container = Container {
            image: Some(NAME.to_owned()),
            command: words(command),
            arguments: words(arguments),
            ..Container::default()
        };
        let id = runtime.run_container("default", name, &format!("uid-of-{name}"), &container);
        runtime.await_end(&id);
    };
    let runs: [(&str, &[&str], &[&str], &str); 4] = [
        ("nothing", &[], &[], "One network-policy engine"),
        ("arguments", &[], &["agent", "--help"], "Usage: picket agent"),
        ("by-path", &["picket"], &["diff", "--help"], "Usage: picket diff"),
        (
            "other",
            &["/multi-networkpolicy-nftables"],
            &["--help"],
            "Usage: multi-networkpolicy-nftables agent",
        ),
    ];
    for (name, command, arguments, told) in runs {
        run(name, command, arguments);
        let printed = runtime.printed();
        assert!(printed.contains(told), "{printed}");
    }
}
