//! The order in which the sandboxes of a node get their turns.

use std::collections::BTreeMap;
use std::time::Instant;

use picket_linux::at_once;
use picket_linux::runtime::SandboxId;
use tracing::{Dispatch, dispatcher};

use super::cutting::{Cutting, Order};
use super::network::Networks;
use super::sandbox::Place;
use crate::metrics::Metrics;

/// One round through all sandboxes: what the kernel takes is in force everywhere before anybody tries tables to find out because of
/// whom it takes something not.
pub(super) struct Round<'a> {
    pub(super) networks: &'a Networks,
    /// What is not known of the custom rules, if something is not.
    pub(super) unknown: Option<&'a str>,
    pub(super) metrics: &'a Metrics,
    /// Who cuts what a change denies, if anybody is to.
    pub(super) cutting: Option<&'a Cutting>,
}

impl Round<'_> {
    /// Makes the rules of those sandboxes what they should be that are due.
    pub(super) fn make(
        &self,
        places: &mut BTreeMap<SandboxId, Place>,
        mut is_due: impl FnMut(&mut Place) -> bool,
    ) {
        let make = |place: &mut Place| place.make(self.networks, self.unknown, self.metrics);
        let mut due: Vec<_> = places.values_mut().collect();
        due.retain_mut(|place| is_due(place));
        // It takes no time to see that nothing has changed.
        let (settled, others): (Vec<_>, Vec<_>) = due.into_iter().partition(|place| place.is_settled());
        let logged = dispatcher::get_default(Dispatch::clone);
        let made = at_once(others, |place| dispatcher::with_default(&logged, || make(place)));
        for order in made.into_iter().chain(settled.into_iter().map(make)) {
            self.cut(order);
        }
    }

    /// Holds back whoever may be to blame, everywhere; and goes on for a while to find out who is, in the sandbox that has waited
    /// longest for that. Whether more remains to be found out.
    pub(super) fn search(&self, places: &mut BTreeMap<SandboxId, Place>) -> bool {
        for place in places.values_mut().filter(|place| place.is_unsearched()) {
            self.cut(place.clear(self.networks, self.metrics));
        }
        // Those that were served at once have waited equally long: the first of them in the order of sandboxes is the next.
        let now = Instant::now();
        let waiting = places
            .values_mut()
            .filter_map(|place| Some((place.searches_since(now)?, place)));
        if let Some((_, place)) = waiting.min_by_key(|(since, _)| *since) {
            self.cut(place.go_on(self.networks, self.metrics));
        }
        places.values().any(Place::is_searching)
    }

    fn cut(&self, order: Option<Order>) {
        if let Some((cutting, order)) = self.cutting.zip(order) {
            cutting.cut(order);
        }
    }
}

#[cfg(test)]
mod kernel {
    use std::sync::Arc;

    use picket_linux::NetworkNamespace;
    use picket_net::Protocol;
    use picket_nftables::client::Client;
    use picket_policy::{Direction, Policy};
    use picket_testing::build::{accept, policy};
    use picket_testing::confined::where_sockets_are_small;

    use super::super::plugin::Plugins;
    use super::super::testing::{desired_of, place, selected};
    use super::super::touched::Touched;
    use super::*;
    use crate::testing::{Log, large};
    use crate::versions::Readings;

    fn small(name: &str, port: u16) -> Policy {
        let policy = policy(name).isolates(Direction::Ingress);
        policy.ingress(accept().port(Protocol::TCP, port)).build()
    }

    fn refused(name: &str) -> Policy {
        let mut policy = large(name);
        policy.ingress.isolates = true;
        policy
    }

    fn closed(name: &str) -> Policy {
        policy(name).isolates(Direction::Ingress).build()
    }

    /// Two pods, each in a namespace of its own, of which the first is served first.
    struct Two {
        places: BTreeMap<SandboxId, Place>,
        namespaces: [Arc<NetworkNamespace>; 2],
        /// What the networks of the first say; the second has its own while nothing is refused there.
        networks: Networks,
        metrics: Metrics,
    }

    impl Two {
        fn new() -> Self {
            let namespaces = [(); 2].map(|()| Arc::new(NetworkNamespace::create().unwrap()));
            let places = ["one", "two"].iter().zip(&namespaces);
            let places = places.map(|(name, namespace)| place(name, namespace));
            Self {
                places: places.map(|place| (place.sandbox.id.clone(), place)).collect(),
                namespaces,
                networks: desired_of(Vec::new()).2,
                metrics: Metrics::default(),
            }
        }

        /// From now on these policies select the first pod or the second.
        fn want(&mut self, which: usize, policies: Vec<Policy>) {
            let (pod, desired, networks) = desired_of(policies);
            self.places.values_mut().nth(which).unwrap().want(&pod, desired);
            if which == 0 {
                self.networks = networks;
            }
        }

        /// From now on these policies select both, and may be held back there as before.
        fn follow(&mut self, policies: Vec<Policy>) {
            let (pod, cluster) = selected(policies);
            let plugins = Plugins::new(&[]);
            self.networks
                .update(&cluster, &Touched::Anything, &[&pod], &plugins, Vec::new());
            for place in self.places.values_mut() {
                place.follow(&pod, &self.networks);
            }
        }

        fn round(&self) -> Round<'_> {
            Round {
                networks: &self.networks,
                unknown: None,
                metrics: &self.metrics,
                cutting: None,
            }
        }

        fn make(&mut self) {
            let mut places = std::mem::take(&mut self.places);
            self.round().make(&mut places, |_| true);
            self.places = places;
        }

        /// Lets one of them have its turn; whether another turn is to come.
        fn search(&mut self) -> bool {
            let mut places = std::mem::take(&mut self.places);
            let goes_on = self.round().search(&mut places);
            self.places = places;
            goes_on
        }

        /// Whether the kernel has exactly the rules of these policies in one of them.
        fn has(&self, which: usize, policies: Vec<Policy>) -> bool {
            let table = desired_of(policies).1.table.unwrap();
            let mut client = Client::open(&self.namespaces[which]).unwrap();
            client.plan(&table).unwrap().is_empty()
        }

        fn trouble(&self, which: usize) -> Option<String> {
            let place = self.places.values().nth(which).unwrap();
            place.status(&Readings::default()).unwrap().trouble
        }
    }

    #[test]
    fn all_pods_have_what_the_kernel_takes_before_one_searches_for_who_is_to_blame() {
        let test = concat!(
            module_path!(),
            "::all_pods_have_what_the_kernel_takes_before_one_searches_for_who_is_to_blame"
        );
        where_sockets_are_small(test, || {
            let mut two = Two::new();
            two.want(0, vec![small("x/a", 1)]);
            two.make();
            two.want(0, vec![small("x/a", 3), refused("x/bad"), small("x/c", 4)]);
            two.want(1, vec![small("x/b", 2)]);
            let log = Log::of(|| {
                two.make();
                // The first keeps what it had, and says so.
                assert!(two.has(0, vec![small("x/a", 1)]) && two.has(1, vec![small("x/b", 2)]));
                assert!(two.trouble(0).unwrap().contains("could not be sent"));
                while two.search() {}
                assert!(two.has(0, vec![small("x/a", 3), closed("x/bad"), small("x/c", 4)]));
                assert!(two.trouble(0).unwrap().starts_with("MultiNetworkPolicy x/bad: "));
            });
            let at = |pod: &str| {
                log.iter()
                    .position(|line| line.contains(&format!("pod=\"x/{pod}\"")))
            };
            assert!(at("two").unwrap() < at("one").unwrap(), "{log:#?}");
        });
    }

    #[test]
    fn a_pod_without_rules_is_closed_until_it_is_known_who_is_to_blame() {
        let test = concat!(
            module_path!(),
            "::a_pod_without_rules_is_closed_until_it_is_known_who_is_to_blame"
        );
        where_sockets_are_small(test, || {
            let mut two = Two::new();
            two.want(0, vec![small("x/a", 1), refused("x/bad")]);
            two.want(1, vec![small("x/b", 2)]);
            two.make();
            assert!(two.has(0, vec![closed("x/a"), closed("x/bad")]));
            assert!(two.has(1, vec![small("x/b", 2)]));
            while two.search() {}
            assert!(two.has(0, vec![small("x/a", 1), closed("x/bad")]));
        });
    }

    #[test]
    fn who_is_to_blame_is_searched_for_in_turns_while_policies_change() {
        let test = concat!(
            module_path!(),
            "::who_is_to_blame_is_searched_for_in_turns_while_policies_change"
        );
        where_sockets_are_small(test, || {
            let mut two = Two::new();
            let each = |are_bad: &[u16], bad: fn(&str) -> Policy| -> Vec<_> {
                let each = (0..20).map(|number| match format!("x/p{number:02}") {
                    name if are_bad.contains(&number) => bad(&name),
                    name => small(&name, number + 1),
                });
                each.collect()
            };
            let before = vec![small("x/p00", 99)];
            two.follow(before.clone());
            two.make();
            two.follow(each(&[3, 8, 13, 18], refused));
            two.make();
            assert!(two.search(), "one turn is not enough");
            // The other waits for its turn with what nobody can be to blame for.
            let others = (1..20).map(|number| closed(&format!("x/p{number:02}")));
            assert!(two.has(1, before.into_iter().chain(others).collect()));
            two.follow(each(&[3, 5, 13, 18], refused));
            two.make();
            while two.search() {}
            for which in [0, 1] {
                assert!(two.has(which, each(&[3, 5, 13, 18], closed)));
            }
        });
    }
}
