//! Packets all the time, while one table takes the place of another.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use picket_cluster::Snapshot;
use picket_dataplane::{Objects, Plan};
use picket_net::Protocol;
use picket_nftables::client::{ApplyError, Client, Observed, canonical};
use picket_nftables::diff::Operation;
use picket_nftables::model::{Key, Table, Value};
use picket_nftables::print;
use picket_policy::Direction;
use picket_testing::build::{accept, pod, pods_in, policy};
use picket_testing::snapshot;

use super::super::table;
use super::hosts::{Host, Node};
use crate::let_go::once_held_by_none;
use crate::sample::name;

const PORT: u16 = 1000;

/// A port that is allowed by both.
const ALWAYS: u16 = 2000;

/// How often the one table takes the place of the other.
const TURNS: usize = 100;

/// After so many turns a packet must have met one, where nothing is done about it.
const MANY: usize = 20_000;

/// Sends packets as fast as it can, until it is dropped.
struct Flood {
    ended: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    sender: Option<JoinHandle<()>>,
}

impl Flood {
    fn begin(from: &Host, to: SocketAddr) -> Self {
        let (ended, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let bind = || UdpSocket::bind((from.v4, 0)).expect("a socket");
        let socket = from.namespace.run(bind).expect("the namespace");
        let sender = {
            let (ended, sent) = (Arc::clone(&ended), Arc::clone(&sent));
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    // Nobody hears of a packet that is dropped on the way.
                    sent.fetch_add(usize::from(socket.send_to(b"x", to).is_ok()), Ordering::Relaxed);
                }
            })
        };
        Self {
            ended,
            sent,
            sender: Some(sender),
        }
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let sender = self.sender.take().map(JoinHandle::join);
        assert!(matches!(sender, Some(Ok(()))), "a sender has ended before");
    }
}

/// A pod that may send to a port of another, which takes nothing there; or that may not, while the other would take it. Another port is
/// always allowed, so that what changes are elements and no rules.
fn cluster(from: &Host, to: &Host, may_send: bool) -> Snapshot {
    let one = policy("x/from").selects("name=from").isolates(Direction::Egress);
    let other = policy("x/to").selects("name=to").isolates(Direction::Ingress);
    let allowed = |peer: &str, may: bool| {
        let rule = accept().peer(pods_in("x", peer)).port(Protocol::UDP, ALWAYS);
        if may { rule.port(Protocol::UDP, PORT) } else { rule }
    };
    let one = one.egress(allowed("name=to", may_send));
    let other = other.ingress(allowed("name=from", !may_send));
    let at = |id: &str, name: &str, host: &Host| pod(id).label("name", name).ip(&host.v4.to_string()).on("n");
    snapshot![at("x/from", "from", from), at("x/to", "to", to), one, other]
}

/// Whether a packet has come.
fn has_come(receiver: &UdpSocket) -> bool {
    match receiver.recv(&mut [0]) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

/// Where sources are judged once more while this is not empty.
fn changing(node: &Node) -> bool {
    node.nft(&["list", "set", "inet", "picket", "changing"])
        .contains("elements")
}

#[test]
fn who_is_patient_leaves_it_to_later_that_sources_are_judged_once() {
    let node = Node::new();
    let (from, to) = (node.host(1), node.host(2));
    let tables = [true, false].map(|may_send| Arc::new(table(&cluster(&from, &to, may_send), Some("n"))));
    let patient = || {
        Client::open(&node.namespace)
            .expect("a client")
            .holding()
            .patient()
    };
    let mut client = patient();
    client.sync(&tables[0]).expect("a table");
    assert!(client.is_calm() && !changing(&node));
    for turn in 1..4 {
        client.sync(&tables[turn % 2]).expect("the other");
        assert!(!client.is_calm() && changing(&node), "after {turn} changes");
        // Where nothing is to be done nothing has changed.
        let since = client.changing();
        client.sync(&tables[turn % 2]).expect("the same");
        assert_eq!(client.changing(), since, "after {turn} changes");
    }
    // Who comes then does not know since when. What is to be ended only is held all the same.
    for table in [&tables[1], &tables[0]] {
        drop(client);
        client = patient();
        once_held_by_none(|| client.sync(table));
        assert!(!client.is_calm() && changing(&node));
        let mut other = Client::open(&node.namespace).expect("another client");
        let delete = Plan::from_iter([Operation::Delete(table.name().clone())]);
        let refused = other.apply(Some(table), &delete, None);
        assert!(matches!(refused, Err(ApplyError::Refused(_))), "{refused:?}");
    }
    client.calm().expect("an end");
    assert!(client.is_calm() && !changing(&node));
    let (_, observed) = client.read(tables[0].name()).expect("a list");
    assert_eq!(observed, Observed::Table(canonical(&tables[0])));
    let report = client.sync(&tables[0]).expect("the same");
    assert_eq!((report.operations, report.readings), (0, 0));
}

#[test]
fn what_others_have_changed_is_reported_by_who_ends_it() {
    let node = Node::new();
    let (from, to) = (node.host(1), node.host(2));
    let tables = [true, false].map(|may_send| Arc::new(table(&cluster(&from, &to, may_send), Some("n"))));
    let open = || Client::open(&node.namespace).expect("a client").patient();
    let mut client = open();
    for others_change in [false, true] {
        let before = client.changing();
        assert_eq!(before, None);
        client.sync(&tables[0]).expect("a table");
        client.sync(&tables[1]).expect("the other");
        assert!(client.changing().is_some());
        if others_change {
            let delete = Plan::from_iter([Operation::Delete(tables[1].name().clone())]);
            open().apply(None, &delete, None).expect("nobody holds it");
        }
        let report = client.calm().expect("an end");
        assert_eq!(report.was_another, others_change, "{report:?}");
        assert!(client.is_calm() && !changing(&node));
        let (_, observed) = client.read(tables[1].name()).expect("a list");
        assert_eq!(observed, Observed::Table(canonical(&tables[1])));
    }
}

#[test]
fn what_is_left_over_takes_nothing_out_of_force() {
    let node = Node::new();
    let (from, to) = (node.host(1), node.host(2));
    let [old, new] = [true, false].map(|may_send| table(&cluster(&from, &to, may_send), Some("n")));
    let mut client = Client::open(&node.namespace).expect("a client");
    client.sync(&Arc::new(old.clone())).expect("a table");
    // Somebody has taken the element away meanwhile.
    let element = Key::from(Value::priority(0));
    let begin = Operation::AddElements(name("changing"), vec![element]);
    let changing = Table::applied(Some(&old), &Plan::from_iter([begin])).expect("a table");
    let plan = Table::difference(Some(&changing), &new);
    client
        .apply(Some(&changing), &plan, None)
        .expect("all is in force");
    let (_, observed) = client.read(new.name()).expect("a list");
    assert_eq!(observed, Observed::Table(canonical(&new)));
}

#[test]
fn no_packet_is_judged_by_what_its_source_might_and_its_destination_may() {
    let node = Node::new();
    let (from, to) = (node.host(1), node.host(2));
    let tables = [true, false].map(|may_send| Arc::new(table(&cluster(&from, &to, may_send), Some("n"))));
    let mut client = Client::open(&node.namespace).expect("a client");
    client.sync(&tables[0]).expect("a table");
    let target = SocketAddr::from((to.v4, PORT));
    let bind = || UdpSocket::bind(target).expect("a socket");
    let receiver = to.namespace.run(bind).expect("the namespace");
    receiver
        .set_nonblocking(true)
        .expect("a socket that waits for nothing");
    let flood = Flood::begin(&from, target);
    for turn in 1..=TURNS {
        client.sync(&tables[turn % 2]).expect("a table");
        assert!(
            !has_come(&receiver),
            "a packet that both tables deny, after {turn} changes"
        );
    }
    let sent = flood.sent();
    assert!(sent > 1000, "{sent} packets");
    // With the whole change in one transaction some packet meets both.
    let commands = |[old, new]: [&Table; 2]| {
        let plan = Table::difference(Some(old), new);
        print::commands(old.name(), &plan)
    };
    let changes = [[0, 1], [1, 0]].map(|way| commands(way.map(|at| &*tables[at])));
    let meets = |turn: usize| {
        node.load(&changes[turn % 2]);
        has_come(&receiver)
    };
    let met = (0..MANY).find(|turn| meets(*turn));
    println!("{sent} packets, {met:?}");
    assert!(
        met.is_some(),
        "no packet of {} meets two tables",
        flood.sent() - sent
    );
}
