//! Reading manifests.

use std::io;

use picket_cluster::Semantics;
use picket_engine::Engine;
use picket_source::{Loaded, Options};

use crate::arguments::Input;
use crate::output::Outcome;

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
