//! A follower of a cluster, and what it must know.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use picket_cluster::{Addresses, Event, Extra, Pod, Snapshot, Store};
use picket_node::Source;
use picket_policy::{Diagnostic, Labels, ObjectRef, Options, Position, V1beta1};
use picket_source::{Change, Health, Interest, KindHealth, Kube, Origin, Text, load_texts};
use smol_str::SmolStr;

/// How long anything may take before a test fails.
const BOUND: Duration = Duration::from_secs(240);

pub(crate) struct Following {
    pub(crate) health: Health,
    changes: Receiver<Change>,
    store: Store,
    /// Whether everything was known once.
    pub(crate) is_complete: bool,
    /// What is wrong with which object.
    pub(crate) diagnoses: BTreeMap<ObjectRef, Vec<Diagnostic>>,
    /// The events so far.
    pub(crate) events: Vec<Event>,
    /// Of how many of them each change was made.
    pub(crate) changed: Vec<usize>,
    /// Up to which version of the API server all changes of a kind are known.
    pub(crate) versions: BTreeMap<SmolStr, SmolStr>,
}

pub(crate) fn kube(kubeconfig: &Path) -> Kube {
    let mut kube = Kube::new(None, Duration::from_secs(5));
    kube.kubeconfig = Some(kubeconfig.to_owned());
    kube
}

impl Following {
    /// Follows a cluster, for a node if one is given. It ends with the test.
    pub(crate) fn start(kubeconfig: &Path, node: Option<&str>) -> Self {
        Self::of(Source::Kube(kube(kubeconfig)), node)
    }

    /// The same of any source.
    pub(crate) fn of(source: Source, node: Option<&str>) -> Self {
        let health = Health::default();
        let (sender, changes) = channel();
        let interest = Interest {
            node: node.map(SmolStr::from),
            services: true,
            discovery: Duration::from_millis(500),
            ..Interest::default()
        };
        let shown = health.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let (ended, mut end) = tokio::sync::mpsc::unbounded_channel();
            let sink = move |change| {
                if sender.send(change).is_err() {
                    // Whoever is told so has perhaps ended already.
                    let _ = ended.send(());
                }
            };
            runtime.unwrap().block_on(async {
                let follow = async {
                    match source {
                        Source::Kube(kube) => drop(kube.follow(interest, shown, sink).await),
                        Source::Etcd(etcd) => drop(etcd.follow(interest, shown, sink).await),
                        Source::Directory(directory) => match directory.follow(shown, sink).await {},
                    }
                };
                let follow = std::pin::pin!(follow);
                let ended = std::pin::pin!(end.recv());
                futures_util::future::select(follow, ended).await;
            });
        });
        Self {
            health,
            changes,
            store: Store::new(),
            is_complete: false,
            diagnoses: BTreeMap::new(),
            events: Vec::new(),
            changed: Vec::new(),
            versions: BTreeMap::new(),
        }
    }

    /// The same, until everything is known.
    pub(crate) fn complete(kubeconfig: &Path, node: Option<&str>) -> Self {
        let mut following = Self::start(kubeconfig, node);
        following.until_complete();
        following
    }

    /// Takes in changes until something holds.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            let Ok(change) = self.changes.recv_timeout(BOUND) else {
                panic!(
                    "{what} does not come about: {:#?}\n{:#?}",
                    self.snapshot(),
                    self.health.kinds()
                );
            };
            self.take(change);
        }
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Events(events) => {
                self.changed.push(events.len());
                for event in events {
                    self.is_complete |= event == Event::InitDone;
                    self.events.push(event.clone());
                    self.store.apply(event);
                }
            }
            Change::Reached { kind, version } => {
                self.versions.insert(kind, version);
            }
            Change::Plugin(..) | Change::Version(..) => {}
            Change::Diagnosis(mut object, diagnostics) => {
                object.uid = SmolStr::default();
                if diagnostics.is_empty() {
                    self.diagnoses.remove(&object);
                } else {
                    self.diagnoses.insert(object, diagnostics);
                }
            }
        }
    }

    /// What it knows, but for what only a live object has.
    pub(crate) fn snapshot(&self) -> Snapshot {
        without_uids(&self.store.snapshot())
    }

    /// Waits until everything is known.
    pub(crate) fn until_complete(&mut self) {
        self.until("a complete list", |following| following.is_complete);
    }

    /// Waits until something holds of how it goes, whatever changes meanwhile.
    pub(crate) fn until_health(&mut self, holds: impl Fn(&BTreeMap<String, KindHealth>) -> bool) {
        while !holds(&self.health.kinds()) {
            if let Ok(change) = self.changes.try_recv() {
                self.take(change);
            }
        }
    }

    /// Whether anything ever went.
    pub(crate) fn has_lost(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Delete(_)))
    }

    /// Waits until what is known is what a list gives now.
    pub(crate) fn until_equal(&mut self, kubeconfig: &Path, what: &str) {
        let expected = listed(kubeconfig);
        self.until(what, |following| following.snapshot() == expected);
    }
}

/// What a list of everything gives, as far as it is followed.
pub(crate) fn listed(kubeconfig: &Path) -> Snapshot {
    let mut kube = kube(kubeconfig);
    let texts = kube.texts().unwrap();
    assert_eq!(kube.missing(), []);
    loaded(&texts)
}

/// What texts give, as far as it is followed.
pub(crate) fn loaded(texts: &[Text]) -> Snapshot {
    let options = Options {
        v1beta1: V1beta1::V1,
        ..Options::default()
    };
    let mut snapshot = load_texts(texts, options).snapshot;
    for service in snapshot.services.values_mut() {
        service.selector = Labels::default();
        service.ports.clear();
    }
    snapshot
        .pods
        .retain(|_, pod| !pod.is_workload() && pod.is_managed());
    for pod in snapshot.pods.values_mut() {
        *pod = Arc::new(as_followed(pod));
    }
    without_uids(&snapshot)
}

/// A pod of a list as it is when it is followed.
fn as_followed(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    pod.owner = None;
    pod.extra = pod.extra.and_then(|extra| {
        let declared_ports = Vec::new();
        Extra {
            declared_ports,
            ..*extra
        }
        .kept()
    });
    if std::mem::take(&mut pod.synthetic) {
        pod.addresses = Addresses::default();
    }
    for attachment in &mut pod.attachments {
        if std::mem::take(&mut attachment.synthetic) {
            attachment.addresses = Addresses::default();
        }
    }
    pod
}

/// The same whatever text its policies were read from: a record has fewer lines than what a list gives.
pub(crate) fn without_places(mut snapshot: Snapshot) -> Snapshot {
    for policy in snapshot.policies.values_mut() {
        let policy = Arc::make_mut(policy);
        policy.position = Position::unknown();
        for side in [&mut policy.ingress, &mut policy.egress] {
            for rule in &mut side.rules {
                rule.position = Position::unknown();
            }
        }
    }
    snapshot
}

fn without_uids(snapshot: &Snapshot) -> Snapshot {
    let mut plain = Snapshot {
        pods: BTreeMap::new(),
        policies: BTreeMap::new(),
        services: BTreeMap::new(),
        ..snapshot.clone()
    };
    for service in snapshot.services.values() {
        let mut service = service.clone();
        service.object.uid = SmolStr::default();
        plain.services.insert(service.object.clone(), service);
    }
    for pod in snapshot.pods.values() {
        let mut pod = Pod::clone(pod);
        pod.object.uid = SmolStr::default();
        plain.pods.insert(pod.object.clone(), Arc::new(pod));
    }
    for policy in snapshot.policies.values() {
        let mut policy = (**policy).clone();
        policy.object.uid = SmolStr::default();
        plain.policies.insert(policy.object.clone(), Arc::new(policy));
    }
    plain
}
