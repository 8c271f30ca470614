//! `picket check`.

use anyhow::bail;
use clap::Args;

use crate::arguments::Input;
use crate::output::Outcome;

/// Check
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let loaded = crate::input::load(&arguments.input)?;
    crate::report::on_stderr(&loaded);
    bail!("`check` is not built into this version")
}
