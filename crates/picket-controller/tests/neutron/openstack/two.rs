//! Two controllers at once: one that stands still or is killed while a call of it is under way, and one that takes over.
//!
//! Each controller is a process of its own, in which this test runs as what its environment says.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use picket_cluster::{Flow, Snapshot};
use picket_controller::{Extent, LeaseSettings, Neutron, Status, run};
use picket_neutron::client::Cloud as At;
use picket_node::fetch_status;
use picket_source::Kube;
use picket_testing::apiserver::Server as ApiServer;
use picket_testing::faults::{Fault, Proxy};
use picket_testing::neutron::Neutron as Server;
use picket_testing::signal::signal;

use super::faults::{MOST, clusters, opens_nothing};
use super::meant::{Passing, allowed, objects, passing, some};
use super::scene::{Scene, neutron_settings, settings, told};

/// Says that this process is a controller, and what it is called.
const CONTENDER: &str = "PICKET_TEST_CONTENDER";

/// Says to it where Neutron is, how to reach the API server, and in which folders manifests and its socket are.
const ENDPOINT: &str = "PICKET_TEST_ENDPOINT";
const KUBECONFIG: &str = "PICKET_TEST_KUBECONFIG";
const MANIFESTS: &str = "PICKET_TEST_MANIFESTS";
const FOLDER: &str = "PICKET_TEST_FOLDER";

/// How long a Lease is, and how long a call may take.
const LENGTH: Duration = Duration::from_secs(16);
const CALL: Duration = Duration::from_secs(6);

/// How long anything may take before a test fails.
const BOUND: Duration = Duration::from_secs(300);

/// The calls that are late, each on the way from one cluster to the other, and whether its controller is killed then.
const LATE: [(usize, bool); 4] = [(0, false), (2, false), (1, true), (5, false)];

/// A controller, in the process that is started for it.
fn contend(name: &str) {
    let said = |variable| PathBuf::from(env::var_os(variable).unwrap());
    let mut settings = settings(&said(MANIFESTS), CALL, 1);
    settings.name = name.to_owned();
    settings.listen.socket = said(FOLDER).join(format!("{name}.sock"));
    let mut kube = Kube::new(None, Duration::from_secs(5));
    kube.kubeconfig = Some(said(KUBECONFIG));
    settings.lease = Some(LeaseSettings {
        kube,
        namespace: "kube-system".to_owned(),
        name: "picket-controller".to_owned(),
        length: LENGTH,
    });
    let mut neutron = neutron_settings();
    neutron.options.timeout = CALL;
    let cloud = At::open(said(ENDPOINT).to_str().unwrap());
    let connect = |gate| Ok(Neutron::new(cloud, neutron, gate).unwrap());
    run(&settings, Extent::Forever, connect).unwrap();
}

/// The process of a controller, and its way to Neutron.
struct Contender {
    process: Child,
    proxy: Proxy,
    socket: PathBuf,
    errors: PathBuf,
}

impl Contender {
    fn start(name: &str, folder: &Path, scene: &Scene, kubeconfig: &Path) -> Self {
        let proxy = Proxy::to(scene.server.port());
        let errors = folder.join(format!("{name}.err"));
        let test = concat!(
            module_path!(),
            "::whoever_stands_still_in_a_call_changes_nothing_once_another_leads"
        );
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(env::current_exe().unwrap())
            .args(["--exact", test.split_once("::").unwrap().1, "--nocapture"])
            .envs([(CONTENDER, name), (ENDPOINT, &proxy.endpoint())])
            .env(KUBECONFIG, kubeconfig)
            .env(MANIFESTS, scene.folder.path())
            .env(FOLDER, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        Self {
            process,
            proxy,
            socket: folder.join(format!("{name}.sock")),
            errors,
        }
    }

    #[track_caller]
    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(
                began.elapsed() < BOUND,
                "{what} does not come about: {:?}\n{}",
                self.status(),
                fs::read_to_string(&self.errors).unwrap()
            );
            sleep(Duration::from_millis(50));
        }
    }

    fn status(&self) -> Option<Status> {
        fetch_status(&self.socket).ok()
    }

    fn leads(&self) -> bool {
        self.status().is_some_and(|status| status.lease.leads)
    }

    fn until_it_waits(&self) {
        self.until("that another leads", || {
            let lease = self.status().map(|status| status.lease);
            lease.is_some_and(|lease| !lease.leads && lease.leader.is_some())
        });
    }

    /// Waits until it leads, and has done everything after which exactly these flows pass.
    fn until_it_is_done(&self, server: &Server, wanted: &Passing, (flows, cluster): (&[Flow], &Snapshot)) {
        self.until("that all is in force", || {
            let is_done = |status: Status| status.lease.leads && status.ready && status.steps == 0;
            self.status().is_some_and(is_done) && passing(&objects(server), flows, cluster) == *wanted
        });
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Notes what passes after every call of a controller.
fn watch(
    contender: &Contender,
    server: &Arc<Server>,
    to: (&[Flow], &Snapshot),
    seen: &Arc<Mutex<Vec<(String, Passing)>>>,
) {
    let (server, flows, cluster) = (Arc::clone(server), to.0.to_vec(), to.1.clone());
    let seen = Arc::clone(seen);
    contender.proxy.look(move |call| {
        let now = passing(&objects(&server), &flows, &cluster);
        seen.lock().unwrap().push((call.to_owned(), now));
    });
}

#[test]
fn whoever_stands_still_in_a_call_changes_nothing_once_another_leads() {
    if let Some(name) = env::var_os(CONTENDER) {
        return contend(name.to_str().unwrap());
    }
    let (scene, kubernetes) = (Scene::new(), ApiServer::start());
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = clusters();
    scene.goes_to(&one);
    let server = Arc::clone(&scene.server);
    let start = |name: &str| Contender::start(name, folder.path(), &scene, &kubernetes.kubeconfig());
    let mut leader = start("a");
    leader.until("that it leads", || leader.leads());
    let mut next = start("b");
    next.until_it_waits();
    let mut sides = [&one, &other];
    for (late, is_killed) in LATE {
        let (text, to) = told(sides[1]);
        let flows = some(&to, MOST);
        let [before, wanted] = [sides[0], &to].map(|cluster| allowed(&flows, cluster));
        leader.until_it_is_done(&server, &before, (&flows, &to));
        let seen = Arc::default();
        for contender in [&leader, &next] {
            watch(contender, &server, (&flows, &to), &seen);
        }
        leader.proxy.plan_write(late, Fault::Late);
        scene.publish(&text);
        leader.until(&format!("call {late}"), || !leader.proxy.has_write());
        signal(leader.process.id(), if is_killed { "KILL" } else { "STOP" });
        let _ = next.proxy.words();
        next.until("that it leads", || next.leads());
        assert_eq!(leader.proxy.let_late_ones_pass(), 1);
        let now = passing(&objects(&server), &flows, &to);
        seen.lock().unwrap().push(("the late call".to_owned(), now));
        // What was under way might still be done: whoever takes over waits for it before it looks at anything.
        assert_eq!(next.proxy.words(), Vec::<String>::new());
        next.until_it_is_done(&server, &wanted, (&flows, &to));
        assert_ne!(next.proxy.writes(), Vec::<String>::new());
        scene.expect_of(&flows, &to);
        assert_eq!(leader.proxy.writes().len(), late + 1);
        if is_killed {
            leader = start(&format!("after-{late}"));
        } else {
            // It believes for a moment that it leads, and that its call has taken too long.
            signal(leader.process.id(), "CONT");
        }
        leader.until_it_waits();
        assert_eq!(leader.proxy.writes(), Vec::<String>::new());
        let either: Passing = before.union(&wanted).copied().collect();
        let seen = seen.lock().unwrap();
        assert!(seen.len() > 2, "{seen:?}");
        opens_nothing(&seen, &flows, &either, &format!("call {late} is late"));
        (leader, next) = (next, leader);
        sides.swap(0, 1);
    }
}
