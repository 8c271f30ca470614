//! From one state of a node to the next: what is changed leads to what would be rendered from nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_cluster::{Event, Object, Semantics, Service};
use picket_engine::Engine;
use picket_policy::{Direction, Labels, ObjectRef};
use picket_testing::build::{accept, block, pod, pods_where, policy};
use picket_testing::generate::{self, Shape, semantics};
use picket_vpp::acl::hold::Held;
use picket_vpp::acl::plan::{Installed, Operation, plan};
use picket_vpp::acl::{self, Acls};
use picket_vpp::session;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::installed::beside_cuts;

/// Events about pods and policies, and now and then about services. With `crowded`, pods have one of three addresses, as if
/// clusters reused them at once.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let events = prop_oneof![
        generate::events(Shape::Custom, 24),
        generate::events(Shape::Dialects, 24)
    ];
    let services = proptest::collection::vec((any::<prop::sample::Index>(), 0..3u8, any::<bool>()), 0..5);
    (events, services, any::<bool>()).prop_map(|(mut events, services, crowded)| {
        for event in &mut events {
            if let (true, Event::Apply(Object::Pod(pod))) =
                (crowded && !matches!(event, Event::Init), &mut *event)
                && !pod.host_network
                && let Some(address) = &mut Arc::make_mut(pod).addresses.v4
            {
                let [.., last] = address.octets();
                *address = [10, 0, 0, last % 3].into();
            }
        }
        for (at, number, is_there) in services {
            let event = match is_there {
                true => Event::Apply(Object::Service(service(number))),
                false => Event::Delete(service(number).object),
            };
            events.insert(at.index(events.len() + 1), event);
        }
        events
    })
}

/// One of three services; two have addresses next to each other, and one that of a pod.
fn service(number: u8) -> Service {
    let address = if number == 2 {
        [10, 0, 0, 1]
    } else {
        [10, 96, 0, number]
    };
    Service {
        object: ObjectRef::new("Service", "x", &format!("service-{number}")),
        addresses: [std::net::IpAddr::from(address)].into(),
        selector: Labels::default(),
        ports: Vec::new(),
    }
}

fn node() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![Just(None), Just(Some("node-0")), Just(Some("node-1"))]
}

/// A VPP with an interface for everything that lists are for, kept by plans for what changes.
#[derive(Default)]
struct Kept {
    held: Held,
    next: u32,
}

impl Kept {
    /// With interfaces for all of these too.
    fn with_interfaces(self, acls: &Acls) -> Self {
        let known = &self.held.installed().interfaces;
        if acls.interfaces.keys().all(|name| known.contains_key(name)) {
            return self;
        }
        let mut installed: Installed = self.held.installed().clone();
        for name in acls.interfaces.keys() {
            installed.interfaces.entry(name.clone()).or_default();
        }
        Self {
            held: Held::new(installed),
            ..self
        }
    }

    fn follow(&mut self, acls: &Acls, change: &acl::Change) -> Result<(), TestCaseError> {
        let plan_now = self.held.plan(acls, change.interfaces.keys());
        let all = self.held.installed().interfaces.keys();
        prop_assert_eq!(&plan_now, &self.held.plan(acls, all));
        let mut created = BTreeMap::new();
        for operation in plan_now.operations() {
            if let Operation::Create(acl) = operation {
                self.next += 1;
                created.insert(acl.tag.clone(), self.next);
            }
        }
        self.held.advance(&plan_now, &created);
        let again = plan(self.held.installed(), acls);
        prop_assert!(again.is_empty(), "{again:?} after {plan_now:?}");
        let again = self.held.plan(acls, acls.interfaces.keys());
        prop_assert!(again.is_empty(), "{again:?} after {plan_now:?}");
        prop_assert_eq!(beside_cuts(self.held.installed()), acls.acls.len());
        self.held.settle_all();
        Ok(())
    }
}

/// Several events in one step, or each in its own.
pub(crate) fn acls_follow(
    engine: &mut Engine,
    events: &[Event],
    at_once: usize,
    node: Option<&str>,
) -> Result<(), TestCaseError> {
    let options = acl::Options {
        uplinks: vec!["uplink".into(), "tap0".into()],
    };
    let mut renderer = acl::Renderer::new(node, options.clone());
    let mut kept = Kept::default();
    let first = renderer.advance(engine.program());
    prop_assert_eq!(first, acl::Change::between(&Acls::default(), renderer.acls()));
    for events in events.chunks(at_once) {
        for event in events {
            renderer.note(&engine.apply(event.clone()));
        }
        let before = renderer.acls().clone();
        let change = renderer.advance(engine.program());
        let scratch = acl::render(engine.program(), node, &options);
        prop_assert!(*renderer.acls() == scratch, "after {events:?}");
        prop_assert_eq!(&change, &acl::Change::between(&before, renderer.acls()));
        for (tag, acl) in &before.acls {
            let now = renderer.acls().acls.get(tag);
            prop_assert!(now.is_none_or(|now| Arc::ptr_eq(now, acl)), "{tag} is made again");
        }
        prop_assert!(renderer.advance(engine.program()).is_empty());
        kept = kept.with_interfaces(renderer.acls());
        kept.follow(renderer.acls(), &change)?;
    }
    Ok(())
}

/// The same for rules of the session layer.
pub(crate) fn rules_follow(
    engine: &mut Engine,
    events: &[Event],
    at_once: usize,
    node: Option<&str>,
    options: session::Options,
) -> Result<(), TestCaseError> {
    let mut renderer = session::Renderer::new(node, options);
    renderer.advance(engine.program());
    let (mut local, mut global) = (BTreeMap::new(), BTreeMap::new());
    for events in events.chunks(at_once) {
        for event in events {
            renderer.note(&engine.apply(event.clone()));
        }
        let change = renderer.advance(engine.program());
        let (scratch, missing) = session::render(engine.program(), node, &options);
        let rules = renderer.rules();
        for (pod, table) in &rules.local {
            prop_assert_eq!(Some(table), scratch.local.get(pod), "{} after {:?}", pod, events);
        }
        prop_assert_eq!(&rules.global, &scratch.global, "after {:?}", events);
        prop_assert!(rules == scratch, "after {events:?}");
        prop_assert_eq!(renderer.missing(), missing);
        replace(&mut local, change.local)?;
        replace(&mut global, change.global)?;
        let local: BTreeMap<_, _> = local.iter().map(|(pod, rules)| (pod, rules.to_vec())).collect();
        prop_assert!(
            local
                == scratch
                    .local
                    .iter()
                    .map(|(pod, rules)| (pod, rules.clone()))
                    .collect()
        );
        let global: Vec<_> = global.values().flat_map(|rules| rules.to_vec()).collect();
        prop_assert_eq!(global, scratch.global);
        prop_assert!(renderer.advance(engine.program()).is_empty());
    }
    Ok(())
}

type Rules = Arc<[session::SessionRule]>;

fn replace<K: Ord + Clone + std::fmt::Debug>(
    tables: &mut BTreeMap<K, Rules>,
    turns: BTreeMap<K, session::Turn>,
) -> Result<(), TestCaseError> {
    for (key, turn) in turns {
        let [before, now] = [&turn.before, &turn.now].map(|rules| rules.as_deref().unwrap_or_default());
        prop_assert_eq!(turn.plan(), session::plan::between(before, now), "{:?}", key);
        let session::Turn { before, now, .. } = turn;
        prop_assert_ne!(&before, &now, "{:?}", key);
        let known = match now {
            Some(now) => tables.insert(key.clone(), now),
            None => tables.remove(&key),
        };
        prop_assert_eq!(known, before, "{:?}", key);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn lists_are_those_from_nothing(
        events in events(),
        semantics in semantics(),
        at_once in 1..4usize,
        node in node(),
    ) {
        acls_follow(&mut Engine::new(semantics), &events, at_once, node)?;
    }

    #[test]
    fn session_rules_are_those_from_nothing(
        events in events(),
        semantics in semantics(),
        at_once in 1..4usize,
        node in node(),
        most_rules in prop_oneof![Just(600), 0..60usize],
    ) {
        let options = session::Options { most_rules };
        rules_follow(&mut Engine::new(semantics), &events, at_once, node, options)?;
    }
}

fn follow(events: &[Event]) {
    let engine = || Engine::new(Semantics::default());
    acls_follow(&mut engine(), events, 1, None).expect("lists");
    let options = session::Options::default();
    rules_follow(&mut engine(), events, 1, None, options).expect("rules");
}

#[test]
fn who_shares_an_address_no_more_is_held_to_its_own_policies() {
    let apply = |pod: picket_cluster::Pod| Event::Apply(Object::from(pod));
    let policy = policy("x/closed")
        .selects("app=closed")
        .isolates(Direction::Ingress)
        .isolates(Direction::Egress);
    let old = pod("x/old").label("app", "closed").ip("10.0.0.1").build();
    let gone = Event::Delete(old.object.clone());
    let elsewhere = pod("x/old").label("app", "closed").ip("10.0.0.2").build();
    let start = [
        Event::Apply(Object::Policy(policy.build())),
        apply(pod("x/new").ip("10.0.0.1").build()),
        apply(pod("x/other").ip("10.0.0.3").build()),
        apply(old.clone()),
    ];
    follow(&[&start[..], &[gone.clone(), apply(old.clone()), gone.clone()]].concat());
    follow(&[&start[..], &[apply(elsewhere), apply(old), gone]].concat());
}

/// A pod has an address in the network of its node, which nobody has said to be the node's, when the agent starts. Policies see it as
/// anybody with that address, also when blocks say something else of it later.
#[test]
fn an_address_of_the_network_of_a_node_is_anybodys_until_the_node_is_known() {
    let apply = |policy: picket_policy::Policy| Event::Apply(Object::Policy(policy));
    let receives = |but: &[&str]| {
        let from = accept().peer(block("0.0.0.0/0", but));
        apply(policy("x/receives").selects("app=own").ingress(from).build())
    };
    let on = |name: &str, address: &str| pod(name).on("node-0").ip(address);
    let own = on("x/own", "10.0.0.1").label("app", "own").build();
    let events = [
        Event::Apply(Object::from(own)),
        receives(&[]),
        receives(&["10.9.0.0/16"]),
        receives(&["10.8.0.0/16"]),
    ];
    let engine = || {
        let mut engine = Engine::new(Semantics::default());
        engine.apply(Event::Apply(Object::from(
            on("x/host", "10.9.0.1").host_network().build(),
        )));
        engine
    };
    acls_follow(&mut engine(), &events, 1, Some("node-0")).expect("lists");
    let options = session::Options::default();
    rules_follow(&mut engine(), &events, 1, Some("node-0"), options).expect("rules");
}

#[test]
fn one_pod_of_many_concerns_all_that_admit_it() {
    let object = |number: u8, app: &str| {
        let pod = pod(&format!("x/pod-{number}")).label("app", app);
        pod.ip(&format!("10.0.0.{number}")).build()
    };
    let apply = |policy: picket_policy::Policy| Event::Apply(Object::Policy(policy));
    let pods = (1..90).map(|number| {
        // Some admit everybody, some a few and some nobody.
        let app = ["open", "some", "closed"][usize::from(number % 3)];
        Event::Apply(Object::from(object(number, app)))
    });
    let mut events: Vec<_> = pods.collect();
    let some = accept()
        .peer(pods_where("", "app=sender"))
        .peer(block("10.0.0.0/28", &[]));
    events.extend([
        apply(policy("x/some").selects("app=some").ingress(some).build()),
        apply(
            policy("x/closed")
                .selects("app=closed")
                .isolates(Direction::Ingress)
                .build(),
        ),
    ]);
    let sender = object(100, "sender");
    let silent = || {
        policy("x/silent")
            .selects("app=sender")
            .isolates(Direction::Egress)
    };
    let to_some = silent().egress(accept().peer(block("10.0.0.0/27", &["10.0.0.4/30"])));
    let to_others = silent().egress(accept().peer(block("10.0.0.32/27", &[])));
    let gone = Event::Delete(sender.object.clone());
    events.extend([
        apply(silent().build()),
        Event::Apply(Object::from(sender)),
        apply(to_some.build()),
        apply(to_others.build()),
        gone,
    ]);
    follow(&events);
}
