//! The files of the project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

/// Folders that hold no sources.
const SKIPPED: [&str; 5] = [".git", "target", "artifacts", "coverage", "node_modules"];

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// Every file, relative to the root, sorted.
pub(crate) fn files() -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![PathBuf::new()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder that can be read") {
            let entry = entry.expect("an entry that can be read");
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().expect("a file type");
            // In a worktree `.git` is a file.
            if kind.is_file() && entry.file_name() != ".git" {
                files.push(path);
            } else if kind.is_dir() && !SKIPPED.iter().any(|skipped| path.ends_with(skipped)) {
                folders.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The files with this extension.
pub(crate) fn files_with(extension: &str) -> Vec<PathBuf> {
    files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect()
}

/// The text of a file, by its path relative to the root.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What cargo knows of the workspace and of everything it depends on, as far as Linux needs it.
pub(crate) static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
});

/// The packages of the workspace (`members`), or those from elsewhere.
pub(crate) fn packages(members: bool) -> impl Iterator<Item = &'static Value> {
    let all = METADATA["packages"].as_array().expect("cargo lists packages");
    all.iter()
        .filter(move |package| package["source"].is_null() == members)
}

/// A string in what cargo says.
pub(crate) fn text(value: &'static Value) -> &'static str {
    value.as_str().unwrap_or_default()
}
