//! What an event costs the agent beside what `picket-vpp` does for it: as much on a node of many pods as on one of few, with lists
//! and with session rules. What VPP says of itself when it is asked is not counted.

use std::fmt::Write as _;

use picket_cluster::{Event, Object, Pod, Semantics};
use picket_engine::Engine;
use picket_source::Health;
use picket_testing::applications::{self, apply, exchanges};
use picket_testing::build::node;
use picket_vpp::client::{Connector, Vpp};
use picket_vpp::fake::{Fake, Options};

use super::acl::AclTables;
use super::render::{Known, Renderer};
use super::report::Report;
use super::session::SessionTables;
use super::worker::Tables;
use super::{NamespaceRule, PodRule, VppSettings, VppStatus, VppTarget, work};
use crate::metrics::Metrics;
use crate::status::Shared;
use crate::testing::vpp_settings;

/// A pod of the node, which names an interface in case that counts.
fn member(number: usize, application: Option<usize>) -> Pod {
    naming(number, application, &format!("tap{number}"))
}

/// One that names this interface.
fn naming(number: usize, application: Option<usize>, interface: &str) -> Pod {
    applications::member(number, application)
        .on("n")
        .at_vpp(interface)
        .build()
}

fn name(number: usize) -> String {
    format!("x/p{number}")
}

/// What there is: applications of two pods each.
fn there(count: usize) -> Vec<Event> {
    let pods = (0..count).map(|number| apply(member(number, Some(number / 2))));
    let policies = (0..count / 2).map(|application| apply(Object::Policy(exchanges(application, 80))));
    let node = [apply(Object::from(node("n").ip("10.9.0.1")))];
    node.into_iter().chain(pods).chain(policies).collect()
}

/// What happens.
fn happens(count: usize) -> Vec<(&'static str, Event)> {
    let (new, open) = (member(count, Some(5)), member(count + 1, None));
    let nowhere = member(count + 2, Some(7));
    vec![
        ("a policy changes", apply(Object::Policy(exchanges(3, 81)))),
        ("a pod comes", apply(new.clone())),
        ("a pod goes", Event::Delete(new.object)),
        ("a pod comes that nothing restricts", apply(open.clone())),
        ("it goes", Event::Delete(open.object)),
        ("a pod comes that VPP does not know", apply(nowhere.clone())),
        ("it goes", Event::Delete(nowhere.object)),
        ("a pod has another label", apply(member(7, Some(9)))),
        ("it has its own again", apply(member(7, Some(3)))),
    ]
}

/// What pods name in their annotations then: an interface that there is not, that of another, and their own again.
fn named() -> Vec<(&'static str, Event)> {
    let naming = |interface: &str| naming(7, Some(3), interface);
    vec![
        (
            "a pod names an interface that VPP does not have",
            apply(naming("tap7000")),
        ),
        ("it names that of another", apply(naming("tap9"))),
        ("it names its own again", apply(naming("tap7"))),
    ]
}

/// The agent with one target, without threads.
struct Scene {
    /// What is there as long as the agent is.
    _fake: Fake,
    _file: tempfile::NamedTempFile,
    engine: Engine,
    renderer: Renderer,
    tables: Box<dyn Tables>,
    vpp: Vpp,
    report: Report,
    shared: Shared,
    target: VppTarget,
}

impl Scene {
    fn new(target: VppTarget, pod_interfaces: PodRule, count: usize) -> Self {
        let known = count + 2;
        let mut file = String::new();
        let options = (0..known).fold(Options::new(1).session_layer(true), |options, number| {
            writeln!(file, "{} {}", name(number), number + 1).unwrap();
            options.namespace(&name(number))
        });
        let fake = Fake::start(options.interface("uplink", "")).unwrap();
        for number in 0..known {
            fake.add_interface(&format!("tap{number}"), &name(number));
        }
        let named = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(named.path(), file).unwrap();
        let settings = VppSettings {
            targets: [target].into(),
            pod_interfaces,
            pod_namespaces: Some(NamespaceRule::File(named.path().into())),
            most_session_rules: 100_000,
            ..vpp_settings()
        };
        let tables: Box<dyn Tables> = match target {
            VppTarget::Acl => Box::new(AclTables::new(&settings)),
            VppTarget::Session => Box::new(SessionTables::new(&settings)),
        };
        let mut engine = Engine::new(Semantics::default());
        let mut renderer = Renderer::new(&"n".into(), &settings);
        for event in there(count) {
            renderer.learn(std::slice::from_ref(&event));
            engine.apply(event);
        }
        let shared = Shared::new("n", Health::default());
        let mut scene = Self {
            vpp: Connector::new(fake.socket()).connect(tables.features()).unwrap(),
            _fake: fake,
            _file: named,
            engine,
            renderer,
            tables,
            report: Report::new(target, &shared, &Metrics::default()),
            shared,
            target,
        };
        scene.tables.read(&mut scene.vpp).unwrap();
        scene.enforce();
        scene
    }

    /// Has what the engine says by now enforced, as the loop of the agent and the thread of the target do.
    fn enforce(&mut self) {
        let wanted = self.renderer.render(self.engine.program(), &Known::default());
        self.renderer.findings();
        self.tables.hear(&wanted);
        let synced = self.tables.sync(&mut self.vpp, &wanted).unwrap();
        assert!(synced.troubles.is_empty(), "{:?}", synced.troubles);
        self.report.synced(&wanted, &synced, &Default::default());
    }

    fn status(&self) -> VppStatus {
        self.shared.lock().vpp[self.target.name()].clone()
    }

    /// How much is looked at for each event.
    fn counted(&mut self, events: Vec<(&'static str, Event)>) -> Vec<(&'static str, usize)> {
        let each = events.into_iter().map(|(what, event)| {
            let before = work::count();
            self.renderer.learn(std::slice::from_ref(&event));
            self.renderer.note(&self.engine.apply(event));
            self.enforce();
            let counted = work::count() - before;
            self.check(what);
            (what, counted)
        });
        each.collect()
    }

    /// What is said and what VPP has is what is worked out from nothing.
    fn check(&mut self, what: &str) {
        let said = self.status();
        let before = self.renderer.render(self.engine.program(), &Known::default());
        self.tables.hear(&before);
        self.tables.read(&mut self.vpp).unwrap();
        let operations = self.tables.sync(&mut self.vpp, &before).unwrap().operations;
        assert_eq!(operations, 0, "{what}");
        self.report.synced(
            &before,
            &self.tables.sync(&mut self.vpp, &before).unwrap(),
            &Default::default(),
        );
        let whole = self.status();
        assert_eq!(
            (said.interfaces, said.namespaces),
            (whole.interfaces, whole.namespaces),
            "{what}"
        );
        assert_eq!(
            (said.pending, said.unknown),
            (whole.pending, whole.unknown),
            "{what}"
        );
    }
}

fn check(target: VppTarget, pod_interfaces: &PodRule, happens: impl Fn(usize) -> Vec<(&'static str, Event)>) {
    let [few, many] = [100, 400].map(|count| {
        let mut scene = Scene::new(target, pod_interfaces.clone(), count);
        scene.counted(happens(count))
    });
    for ((what, few), (_, many)) in few.into_iter().zip(many) {
        assert!(few > 0, "{target}: {what}");
        assert_eq!(few, many, "{target}: {what}");
    }
}

#[test]
fn an_event_costs_the_agent_nothing_for_pods_that_it_does_not_concern() {
    for target in [VppTarget::Acl, VppTarget::Session] {
        check(target, &PodRule::default(), happens);
    }
}

#[test]
fn nor_does_one_where_pods_name_their_interfaces() {
    let rule = PodRule::Annotation("tap*".parse().unwrap());
    check(VppTarget::Acl, &rule, |count| [happens(count), named()].concat());
}
