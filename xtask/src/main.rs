//! Developer commands: `cargo xtask --help`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod command;
mod demo;
mod packages;
mod test;

/// Developer commands of picket.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing, then check format, lints and documentation and run every test
    Test(test::Arguments),
    /// Run the shop of `examples/shop` as network namespaces and probe its policies with real packets
    Demo,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test(arguments) => test::check(&arguments),
        Task::Demo => demo::demo(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            command::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
