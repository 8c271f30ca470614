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
    versions: Family<Kind, Gauge>,
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
        self.set_versions(status);
    }

    /// Versions are opaque to who asks Kubernetes: one that is no number cannot be shown.
    fn set_versions(&self, status: &Status) {
        self.versions.clear();
        let pods = status.pods.as_ref().map(|pods| &pods.versions);
        for (kind, version) in pods.unwrap_or(&status.host.versions) {
            let Ok(version) = version.parse() else {
                continue;
            };
            let kind = kind.to_string();
            self.versions.get_or_create(&Kind { kind }).set(version);
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
            (
                "version_in_force",
                "the resourceVersion up to which changes of a kind are in force",
                &self.versions,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use smol_str::SmolStr;

    use super::*;
    use crate::metrics::Metrics;
    use crate::pods::PodsStatus;

    fn versions(all: &[(&str, &str)]) -> BTreeMap<SmolStr, SmolStr> {
        all.iter()
            .map(|(kind, version)| ((*kind).into(), (*version).into()))
            .collect()
    }

    #[track_caller]
    fn check(metrics: &Metrics, status: &Status, expected: &[&str]) {
        let text = metrics.text(status, None).unwrap();
        let shown: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("picket_version_in_force"))
            .collect();
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn versions_are_those_in_force_now_on_the_node_or_in_its_pods() {
        let metrics = Metrics::default();
        let mut status = Status::default();
        check(&metrics, &status, &[]);
        status.host.versions = versions(&[("nodes", "7"), ("pods", "opaque")]);
        check(&metrics, &status, &["{kind=\"nodes\"} 7"]);
        status.host.versions = versions(&[("pods", "9")]);
        check(&metrics, &status, &["{kind=\"pods\"} 9"]);
        status.pods = Some(PodsStatus {
            versions: versions(&[("pods", "12")]),
            ..PodsStatus::default()
        });
        check(&metrics, &status, &["{kind=\"pods\"} 12"]);
    }
}
