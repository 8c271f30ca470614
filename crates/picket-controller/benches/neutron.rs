//! What it takes until a real Neutron means what policies say: calls, and time. `cargo bench -p picket-controller --bench neutron`,
//! where `cargo xtask programs` ran. It fails where there are other calls than there should be.
//!
//! Where something happens in a cluster, a controller follows it, in a process of its own: this program with the argument `follow`.

#![expect(
    dead_code,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark prints, and fails at once; tests use the other half of the scene"
)]

#[path = "../tests/neutron/openstack/meant.rs"]
mod meant;
#[path = "../tests/neutron/openstack/scene.rs"]
mod scene;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use picket_cluster::{Object, Semantics, Snapshot};
use picket_controller::{Extent, Neutron, Settings, Status, run};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_neutron::client::Cloud as At;
use picket_neutron::{Options, render};
use picket_node::{Listen, Source, fetch_status};
use picket_source::Directory;
use picket_testing::build::{PodBuilder, accept, namespace, pod, pods_in, pods_where, policy};
use scene::Scene;

/// How many peers a policy has.
const PEERS: [usize; 3] = [10, 100, 500];

/// How many pods a policy is about that opens a port by its name to everybody.
const NAMED: [usize; 2] = [10, 50];

/// How many pods a namespace has that gets other labels.
const LABELLED: usize = 20;

/// Of the large cluster: namespaces, policies in each, and pods that each policy is about.
const LARGE: [usize; 3] = [20, 10, 10];

/// How often what takes little is done.
const TIMES: usize = 5;

/// How many objects a page of a list has.
const PAGE: usize = 200;

/// The argument of the process that follows.
const FOLLOW: &str = "follow";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, what, endpoint, folder, socket] = arguments.as_slice()
        && what == FOLLOW
    {
        follow(endpoint, Path::new(folder), Path::new(socket));
        return ExitCode::SUCCESS;
    }
    let mut bench = Bench { is_wrong: false };
    for count in PEERS {
        bench.peers(count);
    }
    for count in NAMED {
        bench.named(count);
    }
    bench.events();
    bench.large();
    match bench.is_wrong {
        true => {
            println!("there were more or fewer calls than there should be");
            ExitCode::FAILURE
        }
        false => ExitCode::SUCCESS,
    }
}

/// Calls of one sort each, and how long all of them took.
struct Measured {
    words: Vec<String>,
    took: Duration,
}

struct Bench {
    /// Whether there were more or fewer calls than there should be.
    is_wrong: bool,
}

impl Bench {
    /// A policy about one pod, with so many peers.
    fn peers(&mut self, count: usize) {
        let scene = Scene::new();
        let (without, with) = (of_peers(count, false), of_peers(count, true));
        scene.give_ports(&scene.written(&with));
        let all = reads(0, count + 1);
        // Two groups that allow everything, each with rules; that of the policy with rules; that of the peers; and each port.
        let name = format!("everything is new: a policy with {count} peers");
        self.sync(&scene, &name, (count + 1 + 3 * 5 + 4, all));
        scene.written(&without);
        self.sync(&scene, "  the policy goes", (count + 1 + 2, all));
        scene.written(&with);
        self.sync(&scene, "  the policy comes", (count + 1 + 5 + 4, all));
    }

    /// A policy that opens a port by its name to everybody, about so many pods.
    fn named(&mut self, count: usize) {
        let scene = Scene::new();
        scene.give_ports(&scene.written(&of_names(count, false)));
        scene.sync().unwrap();
        scene.written(&of_names(count, true));
        let _ = scene.proxy.asked();
        let name = format!("a policy comes that opens a port by name of {count} pods to everybody");
        self.sync(&scene, &name, (count + 5, reads(0, count + 1)));
    }

    /// What happens to pods and namespaces while a controller follows.
    fn events(&mut self) {
        let scene = Scene::new();
        let peers = PEERS[1];
        let cluster = |more: usize, team: &str| of_peers_and_more(peers, more, team);
        scene.give_ports(&scene.written(&cluster(0, "y")));
        scene.sync().unwrap();
        let follower = Follower::start(&scene);
        let come = (1..=TIMES).map(|more| {
            let snapshot = cluster(more, "y");
            scene.give_ports(&snapshot);
            follower.until_told(&scene, &snapshot)
        });
        let come: Vec<_> = come.collect();
        let ports = peers + LABELLED + TIMES + 1;
        let name = format!("one more peer comes to {peers}");
        self.report(&name, come, (1, reads_of_ports(ports)));
        let labelled = ["z", "y"].into_iter().cycle().take(TIMES);
        let labelled: Vec<_> = labelled
            .map(|team| follower.until_told(&scene, &cluster(TIMES, team)))
            .collect();
        let name = format!("a namespace of {LABELLED} pods gets other labels, or its own again");
        self.report(&name, labelled, (LABELLED, 0));
    }

    /// Many policies and ports.
    fn large(&mut self) {
        let [namespaces, policies, pods] = LARGE;
        let (policies, pods) = (namespaces * policies, namespaces * policies * pods);
        let scene = Scene::new();
        let snapshot = scene.written(&of_many(0));
        // Their groups, with rules; one for each selector of peers; and that for everything that nothing isolates.
        let changes = 5 * policies + 4 * LARGE[1] + 5;
        let name = format!("{policies} policies come, and no pod has a port");
        self.sync(&scene, &name, (changes, reads(0, 0) + reads_of_ports(0)));
        give_ready_ports(&scene, &snapshot);
        let groups = policies + LARGE[1] + 2;
        let looks = (0..TIMES).map(|_| synced(&scene)).collect();
        let name = format!("nothing has changed: {policies} policies, {pods} ports");
        self.report(&name, looks, (0, reads(groups, pods)));
        let follower = Follower::start(&scene);
        let come = (1..=TIMES).map(|more| {
            let snapshot = of_many(more);
            scene.give_ports(&snapshot);
            follower.until_told(&scene, &snapshot)
        });
        let come = come.collect();
        // All ports are read to find its port, and there are as many pages of them each time.
        self.report("  one more peer comes", come, (1, reads_of_ports(pods + TIMES)));
    }

    fn sync(&mut self, scene: &Scene, name: &str, expected: (usize, usize)) {
        let measured = synced(scene);
        self.report(name, vec![measured], expected);
    }

    /// Prints what something took each time, which should be so many calls that change something, and so many others.
    fn report(&mut self, name: &str, mut all: Vec<Measured>, expected: (usize, usize)) {
        all.sort_by_key(|measured| measured.took);
        let counts = all.iter().map(|measured| {
            let reads = measured.words.iter().filter(|word| word.starts_with("GET "));
            let reads = reads.count();
            (measured.words.len() - reads, reads)
        });
        let counts: Vec<_> = counts.collect();
        let changes = counts.iter().map(|(changes, _)| *changes).max().unwrap();
        let reads = counts.iter().map(|(_, reads)| *reads).max().unwrap();
        let seconds = |at: usize| all[at].took.as_secs_f64();
        let times = match all.len() {
            1 => format!("{:.2} s", seconds(0)),
            times => format!(
                "{:.2} s, worst {:.2} s of {times}",
                seconds(times / 2),
                seconds(times - 1)
            ),
        };
        println!("{name:<68} {changes:>5} changes {reads:>3} reads  {times}");
        let mut kinds = BTreeMap::<&str, usize>::new();
        for word in &all[0].words {
            *kinds.entry(word).or_default() += 1;
        }
        let kinds: Vec<_> = kinds
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        println!("    {}", kinds.join(", "));
        if let Some((changes, reads)) = counts.iter().find(|counts| **counts != expected) {
            println!(
                "    {changes} changes and {reads} reads, not {} and {}",
                expected.0, expected.1
            );
            self.is_wrong = true;
        }
    }
}

/// How many calls it takes to read everything, with so many groups and ports: what Neutron can do, address groups, and the rest.
fn reads(groups: usize, ports: usize) -> usize {
    2 + groups / PAGE + 1 + reads_of_ports(ports)
}

fn reads_of_ports(ports: usize) -> usize {
    ports / PAGE + 1
}

/// Lets a controller make Neutron what the manifests say, once.
fn synced(scene: &Scene) -> Measured {
    let _ = scene.proxy.asked();
    let began = Instant::now();
    scene.sync().unwrap();
    let took = began.elapsed();
    let words = scene.proxy.words();
    Measured { words, took }
}

/// Gives each pod a port that has its groups from the first moment, as whoever reads the annotation of the pod does.
fn give_ready_ports(scene: &Scene, snapshot: &Snapshot) {
    let there = scene.server.list("security-groups").into_iter();
    let text = |of: &serde_json::Value| of.as_str().unwrap().to_owned();
    let ids: BTreeMap<_, _> = there
        .map(|group| (text(&group["name"]), text(&group["id"])))
        .collect();
    let engine = Engine::compile(snapshot, Semantics::default());
    let rendered = render(engine.program(), &Options::default());
    scene.give_ports_with(snapshot, |pod| {
        let groups = rendered.objects.ports[pod].security_groups.iter();
        groups.map(|name| ids[name.as_str()].clone()).collect()
    });
}

/// A controller in a process of its own.
struct Follower {
    child: Child,
    socket: PathBuf,
}

impl Follower {
    /// Starts one, and waits until everything is as it should be, for which nothing may have to change.
    fn start(scene: &Scene) -> Self {
        let socket = scene.server.folder().join("controller.sock");
        let child = Command::new(std::env::current_exe().unwrap())
            .args([FOLLOW, &scene.proxy.endpoint()])
            .args([scene.folder.path(), socket.as_path()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let follower = Self { child, socket };
        let _ = scene.proxy.asked();
        follower.until(|status| status.current.is_some());
        assert_eq!(scene.writes(), Vec::<String>::new());
        follower
    }

    /// Tells it what the cluster is now, and waits until that is in force.
    fn until_told(&self, scene: &Scene, snapshot: &Snapshot) -> Measured {
        let before = fetch_status(&self.socket).map(|status: Status| status.current);
        let before = before.unwrap();
        let _ = scene.proxy.asked();
        let began = Instant::now();
        scene.written(snapshot);
        self.until(|status| status.current != before);
        let took = began.elapsed();
        let words = scene.proxy.words();
        Measured { words, took }
    }

    fn until(&self, holds: impl Fn(&Status) -> bool) {
        loop {
            if fetch_status(&self.socket).is_ok_and(|status| holds(&status)) {
                return;
            }
            sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The process that follows, until it is killed.
fn follow(endpoint: &str, folder: &Path, socket: &Path) {
    let neutron = scene::neutron_settings();
    let settings = scene::settings(folder, neutron.options.timeout, 8);
    let settings = Settings {
        source: Source::Directory(Directory {
            paths: vec![folder.to_owned()],
            interval: Duration::from_millis(2),
        }),
        listen: Listen {
            address: None,
            socket: socket.to_owned(),
        },
        ..settings
    };
    let connect = |gate| Ok(Neutron::new(At::open(endpoint), neutron, gate).unwrap());
    run(&settings, Extent::Forever, connect).unwrap();
}

/// The pod of a number at one of the addresses of a network.
fn numbered(name: &str, network: usize, number: usize) -> PodBuilder {
    let address = format!("10.{network}.{}.{}", number / 250, number % 250 + 1);
    pod(name).ip(&address)
}

/// A pod, and as many others that its policy lets in.
fn of_peers(count: usize, has_policy: bool) -> Snapshot {
    let peers = (0..count).map(|number| web("x/web", 1, number));
    let lets_in = accept().peer(pods_in("x", "app=web")).port(Protocol::TCP, 5432);
    let policy = policy("x/db").selects("app=db").ingress(lets_in);
    let others: [Object; 2] = [
        namespace("x").into(),
        numbered("x/db", 0, 0).label("app", "db").into(),
    ];
    let policy = has_policy.then(|| policy.into());
    others.into_iter().chain(peers).chain(policy).collect()
}

fn web(name: &str, network: usize, number: usize) -> Object {
    let pod = numbered(&format!("{name}{number}"), network, number);
    pod.label("app", "web").into()
}

/// The same with more peers, and a namespace that its policy lets in if it is of the team `y`.
fn of_peers_and_more(count: usize, more: usize, team: &str) -> Snapshot {
    let peers = (0..count + more).map(|number| web("x/web", 1, number));
    let others = (0..LABELLED).map(|number| web("y/web", 2, number));
    let lets_in = accept()
        .peer(pods_in("x", "app=web"))
        .peer(pods_where("team=y", ""))
        .port(Protocol::TCP, 5432);
    let objects: [Object; 4] = [
        namespace("x").into(),
        namespace("y").label("team", team).into(),
        numbered("x/db", 0, 0).label("app", "db").into(),
        policy("x/db").selects("app=db").ingress(lets_in).into(),
    ];
    objects.into_iter().chain(peers).chain(others).collect()
}

/// As many pods with a port by name, which a policy opens to everybody, and one that is no business of it.
fn of_names(count: usize, has_policy: bool) -> Snapshot {
    let pods = (0..count).map(|number| {
        let pod = numbered(&format!("x/web{number}"), 1, number).label("app", "web");
        Object::from(pod.port("http", Protocol::TCP, 8080))
    });
    let opens = policy("x/web")
        .selects("app=web")
        .ingress(accept().named("http", Protocol::TCP));
    let others: [Object; 2] = [namespace("x").into(), numbered("x/other", 0, 0).into()];
    let policy = has_policy.then(|| opens.into());
    others.into_iter().chain(pods).chain(policy).collect()
}

/// Many policies in each of many namespaces, about pods of their own, which let in pods of all namespaces; and more such pods.
fn of_many(more: usize) -> Snapshot {
    let [namespaces, policies, pods] = LARGE;
    let mut objects = Vec::<Object>::new();
    for team in 0..namespaces {
        objects.push(namespace(&format!("team{team}")).into());
        for app in 0..policies {
            let next = format!("app={}", (app + 1) % policies);
            let lets_in = accept().peer(pods_where("", &next)).port(Protocol::TCP, 8080);
            let opens = policy(&format!("team{team}/app{app}")).selects(&format!("app={app}"));
            objects.push(opens.ingress(lets_in).into());
            let more = if (team, app) == (0, 0) { more } else { 0 };
            for number in 0..pods + more {
                let name = format!("team{team}/app{app}-{number}");
                let pod = numbered(&name, team + 1, app * 25 + number);
                objects.push(pod.label("app", &app.to_string()).into());
            }
        }
    }
    objects.into_iter().collect()
}
