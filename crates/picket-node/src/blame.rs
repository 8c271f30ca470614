//! Policies because of which the kernel does not take the table: they stay as they were, and everything else is in force.

use picket_engine::Delta;
use picket_nftables::render::indexed::IndexedError;
use picket_policy::ObjectRef;

use crate::enforcer::Enforcer;
use crate::error::HostError;
use crate::knowledge::Knowledge;

/// How many tables are tried at most. Finding one policy among a million takes about forty.
const ATTEMPTS: usize = 100;

/// Finds who is to blame.
pub(crate) struct Blame<'a> {
    knowledge: &'a mut Knowledge,
    enforcer: &'a mut Enforcer,
    /// How many tables may be tried yet.
    attempts: usize,
}

impl<'a> Blame<'a> {
    /// For a table that was refused.
    pub(crate) fn new(knowledge: &'a mut Knowledge, enforcer: &'a mut Enforcer) -> Self {
        Self {
            knowledge,
            enforcer,
            attempts: ATTEMPTS,
        }
    }

    /// Holds those policies back that are to blame for `error`, and puts everything else into force. Whether that could be; if
    /// not everything is as it was.
    pub(crate) fn find(mut self, error: &HostError) -> bool {
        if !error.is_refusal() {
            return false;
        }
        let changed = self.knowledge.changed();
        let named = named(error, &changed);
        [named, changed]
            .iter()
            .any(|suspects| self.clear(suspects, error))
    }

    /// Whether everything can be in force but some of these.
    fn clear(&mut self, suspects: &[ObjectRef], error: &HostError) -> bool {
        if suspects.is_empty() {
            return false;
        }
        self.hold(suspects);
        if self.attempt().is_err() {
            self.release(suspects);
            return false;
        }
        self.admit(suspects, error);
        true
    }

    /// Puts into force what can be of policies that are held back, and together were refused with `error`.
    fn admit(&mut self, policies: &[ObjectRef], error: &HostError) {
        if policies.len() < 2 || self.attempts == 0 {
            for policy in policies {
                self.enforcer.hold(policy, error);
            }
            return;
        }
        let (one, other) = policies.split_at(policies.len() / 2);
        for half in [one, other] {
            self.release(half);
            if let Err(error) = self.attempt() {
                self.hold(half);
                self.admit(half, &error);
            }
        }
    }

    fn attempt(&mut self) -> Result<(), HostError> {
        self.attempts = self.attempts.saturating_sub(1);
        self.knowledge
            .program()
            .map_or(Ok(()), |program| self.enforcer.attempt(program))
    }

    fn hold(&mut self, policies: &[ObjectRef]) {
        let note = |delta: &Delta| self.enforcer.note(delta);
        self.knowledge.hold(policies, note);
    }

    fn release(&mut self, policies: &[ObjectRef]) {
        let note = |delta: &Delta| self.enforcer.note(delta);
        self.knowledge.release(policies, note);
    }
}

/// Those of the policies that an error names.
fn named(error: &HostError, policies: &[ObjectRef]) -> Vec<ObjectRef> {
    let HostError::Render(IndexedError::Collision(one, other)) = error else {
        return Vec::new();
    };
    let named = policies
        .iter()
        .filter(|policy| *policy == &**one || *policy == &**other);
    named.cloned().collect()
}
