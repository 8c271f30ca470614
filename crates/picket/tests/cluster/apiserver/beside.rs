//! Beside kube-proxy, which makes services work, and network plugins, which attach pods: policies hold for what reaches a pod
//! through a service, services work as far as policies allow, and nobody loses rules to anybody else.

pub(super) mod established;
mod gateways;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use picket_net::Family;
use picket_testing::apiserver::Server;
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::apiserver::agent::metric;
use crate::apiserver::deploy::role;
use crate::apiserver::refusals::grant;
use crate::client::Api;
use crate::node::{KubeProxy, Mode, Node, PLUGINS, PORT};
use crate::objects::{KINDS, define, namespace, newest, policy};
use crate::published::Versions;

/// The pods of the node.
const PODS: [&str; 4] = ["web", "client", "other", "locked"];

const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/x/networkpolicies";
const SERVICES: &str = "/api/v1/namespaces/x/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/x/endpointslices";

/// Whom a server takes for the client.
#[derive(Clone, Copy)]
enum Seen {
    /// Whoever it is.
    Itself,
    /// The node, which kube-proxy makes it look like: replies come back through the node then.
    Node,
}

/// From, to, and as whom.
type Allowed = (&'static str, &'static str, Seen);

/// Through services of the cluster, ports of the node, and directly.
const ALLOWED: [Allowed; 11] = [
    ("client", "pod/web", Seen::Itself),
    ("client", "service/web", Seen::Itself),
    ("client", "service/remote", Seen::Itself),
    // A pod reaches itself through its own service.
    ("web", "service/web", Seen::Node),
    // The source is judged before the node takes its place.
    ("outside", "node-1/30080", Seen::Node),
    ("outside", "node-1/30081", Seen::Itself),
    ("outside", "node-1/30082", Seen::Node),
    // The node itself serves: its reply is no new connection to a pod that admits few.
    ("web", "service/node", Seen::Itself),
    ("locked", "service/node", Seen::Itself),
    // The one pod that it may reach, since the policy is about pods and their ports and not about services.
    ("locked", "service/web", Seen::Itself),
    ("node-1", "service/web", Seen::Node),
];

/// What policies deny, and nothing else does.
const DENIED: [(&str, &str); 10] = [
    ("other", "pod/web"),
    ("other", "service/web"),
    ("other", "node-1/30080"),
    ("remote", "pod/web"),
    ("locked", "service/remote"),
    ("locked", "pod/client"),
    ("stranger", "node-1/30080"),
    ("stranger", "node-1/30081"),
    // A service on the own node leads to it: its addresses are judged as they are after translation.
    ("client", "service/node"),
    ("client", "node-1/8080"),
];

/// A cluster with services, and what there is of it.
struct Cluster<'a> {
    api: &'a Api,
    node: Node,
    agent: PathBuf,
    kube_proxy: PathBuf,
    mode: Mode,
    allowed: &'static [Allowed],
    denied: &'static [(&'static str, &'static str)],
}

impl Cluster<'_> {
    /// The address that a target stands for.
    fn target(&self, text: &str, family: Family) -> SocketAddr {
        let (kind, name) = text.split_once('/').unwrap();
        match kind {
            "pod" => (self.node.address(name, family), PORT).into(),
            "service" => {
                let services = self.api.list(SERVICES);
                let service = services
                    .iter()
                    .find(|service| service["metadata"]["name"] == name);
                let addresses = service.unwrap()["spec"]["clusterIPs"].as_array().unwrap();
                let mut addresses = addresses
                    .iter()
                    .map(|address| address.as_str().unwrap().parse().unwrap());
                let address = addresses.find(|address| Family::of(*address) == family);
                (address.unwrap(), 80).into()
            }
            node => (self.node.address(node, family), name.parse().unwrap()).into(),
        }
    }

    /// Holds every connection that policies allow, and whom servers take for the client.
    fn allowed(&self, when: &str) {
        for ((from, to, seen), family) in both(self.allowed) {
            let client = self.node.connect(from, self.target(to, family), true);
            let client = client.unwrap_or_else(|error| panic!("{from} -> {to} {family:?} {when}: {error}"));
            let itself = client == self.node.address(from, family) && from != "node-1";
            let expected = matches!(seen, Seen::Itself);
            assert_eq!(itself, expected, "{from} -> {to} {when}: seen as {client}");
        }
    }

    /// Holds those that they deny, or that these pass where no policy is in force.
    fn denied(&self, denied: bool, when: &str) {
        let targets = both(self.denied).map(|(path, family)| (path, family, self.target(path.1, family)));
        let targets: Vec<_> = targets.collect();
        // At once, since what is denied is waited for.
        thread::scope(|scope| {
            for ((from, to), family, target) in targets {
                let node = &self.node;
                scope.spawn(move || {
                    let client = node.connect(from, target, !denied);
                    assert_eq!(
                        client.is_err(),
                        denied,
                        "{from} -> {to} {family:?} {when}: {client:?}"
                    );
                });
            }
        });
    }

    fn enforced(&self, when: &str) {
        self.allowed(when);
        self.denied(true, when);
    }

    /// A kube-proxy on a node.
    fn kube_proxy(&self, node: &str) -> KubeProxy {
        KubeProxy::start(&self.node, node, self.mode, &self.kube_proxy)
    }

    /// Waits until somebody can reach a service.
    fn until_served(&self, client: &str, service: &str, kube_proxy: &KubeProxy) {
        for family in Family::BOTH {
            let target = self.target(service, family);
            kube_proxy.until(service, || self.node.connect(client, target, false).is_ok());
        }
    }

    /// An agent on a node, which enforces everything there is.
    fn agent(&self, node: &str) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command.arg("agent");
        let agent = Agent::run_in(self.node.at(node), node, &self.agent, command);
        let versions = [
            ("pods", newest(self.api, "/api/v1/pods")),
            ("networkpolicies.networking.k8s.io", newest(self.api, POLICIES)),
            (
                "clusternetworkpolicies.policy.networking.k8s.io",
                newest(self.api, KINDS[14].2),
            ),
        ];
        let versions: Versions = versions.map(|(kind, version)| (kind.to_owned(), version)).into();
        agent.until_enforced(&versions);
        agent
    }

    /// What `nft` lists of the table of the agent on a node, without what has been counted.
    fn table(&self, node: &str) -> String {
        self.node
            .run(node, "nft", &["-s", "list", "table", "inet", "picket"])
    }
}

/// Each over IPv4 and IPv6.
fn both<T: Copy>(paths: &[T]) -> impl Iterator<Item = (T, Family)> {
    paths
        .iter()
        .flat_map(|path| Family::BOTH.map(|family| (*path, family)))
}

/// Creates a node.
fn node_object(api: &Api, name: &str, addresses: &[IpAddr]) {
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    api.create("/api/v1/nodes", &object);
    let internal = |address| json!({"type": "InternalIP", "address": address});
    let addresses: Vec<_> = addresses.iter().map(internal).collect();
    api.set_status("/api/v1/nodes", name, &json!({ "addresses": addresses }));
}

/// Creates a pod as it is when it runs.
fn pod(api: &Api, node: &Node, on: &str, name: &str) {
    let labels = json!({"app": name, "role": name});
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": on, "containers": [{"name": "main", "image": "main"}]},
    });
    api.create("/api/v1/namespaces/x/pods", &object);
    let ips = Family::BOTH.map(|family| json!({"ip": node.address(name, family).to_string()}));
    let status = json!({"phase": "Running", "podIP": ips[0]["ip"], "podIPs": ips});
    api.set_status("/api/v1/namespaces/x/pods", name, &status);
}

/// Creates a service of both families with its endpoint, which is on a node, as a controller does. `more` may have a port of the
/// nodes and the policy for what comes to it from outside.
fn service(api: &Api, node: &Node, name: &str, (to, on): (&str, &str), more: &Value) {
    let mut spec = json!({
        "ipFamilyPolicy": "RequireDualStack",
        "ports": [{"port": 80, "targetPort": PORT}],
    });
    if let Some(port) = more["nodePort"].as_u64() {
        spec["type"] = "NodePort".into();
        spec["ports"][0]["nodePort"] = port.into();
        spec["externalTrafficPolicy"] = more["policy"].clone();
    }
    let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    api.create(SERVICES, &object);
    for (family, kind) in Family::BOTH.iter().zip(["IPv4", "IPv6"]) {
        let address = node.address(to, *family).to_string();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{name}-{}", kind.to_lowercase()),
                "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": kind,
            "ports": [{"port": PORT, "protocol": "TCP", "name": ""}],
            "endpoints": [{"addresses": [address], "nodeName": on, "conditions": {"ready": true}}],
        });
        api.create(SLICES, &slice);
    }
}

/// Creates everything but the policies.
fn populate(api: &Api, node: &Node) {
    namespace(api, "x");
    node_object(
        api,
        "node-1",
        &Family::BOTH.map(|family| node.address("node-1", family)),
    );
    node_object(api, "node-2", &[]);
    for name in PODS {
        pod(api, node, "node-1", name);
    }
    pod(api, node, "node-2", "remote");
    let web = ("web", "node-1");
    service(api, node, "web", web, &open(30080, "Cluster"));
    service(api, node, "local", web, &open(30081, "Local"));
    service(api, node, "remote", ("remote", "node-2"), &open(30082, "Cluster"));
    service(api, node, "node", ("node-1", "node-1"), &Value::Null);
}

/// A port of the nodes, and the policy for what comes to it from outside.
fn open(port: u16, policy: &str) -> Value {
    json!({"nodePort": port, "policy": policy})
}

/// A peer: one pod of the namespace.
fn app(name: &str) -> Value {
    json!({"podSelector": {"matchLabels": {"app": name}}})
}

/// The peers that are the addresses of a node or a host.
fn blocks(node: &Node, host: &str) -> [Value; 2] {
    Family::BOTH.map(|family| {
        let length = if family == Family::Ipv4 { 32 } else { 128 };
        json!({"ipBlock": {"cidr": format!("{}/{length}", node.address(host, family))}})
    })
}

/// Who may reach the port at which a pod serves.
fn admitting(pod: &str, from: &[Value]) -> Value {
    let ports = json!([{"port": PORT, "protocol": "TCP"}]);
    json!({"podSelector": app(pod)["podSelector"], "ingress": [{"from": from, "ports": ports}]})
}

/// Whom a pod may reach there.
fn reaching(pod: &str, to: &[Value]) -> Value {
    let ports = json!([{"port": PORT, "protocol": "TCP"}]);
    let egress = json!([{"to": to, "ports": ports}]);
    json!({"podSelector": app(pod)["podSelector"], "policyTypes": ["Egress"], "egress": egress})
}

fn policies(api: &Api, node: &Node) {
    let outside = blocks(node, "outside");
    let from: Vec<_> = [app("client"), app("locked")]
        .into_iter()
        .chain(outside)
        .collect();
    policy(api, "x", "few", &admitting("web", &from));
    policy(api, "x", "locked", &reaching("locked", &[app("web")]));
    let networks = blocks(node, "node-1").map(|block| block["ipBlock"]["cidr"].clone());
    let ports = json!([{"tcp": {"destinationPort": {"number": PORT}}}]);
    let (api_version, kind, path) = KINDS[14];
    let spec = json!({
        "tier": "Admin",
        "priority": 1,
        "subject": {"pods": {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "client"}}}},
        "egress": [{"action": "Deny", "to": [{"networks": networks}], "protocols": ports}],
    });
    let node = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "node"}, "spec": spec});
    api.create(path, &node);
}

/// Everything that a node goes through, beside kube-proxy in one of its modes and each plugin.
pub(super) fn play(mode: Mode) {
    let (server, api) = server();
    let [agent, kube_proxy] = ["agent-token", "proxy-token"].map(|token| server.kubeconfig_of(token));
    for (index, plugin) in PLUGINS.iter().enumerate() {
        let node = Node::new(plugin, &PODS, &server.kubeconfig());
        if index == 0 {
            populate(&api, &node);
        }
        let cluster = Cluster {
            api: &api,
            node,
            agent: agent.clone(),
            kube_proxy: kube_proxy.clone(),
            mode,
            allowed: &ALLOWED,
            denied: &DENIED,
        };
        live_through(&cluster, plugin.name);
        for name in ["few", "locked"] {
            api.delete(POLICIES, name);
        }
        api.delete(KINDS[14].2, "node");
    }
}

/// A server with services of both families, and an administrator's client.
fn server() -> (Server, Api) {
    let tokens = [("agent-token", "agent"), ("proxy-token", "system:kube-proxy")];
    let flags = ["--service-cluster-ip-range=10.96.0.0/16,fd96::/112"];
    let server = Server::start_with(&tokens, &flags);
    let api = Api::new(&server.kubeconfig());
    grant(&api, &role(), "agent", None);
    define(&api, KINDS[14]);
    (server, api)
}

fn live_through(cluster: &Cluster<'_>, plugin: &str) {
    let mut kube_proxy = cluster.kube_proxy("node-1");
    cluster.until_served("client", "service/web", &kube_proxy);
    cluster.until_served("client", "service/node", &kube_proxy);
    let when = |moment: &str| format!("{moment} ({:?}, {plugin})", cluster.mode);
    cluster.allowed(&when("without policies"));
    cluster.denied(false, &when("without policies"));
    let rules = cluster.node.foreign_rules("node-1");
    assert!(rules.to_lowercase().contains("kube-"), "{rules}");
    policies(cluster.api, &cluster.node);
    let mut agent = cluster.agent("node-1");
    cluster.enforced(&when("with an agent"));
    agent.kill();
    cluster.enforced(&when("after the agent"));
    agent = cluster.agent("node-1");
    cluster.enforced(&when("with another agent"));
    assert_eq!(cluster.node.foreign_rules("node-1"), rules);
    let table = cluster.table("node-1");
    kube_proxy.kill();
    cluster.enforced(&when("after kube-proxy"));
    kube_proxy = cluster.kube_proxy("node-1");
    service(
        cluster.api,
        &cluster.node,
        "late",
        ("web", "node-1"),
        &Value::Null,
    );
    cluster.until_served("client", "service/late", &kube_proxy);
    cluster.enforced(&when("with another kube-proxy"));
    assert_eq!(cluster.table("node-1"), table);
    assert_eq!(metric(&agent, "picket_drift_repaired_total"), 0);
    assert!(agent.stop().success());
    let rules = cluster.node.foreign_rules("node-1");
    cluster
        .node
        .run("node-1", env!("CARGO_BIN_EXE_picket"), &["agent", "--cleanup"]);
    assert_eq!(cluster.node.foreign_rules("node-1"), rules);
    cluster.denied(false, &when("at the end"));
    for (path, name) in [(SERVICES, "late"), (SLICES, "late-ipv4"), (SLICES, "late-ipv6")] {
        cluster.api.delete(path, name);
    }
}

#[test]
fn a_bridge_that_leads_past_all_rules_is_named() {
    let (server, api) = server();
    let node = Node::new(&PLUGINS[0], &PODS, &server.kubeconfig());
    populate(&api, &node);
    let set = |value: &str| {
        let [v4, v6] = PLUGINS[0].settings else {
            panic!("one for each version");
        };
        let settings = [(v4.0, value), (v6.0, value)];
        node.at("node-1").set(&settings).unwrap();
    };
    set("0");
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    command.arg("agent");
    let kubeconfig = server.kubeconfig_of("agent-token");
    let agent = Agent::run_in(node.at("node-1"), "node-1", &kubeconfig, command);
    let status = agent.until("notes", |status| status.host.notes.len() == 2);
    assert!(status.host.notes[0].contains("`cni0`"), "{status:?}");
    let told = || agent.get("/metrics").1;
    assert!(told().contains("picket_bypassed_bridges 2\n"));
    assert!(!status.host.is_well());
    set("1");
    agent.until("no notes", |status| status.host.notes.is_empty());
    assert!(told().contains("picket_bypassed_bridges 0\n"));
}

#[test]
fn policies_hold_beside_kube_proxy_with_iptables() {
    play(Mode::Iptables);
}

#[test]
fn policies_hold_beside_kube_proxy_with_iptables_of_old() {
    play(Mode::IptablesLegacy);
}

#[test]
fn policies_hold_beside_kube_proxy_with_nftables() {
    play(Mode::Nftables);
}
