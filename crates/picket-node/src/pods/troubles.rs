//! Pods in which not all is in force, and since when, and policies that hold nowhere. What lasts is told as an Event.

use std::collections::BTreeMap;

use jiff::Timestamp;
use picket_linux::runtime::{Sandbox, SandboxId};
use picket_policy::ObjectRef;

use super::status::SandboxStatus;
use crate::events::{Events, Reason};

/// What is wrong in sandboxes.
pub(super) struct Troubles {
    events: Events,
    lasting: BTreeMap<SandboxId, Trouble>,
    /// The policies that hold not on all networks which they name, with why that is.
    unpoliced: BTreeMap<ObjectRef, String>,
}

struct Trouble {
    since: Timestamp,
    /// What there is an Event about.
    told: Option<String>,
}

impl Troubles {
    /// Nothing yet.
    pub(super) fn new(events: Events) -> Self {
        Self {
            events,
            lasting: BTreeMap::new(),
            unpoliced: BTreeMap::new(),
        }
    }

    /// These are the policies that hold not on all networks which they name, with why that is.
    pub(super) fn unpoliced(&mut self, now: &BTreeMap<ObjectRef, String>) {
        for (policy, why) in now
            .iter()
            .filter(|(policy, why)| self.unpoliced.get(policy) != Some(*why))
        {
            self.events.tell(policy, Reason::Unenforceable, why);
        }
        self.unpoliced.clone_from(now);
    }

    /// This is how it goes in all sandboxes of which there is something to say; since when something is wrong is added. Where it
    /// `remains` to find out what that is it is told once it is known.
    pub(super) fn now<'s>(
        &mut self,
        sandboxes: impl Iterator<Item = (&'s Sandbox, &'s mut SandboxStatus)>,
        remains: impl Fn(&Sandbox) -> bool,
    ) {
        let mut before = std::mem::take(&mut self.lasting);
        for (sandbox, status) in sandboxes {
            let Some(why) = &status.trouble else {
                continue;
            };
            let mut trouble = before.remove(&sandbox.id).unwrap_or_else(|| Trouble {
                since: Timestamp::now(),
                told: None,
            });
            status.trouble_since = Some(trouble.since);
            let is_new = trouble.told.as_ref() != Some(why) && Events::matters(trouble.since);
            if is_new && !remains(sandbox) {
                self.events.tell(&pod(sandbox), Reason::NotInForce, why);
                trouble.told = Some(why.clone());
            }
            self.lasting.insert(sandbox.id.clone(), trouble);
        }
    }
}

/// The pod of a sandbox. A static pod has the uid by which `kubectl describe` looks for its Events.
fn pod(sandbox: &Sandbox) -> ObjectRef {
    ObjectRef {
        uid: sandbox.pod_uid.as_str().into(),
        ..ObjectRef::new("Pod", &sandbox.namespace, &sandbox.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extent;
    use crate::metrics::Metrics;
    use crate::testing::settings;

    #[test]
    fn policies_that_hold_nowhere_are_told_once_for_each_reason() {
        let (events, mut heard) = Events::overheard();
        let mut troubles = Troubles::new(events);
        let policy = |name: &str| ObjectRef::new("MultiNetworkPolicy", "x", name);
        let of = |policies: &[(&str, &str)]| -> BTreeMap<_, _> {
            let policies = policies.iter();
            policies
                .map(|(name, why)| (policy(name), (*why).to_owned()))
                .collect()
        };
        for (now, told) in [
            (&[("a", "bridge")][..], &[("a", "bridge")][..]),
            (&[("a", "bridge"), ("b", "bridge")], &[("b", "bridge")]),
            (&[("a", "ipvlan"), ("b", "bridge")], &[("a", "ipvlan")]),
            (&[("b", "bridge")], &[]),
            (&[("a", "ipvlan"), ("b", "bridge")], &[("a", "ipvlan")]),
        ] {
            troubles.unpoliced(&of(now));
            assert_eq!(heard().into_iter().collect::<BTreeMap<_, _>>(), of(told));
        }
    }

    #[test]
    fn what_is_wrong_is_told_once_it_is_known_and_as_long_as_nothing_else_is() {
        let events = Events::start(&settings(), Extent::Once, &Metrics::default());
        let mut troubles = Troubles::new(events.unwrap());
        let sandbox = Sandbox {
            id: SandboxId::read("sandbox-a").unwrap(),
            pod_uid: "1".to_owned(),
            namespace: "x".to_owned(),
            name: "a".to_owned(),
            created: 0,
        };
        let lasting = Trouble {
            since: Timestamp::UNIX_EPOCH,
            told: None,
        };
        troubles.lasting.insert(sandbox.id.clone(), lasting);
        for (trouble, remains, told) in [
            ("refused", true, None),
            ("x/bad is refused", false, Some("x/bad is refused")),
            ("refused", true, Some("x/bad is refused")),
            ("x/bad is refused", false, Some("x/bad is refused")),
            ("x/worse is refused", false, Some("x/worse is refused")),
        ] {
            let mut status = SandboxStatus {
                trouble: Some(trouble.to_owned()),
                ..SandboxStatus::default()
            };
            troubles.now([(&sandbox, &mut status)].into_iter(), |_| remains);
            assert_eq!(status.trouble_since, Some(Timestamp::UNIX_EPOCH));
            assert_eq!(troubles.lasting[&sandbox.id].told.as_deref(), told, "{trouble}");
        }
        let mut status = SandboxStatus::default();
        troubles.now([(&sandbox, &mut status)].into_iter(), |_| false);
        assert_eq!(status.trouble_since, None);
        status.trouble = Some("refused".to_owned());
        troubles.now([(&sandbox, &mut status)].into_iter(), |_| false);
        assert!(
            status.trouble_since > Some(Timestamp::UNIX_EPOCH),
            "it is another"
        );
    }
}
