//! A Neutron, a folder of manifests, and a controller between them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use picket_cluster::{Addresses, Endpoint, Flow, Pod, Semantics, Snapshot};
use picket_controller::{
    Cloud, ControllerError, Ended, Extent, Failure, Gate, InstalledNeutron, Neutron, NeutronDone,
    NeutronSettings, NeutronState, NeutronStep, Plan, Settings, Timing, Wanted, run,
};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_neutron::client::{
    Auth, Backoff, Cloud as At, Domain, Options as ClientOptions, Person, Project, Secret, User,
};
use picket_neutron::meaning::Meaning;
use picket_neutron::plan::{ForeignGroups, InstalledRule, RuleFields, prefix};
use picket_neutron::verify::Report;
use picket_neutron::{AddressGroup, Name, Objects, Options, Port, SecurityGroup};
use picket_node::{Listen, Source};
use picket_policy::ObjectRef;
use picket_source::{Directory, Text, load_texts};
use picket_testing::faults::Proxy;
use picket_testing::flows::representative_flows;
use picket_testing::manifest::{self, Style};
use picket_testing::neutron::Neutron as Server;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long one call may take: only a server that says nothing takes as long.
const CALL: Duration = Duration::from_secs(60);

/// How many flows are looked at.
const MOST: usize = 500;

/// How many ports are made by one call.
const AT_ONCE: usize = 100;

/// A Neutron, a folder of manifests, and what is between.
pub(crate) struct Scene {
    pub(crate) server: Rc<Server>,
    pub(crate) proxy: Proxy,
    pub(crate) neutron: NeutronSettings,
    /// What is asked through the proxy.
    cloud: At,
    /// Of what cluster pods get ports before these are looked for again.
    pub(crate) late: RefCell<Option<Snapshot>>,
    networks: [String; 2],
    pub(crate) folder: TempDir,
}

/// What passed while a controller was at it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What the steps were, in order.
    pub(crate) steps: Vec<String>,
    /// What passed after a step that passed neither before nor in the end.
    pub(crate) moments: Vec<(String, Passing)>,
    /// What was to be said besides, at last.
    pub(crate) notes: Vec<String>,
}

/// The flows that pass.
pub(crate) type Passing = BTreeSet<usize>;

impl Scene {
    pub(crate) fn new() -> Self {
        Self::of(Server::start(), At::open)
    }

    /// The same, where Neutron wants tokens of a Keystone.
    pub(crate) fn with_keystone() -> Self {
        let server = Server::start_with_keystone(3600);
        let url = server.identity();
        let name = || "admin".to_owned();
        let domain = || Domain::Name("Default".to_owned());
        let (user, project) = (
            Person::Name {
                name: name(),
                domain: domain(),
            },
            Project::Name {
                name: name(),
                domain: domain(),
            },
        );
        let password = Secret::new("secret");
        Self::of(server, |endpoint| At {
            auth: Auth::Keystone {
                url,
                user: User::Password { user, password },
                project: Some(project),
            },
            endpoint: Some(endpoint.to_owned()),
            ..At::open("")
        })
    }

    fn of(server: Server, cloud: impl FnOnce(&str) -> At) -> Self {
        let subnets = ["10.0.0.0/8", "fd00::/16"];
        // Where two ports have one address, they are in two networks.
        let networks = [(); 2].map(|()| server.create_network(&subnets));
        Self::with(Rc::new(server), networks, cloud)
    }

    /// Another cluster with the same Neutron.
    pub(crate) fn beside(&self, cluster: &str) -> Self {
        let mut other = Self::with(Rc::clone(&self.server), self.networks.clone(), At::open);
        other.neutron.cluster = cluster.into();
        other
    }

    fn with(server: Rc<Server>, networks: [String; 2], cloud: impl FnOnce(&str) -> At) -> Self {
        let proxy = Proxy::to(server.port());
        Self {
            cloud: cloud(&proxy.endpoint()),
            proxy,
            server,
            neutron: neutron_settings(),
            late: RefCell::default(),
            networks,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// What groups depend on besides the policies.
    fn options(&self) -> Options {
        Options {
            cluster: self.neutron.cluster.clone(),
            ..Options::default()
        }
    }

    /// The cluster as manifests say it.
    pub(crate) fn written(&self, snapshot: &Snapshot) -> Snapshot {
        let text = manifest::file(snapshot, &mut Style::new(1));
        // Nobody reads half of it.
        let unfinished = self.folder.path().join("unfinished");
        fs::write(&unfinished, &text).unwrap();
        fs::rename(&unfinished, self.folder.path().join("cluster.yaml")).unwrap();
        let text = Text {
            name: "cluster.yaml".into(),
            bytes: text.into_bytes(),
        };
        // As the controller reads them.
        load_texts(&[text], picket_policy::Options::default()).snapshot
    }

    /// Gives a port without groups to each pod that has none, and takes those of pods that are gone.
    pub(crate) fn give_ports(&self, snapshot: &Snapshot) {
        self.give_ports_with(snapshot, |_| Vec::new());
    }

    /// The same, and each new port has the groups of these ids.
    pub(crate) fn give_ports_with(&self, snapshot: &Snapshot, groups: impl Fn(&ObjectRef) -> Vec<String>) {
        let mut wanted = BTreeMap::new();
        for pod in snapshot.live_pods().filter(|pod| has_port(pod)) {
            let name = format!("{}/{}", pod.object.namespace, pod.object.name);
            let addresses: BTreeSet<IpAddr> = pod.addresses.iter().collect();
            wanted.insert(name, (addresses, &pod.object));
        }
        for port in self.server.list("ports") {
            let name = port["name"].as_str().unwrap();
            let addresses = addresses(&port);
            if wanted.get(name).is_some_and(|(wanted, _)| *wanted == addresses) {
                wanted.remove(name);
            } else {
                let id = port["id"].as_str().unwrap();
                self.server.ask("DELETE", &format!("ports/{id}"), &Value::Null);
            }
        }
        let wanted: Vec<_> = wanted.into_iter().collect();
        let ports = |network: &str, of: &[(String, (BTreeSet<IpAddr>, &ObjectRef))]| -> Vec<Value> {
            let ports = of.iter().map(|(name, (addresses, pod))| {
                let fixed: Vec<_> = addresses.iter().map(|ip| json!({"ip_address": ip})).collect();
                json!({"network_id": network, "name": name, "fixed_ips": fixed, "security_groups": groups(pod)})
            });
            ports.collect()
        };
        let give = |network: &str, of: &[_]| {
            let ports = json!({"ports": ports(network, of)});
            self.server.try_ask("POST", "ports", &ports).status == 201
        };
        let [first, second] = &self.networks;
        for some in wanted.chunks(AT_ONCE) {
            // Of several with one address in one call none is made.
            let each =
                |one| give(first, std::slice::from_ref(one)) || give(second, std::slice::from_ref(one));
            let is_done = give(first, some) || some.iter().all(each);
            assert!(is_done, "no port for one of {some:?}: {}", self.server.log());
        }
    }

    /// Lets a controller make Neutron what a cluster says, once.
    pub(crate) fn sync(&self) -> Result<Seen, ControllerError> {
        self.sync_seen(&[], &Snapshot::default())
    }

    /// The same, and looks after each step which of these flows pass.
    pub(crate) fn sync_seen(&self, flows: &[Flow], snapshot: &Snapshot) -> Result<Seen, ControllerError> {
        let (seen, result) = self.sync_watched(flows, snapshot);
        result.map(|()| seen)
    }

    /// The same also where it fails.
    pub(crate) fn sync_watched(
        &self,
        flows: &[Flow],
        snapshot: &Snapshot,
    ) -> (Seen, Result<(), ControllerError>) {
        let seen = Rc::<RefCell<Seen>>::default();
        let at_once = if flows.is_empty() { 8 } else { 1 };
        let mut settings = settings(self.folder.path(), self.neutron.options.timeout, at_once);
        settings.options = self.options();
        let connect = |gate| {
            Ok(Watched {
                neutron: self.connect(gate),
                scene: self,
                look: Box::new(|| match flows.is_empty() {
                    true => Passing::new(),
                    false => passing(&self.objects(), flows, snapshot),
                }),
                seen: Rc::clone(&seen),
            })
        };
        let ended = run(&settings, Extent::Once, connect);
        let ended = ended.map(|ended| assert_eq!(ended, Ended::Done));
        (Rc::try_unwrap(seen).unwrap().into_inner(), ended)
    }

    fn connect(&self, gate: Gate) -> Neutron {
        Neutron::new(self.cloud.clone(), self.neutron.clone(), gate).unwrap()
    }

    /// The calls that changed something since they were asked for last, as `PUT ports 200`.
    pub(crate) fn writes(&self) -> Vec<String> {
        let words = self.proxy.words().into_iter();
        words.filter(|word| !word.starts_with("GET ")).collect()
    }

    /// What the API returns: ids in the place of names, and of ports those that groups count for.
    pub(crate) fn objects(&self) -> Objects {
        let mut objects = Objects::default();
        for group in self.server.list("security-groups") {
            let rules = group["security_group_rules"].as_array().unwrap().iter();
            let rules = rules.map(|rule| match read(rule) {
                InstalledRule::Known(rule) => rule,
                InstalledRule::Other(_) => panic!("a strange rule: {rule}"),
            });
            let kept = SecurityGroup {
                rules: rules.collect(),
                ..SecurityGroup::default()
            };
            objects.security_groups.insert(text(&group, "id"), kept);
        }
        for group in self.server.list("address-groups") {
            let all = group["addresses"].as_array().unwrap().iter();
            let kept = AddressGroup {
                addresses: all.map(|one| prefix(one.as_str().unwrap()).unwrap()).collect(),
            };
            objects.address_groups.insert(text(&group, "id"), kept);
        }
        for port in self.server.list("ports") {
            let name = text(&port, "name");
            let Some((namespace, name)) = name.split_once('/') else {
                continue;
            };
            let groups = port["security_groups"].as_array().unwrap().iter();
            let kept = Port {
                fixed_ips: addresses(&port),
                security_groups: groups.map(|id| id.as_str().unwrap().into()).collect(),
            };
            if port["port_security_enabled"] == json!(true) {
                objects.ports.insert(ObjectRef::new("Pod", namespace, name), kept);
            }
        }
        objects
    }

    /// Makes Neutron what a cluster says, and holds what it returns against the specification; the calls that changed something.
    #[track_caller]
    pub(crate) fn goes_to(&self, snapshot: &Snapshot) -> Vec<String> {
        let snapshot = self.written(snapshot);
        self.give_ports(&snapshot);
        let seen = self.sync().unwrap();
        self.expect(&snapshot);
        let writes = self.writes();
        let again = self.sync().unwrap();
        assert_eq!(again.steps, Vec::<String>::new(), "after {:#?}", seen.steps);
        assert_eq!(self.writes(), Vec::<String>::new());
        writes
    }

    /// What the API returns means what the specification says.
    #[track_caller]
    pub(crate) fn expect(&self, snapshot: &Snapshot) {
        self.expect_of(&some(snapshot, MOST), snapshot);
    }

    /// The same for these flows.
    #[track_caller]
    pub(crate) fn expect_of(&self, flows: &[Flow], snapshot: &Snapshot) {
        let objects = self.objects();
        let passing = passing(&objects, flows, snapshot);
        let unsure = unsure(snapshot);
        for (at, flow) in flows.iter().enumerate() {
            let allowed = picket_reference::judge(snapshot, &Semantics::default(), flow)
                .verdict()
                .is_allow();
            let ends = [&flow.source, &flow.destination].map(|at| end(snapshot, at, flow).0);
            let passes = passing.contains(&at);
            // Where several have one address, or nobody knows the right one, less passes.
            let is_right = passes == allowed || allowed && ends.iter().any(|end| unsure.contains(end));
            let said = || fs::read_to_string(self.folder.path().join("cluster.yaml")).unwrap();
            assert!(is_right, "{flow:?} passes: {passes}\n{}\n{objects:#?}", said());
        }
        let report = self.verified(snapshot);
        assert!(report.is_proof(), "{report:#?}\n{objects:#?}");
    }

    /// What `picket verify --live` finds.
    pub(crate) fn verified(&self, snapshot: &Snapshot) -> Report {
        // Nobody has the addresses that were made up.
        let mut snapshot = snapshot.clone();
        for pod in snapshot.pods.values_mut().filter(|pod| pod.synthetic) {
            Arc::make_mut(pod).addresses = Addresses::default();
        }
        let engine = Engine::compile(&snapshot, Semantics::default());
        let installed = InstalledNeutron::read(|gate| Ok(self.connect(gate))).unwrap();
        let ports = installed.ports(engine.program());
        installed.verify(&ports, engine.program(), &self.options(), 10)
    }

    /// The id of a group of this name.
    pub(crate) fn group(&self, name: &str) -> String {
        let groups = self.server.list("security-groups");
        let found = groups.iter().find(|group| group["name"] == name);
        text(found.unwrap_or_else(|| panic!("no group {name}")), "id").to_string()
    }

    /// The id of the port of a pod.
    pub(crate) fn port(&self, name: &str) -> String {
        let ports = self.server.list("ports");
        let found = ports.iter().find(|port| port["name"] == name);
        text(found.unwrap_or_else(|| panic!("no port {name}")), "id").to_string()
    }
}

fn text(of: &Value, field: &str) -> Name {
    of[field].as_str().unwrap().into()
}

fn addresses(port: &Value) -> BTreeSet<IpAddr> {
    let fixed = port["fixed_ips"].as_array().unwrap().iter();
    fixed
        .map(|fixed| fixed["ip_address"].as_str().unwrap().parse().unwrap())
        .collect()
}

fn read(rule: &Value) -> InstalledRule {
    let text = |field: &str| rule[field].as_str();
    InstalledRule::read(&RuleFields {
        direction: text("direction").unwrap(),
        ethertype: text("ethertype").unwrap(),
        protocol: text("protocol"),
        port_range_min: rule["port_range_min"].as_i64(),
        port_range_max: rule["port_range_max"].as_i64(),
        remote_ip_prefix: text("remote_ip_prefix"),
        remote_group_id: text("remote_group_id"),
        remote_address_group_id: text("remote_address_group_id"),
    })
}

/// Some of the flows, from all over, at most so many.
pub(crate) fn some(snapshot: &Snapshot, most: usize) -> Vec<Flow> {
    let all = flows(snapshot);
    let step = all.len().div_ceil(most).max(1);
    // Flows come in groups of one pair: another step each time would miss some pairs always.
    let odd = step | 1;
    all.into_iter().step_by(odd).collect()
}

/// Whether a pod is one of a cluster, with addresses that it really has.
fn has_port(pod: &Pod) -> bool {
    pod.object.kind == "Pod" && !pod.host_network && !pod.synthetic
}

/// The flows that tell policies apart, between pods with a port and addresses, at what rules of Neutron can say.
pub(crate) fn flows(snapshot: &Snapshot) -> Vec<Flow> {
    let is_there = |end: &Endpoint| match end {
        Endpoint::Pod(object) => {
            let pod = &snapshot.pods[object];
            pod.host_network || has_port(pod)
        }
        _ => true,
    };
    let is_said =
        |protocol: Protocol| protocol.has_ports() || ["ICMP", "ICMPv6"].contains(&&*protocol.to_string());
    let mut flows = representative_flows(snapshot);
    flows.retain(|flow| is_there(&flow.source) && is_there(&flow.destination) && is_said(flow.protocol));
    flows
}

/// An end as Neutron meets it: an address, and the pod whose port has it.
fn end(snapshot: &Snapshot, end: &Endpoint, flow: &Flow) -> (IpAddr, Option<ObjectRef>) {
    match end {
        Endpoint::Node { address, .. } | Endpoint::External(address) => (*address, None),
        Endpoint::Pod(object) => {
            let pod = &snapshot.pods[object];
            let named = ObjectRef::new("Pod", &object.namespace, &object.name);
            let address = pod.addresses.of(flow.family).unwrap();
            (address, (!pod.host_network).then_some(named))
        }
    }
}

/// The addresses that several pods or nodes have, and those that were made up for pods in the network of a node that nobody knows.
fn unsure(snapshot: &Snapshot) -> BTreeSet<IpAddr> {
    let pods = snapshot.live_pods().flat_map(|pod| pod.addresses.iter());
    let nodes = snapshot
        .nodes
        .values()
        .flat_map(|node| node.addresses.iter().copied());
    let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for address in pods.chain(nodes) {
        if !seen.insert(address) {
            shared.insert(address);
        }
    }
    let of_unknown = snapshot
        .live_pods()
        .filter(|pod| pod.host_network && pod.synthetic);
    shared.extend(of_unknown.flat_map(|pod| pod.addresses.iter()));
    shared
}

/// Which flows pass, by what the API returns.
pub(crate) fn passing(objects: &Objects, flows: &[Flow], snapshot: &Snapshot) -> Passing {
    let meaning = Meaning::of(objects);
    let passes = |flow: &Flow| {
        let [(source, from), (destination, to)] =
            [&flow.source, &flow.destination].map(|at| end(snapshot, at, flow));
        meaning.passes(
            (source, from.as_ref()),
            (destination, to.as_ref()),
            (flow.protocol, flow.port),
        )
    };
    let passing = flows.iter().enumerate().filter(|(_, flow)| passes(flow));
    passing.map(|(at, _)| at).collect()
}

/// A controller that reads manifests in a folder.
pub(crate) fn settings(folder: &Path, call: Duration, at_once: usize) -> Settings {
    Settings {
        source: Source::Directory(Directory {
            paths: vec![folder.to_owned()],
            interval: Duration::from_secs(1),
        }),
        name: "test".to_owned(),
        lease: None,
        semantics: Semantics::default(),
        options: Options::default(),
        timing: Timing {
            call,
            ..Timing::default()
        },
        at_once,
        publish: None,
        discover_every: Duration::from_secs(600),
        listen: Listen {
            address: None,
            socket: folder.join("socket"),
        },
    }
}

/// How it uses Neutron.
pub(crate) fn neutron_settings() -> NeutronSettings {
    NeutronSettings {
        cluster: "picket".into(),
        port_by: vec![
            "name={namespace}/{name}".parse().unwrap(),
            "address".parse().unwrap(),
        ],
        foreign_groups: ForeignGroups::Remove,
        enforced_vnic_types: ["normal".into()].into(),
        options: ClientOptions {
            timeout: CALL,
            attempts: 5,
            backoff: Backoff {
                first: Duration::from_millis(5),
                longest: Duration::from_millis(50),
            },
            per_second: 10_000,
            ..ClientOptions::default()
        },
    }
}

/// A Neutron at which somebody looks after each step.
struct Watched<'a> {
    neutron: Neutron,
    scene: &'a Scene,
    look: Box<dyn Fn() -> Passing + 'a>,
    seen: Rc<RefCell<Seen>>,
}

impl Cloud for Watched<'_> {
    type State = NeutronState;
    type Step = NeutronStep;
    type Done = NeutronDone;

    async fn read(&self) -> Result<NeutronState, Failure> {
        self.neutron.read().await
    }

    async fn find(&self, state: &mut NeutronState, pods: &BTreeSet<ObjectRef>) -> Result<(), Failure> {
        if let Some(snapshot) = self.scene.late.take() {
            self.scene.give_ports(&snapshot);
        }
        self.neutron.find(state, pods).await
    }

    fn options(&self, state: &NeutronState, options: &Options) -> Options {
        self.neutron.options(state, options)
    }

    fn plan(&self, state: &NeutronState, wanted: &Wanted<'_>) -> Plan<NeutronStep> {
        let plan = self.neutron.plan(state, wanted);
        self.seen.borrow_mut().notes.clone_from(&plan.notes);
        plan
    }

    async fn apply(&self, state: &NeutronState, step: &NeutronStep) -> Result<NeutronDone, Failure> {
        let done = self.neutron.apply(state, step).await;
        let mut seen = self.seen.borrow_mut();
        let mut text = step.to_string();
        if let Err(failure) = &done {
            text.push_str(&format!(": {failure}"));
        }
        seen.moments.push((text.clone(), (self.look)()));
        seen.steps.push(text);
        done
    }

    fn note(&self, state: &mut NeutronState, step: &NeutronStep, done: NeutronDone) {
        self.neutron.note(state, step, done);
    }

    fn id_of(&self, state: &NeutronState, group: &Name) -> Option<String> {
        self.neutron.id_of(state, group)
    }
}
