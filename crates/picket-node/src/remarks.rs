//! What is said about the objects of a cluster besides what they are.

use std::collections::BTreeMap;

use picket_policy::{Diagnostic, ObjectRef, Severity};
use smol_str::SmolStr;

use crate::events::{Events, Reason};
use crate::status::Finding;
use crate::versions::Readings;
use crate::vpp::Known;

/// What is wrong with objects, and how far their changes are known.
pub(crate) struct Remarks {
    /// By the names of the objects, without their uids.
    diagnoses: BTreeMap<ObjectRef, Vec<Diagnostic>>,
    events: Events,
    /// By resource, up to which version of the API server all changes are known.
    pub(crate) versions: BTreeMap<SmolStr, SmolStr>,
    /// In which versions policies were read.
    pub(crate) readings: Readings,
}

impl Remarks {
    /// None yet.
    pub(crate) fn new(events: Events) -> Self {
        Self {
            diagnoses: BTreeMap::new(),
            events,
            versions: BTreeMap::new(),
            readings: Readings::default(),
        }
    }

    /// From now on this is wrong with an object. It is logged, and errors that are new are told as an Event.
    pub(crate) fn diagnose(&mut self, object: ObjectRef, diagnostics: Vec<Diagnostic>) {
        for diagnostic in &diagnostics {
            tracing::warn!(%object, code = diagnostic.code.0, "{}", diagnostic.message);
        }
        let named = ObjectRef::new(&object.kind, &object.namespace, &object.name);
        let errors = errors(&diagnostics);
        self.readings.errors(&object, &errors);
        if diagnostics.is_empty() {
            tracing::info!(%object, "nothing is wrong with it any more");
            self.diagnoses.remove(&named);
            return;
        }
        let before = self.diagnoses.insert(named, diagnostics);
        if !errors.is_empty() && before.is_none_or(|before| self::errors(&before) != errors) {
            self.events.tell(&object, Reason::Unenforceable, &errors);
        }
    }

    /// How far changes are known.
    pub(crate) fn known(&self) -> Known {
        Known {
            versions: self.versions.clone(),
            unreadable: self.readings.unreadable(),
        }
    }

    /// What is wrong, for people.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let found = self.diagnoses.iter();
        let found = found.flat_map(|(object, all)| all.iter().map(|one| Finding::new(object, one)));
        found.collect()
    }
}

/// The errors among diagnostics, in a line; empty without any.
fn errors(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|one| one.severity == Severity::Error);
    let told = errors.map(|one| match one.field.as_str() {
        "" => format!("{}: {}", one.code.0, one.message),
        field => format!("{}: {field}: {}", one.code.0, one.message),
    });
    told.collect::<Vec<_>>().join("; ")
}
