//! What there is, held against the policies, and shown with its ids.

use std::collections::BTreeSet;

use picket_testing::neutron::Neutron;
use picket_testing::ran::Ran;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::openstack::once::{groups_of, manifests, ports};
use crate::openstack::{controller, expect_schema, picket};

const PROJECT: &str = "fake_project_id";

/// `picket` about a folder and a Neutron that is there.
fn asked(command: &str, folder: &TempDir, endpoint: &str, more: &[&str]) -> Ran {
    let folder = folder.path().to_str().unwrap();
    let cloud = ["--live", "--endpoint", endpoint, "--project", PROJECT];
    let mut command = picket(&[command, "-f", folder, "--target", "neutron"]);
    command.args(cloud).args(more).output().unwrap().into()
}

/// The proof, as JSON; it is what its schema says.
pub(crate) fn proof(folder: &TempDir, server: &Neutron) -> Value {
    let ran = asked("verify", folder, &server.endpoint(), &["-o", "json"]);
    let answer = ran.json();
    assert_eq!(ran.status == 0, answer["proved"] == json!(true), "{}", ran.stderr);
    assert!(ran.status < 2, "{}", ran.stderr);
    expect_schema("verify-vpp", &answer);
    answer
}

fn enforce(folder: &TempDir, endpoint: &str) {
    let done = controller(
        folder.path(),
        &["--endpoint", endpoint, "--project", PROJECT, "--once"],
    );
    assert_eq!(done.status, 0, "{}", done.stderr);
}

/// A Neutron in which the policies are in force, and the ports of both pods.
fn enforced() -> (Neutron, TempDir, [String; 2]) {
    let (server, folder) = (Neutron::start(), manifests());
    let ports = ports(&server);
    enforce(&folder, &server.endpoint());
    (server, folder, ports)
}

/// The ports that are not as they must be, each with its pod, its direction and how.
fn wrong(answer: &Value) -> Vec<[String; 4]> {
    let all = answer["ports"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|one| ["port", "pod", "direction", "fault"].map(|field| one[field].as_str().unwrap().to_owned()))
        .collect()
}

/// What is said besides.
fn notes(answer: &Value) -> String {
    let all = answer["notes"].as_array().cloned().unwrap_or_default();
    all.iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join("\n")
}

fn group(server: &Neutron, name: &str) -> Value {
    let groups = server.list("security-groups");
    groups.into_iter().find(|group| group["name"] == name).unwrap()
}

fn add_rule(server: &Neutron, group: &Value, mut fields: Value) -> String {
    fields["security_group_id"] = group["id"].clone();
    let made = server.ask(
        "POST",
        "security-group-rules",
        &json!({"security_group_rule": fields}),
    );
    made["security_group_rule"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn what_there_is_is_proved_once_the_controller_has_made_it() {
    let (server, folder) = (Neutron::start(), manifests());
    let [web, db] = ports(&server);
    // The default group lets everything out, and in what has it: too little for one, too much for the other.
    let before = proof(&folder, &server);
    let expected = [[
        web,
        "shop/web".to_owned(),
        "ingress".to_owned(),
        "dropped".to_owned(),
    ]];
    assert_eq!(wrong(&before)[1..], expected, "{before:#}");
    assert_eq!(wrong(&before)[0][0], db);
    enforce(&folder, &server.endpoint());
    let after = proof(&folder, &server);
    assert_eq!(
        (&after["proved"], wrong(&after).len()),
        (&json!(true), 0),
        "{after:#}"
    );
    assert_eq!(notes(&after), "");
}

#[test]
fn what_others_let_pass_is_shown_with_its_port_and_its_group() {
    let (server, folder, [_, db]) = enforced();
    let ours = group(&server, "picket/policy/shop/db/ingress");
    let id = ours["id"].as_str().unwrap();
    let more = json!({"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 80, "port_range_max": 81,
        "remote_ip_prefix": "192.0.2.0/24"});
    let rule = add_rule(&server, &ours, more);
    let answer = proof(&folder, &server);
    assert_eq!(
        wrong(&answer),
        [[db.as_str(), "shop/db", "ingress", "passes"].map(str::to_owned)]
    );
    let example = &answer["counterexamples"][0];
    assert_eq!(
        example["place"],
        json!(format!("ingress of port {db} of shop/db"))
    );
    assert_eq!(
        (&example["source"], &example["port"], &example["fault"]),
        (&json!("192.0.2.0"), &json!(80), &json!("passes"))
    );
    assert_eq!(
        example["groups"],
        json!([format!("picket/policy/shop/db/ingress ({id})")])
    );
    let text = asked("verify", &folder, &server.endpoint(), &[]);
    assert_eq!(text.status, 1);
    for line in [
        "refuted: the security groups do not mean what the policies say",
        &format!("port {db} of shop/db: ingress lets more pass than the policies"),
        &format!("  allowed by picket/policy/shop/db/ingress ({id})"),
    ] {
        assert!(text.stdout.contains(line), "{line}: {}", text.stdout);
    }
    server.ask("DELETE", &format!("security-group-rules/{rule}"), &Value::Null);
    assert_eq!(proof(&folder, &server)["proved"], json!(true));
}

#[test]
fn what_others_took_away_is_shown() {
    let (server, folder, [web, db]) = enforced();
    let ours = group(&server, "picket/policy/shop/db/ingress");
    let rules = ours["security_group_rules"].as_array().unwrap();
    let rule = rules.iter().find(|rule| rule["ethertype"] == "IPv4").unwrap();
    let path = format!("security-group-rules/{}", rule["id"].as_str().unwrap());
    server.ask("DELETE", &path, &Value::Null);
    let answer = proof(&folder, &server);
    assert_eq!(
        wrong(&answer),
        [[db.as_str(), "shop/db", "ingress", "dropped"].map(str::to_owned)]
    );
    enforce(&folder, &server.endpoint());
    // The peer's own group is what the rule is about.
    let body = json!({"port": {"security_groups": []}});
    server.ask("PUT", &format!("ports/{web}"), &body);
    let answer = proof(&folder, &server);
    let pods: Vec<_> = wrong(&answer).into_iter().map(|one| one[1..].join(" ")).collect();
    assert_eq!(
        pods,
        [
            "shop/db ingress dropped",
            "shop/web ingress dropped",
            "shop/web egress dropped"
        ]
    );
}

#[test]
fn a_port_at_which_no_group_counts_is_open() {
    let (server, folder, [_, db]) = enforced();
    let off = json!({"port": {"security_groups": [], "port_security_enabled": false}});
    server.ask("PUT", &format!("ports/{db}"), &off);
    let answer = proof(&folder, &server);
    assert_eq!(
        wrong(&answer),
        [[db.as_str(), "shop/db", "ingress", "passes"].map(str::to_owned)]
    );
    assert!(
        notes(&answer).contains("has port security off"),
        "{}",
        notes(&answer)
    );
    let more = ["--enforced-vnic-types", "direct", "-o", "json"];
    let others = asked("verify", &folder, &server.endpoint(), &more).json();
    // Of the other port groups are not known to be enforced either; nothing isolates its pod.
    assert_eq!(wrong(&others), wrong(&answer));
    assert!(
        notes(&others).contains("attached as `normal`"),
        "{}",
        notes(&others)
    );
}

#[test]
fn what_cannot_be_read_counts_for_everything_it_may_let_pass() {
    let (server, folder, [web, db]) = enforced();
    let ours = group(&server, "picket/policy/shop/db/ingress");
    let echo = json!({"direction": "ingress", "ethertype": "IPv4", "protocol": "icmp", "port_range_min": 8, "port_range_max": 0});
    let rule = add_rule(&server, &ours, echo);
    let answer = proof(&folder, &server);
    assert_eq!(
        wrong(&answer),
        [[db.as_str(), "shop/db", "ingress", "passes"].map(str::to_owned)]
    );
    assert!(notes(&answer).contains(&rule), "{}", notes(&answer));
    server.ask("DELETE", &format!("security-group-rules/{rule}"), &Value::Null);
    // A port that may send from other addresses is whoever has them, for a rule about its group.
    let pairs = json!({"port": {"allowed_address_pairs": [{"ip_address": "10.0.0.99"}]}});
    server.ask("PUT", &format!("ports/{web}"), &pairs);
    let answer = proof(&folder, &server);
    assert_eq!(answer["counterexamples"][0]["source"], json!("10.0.0.99"));
    assert!(
        notes(&answer).contains("may send from other addresses"),
        "{}",
        notes(&answer)
    );
}

#[test]
fn every_port_of_a_pod_is_judged_and_all_their_addresses_are_the_pods() {
    let (server, folder, [web, db]) = enforced();
    let network = server.create_network(&["10.9.0.0/24"]);
    let second = server.create_port(&network, "second");
    let tags = json!({"tags": ["picket.dev/pod=shop/web"]});
    server.ask("PUT", &format!("ports/{second}/tags"), &tags);
    let answer = proof(&folder, &server);
    // It has no group yet, so that it is none of those that the other pod lets in either.
    let found: BTreeSet<_> = wrong(&answer).into_iter().collect();
    let expected = [
        [db.as_str(), "shop/db", "ingress", "dropped"],
        [&second, "shop/web", "ingress", "dropped"],
        [&second, "shop/web", "egress", "dropped"],
    ];
    assert_eq!(found, expected.map(|one| one.map(str::to_owned)).into());
    enforce(&folder, &server.endpoint());
    assert_eq!(groups_of(&server, &second), groups_of(&server, &web));
    assert_eq!(proof(&folder, &server)["proved"], json!(true));
}

#[test]
fn a_pod_without_a_port_is_named_and_without_any_nothing_is_proved() {
    let (server, folder) = (Neutron::start(), manifests());
    let none = asked("verify", &folder, &server.endpoint(), &[]);
    assert_eq!(none.status, 2);
    assert!(none.stderr.contains("no port of any pod"), "{}", none.stderr);
    let [web, _] = ports(&server);
    enforce(&folder, &server.endpoint());
    server.ask("DELETE", &format!("ports/{web}"), &Value::Null);
    // Nobody has to let in who is not there.
    let answer = proof(&folder, &server);
    assert_eq!(answer["proved"], json!(true), "{answer:#}");
    let said = notes(&answer);
    assert!(said.contains("nothing is proved of Pod shop/web"), "{said}");
}

#[test]
fn the_view_of_a_policy_has_the_ids_of_neutron() {
    let (server, folder) = (Neutron::start(), manifests());
    let endpoint = server.endpoint();
    let view = |more: &[&str]| {
        let ran = asked(
            "render",
            &folder,
            &endpoint,
            &[&["-o", "kuryrnetpolicy"], more].concat(),
        );
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout
    };
    // Nothing is there yet.
    let before = view(&[]);
    assert!(before.contains("  securityGroupId: null\n"), "{before}");
    assert!(before.contains("        id: null\n"), "{before}");
    ports(&server);
    enforce(&folder, &endpoint);
    let after = view(&[]);
    let ours = group(&server, "picket/policy/shop/db/ingress");
    let id = ours["id"].as_str().unwrap();
    assert!(
        after.contains(&format!("  securityGroupId: \"{id}\"\n")),
        "{after}"
    );
    assert!(
        after.contains("  securityGroupName: \"picket/policy/shop/db/ingress\"\n"),
        "{after}"
    );
    for rule in ours["security_group_rules"].as_array().unwrap() {
        for field in ["id", "remote_group_id", "security_group_id"] {
            let line = format!("        {field}: {}\n", rule[field]);
            assert!(after.contains(&line), "{line}: {after}");
        }
    }
    assert!(
        after.contains("  egressSgRules: []\n") && !after.contains("null"),
        "{after}"
    );
    for server_made in ["creationTimestamp", "resourceVersion", "generation:"] {
        assert!(!after.contains(server_made), "{after}");
    }
}

#[test]
fn only_what_depends_on_what_there_is_asks_for_it() {
    let folder = manifests();
    let nowhere = "http://127.0.0.1:1";
    for (command, more, said) in [
        (
            "render",
            &["-o", "json"][..],
            "`--live` is for `--target neutron -o kuryrnetpolicy`",
        ),
        ("render", &["-o", "kuryrnetpolicy"], "no connection"),
        ("verify", &[], "no connection"),
    ] {
        let ran = asked(command, &folder, nowhere, more);
        assert_eq!(ran.status, 2, "{}", ran.stdout);
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    let path = folder.path().to_str().unwrap();
    for command in ["render", "verify"] {
        let offline = [command, "-f", path, "--target", "neutron", "--endpoint", nowhere];
        let ran: Ran = picket(&offline).output().unwrap().into();
        assert_eq!(ran.status, 2);
        assert!(ran.stderr.contains("--live"), "{}", ran.stderr);
    }
}
