//! What metrics say of each kind of objects.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::status::Status;

/// Values for each kind, which are set when somebody asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    complete: Family<Kind, Gauge>,
    failures: Family<Kind, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: String,
}

impl Kinds {
    /// What is so now.
    pub(crate) fn set(&self, status: &Status) {
        // Kinds come and go.
        self.complete.clear();
        self.failures.clear();
        for (kind, health) in &status.source {
            let kind = || Kind { kind: kind.clone() };
            self.complete
                .get_or_create(&kind())
                .set(i64::from(health.complete));
            let failures = i64::try_from(health.failures).unwrap_or(i64::MAX);
            self.failures.get_or_create(&kind()).set(failures);
        }
    }

    /// Shows them.
    pub(crate) fn register(&self, registry: &mut Registry) {
        for (name, help, family) in [
            (
                "source_complete",
                "whether all objects of a kind are known",
                &self.complete,
            ),
            (
                "source_failures",
                "how often the API server did not answer, or not as it should",
                &self.failures,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
    }
}
