//! What these targets find wrong with objects.

use std::collections::BTreeMap;

use picket_policy::ObjectRef;

use crate::events::{Events, Reason};
use crate::status::Finding;

/// What is wrong with an object, which has its uid where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) object: ObjectRef,
    pub(crate) finding: Finding,
}

/// What is wrong now, which has been logged and told as Events.
pub(crate) struct Findings {
    all: Vec<Finding>,
    /// By object, what the last Event on it was about.
    told: BTreeMap<ObjectRef, Vec<About>>,
    events: Events,
}

/// What an Event says again only when it is something else.
type About = (String, Option<String>);

impl Findings {
    /// None yet.
    pub(crate) fn new(events: &Events) -> Self {
        Self {
            all: Vec::new(),
            told: BTreeMap::new(),
            events: events.clone(),
        }
    }

    /// From now on this is wrong. What was not before is logged and told, and of which objects nothing is any more is logged.
    pub(crate) fn set(&mut self, now: Vec<Found>) {
        self.tell(&now);
        let now: Vec<_> = now.into_iter().map(|found| found.finding).collect();
        for Finding {
            object,
            code,
            message,
            ..
        } in now.iter().filter(|one| !self.all.contains(one))
        {
            tracing::warn!(object, code, "{message}");
        }
        let is_well = |before: &&Finding| now.iter().all(|one| one.object != before.object);
        let mut well: Vec<_> = self.all.iter().filter(is_well).map(|one| &one.object).collect();
        well.dedup();
        for object in well {
            tracing::info!(object, "nothing keeps VPP from doing what it says any more");
        }
        self.all = now;
    }

    fn tell(&mut self, now: &[Found]) {
        let mut by_object: BTreeMap<&ObjectRef, Vec<&Finding>> = BTreeMap::new();
        for found in now {
            by_object.entry(&found.object).or_default().push(&found.finding);
        }
        let mut told = BTreeMap::new();
        for (object, findings) in by_object {
            let mut about: Vec<_> = findings.iter().map(|finding| about(finding)).collect();
            about.sort_unstable();
            about.dedup();
            if self.told.get(object) != Some(&about) {
                let each = findings.iter().map(|finding| said(finding));
                let all = each.collect::<Vec<_>>().join("; ");
                self.events.tell(object, Reason::Unenforceable, &all);
            }
            told.insert(object.clone(), about);
        }
        self.told = told;
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Finding] {
        &self.all
    }
}

/// Warnings can hold numbers that change with every pod of the node: of each code one is told.
fn about(finding: &Finding) -> About {
    let is_error = finding.severity == "error";
    (finding.code.clone(), is_error.then(|| said(finding)))
}

fn said(finding: &Finding) -> String {
    match finding.field.as_str() {
        "" => format!("{}: {}", finding.code, finding.message),
        field => format!("{}: {field}: {}", finding.code, finding.message),
    }
}

#[cfg(test)]
mod tests {
    use picket_cluster::codes;
    use picket_policy::{Diagnostic, Severity};

    use super::*;

    fn found(uid: &str, severity: Severity, message: &str) -> Found {
        let object = ObjectRef {
            uid: uid.into(),
            ..ObjectRef::new("Pod", "shop", "web")
        };
        let diagnostic = Diagnostic::new(codes::CLAIM, severity, message.to_owned()).on(&object);
        Found {
            finding: Finding::new(&object, &diagnostic),
            object,
        }
    }

    #[test]
    fn what_is_found_is_told_once_on_the_object_itself() {
        let (events, mut heard) = Events::overheard();
        let mut findings = Findings::new(&events);
        let mut set = |now: Vec<Found>| {
            findings.set(now);
            let heard = heard().into_iter();
            heard
                .map(|(object, message)| format!("{} {message}", object.uid))
                .collect::<Vec<_>>()
        };
        let error = |message| found("1", Severity::Error, message);
        let warning = |message| found("1", Severity::Warning, message);
        let none = || Vec::<String>::new();
        assert_eq!(set(vec![error("a")]), ["1 C020: a"]);
        assert_eq!(set(vec![error("a")]), none());
        assert_eq!(set(vec![error("b")]), ["1 C020: b"]);
        assert_eq!(set(vec![error("a"), error("b")]), ["1 C020: a; C020: b"]);
        assert_eq!(set(Vec::new()), none());
        assert_eq!(set(vec![warning("1 too many")]), ["1 C020: 1 too many"]);
        assert_eq!(set(vec![warning("2 too many"), warning("3 too many")]), none());
        // Another of the same name is another object.
        assert_eq!(set(vec![found("2", Severity::Error, "a")]), ["2 C020: a"]);
    }
}
