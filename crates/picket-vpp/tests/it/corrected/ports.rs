//! Ports by name, without a number, and of every protocol.

use super::{pod, policy, story};

/// C: it allowed every port (`bug_named_ingress_port_unresolved`).
#[test]
fn a_named_port_that_the_pod_does_not_have_allows_nothing() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "app: web", ""),
            policy("podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.168.0.0/17}}], ports: [{port: http, protocol: TCP}]}]"),
        ])
        .then(
            "deny 192.168.1.1 -> default/p1 : TCP/80 TCP/8080 UDP/53 ICMP
             allow 192.168.16.1 10.1.1.254 -> default/p1 : TCP/80",
        )
        .holds();
}

/// D: all pods got the number of the first (`bug_named_ingress_port_per_pod`).
#[test]
fn a_named_port_is_the_number_that_each_pod_gives_it() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "", "{name: http, containerPort: 8080}"),
            pod("default/p2", "10.1.1.2", "", "{name: http, containerPort: 9090}"),
            policy("podSelector: {}, ingress: [{ports: [{port: http}]}]"),
        ])
        .then(
            "allow 8.8.8.8 default/p2 -> default/p1 : TCP/8080
             deny 8.8.8.8 default/p2 -> default/p1 : TCP/9090
             allow 8.8.8.8 default/p1 -> default/p2 : TCP/9090
             deny 8.8.8.8 default/p1 -> default/p2 : TCP/8080",
        )
        .holds();
}

/// E: every port of the peers was allowed too (`bug_named_egress_port_to_pods`).
#[test]
fn a_named_port_of_peers_allows_nothing_else_of_them() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "app: web", ""),
            pod(
                "default/q",
                "10.1.2.1",
                "app: db",
                "{name: sql, containerPort: 5432}",
            ),
            policy(
                "podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], \
                 egress: [{to: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: sql}]}]",
            ),
        ])
        .then(
            "allow default/p1 -> default/q : TCP/5432
             deny default/p1 -> default/q : TCP/80 UDP/5432 ICMP
             deny default/p1 -> 8.8.8.8 : TCP/5432",
        )
        .holds();
}

/// E: everything was allowed to everybody (`bug_named_egress_port_no_to`).
#[test]
fn a_named_port_of_everybody_is_that_of_those_who_have_it() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "app: web", ""),
            pod("default/p2", "10.1.1.2", "", ""),
            pod("default/q", "10.1.1.3", "", "{name: sql, containerPort: 5432}"),
            policy(
                "podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{ports: [{port: sql}]}]",
            ),
        ])
        .then(
            "allow default/p1 -> default/q : TCP/5432
             deny default/p1 -> default/q : TCP/5433
             deny default/p1 -> default/p2 8.8.8.8 : TCP/5432",
        )
        .holds();
}

/// E: pods outside the block, and every port of the block, were allowed (`bug_named_egress_port_ipblock`).
#[test]
fn a_named_port_of_a_block_is_no_port_of_pods_outside() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "app: web", ""),
            pod("default/q", "10.1.1.3", "", "{name: sql, containerPort: 5432}"),
            policy(
                "podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], \
                 egress: [{to: [{ipBlock: {cidr: 192.168.0.0/20}}], ports: [{port: sql}]}]",
            ),
        ])
        .then(
            "deny default/p1 -> default/q : TCP/5432
             deny default/p1 -> 192.168.1.1 : TCP/5432 TCP/80 UDP/5432",
        )
        .holds();
}

/// F: it ended the agent (`bug_protocol_only_port`).
#[test]
fn a_protocol_without_a_port_is_every_port_of_it() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "", ""),
            policy("podSelector: {}, ingress: [{ports: [{protocol: UDP}]}]"),
        ])
        .then(
            "allow 8.8.8.8 -> default/p1 : UDP/1 UDP/53 UDP/65535
             deny 8.8.8.8 -> default/p1 : TCP/53 SCTP/53 ICMP",
        )
        .holds();
}

/// G: the protocol of the container's port did not count.
#[test]
fn a_named_port_is_one_of_its_own_protocol() {
    story()
        .with(&[
            pod(
                "default/p1",
                "10.1.1.1",
                "",
                "{name: dns, containerPort: 53, protocol: UDP}",
            ),
            policy("podSelector: {}, ingress: [{ports: [{port: dns, protocol: TCP}]}]"),
        ])
        .then("deny 8.8.8.8 -> default/p1 : TCP/53 UDP/53")
        .with(&[policy(
            "podSelector: {}, ingress: [{ports: [{port: dns, protocol: UDP}]}]",
        )])
        .then(
            "deny 8.8.8.8 -> default/p1 : TCP/53
             allow 8.8.8.8 -> default/p1 : UDP/53",
        )
        .holds();
}

/// M: it became one of TCP (`bug_sctp_port`).
#[test]
fn a_port_of_sctp_is_none_of_tcp() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "", ""),
            policy("podSelector: {}, ingress: [{ports: [{port: 9999, protocol: SCTP}]}]"),
        ])
        .then(
            "allow 8.8.8.8 -> default/p1 : SCTP/9999
             deny 8.8.8.8 -> default/p1 : TCP/9999 UDP/9999 SCTP/9998",
        )
        .holds();
}

/// M: `endPort` was not read.
#[test]
fn a_range_of_ports_is_all_of_them() {
    story()
        .with(&[
            pod("default/p1", "10.1.1.1", "", ""),
            policy("podSelector: {}, ingress: [{ports: [{port: 8000, endPort: 8010}]}]"),
        ])
        .then(
            "allow 8.8.8.8 -> default/p1 : TCP/8000 TCP/8005 TCP/8010
             deny 8.8.8.8 -> default/p1 : TCP/7999 TCP/8011 UDP/8000",
        )
        .holds();
}
