//! `picket lab`: the pods as network namespaces on this machine.

use anyhow::bail;
use clap::Args;

use crate::output::Outcome;

/// Try policies with real packets between network namespaces on this machine
#[derive(Args, Debug)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments) -> anyhow::Result<Outcome> {
    bail!("the lab is not built into this version")
}
