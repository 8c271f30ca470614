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
    use picket_cluster::{Event, Object, Semantics, Service};
    use picket_engine::Engine;
    use picket_net::Protocol;
    use picket_policy::{Direction, Labels, ObjectRef, Policy};
    use picket_testing::applications::{address, apply, exchanges, member};
    use picket_testing::build::{PodBuilder, accept, block, pod, pods_where, policy};

    use super::*;
    use crate::acl::hold::Held;
    use crate::acl::plan::{Installed, InstalledLists, Operation, Plan};
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

    /// Pods that may each receive something else, and all something from a prefix about all of them too; then only from one about some.
    fn prefixes(count: usize) -> Events {
        let pods = (0..count).map(|number| apply(member(number, Some(number)).build()));
        let policies = (0..count).map(|number| apply(Object::Policy(receives(number))));
        let from = |prefix: &str, except: &[&str]| {
            let from = accept().peer(block(prefix, except)).port(Protocol::TCP, 80);
            policy("x/prefix").selects("").ingress(from).build()
        };
        let (all, some) = (from("10.0.0.0/8", &["10.0.0.0/30"]), from("10.0.0.0/28", &[]));
        let gone = Event::Delete(all.object.clone());
        let happens = [all, some].map(|policy| apply(Object::Policy(policy)));
        let happens = happens.into_iter().chain([gone]).collect();
        [pods.chain(policies).collect(), Vec::new(), happens]
    }

    /// Applications of two pods each beside some services, one of which comes, gets another address, and goes.
    fn services(count: usize) -> Events {
        let [mut there, ..] = applications(count);
        there.extend(first_services(20));
        let ([comes, _], [moves, goes]) = (service(20, 20), service(20, 21));
        let happens = vec![comes, moves, goes];
        [there, Vec::new(), happens]
    }

    /// That so many services are there.
    fn first_services(count: usize) -> impl Iterator<Item = Event> {
        (0..count).map(|number| {
            let [comes, _] = service(number, number);
            comes
        })
    }

    /// That a service is there, by its number and that of its address, and that it is gone. No two addresses are beside each other.
    fn service(number: usize, address: usize) -> [Event; 2] {
        let [third, last] = u16::try_from(2 * address).unwrap().to_be_bytes();
        let object = ObjectRef::new("Service", "x", &format!("service-{number}"));
        let service = Service {
            object: object.clone(),
            addresses: [[10, 96, third, last].into()].into(),
            selector: Labels::default(),
            ports: Vec::new(),
        };
        [Event::Apply(Object::Service(service)), Event::Delete(object)]
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
            carry_out(&mut held, &plan, &mut next);
        })
    }

    /// As VPP does; new lists get the next indices.
    fn carry_out(held: &mut Held, plan: &Plan, next: &mut u32) {
        let created = plan.operations().iter().filter_map(|operation| match operation {
            Operation::Create(acl) => Some(acl.tag.clone()),
            _ => None,
        });
        let created = created.map(|tag| {
            *next += 1;
            (tag, *next)
        });
        let created = created.collect();
        held.advance(plan, &created);
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

    /// Four times as many pods are at most four times as much work, and a twelfth more: addresses beside each other are joined, and
    /// 400 pods are not cut at the same places as 100. What sorts all pods would be 5.2 times as much, and what looks at every pod
    /// for every other sixteen.
    #[test]
    fn four_times_as_many_pods_are_four_times_as_much_to_look_at() {
        type Happening = fn(usize) -> Events;
        type Follow = fn(Events) -> Vec<usize>;
        let (lists, rules): (Follow, Follow) = (with_lists, with_rules);
        for (name, happening, targets) in [
            ("applications", applications as Happening, &[lists, rules][..]),
            ("worst", worst, &[lists, rules]),
            ("common", common, &[lists, rules]),
            // Each table of session rules has rules about every other pod, and each table changes.
            ("prefixes", prefixes, &[lists]),
            // Session rules know nothing of services.
            ("services", services, &[lists]),
        ] {
            for follow in targets {
                let [few, many] = [100, 400].map(|count| follow(happening(count)));
                assert_eq!(few.len(), many.len());
                for (event, (few, many)) in few.into_iter().zip(many).enumerate() {
                    assert!(few > 0, "{name} {event}");
                    assert!(3 * many <= 13 * few, "{name} {event}: {few} and {many}");
                }
            }
        }
    }

    /// So many pods that may send something to some pods only, and as many that may send everything to where services are.
    fn with_services(count: usize) -> Vec<Event> {
        let pods = (0..2 * count).map(|number| {
            let app = if number % 2 == 0 { "named" } else { "range" };
            let pod = pod(&format!("x/p{number}")).label("app", app);
            apply(pod.ip(&address(number)))
        });
        let to_pods = accept().peer(pods_where("", "app=range"));
        let policies = [
            ("named", to_pods.port(Protocol::TCP, 80)),
            ("range", accept().peer(block("10.96.0.0/16", &[]))),
        ];
        let policies = policies.map(|(app, to)| {
            let policy = policy(&format!("x/{app}")).selects(&format!("app={app}"));
            apply(Object::Policy(policy.egress(to).build()))
        });
        pods.chain(policies).chain(first_services(100)).collect()
    }

    /// A service that comes or goes is a rule more or less in each list of a pod that may not send everything to it anyway. Such a list
    /// is made anew, as its name and what VPP is told are of all its rules; no other list is.
    #[test]
    fn a_service_costs_each_list_that_it_changes_a_few_looks_at_its_rules() {
        const COUNT: usize = 50;
        let mut engine = Engine::new(Semantics::default());
        for event in with_services(COUNT) {
            engine.apply(event);
        }
        let mut renderer = acl::Renderer::new(None, acl::Options::default());
        renderer.advance(engine.program());
        for event in service(100, 100) {
            let before = LOOKED_AT.get();
            renderer.note(&engine.apply(event));
            let change = renderer.advance(engine.program());
            let looked_at = LOOKED_AT.get() - before;
            assert_eq!([change.created.len(), change.removed.len()], [COUNT; 2]);
            let rules = change.created.values().map(|acl| acl.rules.len());
            let rules: usize = rules.sum();
            assert!(rules > 100 * COUNT, "{rules}");
            // For each such list prefixes are put in order, made rules of, closed for each family and named. And each pod is asked once,
            // and the addresses of services before and now are looked at once for all of them.
            let once = 2 * COUNT + 2 * 100 + 10;
            assert!(looked_at < 5 * rules + once, "{looked_at} for {rules}");
        }
    }

    /// A pod may receive something else, and what it may send, with a rule for each service, is not looked at.
    #[test]
    fn what_a_pod_may_receive_costs_nothing_of_what_it_may_send() {
        let mut engine = Engine::new(Semantics::default());
        for event in with_services(2) {
            engine.apply(event);
        }
        let mut renderer = acl::Renderer::new(None, acl::Options::default());
        renderer.advance(engine.program());
        for port in [80, 81] {
            let from = accept()
                .peer(block("192.0.2.0/24", &[]))
                .port(Protocol::TCP, port);
            let policy = policy("x/receives").selects("app=named").ingress(from).build();
            let before = LOOKED_AT.get();
            renderer.note(&engine.apply(apply(Object::Policy(policy))));
            let change = renderer.advance(engine.program());
            let looked_at = LOOKED_AT.get() - before;
            assert!(!change.created.is_empty());
            // The first time all pods are held to their addresses. A list with a rule for each service would be more.
            assert!(looked_at < 200, "{looked_at}");
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

    /// However many pods share a list: what becomes of it when one of a hundred may not send to them any more is worked out once.
    #[test]
    fn what_a_shared_list_denies_from_now_on_is_worked_out_once() {
        let counts = [20, 80];
        let [few, many] = counts.map(|count| {
            let mut engine = Engine::new(Semantics::default());
            for event in with_peers(count) {
                engine.apply(event);
            }
            let mut renderer = acl::Renderer::new(Some("n"), acl::Options::default());
            renderer.advance(engine.program());
            let names = renderer.acls().interfaces.keys();
            let interfaces = names.map(|name| (name.clone(), InstalledLists::default()));
            let mut held = Held::new(Installed {
                interfaces: interfaces.collect(),
                ..Installed::default()
            });
            let mut next = 0;
            let plan = held.plan(renderer.acls(), renderer.acls().interfaces.keys());
            carry_out(&mut held, &plan, &mut next);
            held.settle_all();
            let gone = Event::Delete(peer("sender", 50).build().object);
            renderer.note(&engine.apply(gone));
            let change = renderer.advance(engine.program());
            assert!(change.interfaces.len() >= count);
            let before = LOOKED_AT.get();
            let plan = held.plan(renderer.acls(), change.interfaces.keys());
            let looked_at = LOOKED_AT.get() - before;
            let operations = plan.operations().iter();
            let cuts = operations.filter(|operation| match operation {
                Operation::Create(acl) => acl.is_cut(),
                _ => false,
            });
            assert_eq!(cuts.count(), 1);
            looked_at
        });
        let each = many.saturating_sub(few) / (counts[1] - counts[0]);
        assert!(each < 10, "{few} and {many}");
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
