//! `picket completions`: what a shell needs to complete picket's command line.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::output::{self, Outcome};

/// Print completions for a shell
#[derive(Args, Debug)]
#[command(after_help = "Example: picket completions bash > /etc/bash_completion.d/picket")]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    let mut command = crate::arguments::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "picket", &mut script);
    let mut out = output::stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(Outcome::Yes)
}
