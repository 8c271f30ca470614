//! What the policies say is what VPP does, as both change.

use picket_vpp::fake::{Fault, Options, When};
use serde_json::Value;

use crate::agent::{Agent, run_on};
use crate::scene::{
    ACL, API, DB, Scene, WEB, WORLD, no_egress, only_from, only_sctp, only_to, reaches_through, service,
};

#[test]
fn policies_are_in_force_as_they_change() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(status.uplinks, ["ge0"]);
    assert_eq!(status.interfaces["shop/db"], ["tap2"]);
    assert_eq!((status.pods.all, status.pods.restricted), (3, 1));
    assert!(status.pending.is_empty() && status.foreign.is_empty());
    assert!(scene.reaches(WEB, DB) && scene.reaches(WORLD, API));
    assert!(!scene.reaches(API, DB) && !scene.reaches(WORLD, DB));
    scene.put(&only_from("two", "db", "api"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    assert!(scene.reaches(API, DB));
    assert!(!scene.reaches(WEB, DB) && !scene.reaches(WORLD, DB));
    scene.put(&no_egress("three", "web"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/three"]);
    assert!(scene.reaches(API, DB) && scene.reaches(WORLD, WEB));
    assert!(!scene.reaches(WEB, DB) && !scene.reaches(WEB, WORLD));
    // Nobody sends with the address of another.
    assert!(!scene.reaches((WEB.0, API.1), DB));
    scene.put("");
    let status = agent.until_in_force(ACL, &[]);
    assert!(scene.reaches(WEB, WORLD) && status.pods.restricted == 0);
    assert_eq!(scene.vpp.state().acls().count(), 0);
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

/// Every pod lets its node in, so that the address of the node would be a key to all of them.
#[test]
fn a_pod_that_nothing_restricts_reaches_no_other_with_the_address_of_its_node() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    // That of the node, that of its translation, and that of who may.
    for source in ["10.9.0.1", "10.0.0.254", WEB.1] {
        assert!(!scene.reaches((API.0, source), DB), "{source}");
    }
    // It keeps all that is its own.
    assert!(scene.reaches(API, WORLD) && scene.reaches(API, WEB) && scene.reaches(WORLD, API));
    assert!(scene.reaches(WEB, API) && scene.reaches(WEB, DB));
    // What another pod may receive changes nothing of its own.
    scene.put(&only_from("two", "db", "api"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    let lists = |interface: &str| {
        let state = scene.vpp.state();
        state.lists(state.interface(interface).unwrap())
    };
    assert!(scene.reaches(API, DB) && !scene.reaches((API.0, WEB.1), WORLD));
    assert_eq!((lists(API.0).input.len(), lists(API.0).output.len()), (1, 0));
    scene.put("");
    agent.until_in_force(ACL, &[]);
    assert!(lists(API.0).input.is_empty());
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

#[test]
fn nothing_is_taken_away_on_a_node_that_the_cluster_does_not_know() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    drop(agent);
    let once = [&scene.arguments()[..], &["--once"]].concat();
    let ran = run_on("elsewhere", scene.manifests(), &once);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let why = "the cluster knows no node `elsewhere`, and no pod on it";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert!(scene.reaches(WEB, DB) && !scene.reaches(API, DB));
}

#[test]
fn what_vpp_cannot_do_is_a_finding_as_long_as_a_policy_asks_for_it() {
    let policies = |names: &[(&str, &str, Option<u16>)]| {
        let each = names.iter().map(|(name, of, port)| only_sctp(name, of, *port));
        each.collect::<Vec<_>>().join("---\n")
    };
    let scene = Scene::new(&policies(&[("one", "db", Some(7)), ("two", "api", None)]));
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let found = |policy: &str| {
        format!(
            "vpp-acl: NetworkPolicy shop/{policy} (ingress) has rules about some ports of SCTP; VPP's ACL plugin reads no ports \
             of SCTP: where some are allowed and not all, none is"
        )
    };
    let until = |expected: &[&str]| {
        let status = agent.until("the findings", |status| {
            let objects = status.findings.iter().map(|finding| finding.object.as_str());
            objects.eq(expected.iter().copied())
        });
        assert!(
            status
                .findings
                .iter()
                .all(|finding| (&*finding.code, &*finding.severity) == ("T001", "warning"))
        );
        let gauge = format!("picket_findings {}\n", expected.len());
        assert!(agent.get("/metrics").1.contains(&gauge), "{gauge}");
        status
    };
    let status = until(&["NetworkPolicy shop/one"]);
    assert_eq!(status.findings[0].message, found("one"));
    assert!(agent.asked(&[]).stdout.contains(&found("one")));
    // It is no reason not to be well: what there is instead is narrower.
    agent.until_in_force(ACL, &["NetworkPolicy shop/one", "NetworkPolicy shop/two"]);
    scene.put(&policies(&[("one", "db", Some(7)), ("two", "api", Some(8))]));
    until(&["NetworkPolicy shop/one", "NetworkPolicy shop/two"]);
    scene.put(&policies(&[("two", "api", Some(8))]));
    until(&["NetworkPolicy shop/two"]);
    scene.put("");
    until(&[]);
    let log = agent.log();
    for policy in ["one", "two"] {
        assert_eq!(log.matches(&found(policy)).count(), 1, "{log}");
    }
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

/// VPP translates addresses of services after it has judged what a pod sends.
#[test]
fn services_are_reached_as_far_as_the_pods_behind_them() {
    let policy = only_to("one", "web", "db");
    let scene = Scene::new(&policy);
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    let through = |to| reaches_through(&scene.vpp, "10.96.0.7", WEB, to);
    assert!(scene.reaches(WEB, DB) && !scene.reaches(WEB, API));
    assert!(!through(DB), "nobody knows the service");
    let policy = only_to("two", "web", "db");
    scene.put(&format!("{policy}{}", service("db", "10.96.0.7")));
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    assert!(through(DB));
    // The address lets nobody reach what is not allowed.
    assert!(!through(API) && !scene.reaches(WEB, WORLD));
    assert!(!scene.reaches(WEB, (WORLD.0, "10.96.0.7")));
    scene.put(&only_to("three", "web", "db"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/three"]);
    assert!(!through(DB) && scene.reaches(WEB, DB));
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

#[test]
fn what_is_as_it_should_be_is_left_alone() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let mut first = Agent::start(scene.manifests(), &scene.arguments());
    first.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert!(scene.changes() > 0);
    first.kill();
    // The lists outlive the agent, and the next one finds them.
    assert!(!scene.reaches(API, DB));
    scene.vpp.clear_record();
    let second = Agent::start(scene.manifests(), &scene.arguments());
    second.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(scene.changes(), 0, "{:?}", scene.vpp.record());
}

/// VPP keeps 63 bytes of a tag. These two pods, and one that is not there, differ in none of them.
#[test]
fn the_tag_of_a_pod_whose_name_is_too_long_for_one_is_cut() {
    let name = "checkout-with-a-name-that-is-longer-than-anybody-would-like-it";
    let [one, two, unheard_of] = [
        "shop/checkout-with-a-name-that-is-longer-than-~25d442cdec55f482",
        "shop/checkout-with-a-name-that-is-longer-than-~e763a48186bac172",
        "shop/checkout-with-a-name-that-is-longer-than-~fa9fe84c33b07bb9",
    ];
    let pods = [("1", "10.0.0.11"), ("2", "10.0.0.12")].map(|(number, address)| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}-{number}, namespace: shop, labels: {{app: long-{number}}}}}\n\
             spec: {{nodeName: n1, containers: []}}\nstatus: {{podIPs: [{{ip: {address}}}]}}\n"
        )
    });
    let scene = Scene::new(&[only_from("one", "long-1", "web"), pods.concat()].concat());
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    let pending: Vec<_> = status.pending.iter().map(|pending| &*pending.why).collect();
    assert_eq!(
        pending,
        [one, two].map(|tag| format!("no interface has the tag `{tag}`"))
    );
    for (interface, tag) in [("tap11", one), ("tap12", two), ("tap13", unheard_of)] {
        let index = scene.vpp.add_interface(interface, tag);
        assert!(scene.vpp.set_up(index, true));
    }
    let status = agent.until_vpp(ACL, "the interfaces", |vpp| {
        vpp.pending.is_empty() && vpp.unknown == ["tap13"]
    });
    assert_eq!(status.uplinks, ["ge0"]);
    for (number, interface) in [("1", "tap11"), ("2", "tap12")] {
        assert_eq!(status.interfaces[&format!("shop/{name}-{number}")], [interface]);
    }
    let [first, second] = [("tap11", "10.0.0.11"), ("tap12", "10.0.0.12")];
    assert!(scene.reaches(WEB, first) && !scene.reaches(WORLD, first) && scene.reaches(WORLD, second));
    assert!(!scene.reaches(("tap13", "10.0.0.13"), WORLD));
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

#[test]
fn a_pod_whose_interface_comes_later_is_pending_until_then() {
    let options = Options::new(3).interface("ge0", "").interface("tap1", "shop/web");
    let scene = Scene::with(&only_from("one", "db", "web"), options);
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    let pending: Vec<_> = status
        .pending
        .iter()
        .map(|pending| (&*pending.pod, pending.restricted, &*pending.why))
        .collect();
    assert_eq!(
        pending,
        [
            ("shop/api", false, "no interface has the tag `shop/api`"),
            ("shop/db", true, "no interface has the tag `shop/db`")
        ]
    );
    assert!(
        agent
            .asked(&[])
            .stdout
            .contains("shop/db: PENDING: no interface has the tag `shop/db`")
    );
    // VPP tells of an interface when it goes up. It need not be up to get its lists.
    let down = scene.vpp.add_interface("tap2", "shop/db");
    let up = scene.vpp.add_interface("tap3", "shop/api");
    assert!(scene.vpp.set_up(up, true));
    agent.until_vpp(ACL, "all pods", |vpp| vpp.pending.is_empty() && vpp.is_well());
    let lists = scene.vpp.state().lists(down);
    assert!(!lists.input.is_empty() && !lists.output.is_empty());
    assert!(scene.vpp.set_up(down, true));
    assert!(scene.reaches(WEB, DB) && !scene.reaches(WORLD, DB) && !scene.reaches(API, DB));
    // What goes and comes again, under the same number and name, has its lists again.
    assert!(scene.vpp.remove_interface(down));
    let again = scene.vpp.add_interface("tap2", "shop/db");
    assert_eq!(down, again);
    assert!(scene.vpp.set_up(again, true));
    assert!(scene.vpp.wait_for(|_| true));
    agent.until("lists", |_| !scene.reaches(WORLD, DB));
}

#[test]
fn an_interface_that_goes_up_is_not_looked_for() {
    let options = Options::new(3).interface("ge0", "").interface("tap1", "shop/web");
    let scene = Scene::with(&only_from("one", "db", "web"), options);
    let never = ["--vpp-look-interval", "4000000000"];
    let agent = Agent::start(scene.manifests(), &[&scene.arguments()[..], &never].concat());
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(status.pending.len(), 2);
    let up = scene.vpp.add_interface("tap2", "shop/db");
    assert!(scene.vpp.set_up(up, true));
    agent.until_vpp(ACL, "the pod", |vpp| vpp.pending.len() == 1 && vpp.is_well());
    assert!(scene.reaches(WEB, DB) && !scene.reaches(WORLD, DB));
}

#[test]
fn the_agent_says_how_it_goes() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(agent.get("/readyz"), (200, "ok\n".to_owned()));
    assert_eq!(agent.get("/healthz"), (200, "ok\n".to_owned()));
    let (_, metrics) = agent.get("/metrics");
    for line in [
        "picket_target_ready{target=\"vpp-acl\"} 1",
        "picket_target_connected{target=\"vpp-acl\"} 1",
        "picket_target_pods_pending{target=\"vpp-acl\"} 0",
        "picket_event_to_target_seconds_count{target=\"vpp-acl\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let ran = agent.asked(&[]);
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    for line in [
        "vpp-acl: policies are in force: 1 of 3 pods restricted, by 1 policies\n",
        "  shop/db: tap2\n",
        "  rest of the world: ge0\n",
        "  NetworkPolicy shop/one\n",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    let status = agent.asked(&["-o", "json"]).json();
    assert_eq!(status["targets"], serde_json::json!(["vpp-acl"]));
    expect_schema(&status);
}

/// Holds a status against its schema.
pub(crate) fn expect_schema(status: &Value) {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/schema/status.schema.json"
    );
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(status)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{status:#}");
}

/// What comes back to a pod through a service has an address of the node's, of which the pod receives whatever policies say.
#[test]
fn the_address_of_translation_is_the_one_that_the_agent_is_told() {
    for (arguments, expected) in [
        (&[][..], [true, false]),
        (&["--nat-loopback", "10.0.0.77"], [false, true]),
        (&["--nat-loopback", "none"], [false, false]),
    ] {
        let scene = Scene::new(&only_from("one", "db", "web"));
        let agent = Agent::start(scene.manifests(), &[&scene.arguments()[..], arguments].concat());
        agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
        // The last address of the podCIDR, and another one.
        let received = ["10.0.0.254", "10.0.0.77"].map(|source| scene.reaches((WORLD.0, source), DB));
        assert_eq!(received, expected, "{arguments:?}");
        assert!(scene.reaches(WEB, DB) && !scene.reaches(WORLD, DB));
    }
}

/// Requests that stop the workers of VPP are counted as they are, and so is what VPP refuses.
#[test]
fn requests_and_refusals_are_counted() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let counted = |what: &str| -> usize {
        let (_, metrics) = agent.get("/metrics");
        let name = format!("picket_target_{what}_total{{target=\"{ACL}\"}} ");
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix(&name));
        count.map_or(0, |count| count.parse().unwrap())
    };
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert!(scene.changes() > 0);
    assert_eq!((counted("operations"), counted("failures")), (scene.changes(), 0));
    let refused = When::Named("acl_interface_set_acl_list".to_owned(), 0);
    scene.vpp.fail(refused, Fault::Refuse(-1));
    scene.put(&only_from("two", "db", "api"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    assert_eq!(counted("failures"), 1);
}
