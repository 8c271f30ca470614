//! Which of what is installed to verify.

use std::path::PathBuf;

use clap::Args;
use picket_node::PodRule;

/// What is installed.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What is installed")]
pub(super) struct LiveArguments {
    /// Verify what is installed here, instead of what `render` prints
    #[arg(long, conflicts_with = "rules")]
    pub(super) live: bool,

    /// The socket of VPP's binary API (`socksvr { socket-name PATH }` in its configuration)
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/run/vpp/api.sock",
        requires = "live"
    )]
    pub(super) vpp_socket: PathBuf,

    /// Which interface of VPP is that of a pod: the one with a tag or a name that holds its namespace and name, or the one
    /// that a file names for it in a line as `shop/web tap3`
    #[arg(
        long,
        value_name = "tag=TEMPLATE|name=TEMPLATE|file=PATH",
        default_value_t,
        requires = "live"
    )]
    pub(super) vpp_pod_interface: PodRule,
}
