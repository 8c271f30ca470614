//! Reading manifests.

use std::io;

use picket_cluster::Semantics;
use picket_engine::Engine;
use picket_source::{Loaded, Options};

use crate::arguments::Input;
use crate::output::Outcome;
use crate::report;

/// Reads everything that `input` names.
pub(crate) fn load(input: &Input) -> anyhow::Result<Loaded> {
    let options = Options {
        strict_cidr: input.strict_cidr,
    };
    Ok(picket_source::load(
        &input.paths,
        &mut io::stdin().lock(),
        options,
    )?)
}

/// Reads everything that `input` names and reports what is wrong with it, for commands that build something from it.
///
/// # Errors
/// Also when a file cannot be parsed: what it holds may be the policy that matters.
pub(crate) fn load_whole(input: &Input) -> anyhow::Result<Loaded> {
    let loaded = load(input)?;
    report::on_stderr(&loaded);
    if let Some(file) = loaded.unparsable.first() {
        anyhow::bail!("`{file}` cannot be parsed, and may hold pods or policies: mend it first");
    }
    Ok(loaded)
}

/// Compiles what was read.
pub(crate) fn compile(loaded: &Loaded, semantics: Semantics) -> Engine {
    Engine::compile(&loaded.snapshot, semantics)
}

/// How a command ends that answered from what was read: files that cannot be parsed may hold anything, so that no
/// answer is more than an answer about the rest.
pub(crate) fn ended(loaded: &Loaded, outcome: Outcome) -> Outcome {
    if loaded.unparsable.is_empty() {
        outcome
    } else {
        Outcome::Unanswered
    }
}
