//! The image of a sandbox: one static program that waits.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use sha2::{Digest, Sha256};

/// What runtimes are told to start sandboxes from; each `config.toml` names it too.
pub(super) const NAME: &str = "picket.test/pause:1";

const PROGRAM: &str = "fn main() { loop { std::thread::park() } }";

/// Writes the image as `docker save` does, to `pause.tar` in `folder`. What built this test builds the program.
pub(super) fn write(folder: &Path) {
    let source = folder.join("pause.rs");
    fs::write(&source, PROGRAM).unwrap();
    let mut compile = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"));
    compile
        .args([
            "--edition",
            "2024",
            "-C",
            "target-feature=+crt-static",
            "-C",
            "strip=symbols",
            "-o",
            "pause",
        ])
        .arg(&source)
        .current_dir(folder);
    run(&mut compile);
    archive(folder, "layer.tar", &["pause"]);
    let layer = Sha256::digest(fs::read(folder.join("layer.tar")).unwrap());
    let layer: String = layer.iter().map(|byte| format!("{byte:02x}")).collect();
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"]}]);
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    archive(
        folder,
        "pause.tar",
        &["manifest.json", "config.json", "layer.tar"],
    );
}

fn archive(folder: &Path, name: &str, files: &[&str]) {
    run(Command::new("tar")
        .arg("-cf")
        .arg(name)
        .args(files)
        .current_dir(folder));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
