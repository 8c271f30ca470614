//! Which of what is installed to verify.

use clap::{Arg, Args};

use crate::vpp::LocatedArguments;

/// What is installed.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What is installed")]
#[command(mut_args(of_live))]
pub(super) struct LiveArguments {
    /// Verify what is installed here, instead of what `render` prints
    #[arg(long, conflicts_with = "rules")]
    pub(super) live: bool,

    #[command(flatten)]
    pub(super) located: LocatedArguments,
}

/// Where VPP is means nothing without `--live`.
fn of_live(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "vpp_socket" | "vpp_pod_interface" | "vpp_pod_namespace" => argument.requires("live"),
        _ => argument,
    }
}
