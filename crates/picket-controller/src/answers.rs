//! Answers about how a controller goes.
//!
//! | path | at | answer |
//! |---|---|---|
//! | `/healthz` | both | 200 while it works, 503 when it has not come round for long |
//! | `/readyz` | both | 200 once the policies have been in force, or while another leads and this one could take over; 503 before |
//! | `/metrics` | both | numbers for Prometheus |
//! | `/status` | the socket | [`Status`](crate::Status) as JSON |

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use picket_node::{Answer, Door, Pulse, Respond, json, not_listed, plain, typed};

use crate::metrics::Metrics;
use crate::status::Shared;

/// What there is to answer from.
#[derive(Clone)]
pub(crate) struct Answers {
    pub(crate) shared: Shared,
    pub(crate) metrics: Metrics,
    pub(crate) pulse: Pulse,
}

impl Respond for Answers {
    async fn respond(&self, door: Door, request: Request<Incoming>) -> Answer {
        if request.method() != Method::GET {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        self.answer(door, request.uri().path())
    }
}

impl Answers {
    fn answer(&self, door: Door, path: &str) -> Answer {
        match path {
            "/healthz" if self.pulse.beats() => plain(StatusCode::OK, "ok\n"),
            "/healthz" => plain(StatusCode::SERVICE_UNAVAILABLE, "stuck\n"),
            "/readyz" => self.ready(),
            "/metrics" => match self.metrics.text(&self.shared.status()) {
                Ok(text) => typed(
                    "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    text.into_bytes(),
                ),
                Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
            },
            "/status" if door == Door::Socket => json(&self.shared.status()),
            _ => plain(StatusCode::NOT_FOUND, "not found\n"),
        }
    }

    fn ready(&self) -> Answer {
        let status = self.shared.status();
        if status.ready {
            return plain(StatusCode::OK, "ok\n");
        }
        let kinds = status.source.iter().map(|(kind, state)| (kind, state.complete));
        let why = not_listed(kinds).or(status.trouble).or(status.lease.trouble);
        let why = why.unwrap_or_else(|| "the policies are not in force yet".to_owned());
        plain(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n"))
    }
}
