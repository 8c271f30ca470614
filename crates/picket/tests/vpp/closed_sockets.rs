//! Tables of the session layer while nobody knows yet what may be opened: nothing may.

use picket_node::VppStatus;
use picket_vpp::client::SessionAction;
use picket_vpp::fake::Connection;

use crate::agent::Agent;
use crate::enforce::expect_schema;
use crate::scene::{DAMAGED, no_egress, only_from};
use crate::sockets::{API, DB, SESSION, Sockets, WEB, WORLD, opens, packet};

const PORT: u16 = 5432;

const ALL: [&str; 4] = ["the global table", "namespace 1", "namespace 2", "namespace 3"];

/// Waits until nothing may be opened by just these tables.
fn until_closed(agent: &Agent, tables: &[&str]) -> VppStatus {
    agent.until_vpp(SESSION, &format!("{tables:?} closed"), |vpp| {
        vpp.closed == tables && vpp.trouble.is_none()
    })
}

#[test]
fn nothing_may_be_opened_until_the_cluster_is_known() {
    let sockets = Sockets::new(DAMAGED);
    let agent = sockets.start(&[]);
    let status = until_closed(&agent, &ALL);
    assert!(!status.ready);
    let is_open = |from, to| sockets.opens(from, to);
    assert!(!is_open(WEB, DB) && !is_open(DB, WORLD) && !is_open(WORLD, API));
    assert!(!opens(sockets.vpp(), Some(1), "fd00::1", "fd00::2", 80));
    assert!(!opens(sockets.vpp(), None, "2001:db8::1", "fd00::2", 80));
    let told = agent.asked(&[]).stdout;
    let line = "  namespace 2: nothing may be opened yet\n";
    assert!(told.contains(line), "{told}");
    expect_schema(&agent.asked(&["-o", "json"]).json());
    sockets.scene.put(&only_from("one", "db", "web"));
    let status = agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert!(status.closed.is_empty());
    assert!(is_open(WEB, DB) && is_open(DB, WORLD) && is_open(WORLD, API));
    assert!(!is_open(API, DB) && !is_open(WORLD, DB));
    assert!(opens(sockets.vpp(), None, "2001:db8::1", "fd00::2", 80));
    sockets.scene.put("");
    agent.until_in_force(SESSION, &[]);
    assert_eq!(sockets.rules(), 0);
    sockets.expect_no_damage();
}

#[test]
fn a_namespace_that_comes_meanwhile_is_closed_too() {
    let sockets = Sockets::new(DAMAGED);
    sockets.name("shop/web 1\nshop/db 2\nshop/later 4\n");
    let agent = sockets.start(&[]);
    until_closed(&agent, &ALL[..3]);
    let made = sockets.vpp().change("somebody makes a namespace", |state| {
        state.add_namespace("shop/later", 0)
    });
    assert_eq!(made, Some(4));
    until_closed(
        &agent,
        &["the global table", "namespace 1", "namespace 2", "namespace 4"],
    );
    assert!(!opens(sockets.vpp(), Some(4), "10.0.0.4", WORLD, 80));
    // Of one that is no pod's nobody has said that it is to be closed.
    assert!(sockets.opens(API, WORLD));
    sockets.expect_no_damage();
}

/// No connection that the policies deny may be opened for a moment while their rules come and what let nothing pass goes.
#[test]
fn what_is_denied_before_and_after_is_denied_in_between() {
    let policies = [only_from("one", "db", "web"), no_egress("two", "api")];
    let sockets = Sockets::new(DAMAGED);
    let agent = sockets.start(&[]);
    until_closed(&agent, &ALL);
    sockets.vpp().observe(|state, change| {
        let verdicts = [
            state.accepts(&packet(WORLD, DB, PORT)),
            state.connects(3, &packet(API, DB, PORT)),
            state.connects(3, &packet(API, WORLD, PORT)),
        ];
        match verdicts.contains(&Connection::Allowed) {
            true => Err(format!("{verdicts:?} after {change}")),
            false => Ok(()),
        }
    });
    sockets.scene.put(&policies.join("---\n"));
    agent.until_in_force(SESSION, &["NetworkPolicy shop/one", "NetworkPolicy shop/two"]);
    assert!(sockets.opens(WEB, DB) && sockets.opens(WORLD, API));
    assert_eq!(sockets.vpp().findings(), Vec::<String>::new());
    sockets.expect_no_damage();
}

#[test]
fn rules_from_before_hold_until_the_cluster_is_known() {
    let sockets = Sockets::new(&only_from("one", "db", "web"));
    let mut first = sockets.start(&[]);
    first.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    first.kill();
    sockets.scene.put(DAMAGED);
    sockets.vpp().clear_record();
    let second = sockets.start(&[]);
    second.until_vpp(SESSION, "a connection", |vpp| vpp.connected);
    sockets.vpp().change("somebody makes a namespace", |state| {
        state.add_namespace("shop/later", 0)
    });
    sockets.name("shop/web 1\nshop/db 2\nshop/api 3\nshop/later 4\n");
    // What came since is closed, and what nothing may have restricted is left as it is.
    until_closed(&second, &["namespace 4"]);
    assert_eq!(sockets.changes(), 4, "{:?}", sockets.vpp().record());
    assert!(sockets.opens(WEB, DB) && sockets.opens(DB, WORLD) && sockets.opens(WORLD, API));
    assert!(!sockets.opens(API, DB) && !sockets.opens(WORLD, DB));
    // A VPP that is started again has forgotten what an agent knew.
    sockets.vpp().restart();
    until_closed(&second, &ALL);
    assert!(!sockets.opens(WEB, DB) && !sockets.opens(DB, WORLD) && !sockets.opens(WORLD, API));
    sockets.scene.put(&only_from("one", "db", "web"));
    second.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert!(sockets.opens(WEB, DB) && sockets.opens(DB, WORLD) && !sockets.opens(WORLD, DB));
    sockets.expect_no_damage();
}

#[test]
fn what_an_agent_closed_that_was_killed_the_next_one_opens() {
    let sockets = Sockets::new(DAMAGED);
    let mut first = sockets.start(&[]);
    until_closed(&first, &ALL);
    first.kill();
    sockets.vpp().clear_record();
    let mut second = sockets.start(&[]);
    until_closed(&second, &ALL);
    assert_eq!(sockets.changes(), 0);
    second.kill();
    sockets.scene.put(&only_from("one", "db", "web"));
    let third = sockets.start(&[]);
    third.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert!(sockets.opens(WEB, DB) && sockets.opens(WORLD, API) && !sockets.opens(WORLD, DB));
    sockets.expect_no_damage();
}

#[test]
fn cleaning_up_opens_what_was_closed() {
    let sockets = Sockets::new(DAMAGED);
    let mut agent = sockets.start(&[]);
    until_closed(&agent, &ALL);
    agent.kill();
    let ran = sockets.run(&["--cleanup"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(sockets.opens(WEB, DB) && sockets.opens(WORLD, API));
    assert_eq!(sockets.rules(), 0);
}

/// Where VPP refuses a rule about what comes from outside, nothing does until it takes it.
#[test]
fn the_global_table_is_closed_while_vpp_refuses_a_rule_of_it() {
    let sockets = Sockets::new(DAMAGED);
    let agent = sockets.start(&[]);
    until_closed(&agent, &ALL);
    sockets
        .vpp()
        .observe(|state, change| match state.accepts(&packet(WORLD, DB, PORT)) {
            Connection::Allowed => Err(change.to_owned()),
            _ => Ok(()),
        });
    // All that it is told next, as nobody knows which of these it will be.
    sockets.refuse(40);
    sockets.scene.put(&only_from("one", "db", "web"));
    let status = agent.until_vpp(SESSION, "trouble", |vpp| {
        vpp.trouble.is_some() && vpp.closed == ALL[..1]
    });
    assert!(!status.ready);
    agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert!(sockets.opens(WORLD, API) && sockets.opens(WEB, DB));
    assert_eq!(sockets.vpp().findings(), Vec::<String>::new());
}

#[test]
fn that_vpp_lets_no_table_be_closed_is_trouble_until_it_does() {
    let sockets = Sockets::new(DAMAGED);
    sockets.refuse(3);
    let agent = sockets.start(&[]);
    let status = agent.until_vpp(SESSION, "trouble", |vpp| vpp.trouble.is_some());
    let why = status.trouble.unwrap().why;
    assert!(why.contains("VPP refuses `session_rule_add_del`"), "{why}");
    until_closed(&agent, &ALL);
    assert!(!sockets.opens(WEB, DB) && !sockets.opens(WORLD, DB));
}

#[test]
fn that_nobody_says_which_namespaces_are_those_of_pods_is_trouble_from_the_beginning() {
    let sockets = Sockets::new(DAMAGED);
    sockets.name("shop/web one\n");
    let agent = sockets.start(&[]);
    let status = agent.until_vpp(SESSION, "trouble", |vpp| vpp.trouble.is_some());
    let why = status.trouble.unwrap().why;
    assert!(why.contains("namespaces`: "), "{why}");
    assert_eq!(status.closed, ALL[..1]);
    sockets.name("shop/web 1\n");
    until_closed(&agent, &ALL[..2]);
}

/// What is about every connection is others' to say where they have said it.
#[test]
fn rules_of_others_stay_where_nothing_may_be_opened() {
    let sockets = Sockets::new(DAMAGED);
    sockets.add(Some(1), "192.0.2.0/24", SessionAction::Allow, "others");
    let agent = sockets.start(&[]);
    until_closed(&agent, &ALL);
    assert!(sockets.opens(WEB, WORLD) && !sockets.opens(WEB, DB));
    sockets.scene.put(&only_from("one", "db", "web"));
    agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert!(sockets.opens(WEB, DB) && !sockets.opens(API, DB));
    sockets.remove(Some(1), "192.0.2.0/24", "others");
}

#[test]
fn no_table_is_closed_where_everything_may_pass_until_then() {
    let sockets = Sockets::new(DAMAGED);
    let agent = sockets.start(&["--until-synced", "allow"]);
    agent.until_vpp(SESSION, "a connection", |vpp| vpp.connected);
    sockets
        .vpp()
        .observe(|state, change| match state.accepts(&packet(WORLD, API, PORT)) {
            Connection::Allowed => Ok(()),
            _ => Err(change.to_owned()),
        });
    sockets.scene.put(&only_from("one", "db", "web"));
    let status = agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert!(status.closed.is_empty());
    assert_eq!(sockets.vpp().findings(), Vec::<String>::new());
}
