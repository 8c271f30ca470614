//! What the tests have in common.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use picket_net::{Family, PortRange, Protocol};
use picket_neutron::client::{Backoff, Cloud, Neutron, Observer, Operation, Options, Outcome};
use picket_neutron::{Remote, SecurityGroupRule};
use picket_policy::Direction;
use smol_str::SmolStr;

/// Waits for something on this thread.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// What was called, and how it ended.
#[derive(Default)]
pub(crate) struct Calls(Mutex<Vec<(Operation, Outcome)>>);

impl Calls {
    /// The calls since it was asked for last, as `create_security_group done`.
    pub(crate) fn words(&self) -> Vec<String> {
        let calls = std::mem::take(&mut *self.0.lock().unwrap());
        let calls = calls.into_iter();
        calls
            .map(|(operation, outcome)| format!("{} {}", operation.label(), outcome.label()))
            .collect()
    }
}

impl Observer for Calls {
    fn called(&self, operation: Operation, outcome: Outcome, _: Duration) {
        self.0.lock().unwrap().push((operation, outcome));
    }
}

/// With little patience between attempts.
pub(crate) fn options() -> Options {
    Options {
        backoff: Backoff {
            first: Duration::from_millis(5),
            longest: Duration::from_millis(50),
        },
        timeout: Duration::from_secs(60),
        per_second: 10_000,
        ..Options::default()
    }
}

/// A client of the Neutron there, which wants no tokens.
pub(crate) fn client(endpoint: &str, options: Options) -> (Neutron, Arc<Calls>) {
    client_of(Cloud::open(endpoint), options)
}

pub(crate) fn client_of(cloud: Cloud, options: Options) -> (Neutron, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    let observer = Arc::clone(&calls);
    (Neutron::new(cloud, options, observer).unwrap(), calls)
}

/// A rule for what comes in over IPv4 by TCP at a port.
pub(crate) fn tcp(port: u16, remote: Remote) -> SecurityGroupRule {
    SecurityGroupRule {
        direction: Direction::Ingress,
        ethertype: Family::Ipv4,
        protocol: Some(Protocol::TCP),
        ports: PortRange::single(port),
        remote,
    }
}

pub(crate) fn prefix(text: &str) -> Remote {
    Remote::Prefix(text.parse().unwrap())
}

pub(crate) fn set<const N: usize>(of: [&str; N]) -> BTreeSet<SmolStr> {
    of.into_iter().map(SmolStr::from).collect()
}
