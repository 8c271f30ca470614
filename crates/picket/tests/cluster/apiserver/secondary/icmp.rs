//! Echo requests, which no policy can allow, and what IPv6 needs to work at all.

use serde_json::json;

use super::{labelled, named, simple};
use crate::pods::{Node, expect, forget_neighbours};

/// Requests into the pod that a policy isolates and out of it.
const V4: &str = "a->server:icmp b->server:icmp server->a:icmp server->b:icmp";
const V6: &str = "a->server:icmpv6 b->server:icmpv6 server->a:icmpv6 server->b:icmpv6";

#[test]
fn echo_requests_pass_by_the_flag_of_their_family_alone() {
    let mut node = Node::new();
    let pods = simple(&mut node);
    expect(&pods, &[V4, V6], true, "before there is a policy");
    let port = json!([{"port": 80}]);
    let spec = json!({
        "podSelector": labelled("name", "server"),
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": named(&["a"]), "ports": port}],
        "egress": [{"to": named(&["a"]), "ports": port}],
    });
    node.policy("default", "port", "default/net", &spec);
    for (flags, allowed, denied) in [
        (&[][..], &[][..], &[V4, V6][..]),
        (&["--accept-icmp"], &[V4], &[V6]),
        (&["--accept-icmpv6"], &[V6], &[V4]),
        (&["--accept-icmp", "--accept-icmpv6"], &[V4, V6], &[]),
    ] {
        node.start(flags);
        node.until_enforced();
        // Nobody knows anybody on the network any more, and so has to ask, with ICMPv6 too.
        forget_neighbours(&pods);
        let when = format!("with {flags:?}");
        expect(&pods, &["a->server:80 server->a:80"], true, &when);
        expect(&pods, &["b->server:80 server->b:80 a->server:81"], false, &when);
        expect(&pods, allowed, true, &when);
        expect(&pods, denied, false, &when);
        node.kill();
    }
}
