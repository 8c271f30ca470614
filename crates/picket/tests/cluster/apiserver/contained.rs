//! Agents as containers of real runtimes, as the manifests ask for them: with the one file of their image, the mounts, capabilities and
//! system calls that they are given, and the account of their pod.

mod others;
mod without;

use std::fs::{self, DirEntry};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use picket_linux::NetworkNamespace;
use picket_testing::apiserver::AGENT;
use picket_testing::machine;
use picket_testing::runtime::{Container, Kind, Mount, SOCKET};
use picket_testing::with_each_runtime;
use serde_json::{Value, json};

use crate::agents::port_of;
use crate::apiserver::alone::program;
use crate::apiserver::chart::rendered;
use crate::apiserver::deploy::{
    Applied, MANIFEST, apply, asked, audited, expect_probes, expect_rights, path_of, token,
};
use crate::apiserver::secondary::simple;
use crate::objects::{KINDS, define, pod, policy};
use crate::pods::{Node, Pod, Pods, expect, ip, place_of, table};
use crate::proxy::Proxy;

with_each_runtime!(
    on_a_node_what_is_shipped_is_enough,
    for_pods_what_is_shipped_is_enough_and_nothing_of_it_is_too_much,
);

/// Where the image has the program.
const PROGRAM: &str = "/usr/bin/picket";

/// Where it has it under the name of the program that picket replaces.
const OTHER: &str = "/multi-networkpolicy-nftables";

/// Where kubelets mount what shows the account of a pod.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Where agents have their socket.
const SOCKETS: &str = "/run/picket";

/// The capabilities that agents are given, and their numbers.
const CAPABILITIES: [(&str, u64); 3] = [("NET_ADMIN", 12), ("SYS_PTRACE", 19), ("SYS_ADMIN", 21)];

/// An agent in a container.
struct Contained {
    /// The network of its node.
    network: NetworkNamespace,
    /// The container.
    id: String,
    /// What it was to be.
    container: Container,
}

impl Contained {
    /// Starts the agent of a manifest that was applied, on the node, and waits until it is ready.
    fn start(node: &Node, kind: Kind, applied: &Applied, name: &str) -> Self {
        let pod = &applied["DaemonSet"]["spec"]["template"]["spec"];
        assert_eq!(pod["hostNetwork"], true);
        let config = applied.get("ConfigMap").unwrap_or(&Value::Null);
        let contained = Self::run(node, name, asked_for(node, pod, config, &[]));
        contained.await_agent(node, kind);
        expect_probes(&contained.network, &pod["containers"][0]);
        contained
    }

    /// Waits until an agent is ready, and holds that it may do no more than it is to, and that all is well.
    fn await_agent(&self, node: &Node, kind: Kind) {
        symlink(node.folder.path().join("socket-folder/agent.sock"), node.socket()).unwrap();
        node.until_status("an agent that is ready", |status| status.ready);
        self.expect_restricted(kind, "agent");
        self.expect_answers(node);
        expect_calm(node);
    }

    /// Runs an agent on the node, with the program of the image and what kubelets give to every container of an account.
    fn run(node: &Node, account: &str, container: Container) -> Self {
        let network = network_of(node);
        let container = with_account(node, &network, account, container);
        let runtime = &node.runtime;
        let id = runtime.run_container("kube-system", account, "uid-of-the-agent", &container);
        Self {
            network,
            id,
            container,
        }
    }

    /// Asks it to end, as kubelets do, and has the next one do one thing, as the init container of `deploy/cleanup.yaml`; until it has printed what.
    fn replace(mut self, node: &Node, argument: &str, told: &str) {
        assert_eq!(node.runtime.stop_container(&self.id), 0);
        node.runtime.remove_container(&self.id);
        self.container.command.push(argument.to_owned());
        let runtime = &node.runtime;
        runtime.run_container("kube-system", "next", "uid-of-the-next", &self.container);
        while !runtime.printed().contains(told) {}
    }

    /// Holds that what runs may do no more than it is to. What the kernel says of it.
    fn expect_restricted(&self, kind: Kind, does: &str) -> String {
        let seccomp = match kind {
            // A filter of system calls.
            Kind::Containerd | Kind::Containerd2 => "2",
            // Without libraries in C it is built without one.
            Kind::Crio | Kind::CrioWithProcesses => "0",
        };
        let of_process = |process: &DirEntry| {
            let command = fs::read(process.path().join("cmdline")).ok()?;
            let network = fs::metadata(process.path().join("ns/net")).ok()?;
            let is_own = command.starts_with(format!("{PROGRAM}\0{does}\0").as_bytes());
            let read = |file: &str| fs::read_to_string(process.path().join(file));
            // Not every kernel has profiles.
            let both = || Some((read("status").ok()?, read("attr/current").unwrap_or_default()));
            (is_own && is(&self.network, &network)).then(both)?
        };
        let processes = fs::read_dir("/proc").unwrap().map(Result::unwrap);
        let statuses: Vec<_> = processes.filter_map(|process| of_process(&process)).collect();
        let [(status, profile)] = statuses.as_slice() else {
            panic!("{statuses:?}")
        };
        if machine::is_here() {
            let expected = match self.container.security["appArmorProfile"]["type"].as_str() {
                Some("Unconfined") => "unconfined",
                _ => "cri-containerd.apparmor.d (enforce)",
            };
            assert_eq!(profile.trim(), expected);
        }
        let field = |name: &str| {
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.unwrap().trim().to_owned()
        };
        let capabilities = self.container.security["capabilities"]["add"].as_array();
        let numbers = capabilities.into_iter().flatten().map(|name| {
            let mut known = CAPABILITIES.iter();
            1 << known.find(|(known, _)| name == known).unwrap().1
        });
        let expected = format!("{:016x}", numbers.fold(0_u64, std::ops::BitOr::bitor));
        for (name, expected) in [
            ("CapEff", expected.as_str()),
            ("CapBnd", &expected),
            ("NoNewPrivs", "1"),
            ("Seccomp", seccomp),
        ] {
            assert_eq!(field(name), expected, "{name}: {status}");
        }
        status.clone()
    }

    /// Holds that who looks for the agent in its container finds it there.
    fn expect_answers(&self, node: &Node) {
        for (command, part) in [
            (&["picket", "status"][..], "node node-1"),
            (&["picket", "--version"], env!("CARGO_PKG_VERSION")),
        ] {
            let (status, printed) = node.runtime.execute(&self.id, command);
            assert!(status == 0 && printed.contains(part), "{status}: {printed}");
        }
    }
}

/// The network of a node.
fn network_of(node: &Node) -> NetworkNamespace {
    NetworkNamespace::from(OwnedFd::from(node.runtime.network()))
}

/// A container with the program of the image, and with what kubelets give to every container of an account.
fn with_account(
    node: &Node,
    network: &NetworkNamespace,
    account: &str,
    mut container: Container,
) -> Container {
    let port = port_of(&node.server.kubeconfig());
    Proxy::from(network, port);
    let server = [
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
        ("KUBERNETES_SERVICE_PORT", port.to_string()),
    ];
    let server = server.map(|(name, value)| (name.to_owned(), value));
    container.environment.extend(server);
    container.mounts.extend(own_mounts(node, account));
    container
}

/// Whether a file is this namespace.
fn is(namespace: &NetworkNamespace, file: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = fs::metadata(place_of(namespace)).unwrap();
    (own.dev(), own.ino()) == (file.dev(), file.ino())
}

/// The only container of a pod that a manifest asks for. Files of the node, and secrets, are where `places` says.
fn asked_for(node: &Node, pod: &Value, config: &Value, places: &[(&str, PathBuf)]) -> Container {
    let asked = &pod["containers"][0];
    let words = asked["args"].as_array().unwrap().iter();
    let words = words.map(|word| word.as_str().unwrap().to_owned());
    Container {
        command: [PROGRAM.to_owned()].into_iter().chain(words).collect(),
        environment: environment(asked),
        mounts: mounts(node, pod, config, places),
        security: asked["securityContext"].clone(),
        of_pod: pod["securityContext"].clone(),
        ..Container::default()
    }
}

/// The environment of a container, with that of the image.
fn environment(container: &Value) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let asked = container["env"].as_array().into_iter().flatten();
    let asked = asked.map(|variable| {
        let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            Some("spec.nodeName") => "node-1".to_owned(),
            Some(other) => panic!("{other}"),
            None => word(&variable["value"]),
        };
        (word(&variable["name"]), value)
    });
    let of_image = ("PATH".to_owned(), "/usr/bin".to_owned());
    [of_image].into_iter().chain(asked).collect()
}

/// What a manifest has kubelets mount.
fn mounts(node: &Node, pod: &Value, config: &Value, places: &[(&str, PathBuf)]) -> Vec<Mount> {
    let folder = node.folder.path();
    let asked = pod["containers"][0]["volumeMounts"].as_array().unwrap().iter();
    let asked = asked.map(|mount| {
        let mut volumes = pod["volumes"].as_array().unwrap().iter();
        let volume = volumes.find(|volume| volume["name"] == mount["name"]).unwrap();
        let to = mount["mountPath"].as_str().unwrap();
        let (read_only, follows) = (
            mount["readOnly"] == true,
            mount["mountPropagation"] == "HostToContainer",
        );
        let of_node = volume["hostPath"]["path"].as_str();
        let from = match of_node.or_else(|| volume["secret"]["secretName"].as_str()) {
            Some(named) => {
                assert!(read_only && named != "/", "{mount}");
                let place = places.iter().find(|(known, _)| *known == named);
                place.map_or_else(|| named.into(), |(_, place)| place.clone())
            }
            None if volume["emptyDir"].is_object() => {
                assert_eq!(to, SOCKETS);
                with_files(folder.join("socket-folder"), Vec::new())
            }
            None => {
                let files = config["data"].as_object().unwrap().iter();
                let files = files.map(|(name, text)| (name.clone(), text.as_str().unwrap().to_owned()));
                with_files(folder.join("rules"), files.collect())
            }
        };
        Mount {
            from,
            to: to.to_owned(),
            read_only,
            follows,
        }
    });
    asked.collect()
}

/// The program, and what shows the account.
fn own_mounts(node: &Node, account: &str) -> Vec<Mount> {
    let shown = [
        ("token", token(&node.api, account)),
        ("ca.crt", fs::read_to_string(node.server.authority()).unwrap()),
        ("namespace", "kube-system".to_owned()),
    ];
    let shown = shown.map(|(name, text)| (name.to_owned(), text));
    let account = with_files(node.folder.path().join("account"), shown.to_vec());
    let own = [(program(), PROGRAM), (program(), OTHER), (account, ACCOUNT)];
    let own = own.map(|(from, to)| Mount {
        from,
        to: to.to_owned(),
        read_only: true,
        follows: false,
    });
    own.into()
}

/// A folder with files.
fn with_files(folder: PathBuf, files: Vec<(String, String)>) -> PathBuf {
    fs::create_dir(&folder).unwrap();
    for (name, text) in files {
        fs::write(Path::new(&folder).join(name), text).unwrap();
    }
    folder
}

/// Pods of the cluster network, which the node routes between.
fn routed(network: &NetworkNamespace) -> Pods {
    network.set(&[("ipv4/ip_forward", "1")]).unwrap();
    let pods = ["a", "b", "c"].iter().zip(1..);
    let pods = pods.map(|(name, number)| {
        let inside = NetworkNamespace::create().unwrap();
        let (link, address) = (format!("pod-{name}"), format!("10.124.0.{number}"));
        let place = place_of(&inside);
        ip(
            network,
            &format!("link add {link} type veth peer name eth0 netns {place}"),
        );
        ip(network, &format!("link set {link} up"));
        ip(network, &format!("address add 10.124.1.1/32 dev {link}"));
        ip(network, &format!("route add {address}/32 dev {link}"));
        ip(&inside, "link set eth0 up");
        ip(&inside, &format!("address add {address}/32 dev eth0"));
        ip(&inside, "route add 10.124.1.1/32 dev eth0");
        ip(&inside, "route add default via 10.124.1.1 dev eth0");
        let pod = Pod {
            name: (*name).to_owned(),
            sandbox: String::new(),
            inside,
            addresses: vec![address.parse::<IpAddr>().unwrap()],
        };
        ((*name).to_owned(), pod)
    });
    pods.collect()
}

pub(super) fn on_a_node_what_is_shipped_is_enough(kind: Kind) {
    let node = Node::with(kind);
    KINDS[14..].iter().for_each(|kind| define(&node.api, *kind));
    let applied = apply(&node.api, MANIFEST);
    let agent = Contained::start(&node, kind, &applied, "picket-agent");
    let pods = routed(&agent.network);
    for (name, routed) in &pods {
        pod(
            &node.api,
            "default",
            name,
            &routed.addresses[0].to_string(),
            &json!({}),
        );
    }
    let from_a = json!([{"from": [{"podSelector": {"matchLabels": {"app": "a"}}}]}]);
    let spec = json!({"podSelector": {"matchLabels": {"app": "c"}}, "ingress": from_a});
    node.until_status("the pods", |status| status.host.pods.all == 3);
    expect(&pods, &["a->c b->c c->a"], true, "without a policy");
    policy(&node.api, "default", "from-a", &spec);
    node.until_status("the policy", |status| status.host.policies.len() == 1);
    expect(&pods, &["b->c"], false, "with a policy");
    expect(&pods, &["a->c c->a c->b"], true, "with a policy");
    let (status, told) = node
        .runtime
        .execute(&agent.id, &["picket", "trace", "default/b", "default/c", "5555"]);
    assert!(
        status == 0 && told.contains("the kernel does drop, as they say"),
        "{told}"
    );
    assert!(!node.runtime.printed().is_empty());
    expect_calm(&node);
    assert_eq!(node.runtime.stop_container(&agent.id), 0);
    expect(&pods, &["b->c"], false, "when the agent has ended");
    expect(&pods, &["a->c c->a c->b"], true, "when the agent has ended");
}

/// Holds that the agent complains of nothing, in JSON.
fn expect_calm(node: &Node) {
    let printed = node.runtime.printed();
    // A runtime puts the time and the stream before each line.
    let lines = printed.lines().filter_map(|line| Some(&line[line.find('{')?..]));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    // What policies deny is told as news too.
    let calm = lines.iter().all(|line| line["level"] == "INFO");
    assert!(calm, "{printed}");
}

pub(super) fn for_pods_what_is_shipped_is_enough_and_nothing_of_it_is_too_much(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let (server, audit) = audited(folder.path(), &[AGENT]);
    let mut node = Node::of(server, kind);
    let values = [
        "mode=pods",
        &format!("pods.containerRuntimeEndpoint={SOCKET}"),
        "pods.customRules.v4-ingress=ip saddr 2.2.5.14 accept",
        "pods.customRules.v6-ingress=ip6 saddr 2001:db8::14 accept",
    ];
    let applied = apply(&node.api, &rendered(&values));
    let agent = Contained::start(&node, kind, &applied, "picket-pods");
    // What is mounted on the node from now on, namespaces among it, the agent must see.
    let pods = simple(&mut node);
    expect(&pods, &["a->server"], true, "without a policy");
    let spec = json!({"podSelector": {"matchLabels": {"name": "server"}}, "ingress": []});
    node.policy("default", "nobody", "default/net", &spec);
    node.until_enforced();
    expect(&pods, &["a->server"], false, "with a policy");
    expect(
        &pods,
        &["server->a c->server"],
        true,
        "with a policy and a custom rule",
    );
    let asking = ["picket", "trace", "default/a", "default/server", "5555"];
    let (status, told) = node.runtime.execute(&agent.id, &asking);
    assert!(
        status == 0 && told.contains("input of net1 in default/server"),
        "{told}"
    );
    // Of what cannot be enforced there is an event.
    node.policy(
        "default",
        "wrong",
        "default/net",
        &json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "everywhere"}}]}]}),
    );
    node.until("an event", |_| {
        let asked = asked(&audit, "picket-pods");
        asked.iter().any(|(_, resource, _)| resource == "events")
    });
    expect_rights(&audit, "picket-pods", &applied["ClusterRole"]);
    // The way back: rules stay when it ends, and go when that is asked.
    assert!(!table(&pods["server"]).is_empty());
    agent.replace(
        &node,
        "--cleanup",
        "removed table `inet multi_networkpolicy` from ",
    );
    assert_eq!(table(&pods["server"]), "");
    expect(&pods, &["a->server"], true, "in the end");
}

/// Who multi-networkpolicy-nftables is, and what it may do, as its manifest has it.
fn account_of_the_other(node: &Node) {
    let rbac = "rbac.authorization.k8s.io";
    let read = json!(["get", "list", "watch"]);
    let rules = json!([
        {"apiGroups": ["k8s.cni.cncf.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods", "pods/status", "namespaces"], "verbs": read},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": read},
    ]);
    let subjects = json!([{"kind": "ServiceAccount", "name": "other", "namespace": "kube-system"}]);
    let role = json!({"apiGroup": rbac, "kind": "ClusterRole", "name": "other"});
    for (kind, more) in [
        ("ServiceAccount", json!({"apiVersion": "v1"})),
        (
            "ClusterRole",
            json!({"apiVersion": format!("{rbac}/v1"), "rules": rules}),
        ),
        (
            "ClusterRoleBinding",
            json!({"apiVersion": format!("{rbac}/v1"), "subjects": subjects, "roleRef": role}),
        ),
    ] {
        let mut object = more;
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "other"});
        node.api.create(&path_of(kind), &object);
    }
}

/// Its container, but for where the runtime is: with all rights, and all of the node, whose name is that of the machine.
fn container_of_the_other() -> Container {
    let command = [
        OTHER,
        "--host-prefix=/host",
        "--container-runtime-endpoint",
        SOCKET,
        "-network-plugins=macvlan",
        "--zap-log-level=1",
    ];
    Container {
        command: command.map(str::to_owned).into(),
        mounts: vec![Mount {
            from: "/".into(),
            to: "/host".to_owned(),
            read_only: false,
            follows: false,
        }],
        security: json!({"privileged": true, "capabilities": {"add": ["SYS_ADMIN", "NET_ADMIN"]}}),
        ..Container::default()
    }
}

#[test]
fn in_the_place_of_another_program_what_that_has_is_enough() {
    // Not everybody who tests has all rights that CRI-O would give.
    let mut node = Node::with(Kind::Containerd);
    account_of_the_other(&node);
    let agent = Contained::run(&node, "other", container_of_the_other());
    let pods = simple(&mut node);
    let spec = json!({"podSelector": {"matchLabels": {"name": "server"}}, "ingress": [{"from": [
        {"podSelector": {"matchLabels": {"name": "a"}}},
    ]}]});
    expect(&pods, &["a->server b->server"], true, "without a policy");
    node.policy("default", "from-a", "default/net", &spec);
    let policy = "MultiNetworkPolicy default/from-a";
    let in_force = || {
        node.runtime
            .execute(&agent.id, &[PROGRAM, "status"])
            .1
            .contains(policy)
    };
    while !in_force() {}
    expect(&pods, &["b->server"], false, "with a policy");
    expect(&pods, &["a->server"], true, "with a policy");
}
