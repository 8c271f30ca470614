//! Against a real Neutron.

mod killed;
mod live;
mod once;
mod told;
mod walk;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use picket_testing::ran::Ran;
use serde_json::Value;

/// `picket` where nothing but its arguments says which cloud and which cluster.
pub(crate) fn picket(arguments: &[&str]) -> Command {
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
    command.args(arguments).stdin(Stdio::null());
    command
}

/// `picket controller`, the same way.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = picket(&["controller"]);
    command.args(arguments);
    command
}

/// Runs it on a folder of manifests.
pub(crate) fn controller(folder: &Path, arguments: &[&str]) -> Ran {
    let source = ["--source", folder.to_str().unwrap()];
    command(&source).args(arguments).output().unwrap().into()
}

/// Holds JSON against a schema of `docs/schema`.
#[track_caller]
pub(crate) fn expect_schema(name: &str, answer: &Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let schema = fs::read_to_string(folder.join(format!("{name}.schema.json"))).unwrap();
    let validator = jsonschema::validator_for(&schema.parse().unwrap()).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(answer)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{answer:#}");
}
