//! What events cost: deltas name what had to change, and nothing else.

use picket_cluster::{Event, Object, Semantics, Service};
use picket_engine::{Comings, Delta, Engine};
use picket_net::Protocol;
use picket_policy::{Direction, Labels, ObjectRef};
use picket_testing::build::{
    accept, admin_policy, baseline_policy, block, custom_rules, deny, ip, namespace, node, pod, pods_in,
    pods_where, policy,
};

fn engine(objects: impl IntoIterator<Item = Object>) -> Engine {
    let mut engine = Engine::new(Semantics::default());
    for object in objects {
        engine.apply(Event::Apply(object));
    }
    engine
}

fn apply(engine: &mut Engine, object: impl Into<Object>) -> Delta {
    engine.apply(Event::Apply(object.into()))
}

fn delete(engine: &mut Engine, kind: &str, namespace: &str, name: &str) -> Delta {
    engine.apply(Event::Delete(ObjectRef::new(kind, namespace, name)))
}

/// How many addresses, prefixes, identities that come, identities that go, subjects that come, go and change, and pods
/// a delta names.
fn counts(delta: &Delta) -> [usize; 8] {
    [
        delta.addresses.len(),
        delta.prefixes.len(),
        delta.identities.added.len(),
        delta.identities.removed.len(),
        delta.subjects.added.len(),
        delta.subjects.removed.len(),
        delta.changed_subjects.len(),
        delta.pods.len(),
    ]
}

/// A shop with two web pods and a database that accepts only them.
fn shop() -> Engine {
    engine([
        namespace("shop").into(),
        pod("shop/web-1").label("app", "web").ip("10.0.0.1").into(),
        pod("shop/web-2").label("app", "web").ip("10.0.0.2").into(),
        pod("shop/db").label("app", "db").ip("10.0.0.3").into(),
        policy("shop/db")
            .selects("app=db")
            .ingress(
                accept()
                    .peer(pods_in("shop", "app=web"))
                    .port(Protocol::TCP, 5432),
            )
            .into(),
    ])
}

#[test]
fn a_pod_with_known_labels_changes_its_address_and_nothing_else() {
    let mut engine = shop();
    let web = pod("shop/web-3").label("app", "web").ip("10.0.0.4");
    let delta = apply(&mut engine, web);
    assert_eq!(counts(&delta), [1, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(delta.addresses[0].key, ip("10.0.0.4"));
    assert_eq!(
        delta.addresses[0].after,
        Some(engine.program().identity_of(ip("10.0.0.1")))
    );
    let delta = delete(&mut engine, "Pod", "shop", "web-3");
    assert_eq!(counts(&delta), [1, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(delta.addresses[0].after, None);
}

#[test]
fn events_cost_what_they_change() {
    let web = || pod("shop/web-1").label("app", "web").ip("10.0.0.1");
    let db = |rule| policy("shop/db").selects("app=db").ingress(rule);
    let from_web = || accept().peer(pods_in("shop", "app=web"));
    for (what, object, expected) in [
        ("the same pod again", web().into(), [0; 8]),
        (
            "an owner, which policies cannot see",
            web().owned_by("Deployment", "web").into(),
            [0; 8],
        ),
        (
            "a label that no policy asks about",
            web().label("track", "canary").into(),
            [0; 8],
        ),
        (
            "a pod that moves to another node",
            web().on("node-1").into(),
            [0, 0, 0, 0, 0, 0, 0, 1],
        ),
        (
            "a pod that finishes",
            web().finished().into(),
            [1, 0, 0, 0, 0, 0, 0, 1],
        ),
        (
            "labels that make another pod of it",
            web().label("app", "db").into(),
            [1, 0, 0, 0, 0, 0, 0, 1],
        ),
        (
            "a label of the namespace that nobody asks about",
            namespace("shop").label("a", "b").into(),
            [0; 8],
        ),
        (
            "a node",
            node("node-1").ip("192.168.0.1").into(),
            [1, 0, 1, 0, 0, 0, 0, 0],
        ),
        (
            "other ports in a rule",
            db(from_web().port(Protocol::TCP, 80)).into(),
            [0, 0, 0, 0, 0, 0, 1, 0],
        ),
        (
            "a rule about everybody",
            db(accept()).into(),
            [2, 0, 0, 1, 0, 0, 1, 0],
        ),
        (
            "a policy with selectors that others have",
            policy("shop/web").selects("app=web").ingress(from_web()).into(),
            [0, 0, 0, 0, 1, 0, 0, 2],
        ),
        (
            "a second policy for pods that have one",
            policy("shop/more").selects("app=db").ingress(from_web()).into(),
            [0, 0, 0, 0, 0, 0, 1, 0],
        ),
        (
            "a block that holds no pod",
            policy("shop/out")
                .selects("app=db")
                .egress(accept().peer(block("203.0.113.0/24", &[])))
                .into(),
            [0, 1, 1, 0, 1, 0, 0, 1],
        ),
        (
            "a block of one pod of two that were alike",
            policy("shop/out")
                .selects("app=db")
                .egress(accept().peer(block("10.0.0.1/32", &[])))
                .into(),
            [1, 1, 2, 0, 1, 0, 0, 1],
        ),
        (
            "a block that all pods are in",
            policy("shop/out")
                .selects("app=db")
                .egress(accept().peer(block("10.0.0.0/8", &[])))
                .into(),
            [0, 1, 1, 0, 1, 0, 0, 1],
        ),
        (
            "a selector that matches all that were alike",
            policy("shop/out")
                .selects("app=db")
                .egress(accept().peer(pods_where("", "app in (web)")))
                .into(),
            [0, 0, 0, 0, 1, 0, 0, 1],
        ),
        (
            "a cluster-wide denial",
            admin_policy("no", 1)
                .ingress(deny().peer(pods_where("", "app=web")))
                .into(),
            [0, 0, 0, 0, 1, 0, 1, 2],
        ),
        (
            "a cluster-wide default, which is nothing to isolated pods",
            baseline_policy("no", 1).ingress(deny()).into(),
            [0, 0, 0, 0, 1, 0, 0, 2],
        ),
    ] {
        let mut engine = shop();
        let object: Object = object;
        let delta = apply(&mut engine, object);
        assert_eq!(counts(&delta), expected, "{what}: {delta:#?}");
    }
}

/// Selectors and port names of pods in all namespaces, none of which tells two apart that were alike.
#[test]
fn what_tells_no_pods_apart_moves_none() {
    let mut objects: Vec<Object> = vec![
        policy("ns-0/tiers")
            .ingress(accept().peer(pods_where("", "tier=web")))
            .into(),
    ];
    for at in 0..50 {
        for (tier, last) in [("web", 1), ("db", 2)] {
            let pod = pod(&format!("ns-{at}/{tier}"))
                .label("tier", tier)
                .ip(&format!("10.0.{at}.{last}"));
            objects.push(pod.port(tier, Protocol::TCP, 80).into());
        }
    }
    let mut engine = engine(objects);
    let to = |peer| policy("ns-1/new").egress(accept().peer(peer));
    for (what, object) in [
        ("other words for a selector", to(pods_where("", "tier in (web)"))),
        ("all the others", to(pods_where("", "tier notin (web)"))),
        (
            "a port that half of them have",
            policy("ns-1/new").egress(accept().named("db", Protocol::TCP)),
        ),
        (
            "a port that nobody has",
            policy("ns-1/new").egress(accept().named("http", Protocol::TCP)),
        ),
        ("nobody", to(pods_where("", "tier=cache"))),
        (
            "a cluster-wide denial",
            admin_policy("new", 1).ingress(deny().peer(pods_where("", "!track,tier=db"))),
        ),
    ] {
        let policy = object.build();
        let name = policy.object.clone();
        let delta = apply(&mut engine, Object::Policy(policy));
        assert_eq!(
            delta.addresses.len() + delta.prefixes.len(),
            0,
            "{what}: {delta:#?}"
        );
        assert_eq!(delta.identities, Comings::default(), "{what}");
        let delta = engine.apply(Event::Delete(name));
        assert_eq!(delta.identities, Comings::default(), "{what} goes");
    }
}

/// Both addresses of a pod have one identity until a block holds one of them: the other keeps it.
#[test]
fn a_block_of_one_family_moves_its_addresses_only() {
    let pods = (1..=50).map(|at| {
        let pod = pod(&format!("ns-{}/web-{at}", at % 5)).label("number", &at.to_string());
        pod.ip(&format!("10.0.0.{at}")).ip(&format!("fd00::{at}")).into()
    });
    let mut engine = engine(pods);
    let before: Vec<_> = engine.program().identities().collect();
    let delta = apply(
        &mut engine,
        policy("ns-0/new").egress(accept().peer(block("10.0.0.0/8", &[]))),
    );
    assert!(delta.addresses.iter().all(|change| change.key.is_ipv4()));
    let alike = delta.identities.added.len() - 1;
    let moved = delta.addresses.len();
    assert_eq!((moved, alike), (50, 1), "{delta:#?}");
    let delta = delete(&mut engine, "NetworkPolicy", "ns-0", "new");
    assert_eq!(delta.addresses.len(), moved);
    assert_eq!(engine.program().identities().collect::<Vec<_>>(), before);
}

#[test]
fn what_comes_and_goes_leaves_nothing_behind() {
    let mut engine = shop();
    let before: Vec<_> = engine.program().identities().collect();
    let prefixes = engine.program().prefixes();
    for object in [
        policy("shop/out")
            .egress(accept().peer(block("10.0.0.0/31", &["10.0.0.1/32"])))
            .into(),
        policy("other/x")
            .ingress(accept().peer(pods_where("a=b", "c=d")).named("p", Protocol::TCP))
            .into(),
        pod("new/p")
            .label("app", "web")
            .ip("10.9.9.9")
            .port("p", Protocol::TCP, 1)
            .into(),
        node("node-9").label("a", "b").ip("10.9.9.1").into(),
        namespace("shop").label("x", "y").into(),
    ] {
        let object: Object = object;
        let name = object.object_ref();
        engine.apply(Event::Apply(object));
        if name.kind != "Namespace" {
            engine.apply(Event::Delete(name));
        }
    }
    assert_eq!(engine.program().identities().collect::<Vec<_>>(), before);
    assert_eq!(engine.program().prefixes(), prefixes);
}

#[test]
fn an_address_that_two_pods_have_may_do_what_both_may() {
    let mut engine = shop();
    let db = ObjectRef::new("Pod", "shop", "db");
    let subject = engine
        .program()
        .subject(&db, Direction::Ingress)
        .expect("the policy selects it");
    let allows = |engine: &Engine| {
        let program = engine.program();
        program
            .traffic(Some(subject), program.identity_of(ip("10.0.0.1")))
            .contains(Protocol::TCP, 5432)
    };
    assert!(allows(&engine));
    apply(&mut engine, pod("shop/late").label("app", "job").ip("10.0.0.1"));
    assert!(!allows(&engine), "the address is not only web's");
    assert_ne!(
        engine.program().identity_of(ip("10.0.0.1")),
        engine.program().identity_of(ip("10.0.0.2"))
    );
    delete(&mut engine, "Pod", "shop", "late");
    assert!(allows(&engine));
    apply(&mut engine, pod("shop/late").label("app", "job").ip("10.0.0.1"));
    delete(&mut engine, "Pod", "shop", "web-1");
    assert!(!allows(&engine), "only the other pod is left");
}

#[test]
fn a_namespace_that_goes_takes_along_that_it_isolates() {
    let namespace = ObjectRef::new("Namespace", "", "shop");
    let mut isolation = policy("shop/isolation").isolates(Direction::Ingress).build();
    isolation.object = namespace.clone();
    let pod = pod("shop/web").ip("10.0.0.1");
    let mut engine = engine([pod.into(), Object::Policy(isolation)]);
    assert_eq!(engine.program().subjects().count(), 1);
    engine.apply(Event::Delete(namespace));
    assert_eq!(engine.program().subjects().count(), 0);
}

#[test]
fn a_pod_may_appear_before_its_namespace_and_its_policies() {
    let mut engine = engine([
        pod("b/client").label("app", "web").ip("10.0.0.7").into(),
        policy("a/db")
            .ingress(accept().peer(pods_where("team=x", "")))
            .into(),
        pod("a/db").ip("10.0.0.8").into(),
    ]);
    let db = ObjectRef::new("Pod", "a", "db");
    let allows = |engine: &Engine| {
        let program = engine.program();
        let subject = program.subject(&db, Direction::Ingress);
        program
            .traffic(subject, program.identity_of(ip("10.0.0.7")))
            .is_all()
    };
    assert!(!allows(&engine));
    apply(&mut engine, namespace("b").label("team", "x"));
    assert!(allows(&engine));
    delete(&mut engine, "Namespace", "", "b");
    assert!(!allows(&engine));
}

#[test]
fn an_allow_set_stays_the_same_allocation_while_it_says_the_same() {
    let mut engine = shop();
    let db = ObjectRef::new("Pod", "shop", "db");
    let subject = engine
        .program()
        .subject(&db, Direction::Ingress)
        .expect("the policy selects it");
    let before = engine.program().allow_set(subject);
    apply(
        &mut engine,
        pod("shop/other").label("app", "other").ip("10.0.0.9"),
    );
    apply(
        &mut engine,
        policy("shop/out")
            .selects("app=web")
            .egress(accept().peer(block("1.0.0.0/8", &[]))),
    );
    assert!(std::sync::Arc::ptr_eq(
        &before,
        &engine.program().allow_set(subject)
    ));
}

#[test]
fn who_denies_one_pod_alone_allows_everything_while_it_is_not_there() {
    let enemy = || pod("shop/enemy").label("app", "enemy").ip("10.0.0.9");
    let mut engine = engine([
        namespace("shop").into(),
        pod("shop/db").label("app", "db").ip("10.0.0.1").into(),
        admin_policy("no-enemies", 1)
            .selects("app=db")
            .ingress(deny().peer(pods_where("", "app=enemy")))
            .into(),
    ]);
    let db = ObjectRef::new("Pod", "shop", "db");
    let allows_everything = |engine: &mut Engine| {
        let subject = engine.program().subject(&db, Direction::Ingress);
        engine
            .program()
            .allow_set(subject.expect("the policy selects it"))
            .is_everything()
    };
    assert!(allows_everything(&mut engine));
    for _ in 0..2 {
        apply(&mut engine, enemy());
        assert!(!allows_everything(&mut engine));
        delete(&mut engine, "Pod", "shop", "enemy");
        assert!(allows_everything(&mut engine));
    }
}

#[test]
fn a_service_is_named_when_its_addresses_change() {
    let service = |addresses: &[&str], label: &str| Service {
        object: ObjectRef::new("Service", "shop", "web"),
        addresses: addresses.iter().map(|address| ip(address)).collect(),
        selector: Labels::default().with("app", label),
        ports: Vec::new(),
    };
    let mut shop = shop();
    let mut named = |event| {
        let delta = shop.apply(event);
        let services = delta.services.clone();
        assert_eq!(
            delta,
            Delta {
                services: services.clone(),
                ..Delta::default()
            }
        );
        services.len()
    };
    let apply = |service| Event::Apply(Object::Service(service));
    assert_eq!(named(apply(service(&["10.96.0.1"], "web"))), 1);
    assert_eq!(named(apply(service(&["10.96.0.1"], "web"))), 0);
    assert_eq!(named(apply(service(&["10.96.0.1"], "db"))), 0);
    assert_eq!(named(apply(service(&["10.96.0.2"], "db"))), 1);
    let gone = service(&[], "db").object;
    assert_eq!(named(Event::Delete(gone.clone())), 1);
    assert_eq!(named(Event::Delete(gone)), 0);
}

#[test]
fn one_that_no_rule_names_gets_what_it_gets_from_nothing() {
    let of_web = || accept().peer(pods_in("shop", "app=web"));
    let web = || {
        policy("shop/web")
            .selects("app=db")
            .ingress(of_web())
            .egress(of_web())
    };
    let anybody = || accept().port(Protocol::TCP, 80);
    let icmp = Semantics {
        accept_icmp: true,
        ..Semantics::default()
    };
    let plain = Semantics::default;
    let named = |name: &str| accept().peer(pods_where("", &format!("app={name}")));
    let cases: Vec<(Semantics, Vec<Object>)> = vec![
        (plain(), vec![web().into()]),
        (plain(), vec![web().ingress(anybody()).egress(anybody()).into()]),
        (
            plain(),
            vec![web().ingress(named("new")).egress(named("new")).into()],
        ),
        (
            plain(),
            vec![web().egress(accept().peer(block("10.0.0.0/8", &[]))).into()],
        ),
        (
            plain(),
            vec![
                web().into(),
                policy("shop/all").selects("app=db").ingress(anybody()).into(),
            ],
        ),
        (plain(), vec![web().audited().into()]),
        (plain(), vec![web().into(), web_denier()]),
        (
            plain(),
            vec![
                web().into(),
                admin_policy("all", 1).ingress(anybody()).egress(anybody()).into(),
            ],
        ),
        (
            plain(),
            vec![
                web().into(),
                admin_policy("db", 1).selects("app=db").egress(anybody()).into(),
            ],
        ),
        (
            plain(),
            vec![
                custom_rules("custom", 1)
                    .selects("app=db")
                    .egress(anybody())
                    .into(),
                web().into(),
            ],
        ),
        (
            plain(),
            vec![
                baseline_policy("default", 1)
                    .ingress(deny().peer(pods_where("", "app=web")))
                    .into(),
            ],
        ),
        (icmp, vec![web().into()]),
    ];
    // Tells the database from those that no rule names.
    let of_db = accept().peer(pods_in("shop", "app=db"));
    let of_db = policy("shop/other").selects("app=other").ingress(of_db).build();
    for (number, (semantics, mut policies)) in cases.into_iter().enumerate() {
        policies.push(Object::Policy(of_db.clone()));
        let pods = || {
            let pods = [("web", "10.0.0.1"), ("db", "10.0.0.2"), ("new", "10.0.0.3")];
            pods.map(|(name, address)| {
                let pod = pod(&format!("shop/{name}")).label("app", name).ip(address);
                Event::Apply(Object::from(pod))
            })
        };
        let [web, db, new] = pods();
        let mut engine = Engine::new(semantics.clone());
        let known = policies.iter().cloned().map(Event::Apply).chain([web, db]);
        known.for_each(|event| drop(engine.apply(event)));
        let said = |engine: &Engine| {
            let program = engine.program();
            let db = ObjectRef::new("Pod", "shop", "db");
            let subjects = Direction::BOTH.map(|direction| program.subject(&db, direction));
            let sets = subjects.map(|subject| {
                let subject = subject?;
                Some([
                    program.allow_set(subject),
                    program.own_node_allow_set(subject),
                    program.allow_set_if_enforced(subject),
                    program.own_node_allow_set_if_enforced(subject),
                ])
            });
            let at = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
            let identities = at.map(|at| program.identity_of(ip(at)));
            let sets = sets.into_iter().flatten().flatten();
            sets.map(|set| identities.map(|identity| set.traffic(identity).cloned()))
                .collect::<Vec<_>>()
        };
        let before = said(&engine);
        let from_nothing = |with_new: bool| {
            let mut scratch = Engine::new(semantics.clone());
            let events = pods().into_iter().take(if with_new { 3 } else { 2 });
            let events = policies.iter().cloned().map(Event::Apply).chain(events);
            events.for_each(|event| drop(scratch.apply(event)));
            said(&scratch)
        };
        assert_eq!(before, from_nothing(false), "{number}");
        assert_eq!(engine.apply(new).identities.added.len(), 1, "{number}");
        assert_eq!(said(&engine), from_nothing(true), "{number}");
        delete(&mut engine, "Pod", "shop", "new");
        assert_eq!(said(&engine), before, "{number}");
    }
}

/// A policy that keeps web pods away from databases, whatever others accept.
fn web_denier() -> Object {
    let web = || deny().peer(pods_in("shop", "app=web"));
    let denier = admin_policy("no-web", 1).selects("app=db");
    denier.ingress(web()).egress(web()).into()
}
