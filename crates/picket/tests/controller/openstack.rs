//! Against a real Neutron.

mod killed;
mod once;
mod told;

use std::path::Path;
use std::process::{Command, Stdio};

use picket_testing::ran::Ran;

/// `picket controller` where nothing but its arguments says which cloud and which cluster.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    for variable in [
        "HTTPS_PROXY",
        "https_proxy",
        "KUBERNETES_SERVICE_HOST",
        "OS_CLOUD",
        "OS_AUTH_URL",
        "OS_PROJECT_ID",
    ] {
        command.env_remove(variable);
    }
    command.arg("controller").args(arguments).stdin(Stdio::null());
    command
}

/// Runs it on a folder of manifests.
pub(crate) fn controller(folder: &Path, arguments: &[&str]) -> Ran {
    let source = ["--source", folder.to_str().unwrap()];
    command(&source).args(arguments).output().unwrap().into()
}
