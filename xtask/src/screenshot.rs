//! `cargo xtask screenshot`: the pictures of the page in the documentation.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::{cargo, output, root, run};
use crate::packages;

/// What is drawn: the picture, below `docs/pictures`, and what the page is asked to show.
const PICTURES: [(&str, &str); 2] = [
    (
        "matrix.png",
        "source=shop%2FDeployment%2Fcart&destination=shop%2Fdb-0",
    ),
    ("graph.png", "view=graph"),
];

/// Makes the page of the shop and has Chromium draw it. Another version of Chromium, or other fonts, draw it otherwise.
pub(crate) fn screenshot() -> Result<()> {
    packages::install_missing(&packages::BROWSER)?;
    let page = output(&mut cargo(
        "run --quiet --bin picket --locked -- matrix -f examples/shop -o html",
    ))?;
    let folder = root().join("target/screenshot");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join("page.html");
    fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    for (name, shown) in PICTURES {
        draw(&folder, &format!("file://{}#{shown}", file.display()), name)?;
    }
    Ok(())
}

fn draw(folder: &Path, url: &str, name: &str) -> Result<()> {
    let picture = root().join("docs/pictures").join(name);
    let mut chromium = Command::new("chromium");
    chromium
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args(["--hide-scrollbars", "--no-first-run", "--window-size=1280,860"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(url);
    run(&mut chromium)?;
    ensure!(picture.is_file(), "Chromium drew no {}", picture.display());
    Ok(())
}
