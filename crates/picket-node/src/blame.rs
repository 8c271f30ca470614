//! Policies because of which the kernel does not take the table: they stay as they were, and everything else is in force. In the
//! place of one that was not in force is one that allows the same pods nothing, if the kernel takes that.

use picket_engine::Delta;
use picket_nftables::render::indexed::IndexedError;
use picket_policy::ObjectRef;

use crate::enforcer::Enforcer;
use crate::error::HostError;
use crate::knowledge::Knowledge;
use crate::ledger::Instead;

/// How many tables are tried at most. Finding one policy among a million takes about forty.
const ATTEMPTS: usize = 100;

/// Finds who is to blame.
pub(crate) struct Blame<'a> {
    knowledge: &'a mut Knowledge,
    enforcer: &'a mut Enforcer,
    instead: Instead,
    /// How many tables may be tried yet.
    attempts: usize,
}

impl<'a> Blame<'a> {
    /// For a table that was refused.
    pub(crate) fn new(knowledge: &'a mut Knowledge, enforcer: &'a mut Enforcer) -> Self {
        Self {
            knowledge,
            enforcer,
            instead: Instead::Closed,
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
        for instead in [Instead::Closed, Instead::Nothing] {
            self.instead = instead;
            self.hold(suspects);
            if self.attempt().is_ok() {
                self.admit(suspects, error);
                return true;
            }
            self.release(suspects);
        }
        false
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
        self.knowledge.hold(policies, self.instead, note);
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

#[cfg(test)]
mod kernel {
    use picket_cluster::{Event, Object};
    use picket_net::Protocol;
    use picket_policy::{Direction, Policy};
    use picket_source::ObjectVersion;
    use picket_testing::build::{PolicyBuilder, accept, admin_policy, baseline_policy, deny, pass, policy};

    use crate::testing::{Log, Node, large, large_block, where_sockets_are_small};

    fn small(name: &str, port: u16) -> Policy {
        let policy = policy(&format!("x/{name}"));
        policy.ingress(accept().port(Protocol::TCP, port)).build()
    }

    /// The policies that are in force, and those that wait.
    fn told(node: &Node) -> (Vec<String>, Vec<String>) {
        let host = node.shared.status().host;
        let waiting = host.trouble.map(|trouble| trouble.waiting);
        (host.policies, waiting.unwrap_or_default())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names
            .iter()
            .map(|name| format!("NetworkPolicy x/{name}"))
            .collect()
    }

    #[test]
    fn what_the_kernel_refuses_of_one_policy_keeps_no_other_out() {
        let test = concat!(
            module_path!(),
            "::what_the_kernel_refuses_of_one_policy_keeps_no_other_out"
        );
        where_sockets_are_small(test, || {
            let mut node = Node::new([small("a", 1), small("b", 2)]);
            assert_eq!(told(&node), (names(&["a", "b"]), vec![]));
            let next = [small("a", 3), small("c", 4), large("x/large"), small("z", 5)];
            let events = next.map(|policy| Event::Apply(Object::Policy(policy)));
            let log = Log::of(|| node.hear(events.to_vec()));
            assert_eq!(told(&node), (names(&["a", "b", "c", "z"]), names(&["large"])));
            let trouble = node.shared.status().host.trouble.unwrap();
            assert!(trouble.why.contains("could not be sent"), "{trouble:?}");
            let named = |line: &&String| line.starts_with("ERROR a policy is not in force");
            let named: Vec<_> = log.iter().filter(named).collect();
            assert!(named.len() == 1 && named[0].contains("x/large"), "{log:#?}");
            let metrics = node.metrics();
            for line in [
                "picket_policies_waiting 1",
                "picket_failures_total{reason=\"refused\"} 1",
            ] {
                assert!(metrics.iter().any(|told| told == line), "{metrics:#?}");
            }
            node.prove();
            assert!(node.shared.status().host.proof.unwrap().proved);

            // What is in force of one that changes stays.
            node.hear(vec![Event::Apply(Object::Policy(large("x/b")))]);
            assert_eq!(
                told(&node),
                (names(&["a", "b", "c", "z"]), names(&["b", "large"]))
            );
            node.hear(vec![
                Event::Apply(Object::Policy(small("large", 6))),
                Event::Delete(small("b", 2).object),
            ]);
            assert_eq!(told(&node), (names(&["a", "c", "large", "z"]), vec![]));
        });
    }

    /// In which generations a policy was read and is in force.
    fn generations(node: &Node, name: &str) -> Option<(Option<i64>, Option<i64>)> {
        let versions = node.shared.status().host.policy_versions;
        let name = format!("NetworkPolicy x/{name}");
        let found = versions.into_iter().find(|versions| versions.policy == name)?;
        let generation = |version: Option<ObjectVersion>| version.and_then(|version| version.generation);
        assert_eq!(found.why.is_some(), !found.is_current(), "{found:?}");
        Some((generation(found.read), generation(found.in_force)))
    }

    #[test]
    fn versions_of_policies_are_in_force_only_once_the_kernel_takes_them() {
        let test = concat!(
            module_path!(),
            "::versions_of_policies_are_in_force_only_once_the_kernel_takes_them"
        );
        where_sockets_are_small(test, || {
            let mut node = Node::new([]);
            let mut number = 0;
            let mut apply = |node: &mut Node, policy: Policy| {
                number += 1;
                node.read(&policy.object, Some(number));
                node.hear(vec![Event::Apply(Object::Policy(policy))]);
            };
            apply(&mut node, small("a", 1));
            assert_eq!(generations(&node, "a"), Some((Some(1), Some(1))));
            apply(&mut node, large("x/a"));
            assert_eq!(generations(&node, "a"), Some((Some(2), Some(1))));
            // Nor is one in force in whose place another isolates.
            apply(&mut node, large("x/new"));
            assert_eq!(generations(&node, "new"), Some((Some(3), None)));
            apply(&mut node, small("b", 2));
            assert_eq!(generations(&node, "b"), Some((Some(4), Some(4))));
            assert_eq!(generations(&node, "a"), Some((Some(2), Some(1))));
            apply(&mut node, small("a", 3));
            assert_eq!(generations(&node, "a"), Some((Some(5), Some(5))));
            let gone = small("b", 2).object;
            node.read(&gone, None);
            node.hear(vec![Event::Delete(gone)]);
            assert_eq!(generations(&node, "b"), None);
        });
    }

    #[test]
    fn a_new_policy_that_is_refused_isolates() {
        let test = concat!(module_path!(), "::a_new_policy_that_is_refused_isolates");
        where_sockets_are_small(test, || {
            let isolation = Node::new([policy("x/large").isolates(Direction::Ingress).build()]).table();
            let apply = |policy| vec![Event::Apply(Object::Policy(policy))];
            let mut node = Node::new([]);
            assert_ne!(node.table(), isolation);
            for event in [apply(large("x/large")), apply(large("x/large")), vec![]] {
                node.hear(event);
                assert_eq!(told(&node), (vec![], names(&["large"])));
                assert_eq!(node.table(), isolation);
            }
            // As after an agent has ended that had one in force of which the kernel takes no more.
            let node = Node::new([large("x/large")]);
            assert_eq!(told(&node), (vec![], names(&["large"])));
            assert_eq!(node.table(), isolation);
            let mut node = Node::new([small("a", 1), large("x/large")]);
            assert_eq!(told(&node), (names(&["a"]), names(&["large"])));
            node.hear(apply(small("large", 2)));
            assert_eq!(told(&node), (names(&["a", "large"]), vec![]));
            node.hear(apply(large("x/large")));
            assert_eq!(told(&node), (names(&["a", "large"]), names(&["large"])));
            let kept = node.table();
            assert_eq!(Node::new([small("a", 1), small("large", 2)]).table(), kept);
        });
    }

    #[test]
    fn a_new_policy_of_an_ordered_tier_that_is_refused_denies() {
        let test = concat!(
            module_path!(),
            "::a_new_policy_of_an_ordered_tier_that_is_refused_denies"
        );
        where_sockets_are_small(test, || {
            for new in [admin_policy, baseline_policy] {
                let large = || new("large", 1);
                let rest = new("rest", 2).ingress(deny()).egress(deny());
                let node =
                    |rules: &[&PolicyBuilder]| Node::new(rules.iter().map(|rule| (*rule).clone().build()));
                let table = |rules: &[&PolicyBuilder]| node(rules).table();
                let refused = |rules: &[&PolicyBuilder]| {
                    let node = node(rules);
                    assert_eq!(told(&node).1, ["ClusterNetworkPolicy large"]);
                    node.table()
                };
                let [ingress, egress] = Direction::BOTH.map(|direction| large().rule(direction, deny()));
                let denies = large().ingress(deny().peer(large_block()));
                assert_eq!(refused(&[&denies]), table(&[&ingress]));
                let accepts_too = denies.clone().egress(accept());
                assert_eq!(refused(&[&accepts_too]), table(&[&ingress]));
                let both = denies.clone().egress(deny().protocol(Protocol::TCP));
                assert_eq!(refused(&[&both]), table(&[&ingress.egress(deny())]));
                assert_eq!(refused(&[&denies.audited()]), table(&[]));
                // What it accepts others may deny, and what it passes on others may accept.
                let accepts = large().ingress(accept().peer(large_block()));
                assert_eq!(refused(&[&accepts, &rest]), table(&[&rest]));
                let passes = large().egress(pass().peer(large_block()));
                assert_eq!(refused(&[&passes, &rest]), table(&[&egress, &rest]));
            }
        });
    }

    #[test]
    fn without_a_policy_to_blame_everything_stays() {
        let test = concat!(module_path!(), "::without_a_policy_to_blame_everything_stays");
        where_sockets_are_small(test, || {
            let mut node = Node::new([small("a", 1)]);
            let before = node.table();
            let mut thief = picket_nftables::client::Client::open(&node.namespace)
                .unwrap()
                .holding();
            thief.sync(&std::sync::Arc::new(before.clone())).unwrap();
            node.hear(vec![Event::Apply(Object::Policy(small("b", 2)))]);
            assert_eq!(told(&node).1, names(&["b"]));
            assert_eq!(node.table(), before);
            drop(thief);
        });
    }
}
