//! Numbers for those who watch a controller, as Prometheus reads them.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::status::Status;

/// What is counted and measured. Clones share their values.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    calls: Family<Call, Counter>,
    call_times: Histogram,
    steps: Family<Call, Counter>,
    latency: Histogram,
    reads: Histogram,
    drift: Counter,
    written: Family<Call, Counter>,
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.005, 2.0, 16));
        Self {
            calls: Family::default(),
            call_times: seconds(),
            steps: Family::default(),
            latency: seconds(),
            reads: seconds(),
            drift: Counter::default(),
            written: Family::default(),
        }
    }
}

impl Metrics {
    /// Counts a call to the cloud.
    pub(crate) fn called(&self, kind: &'static str, outcome: &'static str, took: Duration) {
        self.calls.get_or_create(&Call { kind, outcome }).inc();
        self.call_times.observe(took.as_secs_f64());
    }

    /// Counts a step of a plan.
    pub(crate) fn step(&self, kind: &'static str, outcome: &'static str) {
        self.steps.get_or_create(&Call { kind, outcome }).inc();
    }

    /// Notes how long it was from when a change was heard until it was in force.
    pub(crate) fn enforced(&self, after: Duration) {
        self.latency.observe(after.as_secs_f64());
    }

    /// Notes how long it took to read everything.
    pub(crate) fn read(&self, took: Duration) {
        self.reads.observe(took.as_secs_f64());
    }

    /// Counts something that others had changed, and that is as it should be again.
    pub(crate) fn repaired(&self) {
        self.drift.inc();
    }

    /// Counts what was written into the cluster.
    pub(crate) fn written(&self, kind: &'static str, outcome: &'static str) {
        self.written.get_or_create(&Call { kind, outcome }).inc();
    }

    /// All of them, with what a status says.
    pub(crate) fn text(&self, status: &Status) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("picket_controller");
        self.register(&mut registry);
        register_status(status, &mut registry);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn register(&self, registry: &mut Registry) {
        for (name, help, family) in [
            ("calls", "calls to the cloud", &self.calls),
            ("steps", "steps of plans that were begun", &self.steps),
            (
                "written",
                "what was to be written into the cluster",
                &self.written,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
        for (name, help, histogram) in [
            ("call", "how long a call to the cloud took", &self.call_times),
            (
                "enforce",
                "from when a change was heard until it was in force",
                &self.latency,
            ),
            (
                "read",
                "how long it took to read all that the cloud has",
                &self.reads,
            ),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        registry.register(
            "drift_repaired",
            "steps that undid what others had changed",
            self.drift.clone(),
        );
    }
}

fn register_status(status: &Status, registry: &mut Registry) {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let troubled = status.policies.iter().filter(|policy| !policy.ready).count();
    for (name, help, value) in [
        (
            "leading",
            "whether this controller leads",
            i64::from(status.lease.leads),
        ),
        (
            "ready",
            "whether the policies have been in force once",
            i64::from(status.ready),
        ),
        (
            "lease_remaining_seconds",
            "how long no other controller can lead",
            i64::try_from(status.lease.remaining_seconds).unwrap_or(i64::MAX),
        ),
        (
            "pods_pending",
            "pods that have no port yet",
            number(status.pending.len()),
        ),
        (
            "ports_unenforced",
            "pods at a port of which no group counts, or other groups do",
            number(status.unenforced.len()),
        ),
        (
            "objects_failing",
            "groups and ports that cannot be changed",
            number(status.failures.len()),
        ),
        (
            "policies",
            "policies of the cluster",
            number(status.policies.len()),
        ),
        (
            "policies_waiting",
            "policies that are not in force as they are",
            number(troubled),
        ),
        (
            "current_timestamp_seconds",
            "when the cloud was last known to have what the policies say",
            status.current.map_or(0, jiff::Timestamp::as_second),
        ),
        (
            "synchronized_timestamp_seconds",
            "when all that the cloud has was last read",
            status.synchronized.map_or(0, jiff::Timestamp::as_second),
        ),
    ] {
        registry.register(name, help, ConstGauge::new(value));
    }
    let complete = Family::<Kind, Gauge>::default();
    for (kind, health) in &status.source {
        let kind = Kind { kind: kind.clone() };
        complete.get_or_create(&kind).set(health.complete.into());
    }
    registry.register(
        "source_complete",
        "whether all objects of a kind are known",
        complete,
    );
}
