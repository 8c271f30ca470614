//! In which versions policies were read, and in which they are in force.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use picket_cluster::{Event, Object};
use picket_policy::{ObjectRef, Policy};
use picket_source::ObjectVersion;
use serde::{Deserialize, Serialize};

/// In which versions a policy was read, and is in force. Policies of files have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyVersions {
    /// The policy, as in `NetworkPolicy shop/web`.
    pub policy: String,
    /// The version that was read last; `None` when the policy is gone.
    pub read: Option<ObjectVersion>,
    /// The version that is in force; `None` where none is that this agent has put there.
    pub in_force: Option<ObjectVersion>,
    /// Since when what it says there is in force; `None` where that may have been so before this agent began.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Why that is another.
    pub why: Option<String>,
}

impl PolicyVersions {
    /// Whether what was read last is in force.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.read == self.in_force
    }
}

/// In which versions policies were read.
#[derive(Default)]
pub(crate) struct Readings {
    policies: BTreeMap<ObjectRef, Reading>,
    /// The policies of which something else is known than when these were taken.
    news: BTreeSet<ObjectRef>,
    /// Those of which nobody can tell what they say in the version that was read last.
    unreadable: BTreeSet<ObjectRef>,
}

/// In which versions one policy was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// The last; `None` when it is gone.
    pub(crate) read: Option<ObjectVersion>,
    /// The last in which anybody could tell what it says: that is to be in force.
    pub(crate) says: Option<ObjectVersion>,
    /// A hash of that: it stays as long as only something else of the object changes.
    sense: u64,
    /// What is wrong with it.
    errors: Option<String>,
}

impl Reading {
    /// Why something else is to be in force than was read last, if that is so.
    fn unreadable(&self) -> Option<String> {
        let differs = self.read != self.says;
        let errors = self.errors.clone();
        differs.then(|| errors.unwrap_or_else(|| "nobody has told yet what it says".to_owned()))
    }
}

impl Readings {
    /// A policy was read in a version, or is gone.
    pub(crate) fn read(&mut self, policy: ObjectRef, version: Option<ObjectVersion>) {
        self.change(&policy, |reading| reading.read = version);
    }

    /// This comes of what was read.
    pub(crate) fn note(&mut self, event: &Event) {
        match event {
            Event::Apply(Object::Policy(policy)) if self.policies.contains_key(&policy.object) => {
                self.change(&policy.object, |reading| {
                    reading.says.clone_from(&reading.read);
                    reading.sense = sense(policy);
                });
            }
            Event::Delete(object) if self.policies.contains_key(object) => {
                self.change(object, |reading| reading.says = None);
            }
            Event::Apply(_) | Event::Delete(_) | Event::Init | Event::InitDone => {}
        }
    }

    /// These errors are in an object.
    pub(crate) fn errors(&mut self, object: &ObjectRef, errors: &str) {
        if self.policies.contains_key(object) {
            let errors = (!errors.is_empty()).then(|| errors.to_owned());
            self.change(object, |reading| reading.errors = errors);
        }
    }

    fn change(&mut self, policy: &ObjectRef, change: impl FnOnce(&mut Reading)) {
        let reading = self.policies.entry(policy.clone()).or_default();
        change(reading);
        if reading.read == reading.says {
            self.unreadable.remove(policy);
        } else {
            self.unreadable.insert(policy.clone());
        }
        if reading.read.is_none() && reading.says.is_none() {
            self.policies.remove(policy);
        }
        self.news.insert(policy.clone());
    }

    /// In which versions a policy was read.
    pub(crate) fn of(&self, policy: &ObjectRef) -> Reading {
        self.policies.get(policy).cloned().unwrap_or_default()
    }

    /// The policies of which something else is known than when this was asked before.
    pub(crate) fn take_news(&mut self) -> BTreeSet<ObjectRef> {
        std::mem::take(&mut self.news)
    }

    /// All policies with the versions in which anybody could tell what they say.
    pub(crate) fn saying(&self) -> BTreeMap<ObjectRef, ObjectVersion> {
        let policies = self.policies.iter();
        let saying = policies.filter_map(|(policy, reading)| Some((policy.clone(), reading.says.clone()?)));
        saying.collect()
    }

    /// The policies of which nobody can tell what they say in the version that was read last, where what they said before is in
    /// force.
    pub(crate) fn unreadable(&self) -> Vec<PolicyVersions> {
        let policies = self.unreadable.iter();
        let shown = policies.map(|policy| self.show(policy, self.of(policy).says, None, None));
        shown.collect()
    }

    /// All policies with the versions that were read last.
    pub(crate) fn last(&self) -> impl Iterator<Item = (&ObjectRef, &ObjectVersion)> {
        let policies = self.policies.iter();
        policies.filter_map(|(policy, reading)| Some((policy, reading.read.as_ref()?)))
    }

    /// How a policy is shown of which this version is in force, `since` then, as far as that is known. `waits` says why it is not in
    /// force as it is to be, if it is not.
    pub(crate) fn show(
        &self,
        policy: &ObjectRef,
        in_force: Option<ObjectVersion>,
        since: Option<Timestamp>,
        waits: Option<String>,
    ) -> PolicyVersions {
        let reading = self.of(policy);
        let why = waits.or_else(|| reading.unreadable());
        let differs = reading.read != in_force;
        PolicyVersions {
            policy: policy.to_string(),
            read: reading.read,
            since: since.filter(|_| in_force.is_some()),
            in_force,
            why: why.filter(|_| differs),
        }
    }
}

/// A hash of what a policy says.
fn sense(policy: &Policy) -> u64 {
    let mut hasher = DefaultHasher::new();
    policy.hash(&mut hasher);
    hasher.finish()
}

/// In which versions policies are in force on a node.
#[derive(Default)]
pub(crate) struct Enforced {
    policies: BTreeMap<ObjectRef, PolicyVersions>,
    /// Hashes of what those say that are in force.
    senses: BTreeMap<ObjectRef, u64>,
    /// Those that may be in force in another version than they were read in.
    unsettled: BTreeSet<ObjectRef>,
    /// Those that are.
    stale: BTreeSet<ObjectRef>,
}

impl Enforced {
    /// Everything is in force as it was read but what `waits`, which says why; what was not so yet is so since `now`. That is
    /// `None` where it may have been before.
    pub(crate) fn update(
        &mut self,
        readings: &mut Readings,
        now: Option<Timestamp>,
        waits: impl Fn(&ObjectRef) -> Option<String>,
    ) {
        self.unsettled.append(&mut readings.take_news());
        let (policies, senses) = (&mut self.policies, &mut self.senses);
        self.unsettled.retain(|policy| {
            let why = waits(policy);
            let is_settled = why.is_none();
            let before = policies.remove(policy).unwrap_or_default();
            let (in_force, since) = if is_settled {
                let reading = readings.of(policy);
                let said = senses.insert(policy.clone(), reading.sense);
                let is_same = before.in_force.is_some() && said == Some(reading.sense);
                (reading.says, if is_same { before.since } else { now })
            } else {
                (before.in_force, before.since)
            };
            let shown = readings.show(policy, in_force, since, why);
            if shown.is_current() {
                self.stale.remove(policy);
            } else {
                self.stale.insert(policy.clone());
            }
            if shown.read.is_none() && shown.in_force.is_none() {
                senses.remove(policy);
            } else {
                policies.insert(policy.clone(), shown);
            }
            !is_settled
        });
    }

    /// Whether every policy is in force as it was read last.
    pub(crate) fn is_current(&self) -> bool {
        self.stale.is_empty()
    }

    /// The policies, as they are shown.
    pub(crate) fn shown(&self) -> Vec<PolicyVersions> {
        self.policies.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use picket_net::Protocol;
    use picket_testing::build::{accept, policy};

    use super::*;

    fn version(generation: i64) -> ObjectVersion {
        ObjectVersion {
            generation: Some(generation),
            ..ObjectVersion::default()
        }
    }

    /// What is shown: the generation that was read, that which is in force, and why.
    fn shown(enforced: &Enforced) -> Vec<(Option<i64>, Option<i64>, Option<String>)> {
        let generation = |version: Option<ObjectVersion>| version.and_then(|version| version.generation);
        let shown = enforced.shown().into_iter();
        shown
            .map(|one| (generation(one.read), generation(one.in_force), one.why))
            .collect()
    }

    #[test]
    fn what_was_read_last_is_in_force_unless_it_waits_or_cannot_be_read() {
        let policy = policy("x/a").build();
        let object = policy.object.clone();
        let apply = Event::Apply(Object::Policy(policy));
        let delete = Event::Delete(object.clone());
        let (mut readings, mut enforced) = (Readings::default(), Enforced::default());
        for (read, event, errors, waits, expected) in [
            (
                Some(1),
                Some(&apply),
                "",
                Some("soon"),
                vec![(Some(1), None, Some("soon"))],
            ),
            (Some(1), None, "", None, vec![(Some(1), Some(1), None)]),
            (Some(2), Some(&apply), "", None, vec![(Some(2), Some(2), None)]),
            (
                Some(3),
                Some(&apply),
                "",
                Some("refused"),
                vec![(Some(3), Some(2), Some("refused"))],
            ),
            (
                Some(4),
                None,
                "P1: no",
                None,
                vec![(Some(4), Some(3), Some("P1: no"))],
            ),
            (Some(5), Some(&apply), "", None, vec![(Some(5), Some(5), None)]),
            (
                None,
                Some(&delete),
                "",
                Some("refused"),
                vec![(None, Some(5), Some("refused"))],
            ),
            (None, None, "", None, vec![]),
        ] {
            readings.read(object.clone(), read.map(version));
            event.into_iter().for_each(|event| readings.note(event));
            readings.errors(&object, errors);
            enforced.update(&mut readings, None, |_| waits.map(str::to_owned));
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(read, in_force, why)| (read, in_force, why.map(str::to_owned)))
                .collect();
            assert_eq!(shown(&enforced), expected);
            let is_current = enforced.shown().iter().all(PolicyVersions::is_current);
            assert_eq!(enforced.is_current(), is_current, "{expected:?}");
            // Of these what is read and is not in force is what nobody can read.
            let unreadable: Vec<_> = readings.unreadable();
            let expected = if errors.is_empty() {
                Vec::new()
            } else {
                enforced.shown()
            };
            assert_eq!(unreadable, expected);
        }
        assert!(enforced.unsettled.is_empty() && readings.policies.is_empty());
        assert_eq!(readings.take_news(), BTreeSet::new());
    }

    #[test]
    fn policies_without_versions_are_not_shown() {
        let (mut readings, mut enforced) = (Readings::default(), Enforced::default());
        readings.note(&Event::Apply(Object::Policy(policy("x/a").build())));
        enforced.update(&mut readings, None, |_| None);
        assert_eq!(shown(&enforced), []);
    }

    #[test]
    fn a_policy_is_in_force_since_it_says_what_it_does() {
        let saying = |port| {
            let rule = accept().port(Protocol::TCP, port);
            Event::Apply(Object::Policy(policy("x/a").ingress(rule).build()))
        };
        let object = policy("x/a").build().object;
        let (mut readings, mut enforced) = (Readings::default(), Enforced::default());
        let second = |second| Timestamp::from_second(second).ok();
        for (now, read, event, waits, expected) in [
            (None, Some(1), saying(1), false, None),
            // Nothing but the version changes.
            (second(2), Some(2), saying(1), false, None),
            (second(3), Some(3), saying(2), true, None),
            (second(4), Some(3), saying(2), false, second(4)),
            (second(5), Some(4), saying(2), false, second(4)),
            (second(6), None, Event::Delete(object.clone()), true, second(4)),
            (second(7), Some(5), saying(2), false, second(4)),
            (second(8), None, Event::Delete(object.clone()), false, None),
            (second(9), Some(6), saying(2), true, None),
            (second(10), Some(6), saying(2), false, second(10)),
        ] {
            readings.read(object.clone(), read.map(version));
            readings.note(&event);
            enforced.update(&mut readings, now, |_| waits.then(|| "refused".to_owned()));
            let since = enforced.shown().first().and_then(|shown| shown.since);
            assert_eq!(since, expected, "{now:?}");
        }
    }
}
