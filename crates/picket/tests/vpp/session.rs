//! The agent with rules of VPP's session layer as its target.

use std::time::Duration;

use picket_vpp::client::SessionAction;
use picket_vpp::fake::{Dumps, Fault, Options, When};

use crate::agent::run;
use crate::scene::{ACL, Scene, no_egress, only_from, only_to};
use crate::sockets::{API, DB, SESSION, Sockets, WEB, WORLD, options, packet};

#[test]
fn policies_are_in_force_as_they_change() {
    let sockets = Sockets::new(&only_from("one", "db", "web"));
    let agent = sockets.start(&[]);
    let status = agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert_eq!(status.namespaces["shop/db"], [2]);
    assert_eq!((status.pods.all, status.pods.restricted), (3, 1));
    assert!(status.pending.is_empty() && status.foreign.is_empty() && status.narrower.is_empty());
    assert!(sockets.opens(WEB, DB) && sockets.opens(WORLD, API) && sockets.opens(DB, WORLD));
    assert!(!sockets.opens(API, DB) && !sockets.opens(WORLD, DB));
    sockets.scene.put(&only_from("two", "db", "api"));
    agent.until_in_force(SESSION, &["NetworkPolicy shop/two"]);
    assert!(sockets.opens(API, DB));
    assert!(!sockets.opens(WEB, DB) && !sockets.opens(WORLD, DB));
    sockets.scene.put(&no_egress("three", "web"));
    agent.until_in_force(SESSION, &["NetworkPolicy shop/three"]);
    assert!(sockets.opens(API, DB) && sockets.opens(WORLD, WEB));
    assert!(!sockets.opens(WEB, DB) && !sockets.opens(WEB, WORLD));
    sockets.scene.put("");
    let status = agent.until_in_force(SESSION, &[]);
    assert!(sockets.opens(WEB, WORLD) && status.pods.restricted == 0);
    assert_eq!(sockets.rules(), 0);
    sockets.expect_no_damage();
}

#[test]
fn the_agent_says_how_it_goes() {
    let sockets = Sockets::new(&only_from("one", "db", "web"));
    let agent = sockets.start(&[]);
    agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert_eq!(agent.get("/readyz"), (200, "ok\n".to_owned()));
    assert_eq!(agent.get("/healthz"), (200, "ok\n".to_owned()));
    let (_, metrics) = agent.get("/metrics");
    for line in [
        "picket_target_ready{target=\"vpp-session\"} 1",
        "picket_target_connected{target=\"vpp-session\"} 1",
        "picket_target_pods_pending{target=\"vpp-session\"} 0",
        "picket_event_to_target_seconds_count{target=\"vpp-session\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let ran = agent.asked(&[]);
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    for line in [
        "vpp-session: policies are in force: 1 of 3 pods restricted, by 1 policies\n",
        "  shop/db: namespace 2\n",
        "  NetworkPolicy shop/one\n",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    let status = agent.asked(&["-o", "json"]).json();
    assert_eq!(status["targets"], serde_json::json!(["vpp-session"]));
    crate::enforce::expect_schema(&status);
}

#[test]
fn what_is_as_it_should_be_is_left_alone() {
    let sockets = Sockets::new(&only_from("one", "db", "web"));
    let mut first = sockets.start(&[]);
    first.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert!(sockets.changes() > 0);
    first.kill();
    // The rules outlive the agent, and the next one finds them.
    assert!(!sockets.opens(API, DB));
    sockets.vpp().clear_record();
    let second = sockets.start(&[]);
    second.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert_eq!(sockets.changes(), 0, "{:?}", sockets.vpp().record());
    sockets.scene.put(&only_from("two", "db", "api"));
    second.until_in_force(SESSION, &["NetworkPolicy shop/two"]);
    assert!(sockets.opens(API, DB) && !sockets.opens(WEB, DB));
}

#[test]
fn a_pod_whose_namespace_comes_later_is_pending_until_then() {
    let options = Options::new(3).session_layer(true).namespace("shop/web");
    let sockets = Sockets::with(&only_to("one", "db", "web"), options);
    sockets.name("shop/web 1\nshop/db 2\n");
    let agent = sockets.start(&[]);
    let status = agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    let pending: Vec<_> = status
        .pending
        .iter()
        .map(|pending| (&*pending.pod, pending.restricted, &*pending.why))
        .collect();
    let unnamed = format!("`{}` does not name it", sockets.file().display());
    assert_eq!(
        pending,
        [
            ("shop/api", false, &*unnamed),
            ("shop/db", true, "VPP has no namespace 2")
        ]
    );
    let made = sockets.vpp().change("somebody makes a namespace", |state| {
        state.add_namespace("shop/db", 0)
    });
    assert_eq!(made, Some(2));
    agent.until_vpp(SESSION, "the namespace", |vpp| {
        vpp.pending.len() == 1 && vpp.is_well()
    });
    assert!(sockets.opens(DB, WEB) && !sockets.opens(DB, WORLD));
    // It is made again under the same index, for the same pod: the file is written again.
    sockets.vpp().change("somebody makes it again", |state| {
        assert!(state.delete_namespace("shop/db"));
        state.add_namespace("shop/db", 0)
    });
    assert!(sockets.opens(DB, WORLD));
    sockets.name("shop/web 1\nshop/db 2\n");
    agent.until("rules", |_| !sockets.opens(DB, WORLD));
    sockets.expect_no_damage();
}

#[test]
fn tables_go_with_their_pods_and_stay_where_nobody_knows_whose_they_are() {
    let sockets = Sockets::new(&only_to("one", "db", "web"));
    let agent = sockets.start(&[]);
    agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert!(!sockets.opens(DB, WORLD));
    // Somebody is writing the file.
    sockets.name("");
    agent.until_vpp(SESSION, "no names", |vpp| vpp.pending.len() == 3);
    assert!(!sockets.opens(DB, WORLD));
    // The namespace is of another pod now.
    sockets.name("shop/web 1\nshop/api 2\nshop/db 3\n");
    agent.until_vpp(SESSION, "names", |vpp| vpp.pending.is_empty() && vpp.is_well());
    assert!(sockets.opens(DB, WORLD), "its index is 2 for these tests");
    assert!(!sockets.opens(API, WORLD) && sockets.opens(API, WEB));
    sockets.name("shop/web 1\nshop/db 2\nshop/api 3\n");
    agent.until_vpp(SESSION, "names", |_| {
        !sockets.opens(DB, WORLD) && sockets.opens(API, WORLD)
    });
    // An agent that begins without the file leaves everything as it is.
    drop(agent);
    std::fs::remove_file(sockets.file()).unwrap();
    sockets.vpp().clear_record();
    let agent = sockets.start(&[]);
    let status = agent.until_vpp(SESSION, "trouble", |vpp| vpp.trouble.is_some());
    assert!(status.trouble.unwrap().why.contains("No such file"));
    assert_eq!(sockets.changes(), 0);
    // Half of a file: nobody has said since it began whose the others are.
    sockets.name("shop/web 1\n");
    let status = agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert!(!sockets.opens(DB, WORLD) && sockets.opens(API, WORLD));
    assert_eq!(
        status.foreign,
        ["namespace 2: those that an agent of before left, as nobody has said whose it is"]
    );
    sockets.name("shop/web 1\nshop/api 2\nshop/db 3\n");
    agent.until_vpp(SESSION, "names", |_| {
        sockets.opens(DB, WORLD) && !sockets.opens(API, WORLD)
    });
    // What a pod had goes with it.
    sockets.scene.have(&["web", "api"]);
    sockets.name("shop/web 1\nshop/api 2\n");
    agent.until_vpp(SESSION, "a pod less", |_| sockets.opens(API, WORLD));
    sockets.expect_no_damage();
}

#[test]
fn a_vpp_that_was_started_again_gets_everything_again() {
    let sockets = Sockets::new(&only_from("one", "db", "web"));
    let agent = sockets.start(&[]);
    agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    sockets.vpp().restart();
    agent.until_vpp(SESSION, "a new connection", |vpp| {
        vpp.disconnects == 1 && vpp.is_well()
    });
    assert!(sockets.opens(WEB, DB) && !sockets.opens(API, DB) && !sockets.opens(WORLD, DB));
    sockets.vpp().down();
    agent.until_vpp(SESSION, "silence", |vpp| !vpp.connected);
    sockets.scene.put(&only_from("two", "db", "api"));
    sockets.vpp().up().unwrap();
    agent.until_in_force(SESSION, &["NetworkPolicy shop/two"]);
    assert!(sockets.opens(API, DB) && !sockets.opens(WEB, DB));
    sockets.expect_no_damage();
}

#[test]
fn whatever_goes_wrong_on_the_way_the_rules_are_right_at_last() {
    let sockets = Sockets::new(&only_from("one", "db", "web"));
    let agent = sockets.start(&[]);
    agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    let policies = [only_from("two", "db", "api"), only_from("one", "db", "web")];
    // Nobody outside may ever reach it, but while VPP has nothing yet.
    sockets.vpp().observe(|state, change| {
        let has_rules = !change.contains("restart") && state.namespaces().count() == 4;
        let packet = packet(WORLD, DB, 5432);
        let rules = state.session_rules(None, picket_vpp::fake::Transport::Tcp, picket_net::Family::Ipv4);
        match has_rules && rules.len() > 1 && state.accepts(&packet) == picket_vpp::fake::Connection::Allowed
        {
            true => Err(format!("after {change}: {rules:?}")),
            false => Ok(()),
        }
    });
    for fault in Fault::each_kind(Duration::from_millis(20)) {
        for place in [0, 2] {
            let when = When::Named("session_rule_add_del".to_owned(), place);
            sockets.vpp().fail(when, fault.clone());
            let policy = &policies[place / 2];
            let (name, reaching, kept_out) = match policy.contains("name: two") {
                true => ("NetworkPolicy shop/two", API, WEB),
                false => ("NetworkPolicy shop/one", WEB, API),
            };
            sockets.scene.put(policy);
            if fault == Fault::Hold {
                agent.until("the fault", |_| sockets.vpp().faults() == 0);
                sockets.vpp().release();
            }
            agent.until_in_force(SESSION, &[name]);
            assert_eq!(sockets.vpp().faults(), 0, "{fault:?} {place}");
            assert!(sockets.opens(reaching, DB), "{fault:?} {place}");
            assert!(
                !sockets.opens(kept_out, DB) && !sockets.opens(WORLD, DB),
                "{fault:?} {place}"
            );
        }
    }
    assert!(
        agent
            .log()
            .contains("VPP refuses `session_rule_add_del` of the TCP rule")
    );
    assert_eq!(sockets.vpp().findings(), Vec::<String>::new());
    sockets.expect_no_damage();
}

#[test]
fn a_session_layer_without_rules_is_named() {
    for options in [Options::new(5), Options::new(5).session_layer(false)] {
        let sockets = Sockets::with(&only_from("one", "db", "web"), options);
        let agent = sockets.start(&[]);
        let status = agent.until_vpp(SESSION, "trouble", |vpp| vpp.trouble.is_some());
        let why = status.trouble.unwrap().why;
        assert!(
            why.contains(
                "its session layer is off or runs without one; `session { enable rt-backend rule-table }`"
            ),
            "{why}"
        );
        assert!(status.connected && !status.ready);
        let (code, text) = agent.get("/readyz");
        assert_eq!(code, 503);
        assert!(
            text.contains("vpp-session: VPP has no table of session rules"),
            "{text}"
        );
        let ran = sockets.run(&["--once"]);
        assert_eq!(ran.status, 2);
        assert!(
            ran.stderr
                .contains("vpp-session: VPP has no table of session rules"),
            "{}",
            ran.stderr
        );
        assert_eq!(sockets.changes(), 0);
        if !sockets.vpp().state().session_layer() {
            sockets.vpp().change("somebody switches it on", |state| {
                state.enable_session_layer(true);
                for id in ["shop/web", "shop/db", "shop/api"] {
                    assert!(state.add_namespace(id, 0).is_some());
                }
            });
            agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
            assert!(!sockets.opens(WORLD, DB));
        }
    }
}

#[test]
fn a_namespace_in_another_fib_is_trouble() {
    for dumps in [Dumps::First, Dumps::Second, Dumps::Both] {
        let sockets = Sockets::with(&only_from("one", "db", "web"), options().dumps(dumps));
        sockets.vpp().add_fib(9);
        sockets
            .vpp()
            .change("a namespace moves", |state| state.add_namespace("shop/db", 9));
        let agent = sockets.start(&[]);
        let status = agent.until_vpp(SESSION, "trouble", |vpp| vpp.trouble.is_some());
        let why = status.trouble.unwrap().why;
        assert!(
            why.contains("namespace 2 of shop/db is not in the first FIB"),
            "{dumps:?}: {why}"
        );
        // What can be done is done.
        assert!(!sockets.opens(API, DB), "{dumps:?}");
    }
}

#[test]
fn rules_of_others_stay_and_are_told() {
    let sockets = Sockets::new(&only_to("one", "db", "web"));
    // One beside picket's, one in another table, and of IPv6 one whose name VPP does not tell.
    sockets.add(Some(2), "192.0.2.0/24", SessionAction::Allow, "theirs");
    sockets.add(None, "198.51.100.0/24", SessionAction::Deny, "theirs");
    sockets.add(Some(2), "2001:db8::/32", SessionAction::Deny, "theirs-6");
    let agent = sockets.start(&[]);
    let status = agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert_eq!(
        status.foreign,
        [
            "the global table: 1 rule, as `tcp 0.0.0.0/0 0 198.51.100.0/24 0 drop`; they decide alone",
            "namespace 2: 2 rules, as `tcp 0.0.0.0/0 0 192.0.2.0/24 0 allow`; they decide what they match, but for what \
             picket's are about more closely",
        ]
    );
    assert!(
        agent
            .asked(&[])
            .stdout
            .contains("  rules of others, namespace 2: 2 rules")
    );
    assert!(
        sockets.opens(DB, WORLD) && !sockets.opens(DB, "198.51.100.1") && !sockets.opens("198.51.100.1", WEB)
    );
    // Nothing is tried again.
    sockets.vpp().clear_record();
    sockets.scene.put(&only_to("two", "db", "web"));
    agent.until_in_force(SESSION, &["NetworkPolicy shop/two"]);
    assert_eq!(sockets.changes(), 0, "{:?}", sockets.vpp().record());
    sockets.scene.put("");
    agent.until_in_force(SESSION, &[]);
    assert_eq!(sockets.rules(), 3);
    // They can still be removed by who has added them.
    sockets.remove(Some(2), "2001:db8::/32", "theirs-6");
    sockets.remove(None, "198.51.100.0/24", "theirs");
    assert_eq!(sockets.rules(), 1);
    sockets.expect_no_damage();
}

#[test]
fn who_has_the_place_of_a_rule_is_named() {
    let sockets = Sockets::new(&no_egress("one", "db"));
    sockets.add(Some(2), "0.0.0.0/0", SessionAction::Allow, "theirs");
    let agent = sockets.start(&[]);
    let status = agent.until_vpp(SESSION, "trouble", |vpp| vpp.trouble.is_some());
    assert_eq!(
        status.trouble.unwrap().why,
        "namespace 2: `tcp 0.0.0.0/0 0 0.0.0.0/0 0 allow` of others, with the tag `theirs`, has the place of \
         `tcp 0.0.0.0/0 0 0.0.0.0/0 0 drop`"
    );
    // What they say alike stays theirs.
    sockets.remove(Some(2), "0.0.0.0/0", "theirs");
    sockets.add(Some(2), "0.0.0.0/0", SessionAction::Deny, "theirs");
    drop(agent);
    assert_eq!(sockets.run(&["--once"]).status, 0);
    assert!(!sockets.opens(DB, WORLD));
    assert_eq!(sockets.run(&["--cleanup"]).status, 0);
    assert!(!sockets.opens(DB, WORLD) && sockets.rules() == 1);
    sockets.expect_no_damage();
}

#[test]
fn what_others_break_is_mended_when_it_is_read_back() {
    let sockets = Sockets::new(&only_to("one", "db", "web"));
    let agent = sockets.start(&["--verify-interval", "1"]);
    agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    let theirs = sockets.vpp().state().session_rules(
        Some(2),
        picket_vpp::fake::Transport::Tcp,
        picket_net::Family::Ipv4,
    );
    for rule in theirs.iter().filter_map(|rule| rule.tag.as_deref()) {
        sockets.remove(Some(2), "0.0.0.0/0", rule);
    }
    assert!(sockets.opens(DB, WORLD));
    agent.until("repair", |_| !sockets.opens(DB, WORLD));
}

#[test]
fn what_has_no_room_is_told() {
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: one, namespace: shop}\n\
                  spec:\n  podSelector: {matchLabels: {app: db}}\n  policyTypes: [Egress]\n  egress:\n  \
                  - to: [{ipBlock: {cidr: 192.0.2.0/24}}]\n    ports: [{port: 1000, endPort: 1999}]\n";
    let sockets = Sockets::new(policy);
    let agent = sockets.start(&["--max-session-rules", "100"]);
    let status = agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert_eq!(
        status.narrower,
        ["shop/db (egress): its table has no room for 1000 rules, and what they would allow is denied"]
    );
    let text = agent.asked(&[]).stdout;
    assert!(
        text.contains("  LESS than the policies allow: shop/db (egress): "),
        "{text}"
    );
    assert!(
        text.contains("warning[T001] NetworkPolicy shop/one: vpp-session: NetworkPolicy shop/one (egress) needs 1000 more rules"),
        "{text}"
    );
    assert!(!sockets.opens(DB, WORLD));
    // With room for them nothing is left to say.
    drop(agent);
    let agent = sockets.start(&[]);
    let status = agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    assert!(status.narrower.is_empty());
    assert!(crate::sockets::opens(sockets.vpp(), Some(2), DB, WORLD, 1500));
    assert!(!sockets.opens(DB, WORLD));
}

#[test]
fn once_and_dry_runs_and_cleaning_up() {
    let sockets = Sockets::new(&only_to("one", "db", "web"));
    sockets.add(Some(2), "192.0.2.0/24", SessionAction::Deny, "theirs");
    sockets.vpp().clear_record();
    let ran = sockets.run(&["--dry-run"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stdout
            .starts_with("namespace 2:\n  add tcp 0.0.0.0/0 0 0.0.0.0/0 0 drop\n"),
        "{}",
        ran.stdout
    );
    assert_eq!(sockets.changes(), 0);
    let ran = sockets.run(&["--once"]);
    assert_eq!((ran.status, &*ran.stdout), (0, ""), "{}", ran.stderr);
    assert!(sockets.opens(DB, WEB) && !sockets.opens(DB, API));
    sockets.vpp().clear_record();
    assert_eq!(sockets.run(&["--once"]).status, 0);
    assert_eq!(
        (sockets.run(&["--dry-run"]).stdout, sockets.changes()),
        (String::new(), 0)
    );
    let count = sockets.rules() - 1;
    let ran = sockets.run(&["--cleanup"]);
    assert_eq!(
        (ran.status, ran.stdout),
        (0, format!("removed {count} session rules from VPP\n")),
        "{}",
        ran.stderr
    );
    assert!(sockets.opens(DB, API) && !sockets.opens(DB, WORLD) && sockets.rules() == 1);
    assert_eq!(
        sockets.run(&["--cleanup"]).stdout,
        "VPP has no session rules of picket\n"
    );
    let socket = sockets.vpp().socket().to_str().unwrap();
    let ran = run(
        sockets.scene.manifests(),
        &["--target", SESSION, "--vpp-socket", socket],
    );
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("needs `--vpp-pod-namespace file=PATH`"),
        "{}",
        ran.stderr
    );
}

/// Nothing is known of what was there before but what VPP says.
#[test]
fn on_a_node_without_pods_who_begins_takes_away_what_was_for_pods() {
    let policies = format!(
        "{}---\n{}",
        only_from("one", "db", "web"),
        only_to("two", "api", "web")
    );
    let sockets = Sockets::new(&policies);
    let global = || {
        let state = sockets.vpp().state();
        let rules = state.session_rules(None, picket_vpp::fake::Transport::Tcp, picket_net::Family::Ipv4);
        rules.iter().filter(|rule| rule.action != u32::MAX).count()
    };
    assert_eq!(sockets.run(&["--once"]).status, 0);
    let count = sockets.rules();
    assert!(global() > 0 && count > global(), "{count}");
    sockets.scene.have(&[]);
    let ran = sockets.run(&["--once"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(global(), 0);
    // Whose pod is gone, while somebody still names its namespace, may run on; nobody names these.
    sockets.name("");
    assert_eq!(sockets.run(&["--once"]).status, 0);
    assert_eq!(sockets.rules(), 0);
    sockets.expect_no_damage();
}

/// The session layer judges what is opened, and nothing else: what was opened goes on.
#[test]
fn no_connection_of_the_session_layer_is_cut() {
    let sockets = Sockets::new(&only_from("one", "db", "web"));
    let ran = sockets.run(&["--once", "--established", "cut"]);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    let why = "`--established cut` is for no target that is given: vpp-session keeps established connections";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert_eq!(sockets.changes(), 0);
    // Lists cut them, whatever the other target does.
    let with_lists = sockets.run(&["--once", "--established", "cut", "--target", ACL]);
    assert_eq!(with_lists.status, 0, "{}", with_lists.stderr);
    let agent = sockets.start(&["--established", "keep"]);
    agent.until_in_force(SESSION, &["NetworkPolicy shop/one"]);
    sockets.vpp().clear_record();
    sockets.scene.put(&only_from("two", "db", "api"));
    agent.until_in_force(SESSION, &["NetworkPolicy shop/two"]);
    assert!(!sockets.opens(WEB, DB) && sockets.changes() > 0);
    // VPP is told about rules, and never about a connection.
    let told = sockets.vpp().record().into_iter().map(|message| message.name);
    let about = |name: &String| name.contains("session") && !name.starts_with("session_rule");
    assert_eq!(told.filter(about).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn lists_are_cleaned_up_too() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let arguments = scene.arguments();
    let run = |more: &str| run(scene.manifests(), &[&arguments[..], &[more]].concat());
    assert_eq!(run("--once").status, 0);
    let theirs = scene.vpp.change("somebody adds a list", |state| {
        let rules = vec![picket_vpp::fake::AclRule::all(
            picket_vpp::fake::AclAction::Permit,
            picket_net::Family::Ipv4,
        )];
        state.add_acl(None, "theirs", rules).unwrap()
    });
    let count = scene.vpp.state().acls().count() - 1;
    let ran = run("--cleanup");
    assert_eq!(
        (ran.status, ran.stdout),
        (0, format!("removed {count} lists from VPP\n")),
        "{}",
        ran.stderr
    );
    let left: Vec<_> = scene.vpp.state().acls().map(|(index, _)| index).collect();
    assert_eq!(left, [theirs]);
    assert_eq!(run("--cleanup").stdout, "VPP has no lists of picket\n");
    scene.vpp.down();
    let ran = run("--cleanup");
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("vpp-acl: cannot connect to VPP at"),
        "{}",
        ran.stderr
    );
}

#[test]
fn no_target_waits_for_another() {
    // Without the ACL plugin there are no lists.
    for (options, well, troubled) in [
        (options().without("acl_add_replace"), SESSION, ACL),
        (Options::new(9), ACL, SESSION),
    ] {
        let options = options.interface("tap2", "shop/db").interface("ge0", "");
        let sockets = Sockets::with(&only_from("one", "db", "web"), options);
        let agent = sockets.start(&["--target", ACL]);
        let status = agent.until("one of two", |status| {
            status.vpp[well].is_well() && status.vpp[troubled].trouble.is_some()
        });
        assert_eq!(status.targets, [ACL, SESSION]);
        assert_eq!(status.vpp[well].policies, ["NetworkPolicy shop/one"]);
        assert!(!status.ready);
        assert_eq!(agent.get("/healthz").0, 200);
        sockets.scene.put(&only_from("two", "db", "api"));
        agent.until_in_force(well, &["NetworkPolicy shop/two"]);
        let (_, metrics) = agent.get("/metrics");
        for line in [
            format!("picket_target_ready{{target=\"{well}\"}} 1"),
            format!("picket_target_ready{{target=\"{troubled}\"}} 0"),
        ] {
            assert!(metrics.contains(&line), "{line}\n{metrics}");
        }
    }
    let sockets = Sockets::with(
        &only_from("one", "db", "web"),
        options().interface("tap2", "shop/db").interface("ge0", ""),
    );
    let agent = sockets.start(&["--target", ACL]);
    agent.until("both", |status| status.ready);
    assert!(!sockets.opens(WORLD, DB) && !sockets.scene.reaches(crate::scene::WORLD, crate::scene::DB));
}
