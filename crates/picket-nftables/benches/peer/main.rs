//! What picket does in pods beside how multi-networkpolicy-nftables does it, one run of `nft` for each step:
//! `cargo bench -p picket-nftables --bench peer`.
//!
//! A node with 110 pods, each in a network namespace of its own. A policy isolates all of them, and eleven admit a hundred peers
//! to ten pods each. Then a policy admits 10,000 peers to one pod. At last 10,000 addresses come to the table of a node, change and go. Each line is the best, the median and the worst of several runs.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod host;
mod steps;

use std::hint::spin_loop;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use picket_cluster::{Event, Object, Pod, Semantics, Snapshot};
use picket_engine::Engine;
use picket_linux::{NetworkNamespace, at_once};
use picket_net::Protocol;
use picket_nftables::client::Client;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::render::documented::{Options, OtherEnds, PodView, render};
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
    peer_at(group, number, number)
}

/// A peer at the address with this number.
fn peer_at(group: usize, number: usize, place: usize) -> Pod {
    let peer = pod(&format!("bench/peer-{group}-{number}")).label("peer", &group.to_string());
    peer.ip(&address(1 + group, place)).build()
}

fn own_pods(count: usize) -> Vec<ObjectRef> {
    let object = |number| ObjectRef::new("Pod", "bench", &format!("pod-{number:03}"));
    (0..count).map(object).collect()
}

/// A pod: its rulesets, and what its table was made of.
struct Place {
    namespace: NetworkNamespace,
    client: Client,
    made: Option<(PodView, Arc<Table>)>,
}

impl Place {
    /// Makes the table what the policies say, as the agent does: it is rendered where what it is made of is another. How many
    /// operations that took.
    fn follow(&mut self, engine: &Engine, ends: &OtherEnds, pod: &ObjectRef) -> Result<usize> {
        let interface = InterfaceName::new("eth0").context("a name")?;
        let view = PodView::of(engine.program(), ends, pod, &interface).context("a pod")?;
        if self.made.as_ref().is_some_and(|(before, _)| *before == view) {
            return Ok(0);
        }
        let table = Arc::new(render(&view, &Options::default())?.0);
        let (_, table) = self.made.insert((view, table));
        Ok(self.client.sync(table)?.operations)
    }
}

/// Places of pods that have no rules.
fn places(count: usize) -> Result<Vec<Place>> {
    let place = |_| {
        let namespace = NetworkNamespace::create()?;
        let client = Client::open(&namespace)?;
        anyhow::Ok(Place {
            namespace,
            client,
            made: None,
        })
    };
    (0..count).map(place).collect()
}

/// Makes every table what the policies say. How many operations that took.
fn sync(places: &mut [Place], engine: &Engine, pods: &[ObjectRef]) -> Result<usize> {
    let ends = OtherEnds::default();
    let all = places.iter_mut().zip(pods).collect();
    let synced = at_once(all, |(place, pod)| place.follow(engine, &ends, pod));
    synced.into_iter().sum()
}

/// What changes then is alone, as no packet is on its way from before the last change, and meets a processor that has not slept.
fn settle(places: &[Place]) {
    while !places.iter().all(|place| place.client.packets_have_come()) {
        spin_loop();
    }
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
        sync(&mut places, &engine, own)?;
        Ok(start.elapsed())
    })?;
    repeat("one nft for each step", || {
        let places = places(PODS)?;
        let start = Instant::now();
        for (policy, pods) in policies(PEERS) {
            for place in pods.iter().filter_map(|pod| places.get(*pod)) {
                Steps::of(&place.namespace).first(&policy)?;
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
    sync(&mut kept, &engine, own)?;
    let mut number = PEERS;
    repeat("picket", || {
        settle(&kept);
        let start = Instant::now();
        engine.apply(Event::Apply(Object::from(peer(0, number))));
        let operations = sync(&mut kept, &engine, own)?;
        number += 1;
        anyhow::ensure!(operations > 0);
        Ok(start.elapsed())
    })?;
    let places = places(GROUP)?;
    let again = Policy::new(&name(0), (0..=PEERS).map(|number| address(1, number)).collect());
    resync(places.iter().map(|place| &place.namespace), &again)
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

/// A policy with many addresses in one pod: brought in, one address more, and all of them others.
fn many() -> Result<()> {
    let own = own_pods(1);
    let mut engine = Engine::compile(&cluster(1, MANY), Semantics::default());
    let admitting = |places: Range<usize>| {
        let addresses = places.map(|place| address(1, place));
        Policy::new(&name(0), addresses.collect())
    };
    println!("a policy with {MANY} addresses in one pod, brought in");
    repeat("picket", || {
        let mut places = places(1)?;
        let start = Instant::now();
        sync(&mut places, &engine, &own)?;
        Ok(start.elapsed())
    })?;
    let policy = admitting(0..MANY);
    repeat("one nft for each step", || {
        let places = places(1)?;
        let start = Instant::now();
        for place in &places {
            Steps::of(&place.namespace).first(&policy)?;
        }
        Ok(start.elapsed())
    })?;
    println!("one address more");
    let mut kept = places(1)?;
    sync(&mut kept, &engine, &own)?;
    let mut number = MANY;
    repeat("picket", || {
        settle(&kept);
        let start = Instant::now();
        engine.apply(Event::Apply(Object::from(peer(0, number))));
        sync(&mut kept, &engine, &own)?;
        number += 1;
        Ok(start.elapsed())
    })?;
    let place = places(1)?;
    resync(
        place.iter().map(|place| &place.namespace),
        &admitting(0..MANY + 1),
    )?;
    println!("{MANY} addresses become others");
    let mut is_moved = false;
    repeat("picket, from the events", || {
        is_moved = !is_moved;
        let first = if is_moved { 2 * MANY } else { 0 };
        let events: Vec<_> = (0..MANY)
            .map(|number| Event::Apply(Object::from(peer_at(0, number, first + number))))
            .collect();
        settle(&kept);
        let start = Instant::now();
        for event in events {
            engine.apply(event);
        }
        let operations = sync(&mut kept, &engine, &own)?;
        anyhow::ensure!(operations > 0);
        Ok(start.elapsed())
    })?;
    let place = places(1)?;
    resync(
        place.iter().map(|place| &place.namespace),
        &admitting(2 * MANY..3 * MANY),
    )
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
