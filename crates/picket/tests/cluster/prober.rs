//! A pod that sends to another all the time, and what of it arrives.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use picket_lab::{Lab, Place};
use picket_linux::NetworkNamespace;
use picket_net::Family;
use picket_policy::ObjectRef;

/// How long the receiver waits until it looks whether it is to end.
pub(crate) const TURN: Duration = Duration::from_millis(20);

/// How long the sender waits between packets.
pub(crate) const PAUSE: Duration = Duration::from_millis(3);

/// Within which time a sender must have sent what is asked for.
pub(crate) const BOUND: Duration = Duration::from_secs(240);

/// How many packets come from one port. Each port is a connection of its own.
pub(crate) const OF_ONE_PORT: usize = 8;

/// Sends UDP packets from one pod to another until it is asked what came of them.
pub(crate) struct Prober {
    sent: Arc<AtomicUsize>,
    received: Arc<AtomicUsize>,
    sender: Ending,
    receiver: Ending,
}

/// A thread that ends when it is asked to.
pub(crate) struct Ending {
    end: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Ending {
    /// Runs what looks now and then whether it is to end.
    pub(crate) fn start(run: impl FnOnce(&AtomicBool) + Send + 'static) -> Self {
        let end = Arc::<AtomicBool>::default();
        let asked = Arc::clone(&end);
        let thread = thread::spawn(move || run(&asked));
        Self { end, thread }
    }

    pub(crate) fn end(self) {
        self.end.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
    }
}

impl Prober {
    /// From one pod to a port of another, both as `namespace/name`.
    pub(crate) fn start(lab: &Lab, family: Family, from: &str, to: &str, port: u16) -> Self {
        let target = SocketAddr::from((address(lab, to, family), port));
        Self::between(namespace(lab, from), namespace(lab, to), target)
    }

    /// From anywhere in one namespace to an address in another.
    pub(crate) fn between(from: &NetworkNamespace, to: &NetworkNamespace, target: SocketAddr) -> Self {
        let family = Family::of(target.ip());
        let receiver = to.run(|| UdpSocket::bind(target).unwrap()).unwrap();
        receiver.set_read_timeout(Some(TURN)).unwrap();
        let from = from.duplicate().unwrap();
        let (sent, received) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let arrived = Arc::clone(&received);
        // What is on its way when it is to end still counts.
        let receiver = Ending::start(move |end| {
            loop {
                match receiver.recv(&mut [0; 8]) {
                    Ok(_) => {
                        arrived.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(_) if end.load(Ordering::SeqCst) => return,
                    Err(_) => {}
                }
            }
        });
        let gone = Arc::clone(&sent);
        let sender = Ending::start(move |end| {
            from.enter().unwrap();
            while !end.load(Ordering::SeqCst) {
                let socket = UdpSocket::bind((any(family), 0)).unwrap();
                for _ in 0..OF_ONE_PORT {
                    // Nobody hears of a packet that is dropped on the way.
                    if socket.send_to(b"probe", target).is_ok() {
                        gone.fetch_add(1, Ordering::SeqCst);
                    }
                    sleep(PAUSE);
                }
            }
        });
        Self {
            sent,
            received,
            sender,
            receiver,
        }
    }

    /// Whether anything came.
    pub(crate) fn has_received(&self) -> bool {
        self.received.load(Ordering::SeqCst) > 0
    }

    /// Sends on until more than so many packets were sent, and tells how many that were, and how many came.
    pub(crate) fn end_after(self, least: usize) -> (usize, usize) {
        // On a machine with other work the sender may hardly have begun.
        let begin = Instant::now();
        while self.sent.load(Ordering::SeqCst) <= least {
            assert!(begin.elapsed() < BOUND, "not {least} packets within {BOUND:?}");
            sleep(TURN);
        }
        self.sender.end();
        self.receiver.end();
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.sent), count(&self.received))
    }
}

pub(crate) fn object(id: &str) -> ObjectRef {
    let (namespace, name) = id.split_once('/').unwrap();
    ObjectRef::new("Pod", namespace, name)
}

/// The network namespace of a pod.
pub(crate) fn namespace<'a>(lab: &'a Lab, id: &str) -> &'a NetworkNamespace {
    lab.network().namespace(&Place::Pod(object(id))).unwrap()
}

/// Its address of a family.
pub(crate) fn address(lab: &Lab, id: &str, family: Family) -> IpAddr {
    let pod = &lab.topology().snapshot.pods[&object(id)];
    pod.addresses.of(family).unwrap()
}

/// Any address of a family.
pub(crate) fn any(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::Ipv6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}
