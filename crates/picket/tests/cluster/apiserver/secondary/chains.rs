//! Beside the chains that multi-networkpolicy-iptables has in pods: a packet has to pass both.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;

use super::{holds, labelled, named, simple};
use crate::pods::{Node, Pod};

/// Its chains in a pod that two addresses alone may reach, in its words.
fn chains([one, other]: [&str; 2], icmp: &str) -> String {
    format!(
        "*filter\n\
         :MULTI-INGRESS - [0:0]\n\
         :MULTI-INGRESS-COMMON - [0:0]\n\
         :MULTI-0-INGRESS - [0:0]\n\
         :MULTI-0-INGRESS-0-PORTS - [0:0]\n\
         :MULTI-0-INGRESS-0-FROM - [0:0]\n\
         -A INPUT -i net1 -j MULTI-INGRESS\n\
         -A MULTI-INGRESS -j MULTI-INGRESS-COMMON\n\
         -A MULTI-INGRESS -m comment --comment \"policy:of-before net-attach-def:default/net\" -i net1 -j MULTI-0-INGRESS\n\
         -A MULTI-INGRESS -m mark --mark 0x30000/0x30000 -j RETURN\n\
         -A MULTI-INGRESS -j DROP\n\
         -A MULTI-INGRESS-COMMON -p {icmp} -j ACCEPT\n\
         -A MULTI-INGRESS-COMMON -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
         -A MULTI-0-INGRESS -j MARK --set-xmark 0x0/0x30000\n\
         -A MULTI-0-INGRESS -j MULTI-0-INGRESS-0-PORTS\n\
         -A MULTI-0-INGRESS -j MULTI-0-INGRESS-0-FROM\n\
         -A MULTI-0-INGRESS -m mark --mark 0x30000/0x30000 -j RETURN\n\
         -A MULTI-0-INGRESS-0-PORTS -m comment --comment \"no ingress ports, skipped\" -j MARK --set-xmark 0x10000/0x10000\n\
         -A MULTI-0-INGRESS-0-FROM -i net1 -s {one} -j MARK --set-xmark 0x20000/0x20000\n\
         -A MULTI-0-INGRESS-0-FROM -i net1 -s {other} -j MARK --set-xmark 0x20000/0x20000\n\
         COMMIT\n"
    )
}

/// Runs a program in a pod with this as its input; what it prints.
fn run(pod: &Pod, program: &str, input: &str) -> String {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pod.inside.run(|| command.spawn().unwrap()).unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}");
    String::from_utf8(output.stdout).unwrap()
}

/// The table of picket, without what has been counted.
fn table(pod: &Pod) -> String {
    let listed = crate::pods::table(pod);
    let lines = listed
        .lines()
        .filter(|line| !line.trim_start().starts_with("packets "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The rules of the program before, without what has been counted.
fn saved(pod: &Pod) -> String {
    let saved = ["iptables-save", "ip6tables-save"].map(|program| run(pod, program, ""));
    let saved = saved.concat();
    let rules = saved.lines().filter(|line| line.starts_with("-A"));
    rules.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_packet_has_to_pass_the_chains_of_the_iptables_program_and_these_rules_until_either_goes() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    let server = &pods["server"];
    let v4 = chains(["2.2.5.12", "2.2.5.13"], "icmp");
    let v6 = chains(["2001:db8::12", "2001:db8::13"], "ipv6-icmp");
    run(server, "iptables-restore", &v4);
    run(server, "ip6tables-restore", &v6);
    let foreign = saved(server);
    assert_eq!(foreign.lines().count(), 2 * 14, "{foreign}");
    holds(
        &pods,
        "a->server b->server server->d",
        "c->server d->server",
        "before",
    );
    let spec = json!({
        "podSelector": labelled("name", "server"),
        "policyTypes": ["Ingress"],
        "ingress": [{"from": named(&["a", "c"])}],
    });
    node.policy("default", "next", "default/net", &spec);
    node.start(&[]);
    node.until_enforced();
    let own = table(server);
    assert!(!own.is_empty());
    holds(
        &pods,
        "a->server server->d",
        "b->server c->server d->server",
        "with both",
    );
    assert_eq!(saved(server), foreign);
    // It takes its chains with it when it ends in order.
    for program in ["iptables-restore", "ip6tables-restore"] {
        run(server, program, "*filter\nCOMMIT\n");
    }
    assert_eq!((saved(server), table(server)), (String::new(), own));
    holds(
        &pods,
        "a->server c->server",
        "b->server d->server",
        "without the chains",
    );
    // The way back: the chains come first, and then the rules go.
    run(server, "iptables-restore", &v4);
    run(server, "ip6tables-restore", &v6);
    node.kill();
    node.run(&["--cleanup"]);
    assert_eq!((saved(server), table(server)), (foreign, String::new()));
    holds(&pods, "a->server b->server", "c->server d->server", "in the end");
}
