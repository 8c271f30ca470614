//! `picket matrix`.

use anyhow::bail;
use clap::Args;

use crate::arguments::Input;
use crate::output::Outcome;

/// Matrix
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let loaded = crate::input::load(&arguments.input)?;
    crate::report::on_stderr(&loaded);
    bail!("`matrix` is not built into this version")
}
