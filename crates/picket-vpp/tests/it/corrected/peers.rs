//! Who a rule is about.

use super::{namespace, pod, policy, story};

/// A: of blocks without exceptions only the last did (`bug_two_ipblocks_without_except`).
#[test]
fn every_block_of_a_rule_counts() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "", ""),
            policy(
                "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.168.1.0/24}}, {ipBlock: {cidr: 172.16.0.0/12}}]}]",
            ),
        ])
        .then(
            "allow 192.168.1.7 172.20.0.1 10.1.1.254 -> default/p1 : TCP/80 UDP/53 ICMP
             deny 192.168.2.7 172.32.0.1 8.8.8.8 -> default/p1 : TCP/80",
        )
        .holds();
}

/// L: pods of kube-system were left out (`bug_empty_namespace_selector`).
#[test]
fn every_namespace_is_every_namespace() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "app: web", ""),
            pod("kube-system/dns", "10.1.2.53", "", ""),
            pod("other/q", "10.1.1.3", "", ""),
            policy(
                "podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}]}]",
            ),
        ])
        .then(
            "allow default/p1 -> kube-system/dns other/q : UDP/53
             deny default/p1 -> 8.8.8.8 : UDP/53",
        )
        .holds();
}

/// M: the selector of namespaces was lost (`bug_pod_and_namespace_selector`).
#[test]
fn a_peer_with_two_selectors_is_what_both_select() {
    let fe = |id, address| pod(id, address, "role: fe", "");
    story()
        .with(&[
            namespace("red", "team: red"),
            namespace("blue", "team: blue"),
            pod("default/p1", "10.1.1.1", "app: web", ""),
            fe("default/fe", "10.1.1.2"),
            fe("red/fe", "10.1.1.3"),
            fe("blue/fe", "10.1.2.3"),
            pod("red/db", "10.1.2.4", "role: db", ""),
            policy(
                "podSelector: {matchLabels: {app: web}}, ingress: [{from: [\
                 {podSelector: {matchLabels: {role: fe}}, namespaceSelector: {matchLabels: {team: red}}}]}]",
            ),
        ])
        .then(
            "allow red/fe -> default/p1 : TCP/80
             deny default/fe blue/fe red/db -> default/p1 : TCP/80",
        )
        .holds();
}

/// M: without `policyTypes` they were not looked at.
#[test]
fn rules_of_egress_isolate_where_no_types_are_named() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "", ""),
            policy("podSelector: {}, ingress: [{}], egress: [{to: [{ipBlock: {cidr: 172.16.0.0/12}}]}]"),
        ])
        .then(
            "allow default/p1 -> 172.16.0.1 : TCP/80
             deny default/p1 -> 8.8.8.8 : TCP/80
             allow 8.8.8.8 -> default/p1 : TCP/80",
        )
        .holds();
}

/// N: probes of the kubelet were dropped.
#[test]
fn the_node_of_a_pod_reaches_it() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "", ""),
            policy("podSelector: {}, policyTypes: [Ingress, Egress]"),
        ])
        .then(
            "allow 192.168.16.1 -> default/p1 : TCP/80 UDP/53 ICMP
             deny 192.168.16.2 8.8.8.8 -> default/p1 : TCP/80",
        )
        .holds();
}
