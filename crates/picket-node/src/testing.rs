//! What tests of the agent share.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use picket_cluster::{Event, Object, Semantics};
use picket_dataplane::EstablishedConnections;
use picket_engine::Delta;
use picket_linux::NetworkNamespace;
use picket_nftables::client::{Client, Observed};
use picket_nftables::diff::PORTION;
use picket_nftables::model::Table;
use picket_nftables::render::indexed;
use picket_policy::{ObjectRef, Peer, Policy};
use picket_source::{Change, Directory, Health, ObjectVersion};
use picket_testing::build::{accept, block, namespace, pod, policy};
use picket_testing::confined::many_blocks;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::agent::make_all;
use crate::drops::Drops;
use crate::enforcer::Enforcer;
use crate::events::Events;
use crate::host::Host;
use crate::knowledge::{Knowledge, Whose};
use crate::metrics::Metrics;
use crate::settings::UntilSynced;
use crate::status::Shared;
use crate::vpp::{NatLoopback, PodRule, VppSettings, VppTarget};
use crate::{Extent, Listen, Settings, Source};

/// A policy whose rules are more than the kernel takes where sockets are small.
pub(crate) fn large(name: &str) -> Policy {
    policy(name).ingress(accept().peer(large_block())).build()
}

/// The peer of a rule that is.
pub(crate) fn large_block() -> Peer {
    let (all, except) = many_blocks();
    let except: Vec<_> = except.iter().map(String::as_str).collect();
    block(all, &except)
}

/// How an agent runs on the node `n` that lets others change its table.
pub(crate) fn settings() -> Settings {
    Settings {
        source: Source::Directory(Directory {
            paths: Vec::new(),
            interval: Duration::from_secs(1),
        }),
        node: "n".into(),
        nftables: true,
        vpp: None,
        semantics: Semantics::default(),
        until_synced: UntilSynced::Allow,
        anti_spoof: false,
        established: EstablishedConnections::Keep,
        hold: false,
        portion: PORTION,
        verify_every: Duration::from_secs(300),
        discover_every: Duration::from_secs(300),
        log_denied: None,
        events: false,
        listen: Listen {
            address: None,
            socket: PathBuf::new(),
        },
    }
}

/// Both targets of VPP, nowhere.
pub(crate) fn vpp_settings() -> VppSettings {
    VppSettings {
        targets: [VppTarget::Acl, VppTarget::Session].into(),
        socket: "/nowhere".into(),
        pod_interfaces: PodRule::default(),
        pod_namespaces: None,
        most_session_rules: 100,
        uplinks: Vec::new(),
        nat_loopback: NatLoopback::None,
        refresh: Duration::from_secs(1),
        look: Duration::from_secs(1),
    }
}

/// The agent of the node `n`, where the pod `x/a` is, without threads: nobody hears what others do.
pub(crate) struct Node {
    pub(crate) namespace: NetworkNamespace,
    pub(crate) knowledge: Knowledge,
    pub(crate) enforcer: Enforcer,
    pub(crate) shared: Shared,
    pub(crate) metrics: Metrics,
}

impl Node {
    /// In the network namespace that this thread is in, with these policies as far as they can be in force.
    pub(crate) fn new(policies: impl IntoIterator<Item = Policy>) -> Self {
        let mut node = Self::before(policies);
        node.hear(Vec::new());
        node
    }

    /// The same, which knows the policies and has enforced nothing yet.
    pub(crate) fn before(policies: impl IntoIterator<Item = Policy>) -> Self {
        let (settings, metrics) = (settings(), Metrics::default());
        let events = || Events::start(&settings, Extent::Once, &metrics).unwrap();
        let host = Host::open(&settings).unwrap();
        let drops = Drops::open(host.namespace()).unwrap();
        let shared = Shared::new("n", Health::default());
        let knowledge = Knowledge::new("n", settings.semantics.clone(), false, events());
        let enforcer = Enforcer::new(host, None, drops, shared.clone(), metrics.clone(), events());
        let mut node = Self {
            namespace: NetworkNamespace::current().unwrap(),
            knowledge,
            enforcer,
            shared,
            metrics,
        };
        let objects = [namespace("x").into(), pod("x/a").on("n").ip("10.0.0.1").into()];
        let objects = objects
            .into_iter()
            .chain(policies.into_iter().map(Object::Policy));
        let events = [Event::Init].into_iter().chain(objects.map(Event::Apply));
        node.learn(events.chain([Event::InitDone]).collect());
        node
    }

    /// Learns what changed.
    pub(crate) fn learn(&mut self, events: Vec<Event>) {
        let note = |_: Whose, delta: &Delta| self.enforcer.note(delta);
        self.knowledge.take(Change::Events(events), note);
    }

    /// Learns what changed, and enforces it.
    pub(crate) fn hear(&mut self, events: Vec<Event>) {
        self.learn(events);
        // What goes wrong is in the status.
        let _ = make_all(&mut self.knowledge, &mut self.enforcer);
    }

    /// Holds the table against the policies.
    pub(crate) fn prove(&mut self) {
        let program = self.knowledge.program().unwrap();
        let proof = self.enforcer.observe().unwrap().prove(program, &|| true);
        self.enforcer
            .proved(proof, program, &self.knowledge.remarks.versions);
    }

    /// A policy was read in this generation, or is gone.
    pub(crate) fn read(&mut self, policy: &ObjectRef, generation: Option<i64>) {
        let version = generation.map(|generation| ObjectVersion {
            generation: Some(generation),
            ..ObjectVersion::default()
        });
        self.knowledge
            .take(Change::Version(policy.clone(), version), |_, _| {});
    }

    /// The metrics, line by line.
    pub(crate) fn metrics(&self) -> Vec<String> {
        let text = self.metrics.text(&self.shared.status(), None).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// What the kernel has of the table.
    pub(crate) fn table(&self) -> Table {
        let mut client = Client::open(&self.namespace).unwrap();
        match client.read(&indexed::table_name()).unwrap().1 {
            Observed::Table(table) => table,
            other => panic!("{other:?}"),
        }
    }
}

/// What this thread logs.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Does something, and gives what is logged meanwhile: a line each, as in `ERROR message a=1`.
    pub(crate) fn of(body: impl FnOnce()) -> Vec<String> {
        let log = Self::default();
        tracing::subscriber::with_default(log.clone(), body);
        log.0.lock().unwrap().clone()
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let said = match field.name() {
            "message" => format!(" {value:?}"),
            name => format!(" {name}={value:?}"),
        };
        self.0.push_str(&said);
    }
}
