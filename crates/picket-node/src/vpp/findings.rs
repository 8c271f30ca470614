//! What these targets find wrong with objects.

use crate::status::Finding;

/// What is wrong now, which has been logged.
#[derive(Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    /// From now on this is wrong. What was not before is logged, and of which objects nothing is any more.
    pub(crate) fn set(&mut self, now: Vec<Finding>) {
        for Finding {
            object,
            code,
            message,
            ..
        } in now.iter().filter(|one| !self.0.contains(one))
        {
            tracing::warn!(object, code, "{message}");
        }
        let is_well = |before: &&Finding| now.iter().all(|one| one.object != before.object);
        let mut well: Vec<_> = self.0.iter().filter(is_well).map(|one| &one.object).collect();
        well.dedup();
        for object in well {
            tracing::info!(object, "nothing keeps VPP from doing what it says any more");
        }
        self.0 = now;
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Finding] {
        &self.0
    }
}
