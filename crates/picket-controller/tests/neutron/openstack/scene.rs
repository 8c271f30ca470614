//! A Neutron, a folder of manifests, and a controller between them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use picket_cluster::{Addresses, Flow, Semantics, Snapshot};
use picket_controller::{
    Cloud, ControllerError, Ended, Extent, Failure, Gate, InstalledNeutron, Neutron, NeutronDone,
    NeutronSettings, NeutronState, NeutronStep, Plan, Settings, Timing, Wanted, run,
};
use picket_engine::Engine;
use picket_neutron::client::{
    Auth, Backoff, Cloud as At, Domain, Options as ClientOptions, Person, Project, Secret, User,
};
use picket_neutron::plan::ForeignGroups;
use picket_neutron::verify::Report;
use picket_neutron::{Name, Objects, Options};
use picket_node::{Listen, Source};
use picket_policy::ObjectRef;
use picket_source::{Directory, Text, load_texts};
use picket_testing::faults::Proxy;
use picket_testing::manifest::{self, Style};
use picket_testing::neutron::Neutron as Server;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::meant::{Passing, addresses, allowed, end, has_port, objects, passing, some, text, unsure};

/// How long one call may take: only a server that says nothing takes as long.
const CALL: Duration = Duration::from_secs(60);

/// How many flows are looked at.
const MOST: usize = 500;

/// How many ports are made by one call.
const AT_ONCE: usize = 100;

/// A Neutron, a folder of manifests, and what is between.
pub(crate) struct Scene {
    pub(crate) server: Arc<Server>,
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

impl Scene {
    pub(crate) fn new() -> Self {
        Self::of(Server::start(), At::open)
    }

    /// The same, where Neutron wants tokens of a Keystone.
    pub(crate) fn with_keystone() -> Self {
        let server = Server::start_with_lasting_tokens();
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
        Self::with(Arc::new(server), networks, cloud)
    }

    /// Another cluster with the same Neutron.
    pub(crate) fn beside(&self, cluster: &str) -> Self {
        let mut other = Self::with(Arc::clone(&self.server), self.networks.clone(), At::open);
        other.neutron.cluster = cluster.into();
        other
    }

    fn with(server: Arc<Server>, networks: [String; 2], cloud: impl FnOnce(&str) -> At) -> Self {
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

    /// The cluster as manifests say it, which controllers read from now on.
    pub(crate) fn written(&self, snapshot: &Snapshot) -> Snapshot {
        let (text, snapshot) = told(snapshot);
        self.publish(&text);
        snapshot
    }

    /// Puts a manifest where controllers read it.
    pub(crate) fn publish(&self, text: &str) {
        // Nobody reads half of it.
        let unfinished = self.folder.path().join("unfinished");
        fs::write(&unfinished, text).unwrap();
        fs::rename(&unfinished, self.folder.path().join("cluster.yaml")).unwrap();
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
        self.proxy.writes()
    }

    /// What the API returns.
    pub(crate) fn objects(&self) -> Objects {
        objects(&self.server)
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
        let all_allowed = allowed(flows, snapshot);
        let unsure = unsure(snapshot);
        for (at, flow) in flows.iter().enumerate() {
            let allowed = all_allowed.contains(&at);
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

/// A manifest of a cluster, and the cluster as it says it.
pub(crate) fn told(snapshot: &Snapshot) -> (String, Snapshot) {
    let manifest = manifest::file(snapshot, &mut Style::new(1));
    let text = Text {
        name: "cluster.yaml".into(),
        bytes: manifest.clone().into_bytes(),
    };
    // As the controller reads them.
    let loaded = load_texts(&[text], picket_policy::Options::default());
    (manifest, loaded.snapshot)
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
