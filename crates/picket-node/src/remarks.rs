//! What is said about the objects of a cluster besides what they are.

use std::collections::BTreeMap;

use picket_policy::{Diagnostic, ObjectRef};
use smol_str::SmolStr;

use crate::status::Finding;

/// What is wrong with objects, and how far their changes are known.
#[derive(Default)]
pub(crate) struct Remarks {
    diagnoses: BTreeMap<ObjectRef, Vec<Diagnostic>>,
    /// By resource, up to which version of the API server all changes are known.
    pub(crate) versions: BTreeMap<SmolStr, SmolStr>,
}

impl Remarks {
    /// From now on this is wrong with an object. It is logged.
    pub(crate) fn diagnose(&mut self, object: ObjectRef, diagnostics: Vec<Diagnostic>) {
        for diagnostic in &diagnostics {
            tracing::warn!(%object, code = diagnostic.code.0, "{}", diagnostic.message);
        }
        if diagnostics.is_empty() {
            tracing::info!(%object, "nothing is wrong with it any more");
            self.diagnoses.remove(&object);
        } else {
            self.diagnoses.insert(object, diagnostics);
        }
    }

    /// What is wrong, for people.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let found = self.diagnoses.iter();
        let found = found.flat_map(|(object, all)| all.iter().map(|one| Finding::new(object, one)));
        found.collect()
    }
}
