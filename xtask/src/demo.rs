//! `cargo xtask demo`: the lab on the shop of `examples/`.

use anyhow::Result;

use crate::command::{cargo, run};
use crate::packages;

/// What the demo runs: `picket` with these arguments.
const ARGUMENTS: &str = "lab run -f examples/shop examples/shop/expectations.txt";

/// Builds picket, then turns the shop into network namespaces and probes every pair with real packets.
pub(crate) fn demo() -> Result<()> {
    packages::install_missing(&packages::KERNEL)?;
    run(&mut cargo("build --bin picket --locked"))?;
    run(&mut cargo(&format!(
        "run --quiet --bin picket --locked -- {ARGUMENTS}"
    )))
}
