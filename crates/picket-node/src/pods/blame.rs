//! Policies because of which the kernel does not take the table of a pod: they are held back, and everything else is in force.

use picket_nftables::client::SyncError;
use picket_policy::ObjectRef;

use super::cutting::Order;
use super::held::{Said, Substitute};
use super::network::Networks;
use super::sandbox::Place;
use crate::metrics::Metrics;

/// How many tables are tried at most in one pod until the next policy is found that is to blame.
const ATTEMPTS: usize = 50;

/// A policy that came or changed, and what would hold in its place.
#[derive(Clone)]
pub(super) struct Suspect {
    pub(super) policy: ObjectRef,
    pub(super) says: Said,
    pub(super) substitute: Substitute,
}

/// Finds who is to blame.
pub(super) struct Blame<'a> {
    place: &'a mut Place,
    networks: &'a Networks,
    metrics: &'a Metrics,
    /// How many tables may be tried yet.
    attempts: usize,
    /// What is in force now.
    order: Option<Order>,
}

impl<'a> Blame<'a> {
    /// For a table that was refused.
    pub(super) fn new(place: &'a mut Place, networks: &'a Networks, metrics: &'a Metrics) -> Self {
        Self {
            place,
            networks,
            metrics,
            attempts: ATTEMPTS,
            order: None,
        }
    }

    /// Holds those policies back that are to blame for `error`, and puts everything else into force.
    ///
    /// # Errors
    /// The same error where no policies are to blame; everything is as it was.
    pub(super) fn find(mut self, error: SyncError) -> Result<Option<Order>, SyncError> {
        let suspects = match &error {
            SyncError::Apply(_) => self.place.suspects(),
            _ => Vec::new(),
        };
        if suspects.is_empty() {
            return Err(error);
        }
        self.hold(&suspects, &error);
        if self.attempt().is_err() {
            self.release(&suspects);
            self.place.resolve(self.networks);
            return Err(error);
        }
        self.admit(&suspects, &error);
        // What was refused last is not what the kernel has.
        self.attempt()?;
        Ok(self.order)
    }

    /// Puts into force what can be of policies that are held back, and together were refused with `error`.
    fn admit(&mut self, policies: &[Suspect], error: &SyncError) {
        let is_found = policies.len() < 2;
        // Where the kernel cannot even be asked there is nobody to be found.
        if is_found || self.attempts == 0 || !matches!(error, SyncError::Apply(_)) {
            if is_found {
                self.attempts = ATTEMPTS;
            }
            for suspect in policies {
                self.place.blame(suspect, error, self.metrics);
            }
            return;
        }
        let (one, other) = policies.split_at(policies.len() / 2);
        for half in [one, other] {
            self.release(half);
            if let Err(error) = self.attempt() {
                self.hold(half, &error);
                self.admit(half, &error);
            }
        }
    }

    fn attempt(&mut self) -> Result<(), SyncError> {
        self.attempts = self.attempts.saturating_sub(1);
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
            self.place.let_go(&suspect.policy);
        }
    }
}

#[cfg(test)]
mod kernel {
    use picket_net::Protocol;
    use picket_nftables::client::Client;
    use picket_nftables::render::documented;
    use picket_policy::{Direction, Policy};
    use picket_testing::build::{accept, policy};
    use picket_testing::confined::where_sockets_are_small;

    use super::super::testing::{Scene, desired_of};
    use crate::testing::{Log, large};

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
            let named = |line: &&String| line.starts_with("ERROR a policy of a pod is not in force");
            let named: Vec<_> = log.iter().filter(named).collect();
            assert!(
                named.len() == 1 && named[0].contains("policy=MultiNetworkPolicy x/d"),
                "{log:#?}"
            );

            // Of one that changes what was in force stays, and others come and go.
            let next = vec![large("x/a"), small("x/c", 5), large("x/d"), small("x/e", 6)];
            let (pod, _, networks) = desired_of(next);
            scene.networks = networks;
            scene.place.follow(&pod, &scene.networks);
            scene.make(None);
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
            let (pod, _, networks) = desired_of(vec![small("x/a", 7), small("x/d", 8)]);
            scene.networks = networks;
            scene.place.follow(&pod, &scene.networks);
            scene.make(None);
            scene.check(&["a", "d"], &[]);
            assert_eq!(scene.status().trouble, None);
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
