//! Policies because of which the kernel does not take the table of a pod: they are held back, and everything else is in force.
//!
//! Who is to blame is found out by trying tables, which takes the more of them the more policies came or changed. Pods get their
//! turns at that one after the other, once all have what the kernel takes and whoever may be to blame is held back everywhere,
//! which takes one table in each pod.

use std::time::Instant;

use picket_nftables::client::SyncError;
use picket_policy::ObjectRef;

use super::cutting::Order;
use super::held::{Said, Substitute};
use super::network::Networks;
use super::sandbox::Place;
use crate::metrics::Metrics;

/// How many tables are tried at most in one pod until the next policy is found that is to blame.
const ATTEMPTS: usize = 50;

/// How many policies or groups of them are tried before others get their turn.
const AT_ONCE: usize = 8;

/// A policy, and what would hold in its place.
#[derive(Clone)]
pub(super) struct Suspect {
    pub(super) policy: ObjectRef,
    pub(super) says: Said,
    pub(super) substitute: Substitute,
    /// What holds in its place already, if it is held back for another reason.
    pub(super) before: Option<Substitute>,
    /// What might hold in its place if it turns out to be to blame, though not together with all others.
    pub(super) former: Option<Substitute>,
}

impl Suspect {
    /// Nothing is to be allowed in its place, as far as is known.
    fn closed(self) -> Self {
        let former = matches!(self.substitute, Substitute::Former(..)).then(|| self.substitute.clone());
        Self {
            substitute: Substitute::Closed,
            former: former.or(self.former),
            ..self
        }
    }
}

/// Who may be to blame in a pod.
#[derive(Default)]
pub(super) struct Suspects {
    /// The policies that came or say something else.
    pub(super) changed: Vec<Suspect>,
    /// Those that say what they said, to which pods or addresses came.
    pub(super) others: Vec<Suspect>,
}

/// What is not known yet of who is to blame in a pod.
#[derive(Default)]
pub(super) struct Search {
    /// Why the rules were refused, while nobody is held back for that yet.
    refused: Option<SyncError>,
    /// Policies that are held back, because a table with all of a group was refused or none has been tried.
    groups: Vec<Vec<Suspect>>,
    /// How many tables may be tried yet until the next is found.
    attempts: usize,
    /// When somebody first asked for turns while there was something to find out.
    since: Option<Instant>,
    /// Whether policies are closed that were in force and say nothing else: perhaps for nothing.
    spares: bool,
    /// What is in force, where nothing is cut by it yet.
    later: Option<Order>,
}

impl Search {
    /// The rules were refused now.
    pub(super) fn begin(&mut self, error: SyncError) {
        self.refused = Some(error);
    }

    /// What there was to find out has been found out.
    pub(super) fn end(&mut self) {
        self.since = None;
        self.spares = false;
    }

    /// By what is in force now connections may be cut: not by what is perhaps in force for nothing, until that is known.
    pub(super) fn cutting_by(&mut self, order: Option<Order>) -> Option<Order> {
        self.later = order.or(self.later.take());
        match self.spares && !self.is_over() {
            true => None,
            false => self.later.take(),
        }
    }

    /// What was refused is not to be in force any more.
    pub(super) fn let_go(&mut self) {
        self.refused = None;
    }

    /// Whether nobody is held back yet for what was refused last.
    pub(super) fn is_ahead(&self) -> bool {
        self.refused.is_some()
    }

    /// Whether it is known who is to blame.
    pub(super) fn is_over(&self) -> bool {
        self.refused.is_none() && self.groups.is_empty()
    }

    /// Since when there is something to find out: since now, if nobody has asked before.
    pub(super) fn since(&mut self, now: Instant) -> Instant {
        *self.since.get_or_insert(now)
    }

    /// One policy that was refused is to blame; of several that were together, some are. Gives those that are as far as is known,
    /// or for whom there is to be no more searching.
    fn divide(&mut self, mut suspects: Vec<Suspect>, error: &SyncError) -> Vec<Suspect> {
        let is_found = suspects.len() < 2;
        if is_found {
            self.attempts = ATTEMPTS;
        }
        // Where the kernel cannot even be asked there is nobody to be found.
        if is_found || self.attempts == 0 || !matches!(error, SyncError::Apply(_)) {
            return suspects;
        }
        let others = suspects.split_off(suspects.len() / 2);
        self.groups.extend([others, suspects]);
        Vec::new()
    }
}

/// Finds who is to blame.
pub(super) struct Blame<'a> {
    place: &'a mut Place,
    networks: &'a Networks,
    metrics: &'a Metrics,
    /// What is in force now.
    order: Option<Order>,
}

impl<'a> Blame<'a> {
    /// In this pod.
    pub(super) fn new(place: &'a mut Place, networks: &'a Networks, metrics: &'a Metrics) -> Self {
        Self {
            place,
            networks,
            metrics,
            order: None,
        }
    }

    /// Holds those policies back that may be to blame for what was refused, and puts everything else into force.
    ///
    /// # Errors
    /// Why it was, where no policies are to blame; everything is as it was.
    pub(super) fn clear(mut self) -> Result<Option<Order>, SyncError> {
        self.hold_all()?;
        Ok(self.order)
    }

    /// Tries as many tables as may be at once to let in again what is not to blame.
    ///
    /// # Errors
    /// When what is in force cannot be made sure of.
    pub(super) fn go_on(mut self) -> Result<Option<Order>, SyncError> {
        for _ in 0..AT_ONCE {
            self.step();
        }
        // What was refused last is not what the kernel has.
        self.attempt()?;
        Ok(self.order)
    }

    fn hold_all(&mut self) -> Result<(), SyncError> {
        let Some(error) = self.place.search.refused.take() else {
            return Ok(());
        };
        if !matches!(error, SyncError::Apply(_)) {
            return Err(error);
        }
        let Suspects { changed, others } = self.place.suspects();
        let all = [changed.as_slice(), &others].concat();
        let suspects = if self.helps(&changed, &error) {
            changed
        } else if !others.is_empty() && self.helps(&all, &error) {
            self.place.search.spares = true;
            all
        } else {
            // What was in force may be too much by now, too.
            let closed: Vec<_> = all.into_iter().map(Suspect::closed).collect();
            if !self.helps(&closed, &error) {
                self.place.resolve(self.networks);
                return Err(error);
            }
            self.place.search.spares = true;
            closed
        };
        let search = &mut self.place.search;
        search.attempts = ATTEMPTS;
        for group in &mut search.groups {
            group.retain(|known| suspects.iter().all(|suspect| suspect.policy != known.policy));
        }
        self.divide(suspects, &error);
        Ok(())
    }

    /// Holds policies back. Whether the kernel takes everything else; if not, who was held back before is again.
    fn helps(&mut self, suspects: &[Suspect], error: &SyncError) -> bool {
        if suspects.is_empty() {
            return false;
        }
        let held = self.place.held();
        self.hold(suspects, error);
        let is_taken = self.attempt().is_ok();
        if !is_taken {
            self.place.hold_again(held);
        }
        is_taken
    }

    /// Tries a table with a group.
    fn step(&mut self) {
        let Some(mut group) = self.place.search.groups.pop() else {
            return;
        };
        // Some may say something else by now, or apply no more.
        group.retain(|suspect| self.place.holds_back(&suspect.policy));
        if group.is_empty() {
            return;
        }
        self.release(&group);
        if let Err(error) = self.attempt() {
            self.hold(&group, &error);
            self.divide(group, &error);
        }
    }

    fn divide(&mut self, suspects: Vec<Suspect>, error: &SyncError) {
        for mut suspect in self.place.search.divide(suspects, error) {
            if let Some(former) = suspect.former.take() {
                self.place.hold_as(&suspect.policy, former.clone());
                if self.attempt().is_ok() {
                    suspect.substitute = former;
                } else {
                    self.place.hold_as(&suspect.policy, Substitute::Closed);
                    self.place.resolve(self.networks);
                }
            }
            self.place.blame(&suspect, error, self.metrics);
        }
    }

    fn attempt(&mut self) -> Result<(), SyncError> {
        self.place.search.attempts = self.place.search.attempts.saturating_sub(1);
        self.place.resolve(self.networks);
        let order = self.place.change(self.metrics)?;
        self.order = order.or(self.order.take());
        Ok(())
    }

    fn hold(&mut self, suspects: &[Suspect], error: &SyncError) {
        for suspect in suspects {
            self.place.hold_back(suspect, error);
        }
    }

    fn release(&mut self, suspects: &[Suspect]) {
        for suspect in suspects {
            match &suspect.before {
                Some(before) => self.place.hold_as(&suspect.policy, before.clone()),
                None => self.place.let_go(&suspect.policy),
            }
        }
    }
}

#[cfg(test)]
mod kernel {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use picket_net::Protocol;
    use picket_nftables::client::Client;
    use picket_nftables::render::documented;
    use picket_policy::{Direction, Policy};
    use picket_testing::build::{accept, pod, pods_in, policy};
    use picket_testing::confined::where_sockets_are_small;

    use super::super::testing::{Scene, attached, desired_of, selected};
    use crate::testing::{Log, large};

    /// More addresses than the kernel takes where sockets are small.
    const MANY: u32 = 40_000;

    fn small(name: &str, port: u16) -> Policy {
        let policy = policy(name).isolates(Direction::Ingress);
        policy.ingress(accept().port(Protocol::TCP, port)).build()
    }

    /// Whether the kernel has exactly the rules of these policies.
    fn has(scene: &Scene, policies: Vec<Policy>) -> bool {
        let table = desired_of(policies).1.table.unwrap();
        let mut client = Client::open(&scene.namespace).unwrap();
        client.plan(&table).unwrap().is_empty()
    }

    /// A policy without rules.
    fn closed(name: &str) -> Policy {
        policy(name).isolates(Direction::Ingress).build()
    }

    fn isolating(policy: Policy) -> Policy {
        let mut policy = policy;
        policy.ingress.isolates = true;
        policy
    }

    #[test]
    fn what_the_kernel_refuses_of_one_policy_is_closed_or_as_it_was_and_keeps_no_other_out() {
        let test = concat!(
            module_path!(),
            "::what_the_kernel_refuses_of_one_policy_is_closed_or_as_it_was_and_keeps_no_other_out"
        );
        where_sockets_are_small(test, || {
            let mut scene = Scene::new();
            let large = |name| isolating(large(name));
            let first = vec![small("x/a", 1), small("x/b", 2), small("x/c", 4), large("x/d")];
            let log = Log::of(|| scene.want(desired_of(first)));
            scene.check(&["a", "b", "c"], &["d"]);
            assert!(scene.place.is_ready());
            assert!(has(
                &scene,
                vec![small("x/a", 1), small("x/b", 2), small("x/c", 4), closed("x/d")]
            ));
            let why = scene.status().trouble.unwrap();
            assert!(why.starts_with("MultiNetworkPolicy x/d: "), "{why}");
            let counted = scene.metrics.text(&crate::Status::default(), None).unwrap();
            let refused = "picket_failures_total{reason=\"refused\"} 1\n";
            assert!(counted.contains(refused), "{counted}");
            let named = |line: &&String| line.starts_with("ERROR a policy of a pod is not in force");
            let named: Vec<_> = log.iter().filter(named).collect();
            assert!(
                named.len() == 1 && named[0].contains("policy=MultiNetworkPolicy x/d"),
                "{log:#?}"
            );

            // Of one that changes what was in force stays, and others come and go.
            let next = vec![large("x/a"), small("x/c", 5), large("x/d"), small("x/e", 6)];
            scene.follow(next);
            scene.check(&["a", "c", "e"], &["a", "d"]);
            assert!(has(
                &scene,
                vec![small("x/a", 1), small("x/c", 5), closed("x/d"), small("x/e", 6)]
            ));
            let Scene {
                place,
                networks,
                metrics,
                ..
            } = &mut scene;
            place.prove(networks, metrics);
            assert!(verified(metrics, "proved", 1) && verified(metrics, "refuted", 0));

            // Once it says something else that is in force.
            scene.follow(vec![small("x/a", 7), small("x/d", 8)]);
            scene.check(&["a", "d"], &[]);
            assert_eq!(scene.status().trouble, None);
        });
    }

    #[test]
    fn of_a_pod_that_is_gone_the_rules_stay_with_what_is_held_back() {
        let test = concat!(
            module_path!(),
            "::of_a_pod_that_is_gone_the_rules_stay_with_what_is_held_back"
        );
        where_sockets_are_small(test, || {
            let mut scene = Scene::new();
            scene.follow(vec![small("x/a", 1), isolating(large("x/b"))]);
            scene.check(&["a"], &["b"]);
            // It is deleted before its sandbox is.
            scene.networks = desired_of(Vec::new()).2;
            scene.place.leave();
            for _ in 0..2 {
                // It is time to try again what was refused.
                scene.place.hurry();
                scene.make(None);
                assert!(has(&scene, vec![small("x/a", 1), closed("x/b")]));
                // Others flush it, and it is made again.
                Client::open(&scene.namespace)
                    .unwrap()
                    .remove(&documented::table_name())
                    .unwrap();
            }
            assert!(scene.place.is_ready());
        });
    }

    #[test]
    fn of_many_policies_every_one_is_found_that_is_to_blame() {
        let test = concat!(
            module_path!(),
            "::of_many_policies_every_one_is_found_that_is_to_blame"
        );
        where_sockets_are_small(test, || {
            let mut scene = Scene::new();
            let is_bad = |number: &u16| number % 17 == 5;
            let name = |number: u16| format!("p{number:03}");
            let policies = (0..100).map(|number| match is_bad(&number) {
                true => isolating(large(&format!("x/{}", name(number)))),
                false => small(&format!("x/{}", name(number)), number + 1),
            });
            scene.want(desired_of(policies.collect()));
            let (bad, good): (Vec<_>, Vec<_>) = (0..100).partition(is_bad);
            let [bad, good] = [bad, good].map(|numbers| numbers.into_iter().map(name).collect::<Vec<_>>());
            assert_eq!(bad.len(), 6);
            let bad: Vec<_> = bad.iter().map(String::as_str).collect();
            let good: Vec<_> = good.iter().map(String::as_str).collect();
            scene.check(&good, &bad);
        });
    }

    #[test]
    fn a_policy_to_which_too_many_addresses_came_is_closed_and_keeps_no_other_out() {
        let test = concat!(
            module_path!(),
            "::a_policy_to_which_too_many_addresses_came_is_closed_and_keeps_no_other_out"
        );
        where_sockets_are_small(test, || {
            let mut scene = Scene::new();
            let from = |name, peer: &str| {
                let rule = accept().peer(pods_in("x", &format!("is={peer}")));
                policy(name).isolates(Direction::Ingress).ingress(rule).build()
            };
            let policies = |port| vec![small("x/a", port), from("x/b", "many"), from("x/c", "few")];
            let with = |policies, count: u32, few: u32| {
                let (own, mut cluster) = selected(policies);
                let many = (0..count).map(|number| ("many", number));
                let few = (0..few).map(|number| ("few", MANY + number));
                for (name, number) in many.chain(few) {
                    let address = Ipv4Addr::from((10 << 24) + 2 * number).into();
                    let peer = pod(&format!("x/{name}-{number}")).label("is", name);
                    let peer = attached(peer, address);
                    cluster.pods.insert(peer.object.clone(), Arc::new(peer));
                }
                (own, cluster)
            };
            scene.learn(with(policies(1), 1, 1));
            scene.check(&["a", "b", "c"], &[]);

            // Nobody said anything else; then somebody does, and both policies have other peers.
            for (port, few) in [(1, 2), (2, 3)] {
                scene.learn(with(policies(port), MANY, few));
                scene.check(&["a", "c"], &["b"]);
                let why = scene.status().trouble.unwrap();
                assert!(why.starts_with("MultiNetworkPolicy x/b: "), "{why}");
            }

            // One that is held back as it was is closed once that is too much, too.
            scene.learn(with(policies(2), 1, 1));
            scene.place.hurry();
            scene.make(None);
            let too_large = || {
                let mut policies = policies(2);
                policies[1] = isolating(large("x/b"));
                policies
            };
            scene.learn(with(too_large(), 1, 1));
            scene.check(&["a", "b", "c"], &["b"]);
            scene.learn(with(too_large(), MANY, 1));
            scene.check(&["a", "c"], &["b"]);
            scene.place.hurry();
            scene.make(None);
            scene.check(&["a", "c"], &["b"]);
            // As it was it is not too much any more.
            scene.learn(with(too_large(), 1, 1));
            scene.place.hurry();
            scene.make(None);
            scene.check(&["a", "c"], &["b"]);

            scene.learn(with(policies(2), 1, 1));
            scene.place.hurry();
            scene.make(None);
            scene.check(&["a", "b", "c"], &[]);
            assert_eq!(scene.status().trouble, None);
        });
    }

    fn verified(metrics: &crate::metrics::Metrics, outcome: &str, count: u64) -> bool {
        let text = metrics.text(&crate::Status::default(), None).unwrap();
        let line = format!("picket_verifications_total{{outcome=\"{outcome}\"}} ");
        let told = text.lines().find_map(|told| told.strip_prefix(&line));
        told.map_or(0, |told| told.parse().unwrap()) == count
    }

    #[test]
    fn a_table_that_a_proof_refutes_is_made_anew() {
        let mut scene = Scene::new();
        let wider = desired_of(vec![small("x/a", 1), small("x/b", 2)])
            .1
            .table
            .unwrap();
        scene.want(desired_of(vec![small("x/a", 1)]));
        let mut other = Client::open(&scene.namespace).unwrap();
        other.sync(&wider).unwrap();
        let log = Log::of(|| {
            scene.place.prove(&scene.networks, &scene.metrics);
            scene.make(None);
            scene.place.prove(&scene.networks, &scene.metrics);
        });
        for (line, said) in log.iter().zip([
            "ERROR the rules of a pod do not mean what the policies say; they are made anew",
            "WARN others had changed the rules of a pod; they are repaired",
        ]) {
            assert!(line.starts_with(said), "{log:#?}");
        }
        assert_eq!(log.len(), 2, "{log:#?}");
        assert!(has(&scene, vec![small("x/a", 1)]));
        assert_eq!(scene.status().repaired, 1);
        let metrics = &scene.metrics;
        assert!(verified(metrics, "proved", 1) && verified(metrics, "refuted", 1));
        assert!(other.exists(&documented::table_name()).unwrap());
    }
}
