//! Policies because of which the kernel does not take the table: they stay as they were, and everything else is in force. In the
//! place of one that was not in force is one that allows the same pods nothing, if the kernel takes that.
//!
//! First all that changed are held back, so that the table is in force with everything else, and no wider than it is to be. Then
//! more and more of them are let in, half by half, until those are left that are to blame. That takes the more tables the more are:
//! it goes on for a few of them at a time, and others are heard between.
//!
//! Where no policy is to blame, pods or namespaces are whose labels or addresses have changed: they too stay as they were.

use std::collections::BTreeSet;

use picket_engine::Delta;
use picket_nftables::client::SyncError;
use picket_nftables::render::indexed::{IndexedError, policies_behind};
use picket_policy::ObjectRef;

use crate::enforcer::Enforcer;
use crate::error::HostError;
use crate::knowledge::Knowledge;
use crate::ledger::Instead;

/// How many tables are tried before others are heard.
const AT_ONCE: usize = 8;

/// Of how many policies is tried whether one alone is to blame that cannot even allow nothing.
const ALONE: usize = 100;

/// How many objects of the table are looked up of those that an error names.
const NAMES: usize = 20;

/// What is not known yet of who is to blame.
#[derive(Default)]
pub(crate) struct Search {
    /// Policies that are held back, because a table with all of a group was refused or none has been tried.
    groups: Vec<Vec<ObjectRef>>,
    /// Those in whose place nothing can be in force, not even what allows nothing.
    open: BTreeSet<ObjectRef>,
}

impl Search {
    /// Whether it is known who is.
    pub(crate) fn is_over(&self) -> bool {
        self.groups.is_empty()
    }
}

/// Finds who is to blame.
pub(crate) struct Blame<'a> {
    knowledge: &'a mut Knowledge,
    enforcer: &'a mut Enforcer,
}

impl<'a> Blame<'a> {
    pub(crate) fn new(knowledge: &'a mut Knowledge, enforcer: &'a mut Enforcer) -> Self {
        Self { knowledge, enforcer }
    }

    /// Holds back what may be to blame for `error`, and puts everything else into force. Whether that could be; if
    /// not everything is as it was.
    pub(crate) fn find(&mut self, error: &HostError) -> bool {
        if !error.is_refusal() {
            return false;
        }
        let changed = self.knowledge.changed();
        let subjects = self.knowledge.changed_subjects();
        for object in changed.iter().chain(&subjects) {
            self.enforcer.search.open.remove(object);
        }
        let named = self.named(error, &changed);
        let all = match changed.is_empty() || subjects.is_empty() {
            true => Vec::new(),
            false => [changed.clone(), subjects.clone()].concat(),
        };
        let mut suspects = [named, changed, subjects, all].into_iter();
        suspects.any(|suspects| self.clear(suspects, error))
    }

    /// Tries as many tables as may be at once to let in again what is not to blame.
    pub(crate) fn go_on(&mut self) {
        for _ in 0..AT_ONCE {
            self.step();
        }
    }

    /// Tries a table.
    fn step(&mut self) {
        let Some(group) = self.enforcer.search.groups.pop() else {
            return;
        };
        self.release(&group);
        if let Err(error) = self.attempt() {
            self.hold(&group);
            self.divide(group, &error);
        }
    }

    /// Whether everything can be in force but these.
    fn clear(&mut self, suspects: Vec<ObjectRef>, error: &HostError) -> bool {
        if suspects.is_empty() {
            return false;
        }
        self.hold(&suspects);
        let is_clear = match self.attempt() {
            Ok(()) => true,
            Err(error) => self.leave_out(&suspects, error),
        };
        match is_clear {
            true => self.divide(suspects, error),
            false => self.release(&suspects),
        }
        is_clear
    }

    /// Where policies cannot even allow nothing, leaves those out, and no others: until it is known who they are, nothing that is
    /// wider than what was in force must be. Whether that could be found out.
    fn leave_out(&mut self, suspects: &[ObjectRef], mut error: HostError) -> bool {
        let mut left_out = Vec::new();
        // Rules that cannot be written are written without a policy before the kernel gets any.
        while let HostError::Render(_) = &error
            && let Some(policy) = self.named(&error, &self.closed(suspects)).pop()
        {
            self.open(&policy, true);
            left_out.push(policy);
            match self.attempt() {
                Ok(()) => return true,
                Err(next) => error = next,
            }
        }
        let closed = self.closed(suspects);
        let mut alone = self.named(&error, &closed);
        if self.enforcer.is_ready() {
            // What is new is not in force now, either.
            alone.extend(closed.into_iter().take(ALONE));
        }
        for policy in &alone {
            self.open(policy, true);
            if self.attempt().is_ok() {
                return true;
            }
            self.open(policy, false);
        }
        for policy in &left_out {
            self.open(policy, false);
        }
        false
    }

    /// Those of the policies in whose place one is that allows nothing.
    fn closed(&self, policies: &[ObjectRef]) -> Vec<ObjectRef> {
        let mut closed = self.knowledge.closed();
        closed.retain(|policy| policies.contains(policy));
        closed
    }

    /// What stands in the place of a policy that is held back: nothing, or what allows nothing.
    fn open(&mut self, policy: &ObjectRef, is_open: bool) {
        let one = std::slice::from_ref(policy);
        self.release(one);
        match is_open {
            true => self.enforcer.search.open.insert(policy.clone()),
            false => self.enforcer.search.open.remove(policy),
        };
        self.hold(one);
    }

    /// One policy that was refused is to blame; of several that were together, some are.
    fn divide(&mut self, mut policies: Vec<ObjectRef>, error: &HostError) {
        if policies.len() < 2 || !error.is_refusal() {
            for policy in &policies {
                self.enforcer.hold(policy, error);
            }
            return;
        }
        self.enforcer.suspect(&policies, error);
        let others = policies.split_off(policies.len() / 2);
        self.enforcer.search.groups.extend([others, policies]);
    }

    fn attempt(&mut self) -> Result<(), HostError> {
        self.knowledge
            .program()
            .map_or(Ok(()), |program| self.enforcer.attempt(program))
    }

    fn hold(&mut self, policies: &[ObjectRef]) {
        let (open, closed): (Vec<_>, Vec<_>) = policies
            .iter()
            .cloned()
            .partition(|policy| self.enforcer.search.open.contains(policy));
        for (policies, instead) in [(open, Instead::Nothing), (closed, Instead::Closed)] {
            let note = |delta: &Delta| self.enforcer.note(delta);
            self.knowledge.hold(&policies, instead, note);
        }
    }

    fn release(&mut self, policies: &[ObjectRef]) {
        let note = |delta: &Delta| self.enforcer.note(delta);
        self.knowledge.release(policies, note);
    }

    /// Those of the policies that an error about the table of the program names, or of whose pods something is that it names.
    fn named(&self, error: &HostError, policies: &[ObjectRef]) -> Vec<ObjectRef> {
        let named: BTreeSet<_> = match (error, self.knowledge.program()) {
            (HostError::Render(IndexedError::Collision(one, other)), _) => {
                [one, other].map(|policy| ObjectRef::clone(policy)).into()
            }
            (HostError::Sync(SyncError::Apply(error)), Some(program)) => {
                let names = error.names().into_iter().take(NAMES);
                names
                    .flat_map(|name| policies_behind(program, Some(self.enforcer.node()), name))
                    .collect()
            }
            _ => return Vec::new(),
        };
        let named = policies.iter().filter(|policy| named.contains(*policy));
        named.cloned().collect()
    }
}

#[cfg(test)]
mod kernel {
    use picket_cluster::{Event, Object};
    use picket_dataplane::Plan;
    use picket_linux::NetworkNamespace;
    use picket_net::Protocol;
    use picket_nftables::client::Client;
    use picket_nftables::diff::Operation;
    use picket_nftables::model::{Name, Rule, Verdict};
    use picket_nftables::render::indexed::{counter_name, restricted_addresses};
    use picket_policy::{Direction, Policy};
    use picket_source::ObjectVersion;
    use picket_testing::build::{
        PolicyBuilder, accept, admin_policy, baseline_policy, deny, namespace, pass, pod, policy,
    };
    use picket_testing::confined::where_sockets_are_small;

    use super::*;
    use crate::testing::{Log, Node, large, large_block};

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
            let named = |line: &&String| line.starts_with("ERROR not in force as it is now");
            let named: Vec<_> = log.iter().filter(named).collect();
            assert!(named.len() == 1 && named[0].contains("x/large"), "{log:#?}");
            let metrics = node.metrics();
            for line in [
                "picket_policies_waiting 1",
                "picket_policy_waiting{kind=\"NetworkPolicy\",namespace=\"x\",name=\"large\"} 1",
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

    /// The pod `x/a` with a label.
    fn labelled(team: &str) -> Event {
        let own = pod("x/a").on("n").ip("10.0.0.1");
        Event::Apply(own.label("team", team).into())
    }

    /// A policy that is too large where it is about anybody of a team.
    fn large_of(team: &str) -> Policy {
        let of_team = policy("x/large").selects(&format!("team={team}"));
        of_team.ingress(accept().peer(large_block())).build()
    }

    #[test]
    fn a_pod_whose_labels_make_too_much_of_a_table_stays_as_it_was() {
        let test = concat!(
            module_path!(),
            "::a_pod_whose_labels_make_too_much_of_a_table_stays_as_it_was"
        );
        where_sockets_are_small(test, || {
            let mut node = Node::new([small("a", 1), large_of("red")]);
            let before = node.table();
            node.hear(vec![labelled("red")]);
            assert_eq!(told(&node), (names(&["a"]), vec!["Pod x/a".to_owned()]));
            assert_eq!(node.table(), before);
            // What comes later is in force, also what the pod could be to blame for with it.
            for next in [small("b", 2), small("c", 3)] {
                node.hear(vec![Event::Apply(Object::Policy(next))]);
            }
            assert_eq!(told(&node), (names(&["a", "b", "c"]), vec!["Pod x/a".to_owned()]));
            node.prove();
            assert!(node.shared.status().host.proof.unwrap().proved);
            node.hear(vec![labelled("blue")]);
            assert_eq!(told(&node).1, Vec::<String>::new());
            node.hear(vec![labelled("red"), Event::Delete(large_of("red").object)]);
            assert_eq!(told(&node), (names(&["a", "b", "c"]), vec![]));
        });
    }

    #[test]
    fn a_pod_and_a_policy_that_are_both_to_blame_stay_as_they_were() {
        let test = concat!(
            module_path!(),
            "::a_pod_and_a_policy_that_are_both_to_blame_stay_as_they_were"
        );
        where_sockets_are_small(test, || {
            let mut node = Node::new([small("a", 1), large_of("red")]);
            node.hear(vec![
                labelled("red"),
                Event::Apply(Object::Policy(large("x/all"))),
            ]);
            let waiting = [names(&["all"]), vec!["Pod x/a".to_owned()]].concat();
            assert_eq!(told(&node), (names(&["a"]), waiting));
            node.hear(vec![labelled("blue"), Event::Delete(large("x/all").object)]);
            assert_eq!(told(&node), (names(&["a"]), vec![]));
        });
    }

    #[test]
    fn a_new_pod_whose_labels_make_too_much_of_a_table_is_shut() {
        let test = concat!(
            module_path!(),
            "::a_new_pod_whose_labels_make_too_much_of_a_table_is_shut"
        );
        where_sockets_are_small(test, || {
            let new = |team: &str| {
                let new = pod("x/new").on("n").ip("10.0.0.2").label("team", team);
                Event::Apply(new.into())
            };
            let shut = |node: &Node| restricted_addresses(&node.table()).collect::<Vec<_>>();
            let waiting = vec!["Pod x/new".to_owned()];
            let mut node = Node::new([large_of("red")]);
            for other in [None, Some(small("b", 2)), None] {
                let other = other.map(|other| Event::Apply(Object::Policy(other)));
                node.hear([new("red")].into_iter().chain(other).collect());
                assert_eq!(told(&node).1, waiting);
                assert!(shut(&node).contains(&"10.0.0.2".parse().unwrap()));
                let program = node.knowledge.program().unwrap();
                let subject = |direction| program.subject(&ObjectRef::new("Pod", "x", "new"), direction);
                for subject in Direction::BOTH.map(|direction| subject(direction).unwrap()) {
                    assert!(program.allow_set(subject).is_nothing());
                }
                node.prove();
                assert!(node.shared.status().host.proof.unwrap().proved);
            }
            node.hear(vec![Event::Delete(small("b", 2).object), new("blue")]);
            assert_eq!((told(&node), shut(&node)), ((vec![], vec![]), vec![]));
            node.hear(vec![new("red")]);
            node.hear(vec![Event::Delete(ObjectRef::new("Pod", "x", "new"))]);
            assert_eq!((told(&node), shut(&node)), ((vec![], vec![]), vec![]));
            assert_eq!(node.knowledge.program().unwrap().policies().count(), 1);
        });
    }

    #[test]
    fn a_namespace_whose_labels_make_too_much_of_a_table_stays_as_it_was() {
        let test = concat!(
            module_path!(),
            "::a_namespace_whose_labels_make_too_much_of_a_table_stays_as_it_was"
        );
        where_sockets_are_small(test, || {
            let of_red = || {
                let policy = admin_policy("large", 1).selects_in("team=red");
                policy.ingress(deny().peer(large_block())).build()
            };
            let space = |team: &str| {
                let space = namespace("x").label("team", team);
                vec![Event::Apply(Object::Namespace(space.build()))]
            };
            let mut node = Node::new([small("a", 1), of_red()]);
            let before = node.table();
            node.hear(space("red"));
            assert_eq!(told(&node), (names(&["a"]), vec!["Namespace x".to_owned()]));
            assert_eq!(node.table(), before);
            node.hear(space("blue"));
            assert_eq!(told(&node), (names(&["a"]), vec![]));
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

    /// Finds who is to blame when an agent starts, and gives each table that is in force on the way to `check`.
    fn start(node: &mut Node, check: impl Fn(&Node)) {
        let program = node.knowledge.program().unwrap();
        let error = node.enforcer.attempt(program).unwrap_err();
        assert!(Blame::new(&mut node.knowledge, &mut node.enforcer).find(&error));
        check(node);
        while !node.enforcer.search.is_over() {
            Blame::new(&mut node.knowledge, &mut node.enforcer).step();
            check(node);
        }
        node.knowledge.settle();
        node.enforcer.settle(&mut node.knowledge);
        check(node);
    }

    /// Asserts that each of these policies isolates, whatever it allows.
    fn assert_isolating(node: &Node, policies: &[Policy]) {
        let table = node.table();
        let there: BTreeSet<_> = table.counters().iter().map(|counter| &counter.name).collect();
        for policy in policies {
            let counter = counter_name(&policy.object, Direction::Ingress);
            assert!(there.contains(&counter), "{}", policy.object);
        }
    }

    #[test]
    fn of_two_hundred_policies_six_that_are_bad_are_found_while_all_others_isolate() {
        let test = concat!(
            module_path!(),
            "::of_two_hundred_policies_six_that_are_bad_are_found_while_all_others_isolate"
        );
        where_sockets_are_small(test, || {
            let is_bad = |number: &u16| number % 37 == 5;
            let name = |number: u16| format!("p{number:03}");
            let policies: Vec<_> = (0..200)
                .map(|number| match is_bad(&number) {
                    true => large(&format!("x/{}", name(number))),
                    false => small(&name(number), number + 1),
                })
                .collect();
            let mut node = Node::before(policies.clone());
            start(&mut node, |node| assert_isolating(node, &policies));
            let (bad, good): (Vec<_>, Vec<_>) = (0..200).partition(is_bad);
            let all = |numbers: Vec<u16>| -> Vec<_> {
                let each = numbers.into_iter().map(name);
                each.map(|name| format!("NetworkPolicy x/{name}")).collect()
            };
            assert_eq!(bad.len(), 6);
            assert_eq!(told(&node), (all(good), all(bad)));
        });
    }

    /// The nearest there is to policies with one hash: two of one name.
    fn twins(name: &str, port: u16) -> [Policy; 2] {
        ["1", "2"].map(|uid| {
            let mut policy = small(name, port);
            policy.object.uid = uid.into();
            policy
        })
    }

    #[test]
    fn policies_that_cannot_be_in_one_table_keep_no_other_out_when_an_agent_starts() {
        let test = concat!(
            module_path!(),
            "::policies_that_cannot_be_in_one_table_keep_no_other_out_when_an_agent_starts"
        );
        where_sockets_are_small(test, || {
            for bad in [vec![], vec![large("x/l"), large("x/m")]] {
                let others = [vec![small("a", 1), small("z", 9)], bad.clone()].concat();
                let twins = [twins("t", 2), twins("u", 3)].concat();
                let policies = [others, twins].concat();
                let mut node = Node::before(policies.clone());
                start(&mut node, |node| assert_isolating(node, &policies));
                let waiting = match bad.is_empty() {
                    true => names(&["t", "u"]),
                    false => names(&["l", "m", "t", "u"]),
                };
                assert_eq!(told(&node), (names(&["a", "t", "u", "z"]), waiting));
            }
        });
    }

    #[test]
    fn who_stands_behind_what_the_kernel_refuses_is_suspected_first() {
        let namespace = NetworkNamespace::create().unwrap();
        let refusing = || {
            let selects = |name: &str, port: u16| {
                let policy = policy(&format!("x/{name}")).selects(&format!("app={name}"));
                policy.ingress(accept().port(Protocol::TCP, port)).build()
            };
            let [one, other] = [selects("one", 1), selects("other", 2)];
            let mut node = Node::new([one, other.clone()]);
            let pods = [("one", "10.0.0.2"), ("other", "10.0.0.3")].map(|(name, address)| {
                let pod = pod(&format!("x/{name}")).on("n").label("app", name);
                Event::Apply(pod.ip(address).into())
            });
            node.hear(pods.to_vec());
            let changed = [selects("one", 3), selects("other", 4)];
            node.learn(changed.map(|policy| Event::Apply(Object::Policy(policy))).into());

            let table = node.table();
            let counter = counter_name(&other.object, Direction::Ingress);
            let counts = |rule: &Rule| format!("{rule:?}").contains(counter.as_str());
            let chain = table.chains().iter().find(|chain| chain.rules.iter().any(counts));
            let chain = chain.unwrap().name.clone();
            let nowhere = Rule::when([], Verdict::Jump(Name::new("nowhere").unwrap()));
            let mut client = Client::open(&node.namespace).unwrap();
            let own = vec![other.object];
            for (operation, suspects) in [
                (Operation::AddRules(chain.clone(), vec![nowhere]), own.clone()),
                (Operation::DeleteChain(chain.clone()), own.clone()),
                (Operation::DeleteMap(chain), own.clone()),
                (Operation::DeleteCounter(counter), own),
                // All pods are in it.
                (Operation::DeleteMap(Name::new("ingress4").unwrap()), vec![]),
            ] {
                let plan = Plan::from_iter([operation.clone()]);
                let error = client.apply(Some(&table), &plan, None).unwrap_err();
                let error = HostError::Sync(SyncError::Apply(error));
                let mut blame = Blame::new(&mut node.knowledge, &mut node.enforcer);
                let changed = blame.knowledge.changed();
                assert_eq!(changed.len(), 2);
                assert_eq!(blame.named(&error, &changed), suspects, "{operation:?}");
                if suspects.is_empty() {
                    continue;
                }
                assert!(blame.find(&error));
                assert!(blame.enforcer.search.is_over());
                assert_eq!(blame.knowledge.held(), suspects);
                blame.release(&suspects);
            }
        };
        namespace.run(refusing).unwrap();
    }
}
