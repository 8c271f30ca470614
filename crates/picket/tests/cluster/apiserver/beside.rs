//! Beside kube-proxy, which makes services work, and network plugins, which attach pods: policies hold for what reaches a pod
//! through a service, services work as far as policies allow, and nobody loses rules to anybody else.

mod established;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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
use crate::node::{HOSTS, KubeProxy, Mode, Node, PLUGINS, PORT};
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

/// From, to, and as whom. Through services of the cluster, ports of the node, and directly.
const ALLOWED: [(&str, &str, Seen); 11] = [
    ("client", "pod/web", Seen::Itself),
    ("client", "service/web", Seen::Itself),
    ("client", "service/remote", Seen::Itself),
    // A pod reaches itself through its own service.
    ("web", "service/web", Seen::Node),
    // The source is judged before the node takes its place.
    ("outside", "port/30080", Seen::Node),
    ("outside", "port/30081", Seen::Itself),
    ("outside", "port/30082", Seen::Node),
    // The node itself serves: its reply is no new connection to a pod that admits few.
    ("web", "service/node", Seen::Itself),
    ("locked", "service/node", Seen::Itself),
    // The one pod that it may reach, since the policy is about pods and their ports and not about services.
    ("locked", "service/web", Seen::Itself),
    ("node", "service/web", Seen::Node),
];

/// What policies deny, and nothing else does.
const DENIED: [(&str, &str); 10] = [
    ("other", "pod/web"),
    ("other", "service/web"),
    ("other", "port/30080"),
    ("remote", "pod/web"),
    ("locked", "service/remote"),
    ("locked", "pod/client"),
    ("stranger", "port/30080"),
    ("stranger", "port/30081"),
    // A service on the own node leads to it: its addresses are judged as they are after translation.
    ("client", "service/node"),
    ("client", "port/8080"),
];

/// A cluster with services, and one node of it.
struct Cluster<'a> {
    api: &'a Api,
    node: Node,
    agent: PathBuf,
    kube_proxy: PathBuf,
    mode: Mode,
}

impl Cluster<'_> {
    /// The address that a target stands for.
    fn target(&self, text: &str, family: Family) -> SocketAddr {
        let (kind, name) = text.split_once('/').unwrap();
        match kind {
            "pod" => (self.node.address(name, family), PORT).into(),
            "port" => (self.node.address("node", family), name.parse().unwrap()).into(),
            _ => {
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
        }
    }

    /// Holds every connection that policies allow, and whom servers take for the client.
    fn allowed(&self, when: &str) {
        for ((from, to, seen), family) in both(&ALLOWED) {
            let client = self.node.connect(from, self.target(to, family), true);
            let client = client.unwrap_or_else(|| panic!("{from} -> {to} {family:?} {when}"));
            let itself = client == self.node.address(from, family) && from != "node";
            let expected = matches!(seen, Seen::Itself);
            assert_eq!(itself, expected, "{from} -> {to} {when}: seen as {client}");
        }
    }

    /// Holds those that they deny, or that these pass where no policy is in force.
    fn denied(&self, denied: bool, when: &str) {
        // IPVS translates on the node, after what is received there is judged.
        let is_judged = |(_, to): &(&str, &str)| *to != "service/node" || !matches!(self.mode, Mode::Ipvs);
        let paths: Vec<_> = DENIED.into_iter().filter(is_judged).collect();
        let targets = both(&paths).map(|(path, family)| (path, family, self.target(path.1, family)));
        let targets: Vec<_> = targets.collect();
        // At once, since what is denied is waited for.
        thread::scope(|scope| {
            for ((from, to), family, target) in targets {
                let node = &self.node;
                scope.spawn(move || {
                    let client = node.connect(from, target, !denied);
                    assert_eq!(client.is_none(), denied, "{from} -> {to} {family:?} {when}");
                });
            }
        });
    }

    fn enforced(&self, when: &str) {
        self.allowed(when);
        self.denied(true, when);
    }

    fn kube_proxy(&self) -> KubeProxy {
        KubeProxy::start(&self.node, self.mode, &self.kube_proxy)
    }

    /// Waits until a service can be reached.
    fn until_served(&self, service: &str, kube_proxy: &KubeProxy) {
        for family in Family::BOTH {
            let target = self.target(service, family);
            kube_proxy.until(service, || self.node.connect("client", target, false).is_some());
        }
    }

    /// An agent that enforces everything there is.
    fn agent(&self) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command.arg("agent");
        let agent = Agent::run_in(self.node.at("node"), "node-1", &self.agent, command);
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

    /// What `nft` lists of the agent's table, without what has been counted.
    fn table(&self) -> String {
        self.node.run("nft", &["-s", "list", "table", "inet", "picket"])
    }
}

/// Each over IPv4 and IPv6.
fn both<T: Copy>(paths: &[T]) -> impl Iterator<Item = (T, Family)> {
    paths
        .iter()
        .flat_map(|path| Family::BOTH.map(|family| (*path, family)))
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

/// Creates a service of both families with its endpoints, as a controller does. `more` may have a port of the node and the policy
/// for what comes to it from outside.
fn service(api: &Api, node: &Node, name: &str, to: &str, more: &Value) {
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
        let on = if to == "remote" { "node-2" } else { "node-1" };
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
    for name in ["node-1", "node-2"] {
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        api.create("/api/v1/nodes", &object);
    }
    let internal = |address| json!({"type": "InternalIP", "address": address});
    let status = json!({"addresses": HOSTS[0].1.map(internal)});
    api.set_status("/api/v1/nodes", "node-1", &status);
    for name in PODS {
        pod(api, node, "node-1", name);
    }
    pod(api, node, "node-2", "remote");
    let open = |port: u16, policy: &str| json!({"nodePort": port, "policy": policy});
    service(api, node, "web", "web", &open(30080, "Cluster"));
    service(api, node, "local", "web", &open(30081, "Local"));
    service(api, node, "remote", "remote", &open(30082, "Cluster"));
    service(api, node, "node", "node", &Value::Null);
}

fn policies(api: &Api) {
    let ports = json!([{"port": PORT, "protocol": "TCP"}]);
    let app = |name: &str| json!({"podSelector": {"matchLabels": {"app": name}}});
    let outside = HOSTS[1].1.map(|address| {
        let length = if address.contains(':') { 128 } else { 32 };
        json!({"ipBlock": {"cidr": format!("{address}/{length}")}})
    });
    let from = json!([app("client"), app("locked"), outside[0], outside[1]]);
    let few = json!({
        "podSelector": {"matchLabels": {"app": "web"}},
        "ingress": [{"from": from, "ports": ports}],
    });
    let locked = json!({
        "podSelector": {"matchLabels": {"app": "locked"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": [app("web")], "ports": ports}],
    });
    policy(api, "x", "few", &few);
    policy(api, "x", "locked", &locked);
    let networks = HOSTS[0].1.map(|address| {
        let length = if address.contains(':') { 128 } else { 32 };
        format!("{address}/{length}")
    });
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
fn play(mode: Mode) {
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
    let mut kube_proxy = cluster.kube_proxy();
    cluster.until_served("service/web", &kube_proxy);
    cluster.until_served("service/node", &kube_proxy);
    let when = |moment: &str| format!("{moment} ({:?}, {plugin})", cluster.mode);
    cluster.allowed(&when("without policies"));
    cluster.denied(false, &when("without policies"));
    let rules = cluster.node.foreign_rules();
    assert!(rules.to_lowercase().contains("kube-"), "{rules}");
    policies(cluster.api);
    let mut agent = cluster.agent();
    cluster.enforced(&when("with an agent"));
    agent.kill();
    cluster.enforced(&when("after the agent"));
    agent = cluster.agent();
    cluster.enforced(&when("with another agent"));
    assert_eq!(cluster.node.foreign_rules(), rules);
    let table = cluster.table();
    kube_proxy.kill();
    cluster.enforced(&when("after kube-proxy"));
    kube_proxy = cluster.kube_proxy();
    service(cluster.api, &cluster.node, "late", "web", &Value::Null);
    cluster.until_served("service/late", &kube_proxy);
    cluster.enforced(&when("with another kube-proxy"));
    assert_eq!(cluster.table(), table);
    assert_eq!(metric(&agent, "picket_drift_repaired_total"), 0);
    assert!(agent.stop().success());
    let rules = cluster.node.foreign_rules();
    cluster
        .node
        .run(env!("CARGO_BIN_EXE_picket"), &["agent", "--cleanup"]);
    assert_eq!(cluster.node.foreign_rules(), rules);
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
        node.at("node").set(&settings).unwrap();
    };
    set("0");
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    command.arg("agent");
    let kubeconfig = server.kubeconfig_of("agent-token");
    let agent = Agent::run_in(node.at("node"), "node-1", &kubeconfig, command);
    let status = agent.until("notes", |status| status.host.notes.len() == 2);
    assert!(status.host.notes[0].contains("`cni0`"), "{status:?}");
    set("1");
    agent.until("no notes", |status| status.host.notes.is_empty());
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

#[test]
fn the_load_balancer_of_the_kernel_is_refused_by_kube_proxy_where_there_is_none() {
    if Path::new("/proc/net/ip_vs").exists() {
        return play(Mode::Ipvs);
    }
    let (server, api) = server();
    let node = Node::new(&PLUGINS[1], &PODS, &server.kubeconfig());
    populate(&api, &node);
    let mut kube_proxy = KubeProxy::start(&node, Mode::Ipvs, &server.kubeconfig_of("proxy-token"));
    assert!(!kube_proxy.wait().success());
    assert!(kube_proxy.log().contains("ipvs"), "{}", kube_proxy.log());
}
