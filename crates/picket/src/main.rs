//! The `picket` command.

mod arguments;
mod cloud;
mod command;
mod etcd;
mod excerpt;
mod fix;
mod git;
mod input;
mod logging;
mod neutron;
mod output;
mod panics;
mod predecessor;
mod report;
mod ruleset;
mod sarif;
mod vpp;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(predecessor::arguments(std::env::args_os()));
    arguments.color.write_global();
    let result = match arguments.command {
        Command::Check(arguments) => command::check::run(&arguments),
        Command::Eval(arguments) => command::eval::run(&arguments),
        Command::Explain(arguments) => command::explain::run(&arguments),
        Command::Matrix(arguments) => command::matrix::run(&arguments),
        Command::Diff(arguments) => command::diff::run(&arguments),
        Command::Test(arguments) => command::test::run(&arguments),
        Command::Render(arguments) => command::render::run(&arguments),
        Command::Lab(arguments) => command::lab::run(&arguments),
        Command::Verify(arguments) => command::verify::run(&arguments),
        Command::Agent(arguments) => command::agent::run(&arguments),
        Command::Controller(arguments) => command::controller::run(&arguments),
        Command::Reflect(arguments) => command::reflect::run(&arguments),
        Command::Status(arguments) => command::status::run(&arguments),
        Command::Trace(arguments) => command::trace::run(&arguments),
        Command::Completions(arguments) => command::completions::run(&arguments),
        Command::Man(arguments) => command::man::run(&arguments),
    };
    output::exit_code(result)
}
