//! VPP that ends, is not there, or will not.

use std::time::Duration;

use picket_vpp::client::Backoff;
use picket_vpp::fake::{Fault, When};

use crate::agent::Agent;
use crate::scene::{ACL, API, DB, Scene, WEB, WORLD, only_from, only_to};

#[test]
fn a_vpp_that_was_started_again_gets_everything_again() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    scene.vpp.restart();
    let status = agent.until_vpp(ACL, "a new connection", |vpp| {
        vpp.disconnects == 1 && vpp.is_well()
    });
    assert!(status.ready);
    assert!(scene.reaches(WEB, DB) && !scene.reaches(API, DB) && !scene.reaches(WORLD, DB));
}

#[test]
fn a_vpp_that_is_not_there_is_waited_for() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    scene.vpp.down();
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let status = agent.until("trouble with VPP alone", |status| {
        let mut kinds = status.source.values();
        kinds.len() > 0 && kinds.all(|kind| kind.complete) && status.vpp[ACL].trouble.is_some()
    });
    let status = &status.vpp[ACL];
    assert!(!status.ready && !status.connected);
    let (code, text) = agent.get("/readyz");
    assert_eq!(code, 503);
    assert!(text.contains("vpp-acl: cannot connect to VPP at"), "{text}");
    assert_eq!(agent.get("/healthz").0, 200);
    assert_eq!(agent.asked(&[]).status, 1);
    scene.vpp.up().unwrap();
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert!(!scene.reaches(WORLD, DB));
    assert_eq!(agent.asked(&[]).status, 0);
    // What changes while VPP is away is there when it is back.
    scene.vpp.down();
    agent.until_vpp(ACL, "silence", |vpp| !vpp.connected);
    scene.put(&only_from("two", "db", "api"));
    scene.vpp.up().unwrap();
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    assert!(scene.reaches(API, DB) && !scene.reaches(WEB, DB));
}

/// With the waits that there are to be, twenty calls take more than a minute: without them an instant, and two seconds if they did not
/// grow. An agent reads manifests once a second, so that four changes of them take longer than that.
#[test]
fn a_vpp_that_answers_nobody_is_called_ever_less_often() {
    let policy = only_from("one", "db", "web");
    let scene = Scene::new(&policy);
    for behind in 0..20 {
        let handshake = "sockclnt_create".to_owned();
        scene.vpp.fail(When::Named(handshake, behind), Fault::DropBefore);
    }
    let waits = (1..20).map(|failures| Backoff::default().after(failures));
    assert!(waits.sum::<Duration>() > Duration::from_secs(60));
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    for (text, is_damaged) in [("{", true), (&*policy, false)].repeat(2) {
        scene.put(text);
        agent.until("what manifests say", |status| {
            let files = status.source.get("files");
            files.is_some_and(|files| files.trouble.is_some() == is_damaged)
        });
    }
    let status = agent.until("the status", |_| true);
    let calls = scene.vpp.record();
    let calls = calls.iter().filter(|message| message.name == "sockclnt_create");
    let calls = calls.count();
    assert!((2..20).contains(&calls), "{calls}");
    assert!(!status.vpp[ACL].connected);
}

#[test]
fn what_vpp_refuses_is_told_and_tried_again() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    for message in ["acl_add_replace", "acl_interface_set_acl_list", "acl_del"] {
        scene
            .vpp
            .fail(When::Named(message.to_owned(), 0), Fault::Refuse(-1));
    }
    scene.put(&only_from("two", "db", "api"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    let log = agent.log();
    assert!(
        log.contains("VPP refuses `acl_add_replace` of the new ACL"),
        "{log}"
    );
    assert!(scene.reaches(API, DB) && !scene.reaches(WEB, DB));
    // As where another plugin looks into a list: it goes later.
    scene
        .vpp
        .fail(When::Named("acl_del".to_owned(), 0), Fault::Refuse(-149));
    scene.put(&only_from("three", "db", "web"));
    agent.until("another refusal", |_| {
        agent.log().contains("the ACL is used for lookups")
    });
    agent.until_in_force(ACL, &["NetworkPolicy shop/three"]);
    assert!(scene.reaches(WEB, DB) && !scene.reaches(API, DB));
}

#[test]
fn a_vpp_that_is_too_old_is_named() {
    let options = picket_vpp::fake::Options::new(1).crc("acl_add_replace", "1cabdeab");
    let scene = Scene::with("", options);
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let status = agent.until_vpp(ACL, "trouble", |vpp| vpp.trouble.is_some());
    let why = status.trouble.unwrap().why;
    assert!(
        why.contains(
            "VPP has `acl_add_replace` with CRC 1cabdeab, as release 20.05 had, and ee5c2f18 is needed"
        ),
        "{why}"
    );
}

/// Gives an interface to `shop/db` while VPP refuses so many lists; until that is released nothing is tried again.
fn becomes_the_databases(scene: &Scene, agent: &Agent, index: u32, refused: usize) {
    scene.refuse_lists(refused);
    scene.vpp.fail(When::Named("acl_dump".to_owned(), 0), Fault::Hold);
    assert!(scene.vpp.set_tag(index, "shop/db"));
    assert!(scene.vpp.set_up(index, true));
    agent.until_vpp(ACL, "trouble", |vpp| vpp.trouble.is_some());
}

/// The tag is set after the interface was made, as docs/vpp.md has it.
#[test]
fn an_interface_that_was_taken_for_an_uplink_is_closed_while_vpp_refuses_its_lists() {
    let options = picket_vpp::fake::Options::new(3);
    let options = options.interface("ge0", "").interface("tap1", "shop/web");
    let policies = format!(
        "{}---\n{}",
        only_from("one", "db", "web"),
        only_to("two", "web", "db")
    );
    let scene = Scene::with(&policies, options);
    let both = ["NetworkPolicy shop/one", "NetworkPolicy shop/two"];
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &both);
    let index = scene.vpp.add_interface("tap2", "");
    assert!(scene.vpp.set_up(index, true));
    agent.until_vpp(ACL, "another uplink", |vpp| vpp.uplinks == ["ge0", "tap2"]);
    agent.until_in_force(ACL, &both);
    assert!(!scene.vpp.state().lists(index).input.is_empty());
    // What keeps cut what it had let pass as another interface, and the lists of the pod.
    becomes_the_databases(&scene, &agent, index, 4);
    assert!(!scene.reaches(WORLD, DB) && !scene.reaches(WEB, DB) && !scene.reaches(DB, WORLD));
    scene.vpp.release();
    agent.until_in_force(ACL, &both);
    assert!(scene.reaches(WEB, DB) && scene.reaches(DB, WORLD) && !scene.reaches(WORLD, DB));
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

/// What one pod may do is not what another may that gets its interface.
#[test]
fn an_interface_that_was_another_pods_is_closed_while_vpp_refuses_its_lists() {
    let options = picket_vpp::fake::Options::new(3);
    let options = options.interface("ge0", "").interface("tap1", "shop/api");
    let policies = [only_from("one", "db", "web"), only_from("two", "web", "db")].join("---\n");
    let scene = Scene::with(&policies, options);
    let both = ["NetworkPolicy shop/one", "NetworkPolicy shop/two"];
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &both);
    let index = scene.vpp.state().interface("tap1").unwrap();
    let [api, db] = [API, DB].map(|(_, address)| ("tap1", address));
    assert!(scene.reaches(WORLD, api) && scene.reaches(api, WORLD));
    // The lists of the pod and what keeps cut what the other could receive; what stands in for them is not refused.
    becomes_the_databases(&scene, &agent, index, 3);
    assert!(!scene.reaches(WORLD, db) && !scene.reaches(WORLD, api) && !scene.reaches(db, WORLD));
    scene.vpp.release();
    agent.until_in_force(ACL, &both);
    assert!(scene.reaches(db, WORLD) && !scene.reaches(WORLD, db));
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

#[test]
fn an_interface_is_closed_while_vpp_refuses_its_lists() {
    let options = picket_vpp::fake::Options::new(3);
    let options = options.interface("ge0", "").interface("tap1", "shop/web");
    let scene = Scene::with(&only_from("one", "db", "web"), options);
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    // The two lists of the pod are refused, what stands in for them is not; and nothing is tried again for now.
    scene.refuse_lists(2);
    scene.vpp.fail(When::Named("acl_dump".to_owned(), 0), Fault::Hold);
    let index = scene.vpp.add_interface("tap2", "shop/db");
    assert!(scene.vpp.set_up(index, true));
    agent.until_vpp(ACL, "trouble", |vpp| vpp.trouble.is_some());
    assert!(!scene.reaches(WORLD, DB) && !scene.reaches(WEB, DB) && !scene.reaches(DB, WORLD));
    assert!(scene.reaches(WEB, WORLD));
    scene.vpp.release();
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert!(scene.reaches(WEB, DB) && scene.reaches(DB, WORLD) && !scene.reaches(WORLD, DB));
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}
