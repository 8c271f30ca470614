//! VPP beside nftables, in a network namespace: what goes wrong with one does not concern the other.

use std::process::Command;

use picket_linux::NetworkNamespace;
use picket_testing::confined::{many_blocks, where_sockets_are_small};

use picket_vpp::fake::{Fault, When};

use crate::agent::{Agent, run};
use crate::scene::{ACL, API, DB, Scene, WEB, WORLD, only_from};
use crate::sockets::{self, SESSION, Sockets};

/// Two policies, of which the kernel refuses the second.
const NAMES: [&str; 2] = ["first", "second"];

/// Which of them there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policies {
    Both,
    First,
}

/// The pod that they are about, and where it is.
const RESTRICTED: (&str, &str) = ("tap4", "10.0.0.4");

/// A pod that may receive nothing from anybody here by either policy, and send nothing by the second one.
fn policies(which: Policies) -> String {
    let policy = |name: &str, ways: &str, from: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, namespace: refused}}\n\
             spec: {{podSelector: {{}}, policyTypes: [{ways}]{from}}}\n---\n"
        )
    };
    let (all, except) = many_blocks();
    let except = except.join(", ");
    let from = format!(", ingress: [{{from: [{{ipBlock: {{cidr: {all}, except: [{except}]}}}}]}}]");
    let [first, second] = NAMES;
    let second = (which == Policies::Both).then(|| policy(second, "Ingress, Egress", &from));
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: refused}\nspec: {nodeName: n1, containers: []}\n\
               status: {podIPs: [{ip: 10.0.0.4}]}\n---\n";
    [pod, &policy(first, "Ingress", ""), &second.unwrap_or_default()].concat()
}

fn has_table(namespace: &NetworkNamespace) -> bool {
    let listed = namespace.run(|| Command::new("nft").args(["list", "tables"]).output().unwrap());
    String::from_utf8(listed.unwrap().stdout)
        .unwrap()
        .contains("inet picket")
}

#[test]
fn no_target_waits_for_another() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    scene.vpp.down();
    let node = NetworkNamespace::create().unwrap();
    let both = [&["--target", "nftables"], &scene.arguments()[..]].concat();
    let agent = Agent::start_in(&node, scene.manifests(), &both);
    let status = agent.until("nftables", |status| {
        status.host.policies == ["NetworkPolicy shop/one"] && status.vpp[ACL].trouble.is_some()
    });
    assert_eq!(status.targets, ["nftables", ACL]);
    assert!(has_table(&node) && !status.ready && status.host.trouble.is_none());
    let text = agent.asked(&[]).stdout;
    assert!(
        text.contains("policies of the cluster network are in force"),
        "{text}"
    );
    scene.put(&only_from("two", "db", "api"));
    agent.until("the next policy", |status| {
        status.host.policies == ["NetworkPolicy shop/two"]
    });
    scene.vpp.up().unwrap();
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    agent.until("both", |status| status.ready);
    assert!(scene.reaches(API, DB) && !scene.reaches(WEB, DB));
}

/// Pods with an interface and with sockets of VPP's own, beside those of the kernel.
#[test]
fn all_targets_have_the_same_policies_and_wait_for_none() {
    let interfaces = [
        ("tap1", "shop/web"),
        ("tap2", "shop/db"),
        ("tap3", "shop/api"),
        ("ge0", ""),
    ];
    let options = interfaces
        .iter()
        .fold(sockets::options(), |options, (name, tag)| {
            options.interface(name, tag)
        });
    let sockets = Sockets::with(&only_from("one", "db", "web"), options);
    let own = sockets.arguments();
    let more = ["--target", "nftables", "--target", ACL, "--log-denied", "off"];
    let arguments: Vec<_> = more.into_iter().chain(own.iter().map(String::as_str)).collect();
    let node = NetworkNamespace::create().unwrap();
    let agent = Agent::start_in(&node, sockets.scene.manifests(), &arguments);
    let in_force = |name: &str, is_well: [bool; 3]| {
        let status = agent.until("the policy", |status| {
            let of = |target: &str| {
                status
                    .vpp
                    .get(target)
                    .map(|vpp| (vpp.is_well(), vpp.policies.clone()))
            };
            let host = (status.host.trouble.is_none(), status.host.policies.clone());
            let found = [Some(host), of(ACL), of(SESSION)];
            found.into_iter().zip(is_well).all(|(found, expected)| {
                found.is_some_and(|(is_well, policies)| {
                    is_well == expected && (!is_well || policies == [format!("NetworkPolicy shop/{name}")])
                })
            })
        });
        assert_eq!(status.targets, ["nftables", ACL, SESSION]);
        status
    };
    assert!(in_force("one", [true; 3]).ready && has_table(&node));
    let scene = &sockets.scene;
    assert!(scene.reaches(WEB, DB) && sockets.opens(sockets::WEB, sockets::DB));
    assert!(!scene.reaches(API, DB) && !sockets.opens(sockets::API, sockets::DB));
    // Session rules are refused; the lists in the same VPP are not, nor is the table.
    for _ in 0..40 {
        let rules = When::Named("session_rule_add_del".to_owned(), 0);
        scene.vpp.fail(rules, Fault::Refuse(-1));
    }
    scene.put(&only_from("two", "db", "api"));
    in_force("two", [true, true, false]);
    assert!(scene.reaches(API, DB) && !scene.reaches(WEB, DB));
    assert!(in_force("two", [true; 3]).ready);
    assert!(sockets.opens(sockets::API, sockets::DB) && !sockets.opens(sockets::WEB, sockets::DB));
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
    drop(agent);
    // Another one finds all of it as it should be, and does the next once.
    for (policy, is_other) in [("two", false), ("one", true)] {
        let peer = if is_other { "web" } else { "api" };
        scene.put(&only_from(policy, "db", peer));
        scene.vpp.clear_record();
        let once = [&arguments[..], &["--once"]].concat();
        let ran = node.run(|| run(scene.manifests(), &once)).unwrap();
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let changes = [scene.changes(), sockets.changes()];
        assert_eq!(changes.map(|count| count > 0), [is_other; 2], "{changes:?}");
    }
    assert!(scene.reaches(WEB, DB) && sockets.opens(sockets::WEB, sockets::DB) && has_table(&node));
}

#[test]
fn without_nftables_there_is_no_table() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let node = NetworkNamespace::create().unwrap();
    let agent = Agent::start_in(&node, scene.manifests(), &scene.arguments());
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert!(!has_table(&node) && !scene.reaches(WORLD, DB));
}

#[test]
fn vpp_goes_on_where_the_table_is_refused() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let node = NetworkNamespace::create().unwrap();
    // Another agent holds the table.
    let holder = Agent::start_in(&node, scene.manifests(), &[]);
    holder.until("the table", |status| status.ready);
    let more = [
        "--target",
        "nftables",
        "--until-synced",
        "allow",
        "--log-denied",
        "off",
    ];
    let agent = Agent::start_in(
        &node,
        scene.manifests(),
        &[&more, &scene.arguments()[..]].concat(),
    );
    let status = agent.until("trouble with nftables", |status| {
        status.host.trouble.is_some() && status.vpp[ACL].is_well()
    });
    assert_eq!(status.vpp[ACL].policies, ["NetworkPolicy shop/one"]);
    scene.put(&only_from("two", "db", "api"));
    agent.until_in_force(ACL, &["NetworkPolicy shop/two"]);
    assert!(scene.reaches(API, DB) && !scene.reaches(WEB, DB));
}

#[test]
fn what_the_kernel_refuses_vpp_enforces() {
    let test = concat!(module_path!(), "::what_the_kernel_refuses_vpp_enforces");
    where_sockets_are_small(test, || {
        let scene = Scene::new(&policies(Policies::Both));
        let up = scene.vpp.add_interface(RESTRICTED.0, "refused/a");
        assert!(scene.vpp.set_up(up, true));
        let node = NetworkNamespace::create().unwrap();
        let more = ["--target", "nftables", "--log-denied", "off"];
        let agent = Agent::start_in(
            &node,
            scene.manifests(),
            &[&more, &scene.arguments()[..]].concat(),
        );
        let [first, second] = NAMES.map(|name| format!("NetworkPolicy refused/{name}"));
        let is_one_held = |status: &picket_node::Status| {
            let trouble = status.host.trouble.as_ref();
            status.ready && trouble.is_some_and(|trouble| trouble.waiting.len() == 1)
        };
        let status = agent.until("one is held back", is_one_held);
        assert_eq!(status.host.policies.len(), 1);
        agent.until_in_force(ACL, &[&first, &second]);
        let can = || [scene.reaches(WORLD, RESTRICTED), scene.reaches(RESTRICTED, WORLD)];
        assert_eq!(can(), [false, false]);
        // What changes meanwhile both hear.
        scene.put(&[policies(Policies::Both), only_from("one", "db", "web")].concat());
        agent.until_in_force(ACL, &[&first, &second, "NetworkPolicy shop/one"]);
        assert!(scene.reaches(WEB, DB) && !scene.reaches(API, DB));
        let status = agent.until("the kernel has it too", |status| status.host.policies.len() == 2);
        assert!(is_one_held(&status));
        assert_eq!(can(), [false, false]);
        // Without one of them the kernel takes the other, and VPP has what it had.
        scene.put(&[policies(Policies::First), only_from("two", "db", "api")].concat());
        agent.until("nothing is held back", |status| status.host.trouble.is_none());
        agent.until_in_force(ACL, &[&first, "NetworkPolicy shop/two"]);
        assert_eq!(can(), [false, true]);
        assert!(scene.reaches(API, DB) && !scene.reaches(WEB, DB));
        scene.put(&[policies(Policies::Both), only_from("two", "db", "web")].concat());
        agent.until("one is held back again", is_one_held);
        agent.until_in_force(ACL, &[&first, &second, "NetworkPolicy shop/two"]);
        assert_eq!(can(), [false, false]);
        assert!(scene.reaches(WEB, DB) && !scene.reaches(API, DB));
        assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
    });
}
