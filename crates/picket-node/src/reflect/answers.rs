//! Answers about how a reflector goes.

use std::fmt;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use picket_source::{Health, Reflected, ReflectorState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::serve::{Answer, Door, Pulse, Respond, not_listed, plain, typed};

/// What there is to answer from.
#[derive(Clone)]
pub(super) struct Answers {
    pub(super) health: Health,
    pub(super) reflected: Reflected,
    pub(super) pulse: Pulse,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: String,
}

impl Respond for Answers {
    async fn respond(&self, _: Door, request: Request<Incoming>) -> Answer {
        if request.method() != Method::GET {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        match request.uri().path() {
            "/healthz" if self.pulse.beats() => plain(StatusCode::OK, "ok\n"),
            "/healthz" => plain(StatusCode::SERVICE_UNAVAILABLE, "stuck\n"),
            "/readyz" => self.ready(),
            "/metrics" => match self.metrics() {
                Ok(text) => typed(
                    "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    text.into_bytes(),
                ),
                Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
            },
            _ => plain(StatusCode::NOT_FOUND, "not found\n"),
        }
    }
}

impl Answers {
    /// Ready is who keeps etcd as the cluster is, and who would if another did not.
    fn ready(&self) -> Answer {
        let state = self.reflected.state();
        if state.leader.is_some() || state.epoch.is_some() && state.time.is_some() {
            return plain(StatusCode::OK, "ok\n");
        }
        let why = state.trouble.unwrap_or_else(|| {
            let kinds = self.health.kinds();
            let kinds = kinds.iter().map(|(kind, state)| (kind, state.complete));
            not_listed(kinds).unwrap_or_else(|| "etcd is not yet as the cluster is".to_owned())
        });
        plain(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n"))
    }

    fn metrics(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("picket_reflector");
        register(&self.reflected.state(), &mut registry);
        let complete = Family::<Kind, Gauge>::default();
        let failures = Family::<Kind, Gauge>::default();
        for (kind, health) in self.health.kinds() {
            let kind = Kind { kind };
            complete.get_or_create(&kind).set(health.complete.into());
            let count = i64::try_from(health.failures).unwrap_or(i64::MAX);
            failures.get_or_create(&kind).set(count);
        }
        registry.register(
            "source_complete",
            "whether all objects of a kind are known",
            complete,
        );
        registry.register(
            "source_failures",
            "how often the API server did not answer, or not as it should",
            failures,
        );
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

fn register(state: &ReflectorState, registry: &mut Registry) {
    let objects = i64::try_from(state.objects).unwrap_or(i64::MAX);
    let time = state.time.map_or(0, jiff::Timestamp::as_second);
    for (name, help, value) in [
        (
            "leading",
            "whether this reflector writes",
            i64::from(state.epoch.is_some()),
        ),
        ("objects", "objects that are kept in etcd", objects),
        (
            "reflected_timestamp_seconds",
            "when this reflector last said that everything is in etcd",
            time,
        ),
    ] {
        registry.register(name, help, ConstGauge::new(value));
    }
    for (name, help, value) in [
        ("puts", "records that were written", state.puts),
        ("deletions", "records that were deleted", state.deletions),
        (
            "transactions",
            "transactions that wrote something",
            state.transactions,
        ),
        (
            "passes",
            "how often all of etcd was compared with the cluster",
            state.passes,
        ),
        (
            "failures",
            "how often etcd did not answer, or not as it should",
            state.failures,
        ),
        (
            "too_large",
            "records that etcd did not take because of their size",
            state.too_large,
        ),
    ] {
        registry.register(name, help, ConstCounter::new(value));
    }
}
