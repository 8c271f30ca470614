//! Numbers for those who watch many agents, as Prometheus reads them.

use std::fmt;
use std::time::Duration;

use picket_linux::runtime::Learned;
use picket_nftables::verify::{Report, VerifyError};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::drops::Dropped;
use crate::kinds::Kinds;
use crate::overview::Overview;
use crate::status::{ReflectionStatus, Status};

/// How many policies that are not in force are named: who watches many agents keeps a series for each.
const MOST_NAMED: usize = 100;

/// What is counted and measured. Clones share their values.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// From when a change was heard until the kernel had it.
    pub(crate) latency: Histogram,
    /// Working out the table of the node, or those of its pods.
    pub(crate) rendering: Histogram,
    /// Reading and writing it, or that of one pod.
    pub(crate) writing: Histogram,
    /// Changes to tables, in the kernel's own steps.
    pub(crate) operations: Counter,
    /// What the table of the node holds, or those of its pods together.
    pub(crate) objects: Family<ObjectKind, Gauge>,
    /// How often the table could not be made as it should be.
    pub(crate) failures: Family<Reason, Counter>,
    /// How often others had changed the table.
    pub(crate) repaired: Counter,
    /// Sandboxes of pods that came, by how the agent learned of them.
    pub(crate) sandboxes: Family<Source, Counter>,
    /// Connections that were cut because policies deny them.
    pub(crate) cut: Counter,
    /// How often denied packets are missing from the log.
    pub(crate) unlogged: Counter,
    /// What became of what was to be told as Events of Kubernetes.
    pub(crate) events: Family<Outcome, Counter>,
    /// How often a target other than the table of the node could not be made what the policies say.
    pub(crate) target_failures: Family<TargetName, Counter>,
    /// What other targets were asked to change.
    pub(crate) target_operations: Family<TargetName, Counter>,
    /// From when a change was heard until another target had it.
    pub(crate) target_latency: Family<TargetName, Histogram, fn() -> Histogram>,
    /// Proofs that the table means what the policies say.
    pub(crate) proofs: Family<Outcome, Counter>,
    /// How long a proof takes.
    pub(crate) proving: Histogram,
    /// What [`Status`] says, at the moment when somebody asks.
    shown: Shown,
}

/// Values that are set when somebody asks.
#[derive(Clone, Debug, Default)]
struct Shown {
    ready: Gauge,
    current: Gauge,
    waiting: Gauge,
    waiting_policies: Family<PolicyName, Gauge>,
    pods: Gauge,
    restricted: Gauge,
    policies: Gauge,
    custom_rules: Gauge,
    bypassed_bridges: Gauge,
    findings: Gauge,
    target_ready: Family<VppName, Gauge>,
    target_connected: Family<VppName, Gauge>,
    target_current: Family<VppName, Gauge>,
    target_pending: Family<VppName, Gauge>,
    kinds: Kinds,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ObjectKind {
    pub(crate) object: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Reason {
    pub(crate) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Outcome {
    pub(crate) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Source {
    learned: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TargetName {
    pub(crate) target: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyName {
    kind: String,
    namespace: String,
    name: String,
}

impl PolicyName {
    /// The policy of which a status speaks so.
    fn of(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ')?;
        let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
        Some(Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VppName {
    target: String,
}

/// Buckets from 100 µs to about 13 s.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 18))
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            latency: durations(),
            rendering: durations(),
            writing: durations(),
            operations: Counter::default(),
            objects: Family::default(),
            failures: Family::default(),
            repaired: Counter::default(),
            sandboxes: Family::default(),
            cut: Counter::default(),
            unlogged: Counter::default(),
            events: Family::default(),
            target_failures: Family::default(),
            target_operations: Family::default(),
            target_latency: Family::new_with_constructor(durations),
            proofs: Family::default(),
            proving: durations(),
            shown: Shown::default(),
        }
    }
}

impl Metrics {
    /// The metrics in the text form of OpenMetrics.
    pub(crate) fn text(&self, status: &Status, dropped: Option<Dropped>) -> Result<String, fmt::Error> {
        self.shown.set(status);
        let mut registry = Registry::with_prefix("picket");
        self.register(&mut registry);
        self.shown.register(&mut registry);
        if let Some(dropped) = dropped {
            registry.register_collector(Box::new(dropped));
        }
        if let Some(reflection) = &status.reflection {
            register_reflection(reflection, &mut registry);
        }
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn register(&self, registry: &mut Registry) {
        let durations = [
            (
                "event_to_kernel",
                "from when a change was heard until the kernel had it",
                &self.latency,
            ),
            ("render", "working out tables", &self.rendering),
            ("write", "reading and writing a table", &self.writing),
            (
                "verify",
                "proving that the table means what the policies say",
                &self.proving,
            ),
        ];
        for (name, help, histogram) in durations {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        registry.register("operations", "changes to tables", self.operations.clone());
        registry.register("table_objects", "what tables hold", self.objects.clone());
        registry.register(
            "failures",
            "how often the table could not be made what the policies say; what was in force stayed",
            self.failures.clone(),
        );
        registry.register(
            "drift_repaired",
            "how often others had changed the table and it was changed back",
            self.repaired.clone(),
        );
        registry.register(
            "sandboxes",
            "sandboxes of pods that came, by how the agent learned of them",
            self.sandboxes.clone(),
        );
        registry.register(
            "connections_cut",
            "established connections that were cut because policies deny them",
            self.cut.clone(),
        );
        registry.register(
            "denied_unlogged",
            "how often there was no room for what the rules log of denied packets, so that it is missing from the log",
            self.unlogged.clone(),
        );
        registry.register(
            "events",
            "what was wrong with objects and was to be written as Events of Kubernetes",
            self.events.clone(),
        );
        self.register_targets(registry);
        registry.register(
            "verifications",
            "proofs that the table means what the policies say",
            self.proofs.clone(),
        );
    }
}

impl Metrics {
    fn register_targets(&self, registry: &mut Registry) {
        registry.register(
            "target_failures",
            "how often a target in VPP could not be made what the policies say",
            self.target_failures.clone(),
        );
        registry.register(
            "target_operations",
            "requests by which a target in VPP was changed",
            self.target_operations.clone(),
        );
        registry.register_with_unit(
            "event_to_target",
            "from when a change was heard until a target in VPP had it",
            Unit::Seconds,
            self.target_latency.clone(),
        );
    }
}

/// How fresh is what was read of etcd.
fn register_reflection(reflection: &ReflectionStatus, registry: &mut Registry) {
    let reflected = reflection.reflected.map_or(0, jiff::Timestamp::as_second);
    for (name, help, value) in [
        (
            "source_revision",
            "the revision of etcd up to which everything is known",
            reflection.revision,
        ),
        (
            "source_behind_revisions",
            "how many revisions there were after that when etcd was last asked",
            reflection.behind,
        ),
        (
            "source_reflected_timestamp_seconds",
            "when a reflector last said that everything it knows is in etcd",
            reflected,
        ),
    ] {
        let gauge = Gauge::<i64>::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    }
}

impl Shown {
    fn set(&self, status: &Status) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.ready.set(i64::from(status.ready));
        let overview = Overview::from(status);
        let current = overview.current.map_or(0, jiff::Timestamp::as_second);
        self.current.set(current);
        self.waiting.set(number(overview.waiting.len()));
        self.waiting_policies.clear();
        let waiting = overview.waiting.iter().take(MOST_NAMED);
        for policy in waiting.filter_map(|policy| PolicyName::of(policy)) {
            self.waiting_policies.get_or_create(&policy).set(1);
        }
        self.pods.set(number(overview.pods.all));
        self.restricted.set(number(overview.pods.restricted));
        self.policies.set(number(overview.policies));
        self.custom_rules.set(number(overview.custom_rules));
        self.bypassed_bridges.set(number(status.host.notes.len()));
        self.findings.set(number(status.findings.len()));
        for (target, vpp) in &status.vpp {
            let name = || VppName {
                target: target.clone(),
            };
            let current = vpp.current.map_or(0, jiff::Timestamp::as_second);
            self.target_ready.get_or_create(&name()).set(i64::from(vpp.ready));
            let connected = i64::from(vpp.connected);
            self.target_connected.get_or_create(&name()).set(connected);
            self.target_current.get_or_create(&name()).set(current);
            let pending = number(vpp.pending.len());
            self.target_pending.get_or_create(&name()).set(pending);
        }
        self.kinds.set(status);
    }

    fn register(&self, registry: &mut Registry) {
        let gauges = [
            (
                "ready",
                "whether the policies have been in force once",
                &self.ready,
            ),
            (
                "current_timestamp_seconds",
                "when the table was last known to be what the policies say",
                &self.current,
            ),
            (
                "policies_waiting",
                "policies that changed and are not in force",
                &self.waiting,
            ),
            ("pods", "pods of the node that policies can apply to", &self.pods),
            (
                "pods_restricted",
                "pods of the node that policies do apply to",
                &self.restricted,
            ),
            (
                "policies",
                "policies because of which packets can be dropped",
                &self.policies,
            ),
            (
                "custom_rules_waiting",
                "files of custom rules that are not in force as they now are",
                &self.custom_rules,
            ),
            (
                "bypassed_bridges",
                "bridges at which pods of the node reach each other past all policies, by version of IP",
                &self.bypassed_bridges,
            ),
            (
                "findings",
                "what is wrong with objects of the cluster",
                &self.findings,
            ),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        self.register_targets(registry);
        registry.register(
            "policy_waiting",
            "a policy that changed and is not in force; not of each where there are many",
            self.waiting_policies.clone(),
        );
        self.kinds.register(registry);
    }

    fn register_targets(&self, registry: &mut Registry) {
        for (name, help, family) in [
            (
                "target_ready",
                "whether the policies have been in force once in a target in VPP",
                &self.target_ready,
            ),
            ("target_connected", "whether VPP answers", &self.target_connected),
            (
                "target_current_timestamp_seconds",
                "when a target in VPP was last known to be what the policies say",
                &self.target_current,
            ),
            (
                "target_pods_pending",
                "pods of the node for which VPP has nothing yet",
                &self.target_pending,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
    }
}

impl Metrics {
    /// Counts a failure.
    pub(crate) fn failed(&self, reason: &'static str) {
        self.failures.get_or_create(&Reason { reason }).inc();
    }

    /// Counts changes to a table.
    pub(crate) fn changed(&self, operations: usize) {
        let operations = u64::try_from(operations).unwrap_or(u64::MAX);
        self.operations.inc_by(operations);
    }

    /// Counts a sandbox that came.
    pub(crate) fn found_by(&self, learned: Learned) {
        let learned = match learned {
            Learned::Event => "event",
            Learned::Asking => "asking",
        };
        self.sandboxes.get_or_create(&Source { learned }).inc();
    }

    /// Counts what became of an Event of Kubernetes.
    pub(crate) fn event(&self, outcome: &'static str) {
        self.events.get_or_create(&Outcome { outcome }).inc();
    }

    /// Counts a proof, what came of it and how long it took.
    pub(crate) fn proved(&self, outcome: &Result<Report, VerifyError>, took: Duration) {
        let outcome = match outcome {
            Ok(report) if report.is_proof() => "proved",
            Ok(report) if report.is_open() => "given up",
            _ => "refuted",
        };
        self.proofs.get_or_create(&Outcome { outcome }).inc();
        Self::took(&self.proving, took);
    }

    /// Notes how long something took.
    pub(crate) fn took(histogram: &Histogram, duration: Duration) {
        histogram.observe(duration.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use picket_source::Freshness;

    use super::*;

    #[test]
    fn how_far_who_reads_etcd_is_behind_is_a_number_that_rises_and_falls() {
        let metrics = Metrics::default();
        for behind in [0, 7, 50, 0] {
            let freshness = Freshness {
                revision: 40,
                behind,
                reflection: None,
            };
            let status = Status {
                reflection: Some(freshness.into()),
                ..Status::default()
            };
            let text = metrics.text(&status, None).unwrap();
            for line in [
                format!("picket_source_behind_revisions {behind}\n"),
                "picket_source_revision 40\n".to_owned(),
            ] {
                assert!(text.contains(&line), "{line}{text}");
            }
        }
    }
}
