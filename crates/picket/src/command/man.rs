//! `picket man`: manual pages.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::Man;

use crate::output::{self, Outcome};

/// Print the manual page, or write one for each subcommand into a directory
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  picket man | man -l -
  picket man --directory /usr/local/share/man/man1")]
pub(crate) struct Arguments {
    /// Write picket.1, picket-check.1 and so on into this directory
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let command = crate::arguments::Arguments::command();
    match &arguments.directory {
        Some(directory) => {
            fs::create_dir_all(directory)
                .and_then(|()| clap_mangen::generate_to(command, directory))
                .with_context(|| format!("cannot write manual pages to `{}`", directory.display()))?;
        }
        None => {
            let mut out = output::stdout();
            Man::new(command).render(&mut out)?;
            out.flush()?;
        }
    }
    Ok(Outcome::Yes)
}
