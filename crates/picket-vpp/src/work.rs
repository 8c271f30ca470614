//! How much is looked at to follow a change, which tests hold against how many pods there are.

#[cfg(test)]
thread_local! {
    static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// So many entries, lists or rules more have been looked at. Nothing is counted but in tests.
#[inline]
pub(crate) fn looked_at(count: usize) {
    #[cfg(test)]
    LOOKED_AT.set(LOOKED_AT.get() + count);
    #[cfg(not(test))]
    let _ = count;
}

#[cfg(test)]
mod tests {
    use picket_cluster::{Event, Object, Semantics};
    use picket_engine::Engine;
    use picket_net::Protocol;
    use picket_policy::{Direction, Policy};
    use picket_testing::applications::{address, apply, exchanges, member};
    use picket_testing::build::{PodBuilder, accept, block, pod, pods_where, policy};

    use super::*;
    use crate::acl::hold::Held;
    use crate::acl::plan::{Installed, Operation};
    use crate::changes::Changes;
    use crate::place::Places;
    use crate::{acl, session};

    /// What a pod of its own may receive.
    fn receives(number: usize) -> Policy {
        let from = accept().peer(pods_where("", "app=none"));
        policy(&format!("x/own{number}"))
            .selects(&format!("app=a{number}"))
            .ingress(from.port(Protocol::TCP, 1000 + u16::try_from(number).unwrap()))
            .build()
    }

    /// What there is, what has happened to it already, and what happens.
    type Events = [Vec<Event>; 3];

    /// Applications of two pods each, and what may happen to them.
    fn applications(count: usize) -> Events {
        let pods = (0..count).map(|number| apply(member(number, Some(number / 2)).build()));
        let policies = (0..count / 2).map(|application| apply(Object::Policy(exchanges(application, 80))));
        let there = pods.chain(policies).collect();
        let (known, new) = (member(7, Some(3)).build(), member(count, Some(5)).build());
        let happens = vec![
            apply(Object::Policy(exchanges(3, 81))),
            apply(new.clone()),
            Event::Delete(new.object),
            apply(member(count + 1, None).build()),
            apply(member(7, Some(9)).build()),
            apply(known),
        ];
        [there, Vec::new(), happens]
    }

    /// Pods that may each receive something else, where one comes and goes that may send nothing: each list takes in one rule.
    fn worst(count: usize) -> Events {
        let pods = (0..count).map(|number| apply(member(number, Some(number)).build()));
        let policies = (0..count).map(|number| apply(Object::Policy(receives(number))));
        let silent = policy("x/silent")
            .selects("app=none")
            .isolates(Direction::Egress)
            .build();
        let there = pods.chain(policies).chain([apply(Object::Policy(silent))]);
        let who = pod("x/silent").label("app", "none").ip("10.0.200.1").build();
        let gone = Event::Delete(who.object.clone());
        // The first time the numbers of what each receives are more than twice those that there were, and everything is numbered anew.
        let comes_and_goes = vec![apply(who), gone];
        [there.collect(), comes_and_goes.clone(), comes_and_goes]
    }

    /// Pods under one policy for both directions, which let in some pods and may send to some others, and what may happen to them. What
    /// happens to one of those others concerns all.
    fn common(count: usize) -> Events {
        let exchanges = |port| {
            let with = |label: &str| accept().peer(pods_where("", label)).port(Protocol::TCP, port);
            let policy = policy("x/common").selects("app=common");
            let policy = policy.ingress(with("app=first")).egress(with("app=second"));
            apply(Object::Policy(policy.build()))
        };
        let named = |name: &str, app: &str, address: &str| {
            let pod = pod(&format!("x/{name}")).ip(address);
            pod.label("app", app).build()
        };
        let own = |number: usize, app: &str| named(&format!("p{number}"), app, &address(number));
        let peers = [("first", "10.0.200.1"), ("second", "10.0.200.3")];
        let there = (0..count).map(|number| apply(own(number, "common")));
        let there = there.chain(peers.map(|(app, address)| apply(named(app, app, address))));
        let there = there.chain([exchanges(80)]);
        let mut happens = vec![
            apply(own(count, "common")),
            Event::Delete(own(count, "common").object),
            apply(own(3, "other")),
            apply(own(3, "common")),
            exchanges(81),
        ];
        for (app, address) in [("first", "10.0.200.5"), ("second", "10.0.200.7")] {
            let more = named("more", app, address);
            let gone = Event::Delete(more.object.clone());
            happens.extend([apply(more), gone]);
        }
        [there.collect(), Vec::new(), happens]
    }

    /// How much is looked at for each event that happens, by a target that follows it.
    fn counted(
        [there, happened, happens]: Events,
        mut follow: impl FnMut(&mut Engine, Option<Event>),
    ) -> Vec<usize> {
        let mut engine = Engine::new(Semantics::default());
        for event in there {
            engine.apply(event);
        }
        follow(&mut engine, None);
        for event in happened {
            follow(&mut engine, Some(event));
        }
        let each = happens.into_iter().map(|event| {
            let before = LOOKED_AT.get();
            follow(&mut engine, Some(event));
            LOOKED_AT.get() - before
        });
        each.collect()
    }

    fn with_lists(what: Events) -> Vec<usize> {
        let mut renderer = acl::Renderer::new(None, acl::Options::default());
        let mut held = Held::default();
        let mut next = 0;
        counted(what, |engine, event| {
            if let Some(event) = event {
                renderer.note(&engine.apply(event));
            }
            let change = renderer.advance(engine.program());
            let mut installed: Installed = held.installed().clone();
            for name in renderer.acls().interfaces.keys() {
                installed.interfaces.entry(name.clone()).or_default();
            }
            held.set_interfaces(installed.interfaces);
            let plan = held.plan(renderer.acls(), change.interfaces.keys());
            let created = plan.operations().iter().filter_map(|operation| match operation {
                Operation::Create(acl) => Some(acl.tag.clone()),
                _ => None,
            });
            let created: Vec<_> = created.collect();
            let created = created.into_iter().map(|tag| {
                next += 1;
                (tag, next)
            });
            let created = created.collect();
            held.advance(&plan, &created);
        })
    }

    fn with_rules(what: Events) -> Vec<usize> {
        let mut renderer = session::Renderer::new(None, session::Options::default());
        counted(what, |engine, event| {
            if let Some(event) = event {
                renderer.note(&engine.apply(event));
            }
            let change = renderer.advance(engine.program());
            for turn in change.local.values().chain(change.global.values()) {
                turn.plan();
            }
            renderer.missing();
        })
    }

    /// Four times as many pods are at most six times as much work; what looks at every pod for every pod would be sixteen times.
    #[test]
    fn nothing_is_looked_at_by_every_pod_for_every_other() {
        type Happening = fn(usize) -> Events;
        for (name, happening) in [
            ("applications", applications as Happening),
            ("worst", worst),
            ("common", common),
        ] {
            for follow in [with_lists, with_rules] {
                let [few, many] = [100, 400].map(|count| follow(happening(count)));
                assert_eq!(few.len(), many.len());
                for (event, (few, many)) in few.into_iter().zip(many).enumerate() {
                    assert!(few > 0, "{name} {event}");
                    assert!(many <= 6 * few, "{name} {event}: {few} and {many}");
                }
            }
        }
    }

    /// A block and another that is excepted from it are two prefixes, one within the other; and what is in neither is not looked at.
    #[test]
    fn prefixes_that_change_cost_one_look_at_each_address_within_them() {
        const WITHIN: usize = 50;
        for outside in [100, 400] {
            let mut engine = Engine::new(Semantics::default());
            for number in 0..outside {
                engine.apply(apply(member(number, None)));
            }
            for number in 0..WITHIN {
                let pod = pod(&format!("x/within{number}")).ip(&format!("10.9.0.{number}"));
                engine.apply(apply(pod));
            }
            let mut places = Places::of(engine.program());
            let from = accept().peer(block("10.9.0.0/16", &["10.9.0.0/27"]));
            let policy = policy("x/own").selects("").ingress(from).build();
            let gone = Event::Delete(policy.object.clone());
            for event in [apply(Object::Policy(policy)), gone] {
                let mut changes = Changes::default();
                changes.note(&engine.apply(event), None);
                assert!(changes.prefixes.len() > 1 && !changes.addresses.is_empty());
                let before = LOOKED_AT.get();
                places.advance(&changes);
                let looked_at = LOOKED_AT.get() - before;
                assert_eq!(places, Places::of(engine.program()));
                let once = WITHIN + changes.prefixes.len() + changes.addresses.len();
                assert_eq!(looked_at, once, "{outside}");
            }
        }
    }

    /// So many pods of a node that each let in, and may send to, a hundred others elsewhere.
    fn with_peers(count: usize) -> Vec<Event> {
        let with = |label: &str| accept().peer(pods_where("", label)).port(Protocol::TCP, 80);
        let policy = policy("x/own").selects("app=own");
        let policy = policy.ingress(with("app=sender")).egress(with("app=receiver"));
        let own = (0..count).map(|number| {
            let pod = pod(&format!("x/own{number}")).label("app", "own").on("n");
            apply(pod.ip(&address(number)))
        });
        let peers = (0..100).flat_map(|number| ["sender", "receiver"].map(|app| apply(peer(app, number))));
        let there = own.chain(peers);
        there.chain([apply(Object::Policy(policy.build()))]).collect()
    }

    /// A pod elsewhere, next to none of its application.
    fn peer(app: &str, number: usize) -> PodBuilder {
        let block = if app == "sender" { 100 } else { 200 };
        let address = format!("10.0.{block}.{}", 2 * number);
        pod(&format!("x/{app}{number}")).label("app", app).ip(&address)
    }

    /// One more address that may send something is a rule more about each address here, in the global table; one that may receive
    /// something is a rule more in the table of each pod. Neither table is made anew, and the plan looks at nothing.
    #[test]
    fn a_rule_more_or_less_costs_each_table_one_look_at_its_rules() {
        const COUNT: usize = 10;
        let mut engine = Engine::new(Semantics::default());
        for event in with_peers(COUNT) {
            engine.apply(event);
        }
        let mut renderer = session::Renderer::new(Some("n"), session::Options::default());
        renderer.advance(engine.program());
        for (app, is_global) in [("sender", true), ("receiver", false)] {
            let comes = peer(app, 101).build();
            let goes = Event::Delete(comes.object.clone());
            for event in [apply(comes), goes] {
                let before = LOOKED_AT.get();
                renderer.note(&engine.apply(event));
                let change = renderer.advance(engine.program());
                let turns: Vec<_> = match is_global {
                    true => change.global.values().collect(),
                    false => change.local.values().collect(),
                };
                assert_eq!(turns.len(), COUNT, "{app}");
                assert_eq!(turns.len(), change.local.len() + change.global.len(), "{app}");
                let operations = turns.iter().map(|turn| turn.plan().concat().len());
                assert!(operations.into_iter().all(|count| count == 1), "{app}");
                let looked_at = LOOKED_AT.get() - before;
                assert!(turns.iter().all(|turn| turn.is_edit()), "{app}");
                let rules = turns
                    .iter()
                    .flat_map(|turn| &turn.before)
                    .map(|rules| rules.len());
                let rules: usize = rules.sum();
                assert!(rules > 100 * COUNT, "{app}: {rules}");
                // And what is looked at once for all of them.
                assert!(looked_at < 2 * rules, "{app}: {looked_at} for {rules}");
            }
        }
    }
}
