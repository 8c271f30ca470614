//! Whether what is denied in one sandbox is heard.

use std::time::Instant;

use picket_linux::NetworkNamespace;
use picket_linux::runtime::Sandbox;

use super::{Hearing, Listener};
use crate::retry::Retry;

/// The log of one sandbox.
#[derive(Default)]
pub(in crate::pods) struct Logging {
    hearing: Option<Hearing>,
    failure: Option<(String, Retry)>,
}

impl Logging {
    /// Hears what is denied there from now on, if it is not heard yet and it is not too soon to try again. What goes wrong is
    /// told once.
    pub(in crate::pods) fn keep(
        &mut self,
        listener: &Listener,
        sandbox: &Sandbox,
        namespace: &NetworkNamespace,
        now: Instant,
    ) {
        if let Some(why) = self.hearing.as_ref().and_then(Hearing::failure) {
            self.hearing = None;
            self.fail(why, sandbox, now);
        }
        let is_too_soon = self.failure.as_ref().is_some_and(|(_, retry)| retry.at > now);
        if self.hearing.is_some() || is_too_soon {
            return;
        }
        match listener.hear(&sandbox.id, namespace) {
            Ok(hearing) => {
                self.hearing = Some(hearing);
                if self.failure.take().is_some() {
                    tracing::info!(pod = pod(sandbox), "denied connections of a pod are logged now");
                }
            }
            Err(error) => self.fail(error.to_string(), sandbox, now),
        }
    }

    /// Hears nothing there any more.
    pub(in crate::pods) fn end(&mut self) {
        *self = Self::default();
    }

    /// Why nothing is heard, if that is so though it should not be.
    pub(in crate::pods) fn failure(&self) -> Option<&str> {
        self.failure.as_ref().map(|(why, _)| why.as_str())
    }

    fn fail(&mut self, why: String, sandbox: &Sandbox, now: Instant) {
        if self.failure.is_none() {
            tracing::warn!(
                pod = pod(sandbox),
                error = why,
                "denied connections of a pod are not logged"
            );
        }
        let before = self.failure.take().map(|(_, retry)| retry);
        self.failure = Some((why, Retry::after(before, now)));
    }
}

fn pod(sandbox: &Sandbox) -> String {
    format!("{}/{}", sandbox.namespace, sandbox.name)
}
