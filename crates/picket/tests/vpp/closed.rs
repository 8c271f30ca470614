//! Interfaces of pods of which nobody knows yet, or any more, what may pass there: nothing does.

use picket_node::VppStatus;
use picket_vpp::fake::{Lists, Options};

use crate::agent::Agent;
use crate::enforce::expect_schema;
use crate::scene::{ACL, API, DAMAGED, DB, Scene, WEB, WORLD, only_from, only_to, would_reach};

const LATER: (&str, &str) = ("tap4", "10.0.0.4");

/// Waits until nothing passes at just these interfaces.
fn until_closed(agent: &Agent, interfaces: &[&str]) -> VppStatus {
    agent.until_vpp(ACL, &format!("{interfaces:?} closed"), |vpp| {
        vpp.unknown == interfaces && vpp.trouble.is_none()
    })
}

#[test]
fn an_interface_is_closed_while_nobody_knows_its_pod() {
    let scene = Scene::new(&only_to("one", "web", "api"));
    scene.have(&["web", "api"]);
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let all = ["web", "db", "api"];
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    for _ in 0..2 {
        // The tag is there before the pod; and later the interface is there when the pod has gone.
        let status = until_closed(&agent, &["tap2"]);
        assert_eq!(status.uplinks, ["ge0"]);
        assert!(!scene.reaches(DB, API) && !scene.reaches(WORLD, DB) && !scene.reaches(DB, WORLD));
        assert!(scene.reaches(WEB, API) && scene.reaches(API, WORLD));
        let told = agent.asked(&[]).stdout;
        let line = "  interface tap2: no pod is known that has it, and nothing passes there\n";
        assert!(told.contains(line), "{told}");
        expect_schema(&agent.asked(&["-o", "json"]).json());
        scene.have(&all);
        until_closed(&agent, &[]);
        assert!(scene.reaches(DB, API) && scene.reaches(WORLD, DB) && scene.reaches(DB, WORLD));
        scene.have(&["web", "api"]);
    }
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

#[test]
fn what_is_no_pods_by_the_rules_is_left_alone() {
    let scene = Scene::new(&only_to("one", "web", "api"));
    let arguments = [&scene.arguments()[..], &["--uplink", "ge*"]].concat();
    let [other, tagged] =
        [("memif0/0", ""), ("memif0/1", "of somebody")].map(|(name, tag)| scene.vpp.add_interface(name, tag));
    let pods = scene.vpp.add_interface("memif0/2", "shop/unheard-of");
    let agent = Agent::start(scene.manifests(), &arguments);
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    let status = until_closed(&agent, &["memif0/2"]);
    assert_eq!(status.uplinks, ["ge0"]);
    let state = scene.vpp.state();
    for interface in [other, tagged] {
        assert!(state.lists(interface).input.is_empty() && state.lists(interface).output.is_empty());
    }
    assert_eq!(
        (state.lists(pods).input.len(), state.lists(pods).output.len()),
        (1, 1)
    );
}

#[test]
fn what_has_no_lists_is_closed_until_the_cluster_is_known() {
    let scene = Scene::new(DAMAGED);
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let status = until_closed(&agent, &["tap1", "tap2", "tap3"]);
    assert!(!status.ready);
    assert!(!scene.reaches(WEB, API) && !scene.reaches(WORLD, API) && !scene.reaches(API, WORLD));
    // One that comes meanwhile is closed too.
    let up = scene.vpp.add_interface(LATER.0, "shop/later");
    assert!(scene.vpp.set_up(up, true));
    until_closed(&agent, &["tap1", "tap2", "tap3", "tap4"]);
    assert!(!scene.reaches(LATER, WORLD));
    scene.put(&only_from("one", "db", "web"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    until_closed(&agent, &["tap4"]);
    assert!(scene.reaches(WEB, API) && scene.reaches(WORLD, API) && scene.reaches(WEB, DB));
    assert!(!scene.reaches(API, DB) && !scene.reaches(LATER, WORLD));
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

/// What is not closed is said, and closed as soon as VPP takes it.
#[test]
fn that_vpp_lets_nothing_be_closed_is_trouble_until_it_does() {
    let scene = Scene::new(DAMAGED);
    scene.refuse_lists(3);
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let status = agent.until_vpp(ACL, "trouble", |vpp| vpp.trouble.is_some());
    assert!(status.unknown.is_empty() && !status.ready, "{status:?}");
    let why = status.trouble.unwrap().why;
    assert!(why.contains("VPP refuses `acl_add_replace`"), "{why}");
    until_closed(&agent, &["tap1", "tap2", "tap3"]);
    assert!(!scene.reaches(WEB, API) && !scene.reaches(WORLD, API) && !scene.reaches(API, WORLD));
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

/// As an agent does that is in the network of its node: it would never know the cluster where it was closed itself.
#[test]
fn the_node_reaches_everybody_outside_until_the_cluster_is_known() {
    let options = Options::new(3).interface("tap1", "shop/web");
    let scene = Scene::with(DAMAGED, options.interface("tap0", "").interface("ge0", ""));
    let node = ("tap0", "10.9.0.1");
    // What connects the node with the rest is never closed, not even for a moment.
    scene.vpp.observe(move |state, change| {
        match would_reach(state, node, WORLD) && would_reach(state, WORLD, node) {
            true => Ok(()),
            false => Err(change.to_owned()),
        }
    });
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    until_closed(&agent, &["tap1"]);
    assert!(!scene.reaches(node, WEB) && !scene.reaches(WEB, node));
    scene.put(&only_to("one", "web", "api"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert!(scene.reaches(node, WEB) && !scene.reaches(WEB, WORLD));
    assert_eq!(scene.vpp.findings(), Vec::<String>::new());
}

#[test]
fn what_is_in_force_from_before_holds_until_the_cluster_is_known() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let mut first = Agent::start(scene.manifests(), &scene.arguments());
    first.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    first.kill();
    scene.put(DAMAGED);
    scene.vpp.clear_record();
    let second = Agent::start(scene.manifests(), &scene.arguments());
    second.until_vpp(ACL, "a connection", |vpp| vpp.connected);
    let up = scene.vpp.add_interface(LATER.0, "shop/later");
    assert!(scene.vpp.set_up(up, true));
    // What came since is closed, and what nothing may have restricted is left as it is.
    until_closed(&second, &["tap4"]);
    let record = scene.vpp.record();
    let sets = record
        .iter()
        .filter(|message| message.name == "acl_interface_set_acl_list");
    assert_eq!(sets.count(), 1);
    assert!(!scene.reaches(WORLD, DB) && scene.reaches(API, WORLD) && !scene.reaches(LATER, WORLD));
    // A VPP that is started again has forgotten what an agent knew.
    scene.vpp.restart();
    until_closed(&second, &["tap1", "tap2", "tap3"]);
    assert!(!scene.reaches(WORLD, DB) && !scene.reaches(API, WORLD));
    scene.put(&only_from("one", "db", "web"));
    second.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert!(scene.reaches(API, WORLD) && scene.reaches(WEB, DB) && !scene.reaches(WORLD, DB));
}

/// As an agent leaves it that has made its lists and ends before interfaces have them, or where those that had them have gone.
#[test]
fn lists_that_no_interface_has_leave_none_open_until_the_cluster_is_known() {
    let scene = Scene::new(&only_to("one", "web", "api"));
    let mut first = Agent::start(scene.manifests(), &scene.arguments());
    first.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    first.kill();
    let left = scene.vpp.change("interfaces lose their lists", |state| {
        for number in 0..state.interfaces().count() {
            state
                .set_acl_list(u32::try_from(number).unwrap(), &Lists::default())
                .unwrap();
        }
        state.acls().count()
    });
    assert!(left > 0);
    scene.put(DAMAGED);
    let second = Agent::start(scene.manifests(), &scene.arguments());
    until_closed(&second, &["tap1", "tap2", "tap3"]);
    assert!(!scene.reaches(API, WORLD) && !scene.reaches(WORLD, API) && !scene.reaches(WEB, WORLD));
}

/// An agent that was killed had taken an interface for one that leads out: its tag was set while none ran.
#[test]
fn what_had_the_lists_of_an_uplink_is_closed_until_the_cluster_is_known() {
    let scene = Scene::new(&only_to("one", "web", "api"));
    let index = scene.vpp.add_interface(LATER.0, "");
    assert!(scene.vpp.set_up(index, true));
    let mut first = Agent::start(scene.manifests(), &scene.arguments());
    first.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    first.kill();
    assert!(!scene.vpp.state().lists(index).input.is_empty());
    assert!(scene.vpp.set_tag(index, "shop/later"));
    scene.put(DAMAGED);
    let second = Agent::start(scene.manifests(), &scene.arguments());
    until_closed(&second, &[LATER.0]);
    assert!(!scene.reaches(LATER, WORLD) && !scene.reaches(WORLD, LATER));
}

#[test]
fn that_nobody_says_which_interfaces_are_those_of_pods_is_trouble_from_the_beginning() {
    let scene = Scene::new(DAMAGED);
    let file = scene.manifests().join("interfaces.later");
    let rule = format!("file={}", file.display());
    let arguments = [&scene.arguments()[..], &["--vpp-pod-interface", &rule]].concat();
    let agent = Agent::start(scene.manifests(), &arguments);
    let status = agent.until_vpp(ACL, "trouble", |vpp| vpp.connected && vpp.trouble.is_some());
    let why = status.trouble.unwrap().why;
    assert!(why.contains("interfaces.later"), "{why}");
}

#[test]
fn an_uplink_that_is_not_there_is_named_until_it_comes() {
    let scene = Scene::new(&only_to("one", "web", "api"));
    let arguments = [&scene.arguments()[..], &["--uplink", "ge*", "--uplink", "memif*"]].concat();
    let agent = Agent::start(scene.manifests(), &arguments);
    let status = agent.until_vpp(ACL, "trouble", |vpp| vpp.trouble.is_some());
    let why = status.trouble.unwrap().why;
    assert!(
        why.contains("no interface is called `memif*`") && !why.contains("ge*"),
        "{why}"
    );
    let index = scene.vpp.add_interface("memif0/0", "");
    assert!(scene.vpp.set_up(index, true));
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(status.uplinks, ["ge0", "memif0/0"]);
    assert!(scene.vpp.remove_interface(index));
    agent.until_vpp(ACL, "trouble again", |vpp| vpp.trouble.is_some());
}

#[test]
fn nothing_is_closed_where_everything_may_pass_until_then() {
    let scene = Scene::new(DAMAGED);
    scene
        .vpp
        .observe(|state, change| match would_reach(state, API, WORLD) {
            true => Ok(()),
            false => Err(change.to_owned()),
        });
    let open = ["--until-synced", "allow"];
    let agent = Agent::start(scene.manifests(), &[&scene.arguments()[..], &open].concat());
    agent.until_vpp(ACL, "a connection", |vpp| vpp.connected);
    scene.put(&only_from("one", "db", "web"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(scene.vpp.findings(), Vec::<String>::new());
}
