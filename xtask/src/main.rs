//! Developer commands: `cargo xtask --help`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod alone;
mod bench;
mod cluster;
mod codegen;
mod command;
mod demo;
mod failures;
mod machine;
mod packages;
mod picture;
mod programs;
mod screenshot;
mod test;
mod wasm;

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
    /// Build the programs of others that tests run, once for each state of their sources, and print where they are
    Programs,
    /// Build picket as one file that needs no other, and print where it is
    Static(alone::Arguments),
    /// Run a command with the kernel of Debian, in a virtual machine that sees the files of this one
    Machine(machine::Arguments),
    /// Run the shop of `examples/shop` as network namespaces and probe its policies with real packets
    Demo,
    /// Run the benchmarks and print the results with the machine and the commands
    Bench(bench::Arguments),
    /// Write the manifests of a large cluster, the same for the same numbers
    Cluster(cluster::Arguments),
    /// Write the reference pages, and the outputs that pages show, anew
    Codegen(codegen::Arguments),
    /// Draw what a program printed on a terminal: reads standard input, writes an SVG
    Picture(picture::Arguments),
    /// Have Chromium draw the page of `picket matrix -o html` for the documentation
    Screenshot,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test(arguments) => test::check(&arguments),
        Task::Programs => programs::show(),
        Task::Static(arguments) => alone::show(&arguments),
        Task::Machine(arguments) => machine::machine(&arguments),
        Task::Demo => demo::demo(),
        Task::Bench(arguments) => bench::bench(&arguments),
        Task::Cluster(arguments) => cluster::cluster(&arguments),
        Task::Codegen(arguments) => codegen::generate(&arguments),
        Task::Picture(arguments) => picture::picture(&arguments),
        Task::Screenshot => screenshot::screenshot(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            command::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
