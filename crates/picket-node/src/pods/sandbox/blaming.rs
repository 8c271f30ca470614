//! What the kernel refuses in one sandbox, and because of whom.

use std::time::Instant;

use picket_nftables::client::SyncError;
use picket_nftables::render::documented;
use picket_policy::ObjectRef;

use super::Place;
use crate::error::reason;
use crate::metrics::Metrics;
use crate::pods::blame::{Blame, Suspect, Suspects};
use crate::pods::cutting::Order;
use crate::pods::held::{Held, Substitute};
use crate::pods::network::Networks;

impl Place {
    /// The kernel does not take the rules: it remains to find out because of whom. Meanwhile those stay that are there; where
    /// there are none, whoever may be to blame is held back now.
    ///
    /// # Errors
    /// The same error where no policy can be to blame.
    pub(super) fn refused(
        &mut self,
        error: SyncError,
        networks: &Networks,
        metrics: &Metrics,
    ) -> Result<Option<Order>, SyncError> {
        if !matches!(error, SyncError::Apply(_)) {
            return Err(error);
        }
        let client = self.client();
        let is_there = client.is_ok_and(|client| client.exists(&documented::table_name()).is_ok_and(|is| is));
        if is_there {
            self.note_failure(&error);
            self.search.begin(error);
            return Ok(None);
        }
        self.search.begin(error);
        Blame::new(self, networks, metrics).clear()
    }

    /// Whether nobody is held back yet because of what was refused last.
    pub(in crate::pods) fn is_unsearched(&self) -> bool {
        !self.is_left && self.search.is_ahead() && self.is_sayable()
    }

    /// Whether it waits for its turn to find out which policies are to blame.
    pub(in crate::pods) fn is_searching(&self) -> bool {
        !self.is_left && !self.search.is_over() && self.failure.is_none() && self.is_sayable()
    }

    /// Since when it does: since now, if nobody has asked before.
    pub(in crate::pods) fn searches_since(&mut self, now: Instant) -> Option<Instant> {
        self.is_searching().then(|| self.search.since(now))
    }

    fn is_sayable(&self) -> bool {
        self.desired
            .as_ref()
            .is_some_and(|desired| !desired.is_unsayable())
    }

    /// Holds back whoever may be to blame for what was refused last. Gives what is in force where something else may have been before.
    pub(in crate::pods) fn clear(&mut self, networks: &Networks, metrics: &Metrics) -> Option<Order> {
        let cleared = Blame::new(self, networks, metrics).clear();
        self.ended(cleared, metrics)
    }

    /// Goes on for a while to find out which policies are to blame. Gives what is in force where something else may have been
    /// before.
    pub(in crate::pods) fn go_on(&mut self, networks: &Networks, metrics: &Metrics) -> Option<Order> {
        let gone_on = Blame::new(self, networks, metrics).go_on();
        self.ended(gone_on, metrics)
    }

    /// The policies that came, or have other rules, since the kernel took the rules last.
    pub(in crate::pods) fn suspects(&mut self) -> Suspects {
        self.confirm();
        let in_force = self.in_force.clone().unwrap_or_default();
        let Some(desired) = &self.desired else {
            return Suspects::default();
        };
        let mut suspects = in_force.suspects(desired);
        let as_before = self.held.as_before();
        let others = as_before.filter(|suspect| in_force.differs(&suspect.policy, desired));
        suspects.others.extend(others);
        suspects
    }

    /// Who is held back, for [`Place::hold_again`].
    pub(in crate::pods) fn held(&self) -> Held {
        self.held.clone()
    }

    /// Holds those back again that were, and nobody else.
    pub(in crate::pods) fn hold_again(&mut self, held: Held) {
        self.held = held;
    }

    /// Holds a policy back, until something else is said.
    pub(in crate::pods) fn hold_back(&mut self, suspect: &Suspect, error: &SyncError) {
        let Suspect {
            policy,
            says,
            substitute,
            ..
        } = suspect.clone();
        self.held.hold(policy, says, substitute, error);
    }

    /// Whether a policy is held back.
    pub(in crate::pods) fn holds_back(&self, policy: &ObjectRef) -> bool {
        self.held.holds(policy)
    }

    /// Holds a policy back because of which the rules were refused.
    pub(in crate::pods) fn blame(&mut self, suspect: &Suspect, error: &SyncError, metrics: &Metrics) {
        metrics.failed(reason(error));
        let (pod, policy) = (self.pod(), &suspect.policy);
        tracing::error!(pod, %policy, %error, "a policy of a pod is not in force, because the kernel refuses it");
        self.hold_back(suspect, error);
    }

    /// Lets something else hold in the place of a policy that is held back.
    pub(in crate::pods) fn hold_as(&mut self, policy: &ObjectRef, substitute: Substitute) {
        self.held.hold_as(policy, substitute);
    }

    /// Lets a policy be as it should.
    pub(in crate::pods) fn let_go(&mut self, policy: &ObjectRef) {
        self.held.release(policy);
    }
}
