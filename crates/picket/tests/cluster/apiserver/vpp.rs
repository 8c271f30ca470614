//! An agent whose target is VPP knows services, by whatever it knows the cluster. Others need no right to list them.

mod session;

use std::path::Path;
use std::process::Command;

use picket_linux::NetworkNamespace;
use picket_net::Protocol;
use picket_node::Status;
use picket_testing::apiserver::Server;
use picket_testing::etcd::Etcd;
use picket_testing::ran::Ran;
use picket_testing::reflected;
use picket_vpp::fake::{Connection, Fake, Options, Packet, Translation};
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::apiserver::agent::expect_schema;
use crate::apiserver::deploy::{
    account, apply, as_container, asked, audited, container, expect_rights, role,
};
use crate::apiserver::refusals::grant;
use crate::client::{Api, serve};
use crate::objects::{KINDS, namespace, pod, policy, unreadable};
use crate::published::Published;
use crate::reflectors::Reflector;

pub(crate) const MANIFEST: &str = include_str!("../../../../../deploy/agent-vpp.yaml");

pub(crate) const TARGET: &str = "vpp-acl";

/// The address of a service.
pub(crate) const SERVICE: &str = "203.0.113.7";

/// A pod that may send to another one only, and the VPP of both.
fn cluster(api: &Api) -> Fake {
    cluster_with(api, Options::new(7))
}

/// The same with more about that VPP.
pub(crate) fn cluster_with(api: &Api, options: Options) -> Fake {
    namespace(api, "shop");
    pod(api, "shop", "web", "10.0.0.1", &json!({}));
    pod(api, "shop", "db", "10.0.0.2", &json!({}));
    let to = json!([{"podSelector": {"matchLabels": {"app": "db"}}}]);
    let selector = json!({"matchLabels": {"app": "web"}});
    policy(
        api,
        "shop",
        "to-db",
        &json!({"podSelector": selector, "policyTypes": ["Egress"], "egress": [{"to": to}]}),
    );
    let options = options.interface("tap1", "shop/web").interface("tap2", "shop/db");
    Fake::start(options.interface("ge0", "")).unwrap()
}

pub(crate) fn create_service(api: &Api) {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "db"},
        "spec": {"ports": [{"port": 5432}], "selector": {"app": "db"}, "externalIPs": [SERVICE]},
    });
    api.create("/api/v1/namespaces/shop/services", &service);
}

/// An agent of VPP alone.
fn start(vpp: &Fake, kubeconfig: &Path, more: &[&str]) -> Agent {
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    command
        .args(["agent", "--target", TARGET, "--vpp-socket"])
        .arg(vpp.socket())
        .args(more);
    let here = NetworkNamespace::current().unwrap();
    Agent::run_in(&here, "node-1", kubeconfig, command)
}

/// Whether the one pod reaches the other by an address that VPP translates.
pub(crate) fn reaches_through(vpp: &Fake, address: &str) -> bool {
    let state = vpp.state();
    let [from, to] = ["tap1", "tap2"].map(|name| state.interface(name).unwrap());
    let translation = Translation {
        destination: "10.0.0.2".parse().unwrap(),
        port: 5432,
        source: None,
    };
    let ends =
        [("10.0.0.1", 40_000), (address, 5432)].map(|(address, port)| (address.parse().unwrap(), port));
    let packet = Packet::new(Protocol::TCP, ends[0], ends[1]);
    state.would_reach(from, to, &packet, Some(translation))
}

/// Services come and go, and the pod reaches what they lead to.
fn expect_services(api: &Api, vpp: &Fake, agent: &Agent) {
    agent.until("the policy", |status| {
        let vpp = status.vpp.get(TARGET);
        vpp.is_some_and(|vpp| vpp.is_well() && vpp.policies == ["NetworkPolicy shop/to-db"])
    });
    assert!(!reaches_through(vpp, SERVICE));
    create_service(api);
    agent.until("a service", |_| reaches_through(vpp, SERVICE));
    assert!(!reaches_through(vpp, "203.0.113.8"), "it is nobody's");
    api.delete("/api/v1/namespaces/shop/services", "db");
    agent.until("no service", |_| !reaches_through(vpp, SERVICE));
    assert_eq!(vpp.complaints(), Vec::<String>::new());
}

#[test]
fn services_of_an_api_server_are_known_to_who_may_list_them() {
    let server = Server::start_with(&[("other-token", "other"), ("agent-token", "agent")], &[]);
    let api = Api::new(&server.kubeconfig());
    let vpp = cluster(&api);
    grant(&api, &role(), "other", None);
    let mut other = start(&vpp, &server.kubeconfig_of("other-token"), &[]);
    other.until("it is refused", |status| {
        let services = status.source.get("services");
        let trouble = services.and_then(|services| services.trouble.as_deref());
        let is_closed = |vpp: &picket_node::VppStatus| vpp.unknown == ["tap1", "tap2"];
        trouble.is_some_and(|trouble| trouble.ends_with("at the cluster scope (403)"))
            && status.vpp.get(TARGET).is_some_and(is_closed)
    });
    other.kill();
    // What is not known whole is not in force: until then nothing passes.
    assert_eq!(vpp.state().acls().count(), 1);
    assert!(!reaches_through(&vpp, "10.0.0.2"));
    let with_services = role().replace("  - pods\n", "  - pods\n  - services\n");
    grant(&api, &with_services, "agent", None);
    let agent = start(&vpp, &server.kubeconfig_of("agent-token"), &[]);
    expect_services(&api, &vpp, &agent);
}

#[test]
fn services_in_etcd_are_known() {
    let (_server, kubeconfig, api) = serve();
    let vpp = cluster(&api);
    let kept = Etcd::start();
    let _reflector = Reflector::start(&kubeconfig, &kept);
    let endpoint = kept.endpoint();
    let arguments = ["--source", "etcd", "--etcd-endpoints", &endpoint];
    let agent = start(&vpp, "/nowhere/kubeconfig".as_ref(), &arguments);
    expect_services(&api, &vpp, &agent);
}

/// Keeps an object as a reflector does.
fn put(kept: &Etcd, resource: &str, object: &Value) {
    let metadata = &object["metadata"];
    let [namespace, name] = ["namespace", "name"].map(|field| metadata[field].as_str().unwrap());
    let key = format!("/picket/v1/objects/{resource}/{namespace}/{name}");
    kept.put(&key, &reflected::record(object));
}

/// A pod of the node.
fn web() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"nodeName": "node-1"},
        "status": {"podIP": "10.0.0.1"},
    })
}

/// Whoever asks etcd once does what would be done, for lists and for session rules.
#[test]
fn an_agent_with_etcd_ends_when_it_has_done_what_it_said() {
    let kept = Etcd::start();
    let metadata = json!({"name": "closed", "namespace": "shop"});
    let spec = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});
    put(&kept, "pods", &web());
    put(
        &kept,
        "networkpolicies.networking.k8s.io",
        &json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}),
    );
    kept.put("/picket/v1/progress", &reflected::progress());
    let options = Options::new(7).interface("tap1", "shop/web").interface("ge0", "");
    let vpp = Fake::start(options.session_layer(true).namespace("shop/web")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("namespaces");
    std::fs::write(&file, "shop/web 1\n").unwrap();
    let changes = [
        "acl_add_replace",
        "acl_interface_set_acl_list",
        "acl_del",
        "session_rule_add_del",
    ];
    let run = |extent: &str| {
        vpp.clear_record();
        let ran = Command::new(env!("CARGO_BIN_EXE_picket"))
            .args([
                "agent",
                "--hostname-override",
                "node-1",
                "--source",
                "etcd",
                "--etcd-endpoints",
            ])
            .arg(kept.endpoint())
            .args([
                "--target",
                TARGET,
                "--target",
                "vpp-session",
                extent,
                "--vpp-pod-namespace",
            ])
            .arg(format!("file={}", file.display()))
            .arg("--vpp-socket")
            .arg(vpp.socket())
            .arg("--socket")
            .arg(folder.path().join("socket"))
            .output()
            .unwrap();
        let ran = Ran::from(ran);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let record = vpp.record();
        let changes = record.iter().filter(|message| changes.contains(&&*message.name));
        (ran.stdout, changes.count())
    };
    let packet = |source: &str, destination: &str| {
        let ends =
            [(source, 40_000), (destination, 80)].map(|(address, port)| (address.parse().unwrap(), port));
        Packet::new(Protocol::TCP, ends[0], ends[1])
    };
    let (to, from) = (packet("192.0.2.1", "10.0.0.1"), packet("10.0.0.1", "192.0.2.1"));
    let passes = || {
        let state = vpp.state();
        let [tap, out] = ["tap1", "ge0"].map(|name| state.interface(name).unwrap());
        let lists = [
            state.would_reach(out, tap, &to, None),
            state.would_reach(tap, out, &from, None),
        ];
        let rules = [state.accepts(&to), state.connects(1, &from)];
        (lists, rules.map(|verdict| verdict == Connection::Allowed))
    };
    let (said, changed) = run("--dry-run");
    for line in ["create acl `picket-to-pod-", "set interface `tap1`", "drop"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!((changed, passes()), (0, ([true; 2], [true; 2])));
    let (said, changed) = run("--once");
    assert!(said.is_empty() && changed > 0, "{said}");
    assert_eq!(passes(), ([false; 2], [false; 2]));
    for extent in ["--dry-run", "--once"] {
        assert_eq!(run(extent), (String::new(), 0), "{extent}");
    }
    assert_eq!(vpp.complaints(), Vec::<String>::new());
}

#[test]
fn a_policy_that_cannot_be_read_is_not_in_force_as_it_is() {
    let kept = Etcd::start();
    let put_policy = |spec: &Value| {
        let metadata = json!({"name": "closed", "namespace": "shop"});
        let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec});
        put(&kept, "networkpolicies.networking.k8s.io", &policy);
    };
    put(&kept, "pods", &web());
    put_policy(&json!({"podSelector": {}}));
    kept.put("/picket/v1/progress", &reflected::progress());
    let vpp = Fake::start(Options::new(7).interface("tap1", "shop/web")).unwrap();
    let endpoint = kept.endpoint();
    let arguments = ["--source", "etcd", "--etcd-endpoints", &endpoint];
    let agent = start(&vpp, "/nowhere/kubeconfig".as_ref(), &arguments);
    let policy = "NetworkPolicy shop/closed";
    let is_in_force = |status: &Status| {
        let vpp = status.vpp.get(TARGET);
        vpp.is_some_and(|vpp| vpp.is_well() && vpp.policies == [policy])
    };
    agent.until("the policy", is_in_force);
    assert_eq!(agent.asked_by(&["status"]).status, 0);

    // Nobody can tell what it selects any more: what it said before holds.
    put_policy(&json!(7));
    let status = agent.until("a reason", |status| {
        let unreadable = status.vpp.get(TARGET).and_then(|vpp| vpp.unreadable.first());
        unreadable.is_some_and(|found| found.why.as_deref().is_some_and(|why| why.starts_with('P')))
    });
    assert_eq!(status.vpp[TARGET].policies, [policy]);
    let found = &status.vpp[TARGET].unreadable[0];
    let [read, kept] = [&found.read, &found.in_force].map(|version| version.as_ref().unwrap());
    let line = format!("NOT in force as it is: {policy}: {read} was read, {kept} is in force: P");
    let ran = agent.asked_by(&["status"]);
    assert!(ran.stdout.contains(&line), "{line}: {}", ran.stdout);
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    expect_schema(&agent.asked_by(&["status", "-o", "json"]).json());

    put_policy(&json!({"podSelector": {}}));
    agent.until("the policy again", is_in_force);
    assert_eq!(agent.asked_by(&["status"]).status, 0);
}

#[test]
fn what_is_shipped_for_vpp_is_enough_and_nothing_of_it_is_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let (server, audit) = audited(folder.path(), &[]);
    let api = Api::new(&server.kubeconfig());
    let applied = apply(&api, MANIFEST);
    // Nothing of the node but its network and the socket, and that to read: connecting to it writes nothing there.
    let spec = &applied["DaemonSet"]["spec"]["template"]["spec"];
    assert_eq!(
        spec["hostNetwork"], true,
        "else it closes its own way to the API server"
    );
    assert_eq!(spec["dnsPolicy"], "ClusterFirstWithHostNet");
    for field in ["hostPID", "hostIPC"] {
        assert_eq!(spec[field], Value::Null, "{field}");
    }
    let mut container = container(&applied);
    assert_eq!(
        (
            &container["securityContext"]["privileged"],
            &container["securityContext"]["capabilities"]
        ),
        (&Value::Null, &json!({"drop": ["ALL"]}))
    );
    let mounted = json!({"name": "vpp", "mountPath": "/run/vpp", "readOnly": true});
    assert!(container["volumeMounts"].as_array().unwrap().contains(&mounted));
    // Tests share a network.
    let listen = container["args"].as_array_mut().unwrap().iter_mut();
    let listen = listen.filter(|argument| *argument == "--listen=127.0.0.1:9482");
    assert_eq!(
        listen
            .map(|argument| *argument = json!("--listen=127.0.0.1:0"))
            .count(),
        1
    );
    let vpp = cluster(&api);
    // Their kinds are defined.
    drop(Published::new(&api));
    let mut command = as_container(&container);
    command.arg("--vpp-socket").arg(vpp.socket());
    let here = NetworkNamespace::current().unwrap();
    let agent = Agent::run_in(
        &here,
        "node-1",
        &account(&server, &api, "picket-agent-vpp"),
        command,
    );
    expect_services(&api, &vpp, &agent);
    for probe in ["livenessProbe", "readinessProbe"] {
        let probe = &container[probe]["httpGet"];
        // Kubelets ask at the address of the node otherwise, where nobody listens.
        assert_eq!(
            (&probe["host"], &probe["port"]),
            (&json!("127.0.0.1"), &json!(9482))
        );
        assert_eq!(
            agent.get(probe["path"].as_str().unwrap()),
            (200, "ok\n".to_owned())
        );
    }
    api.create(KINDS[14].2, &unreadable());
    agent.until("an event", |_| {
        asked(&audit, "picket-agent-vpp")
            .iter()
            .any(|(_, resource, _)| resource == "events")
    });
    expect_rights(&audit, "picket-agent-vpp", &applied["ClusterRole"]);
}
