//! What needs of a node no more than the socket of VPP, and what needs nothing of it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use picket_node::Source;
use picket_source::{Etcd, Tls};
use picket_testing::etcd;
use picket_testing::runtime::Kind;
use picket_vpp::fake::Options;
use serde_json::Value;

use super::{Contained, asked_for, expect_calm, with_files};
use crate::apiserver::deploy::{apply, expect_probes};
use crate::apiserver::etcd::etcd as reading;
use crate::apiserver::reflect::{REFLECTOR, fill, until_equal};
use crate::apiserver::vpp::{self, SERVICE, cluster_with, create_service, reaches_through};
use crate::following::Following;
use crate::objects::{KINDS, define};
use crate::pods::Node;
use crate::proxy::Proxy;

/// A node of a cluster that knows every kind, so that nobody complains.
fn node() -> Node {
    let node = Node::with(Kind::Containerd);
    KINDS[14..].iter().for_each(|kind| define(&node.api, *kind));
    node
}

#[test]
fn for_vpp_what_is_shipped_is_enough_in_a_container() {
    let node = node();
    let folder = with_files(node.folder.path().join("vpp"), Vec::new());
    let vpp = cluster_with(&node.api, Options::new(7).socket(folder.join("api.sock")));
    let applied = apply(&node.api, vpp::MANIFEST);
    let pod = &applied["DaemonSet"]["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    let container = asked_for(&node, pod, &Value::Null, &[("/run/vpp", folder)]);
    let agent = Contained::run(&node, "picket-agent-vpp", container);
    agent.await_agent(&node, Kind::Containerd);
    let until = |what: &str, passes: bool| {
        node.until_status(what, |_| reaches_through(&vpp, SERVICE) == passes);
    };
    until("the policy", false);
    create_service(&node.api);
    until("a service", true);
    expect_calm(&node);
    // VPP ends, and makes its socket again.
    vpp.down();
    node.until_status("that VPP is away", |status| !status.vpp[vpp::TARGET].connected);
    vpp.up().unwrap();
    until("what a VPP that has forgotten everything lets pass", true);
    node.until_status("lists again", |status| {
        status.vpp[vpp::TARGET].is_well() && !reaches_through(&vpp, "203.0.113.8")
    });
    assert_eq!(vpp.complaints(), Vec::<String>::new());
}

#[test]
fn of_the_reflector_what_is_shipped_is_enough_in_a_container() {
    let node = node();
    fill(&node.api);
    let mut kept = etcd::Etcd::start();
    kept.secure();
    let applied = apply(&node.api, REFLECTOR);
    let pod = &applied["Deployment"]["spec"]["template"]["spec"];
    let file = |name: &str| kept.folder().join(name);
    let files = ["ca.pem", "client.pem", "client.key"];
    let texts = files.map(|name| (name.to_owned(), fs::read_to_string(file(name)).unwrap()));
    let secret = with_files(node.folder.path().join("secret"), texts.to_vec());
    // As kubelets do it, with the `fsGroup` of the pod.
    let group = u32::try_from(pod["securityContext"]["fsGroup"].as_u64().unwrap()).unwrap();
    for name in files {
        chown(secret.join(name), Some(0), Some(group)).unwrap();
        fs::set_permissions(secret.join(name), Permissions::from_mode(0o440)).unwrap();
    }
    let mut container = asked_for(&node, pod, &Value::Null, &[("picket-etcd", secret)]);
    let endpoint = kept.endpoint();
    for word in &mut container.command {
        if word.starts_with("--etcd-endpoints=") {
            // Nobody here knows the names of the manifest.
            *word = format!("--etcd-endpoints={endpoint}");
        }
    }
    let reflector = Contained::run(&node, "picket-reflector", container);
    let port = endpoint.rsplit(':').next().unwrap().parse().unwrap();
    Proxy::from(&reflector.network, port);
    let identity = Some((file("client.pem"), file("client.key")));
    let authority = Some(file("ca.pem"));
    let source = Etcd {
        tls: Tls { authority, identity },
        ..reading(vec![endpoint])
    };
    let mut readers = [Following::of(Source::Etcd(source), None)];
    until_equal(&mut readers, &node.server.kubeconfig(), "what is there");
    let status = reflector.expect_restricted(Kind::Containerd, "reflect");
    for line in ["Uid:\t65532\t65532\t", "Gid:\t65532\t65532\t"] {
        assert!(status.contains(line), "{status}");
    }
    expect_probes(&reflector.network, &pod["containers"][0]);
    expect_calm(&node);
}
