//! What this agent has put in force in a sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use picket_nftables::client::Client;
use picket_nftables::model::{Name, Table};
use picket_nftables::render::documented::{self, policy_hash};
use picket_policy::ObjectRef;
use picket_source::ObjectVersion;

use super::blame::{Suspect, Suspects};
use super::desired::Desired;
use super::held::{Said, Substitute};
use crate::objects::Objects;

/// What this agent has put in force in a sandbox, as far as it knows that it still is.
#[derive(Clone, Debug, Default)]
pub(super) struct InForce {
    table: Option<Arc<Table>>,
    /// The policies as which it was made.
    pub(super) policies: Vec<ObjectRef>,
    /// What they said then.
    said: BTreeMap<ObjectRef, Said>,
    /// In which versions they were read, as far as they have any.
    pub(super) versions: BTreeMap<ObjectRef, ObjectVersion>,
    /// Since when, of those that were not before this agent came.
    pub(super) since: BTreeMap<ObjectRef, Timestamp>,
    /// What the table holds.
    pub(super) objects: Objects,
}

impl InForce {
    /// All that is desired is in force; what was not `before` is so since `now`, which is `None` where others may have put it there.
    pub(super) fn new(desired: &Desired, before: Option<&Self>, now: Option<Timestamp>) -> Self {
        let policies = desired.enforced();
        let said = desired.said.iter();
        let said = said.filter(|(policy, _)| policies.contains(policy));
        let mut versions = desired.versions.clone();
        versions.retain(|policy, _| policies.contains(policy));
        let before = |policy: &ObjectRef| before.filter(|before| before.says(policy, desired));
        let since = |policy: &ObjectRef| match before(policy) {
            Some(before) => before.since.get(policy).copied(),
            None => now,
        };
        let since = policies
            .iter()
            .filter_map(|policy| Some((policy.clone(), since(policy)?)));
        Self {
            since: since.collect(),
            table: desired.table.clone(),
            said: said
                .map(|(policy, said)| (policy.clone(), said.clone()))
                .collect(),
            versions,
            policies,
            objects: desired.table.as_deref().map(Objects::of).unwrap_or_default(),
        }
    }

    /// Whether a policy is in force and says what is desired.
    fn says(&self, policy: &ObjectRef, desired: &Desired) -> bool {
        self.policies.contains(policy) && self.said.get(policy) == desired.said.get(policy)
    }

    /// Whether the kernel has exactly this.
    pub(super) fn is_still(&self, client: &mut Client) -> bool {
        match &self.table {
            Some(table) => client.plan(table).is_ok_and(|plan| plan.is_empty()),
            None => client
                .exists(&documented::table_name())
                .is_ok_and(|exists| !exists),
        }
    }

    /// What is to be in force and is not so yet. In the place of a policy that says what it said nothing else can hold than that it
    /// allows nothing: whom it was about is not known any more.
    pub(super) fn suspects(&self, desired: &Desired) -> Suspects {
        let mut suspects = Suspects::default();
        for (policy, says) in &desired.said {
            if desired.substitutes.contains_key(policy) || desired.closed.contains(policy) {
                continue;
            }
            let suspect = |substitute| Suspect {
                policy: policy.clone(),
                says: says.clone(),
                substitute,
                before: None,
                former: None,
            };
            match self.said.get(policy) {
                None => suspects.changed.push(suspect(Substitute::Closed)),
                Some(said) if said != says => {
                    let version = self.versions.get(policy).cloned();
                    suspects
                        .changed
                        .push(suspect(Substitute::Former(said.clone(), version)));
                }
                Some(_) if self.differs(policy, desired) => {
                    suspects.others.push(suspect(Substitute::Closed));
                }
                Some(_) => (),
            }
        }
        suspects
    }

    /// Whether the rules of a policy are others than what is desired.
    pub(super) fn differs(&self, policy: &ObjectRef, desired: &Desired) -> bool {
        Parts::of(self.table.as_deref(), policy) != Parts::of(desired.table.as_deref(), policy)
    }

    /// The policies which are not what is desired, sorted: those that came, went or changed.
    pub(super) fn waiting(&self, desired: &Desired) -> Vec<ObjectRef> {
        let mut all: Vec<_> = self.policies.iter().chain(&desired.policies).cloned().collect();
        all.sort();
        all.dedup();
        let is_unsaid = |policy: &ObjectRef| desired.closed.contains(policy);
        all.retain(|policy| {
            let is_wanted = desired.policies.contains(policy);
            self.policies.contains(policy) != is_wanted
                || (is_wanted && is_unsaid(policy))
                || self.differs(policy, desired)
        });
        all
    }
}

/// What of a table is about one policy: its names have the hash of the policy.
#[derive(PartialEq)]
struct Parts<'t> {
    sets: Vec<&'t picket_nftables::model::Set>,
    chains: Vec<&'t picket_nftables::model::Chain>,
}

impl<'t> Parts<'t> {
    fn of(table: Option<&'t Table>, policy: &ObjectRef) -> Self {
        let hash = policy_hash(policy).to_string();
        let is_of = |name: &Name| name.as_str().contains(&hash);
        let sets = table.into_iter().flat_map(Table::sets);
        let chains = table.into_iter().flat_map(Table::chains);
        Self {
            sets: sets.filter(|set| is_of(set.name())).collect(),
            chains: chains.filter(|chain| is_of(&chain.name)).collect(),
        }
    }
}

#[cfg(test)]
mod kernel {
    use picket_nftables::model::Chain;

    use super::super::testing::{Scene, desired};
    use super::*;
    use crate::testing::Log;

    #[test]
    fn a_refusal_names_what_waits_and_leaves_what_is_in_force() {
        let mut scene = Scene::new();
        let first = desired(&[("a", 1), ("b", 2), ("c", 3)]);
        let before = first.1.table.clone().unwrap();
        scene.want(first);
        scene.check(&["a", "b", "c"], &[]);
        let thief = scene.thief(&before);
        scene.want(desired(&[("b", 2), ("c", 4), ("d", 5)]));
        scene.check(&["a", "b", "c"], &["a", "c", "d"]);
        assert!(scene.status().trouble.is_some());
        drop(thief);
        scene.want(desired(&[("b", 2), ("c", 4)]));
        scene.check(&["b", "c"], &[]);
        assert_eq!(scene.status().trouble, None);
    }

    /// Since when these policies are in force.
    fn since(scene: &Scene) -> BTreeMap<String, Timestamp> {
        let in_force = scene.place.in_force().unwrap();
        let since = in_force.since.iter();
        since
            .map(|(policy, since)| (policy.name.to_string(), *since))
            .collect()
    }

    #[test]
    fn a_policy_is_in_force_since_it_says_what_it_does() {
        let mut scene = Scene::new();
        scene.want(desired(&[("a", 1), ("b", 2)]));
        let first = since(&scene);
        assert_eq!(first["a"], first["b"]);
        scene.want(desired(&[("a", 1), ("b", 3), ("c", 4)]));
        let second = since(&scene);
        assert_eq!(second["a"], first["a"]);
        assert!(second["b"] > first["b"] && second["b"] == second["c"]);
        let thief = scene.thief(&scene.place.in_force().unwrap().table.clone().unwrap());
        scene.want(desired(&[("a", 5), ("b", 3), ("c", 4)]));
        assert_eq!(since(&scene), second);
        drop(thief);
        scene.want(desired(&[("b", 3)]));
        assert_eq!(since(&scene), [("b".to_owned(), second["b"])].into());
    }

    #[test]
    fn since_when_what_was_there_before_is_in_force_nobody_knows() {
        let mut scene = Scene::new();
        let wanted = desired(&[("a", 1)]);
        let mut client = Client::open(&scene.namespace).unwrap();
        client.sync(wanted.1.table.as_ref().unwrap()).unwrap();
        scene.want(wanted);
        assert_eq!(since(&scene), BTreeMap::new());
        assert_eq!(scene.status().changed, None);
        scene.want(desired(&[("a", 1), ("b", 2)]));
        let known: Vec<_> = since(&scene).into_keys().collect();
        assert_eq!(known, ["b"]);
        assert!(scene.status().changed.is_some());
    }

    #[test]
    fn what_others_have_put_there_is_not_in_force() {
        let mut scene = Scene::new();
        scene.want(desired(&[("a", 1)]));
        let _thief = scene.thief(&desired(&[("a", 9)]).1.table.unwrap());
        scene.want(desired(&[("a", 1), ("b", 2)]));
        scene.check(&[], &["a", "b"]);
    }

    #[test]
    fn a_sandbox_is_ready_once_its_policies_were_in_force() {
        let mut scene = Scene::new();
        assert!(scene.place.is_ready(), "nobody knows what it should be");
        let thief = scene.thief(&desired(&[("z", 9)]).1.table.unwrap());
        scene.want(desired(&[("a", 1)]));
        assert!(!scene.place.is_ready());
        scene.check(&[], &["a"]);
        assert_eq!(scene.place.objects(), Objects::default());
        drop(thief);
        scene.want(desired(&[("a", 2)]));
        assert!(scene.place.is_ready());
        scene.check(&["a"], &[]);
        assert_ne!(scene.place.objects(), Objects::default());
        let _thief = scene.thief(&desired(&[("z", 9)]).1.table.unwrap());
        scene.want(desired(&[("a", 3)]));
        assert!(scene.place.is_ready(), "it has been once");
    }

    #[test]
    fn closed_policies_are_not_in_force() {
        let mut scene = Scene::new();
        let (pod, desired, networks) = desired(&[("a", 1)]);
        let closed = Desired {
            closed: desired.policies.iter().cloned().collect(),
            trouble: Some("it is closed instead".to_owned()),
            ..desired
        };
        scene.want((pod, closed, networks));
        assert!(scene.place.is_ready());
        scene.check(&[], &["a"]);
    }

    #[test]
    fn what_cannot_even_be_closed_leaves_what_is_in_force() {
        let mut scene = Scene::new();
        scene.want(desired(&[("a", 1)]));
        let (pod, next, networks) = desired(&[("a", 1), ("b", 2)]);
        let unsayable = Desired {
            table: None,
            closed: next.policies.iter().cloned().collect(),
            trouble: Some("nothing can be said".to_owned()),
            ..next
        };
        scene.want((pod, unsayable, networks));
        scene.check(&["a"], &["a", "b"]);
        let mut client = Client::open(&scene.namespace).unwrap();
        assert!(client.exists(&documented::table_name()).unwrap());
    }

    #[test]
    fn what_it_took_is_measured_once_for_each_change() {
        let mut scene = Scene::new();
        let measured = |scene: &Scene| {
            let text = scene.metrics.text(&crate::Status::default(), None).unwrap();
            let mut lines = text.lines();
            let line = lines.find(|line| line.starts_with("picket_write_seconds_count"));
            line.unwrap().to_owned()
        };
        assert_eq!(measured(&scene), "picket_write_seconds_count 0");
        scene.want(desired(&[("a", 1)]));
        scene.make(None);
        assert_eq!(measured(&scene), "picket_write_seconds_count 1");
    }

    #[test]
    fn what_others_fill_is_made_anew_without_reading_to_the_end() {
        let mut scene = Scene::new();
        let first = desired(&[("a", 1)]);
        let mut filled = Table::clone(first.1.table.as_ref().unwrap()).into_draft();
        scene.want(first);
        let chains = (0..5_000).map(|number| Chain::regular(Name::new(&format!("c{number}")).unwrap()));
        filled.chains.extend(chains);
        let filled = Arc::new(filled.check().unwrap());
        Client::open(&scene.namespace).unwrap().sync(&filled).unwrap();
        let log = Log::of(|| scene.make(None));
        // To take away what is there would be an operation for each.
        let told = "WARN others had changed the rules of a pod; they are repaired pod=\"x/a\" operations=1";
        assert!(log.len() == 1 && log[0].starts_with(told), "{log:#?}");
        scene.check(&["a"], &[]);
    }

    #[test]
    fn rules_from_before_stay_while_a_custom_file_was_never_right() {
        let mut scene = Scene::new();
        let before = desired(&[("z", 9)]).1.table.unwrap();
        Client::open(&scene.namespace).unwrap().sync(&before).unwrap();
        let (pod, wanted, _) = desired(&[("a", 1)]);
        scene.place.want(&pod, wanted.clone());
        let is = |scene: &Scene, table: &Table| {
            let mut client = Client::open(&scene.namespace).unwrap();
            client.plan(table).unwrap().is_empty()
        };
        scene.make(Some("`v4`: line 2"));
        assert!(is(&scene, &before) && !scene.place.is_ready());
        scene.check(&[], &["a"]);
        assert!(scene.status().trouble.unwrap().contains("`v4`: line 2"));
        // Where somebody takes them away the pod is not left open.
        Client::open(&scene.namespace)
            .unwrap()
            .remove(&documented::table_name())
            .unwrap();
        scene.make(Some("`v4`: line 2"));
        assert!(is(&scene, wanted.table.as_ref().unwrap()));
        scene.check(&["a"], &[]);
        assert_eq!(scene.status().trouble, None);
        // What this agent has made it changes.
        let (pod, wanted, _) = desired(&[("a", 2)]);
        scene.place.want(&pod, wanted.clone());
        scene.make(Some("`v4`: line 2"));
        assert!(is(&scene, wanted.table.as_ref().unwrap()));
    }

    #[test]
    fn rules_from_before_go_once_the_custom_file_is_right_or_no_policy_is_there() {
        let mut scene = Scene::new();
        let before = desired(&[("z", 9)]).1.table.unwrap();
        let mut client = Client::open(&scene.namespace).unwrap();
        client.sync(&before).unwrap();
        let (pod, wanted, _) = desired(&[("a", 1)]);
        scene.place.want(&pod, wanted);
        scene.make(Some("wrong"));
        scene.make(None);
        scene.check(&["a"], &[]);
        assert!(scene.place.is_ready());

        let mut scene = Scene::new();
        let mut client = Client::open(&scene.namespace).unwrap();
        client.sync(&before).unwrap();
        scene.place.want(&pod, Desired::default());
        scene.make(Some("wrong"));
        assert!(!client.exists(&documented::table_name()).unwrap());
    }
}
