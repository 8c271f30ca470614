//! What picket does in pods beside how multi-networkpolicy-nftables does it, one run of `nft` for each step:
//! `cargo bench -p picket-nftables --bench peer`.
//!
//! A node with 110 pods, each in a network namespace of its own. A policy isolates all of them, and eleven admit a hundred peers
//! to ten pods each. At last 10,000 addresses come to the table of a node, change and go. Each line is the best, the median and the worst of several runs.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod host;
mod steps;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use picket_cluster::{Event, Object, Pod, Semantics, Snapshot};
use picket_engine::Engine;
use picket_linux::{NetworkNamespace, at_once};
use picket_net::Protocol;
use picket_nftables::client::Client;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::render::documented::{Options, PodView, render};
use picket_policy::{Direction, ObjectRef};
use picket_testing::build::{accept, pod, pods_in, policy};

use crate::steps::{Policy, Steps};

const PODS: usize = 110;

const NODE: &str = "node";

/// How many pods one policy admits its peers to, and how many peers it has.
const GROUP: usize = 10;
const PEERS: usize = 100;

const RUNS: usize = 5;

/// How many addresses the large policy admits.
const MANY: usize = 10_000;

fn main() -> Result<()> {
    let snapshot = cluster(PODS, PEERS);
    let own = own_pods(PODS);
    first(&snapshot, &own)?;
    event(&snapshot, &own)?;
    many()?;
    host::many()
}

/// The address with a number, of pods of the node (0) or their peers (above).
fn address(of: usize, number: usize) -> String {
    format!("10.{}.{}.{}", 64 + of, number / 250, number % 250 + 1)
}

/// A node with pods in groups, and for each group a policy with this many peers.
fn cluster(pods: usize, peers: usize) -> Snapshot {
    let all = policy("bench/isolate")
        .selects("own=yes")
        .isolates(Direction::Ingress);
    let mut objects: Vec<Object> = vec![all.into()];
    for number in 0..pods {
        let group = (number / GROUP).to_string();
        let own = pod(&format!("bench/pod-{number:03}"))
            .label("own", "yes")
            .on(NODE);
        objects.push(own.label("group", &group).ip(&address(0, number)).into());
    }
    for group in 0..pods.div_ceil(GROUP) {
        let rule = accept()
            .peer(pods_in("bench", &format!("peer={group}")))
            .port(Protocol::TCP, 5555);
        let admit = policy(&name(group)).selects(&format!("group={group}"));
        objects.push(admit.ingress(rule).into());
        objects.extend((0..peers).map(|number| Object::from(peer(group, number))));
    }
    objects.into_iter().collect()
}

fn name(group: usize) -> String {
    format!("bench/group-{group:02}")
}

fn peer(group: usize, number: usize) -> Pod {
    let peer = pod(&format!("bench/peer-{group}-{number}")).label("peer", &group.to_string());
    peer.ip(&address(1 + group, number)).build()
}

fn own_pods(count: usize) -> Vec<ObjectRef> {
    let object = |number| ObjectRef::new("Pod", "bench", &format!("pod-{number:03}"));
    (0..count).map(object).collect()
}

/// The tables of some pods, as the agent renders them.
fn rendered(engine: &Engine, pods: &[ObjectRef]) -> Result<Vec<Arc<Table>>> {
    let interface = InterfaceName::new("eth0").context("a name")?;
    let table = |pod| -> Result<Arc<Table>> {
        let view = PodView::of(engine.program(), pod, &interface).context("a pod")?;
        Ok(Arc::new(render(&view, &Options::default())?.0))
    };
    pods.iter().map(table).collect()
}

/// Namespaces of pods, and a client in each.
fn places(count: usize) -> Result<Vec<(NetworkNamespace, Client)>> {
    let place = |_| {
        let namespace = NetworkNamespace::create()?;
        let client = Client::open(&namespace)?;
        anyhow::Ok((namespace, client))
    };
    (0..count).map(place).collect()
}

/// Brings every table into its place. How many operations that took.
fn sync(places: &mut [(NetworkNamespace, Client)], tables: &[Arc<Table>]) -> Result<usize> {
    let all = places.iter_mut().zip(tables).collect();
    let synced = at_once(all, |((_, client), table)| Ok(client.sync(table)?.operations));
    synced.into_iter().sum()
}

/// Each policy with the numbers of the pods that it selects, in the order in which they are brought in.
fn policies(peers: usize) -> Vec<(Policy, Vec<usize>)> {
    let isolate = (Policy::new("bench/isolate", Vec::new()), (0..PODS).collect());
    let groups = (0..PODS.div_ceil(GROUP)).map(|group| {
        let addresses = (0..peers).map(|number| address(1 + group, number)).collect();
        let pods = group * GROUP..((group + 1) * GROUP).min(PODS);
        (Policy::new(&name(group), addresses), pods.collect())
    });
    std::iter::once(isolate).chain(groups).collect()
}

/// The first sync of all pods.
fn first(snapshot: &Snapshot, own: &[ObjectRef]) -> Result<()> {
    println!("first sync of {PODS} pods, {} policies", snapshot.policies.len());
    repeat("picket", || {
        let mut places = places(PODS)?;
        let start = Instant::now();
        let engine = Engine::compile(snapshot, Semantics::default());
        sync(&mut places, &rendered(&engine, own)?)?;
        Ok(start.elapsed())
    })?;
    repeat("one nft for each step", || {
        let places = places(PODS)?;
        let start = Instant::now();
        for (policy, pods) in policies(PEERS) {
            for (namespace, _) in pods.iter().filter_map(|pod| places.get(*pod)) {
                Steps::of(namespace).first(&policy)?;
            }
        }
        Ok(start.elapsed())
    })
}

/// A peer more, which concerns ten pods.
fn event(snapshot: &Snapshot, own: &[ObjectRef]) -> Result<()> {
    println!("one peer more for {GROUP} of {PODS} pods");
    let mut kept = places(PODS)?;
    let mut engine = Engine::compile(snapshot, Semantics::default());
    sync(&mut kept, &rendered(&engine, own)?)?;
    let mut number = PEERS;
    repeat("picket, all pods compared", || {
        let start = Instant::now();
        engine.apply(Event::Apply(Object::from(peer(0, number))));
        let operations = sync(&mut kept, &rendered(&engine, own)?)?;
        number += 1;
        anyhow::ensure!(operations > 0);
        Ok(start.elapsed())
    })?;
    let places = places(GROUP)?;
    let again = Policy::new(&name(0), (0..=PEERS).map(|number| address(1, number)).collect());
    resync(places.iter().map(|(namespace, _)| namespace), &again)
}

/// What one policy costs that is brought in again, and how long it is away in each pod.
fn resync<'a>(places: impl Iterator<Item = &'a NetworkNamespace> + Clone, policy: &Policy) -> Result<()> {
    for namespace in places.clone() {
        Steps::of(namespace).first(policy)?;
    }
    let mut away = Vec::new();
    repeat("one nft for each step", || {
        let start = Instant::now();
        for namespace in places.clone() {
            away.push(Steps::of(namespace).again(policy)?);
        }
        Ok(start.elapsed())
    })?;
    print("  without the policy in a pod", &mut away);
    Ok(())
}

/// A policy with many addresses in one pod: brought in, and one address more.
fn many() -> Result<()> {
    let own = own_pods(1);
    let mut engine = Engine::compile(&cluster(1, MANY), Semantics::default());
    let tables = rendered(&engine, &own)?;
    println!("a policy with {MANY} addresses in one pod, brought in");
    repeat("picket", || {
        let mut places = places(1)?;
        let start = Instant::now();
        sync(&mut places, &tables)?;
        Ok(start.elapsed())
    })?;
    println!("one address more");
    let mut kept = places(1)?;
    sync(&mut kept, &tables)?;
    let mut number = MANY;
    repeat("picket", || {
        let start = Instant::now();
        engine.apply(Event::Apply(Object::from(peer(0, number))));
        sync(&mut kept, &rendered(&engine, &own)?)?;
        number += 1;
        Ok(start.elapsed())
    })?;
    let place = places(1)?;
    let policy = Policy::new(&name(0), (0..=MANY).map(|number| address(1, number)).collect());
    resync(place.iter().map(|(namespace, _)| namespace), &policy)
}

/// Prints the times of several runs.
fn repeat(what: &str, mut work: impl FnMut() -> Result<Duration>) -> Result<()> {
    let mut times = (0..RUNS).map(|_| work()).collect::<Result<Vec<_>>>()?;
    print(what, &mut times);
    Ok(())
}

fn print(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    let last = times.len().saturating_sub(1);
    println!(
        "  {what:<29} {:>9.1?} {:>9.1?} {:>9.1?}",
        at(0),
        at(last / 2),
        at(last)
    );
}
