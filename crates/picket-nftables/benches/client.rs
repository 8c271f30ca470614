//! How long one node's ruleset takes into the kernel, back, and from one state to the next:
//! `cargo bench -p picket-nftables --bench client`.
//!
//! Clusters of three sizes, and in each a node with 110 pods from all over it, as in `verify`. Network namespaces of its own, and
//! netlink alone; what is rendered is timed only where it says so. Each line is the best, the median and the worst of several runs.
//! Fails at its end where a first sync took longer than its budget, or what changes of one pod or policy elsewhere.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark prints, and fails at once"
)]

use std::hint::spin_loop;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use picket_cluster::{Event, Object, Pod, Semantics, Snapshot};
use picket_dataplane::Plan;
use picket_engine::Engine;
use picket_linux::NetworkNamespace;
use picket_net::Interval;
use picket_nftables::client::{Client, Observed, Watch, canonical};
use picket_nftables::diff::{Operation, PORTION};
use picket_nftables::model::{Datatype, Draft, Name, Set, Table, Value};
use picket_nftables::render::indexed::{self, Options, Renderer, Step};
use picket_policy::Policy;
use picket_testing::synthetic::{self, Size};

const RUNS: usize = 20;

/// How long the first sync of a node may take.
const FIRST_SYNC: Duration = Duration::from_millis(50);

/// How long it may take from what one event changes to what the kernel has.
const ONE_EVENT: Duration = Duration::from_millis(1);

const NODE: &str = "node-0";

fn main() {
    let mut over = Vec::new();
    for size in [Size::of(110, 12, 250), Size::of(1000, 110, 2500), Size::REAL] {
        let mut snapshot = synthetic::cluster(size);
        synthetic::crowd(&mut snapshot, NODE);
        let mut engine = Engine::compile(&snapshot, Semantics::default());
        let table = rendered(&engine);
        println!(
            "{} pods, {} policies; {} elements, {} rules",
            size.pods,
            size.policies,
            elements(&table),
            table
                .chains()
                .iter()
                .map(|chain| chain.rules.len())
                .sum::<usize>()
        );
        over.extend(first_sync(&engine));
        measure(&table);
        over.extend(events(&snapshot, &mut engine));
        taken_over(&snapshot, &engine);
    }
    for count in [100_000, 1_000_000] {
        at_once(count);
    }
    assert!(over.is_empty(), "over budget: {over:?}");
}

/// A set of `count` addresses, in one transaction and in portions, while somebody else makes one transaction after the other.
fn at_once(count: u32) {
    let addresses = (0..count).map(|index| Value::Ipv4(Interval::single(2 * index)).into());
    let name = |text| Name::new(text).expect("a name");
    let set = Set::new(name("addresses"), vec![Datatype::Ipv4Address], false, addresses);
    let mut draft = Draft::new(name("large"));
    draft.sets = vec![set.expect("a set")];
    let table = Arc::new(draft.check().expect("a table"));
    let namespace = NetworkNamespace::create().expect("a namespace");
    println!("{count} addresses");
    for (how, portion) in [("in one transaction", usize::MAX), ("in portions", PORTION)] {
        let client = Client::open(&namespace).expect("a client");
        let mut client = client.holding().in_portions_of(portion);
        let mut waits = Vec::new();
        repeat(3, how, || {
            let (took, waited) = beside_others(&namespace, || {
                client.sync(&table).expect("it is made");
            });
            client.remove(table.name()).expect("it is removed");
            waits.push(waited);
            took
        });
        waits.sort();
        show(&format!("{how}: others wait"), &waits);
    }
}

/// How long something takes, and the longest that a transaction about another table takes meanwhile.
fn beside_others(namespace: &NetworkNamespace, work: impl FnOnce()) -> (Duration, Duration) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut other = Client::open(namespace).expect("a client");
            let mut longest = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let start = Instant::now();
                elsewhere(&mut other);
                longest = longest.max(start.elapsed());
                std::thread::sleep(Duration::from_millis(1));
            }
            longest
        });
        let start = Instant::now();
        work();
        let took = start.elapsed();
        done.store(true, Ordering::Relaxed);
        (took, others.join().expect("it ends"))
    })
}

/// From what the engine knows to rules in force where there were none; `Some` says what was over budget.
fn first_sync(engine: &Engine) -> Option<String> {
    let times = timed(RUNS, || {
        let namespace = NetworkNamespace::create().expect("a namespace");
        let start = Instant::now();
        let table = Renderer::new(Some(NODE), Options::default()).whole(engine.program());
        let mut client = Client::open(&namespace).expect("a client").holding();
        client
            .sync(&Arc::new(table.expect("a table")))
            .expect("it is made");
        start.elapsed()
    });
    show("rendered, and in force", &times);
    over(FIRST_SYNC, "first sync", &times)
}

/// An agent that begins where one has ended that had followed changes, so that to it many things had other numbers.
fn taken_over(snapshot: &Snapshot, followed: &Engine) {
    let (old, new) = (
        rendered(followed),
        rendered(&Engine::compile(snapshot, Semantics::default())),
    );
    repeat(RUNS, "taken over, numbered otherwise", || {
        let namespace = NetworkNamespace::create().expect("a namespace");
        let client = || {
            let client = Client::open(&namespace).expect("a client");
            client.holding().patient()
        };
        client().sync(&old).expect("it is made");
        let mut client = client();
        let start = Instant::now();
        client.sync(&new).expect("it is made");
        start.elapsed()
    });
}

/// What is over budget, if the median is.
fn over(budget: Duration, name: &str, times: &[Duration]) -> Option<String> {
    let median = times.get(times.len() / 2)?;
    (*median > budget).then(|| format!("{name}: {median:.1?}"))
}

fn rendered(engine: &Engine) -> Arc<Table> {
    Arc::new(indexed::render(engine.program(), Some(NODE)).expect("a table"))
}

/// A new pod on another node with the labels of another, at an address next to that one's, which no policy tells from it; or at
/// one of its own identity.
fn twin(snapshot: &Snapshot, is_known: bool) -> Pod {
    let is_elsewhere = |pod: &Arc<Pod>| pod.node.as_deref() != Some(NODE);
    let at = snapshot.pods.values().position(is_elsewhere).unwrap_or_default();
    let pod = snapshot.pods.values().nth(at).expect("a pod");
    let mut twin = Pod::clone(pod);
    twin.object.name = format!("{}-new", twin.object.name).into();
    twin.node = Some("elsewhere".into());
    if is_known {
        let pods = snapshot.pods.values();
        let taken: Vec<_> = pods.filter_map(|pod| pod.addresses.v4).collect();
        let own = pod.addresses.v4.expect("an address").to_bits();
        let mut above = (own..).map(Ipv4Addr::from_bits);
        let free = above.find(|address| !taken.contains(address));
        twin.addresses = [IpAddr::from(free.expect("an address"))].into_iter().collect();
    } else {
        twin.addresses = [IpAddr::from([11, 0, 0, 1])].into_iter().collect();
    }
    twin
}

fn elements(table: &Table) -> usize {
    let sets = table.sets().iter().map(|set| set.elements().len());
    let maps = table.maps().iter().map(|map| map.elements().len());
    sets.chain(maps).sum()
}

/// Events, from what they change in the engine's program to what the kernel has; what was over budget.
fn events(snapshot: &Snapshot, engine: &mut Engine) -> Vec<String> {
    let mut too_slow = Vec::new();
    let [known, new] = [true, false].map(|is_known| {
        let pod = twin(snapshot, is_known);
        let gone = pod.object.clone();
        vec![Event::Apply(Object::from(pod)), Event::Delete(gone)]
    });
    let policies: Vec<_> = snapshot
        .policies
        .values()
        .step_by(7)
        .take(RUNS / 2)
        .cloned()
        .collect();
    let policies = policies.into_iter().flat_map(|policy| {
        let gone = Event::Delete(policy.object.clone());
        [gone, Event::Apply(Object::Policy(Policy::clone(&policy)))]
    });
    for (name, holds, budget, events) in [
        ("one pod elsewhere", false, None, known.clone()),
        ("one pod elsewhere, held", true, Some(ONE_EVENT), known),
        ("a new identity, held", true, None, new),
        ("one policy, held", true, Some(ONE_EVENT), policies.collect()),
    ] {
        let namespace = NetworkNamespace::create().expect("a namespace");
        let client = Client::open(&namespace).expect("a client");
        let mut client = if holds { client.holding() } else { client }.patient();
        let _watch = Watch::open(&namespace, &indexed::table_name()).expect("a watch");
        let mut renderer = Renderer::new(Some(NODE), Options::default());
        let whole = renderer.whole(engine.program()).expect("a table");
        client.sync(&Arc::new(whole)).expect("it is made");
        let (mut events, mut rendering) = (events.into_iter().cycle(), Vec::new());
        let times = timed(RUNS, || {
            let delta = engine.apply(events.next().expect("there is always a next"));
            let start = Instant::now();
            renderer.note(&delta);
            let plan = match renderer.step(engine.program()).expect("a step") {
                Step::Next(plan) => Some(plan),
                Step::Whole(_) => None,
            };
            let plan = plan.expect("only what changes is rendered");
            rendering.push(start.elapsed());
            client
                .advance(&plan)
                .expect("it is made")
                .expect("what is there is known");
            let took = start.elapsed();
            client.calm().expect("it is ended");
            // The next event is alone, and meets a processor that has not slept.
            while !client.packets_have_come() {
                spin_loop();
            }
            took
        });
        rendering.sort();
        show(&format!("{name}: rendered"), &rendering);
        show(&format!("{name}: in force"), &times);
        too_slow.extend(budget.and_then(|budget| over(budget, name, &times)));
    }
    too_slow
}

fn measure(table: &Arc<Table>) {
    let namespace = NetworkNamespace::create().expect("a namespace");
    let mut client = Client::open(&namespace).expect("a client");
    let mut other = Client::open(&namespace).expect("a client");
    let delete = Plan::from_iter([Operation::Delete(table.name().clone())]);
    let sync = |client: &mut Client, table: &Arc<Table>, changes: bool| {
        let start = Instant::now();
        let report = client.sync(table).expect("it is made");
        let took = start.elapsed();
        assert_eq!(report.operations > 0, changes);
        took
    };
    sync(&mut client, table, true);
    repeat(RUNS, "first sync", || {
        other.apply(Some(table), &delete, None).expect("it is deleted");
        let mut new = Client::open(&namespace).expect("a client");
        sync(&mut new, table, true)
    });
    repeat(RUNS, "read back", || {
        let start = Instant::now();
        let (_, observed) = client.read(table.name()).expect("a list");
        let took = start.elapsed();
        assert_eq!(observed, Observed::Table(canonical(table)));
        took
    });
    sync(&mut client, table, false);
    repeat(RUNS, "nothing to do", || sync(&mut client, table, false));
    repeat(RUNS, "nothing to do, others busy", || {
        elsewhere(&mut other);
        sync(&mut client, table, false)
    });
    repeat(RUNS, "repair of a flush", || {
        other.apply(Some(table), &delete, None).expect("it is deleted");
        sync(&mut client, table, true)
    });
}

/// A transaction about another table.
fn elsewhere(client: &mut Client) {
    let foreign = Draft::new(Name::new("foreign").expect("a name"))
        .check()
        .expect("a table");
    let plan = Plan::from_iter([Operation::Replace(Arc::new(foreign))]);
    client.apply(None, &plan, None).expect("it is made");
}

/// Prints the times of several runs.
fn repeat(runs: usize, name: &str, work: impl FnMut() -> Duration) {
    show(name, &timed(runs, work));
}

/// The times of several runs, ascending.
fn timed(runs: usize, mut work: impl FnMut() -> Duration) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..runs).map(|_| work()).collect();
    times.sort();
    times
}

fn show(name: &str, times: &[Duration]) {
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    println!(
        "  {name:<33} {:>9.1?} {:>9.1?} {:>9.1?}",
        at(0),
        at(times.len() / 2),
        at(times.len().saturating_sub(1))
    );
}
