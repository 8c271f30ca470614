//! Whatever happens to a call, and whatever somebody else does: one synchronisation repairs everything, and nothing passes
//! meanwhile that passes neither before nor after.

use std::time::Duration;

use picket_cluster::{Flow, Snapshot};
use picket_controller::ControllerError;
use picket_net::Protocol;
use picket_policy::Direction;
use picket_testing::build::{PodBuilder, accept, block, namespace, pod, pods_in, policy};
use picket_testing::faults::Fault;
use serde_json::{Value, json};

use super::meant::{Passing, allowed, passing, some};
use super::scene::Scene;

fn role(name: &str, role: &str, last: u8) -> PodBuilder {
    pod(&format!("x/{name}"))
        .label("role", role)
        .ip(&format!("10.0.0.{last}"))
}

/// Two clusters between which groups, rules, addresses and ports change.
pub(super) fn clusters() -> [Snapshot; 2] {
    let from = |role: &str| {
        accept()
            .peer(pods_in("x", &format!("role={role}")))
            .port(Protocol::TCP, 80)
    };
    let blocks = |except: &[&str]| accept().peer(block("10.0.0.0/8", except));
    let one = [
        namespace("x").into(),
        role("a", "db", 1).into(),
        role("b", "web", 2).into(),
        role("c", "other", 3).into(),
        policy("x/p").selects("role=db").ingress(from("web")).into(),
        policy("x/q")
            .selects("role=web")
            .egress(blocks(&["10.0.0.0/16"]))
            .egress(accept().peer(pods_in("x", "role=db")))
            .into(),
    ];
    let other = [
        namespace("x").into(),
        role("a", "db", 1).into(),
        role("b", "other", 2).into(),
        role("c", "web", 3).into(),
        policy("x/p")
            .selects("role=db")
            .ingress(from("other").port(Protocol::UDP, 53))
            .into(),
        policy("x/q")
            .selects("role=web")
            .egress(blocks(&["10.0.0.0/24", "10.9.0.0/16"]))
            .into(),
        policy("x/r")
            .selects("role=other")
            .isolates(Direction::Ingress)
            .into(),
    ];
    [one.into_iter().collect(), other.into_iter().collect()]
}

/// How many flows are looked at after each step.
pub(super) const MOST: usize = 150;

/// After no step anything passed but these flows.
#[track_caller]
pub(super) fn opens_nothing(moments: &[(String, Passing)], flows: &[Flow], either: &Passing, about: &str) {
    let steps: Vec<_> = moments.iter().map(|(step, _)| step).collect();
    for (step, passing) in moments {
        let opened: Vec<_> = passing.difference(either).map(|at| &flows[*at]).collect();
        assert!(opened.is_empty(), "{about}: {step} opened {opened:?}\n{steps:#?}");
    }
}

/// What may happen to a call.
fn faults() -> Vec<Fault> {
    let conflict = r#"{"NeutronError": {"type": "RetryRequest", "message": "", "detail": ""}}"#;
    vec![
        Fault::HangUp,
        Fault::CutAnswer(0),
        Fault::Answer(409, "", conflict.to_owned()),
        Fault::CutRequest(60),
        Fault::Answer(503, "", "<html>no</html>".to_owned()),
        Fault::AnswerAfter(504, "", String::new()),
        Fault::SilenceAfter,
        Fault::Answer(412, "", String::new()),
        Fault::Silence,
    ]
}

/// Goes to a cluster while something happens to a call. Whether it came to that call.
#[track_caller]
fn goes(scene: &Scene, from: &Snapshot, to: &Snapshot, after: usize, fault: &Fault) -> bool {
    let to = scene.written(to);
    let flows = some(&to, MOST);
    let before = allowed(&flows, from);
    let now = passing(&scene.objects(), &flows, &to);
    assert_eq!(now, before, "before {fault:?}");
    let either: Passing = before.union(&allowed(&flows, &to)).copied().collect();
    scene.proxy.plan_write(after, fault.clone());
    let (seen, result) = scene.sync_watched(&flows, &to);
    let came = scene.proxy.take_write();
    let about = format!("{fault:?} at call {after}: {:?}", result.as_ref().err());
    opens_nothing(&seen.moments, &flows, &either, &about);
    // A cloud that does not answer ends it; what it has done by then opens nothing.
    let now = passing(&scene.objects(), &flows, &to);
    assert!(now.is_subset(&either), "{about}");
    match result {
        Ok(_) | Err(ControllerError::Cloud(_)) => {}
        Err(error) => panic!("{about}: {error}"),
    }
    scene.sync().unwrap();
    scene.expect_of(&flows, &to);
    came
}

/// Every other call of the way there or back has a fault, by a client that tries again and by one that does not.
fn every_other_call_has_a_fault(first: usize) {
    let mut scene = Scene::new();
    let [one, other] = clusters();
    scene.goes_to(&one);
    let faults = faults();
    let mut sides = [&one, &other];
    let (mut number, mut over) = (first, 0);
    while over < 2 {
        let fault = &faults[number % faults.len()];
        scene.neutron.options.attempts = if number % 3 == 0 { 5 } else { 1 };
        let is_silent = matches!(fault, Fault::Silence | Fault::SilenceAfter);
        scene.neutron.options.timeout = Duration::from_secs(if is_silent { 5 } else { 60 });
        let came = goes(&scene, sides[0], sides[1], number, fault);
        over = if came { 0 } else { over + 1 };
        sides.swap(0, 1);
        number += 2;
    }
    // No call came of the last two.
    assert!(number > 13, "{number}");
    scene.neutron.options.attempts = 5;
    scene.goes_to(sides[0]);
}

#[test]
fn a_fault_at_any_even_call_is_repaired_and_opens_nothing() {
    every_other_call_has_a_fault(0);
}

#[test]
fn a_fault_at_any_odd_call_is_repaired_and_opens_nothing() {
    every_other_call_has_a_fault(1);
}

/// As when it ends in the midst of a plan: another is had, and the call made again.
#[test]
fn a_token_that_counts_no_longer_keeps_nothing_from_being_done() {
    let scene = Scene::with_keystone();
    let [one, other] = clusters();
    scene.goes_to(&one);
    for (after, to) in [(0, &other), (3, &one)] {
        let to = scene.written(to);
        let unauthorized = Fault::Answer(401, "", String::new());
        scene.proxy.plan_write(after, unauthorized);
        let seen = scene.sync().unwrap();
        assert!(scene.proxy.take_write(), "{:?}", seen.steps);
        scene.expect(&to);
        assert_eq!(scene.sync().unwrap().steps, Vec::<String>::new());
    }
}

/// A pod that other rules mean from now on, and the same where its port is that of nobody.
#[test]
fn what_a_port_that_cannot_be_changed_keeps_lets_nothing_new_pass() {
    let lets_in = |name: &str, of: &str, port: u16| {
        let web = accept().peer(pods_in("x", "role=web")).port(Protocol::TCP, port);
        policy(&format!("x/{name}"))
            .selects(&format!("role={of}"))
            .ingress(web)
    };
    let cluster = |web: Option<&str>, more: Option<picket_cluster::Object>| -> Snapshot {
        let pods = [role("a", "db", 1).into(), role("c", "other", 3).into()];
        let web = web.map(|label| role("b", label, 2).into());
        let policies = [
            policy("x/closed")
                .selects("role=db")
                .isolates(Direction::Ingress)
                .into(),
            lets_in("known", "other", 80).into(),
        ];
        let all = [namespace("x").into()].into_iter().chain(pods).chain(web);
        all.chain(policies).chain(more).collect()
    };
    for label in [Some("gone"), None] {
        let scene = Scene::new();
        let before = cluster(Some("web"), None);
        scene.goes_to(&before);
        let put = format!("ports/{}", scene.port("x/b"));
        let refusal = r#"{"NeutronError": {"type": "PolicyNotAuthorized", "message": "no", "detail": ""}}"#;
        let fault = Fault::Answer(403, "", refusal.to_owned());
        scene.proxy.plan_always("PUT", &put, fault);
        let more = || Some(lets_in("new", "db", 81).into());
        let after = scene.written(&cluster(label, more()));
        // Who is no pod is none that a policy means.
        let judged = cluster(Some("gone"), more());
        let flows = some(&judged, MOST);
        let either: Passing = allowed(&flows, &before)
            .union(&allowed(&flows, &judged))
            .copied()
            .collect();
        let (seen, result) = scene.sync_watched(&flows, &judged);
        opens_nothing(&seen.moments, &flows, &either, &format!("{label:?}"));
        let Err(ControllerError::Failed(failed)) = result else {
            panic!("{label:?}: {:#?}", seen.steps);
        };
        assert_eq!(failed.len(), 1, "{failed:?}");
        scene.proxy.end_always();
        scene.sync().unwrap();
        scene.expect(&after);
    }
}

/// What somebody else does, and what it is called.
type Damage<'a> = (&'static str, Box<dyn Fn() + 'a>);

#[test]
fn what_somebody_else_does_is_undone() {
    let scene = Scene::new();
    let [one, _] = clusters();
    scene.goes_to(&one);
    let one = scene.written(&one);
    let server = &scene.server;
    let rule = |group: &str, more: Value| {
        let mut rule = json!({"security_group_id": group, "direction": "ingress", "ethertype": "IPv4"});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        server.ask(
            "POST",
            "security-group-rules",
            &json!({"security_group_rule": rule}),
        );
    };
    let group = |name: &str| {
        let made = server.ask(
            "POST",
            "security-groups",
            &json!({"security_group": {"name": name}}),
        );
        made["security_group"]["id"].as_str().unwrap().to_owned()
    };
    let give = |port: &str, groups: &[&str]| {
        let body = json!({"port": {"security_groups": groups}});
        server.ask("PUT", &format!("ports/{}", scene.port(port)), &body);
    };
    let own = || scene.group("picket/policy/x/p/ingress");
    let damages: Vec<Damage<'_>> = vec![
        (
            "a rule that lets everybody in",
            Box::new(|| rule(&own(), json!({}))),
        ),
        (
            "a rule that picket never writes",
            Box::new(|| {
                rule(
                    &own(),
                    json!({"protocol": "icmp", "port_range_min": 8, "port_range_max": 0}),
                );
            }),
        ),
        (
            "a group that is gone",
            Box::new(|| {
                give("x/a", &[]);
                server.ask("DELETE", &format!("security-groups/{}", own()), &Value::Null);
            }),
        ),
        ("a port without groups", Box::new(|| give("x/b", &[]))),
        (
            "a port with a group of others",
            Box::new(|| {
                let other = group("others");
                give("x/a", &[&other]);
            }),
        ),
        (
            "what is left of a controller that was killed",
            Box::new(|| {
                group("picket/policy/x/p/ingress");
                group("picket/policy/x/gone/egress");
            }),
        ),
        (
            "a group without tags",
            Box::new(|| {
                server.ask(
                    "PUT",
                    &format!("security-groups/{}/tags", own()),
                    &json!({"tags": []}),
                );
            }),
        ),
        (
            "a rule that is gone",
            Box::new(|| {
                let id = own();
                let rules = server.list(&format!("security-group-rules?security_group_id={id}"));
                let rule = rules[0]["id"].as_str().unwrap();
                server.ask("DELETE", &format!("security-group-rules/{rule}"), &Value::Null);
            }),
        ),
    ];
    for (what, damage) in &damages {
        damage();
        let seen = scene.sync().unwrap();
        assert!(!seen.steps.is_empty(), "{what}");
        scene.expect(&one);
        let again = scene.sync().unwrap();
        assert_eq!(again.steps, Vec::<String>::new(), "{what}");
    }
    let groups = server.list("security-groups");
    let ours = groups
        .iter()
        .filter(|group| group["name"].as_str().unwrap().starts_with("picket/"));
    let is_tagged = |group: &Value| group["tags"].as_array().unwrap().contains(&json!("picket"));
    assert!(ours.clone().all(is_tagged));
    let mut names: Vec<_> = ours.map(|group| group["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
}
