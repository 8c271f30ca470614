//! A node with real sandboxes, a real API server and an agent: pods on secondary networks, and packets between them.

mod probe;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use picket_linux::runtime::Runtime;
use picket_linux::{NetworkNamespace, die_with_parent};
use picket_node::{PodsStatus, Status, ask};
use picket_testing::apiserver::{AGENT, Server};
use picket_testing::lost::{LostAnswers, Share};
use picket_testing::ran::Ran;
use picket_testing::runtime::{ContainerRuntime, Kind, SOCKET};
use picket_testing::signal::signal;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use probe::{
    Pods, expect, forget_neighbours, ip, nft, once_free, patience, place_of, raw, send_fragmentation_needed,
    send_icmpv6, table,
};

use crate::agents::{get, value};
use crate::client::Api;
use crate::objects::{KINDS, define, newest};

/// How long the agent may take for anything before a test fails.
const BOUND: Duration = Duration::from_secs(240);

/// How long to wait until it is asked again.
const PAUSE: Duration = Duration::from_millis(10);

/// The kinds of secondary networks in [`KINDS`].
const DEFINED: [usize; 2] = [12, 13];

/// The definitions of networks in the namespace `default`.
pub(crate) const DEFINITIONS: &str =
    "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";

/// The definitions of networks in a namespace.
pub(crate) fn definitions(namespace: &str) -> String {
    format!("/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/network-attachment-definitions")
}

/// What is shipped, of which agents here have the role.
const MANIFEST: &str = include_str!("../../../../deploy/agent-pods.yaml");

pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) api: Api,
    pub(crate) runtime: ContainerRuntime,
    sandboxes: Runtime,
    /// Where the other ends of interfaces are: each network is a cable, or a bridge, that leads nowhere else.
    switch: NetworkNamespace,
    networks: Vec<String>,
    /// Whether pods are plugged into bridges by cables of their own, and not by macvlan.
    has_bridges: bool,
    agent: Option<Child>,
    /// The kubeconfig of the agent, where its way to the server is another.
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) folder: TempDir,
    interfaces: usize,
    /// A port of each pod, of UDP and of TCP, that is called so when it comes, `probe`.
    pub(crate) probed: BTreeMap<&'static str, u16>,
}

/// A pod with its interfaces on secondary networks.
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) sandbox: String,
    pub(crate) inside: NetworkNamespace,
    pub(crate) addresses: Vec<IpAddr>,
}

/// An interface of a pod.
pub(crate) struct Interface<'a> {
    /// The network, as `namespace/name`. Networks whose names end alike are on one cable.
    pub(crate) network: &'a str,
    pub(crate) name: &'a str,
    pub(crate) addresses: &'a [&'a str],
}

impl Node {
    /// A node without an agent, with the runtime that starts soonest.
    pub(crate) fn new() -> Self {
        Self::with(Kind::Containerd)
    }

    /// A node without an agent.
    pub(crate) fn with(runtime: Kind) -> Self {
        Self::of(Server::start(), runtime)
    }

    /// The same in the cluster of this server, which has to know the [agent](AGENT).
    pub(crate) fn of(server: Server, runtime: Kind) -> Self {
        let node = Self::without_kinds(server, runtime);
        DEFINED.iter().for_each(|index| define(&node.api, KINDS[*index]));
        node
    }

    /// The same in a cluster that does not know of secondary networks.
    pub(crate) fn without_kinds(server: Server, runtime: Kind) -> Self {
        let api = Api::new(&server.kubeconfig());
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let is_role = |document: &&str| document.contains("\nkind: ClusterRole\n");
        let shipped = MANIFEST.split("---\n").find(is_role).unwrap();
        // Under a name of its own, for a test may apply the manifest too.
        let role = shipped.replace("name: picket-pods\n", "name: agent\n");
        assert_ne!(role, shipped);
        api.create_yaml(&format!("{rbac}/clusterroles"), &role);
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "agent"},
            "subjects": [{"kind": "User", "apiGroup": group, "name": AGENT.1}],
            "roleRef": {"kind": "ClusterRole", "apiGroup": group, "name": "agent"},
        });
        api.create(&format!("{rbac}/clusterrolebindings"), &binding);
        let runtime = ContainerRuntime::start(runtime);
        Self {
            sandboxes: Runtime::at(SOCKET, &runtime.prefix()).unwrap(),
            server,
            api,
            runtime,
            switch: NetworkNamespace::create().unwrap(),
            networks: Vec::new(),
            has_bridges: false,
            agent: None,
            kubeconfig: None,
            folder: tempfile::tempdir().unwrap(),
            interfaces: 0,
            probed: BTreeMap::new(),
        }
    }

    /// The same with networks that are bridges.
    pub(crate) fn with_bridges(mut self) -> Self {
        self.has_bridges = true;
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        let kubeconfig = self.kubeconfig.clone();
        command
            .env("NODE_NAME", "node-1")
            .args(["agent", "--discovery-interval", "1"])
            .args(["--container-runtime-endpoint", SOCKET, "--host-prefix"])
            .arg(self.runtime.prefix())
            .arg("--kubeconfig")
            .arg(kubeconfig.unwrap_or_else(|| self.server.kubeconfig_of(AGENT.0)))
            .arg("--socket")
            .arg(self.folder.path().join("socket"))
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Starts the agent.
    pub(crate) fn start(&mut self, arguments: &[&str]) {
        self.start_by(self.command(arguments));
    }

    /// The same by another command.
    pub(crate) fn start_by(&mut self, command: Command) {
        self.spawn(command);
        self.until("an agent that knows the cluster", |_| true);
    }

    /// Starts the agent without waiting until it is ready.
    pub(crate) fn launch(&mut self, arguments: &[&str]) {
        self.spawn(self.command(arguments));
    }

    fn spawn(&mut self, mut command: Command) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_file())
            .unwrap();
        let agent = die_with_parent(&mut command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.agent = Some(agent.unwrap());
    }

    /// Runs the agent until it ends by itself; what it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the agent until it fails; the errors that it prints.
    pub(crate) fn run_in_vain(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        errors.into_owned()
    }

    /// Until this is dropped the agent does not hear of half of what the kernel has done for it.
    pub(crate) fn lose_answers(&self) -> LostAnswers {
        LostAnswers::of(self.agent.as_ref().unwrap().id(), Share::Half)
    }

    /// Ends the agent without order.
    pub(crate) fn kill(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            agent.kill().unwrap();
            agent.wait().unwrap();
        }
    }

    /// Asks the agent to end, which it does in order.
    pub(crate) fn stop_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        signal(agent.id(), "TERM");
        let status = agent.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }

    fn log_file(&self) -> std::path::PathBuf {
        self.folder.path().join("log")
    }

    /// What the agent has logged; nothing where it runs in a container.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Waits until something holds of an agent that is ready.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&PodsStatus) -> bool) -> PodsStatus {
        let status = self.until_status(what, |status| {
            status.ready && status.pods.as_ref().is_some_and(&holds)
        });
        status.pods.unwrap()
    }

    /// Waits until something holds of an agent, be it ready or not.
    pub(crate) fn until_status(&self, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
        let began = Instant::now();
        loop {
            let status = ask(&self.folder.path().join("socket")).ok();
            if let Some(status) = status.clone().filter(&holds) {
                return status;
            }
            if began.elapsed() > BOUND {
                panic!("{what} does not come about: {status:#?}\n{}", self.log());
            }
            sleep(PAUSE);
        }
    }

    /// What `picket status` says.
    pub(crate) fn status(&self, arguments: &[&str]) -> Ran {
        self.asked_by(&[&["status"], arguments].concat())
    }

    /// Runs a command of picket that asks agents, and has it ask this one.
    pub(crate) fn asked_by(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command
            .args(arguments)
            .arg("--socket")
            .arg(self.folder.path().join("socket"));
        command.output().unwrap().into()
    }

    /// Where the agent answers.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// What the agent answers to those who ask whether it is ready.
    pub(crate) fn readiness(&self) -> (u16, String) {
        get(&self.folder.path().join("socket"), "/readyz")
    }

    /// What `/metrics` says under a name, with its labels if it has some.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let (status, text) = get(&self.folder.path().join("socket"), "/metrics");
        assert_eq!(status, 200);
        value(&text, name)
    }

    /// What `/metrics` counts under a name with labels, which is not there before there is something to count.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let (_, text) = get(&self.folder.path().join("socket"), "/metrics");
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        count.map_or(0, |count| count.parse().unwrap())
    }

    /// How many proofs ended so.
    pub(crate) fn proofs(&self, outcome: &str) -> u64 {
        self.count(&format!("picket_verifications_total{{outcome=\"{outcome}\"}}"))
    }

    /// The objects with which something is wrong, as the agent says.
    pub(crate) fn findings(&self) -> Vec<String> {
        let status = ask(&self.folder.path().join("socket")).unwrap();
        status
            .findings
            .into_iter()
            .map(|finding| finding.object)
            .collect()
    }

    /// What is wrong with them, in its words.
    pub(crate) fn messages(&self) -> Vec<String> {
        let status = ask(&self.folder.path().join("socket")).unwrap();
        let findings = status.findings.into_iter();
        findings.map(|finding| finding.message).collect()
    }

    /// Waits until everything that is in the cluster is enforced.
    pub(crate) fn until_enforced(&self) -> PodsStatus {
        let kinds = [
            ("namespaces", "/api/v1/namespaces"),
            ("pods", "/api/v1/pods"),
            ("network-attachment-definitions.k8s.cni.cncf.io", KINDS[12].2),
            ("multi-networkpolicies.k8s.cni.cncf.io", KINDS[13].2),
        ];
        let versions = kinds.map(|(kind, path)| (kind, newest(&self.api, path)));
        self.until(&format!("{versions:?}"), |status| {
            versions.iter().all(|(kind, version)| {
                let enforced = status.versions.get(*kind);
                *version == 0 || enforced.is_some_and(|enforced| enforced.parse::<u64>().unwrap() >= *version)
            })
        })
    }

    pub(crate) fn namespace(&self, name: &str, labels: &Value) {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        self.api.create("/api/v1/namespaces", &object);
    }

    pub(crate) fn policy(&self, namespace: &str, name: &str, networks: &str, spec: &Value) {
        let path = format!("/apis/k8s.cni.cncf.io/v1beta1/namespaces/{namespace}/multi-networkpolicies");
        let annotations = json!({"k8s.v1.cni.cncf.io/policy-for": networks});
        self.api.create(
            &path,
            &json!({
                "apiVersion": "k8s.cni.cncf.io/v1beta1",
                "kind": "MultiNetworkPolicy",
                "metadata": {"name": name, "annotations": annotations},
                "spec": spec,
            }),
        );
    }

    /// Lets a policy deny, or only tell of what it would.
    pub(crate) fn set_mode(&self, namespace: &str, name: &str, mode: &str) {
        let path = format!("/apis/k8s.cni.cncf.io/v1beta1/namespaces/{namespace}/multi-networkpolicies");
        let fields = json!({"metadata": {"annotations": {"picket.dev/mode": mode}}});
        self.api.patch(&path, name, &fields);
    }

    pub(crate) fn delete_policy(&self, namespace: &str, name: &str) {
        let path = format!("/apis/k8s.cni.cncf.io/v1beta1/namespaces/{namespace}/multi-networkpolicies");
        self.api.delete(&path, name);
    }

    /// Defines a network of the namespace `default`.
    pub(crate) fn define(&self, name: &str, config: &str) {
        self.define_in("default", name, config);
    }

    /// Has the definition of a network of the namespace `default` say something else.
    pub(crate) fn redefine(&self, name: &str, config: &str) {
        self.redefine_in("default", name, config);
    }

    /// The same of any namespace.
    pub(crate) fn redefine_in(&self, namespace: &str, name: &str, config: &str) {
        let fields = json!({"spec": {"config": config}});
        self.api.patch(&definitions(namespace), name, &fields);
    }

    /// Defines a network.
    pub(crate) fn define_in(&self, namespace: &str, name: &str, config: &str) {
        self.api.create(
            &definitions(namespace),
            &json!({
                "apiVersion": "k8s.cni.cncf.io/v1",
                "kind": "NetworkAttachmentDefinition",
                "metadata": {"name": name},
                "spec": {"config": config},
            }),
        );
    }

    /// Runs a pod as the kubelet, the runtime and Multus do together.
    pub(crate) fn pod(
        &mut self,
        namespace: &str,
        name: &str,
        labels: &Value,
        interfaces: &[Interface<'_>],
    ) -> Pod {
        let uid = self.ask_for(namespace, name, labels, interfaces);
        self.sandbox(namespace, name, &uid, interfaces)
    }

    /// Creates the object of a pod; its uid.
    pub(crate) fn ask_for(
        &self,
        namespace: &str,
        name: &str,
        labels: &Value,
        interfaces: &[Interface<'_>],
    ) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let networks: Vec<_> = interfaces.iter().map(|interface| interface.network).collect();
        let mut ports = vec![json!({"name": "http", "containerPort": 8080})];
        let probed = self.probed.get(name);
        let called = |protocol| {
            probed.map(|port| json!({"name": "probe", "containerPort": port, "protocol": protocol}))
        };
        ports.extend(called("UDP"));
        let mut containers = vec![json!({"name": "main", "image": "main", "ports": ports})];
        // No container has two ports of one name.
        containers
            .extend(called("TCP").map(|port| json!({"name": "second", "image": "main", "ports": [port]})));
        let created = self.api.try_create(
            &path,
            &json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": {"k8s.v1.cni.cncf.io/networks": networks.join(",")},
                },
                "spec": {
                    "nodeName": "node-1",
                    "containers": containers,
                },
            }),
        );
        let created = created.unwrap();
        created["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Runs a sandbox of a pod that is there, and says so in its status.
    pub(crate) fn sandbox(
        &mut self,
        namespace: &str,
        name: &str,
        uid: &str,
        interfaces: &[Interface<'_>],
    ) -> Pod {
        let id = self.runtime.run_pod(namespace, name, uid);
        let pod = self.attached(name, id, interfaces);
        self.tell(namespace, name, interfaces);
        pod
    }

    /// Gives the sandbox of a pod its interfaces.
    pub(crate) fn attached(&mut self, name: &str, id: String, interfaces: &[Interface<'_>]) -> Pod {
        // The connection may be one to a daemon that has ended since.
        let sandboxes = self.sandboxes.sandboxes();
        let sandboxes = sandboxes.or_else(|_| self.sandboxes.sandboxes()).unwrap();
        let sandbox = sandboxes
            .iter()
            .find(|sandbox| sandbox.id.as_str() == id)
            .unwrap();
        let inside = self.sandboxes.namespace(sandbox).unwrap();
        for interface in interfaces {
            self.attach(&inside, interface);
        }
        let addresses = interfaces.iter().flat_map(|interface| interface.addresses);
        let addresses = addresses.map(|text| text.split('/').next().unwrap().parse().unwrap());
        Pod {
            name: name.to_owned(),
            sandbox: id,
            inside,
            addresses: addresses.collect(),
        }
    }

    /// Says in the status of a pod which interfaces it has.
    pub(crate) fn tell(&self, namespace: &str, name: &str, interfaces: &[Interface<'_>]) {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        // As Multus writes it, with the interface on the cluster network first.
        let mut status = vec![
            json!({"name": "cluster", "interface": "eth0", "ips": ["10.123.0.2"],
            "mac": "0a:58:0a:7b:00:02", "default": true, "dns": {}}),
        ];
        status.extend(interfaces.iter().zip(3..).map(|(interface, number)| {
            let ips: Vec<_> = interface
                .addresses
                .iter()
                .map(|text| text.split('/').next())
                .collect();
            json!({"name": interface.network, "interface": interface.name, "ips": ips,
                "mac": format!("0a:58:0a:7b:00:{number:02x}"), "dns": {}})
        }));
        let annotations = json!({"k8s.v1.cni.cncf.io/network-status": json!(status).to_string()});
        self.api
            .patch(&path, name, &json!({"metadata": {"annotations": annotations}}));
        let host = json!({"phase": "Running", "podIP": "10.123.0.2", "podIPs": [{"ip": "10.123.0.2"}]});
        self.api.set_status(&path, name, &host);
    }

    /// Writes a file that lives as long as the node; its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Stops the sandbox of a pod, whose interfaces go as their plugin sees to.
    pub(crate) fn stop(&self, pod: &Pod) {
        ip(&pod.inside, "link delete net1");
        self.runtime.remove_pod(&pod.sandbox);
    }

    /// Waits until the agent knows of no sandbox of a pod that was stopped.
    pub(crate) fn until_gone(&self, pod: &Pod) {
        self.until("a sandbox less", |status| {
            status
                .sandboxes
                .iter()
                .all(|sandbox| sandbox.sandbox != pod.sandbox)
        });
    }

    /// Gives a pod an interface on a network.
    pub(crate) fn attach(&mut self, inside: &NetworkNamespace, interface: &Interface<'_>) {
        let network = self.network(interface);
        self.interfaces += 1;
        let link = format!("pod{}", self.interfaces);
        let (place, name) = (place_of(inside), interface.name);
        if self.has_bridges {
            for change in [
                format!("link add {link} type veth peer name {name} netns {place}"),
                format!("link set {link} master {network} up"),
            ] {
                ip(&self.switch, &change);
            }
        } else {
            let kind = "type macvlan mode bridge";
            ip(
                &self.switch,
                &format!("link add link {network} name {link} {kind}"),
            );
            ip(&self.switch, &format!("link set {link} netns {place}"));
            ip(inside, &format!("link set {link} name {name}"));
        }
        for address in interface.addresses {
            let (family, nodad) = match address.contains(':') {
                true => ("-6", "nodad"),
                false => ("-4", ""),
            };
            ip(
                inside,
                &format!("{family} address add {address} dev {name} {nodad}"),
            );
        }
        ip(inside, &format!("link set {name} up"));
    }

    /// The bridge or the cable of the network of an interface.
    fn network(&mut self, interface: &Interface<'_>) -> String {
        let (_, cable) = interface.network.split_once('/').unwrap();
        if let Some(number) = self.networks.iter().position(|known| known == cable) {
            return format!("net{number}");
        }
        let number = self.networks.len();
        self.networks.push(cable.to_owned());
        let (link, end) = (format!("net{number}"), format!("end{number}"));
        if self.has_bridges {
            ip(&self.switch, &format!("link add {link} type bridge"));
        } else {
            ip(
                &self.switch,
                &format!("link add {link} type veth peer name {end}"),
            );
            ip(&self.switch, &format!("link set {end} up"));
        }
        ip(&self.switch, &format!("link set {link} up"));
        link
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
