//! Reading manifests.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_cluster::Snapshot;
use picket_policy::Diagnostic;

use crate::arguments::Input;

/// What the manifests of one run say.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The objects.
    pub(crate) snapshot: Snapshot,
    /// What is wrong with them, in the order of their places.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The text of each file, for showing places.
    pub(crate) texts: BTreeMap<Arc<str>, Arc<str>>,
}

/// Reads everything that `input` names.
pub(crate) fn load(input: &Input) -> anyhow::Result<Loaded> {
    let options = picket_source::Options {
        strict_cidr: input.strict_cidr,
    };
    let loaded = picket_source::load(&input.paths, &mut std::io::stdin(), options)?;
    Ok(Loaded {
        snapshot: loaded.snapshot,
        diagnostics: loaded.diagnostics,
        texts: loaded.sources,
    })
}
