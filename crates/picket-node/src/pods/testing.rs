//! What tests of one sandbox share.

use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Attachment, Pod, Semantics, Snapshot};
use picket_dataplane::EstablishedConnections;
use picket_linux::NetworkNamespace;
use picket_linux::runtime::{Sandbox, SandboxId};
use picket_net::Protocol;
use picket_nftables::client::Client;
use picket_nftables::diff::PORTION;
use picket_nftables::model::Table;
use picket_policy::{Direction, NetworkName, Networks as On, Policy};
use picket_testing::build::{PodBuilder, accept, namespace, pod, policy};
use picket_testing::snapshot;

use super::desired::Desired;
use super::held::Substitutes;
use super::network::Networks;
use super::plugin::Plugins;
use super::sandbox::Place;
use super::status::SandboxStatus;
use super::touched::Touched;
use crate::metrics::Metrics;
use crate::versions::Readings;

/// What is to be in force in a pod with policies that accept a port each.
pub(super) fn desired(policies: &[(&str, u16)]) -> (Arc<Pod>, Desired, Networks) {
    let policies = policies.iter().map(|(name, port)| {
        let rule = accept().port(Protocol::TCP, *port);
        let policy = policy(&format!("x/{name}")).isolates(Direction::Ingress);
        policy.ingress(rule).build()
    });
    desired_of(policies.collect())
}

/// The network of the pods.
fn network() -> NetworkName {
    NetworkName::parse("net", "x").unwrap()
}

/// A pod with an address on the network.
pub(super) fn attached(pod: PodBuilder, address: IpAddr) -> Pod {
    let mut pod = pod.build();
    pod.attachments.push(Attachment {
        network: network(),
        interface: "net1".into(),
        addresses: [address].into_iter().collect(),
        synthetic: false,
    });
    pod
}

/// A pod that these policies select, on its network.
pub(super) fn selected(policies: Vec<Policy>) -> (Arc<Pod>, Snapshot) {
    let network = network();
    let own = attached(pod("x/a").on("n"), "2.2.5.1".parse().unwrap());
    let mut cluster: Snapshot = snapshot![namespace("x"), own.clone()];
    for mut policy in policies {
        policy.object.kind = "MultiNetworkPolicy".into();
        policy.networks = On::Attached(vec![network.clone()]);
        cluster.policies.insert(policy.object.clone(), Arc::new(policy));
    }
    (Arc::new(own), cluster)
}

/// What is to be in force in such a pod.
pub(super) fn desired_of(policies: Vec<Policy>) -> (Arc<Pod>, Desired, Networks) {
    let count = policies.len();
    let (own, cluster) = selected(policies);
    let mut networks = Networks::new(Semantics::default(), EstablishedConnections::Keep, None);
    networks.update(
        &cluster,
        &Touched::Anything,
        &[&own],
        &Plugins::new(&[]),
        Vec::new(),
    );
    let desired = networks.desired(&own, &Substitutes::new(), None);
    assert_eq!(desired.policies.len(), count);
    (own, desired, networks)
}

/// The sandbox of a pod, of which nothing is known yet.
pub(super) fn place(name: &str, namespace: &Arc<NetworkNamespace>) -> Place {
    let sandbox = Sandbox {
        id: SandboxId::read(&format!("sandbox-{name}")).unwrap(),
        pod_uid: "1".to_owned(),
        namespace: "x".to_owned(),
        name: name.to_owned(),
        created: 0,
    };
    Place::new(sandbox, Arc::clone(namespace), false, PORTION)
}

pub(super) struct Scene {
    pub(super) namespace: Arc<NetworkNamespace>,
    pub(super) place: Place,
    pub(super) networks: Networks,
    pub(super) metrics: Metrics,
}

impl Scene {
    pub(super) fn new() -> Self {
        let namespace = Arc::new(NetworkNamespace::create().unwrap());
        Self {
            place: place("a", &namespace),
            namespace,
            networks: desired(&[]).2,
            metrics: Metrics::default(),
        }
    }

    /// Somebody who keeps everybody else from changing the table, which has these rules.
    pub(super) fn thief(&self, table: &Arc<Table>) -> Client {
        let mut thief = Client::open(&self.namespace).unwrap().holding();
        thief.sync(table).unwrap();
        thief
    }

    pub(super) fn want(&mut self, (pod, desired, networks): (Arc<Pod>, Desired, Networks)) {
        self.networks = networks;
        self.place.want(&pod, desired);
        self.make(None);
    }

    /// From now on these policies are there, and may be held back as before.
    pub(super) fn follow(&mut self, policies: Vec<Policy>) {
        self.learn(selected(policies));
    }

    /// From now on this is the cluster, and policies may be held back as before.
    pub(super) fn learn(&mut self, (pod, cluster): (Arc<Pod>, Snapshot)) {
        self.networks.update(
            &cluster,
            &Touched::Anything,
            &[&pod],
            &Plugins::new(&[]),
            Vec::new(),
        );
        self.place.follow(&pod, &self.networks);
        self.make(None);
    }

    /// Makes the rules what they should be, and finds out who is to blame if they are refused.
    pub(super) fn make(&mut self, unknown: Option<&str>) {
        self.place.make(&self.networks, unknown, &self.metrics);
        if self.place.is_unsearched() {
            self.place.clear(&self.networks, &self.metrics);
        }
        while self.place.is_searching() {
            self.place.go_on(&self.networks, &self.metrics);
        }
    }

    pub(super) fn status(&self) -> SandboxStatus {
        self.place.status(&Readings::default()).unwrap()
    }

    #[track_caller]
    pub(super) fn check(&self, in_force: &[&str], waiting: &[&str]) {
        let status = self.status();
        let named = |names: &[&str]| -> Vec<_> {
            let names = names.iter();
            names.map(|name| format!("MultiNetworkPolicy x/{name}")).collect()
        };
        assert_eq!(
            (status.policies, status.waiting),
            (named(in_force), named(waiting)),
            "{:?}",
            status.trouble
        );
    }
}
