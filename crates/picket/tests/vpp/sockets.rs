//! A node with three pods whose sockets are VPP's own, and the world outside.

use std::fs;
use std::path::{Path, PathBuf};

use picket_net::{Family, Protocol};
use picket_testing::ran::Ran;
use picket_vpp::client::{self, Change, Connector, Feature, Label, SessionAction, SessionRule, SessionScope};
use picket_vpp::fake::{Connection, Fake, Fault, Options, Packet, Transport, When};
use tempfile::TempDir;

use crate::agent::{Agent, run};
use crate::scene::Scene;

/// The target of these tests.
pub(crate) const SESSION: &str = "vpp-session";

/// What changes rules in VPP.
const CHANGE: &str = "session_rule_add_del";

/// The pods with their addresses; VPP has their namespaces in this order, from 1 on.
pub(crate) const WEB: &str = "10.0.0.1";
pub(crate) const DB: &str = "10.0.0.2";
pub(crate) const API: &str = "10.0.0.3";
pub(crate) const WORLD: &str = "192.0.2.1";

/// A VPP with its session layer on, and a namespace for each pod.
pub(crate) fn options() -> Options {
    let options = Options::new(7).session_layer(true);
    let pods = ["shop/web", "shop/db", "shop/api"];
    pods.into_iter().fold(options, Options::namespace)
}

/// Manifests, a VPP for them, and the file that says which namespace is whose.
pub(crate) struct Sockets {
    pub(crate) scene: Scene,
    folder: TempDir,
}

impl Sockets {
    pub(crate) fn new(policy: &str) -> Self {
        Self::with(policy, options())
    }

    pub(crate) fn with(policy: &str, options: Options) -> Self {
        let sockets = Self {
            scene: Scene::with(policy, options),
            folder: tempfile::tempdir().unwrap(),
        };
        sockets.name("shop/web 1\nshop/db 2\nshop/api 3\n");
        sockets
    }

    pub(crate) fn vpp(&self) -> &Fake {
        &self.scene.vpp
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("namespaces")
    }

    /// From now on these namespaces are said to be of these pods.
    pub(crate) fn name(&self, lines: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, lines).unwrap();
        fs::rename(&new, self.file()).unwrap();
    }

    /// The arguments of an agent for it.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let socket = self.vpp().socket().to_str().unwrap().to_owned();
        let rule = format!("file={}", self.file().display());
        let words = [
            "--target",
            SESSION,
            "--vpp-socket",
            &socket,
            "--vpp-pod-namespace",
            &rule,
        ];
        words.map(str::to_owned).into()
    }

    /// An agent for it.
    pub(crate) fn start(&self, more: &[&str]) -> Agent {
        self.with_arguments(more, Agent::start)
    }

    /// The same for a run of the program that ends by itself.
    pub(crate) fn run(&self, more: &[&str]) -> Ran {
        self.with_arguments(more, run)
    }

    fn with_arguments<T>(&self, more: &[&str], start: impl FnOnce(&Path, &[&str]) -> T) -> T {
        let arguments = self.arguments();
        let words = arguments.iter().map(String::as_str).chain(more.iter().copied());
        start(self.scene.manifests(), &words.collect::<Vec<_>>())
    }

    /// VPP was told nothing that only a client with a defect says.
    pub(crate) fn expect_no_damage(&self) {
        assert_eq!(self.vpp().complaints(), Vec::<String>::new());
        assert_eq!(self.vpp().crashes(), Vec::<String>::new());
    }

    /// VPP refuses so many changes of rules.
    pub(crate) fn refuse(&self, count: usize) {
        for behind in 0..count {
            let when = When::Named(CHANGE.to_owned(), behind);
            self.vpp().fail(when, Fault::Refuse(-1));
        }
    }

    /// Whether a pod, or who is outside, may open a connection.
    pub(crate) fn opens(&self, from: &str, to: &str) -> bool {
        opens(self.vpp(), namespace(from), from, to, 5432)
    }

    /// How many requests changed rules since the record was cleared.
    pub(crate) fn changes(&self) -> usize {
        let record = self.vpp().record();
        record.iter().filter(|message| message.name == CHANGE).count()
    }

    /// How many rules there are that decide something.
    pub(crate) fn rules(&self) -> usize {
        let state = self.vpp().state();
        let namespaces = state.namespaces().map(|(index, _)| Some(index));
        let tables: Vec<_> = namespaces.chain([None]).collect();
        let kinds = [Transport::Tcp, Transport::Udp].into_iter();
        kinds
            .flat_map(|transport| Family::BOTH.map(|family| (transport, family)))
            .flat_map(|(transport, family)| {
                let tables = tables.iter();
                tables
                    .flat_map(|table| state.session_rules(*table, transport, family))
                    .collect::<Vec<_>>()
            })
            .filter(|rule| rule.action != u32::MAX)
            .count()
    }

    /// Somebody else adds a rule to a table; that of the first FIB is `None`.
    pub(crate) fn add(&self, namespace: Option<u32>, remote: &str, action: SessionAction, tag: &str) {
        self.change(Change::Add, namespace, remote, action, tag);
    }

    /// Somebody else removes the rule of a tag.
    pub(crate) fn remove(&self, namespace: Option<u32>, remote: &str, tag: &str) {
        self.change(Change::Delete, namespace, remote, SessionAction::Allow, tag);
    }

    fn change(&self, change: Change, namespace: Option<u32>, remote: &str, action: SessionAction, tag: &str) {
        let remote: picket_net::Prefix = remote.parse().unwrap();
        let rule = SessionRule {
            transport: client::Transport::Tcp,
            local: picket_net::Prefix::all(remote.family()),
            remote,
            local_port: 0,
            remote_port: 0,
            action,
            scope: match namespace {
                Some(_) => SessionScope::Local,
                None => SessionScope::Global,
            },
            tag: Label::new(tag).unwrap(),
        };
        let mut vpp = Connector::new(self.vpp().socket())
            .connect(&[Feature::Sessions])
            .unwrap();
        vpp.change_session_rule(change, namespace.unwrap_or_default(), &rule)
            .unwrap();
    }
}

fn namespace(address: &str) -> Option<u32> {
    let pods = [WEB, DB, API].into_iter().zip(1..);
    pods.into_iter()
        .find(|(pod, _)| *pod == address)
        .map(|(_, index)| index)
}

/// What begins a connection.
pub(crate) fn packet(from: &str, to: &str, port: u16) -> Packet {
    let ends = [(from, 40_000), (to, port)].map(|(address, port)| (address.parse().unwrap(), port));
    Packet::new(Protocol::TCP, ends[0], ends[1])
}

/// Whether an application may open a connection in a namespace, or who is outside without one.
pub(crate) fn opens(vpp: &Fake, namespace: Option<u32>, from: &str, to: &str, port: u16) -> bool {
    let packet = packet(from, to, port);
    let verdict = match namespace {
        Some(index) => vpp.connects(index, &packet),
        None => vpp.accepts(&packet),
    };
    verdict == Connection::Allowed
}
