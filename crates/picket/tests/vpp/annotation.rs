//! Interfaces that the annotations of pods name, which anybody may write who may write pods.

use picket_node::{Status, VppStatus};

use crate::agent::Agent;
use crate::scene::{ACL, API, DB, Scene, WEB, WORLD, no_egress, only_from};

const BY_ANNOTATION: [&str; 2] = ["--vpp-pod-interface", "annotation=tap*"];

fn start(scene: &Scene, more: &[&str]) -> Agent {
    let arguments = [&scene.arguments()[..], &BY_ANNOTATION, more].concat();
    Agent::start(scene.manifests(), &arguments)
}

fn pending(status: &VppStatus) -> Vec<(&str, &str)> {
    let pending = status.pending.iter();
    pending.map(|pending| (&*pending.pod, &*pending.why)).collect()
}

fn findings(status: &Status) -> Vec<(&str, &str, &str)> {
    let findings = status.findings.iter();
    findings
        .map(|finding| (&*finding.object, &*finding.code, &*finding.message))
        .collect()
}

#[test]
fn an_interface_is_that_of_the_pod_that_names_it() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    scene.annotate(&[("web", "tap1"), ("db", "tap2")]);
    let agent = start(&scene, &[]);
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(status.interfaces["shop/web"], ["tap1"]);
    assert_eq!(status.interfaces["shop/db"], ["tap2"]);
    assert_eq!(status.uplinks, ["ge0"]);
    let missing = "it has no annotation `picket.dev/vpp-interface`";
    assert_eq!(pending(&status), [("shop/api", missing)]);
    assert!(scene.reaches(WEB, DB) && !scene.reaches(API, DB) && !scene.reaches(WORLD, DB));
    // The policies are the same, and another interface is behind the same pod.
    scene.annotate(&[("web", "tap1"), ("db", "tap3"), ("api", "tap9")]);
    let status = agent.until_vpp(ACL, "another interface", |vpp| {
        vpp.is_well() && vpp.interfaces.get("shop/db").is_some_and(|own| own == &["tap3"])
    });
    let missing = "there is no interface `tap9`, which its annotation `picket.dev/vpp-interface` names";
    assert_eq!(pending(&status), [("shop/api", missing)]);
    let moved = ("tap3", DB.1);
    assert!(scene.reaches(WEB, moved) && !scene.reaches(WORLD, moved));
    let index = scene.vpp.add_interface("tap9", "");
    scene.vpp.set_up(index, true);
    let status = agent.until_vpp(ACL, "the interface", |vpp| vpp.pending.is_empty());
    assert_eq!(status.interfaces["shop/api"], ["tap9"]);
    assert!(agent.until("no findings", |_| true).findings.is_empty());
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

#[test]
fn an_interface_that_two_pods_name_is_neither_ones() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    scene.annotate(&[("web", "tap1"), ("db", "tap2")]);
    let agent = start(&scene, &[]);
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert!(scene.reaches(WEB, DB) && scene.reaches(WEB, WORLD));
    scene.annotate(&[("web", "tap1"), ("db", "tap2"), ("api", "tap2")]);
    // What somebody writes on a pod is no reason for the agent not to be well.
    let status = agent.until_vpp(ACL, "two claims", |vpp| vpp.is_well() && vpp.pending.len() == 2);
    let of = |other: &str| format!("interface `tap2` is claimed by {other} too: nothing passes there");
    let [of_api, of_db] = [of("shop/api"), of("shop/db")];
    assert_eq!(pending(&status), [("shop/api", &*of_db), ("shop/db", &*of_api)]);
    assert!(!status.interfaces.contains_key("shop/db"));
    // Whoever is behind it gets nothing and sends nothing, with whichever address.
    for address in [DB.1, API.1] {
        assert!(!scene.reaches(WEB, ("tap2", address)) && !scene.reaches(("tap2", address), WORLD));
    }
    assert!(scene.reaches(WEB, WORLD));
    let forbidden = |why: &str| format!("Forbidden: {why}");
    let [of_api, of_db] = [forbidden(&of_api), forbidden(&of_db)];
    let status = agent.until("the findings", |status| status.findings.len() == 2);
    assert_eq!(
        findings(&status),
        [
            ("Pod shop/api", "C020", &*of_db),
            ("Pod shop/db", "C020", &*of_api)
        ]
    );
    assert!(agent.get("/metrics").1.contains("picket_findings 2\n"));
    assert!(agent.asked(&[]).stdout.contains(&of_api));
    scene.annotate(&[("web", "tap1"), ("db", "tap2"), ("api", "tap3")]);
    agent.until("no findings", |status| status.findings.is_empty());
    agent.until_vpp(ACL, "all pods", |vpp| vpp.is_well() && vpp.pending.is_empty());
    assert!(scene.reaches(WEB, DB) && !scene.reaches(API, DB));
    let log = agent.log();
    assert_eq!(log.matches(&of_api).count(), 1, "{log}");
    assert_eq!(log.matches("nothing keeps VPP from doing").count(), 2, "{log}");
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}

#[test]
fn nobody_has_what_leads_out_of_the_node() {
    // The policy would leave the world to whoever is believed to be behind it.
    let scene = Scene::new(&no_egress("one", "web"));
    scene.annotate(&[("web", "tap1"), ("db", "ge0"), ("api", "tap3")]);
    let agent = start(&scene, &["--uplink", "ge*", "--uplink", "tap3"]);
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(
        pending(&status),
        [
            ("shop/api", "interface `tap3` leads out of the node"),
            ("shop/db", "no pod may have interface `ge0`, only such as `tap*`"),
        ]
    );
    assert_eq!(status.uplinks, ["ge0", "tap3"]);
    let status = agent.until("the findings", |status| status.findings.len() == 2);
    assert!(findings(&status).iter().all(|(_, code, _)| *code == "C020"));
    assert!(!scene.reaches(WEB, WORLD) && !scene.reaches(WEB, ("tap3", "192.0.2.1")));
    assert!(scene.reaches(("tap3", "192.0.2.1"), WORLD));
}

#[test]
fn what_no_interface_is_called_is_left_out() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let long = "tap".repeat(40);
    scene.annotate(&[("web", "tap1"), ("db", "\"tap 2\\e[2J\""), ("api", &long)]);
    let agent = start(&scene, &[]);
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    let missing = "it has no annotation `picket.dev/vpp-interface`";
    assert_eq!(pending(&status), [("shop/api", missing), ("shop/db", missing)]);
    let status = agent.until("the findings", |status| status.findings.len() == 2);
    assert!(findings(&status).iter().all(|(_, code, _)| *code == "C019"));
}
