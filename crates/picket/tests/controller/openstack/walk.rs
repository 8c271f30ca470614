//! The example of docs/neutron.md, as it stands there.

use std::collections::BTreeMap;
use std::fs;

use picket_testing::neutron::Neutron;
use picket_testing::ran::Ran;
use serde_json::{Value, json};

use crate::openstack::picket;

const PAGE: &str = include_str!("../../../../../docs/neutron.md");

/// The page as it would be with what the commands of its example print now.
fn played(server: &Neutron, section: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let cluster = folder.path().join("cluster");
    fs::create_dir(&cluster).unwrap();
    let network = server.create_network(&["10.0.0.0/24"]);
    let mut page = String::new();
    for part in section.split_inclusive("```\n") {
        let Some((before, block)) = part.split_once("```text\n") else {
            page.push_str(part);
            if let Some((_, file)) = part.split_once("```yaml\n# ") {
                let (name, text) = file.split_once('\n').unwrap();
                let text = text.strip_suffix("```\n").unwrap();
                fs::write(folder.path().join(name), text).unwrap();
            }
            continue;
        };
        page.push_str(before);
        page.push_str("```text\n");
        for command in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
            page.push_str(&format!("$ {command}\n"));
            let words: Vec<_> = command.split(' ').collect();
            match words[..] {
                ["openstack", "port", "create", .., address, name] => {
                    let address = address.strip_prefix("ip-address=").unwrap();
                    let body = json!({"port": {
                        "network_id": network, "name": name, "fixed_ips": [{"ip_address": address}],
                    }});
                    server.ask("POST", "ports", &body);
                }
                ["picket", ref words @ ..] => {
                    let words = words.iter().map(|word| match *word {
                        "cluster" => cluster.to_str().unwrap().to_owned(),
                        word => word.replace("$NEUTRON", &server.endpoint()),
                    });
                    let words: Vec<_> = words
                        .chain(["--project".to_owned(), "fake_project_id".to_owned()])
                        .collect();
                    let words: Vec<_> = words.iter().map(String::as_str).collect();
                    let ran: Ran = picket(&words).output().unwrap().into();
                    assert!(ran.status < 2, "{command}: {}", ran.stderr);
                    let folder = format!("{}/", folder.path().display());
                    page.push_str(&named(server, &ran.stdout.replace(&folder, "")));
                }
                _ => unreachable!("`{command}` is not known here"),
            }
        }
        page.push_str("```\n");
    }
    page
}

/// A text in which ids are what they are the ids of, and what comes in the order of ids is in that of names.
fn named(server: &Neutron, text: &str) -> String {
    let mut names = BTreeMap::new();
    for kind in ["security-groups", "address-groups", "ports"] {
        for object in server.list(kind) {
            let text = |field: &str| object[field].as_str().unwrap().to_owned();
            names.insert(text("id"), text("name"));
            for rule in object["security_group_rules"].as_array().into_iter().flatten() {
                let id = rule["id"].as_str().unwrap().to_owned();
                names.insert(id, format!("rule of {}", text("name")));
            }
        }
    }
    let mut text = text.to_owned();
    for (id, name) in &names {
        text = text.replace(id, &format!("<{name}>"));
    }
    let sorted = |line: &str| match line.split_once(" to <") {
        Some((begin, groups)) => {
            let (groups, end) = match groups.split_once(" (") {
                Some((groups, end)) => (groups, format!(" ({end}")),
                None => (groups, String::new()),
            };
            let all = format!("<{groups}");
            let mut all: Vec<_> = all.split(", ").collect();
            all.sort_unstable();
            format!("{begin} to {}{end}\n", all.join(", "))
        }
        None => format!("{line}\n"),
    };
    let mut lines: Vec<_> = text.lines().map(sorted).collect();
    for deleted in
        lines.chunk_by_mut(|one, next| [one, next].iter().all(|line| line.starts_with("delete group <")))
    {
        deleted.sort_unstable();
    }
    lines.concat()
}

#[test]
fn the_example_of_the_guide_prints_what_it_says() {
    let server = Neutron::start();
    let (_, rest) = PAGE.split_once("\n## An example\n").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let played = played(&server, &format!("{section}\n"));
    assert_eq!(played.trim_end(), section.trim_end(), "\n{played}");
    // The document's rules, and none besides those of the other family.
    let groups = server.list("security-groups");
    let rules = |name: &str| {
        let group = groups.iter().find(|group| group["name"] == name).unwrap();
        group["security_group_rules"].as_array().unwrap().clone()
    };
    let ingress = rules("picket/policy/default/test-network-policy/ingress");
    let of_peers = ingress.iter().filter(|rule| rule["remote_group_id"].is_string());
    let of_addresses: Vec<_> = ingress
        .iter()
        .filter(|rule| rule["remote_address_group_id"].is_string())
        .collect();
    assert_eq!((of_peers.count(), of_addresses.len(), ingress.len()), (4, 1, 5));
    let block = server.list("address-groups");
    let mut prefixes: Vec<_> = block[0]["addresses"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect();
    prefixes.sort();
    let expected = [
        "172.17.0.0/24",
        "172.17.128.0/17",
        "172.17.16.0/20",
        "172.17.2.0/23",
        "172.17.32.0/19",
        "172.17.4.0/22",
        "172.17.64.0/18",
        "172.17.8.0/21",
    ];
    assert_eq!(prefixes, expected.map(|prefix| format!("\"{prefix}\"")));
    let egress = rules("picket/policy/default/test-network-policy/egress");
    assert_eq!(egress.len(), 1, "{egress:?}");
    assert_eq!(
        (&egress[0]["remote_ip_prefix"], &egress[0]["port_range_min"]),
        (&json!("10.0.0.0/24"), &json!(5978))
    );
}
